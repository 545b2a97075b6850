"""How good a quantized model is.

Both models on the same texts, held to each other and to the labels.
"""
