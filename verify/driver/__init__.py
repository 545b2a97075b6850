"""The simulated accelerator behind a driver that reads and writes its registers."""
