"""The plain Transformer encoder, as torch.nn.TransformerEncoder has it (Vaswani et al., 2017).

docs/models.md has the fields of its config. Here is what its row of quant.foreign.layouts cannot
say by names. A front end of the user's may give rows in place of the embeddings.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from golden.model import RMS_HIDDEN_MAX, TOKENS_MAX, Window
from quant.foreign.config import Options, check
from quant.foreign.tensors import boolean, integer, number
from quant.model.distance import BIAS, Windows, alibi
from quant.model.spec import Arrays, Floats

OWN = "bert2rtl-transformer"
NONE, ALIBI, BUCKETS = BIASES = ("none", "alibi", "buckets")

BASE_MAX = 10**9
"""Of rotary positions; published models have 500 to some millions."""


def sinusoids(positions: int, hidden: int) -> Floats:
    """The position table [P, H]: channel 2i of row p is sin(p / 10000^(2i / H)), 2i + 1 its cosine.

    Computed in float64, given as float32.
    """
    angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(0, hidden, 2) / hidden)
    table = np.empty((positions, hidden))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)[:, : hidden // 2]
    return table.astype(np.float32)


def finish(config: Options, arrays: Arrays, fields: dict[str, Any]) -> None:
    """The tables of tokens and positions, which are zeros where rows take their place, and ALiBi"""
    positions, hidden = fields["positions"], fields["hidden"]
    right = 1 <= positions <= TOKENS_MAX
    check(right, "max_position_embeddings", positions, f"1 to {TOKENS_MAX}, as an accelerator has")
    right = not fields["rms_norm"] or hidden <= RMS_HIDDEN_MAX
    check(right, "hidden_size", hidden, f"at most {RMS_HIDDEN_MAX} with rms_norm")
    if fields["rows"]:
        hidden = len(arrays.get("layer.0.norm1.gamma", ()))
        arrays["embedding.token"] = np.zeros((positions, hidden), np.float32)
        for name in ("vocab_size", "scale_embedding", "sinusoids"):
            check(not config[name], name, config[name], "left out with rows, which have that in")
    else:
        words = arrays["embedding.token"]
        if boolean(config, "scale_embedding"):
            arrays["embedding.token"] = words * np.float32(sqrt(words.shape[1]))
        if boolean(config, "sinusoids", True):
            arrays["embedding.position"] = sinusoids(positions, words.shape[1])
    if config.said("position_bias") == ALIBI:
        arrays[BIAS], fields["position_bias"] = alibi(fields["heads"], positions), True


def _norm(config: Options) -> str:
    names = ("norm_first", "embedding_norm", "final_norm")
    pre, embedding, final = (boolean(config, name) for name in names)
    check(pre == final, "final_norm", final, f"{pre}, as norm_first: operands come from one norm")
    check(pre or embedding, "embedding_norm", embedding, "true without norm_first")
    return "pre" if pre else "post"


def _flag(name: str, default: bool | None = False) -> Callable[[Options], bool]:
    return lambda config: boolean(config, name, default)


def _buckets(config: Options) -> bool:
    kind = config.get("position_bias", NONE)
    check(kind in BIASES, "position_bias", kind, f"one of {', '.join(BIASES)}")
    return bool(kind == BUCKETS)


def _each(config: Options, name: str, several: bool) -> list[Any]:
    """The value of each layer, of a list with one for each or of one for all."""
    value, layers = config[name], integer(config, "num_hidden_layers")
    right = not several or len(value) == layers
    check(right, name, value, f"one for all layers, or a list for the {layers} layers")
    return list(value) if several else [value] * layers


def _bases(config: Options) -> tuple[float | None, ...]:
    """The base of each layer; None where Q and K are not turned."""
    each = _each(config, "rope_theta", isinstance(config["rope_theta"], list))
    for base in each:
        right = base is None or 1 <= number({"rope_theta": base}, "rope_theta") <= BASE_MAX
        check(right, "rope_theta", base, f"a base from 1 to {BASE_MAX:,}")
    return () if each.count(None) == len(each) else tuple(each)


def _windows(config: Options) -> Windows:
    """Of [before, after], for all layers, or of a list with one for each, null for no window."""
    value = config["window"]
    pairs = isinstance(value, list) and (len(value) != 2 or any(isinstance(x, list) for x in value))
    each = [[None, None] if x is None else x for x in _each(config, "window", pairs)]
    right = all(isinstance(x, list) and len(x) == 2 for x in each)
    check(right, "window", value, "[before, after], the keys a query sees, or null for all")
    found = tuple(None if x == [None, None] else Window(*x) for x in each)
    return found if any(found) else ()


CONFIG: dict[str, Callable[[Options], Any]] = {
    "norm": _norm, "position_bias": _buckets, "rotary": _bases, "windows": _windows,
    "given": _flag("rows"), **{name: _flag(name) for name in ("gated", "rms_norm", "rows")},
    "embedding_norm": _flag("embedding_norm", None), "pooling": lambda c: c["pooling"],
    "vocabulary": lambda c: integer(c, "max_position_embeddings" if c["rows"] else "vocab_size"),
}  # fmt: skip
"""Fields of EncoderSpec, and how its options say them."""
