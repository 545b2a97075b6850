"""The exact cycle model."""
