"""The accelerator as a machine in C++: a library that plays inferences on it."""
