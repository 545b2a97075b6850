"""What the units agree on: configuration, command stream, operations and tiles."""
