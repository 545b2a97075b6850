"""What the options of the training commands choose among, where the work itself needs torch."""

from golden.model import Shape

REVIEWS = "reviews"
"""The training texts of both corpora, as --data names them."""

# layers, hidden, heads, feed-forward, positions; HeartBERT has one fused Q, K, V layer, no pooler.
PRESETS = {
    "heartbert": {"layers": 4, "hidden": 256, "heads": 4, "ffn": 1024, "positions": 128},
    "bert-tiny": {"layers": 2, "hidden": 128, "heads": 2, "ffn": 512, "positions": 512},
    "bert-mini": {"layers": 4, "hidden": 256, "heads": 4, "ffn": 1024, "positions": 512},
}

BASE_NAME = "bert-base shape"
SHAPES = {
    "minilm-l6 shape": Shape(6, 384, 12, 32, 1536, 2, 30522, 512, 2),
    BASE_NAME: Shape(12, 768, 12, 64, 3072, 2, 30522, 512, 2),
}
LENGTHS, BATCHES = (128, 221), (1, 32)
BASE_TOKENS = 221  # the length at which the BERT-base figure of the literature was taken
