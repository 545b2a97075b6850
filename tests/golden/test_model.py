import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from golden.encoder import run
from golden.model import Embedding, Linear, Model, Norm, Rotary, Shape, Window
from golden.random import Kind, random_model
from tests import zoo

BERT = zoo.shape("bert-tiny", head_size=5, ffn=16, labels=3, positions=12)
PRE = replace(BERT, layers=1, norm="pre", pooling="mean")
PLAIN = replace(PRE, embedding_norm=False)
EVERY = replace(BERT, norm="pre")
LATE = replace(BERT, position_offset=2)
SHARED = replace(BERT, kv_heads=1)


def with_value(array: np.ndarray, place: Any, value: int) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


MODEL = random_model(BERT, 0)
ATTENTION = MODEL.layers[0].attention
LINEAR = ATTENTION.q  # 10 x 12
WEIGHT, BIAS, M, S = LINEAR.weight, LINEAR.bias, LINEAR.m, LINEAR.s
NORM = Norm(np.zeros(4, np.int16), np.zeros(4, np.int32), 12, 1)
CODES = np.zeros((5, 2), np.int8)
EMBEDDING = Embedding(CODES, CODES[None], 129, 129)
WIDE = Embedding(CODES, CODES[None], 127, 129, token_low=CODES, position_low=CODES[None])
TABLE = np.zeros(256, np.int8)
TURNS = Rotary(*np.zeros((2, 12, 3), np.int16))
LOW = {"table": with_value(TABLE, 7, -128), "table_low": TABLE - np.int8(1)}
FFN = MODEL.layers[0].ffn
GATED = replace(FFN, up=replace(FFN.up, table=None), gate=FFN.up, gate_shift=1)

#: What a number, or every integer of an array, may be.
RANGES: list[tuple[Any, str, int, int]] = [
    (BERT, "layers heads", 1, 255),
    (BERT, "hidden head_size", 1, 1024),
    (BERT, "ffn labels", 1, 65535),
    (BERT, "vocabulary", 1, (1 << 24) - 1),
    (BERT, "types", 0, 2),
    (BERT, "positions", 1, 8192),
    (BERT, "position_offset", 0, 11),
    (replace(BERT, heads=4), "kv_heads", 1, 3),
    (LINEAR, "weight", -127, 127),
    (LINEAR, "m", 1 << 15, 65535),
    (LINEAR, "s", 1, 47),
    (NORM, "shift", 1, 31),
    (NORM, "epsilon", 1, (1 << 50) - 1),
    (replace(NORM, operand_shifts=np.full(4, 8, np.uint8)), "operand_shifts", 1, 8),
    (ATTENTION, "score_m context_m", 1 << 15, 65535),
    (ATTENTION, "score_s context_s", 1, 47),
    (ATTENTION, "residual_shift", 0, 15),
    (FFN, "residual_shift", 0, 15),
    (GATED, "gate_shift", 1, 31),
    (TURNS, "cos sin", -16384, 16384),
    (WIDE, "token_factor position_factor", 1, 255),
    (WIDE, "token position token_low position_low", -127, 127),
    (Window(3, 3), "before after", 0, 8191),
]


@pytest.mark.parametrize(("part", "names", "low", "high"), RANGES)
def test_ranges(part: Any, names: str, low: int, high: int) -> None:
    for name in names.split():
        value = getattr(part, name)
        for bad in (low - 1, high + 1):
            message = re.escape(f" is {bad}; allowed {low}..{high}")
            if not isinstance(value, np.ndarray):
                with pytest.raises(ValueError, match=name + message):
                    replace(part, **{name: bad})
            elif np.array(bad).astype(value.dtype) == bad:
                place = tuple(size - 1 for size in value.shape)
                at = re.escape(str(list(place)))
                with pytest.raises(ValueError, match=name + at + message):
                    replace(part, **{name: with_value(value, place, bad)})
        for odd in () if isinstance(value, np.ndarray) else (True, 2.0, "5"):
            with pytest.raises(ValueError, match=rf"{name} is {odd!r}; allowed .*{low}\.\.{high}"):
                replace(part, **{name: odd})


PARTS: list[tuple[Any, dict[str, Any], str]] = [
    (BERT, {"layers": None}, "shape.layers is None; allowed integers 1..255"),
    (BERT, {"heads": 64, "head_size": 1024}, "heads * shape.head_size is 65536; allowed 1..65535"),
    (replace(BERT, heads=3), {"kv_heads": 2}, "is 2; allowed divisors of shape.heads, 3, and None"),
    (BERT, {"norm": "rms"}, "shape.norm is 'rms'; allowed 'post' and 'pre'"),
    (BERT, {"pooling": "max"}, "shape.pooling is 'max'; allowed 'first', 'mean' and 'none'"),
    (BERT, {"embedding_norm": 1}, "shape.embedding_norm is 1; allowed True and False"),
    (BERT, {"embedding_norm": False}, "allowed is True where shape.norm is 'post'"),
    (LINEAR, {"weight": None}, "weight is NoneType; allowed an array of int8"),
    (LINEAR, {"weight": WEIGHT.astype(np.float32)}, "is float32; allowed an array of int8"),
    (LINEAR, {"weight": [[1]]}, "weight is list; allowed an array of int8"),
    (LINEAR, {"weight": WEIGHT[0]}, "weight has shape (12,); allowed 2 dimensions"),
    (LINEAR, {"weight": WEIGHT[:0]}, "weight has shape (0, 12); allowed 2 dimensions, none of"),
    (LINEAR, {"weight": np.zeros((10, 65536), np.int8)}, "weight has 65536 inputs; allowed 1..655"),
    (LINEAR, {"bias": BIAS[:9]}, "bias has shape (9,); allowed (10,)"),
    (
        LINEAR,
        {"bias": with_value(BIAS, 7, ~-(1 << 31))},
        "channel 7: 128 * sum |weight| + |bias| i",
    ),
    (LINEAR, {"s": None}, "one of m and s is None; allowed both or none"),
    (LINEAR, {"table": TABLE[1:]}, "table has shape (255,); allowed (256,)"),
    (LINEAR, {"table": TABLE, "table_low": TABLE[1:]}, "table_low has shape (255,)"),
    (LINEAR, {"table_low": TABLE}, "table_low is an array and table None; allowed both or none"),
    (LINEAR, LOW, "table_low[7] is -1; allowed 0..127 where table is -128"),
    (NORM, {"gamma": np.zeros(4, np.int32)}, "gamma is int32; allowed an array of int16"),
    (NORM, {"beta": np.zeros(3, np.int32)}, "beta has shape (3,); allowed (4,)"),
    (NORM, {"operand_shifts": np.full(3, 8, np.uint8)}, "has shape (3,); allowed (4,)"),
    (NORM, {"wide": 1}, "wide is 1; allowed True and False"),
    (NORM, {"rms": False}, "rms is False; allowed True and None"),
    (NORM, {"wide": True, "operand_shifts": np.full(4, 8, np.uint8)}, "is None where wide is True"),
    (FFN, {"gate": LINEAR}, "one of gate and gate_shift is None; allowed both or none"),
    (FFN, {"gate": LINEAR, "gate_shift": 1}, "up.table is an array; allowed is None beside a gate"),
    (TURNS, {"sin": TURNS.sin[1:]}, "sin has shape (11, 3); allowed (12, 3)"),
    (EMBEDDING, {"token_factor": 130}, "token_factor + position_factor is 259; allowed 2..258"),
    (EMBEDDING, {"position": CODES}, "has shape (5, 2); allowed 3 dimensions"),
    (EMBEDDING, {"token_low": CODES}, "one of token_low and position_low is None; allowed both or"),
    (WIDE, {"token_low": CODES[:4]}, "token_low has shape (4, 2); allowed (5, 2)"),
    (WIDE, {"position_low": CODES[None, :4]}, "has shape (1, 4, 2); allowed (1, 5, 2)"),
    (WIDE, {"token_factor": 128}, "token_factor + position_factor is 257; allowed 2..256"),
    (Window(0, None), {"before": None}, "before and after are None; allowed is one of them, or no"),
]


@pytest.mark.parametrize(("part", "change", "message"), PARTS)
def test_what_no_part_may_be(part: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        replace(part, **change)
    assert message in str(caught.value)


def test_the_bound_of_the_accumulator_is_sharp() -> None:
    weight = np.full((1, 1), -127, np.int8)
    bias = (1 << 31) - 1 - 128 * 127
    Linear(weight, np.array([bias], np.int32))
    for beyond in (bias + 1, -bias - 1):
        with pytest.raises(ValueError, match="is 2147483648; allowed"):
            Linear(weight, np.array([beyond], np.int32))


def embedding(model: Model, **change: Any) -> dict[str, Any]:
    """The model's with tables of 8 bits, changed."""
    narrow = replace(model.embedding, token_low=None, position_low=None, **change)
    return {"embedding": narrow}


def layer(model: Model, place: int = 0, **change: Any) -> dict[str, Any]:
    layers = list(model.layers)
    layers[place] = replace(layers[place], **change)
    return {"layers": tuple(layers)}


def attention(model: Model, **change: Any) -> dict[str, Any]:
    return layer(model, attention=replace(model.layers[0].attention, **change))


def projection(shape: Shape, size: int) -> Linear | None:
    return random_model(shape, 0, Kind(embedding_size=size)).projection


def head(model: Model, *layers: int) -> tuple[Linear, ...]:
    return tuple(model.head[place] for place in layers)


SHORT = replace(LINEAR, weight=WEIGHT[:3], bias=BIAS[:3], m=M[:3], s=S[:3])
FIVE = projection(BERT, 5)
BARE = replace(LINEAR, m=None, s=None)
NARROW = projection(replace(BERT, hidden=11), 5)
BROAD = projection(replace(BERT, hidden=13), 13)
SCORES = np.zeros((2, 23), np.int16)

MODELS: list[tuple[Shape, Callable[[Model], dict[str, Any]], str]] = [
    (BERT, lambda m: {"layers": m.layers[:1]}, "layers counts 1; allowed 2"),
    (BERT, lambda m: embedding(m, token=m.embedding.token[1:]), "(29, 12); allowed (30, 12)"),
    (BERT, lambda m: embedding(m, position=m.embedding.position[:1]), "(1, 12, 12); allowed (2, 1"),
    (BERT, lambda m: embedding(m, norm=None), "embedding.norm is None; allowed is a norm"),
    (BERT, lambda _: {"final_norm": NORM}, "final_norm is a norm; allowed is None"),
    (PRE, lambda _: {"final_norm": None}, "final_norm is None; allowed is a norm"),
    (BERT, lambda m: layer(m, norm2=NORM), "layer.0.norm2.gamma has shape (4,); allowed (12,)"),
    (BERT, lambda m: layer(m, norm1=None), "layer.0.norm1 is None; allowed is that in layer 0"),
    (PLAIN, lambda m: layer(m, norm1=None), "layer.0.norm1 is None; allowed is that in layer 0"),
    (EVERY, lambda m: layer(m, 1, norm1=None), "layer.1.norm1 is None; allowed is that in layer 0"),
    (BERT, lambda m: attention(m, o=LINEAR), "attention.o.weight has shape (10, 12); allowed (12,"),
    (BERT, lambda m: attention(m, q=BARE), "attention.q.m is None; allowed is an array of 10"),
    # 255 * 12 tokens is a sum of 12 bits: s_row = s + 16 + 11 - 15 <= 47
    (BERT, lambda m: attention(m, context_s=36), "attention.context_s is 36; allowed 1..35"),
    (PRE, lambda _: {"mean_s": 36}, "mean_s is 36; allowed 1..35"),
    (PRE, lambda _: {"mean_m": 1}, "mean_m is 1; allowed 32768..65535"),
    (PRE, lambda _: {"mean_m": None}, "mean_m or mean_s is None; allowed are integers"),
    (BERT, lambda _: {"mean_m": 1 << 15}, "allowed is None unless pooling is 'mean'"),
    (BERT, lambda _: {"head": ()}, "head has no layer; allowed one or more"),
    (
        BERT,
        lambda m: {"head": head(m, 1), "head_norm": m.embedding.norm},
        "head_norm has 0 channel",
    ),
    (BERT, lambda _: {"head_norm": NORM}, "head_norm.gamma has shape (4,); allowed (12,)"),
    (BERT, lambda m: {"head": head(m, 0)}, "head.0.weight has shape (12, 12); allowed (3, 12)"),
    (BERT, lambda m: {"head": head(m, 1, 1)}, "head.0.m is None; allowed is an array of 3"),
    (BERT, lambda _: {"head": (SHORT,)}, "head.0 has m, s or a table; allowed none, it gives the"),
    (PRE, lambda _: {"projection": NARROW}, "projection reads 5 channels with norm 'pre'; allowed"),
    (BERT, lambda _: {"projection": BROAD}, "projection reads 13 channels with norm 'post'; allow"),
    (BERT, lambda _: {"projection": FIVE}, "q.weight has shape (10, 12); allowed (10, 5)"),
    (BERT, lambda _: {"projection": NARROW}, "projection.weight has shape (11, 5); allowed (12, 5"),
    (BERT, lambda _: {"position_bias": SCORES * 1.0}, "is float64; allowed an array of int16"),
    (BERT, lambda _: {"position_bias": SCORES[:, 1:]}, "has shape (2, 22); allowed (2, 23)"),
    (LATE, lambda _: {"position_bias": SCORES}, "position_bias has shape (2, 23); allowed (2, 19)"),
    (
        SHARED,
        lambda _: {"position_bias": SCORES},
        "allowed is None with 1 heads of K and V for 2 of",
    ),
    (BERT, lambda _: {"rotary": ()}, "rotary counts 0; allowed 1..2, or None"),
    (BERT, lambda _: {"rotary": (TURNS,) * 3}, "rotary counts 3; allowed 1..2, or None"),
    (BERT, lambda _: {"rotary": (TURNS,)}, "shape.head_size is 5; allowed is an even one with rot"),
    (replace(LATE, head_size=6), lambda _: {"rotary": (TURNS,)}, "(12, 3); allowed (10, 3)"),
    (replace(BERT, head_size=8), lambda _: {"rotary": (TURNS,)}, "(12, 3); allowed (12, 4)"),
    (BERT, lambda m: layer(m, 1, rotary=0), "layer.1.rotary is 0; allowed is None, the model has"),
    (
        replace(BERT, head_size=6),
        lambda m: layer(m, rotary=2) | {"rotary": (TURNS, TURNS)},
        "layer.0.rotary is 2; allowed is None and 0..1",
    ),
    *(
        (
            BERT,
            lambda m, x=x: attention(m, **{x: replace(getattr(ATTENTION, x), table=TABLE)}),
            f"layer.0.attention.{x}.table is an array; allowed is None",
        )
        for x in "qkvo"
    ),
    (
        BERT,
        lambda m: layer(m, ffn=replace(FFN, down=m.head[0])),
        "shape (12, 12); allowed (12, 16)",
    ),
]


@pytest.mark.parametrize(("shape", "change", "message"), MODELS)
def test_what_no_model_may_be(
    shape: Shape, change: Callable[[Model], dict[str, Any]], message: str
) -> None:
    model = random_model(shape, 0)
    with pytest.raises(ValueError) as caught:
        replace(model, **change(model))
    assert message in str(caught.value)


def test_wide_operands_where_there_may_be_none() -> None:
    projected = random_model(BERT, 0, Kind(embedding_size=5))
    norm = replace(projected.embedding.norm, operand_shifts=None, wide=True)
    with pytest.raises(ValueError, match=r"embedding\.norm\.wide is True; allowed is False before"):
        replace(projected, embedding=replace(projected.embedding, norm=norm))
    wide = random_model(BERT, 0, Kind(precise=True))
    first = replace(wide.head[0], table=TABLE, table_low=TABLE)
    with pytest.raises(ValueError, match=r"head\.0\.table_low is an array; allowed only for ffn"):
        replace(wide, head=(first, *wide.head[1:]))


def test_the_bound_of_two_passes() -> None:
    """What an int8 operand may have is too much for a wide one."""
    wide = random_model(BERT, 0, Kind(precise=True))
    ffn = wide.layers[0].ffn
    room = (1 << 31) - 1 - int(128 * np.abs(ffn.down.weight[0].astype(int)).sum())
    down = replace(ffn.down, bias=with_value(ffn.down.bias, 0, room))
    message = r"layer\.0\.ffn\.down: 129 \* sum \|weight\| \+ \|bias\| \+ 1 is 2147"
    with pytest.raises(ValueError, match=message):
        replace(wide, **layer(wide, ffn=replace(ffn, down=down)))


def test_the_largest_context_shift_still_runs() -> None:
    """s_row reaches 47 and no more when every key has p = 255."""
    model = replace(MODEL, **attention(MODEL, context_s=35))
    trace: dict[str, np.ndarray] = {}
    run(model, [1] * 12, trace=trace)
    assert trace["layer.0.row_s"].max() <= 47
