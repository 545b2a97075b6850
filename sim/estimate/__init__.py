"""What an accelerator will cost and how fast it will be, without synthesis or simulation."""
