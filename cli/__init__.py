"""What all commands share: exit codes, errors, files, progress. Imports nothing of the project."""
