"""Random clients and streams on the accelerator: nothing hangs, nothing lies."""
