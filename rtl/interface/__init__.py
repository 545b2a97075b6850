"""Shared definitions of the units: configuration, command stream, operations and tiles."""
