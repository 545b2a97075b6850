"""The accelerator in Amaranth, one component per golden function."""
