"""Reads the command stream and the embedding rows from memory, as an AXI4 master."""
