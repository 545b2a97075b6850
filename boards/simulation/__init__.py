"""The boards in simulation: chips in C++ around the gateware's Verilog."""
