"""What others wrote, as they meant it.

Config, weights and tokenizer of a checkpoint to EncoderSpec and arrays.
"""
