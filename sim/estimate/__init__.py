"""Cost and speed of an accelerator, without synthesis or simulation."""
