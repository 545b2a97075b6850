"""What a model is on both sides of the quantization: its description, the float reference."""
