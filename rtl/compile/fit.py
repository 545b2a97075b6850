"""Whether a model fits a configuration, and which configuration takes a model."""

from __future__ import annotations

from golden.model import Model, Shape
from rtl.interface.config import Config, ceil_div

BANKS = 4


class FitError(ValueError):
    """The model does not fit the configuration; the message says where and why."""


def fitting(shape: Shape, lanes: int, tokens: int) -> Config:
    """A configuration that takes the model: the default limits, or more where it needs more.

    Raises
    ------
    ValueError
        No configuration takes it; the message names the limit.
    """
    least = Config(lanes=lanes)
    value_width = shape.heads * ceil_div(shape.head_size, lanes) * lanes
    return Config(
        lanes=lanes,
        tokens=max(least.tokens, tokens),
        hidden=max(least.hidden, shape.hidden, value_width),
        ffn=max(least.ffn, shape.ffn),
        labels=max(least.labels, shape.labels),
    )


def longest_sequence(model: Model, config: Config) -> int:
    """The longest sequence that model and configuration take."""
    shape, n = model.shape, config.lanes
    inner = shape.inner
    widest = max(config.hidden, config.ffn)
    wide = [layer.weight.shape for layer in model.head]
    for what, value, most, limit in (
        ("hidden size", shape.hidden, config.hidden, "hidden"),
        ("feed-forward size", shape.ffn, config.ffn, "ffn"),
        ("number of labels", shape.labels, config.labels, "labels"),
        ("attention width (heads * head size)", inner, widest, "hidden"),
        ("head size", shape.head_size, config.hidden, "hidden"),
        ("widest head layer", max(max(pair) for pair in wide[:-1] or [(1, 1)]), widest, "ffn"),
    ):
        if value > most:
            raise FitError(
                f"{what} is {value}, the configuration's {limit} takes {most}: "
                f"generate one with {limit}={value} or more"
            )
    between = max((outputs for outputs, _ in wide[:-1]), default=1)
    if between > config.bank_words:
        raise FitError(
            f"widest hidden layer of the head is {between}, a bank has {config.bank_words} words: "
            "generate with more tokens"
        )
    value_width = shape.heads * ceil_div(shape.head_size, n) * n
    if shape.pooling == "mean":
        value_width = max(value_width, ceil_div(shape.hidden, n) * n)
    row_tiles = min(
        config.x_words // shape.hidden,
        config.bank_words // max(inner, value_width),
        BANKS * config.bank_words // shape.ffn,
        config.row_tiles,
    )
    if row_tiles == 0:
        raise FitError(
            f"one row tile of V takes {value_width} words and of the feed-forward layer "
            f"{shape.ffn}, the banks have {BANKS} x {config.bank_words}: generate with more tokens"
        )
    return min(shape.tokens, config.tokens, row_tiles * n)
