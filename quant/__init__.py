"""From a floating-point checkpoint to the quantized model."""
