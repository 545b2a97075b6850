"""The mechanisms beyond the plain encoder, where they are asked for: an option of `Config` each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from golden.model import Model

HEADS_MAX = 255
PAIRS_MAX = 1024


class Mechanism(NamedTuple):
    """An option of `Config`.

    Attributes
    ----------
    name
        Field of `Config`.
    what
        What it gives a model.
    help
        Of the option.
    needed
        How much of it a model needs; of a switch, whether it does.
    most
        The largest value; 0: it is a switch.
    """

    name: str
    what: str
    help: str
    needed: Callable[[Model], int]
    most: int = 0


MECHANISMS = (
    Mechanism(
        "precise",
        "16-bit operands",
        "activations of 16 bits, in two passes",
        lambda model: model.precise,
    ),
    Mechanism(
        "bias_heads",
        "heads of a position bias",
        "heads of a position bias; default: none",
        lambda model: 0 if model.position_bias is None else len(model.position_bias),
        HEADS_MAX,
    ),
    Mechanism(
        "gated",
        "gated feed-forward networks",
        "gated feed-forward networks: the product of two linear layers",
        lambda model: any(layer.ffn.gate is not None for layer in model.layers),
    ),
    Mechanism(
        "rotary_pairs",
        "pairs of rotary positions",
        "pairs of channels of all tables of rotary positions; default: none",
        lambda model: sum(table.cos.shape[1] for table in model.rotary or ()),
        PAIRS_MAX,
    ),
)


def needs(*models: Model) -> dict[str, int]:
    """The options without which hardware does not take all these models, by name."""
    return {one.name: max(one.needed(model) for model in models) for one in MECHANISMS}
