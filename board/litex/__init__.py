"""The accelerator in a LiteX SoC."""
