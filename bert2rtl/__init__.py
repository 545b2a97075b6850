"""The front door: the command `bert2rtl`."""
