"""Whether a model fits a configuration, and which configuration takes a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cli.errors import UserError

from golden.model import Model, Shape
from rtl.interface.command import WINDOW_SIDE_MAX
from rtl.interface.config import Config, ceil_div
from rtl.interface.options import LIMITS

BANKS = 4


class FitError(UserError):
    """The model does not fit the configuration; the message says where and why."""


def fitting(
    shape: Shape,
    lanes: int,
    tokens: int,
    *,
    columns: int | None = None,
    precise: bool = False,
    bias_heads: int = 0,
    gated: bool = False,
    rotary_pairs: int = 0,
) -> Config:
    """A configuration that takes the model: the default limits, or more where it needs more.

    Raises
    ------
    ValueError
        No configuration takes it; the message names the limit.
    """
    minimum = Config(
        lanes=lanes,
        columns=columns,
        precise=precise,
        bias_heads=bias_heads,
        gated=gated,
        rotary_pairs=rotary_pairs,
    )
    value_width = _value_tiles(shape, lanes) * lanes
    found = replace(
        minimum,
        tokens=max(minimum.tokens, tokens),
        hidden=max(minimum.hidden, shape.hidden, value_width),
        ffn=max(minimum.ffn, shape.ffn),
        labels=max(minimum.labels, shape.labels),
    )
    return replace(found, labels=max(found.labels, needed_labels(shape, found)))


def fitting_model(model: Model, lanes: int, tokens: int, *, columns: int | None = None) -> Config:
    """As `fitting`, with what the model has: 16-bit operands, position bias, gates."""
    return fitting(
        model.shape,
        lanes,
        tokens,
        columns=columns,
        precise=model.precise,
        bias_heads=biased_heads(model),
        gated=has_gates(model),
        rotary_pairs=pairs_of(model),
    )


def biased_heads(model: Model) -> int:
    """Heads of the model's position bias, 0 without one."""
    return 0 if model.position_bias is None else len(model.position_bias)


def windowed(model: Model) -> bool:
    """Some layer has an attention window."""
    return any(layer.window is not None for layer in model.layers)


def has_gates(model: Model) -> bool:
    """Some feed-forward network is gated."""
    return any(layer.ffn.gate is not None for layer in model.layers)


def pairs_of(model: Model) -> int:
    """Pairs of channels of all the model's tables of rotary positions, 0 without one."""
    return sum(table.cos.shape[1] for table in model.rotary or ())


def fixed_tokens(model: Model, info: Mapping[str, Any]) -> int:
    """Tokens of every input of a model of images, by its description; 0 where lengths differ."""
    spec = info.get("spec") or {}
    return model.shape.tokens if spec.get("given") and not spec.get("rows") else 0


def sized(models: Sequence[Model], given: Mapping[str, Any], fixed: int = 0) -> Config:
    """The accelerator for these models: limits that are not given are what they need.

    given
        Fields of Config, of its limits those that were asked for. Without `tokens` the longest
        sequence is the default's, or the models' where that is shorter; labels are not fewer than
        the default's.
    fixed
        Tokens that it must take at least, the most of `fixed_tokens`.

    Raises
    ------
    FitError
        Limits that were given are too small: all of them, and what is needed.
    ValueError
        More tokens than a model has positions for; or as Config says.
    """
    plain = Config(**{name: x for name, x in given.items() if name not in LIMITS})
    longest = max(model.shape.tokens for model in models)
    tokens = given.get("tokens", max(fixed, min(plain.tokens, longest)))
    if tokens > longest:
        raise UserError(f"--tokens is {tokens}: the model takes 1..{longest}")
    hidden = max(_widest(model, plain.lanes) for model in models)
    wide = [max(pair) for m in models for pair in (x.weight.shape for x in m.head[:-1])]
    ffn = max([*(model.shape.ffn for model in models), *(w for w in wide if w > hidden)])
    precise = plain.precise or any(model.precise for model in models)
    least = max(map(biased_heads, models))
    heads = plain.bias_heads or least
    fewest = max(map(pairs_of, models))
    found = replace(
        plain,
        tokens=tokens,
        hidden=hidden,
        ffn=ffn,
        precise=precise,
        bias_heads=heads,
        gated=plain.gated or any(map(has_gates, models)),
        rotary_pairs=plain.rotary_pairs or fewest,
    )
    labels = max(needed_labels(model.shape, found) for model in models)
    needed = {"tokens": fixed, "hidden": hidden, "ffn": ffn, "labels": labels}
    needed |= {"bias_heads": least, "rotary_pairs": fewest}
    small = [name for name, value in needed.items() if given.get(name) and given[name] < value]
    if small:
        options = {name: f"--{name.replace('_', '-')}" for name in small}
        asked = ", ".join(f"{options[name]} {given[name]}" for name in small)
        right = " ".join(f"{options[name]} {needed[name]}" for name in small)
        raise FitError(
            f"{asked} too small for the model: give `{right}`, or leave "
            f"{'it' if len(small) == 1 else 'them'} away for what the model needs"
        )
    limits = {name: given.get(name, needed[name]) for name in ("hidden", "ffn", "labels")}
    return replace(found, **limits | {"labels": given.get("labels", max(labels, plain.labels))})


def _widest(model: Model, lanes: int) -> int:
    """Channels of the hidden state or of V, whose heads are padded."""
    shape = model.shape
    return max(shape.hidden, _value_tiles(shape, lanes) * lanes)


def _value_tiles(shape: Shape, lanes: int) -> int:
    """Words of a token's V, whose heads are padded."""
    return shape.kv_inner // shape.head_size * ceil_div(shape.head_size, lanes)


def needed_labels(shape: Shape, config: Config) -> int:
    """The least `labels` of a configuration like this that takes its tokens with this model."""
    if shape.pooling != "none":
        return shape.labels
    return ceil_div(shape.labels * config.row_tiles, config.gathered_tiles)


def longest_sequence(model: Model, config: Config) -> int:
    """The longest sequence that model and configuration take."""
    shape, n = model.shape, config.lanes
    inner = shape.inner
    widest = max(config.hidden, config.ffn)
    wide = [layer.weight.shape for layer in model.head]
    for what, value, maximum, limit in (
        ("hidden size", shape.hidden, config.hidden, "hidden"),
        ("feed-forward size", shape.ffn, config.ffn, "ffn"),
        ("number of labels", shape.labels, config.labels, "labels"),
        ("attention width (heads * head size)", inner, widest, "hidden"),
        ("head size", shape.head_size, config.hidden, "hidden"),
        ("widest head layer", max(max(pair) for pair in wide[:-1] or [(1, 1)]), widest, "ffn"),
    ):
        if value > maximum:
            raise FitError(
                f"{what} is {value}, the configuration's {limit} takes {maximum}: "
                f"generate one with {limit}={value} or more"
            )
    if model.precise and not config.precise:
        raise FitError(
            "the model's operands have 16 bits, the configuration's 8: generate one with precise"
        )
    if biased_heads(model) > config.bias_heads:
        raise FitError(
            f"the model's position bias has {shape.heads} heads, the configuration's bias_heads "
            f"takes {config.bias_heads}: generate one with bias_heads={shape.heads} or more"
        )
    if pairs_of(model) > config.rotary_pairs:
        raise FitError(
            f"the model's tables of rotary positions have {pairs_of(model)} pairs, the "
            f"configuration's rotary_pairs takes {config.rotary_pairs}: generate one with "
            f"rotary_pairs={pairs_of(model)} or more"
        )
    if has_gates(model) and not config.gated:
        raise FitError(
            "the model's feed-forward networks are gated, the configuration takes no gate: "
            "generate one with gated"
        )
    between = _between(model)
    if between > config.bank_words:
        raise FitError(
            f"widest hidden layer of the head is {between}, a bank has {config.bank_words} words: "
            "generate with more tokens"
        )
    row_tiles = _row_tiles(model, config)
    if row_tiles == 0:
        raise FitError(
            f"one row tile of V takes {_value_words(model, config, 1)} words and of the "
            f"feed-forward layer {shape.ffn}, the banks have {BANKS} x {config.bank_words}: "
            "generate with more tokens"
        )
    tokens = min(shape.tokens, config.tokens, row_tiles * n)
    for number, layer in enumerate(model.layers):
        for name in ("before", "after"):
            side = None if layer.window is None else getattr(layer.window, name)
            if side is not None and WINDOW_SIDE_MAX < side < tokens - 1:
                raise FitError(
                    f"layer.{number}.window.{name} is {side}: the stream has 0 to "
                    f"{WINDOW_SIDE_MAX} or no limit, which {side} is to {side + 1} tokens: "
                    f"generate one with tokens={side + 1} or fewer"
                )
    return tokens


def most_row_tiles(model: Model, config: Config) -> int:
    """Row tiles that the sequences of a batch may take together."""
    # Where nothing gathers them, a hidden layer of the head has a row tile for each of them.
    return min(_row_tiles(model, config), config.ways * (config.bank_words // _between(model)))


def _between(model: Model) -> int:
    """Outputs of the widest hidden layer of the head."""
    return max((layer.weight.shape[0] for layer in model.head[:-1]), default=1)


def _row_tiles(model: Model, config: Config) -> int:
    """Row tiles of a sequence that the memories have room for."""
    shape, ways = model.shape, config.ways
    room = [
        config.x_words // shape.hidden,
        ways * (config.x8_words // shape.hidden),
        ways * (config.bank_words // shape.inner),
        config.bank_words // _value_words(model, config, 1),
        ways * (BANKS * config.bank_words // shape.ffn),
        config.row_tiles,
    ]
    if shape.pooling == "none":  # the head computes all of them
        room += [ways * (config.bank_words // _between(model)), config.logit_words // shape.labels]
    return min(room)


def _value_words(model: Model, config: Config, row_tiles: int) -> int:
    """Words of so many row tiles of V, whose heads are padded, in the fullest way."""
    shape, n = model.shape, config.lanes
    words = _value_tiles(shape, n)
    if shape.pooling == "mean":
        words = max(words, ceil_div(shape.hidden, n))
    return ceil_div(words, config.ways) * row_tiles * n
