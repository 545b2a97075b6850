"""How good a quantized model is: both on the same texts, held to each other and the labels."""
