"""Files of other projects, read as these mean them.

Config, weights and tokenizer of a checkpoint to EncoderSpec and arrays.
"""
