"""What decides: the command stream, the loops, the surroundings."""
