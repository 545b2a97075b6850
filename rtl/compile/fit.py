"""The fit of a model to a configuration, and the configuration that takes a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cli.errors import UserError

from golden.model import Model, Shape
from rtl.interface.command import WINDOW_SIDE_MAX
from rtl.interface.config import BANKS, Config, ceil_div
from rtl.interface.mechanisms import MECHANISMS, needs
from rtl.interface.options import LIMITS


class FitError(UserError):
    """The model does not fit the configuration; the message says where and why."""


def fitting(shape: Shape, lanes: int, tokens: int, **choices: Any) -> Config:
    """A configuration that takes the model: the default limits, or more where it needs more.

    Raises
    ------
    ValueError
        No configuration takes it; the message names the limit.
    """
    least = Config(lanes=lanes, **choices)
    found = replace(
        least,
        tokens=max(least.tokens, tokens),
        hidden=max(least.hidden, _widest(shape, lanes)),
        ffn=max(least.ffn, shape.ffn),
        labels=max(least.labels, shape.labels),
    )
    return replace(found, labels=max(found.labels, needed_labels(shape, found)))


def fitting_model(model: Model, lanes: int, tokens: int, *, columns: int | None = None) -> Config:
    """A configuration as `fitting` gives it, with what the model needs."""
    return fitting(model.shape, lanes, tokens, columns=columns, **needs(model))


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
    hidden = max(_widest(model.shape, plain.lanes) for model in models)
    wide = [max(pair) for m in models for pair in (x.weight.shape for x in m.head[:-1])]
    ffn = max([*(model.shape.ffn for model in models), *(w for w in wide if w > hidden)])
    least = needs(*models)
    choices: dict[str, Any] = {name: getattr(plain, name) or value for name, value in least.items()}
    found = replace(plain, tokens=tokens, hidden=hidden, ffn=ffn, **choices)
    labels = max(needed_labels(model.shape, found) for model in models)
    needed = {"tokens": fixed, "hidden": hidden, "ffn": ffn, "labels": labels}
    needed |= {one.name: least[one.name] for one in MECHANISMS if one.most}
    small = [name for name, value in needed.items() if given.get(name) and given[name] < value]
    if small:
        options = {name: f"--{name.replace('_', '-')}" for name in small}
        asked = ", ".join(f"{options[name]} {given[name]}" for name in small)
        right = " ".join(f"{options[name]} {needed[name]}" for name in small)
        without = "it" if len(small) == 1 else "them"
        raise FitError(f"{asked} too small for the model: give `{right}`, or leave {without} out")
    limits = {name: given.get(name, needed[name]) for name in ("hidden", "ffn", "labels")}
    return replace(found, **limits | {"labels": given.get("labels", max(labels, plain.labels))})


def _widest(shape: Shape, lanes: int) -> int:
    """Channels of the hidden state or of V, whose heads are padded."""
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
    wide = [layer.weight.shape for layer in model.head]
    for what, value, maximum, limit in (
        ("hidden size", shape.hidden, config.hidden, "hidden"),
        ("feed-forward size", shape.ffn, config.ffn, "ffn"),
        ("number of labels", shape.labels, config.labels, "labels"),
        ("attention width (heads * head size)", shape.inner, config.widest, "hidden"),
        ("head size", shape.head_size, config.hidden, "hidden"),
        (
            "widest head layer",
            max(max(pair) for pair in wide[:-1] or [(1, 1)]),
            config.widest,
            "ffn",
        ),
    ):
        if value > maximum:
            raise FitError(
                f"{what} is {value}, the configuration's {limit} takes {maximum}: "
                f"generate one with --{limit} {value} or more"
            )
    for one in MECHANISMS:
        needed, has = one.needed(model), getattr(config, one.name)
        if needed > has:
            amount, value = (f"{needed} ", f" {needed} or more") if one.most else ("", "")
            option = f"--{one.name.replace('_', '-')}{value}"
            raise FitError(
                f"the model needs {amount}{one.what}, the configuration has "
                f"{has or 'none'}: generate one with {option}"
            )
    between = _between(model)
    if between > config.bank_words:
        raise FitError(
            f"widest hidden layer of the head is {between}, a bank has {config.bank_words} words: "
            "generate one with a larger --tokens"
        )
    row_tiles = _row_tiles(model, config)
    if row_tiles == 0:
        raise FitError(
            f"one row tile of V takes {_value_words(model, config)} words and of the "
            f"feed-forward layer {shape.ffn}, the banks have {BANKS} x {config.bank_words}: "
            "generate one with a larger --tokens"
        )
    tokens = min(shape.tokens, config.tokens, row_tiles * n)
    for number, layer in enumerate(model.layers):
        for name in ("before", "after"):
            side = None if layer.window is None else getattr(layer.window, name)
            if side is not None and WINDOW_SIDE_MAX < side < tokens - 1:
                raise FitError(
                    f"layer.{number}.window.{name} is {side}: the stream has 0 to "
                    f"{WINDOW_SIDE_MAX} or no limit, which {side} is to {side + 1} tokens: "
                    f"generate one with --tokens {side + 1} or fewer"
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
        config.bank_words // _value_words(model, config),
        ways * (BANKS * config.bank_words // shape.ffn),
        config.row_tiles,
    ]
    if shape.pooling == "none":  # the head computes all of them
        room += [ways * (config.bank_words // _between(model)), config.logit_words // shape.labels]
    return min(room)


def _value_words(model: Model, config: Config) -> int:
    """Words of a row tile of V, whose heads are padded, in the fullest way."""
    shape, n = model.shape, config.lanes
    words = _value_tiles(shape, n)
    if shape.pooling == "mean":
        words = max(words, ceil_div(shape.hidden, n))
    return ceil_div(words, config.ways) * n
