"""Synthesis, placement and timing with open tools."""
