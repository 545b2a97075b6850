"""The families that `train.finetune --family` knows by name, and the options that one alone has."""

import argparse
from typing import Any

from cli.options import Parser, positive, whole

from quant.model.spec import NORMS

BERT, TRANSFORMER, ROBERTA = "bert", "transformer", "roberta"
ELECTRA, ALBERT, DISTILBERT = "electra", "albert", "distilbert"
NAMES = (BERT, TRANSFORMER, ROBERTA, ELECTRA, ALBERT, DISTILBERT)
FACTORISED = ELECTRA, ALBERT
EMBEDDING_SIZE = 64
POOLINGS = ("first", "mean")
ACTIVATIONS = ("relu", "gelu")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""Tokens of a RoBERTa's vocabulary; their ids are 0, 1, ..."""
FEWEST_TOKENS = len(SPECIAL) + 256
TOKENS = 8192


def add_relatives(parser: Parser) -> None:
    """The option of a factorised embedding; not given, it is no part of the namespace."""
    group = parser.add_argument_group(f"model of --family {' or '.join(FACTORISED)}")
    absent: Any = {"default": argparse.SUPPRESS}
    group.add_argument(
        "--embedding-size",
        type=positive,
        metavar="E",
        help="channels of the embedding, --hidden at most "
        f"({EMBEDDING_SIZE}, or --hidden where it is less)",
        **absent,
    )


def add_roberta(parser: Parser) -> None:
    """The option of a new model of this family; not given, it is no part of the namespace."""
    group = parser.add_argument_group(f"model of --family {ROBERTA}")
    absent: Any = {"default": argparse.SUPPRESS}
    group.add_argument(
        "--vocab-size",
        type=whole(FEWEST_TOKENS),
        metavar="N",
        help="tokens of the byte-level BPE, which is made of the training texts "
        f"({TOKENS:,}, or as many as the texts give)",
        **absent,
    )


def add_transformer(parser: Parser) -> None:
    """The options of a new model of this family; those not given are no part of the namespace."""
    group = parser.add_argument_group(f"model of --family {TRANSFORMER}")
    absent: Any = {"default": argparse.SUPPRESS}
    group.add_argument(
        "--norm",
        choices=NORMS,
        help="pre: LayerNorm before each branch, and one at the end; post: after it, and one on "
        "the embedding (pre)",
        **absent,
    )
    group.add_argument(
        "--pooling", choices=POOLINGS, help="tokens that the classifier reads (mean)", **absent
    )
    group.add_argument(
        "--activation", choices=ACTIVATIONS, help="of the feed-forward (relu)", **absent
    )
    group.add_argument(
        "--unscaled",
        action="store_true",
        help="token embeddings as they are, not times sqrt(hidden)",
        **absent,
    )


def add_families(parser: Parser) -> None:
    """The options that one family alone has."""
    add_transformer(parser)
    add_roberta(parser)
    add_relatives(parser)
