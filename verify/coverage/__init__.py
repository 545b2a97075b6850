"""Coverage of the accelerator by its checks: lines, branches, toggles, and its rules."""
