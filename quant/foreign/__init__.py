"""Files of other projects, read as these mean them.

Config, weights and tokenizer of a checkpoint to EncoderSpec and arrays.
"""

import os

# Before transformers is imported: it would say that there is no torch, which nothing here needs.
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
