"""The accelerator as a machine in C++: what stands around it, and the programs that play on it."""
