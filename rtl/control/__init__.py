"""Control: the command stream, the loops, the surroundings."""
