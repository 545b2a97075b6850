"""Benches: packing, vectors, stream drivers and one cocotb bench per unit."""
