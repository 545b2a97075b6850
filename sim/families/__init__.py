"""Yosys on families of FPGAs beside the ECP5: what a unit takes of each."""
