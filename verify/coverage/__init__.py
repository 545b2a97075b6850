"""What the checks of the accelerator reach: lines, branches, toggles, and its rules."""
