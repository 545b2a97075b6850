"""Gateware around the accelerator on an FPGA board."""
