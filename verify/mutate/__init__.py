"""Mutation testing: one bit of a netlist changed at a time, and whether the bench sees it."""
