"""The parts of a board around the accelerator: gateware, bitstream, host programs, simulation."""
