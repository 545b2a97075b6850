"""The accelerator in a C++ program, at the full speed of Verilator."""
