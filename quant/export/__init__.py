"""A quantized model for use without Python: C source."""
