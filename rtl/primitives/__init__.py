"""Building blocks of every unit: registers, memories, and the check of parameters."""
