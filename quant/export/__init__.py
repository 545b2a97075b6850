"""A quantized model for use without Python: C source, or an ONNX graph of integers."""
