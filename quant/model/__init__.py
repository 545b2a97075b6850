"""What a model is on both sides of the quantization.

Its description, the float reference, the integer model with its tokenizer.
"""
