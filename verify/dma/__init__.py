"""The accelerator with DMA on a simulated memory."""
