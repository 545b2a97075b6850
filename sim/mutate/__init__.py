"""Mutation testing: one bit of a unit's netlist changed at a time, and whether its bench sees it."""
