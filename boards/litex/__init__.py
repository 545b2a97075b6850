"""The accelerator in a LiteX SoC, simulated as LiteX does, with the C driver on its CPU."""
