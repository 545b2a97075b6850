"""What a board needs around the accelerator: gateware, bitstream, host programs, simulation."""
