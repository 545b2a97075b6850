"""What every unit is made of: registers, memories, and the check of parameters."""
