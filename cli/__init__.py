"""Shared by all commands: exit codes, errors, files, progress. Imports nothing of the project."""
