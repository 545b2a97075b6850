from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from golden.model import Attention, Embedding, Layer, Linear, Model, Norm, Rotary, Shape
from golden.random import random_model
from tests import zoo

BERT = zoo.shape("bert-tiny", head_size=5, ffn=16, labels=3, positions=12)
PRE = replace(BERT, layers=1, norm="pre", pooling="mean")
PLAIN = replace(PRE, embedding_norm=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 1025}, r"shape\.hidden is 1025; allowed 1\.\.1024"),
        ({"layers": 0}, r"shape\.layers is 0; allowed 1\.\.255"),
        ({"heads": 2.0}, r"shape\.heads is 2\.0; allowed integers 1\.\.255"),
        ({"positions": 8193}, r"shape\.positions is 8193; allowed 1\.\.8192"),
        ({"positions": "512"}, r"shape\.positions is '512'; allowed integers 1\.\.8192"),
        ({"position_offset": 12}, r"shape\.position_offset is 12; allowed 0\.\.11"),
        ({"types": 3}, r"shape\.types is 3; allowed 0\.\.2"),
        ({"vocabulary": 1 << 24}, r"shape\.vocabulary is 16777216; allowed 1\.\.16777215"),
        (
            {"heads": 64, "head_size": 1024},
            r"shape\.heads \* shape\.head_size is 65536; allowed 1\.\.65535",
        ),
        ({"labels": True}, r"shape\.labels is True; allowed 1\.\.65535"),
        ({"norm": "rms"}, r"shape\.norm is 'rms'; allowed 'post' and 'pre'"),
        ({"pooling": "max"}, r"shape\.pooling is 'max'; allowed 'first', 'mean' and 'none'"),
        ({"embedding_norm": 1}, r"shape\.embedding_norm is 1; allowed True and False"),
        ({"embedding_norm": False}, "allowed is True where shape.norm is 'post'"),
    ],
)
def test_shape(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(BERT, **change)


def test_lengths_of_a_shape() -> None:
    assert replace(BERT, position_offset=2).tokens == 10
    assert BERT.inner == 10


def with_value(array: np.ndarray, place: Any, value: int) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


LINEAR = random_model(BERT, 0).layers[0].attention.q  # 10 x 12
TABLE = np.zeros(256, np.int8)
TURNS = Rotary(*np.zeros((2, 12, 3), np.int16))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"weight": LINEAR.weight.astype(np.float32)},
            "weight is float32; allowed an array of int8",
        ),
        ({"weight": [[1]]}, "weight is list; allowed an array of int8"),
        ({"weight": LINEAR.weight[0]}, r"weight has shape \(12,\); allowed 2 dimensions"),
        ({"weight": LINEAR.weight[:0]}, r"weight has shape \(0, 12\)"),
        (
            {"weight": with_value(LINEAR.weight, (3, 4), -128)},
            r"weight\[3, 4\] is -128; allowed -127\.\.127",
        ),
        (
            {"weight": np.zeros((10, 65536), np.int8)},
            "weight has 65536 inputs; allowed 1",
        ),
        ({"bias": LINEAR.bias[:9]}, r"bias has shape \(9,\); allowed \(10,\)"),
        ({"bias": LINEAR.bias.astype(np.int64)}, "bias is int64; allowed an array of int32"),
        (
            {"bias": with_value(LINEAR.bias, 7, (1 << 31) - 1)},
            r"channel 7: 128 \* sum \|weight\| \+ \|bias\| is \d+; allowed 0\.\.2147483647",
        ),
        ({"m": with_value(LINEAR.m, 2, 32767)}, r"m\[2\] is 32767; allowed 32768\.\.65535"),
        ({"m": with_value(LINEAR.m, 2, 65536)}, r"m\[2\] is 65536; allowed 32768\.\.65535"),
        ({"s": with_value(LINEAR.s, 0, 0)}, r"s\[0\] is 0; allowed 1\.\.47"),
        ({"s": with_value(LINEAR.s, 9, 48)}, r"s\[9\] is 48; allowed 1\.\.47"),
        ({"s": None}, "one of m and s is None; allowed both or none"),
        ({"table": np.zeros(255, np.int8)}, r"table has shape \(255,\); allowed \(256,\)"),
        ({"table": TABLE, "table_low": TABLE[1:]}, r"table_low has shape \(255,\)"),
        ({"table": TABLE, "table_low": TABLE.astype(int)}, "table_low is int64; allowed an array"),
        (
            {"table": None, "table_low": TABLE},
            "table_low is an array and table None; allowed both or none",
        ),
        (
            {"table": with_value(TABLE, 7, -128), "table_low": TABLE - np.int8(1)},
            r"table_low\[7\] is -1; allowed 0\.\.127 where table is -128",
        ),
    ],
)
def test_linear(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LINEAR, **change)


def test_the_bound_of_the_accumulator_is_sharp() -> None:
    weight = np.full((1, 1), -127, np.int8)
    bias = (1 << 31) - 1 - 128 * 127
    Linear(weight, np.array([bias], np.int32))
    with pytest.raises(ValueError, match="is 2147483648; allowed"):
        Linear(weight, np.array([bias + 1], np.int32))
    with pytest.raises(ValueError, match="is 2147483648; allowed"):
        Linear(weight, np.array([-bias - 1], np.int32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": np.zeros(4, np.int32)}, "gamma is int32; allowed an array of int16"),
        ({"beta": np.zeros(3, np.int32)}, r"beta has shape \(3,\); allowed \(4,\)"),
        ({"shift": 0}, r"shift is 0; allowed 1\.\.31"),
        ({"shift": 32}, r"shift is 32; allowed 1\.\.31"),
        ({"epsilon": 0}, r"epsilon is 0; allowed 1\.\."),
        ({"epsilon": 1 << 50}, r"epsilon is 1125899906842624; allowed 1\.\.1125899906842623"),
        ({"operand_shifts": np.full(4, 8)}, "operand_shifts is int64; allowed an array of uint8"),
        (
            {"operand_shifts": np.full(3, 8, np.uint8)},
            r"operand_shifts has shape \(3,\); allowed \(4,\)",
        ),
        ({"operand_shifts": np.uint8([1, 8, 9, 8])}, r"operand_shifts\[2\] is 9; allowed 1\.\.8"),
        ({"operand_shifts": np.uint8([0, 8, 7, 8])}, r"operand_shifts\[0\] is 0; allowed 1\.\.8"),
        ({"wide": 1}, "wide is 1; allowed True and False"),
        (
            {"wide": True, "operand_shifts": np.uint8([8, 8, 8, 8])},
            "operand_shifts is an array; allowed is None where wide is True",
        ),
    ],
)
def test_norm(change: dict, message: str) -> None:
    norm = Norm(np.zeros(4, np.int16), np.zeros(4, np.int32), 12, 1)
    with pytest.raises(ValueError, match=message):
        replace(norm, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score_m": 1}, r"score_m is 1; allowed 32768\.\.65535"),
        ({"score_s": 48}, r"score_s is 48; allowed 1\.\.47"),
        ({"context_m": 0.5}, r"context_m is 0\.5; allowed integers 32768\.\.65535"),
        ({"residual_shift": -1}, r"residual_shift is -1; allowed 0\.\.15"),
    ],
)
def test_attention(change: dict, message: str) -> None:
    attention: Attention = random_model(BERT, 0).layers[0].attention
    with pytest.raises(ValueError, match=message):
        replace(attention, **change)


def wide(**change: Any) -> dict[str, Any]:
    """A change to tables of 16 bits, and one more."""
    low = np.zeros((5, 2), np.int8)
    tables = {"token_low": low, "position_low": low[None], "token_factor": 127}
    return tables | change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_factor": 256}, r"token_factor is 256; allowed 1\.\.255"),
        ({"position_factor": 0}, r"position_factor is 0; allowed 1\.\.255"),
        ({"token_factor": 130, "position_factor": 129}, r"is 259; allowed 2\.\.258"),
        ({"token": np.full((1, 2), -128, np.int8)}, r"token\[0, 0\] is -128; allowed -127\.\.127"),
        ({"position": np.zeros((3, 2), np.int8)}, r"shape \(3, 2\); allowed 3 dimensions"),
        ({"token_low": np.zeros((5, 2), np.int8)}, "one of token_low and position_low is None"),
        (wide(token_low=np.zeros((4, 2), np.int8)), r"shape \(4, 2\); allowed \(5, 2\)"),
        (wide(position_low=np.zeros((1, 5, 3), np.int8)), r"\(1, 5, 3\); allowed \(1, 5, 2\)"),
        (wide(position_low=np.full((1, 5, 2), -128, np.int8)), r"0\] is -128; allowed -127\.\.127"),
        (wide(token_low=np.zeros((5, 2), np.int16)), "int16; allowed an array of int8"),
        (wide(token_factor=128, position_factor=129), r"is 257; allowed 2\.\.256"),
    ],
)
def test_embedding(change: dict, message: str) -> None:
    table = np.zeros((5, 2), np.int8)
    embedding = Embedding(table, table[None], 129, 129)
    with pytest.raises(ValueError, match=message):
        replace(embedding, **change)


def narrow(model: Model, **change: Any) -> Embedding:
    """The model's embedding with tables of 8 bits, changed."""
    return replace(model.embedding, token_low=None, position_low=None, **change)


def changed_layer(**change: Any) -> Callable[[Model], dict]:
    def change_layer(model: Model) -> dict:
        layer: Layer = replace(model.layers[0], **change)
        return {"layers": (layer, *model.layers[1:])}

    return change_layer


def changed_attention(**change: Any) -> Callable[[Model], dict]:
    def change_attention(model: Model) -> dict:
        layer = model.layers[0]
        layer = replace(layer, attention=replace(layer.attention, **change))
        return {"layers": (layer, *model.layers[1:])}

    return change_attention


SMALL_NORM = Norm(np.zeros(4, np.int16), np.zeros(4, np.int32), 12, 1)


@pytest.mark.parametrize(
    ("shape", "change", "message"),
    [
        (BERT, lambda model: {"layers": model.layers[:1]}, "layers counts 1; allowed 2"),
        (
            BERT,
            lambda model: {"embedding": narrow(model, token=model.embedding.token[:29])},
            r"embedding\.token has shape \(29, 12\); allowed \(30, 12\)",
        ),
        (
            BERT,
            lambda model: {"embedding": narrow(model, position=model.embedding.position[:1])},
            r"embedding\.position has shape \(1, 12, 12\); allowed \(2, 12, 12\)",
        ),
        (
            BERT,
            lambda model: {"embedding": replace(model.embedding, norm=None)},
            "embedding.norm is None; allowed is a norm",
        ),
        (BERT, lambda _: {"final_norm": SMALL_NORM}, "final_norm is a norm; allowed is None"),
        (PRE, lambda _: {"final_norm": None}, "final_norm is None; allowed is a norm"),
        (
            BERT,
            changed_layer(norm2=SMALL_NORM),
            r"layer\.0\.norm2\.gamma has shape \(4,\); allowed \(12,\)",
        ),
        (
            BERT,
            changed_layer(norm1=None),
            r"layer\.0\.norm1 is None; allowed is that in layer 0 of",
        ),
        (
            PLAIN,
            changed_layer(norm1=None),
            r"layer\.0\.norm1 is None; allowed is that in layer 0 of",
        ),
        (
            replace(BERT, norm="pre"),
            lambda model: {"layers": (model.layers[0], replace(model.layers[1], norm1=None))},
            r"layer\.1\.norm1 is None; allowed is that in layer 0 of norm 'pre'",
        ),
        (
            BERT,
            changed_attention(o=LINEAR),
            r"layer\.0\.attention\.o\.weight has shape \(10, 12\); allowed \(12, 10\)",
        ),
        (
            BERT,
            changed_attention(q=replace(LINEAR, m=None, s=None)),
            r"layer\.0\.attention\.q\.m is None; allowed is an array of 10",
        ),
        # 255 * 12 tokens is a sum of 12 bits: s_row = s + 16 + 11 - 15 <= 47
        (
            BERT,
            changed_attention(context_s=36),
            r"layer\.0\.attention\.context_s is 36; allowed 1\.\.35",
        ),
        (PRE, lambda _: {"mean_s": 36}, r"mean_s is 36; allowed 1\.\.35"),
        (PRE, lambda _: {"mean_m": None}, "mean_m or mean_s is None; allowed are integers"),
        (BERT, lambda _: {"mean_m": 1 << 15}, "allowed is None unless pooling is 'mean'"),
        (BERT, lambda _: {"head": ()}, "head has no layer; allowed one or more"),
        (
            BERT,
            lambda model: {"head": model.head[1:], "head_norm": model.embedding.norm},
            "head_norm has 0 channels before it; allowed 12",
        ),
        (BERT, lambda _: {"head_norm": SMALL_NORM}, r"head_norm\.gamma has shape \(4,\); allowed"),
        (
            BERT,
            lambda model: {"head": model.head[:1]},
            r"head\.0\.weight has shape \(12, 12\); allowed \(3, 12\)",
        ),
        (
            BERT,
            lambda model: {"head": model.head[1:] + model.head[1:]},
            r"head\.0\.m is None; allowed is an array of 3",
        ),
        (
            BERT,
            lambda model: {
                "head": (
                    replace(
                        LINEAR,
                        weight=LINEAR.weight[:3],
                        bias=LINEAR.bias[:3],
                        m=LINEAR.m[:3],
                        s=LINEAR.s[:3],
                    ),
                )
            },
            r"head\.0 has m, s or a table; allowed none, it gives the logits",
        ),
        (
            PRE,
            lambda _: {"projection": random_model(BERT, 0, 5).projection},
            r"projection reads 5 channels with norm 'pre'; allowed 1\.\.12, .* with norm 'post'",
        ),
        (
            BERT,
            lambda _: {"projection": random_model(replace(BERT, hidden=13), 0, 13).projection},
            r"projection reads 13 channels with norm 'post'; allowed 1\.\.12",
        ),
        (
            BERT,
            lambda _: {"projection": random_model(BERT, 0, 5).projection},
            r"layer\.0\.attention\.q\.weight has shape \(10, 12\); allowed \(10, 5\)",
        ),
        (
            BERT,
            lambda _: {"projection": random_model(replace(BERT, hidden=11), 0, 5).projection},
            r"projection\.weight has shape \(11, 5\); allowed \(12, 5\)",
        ),
        (
            BERT,
            lambda _: {"position_bias": np.zeros((2, 23))},
            "position_bias is float64; allowed an array of int16",
        ),
        (
            BERT,
            lambda _: {"position_bias": [[0] * 23] * 2},
            "position_bias is list; allowed an array of int16",
        ),
        (
            BERT,
            lambda _: {"position_bias": np.zeros((2, 2, 23), np.int16)},
            r"position_bias has shape \(2, 2, 23\); allowed 2 dimensions",
        ),
        (
            BERT,
            lambda _: {"position_bias": np.zeros((2, 24), np.int16)},
            r"position_bias has shape \(2, 24\); allowed \(2, 23\)",
        ),
        (
            replace(BERT, position_offset=2),
            lambda _: {"position_bias": np.zeros((2, 23), np.int16)},
            r"position_bias has shape \(2, 23\); allowed \(2, 19\)",
        ),
        (BERT, lambda _: {"rotary": ()}, r"rotary counts 0; allowed 1\.\.2, or None"),
        (BERT, lambda _: {"rotary": (TURNS,) * 3}, r"rotary counts 3; allowed 1\.\.2, or None"),
        (
            BERT,
            lambda _: {"rotary": (TURNS,)},
            r"shape\.head_size is 5; allowed is an even one with rotary positions",
        ),
        (
            replace(BERT, head_size=6, position_offset=2),
            lambda _: {"rotary": (TURNS,)},
            r"rotary\.0\.cos has shape \(12, 3\); allowed \(10, 3\)",
        ),
        (
            replace(BERT, head_size=8),
            lambda _: {"rotary": (TURNS,)},
            r"rotary\.0\.cos has shape \(12, 3\); allowed \(12, 4\)",
        ),
        (
            BERT,
            lambda model: {"layers": (model.layers[0], replace(model.layers[1], rotary=0))},
            r"layer\.1\.rotary is 0; allowed is None, the model has no such table",
        ),
        (
            replace(BERT, head_size=6),
            lambda model: {
                "rotary": (TURNS, TURNS),
                "layers": (replace(model.layers[0], rotary=2), model.layers[1]),
            },
            r"layer\.0\.rotary is 2; allowed is None and 0\.\.1",
        ),
    ],
)
def test_model(shape: Shape, change: Callable[[Model], dict], message: str) -> None:
    model = random_model(shape, 0)
    with pytest.raises(ValueError, match=message):
        replace(model, **change(model))


def test_wide_operands_where_there_may_be_none() -> None:
    projected = random_model(BERT, 0, 5)
    norm = replace(projected.embedding.norm, operand_shifts=None, wide=True)
    with pytest.raises(ValueError, match=r"embedding\.norm\.wide is True; allowed is False before"):
        replace(projected, embedding=replace(projected.embedding, norm=norm))
    wide = random_model(BERT, 0, precise=True)
    head = replace(wide.head[0], table=TABLE, table_low=TABLE)
    with pytest.raises(ValueError, match=r"head\.0\.table_low is an array; allowed only for ffn"):
        replace(wide, head=(head, *wide.head[1:]))


def test_the_bound_of_two_passes() -> None:
    """What an int8 operand may have is too much for a wide one."""
    wide = random_model(BERT, 0, precise=True)
    down = wide.layers[0].ffn.down
    room = (1 << 31) - 1 - int(128 * np.abs(down.weight[0].astype(int)).sum())
    down = replace(down, bias=with_value(down.bias, 0, room))
    layer = replace(wide.layers[0], ffn=replace(wide.layers[0].ffn, down=down))
    message = r"layer\.0\.ffn\.down: 129 \* sum \|weight\| \+ \|bias\| \+ 1 is 2147"
    with pytest.raises(ValueError, match=message):
        replace(wide, layers=(layer, wide.layers[1]))


@pytest.mark.parametrize("place", ["q", "k", "v", "o", "down"])
def test_a_table_where_no_activation_is(place: str) -> None:
    model = random_model(BERT, 0)
    layer = model.layers[1]
    part = layer.ffn if place == "down" else layer.attention
    linear = replace(getattr(part, place), table=np.arange(-128, 128).astype(np.int8))
    name = "ffn" if place == "down" else "attention"
    layer = replace(layer, **{name: replace(part, **{place: linear})})
    with pytest.raises(ValueError, match=rf"layer\.1\.{name}\.{place}\.table is an array; allowed"):
        replace(model, layers=(model.layers[0], layer))


def test_the_widest_layer_that_can_be_built_runs() -> None:
    from golden.linear import accumulate

    weight = np.full((1, 65535), 127, np.int8)
    layer = Linear(weight, np.zeros(1, np.int32))
    x = np.full((1, 65535), -128, np.int8)
    assert accumulate(x, layer).tolist() == [[-128 * 127 * 65535]]


def test_the_largest_context_shift_still_runs() -> None:
    """s_row reaches 47 and no more when every key has p = 255."""
    from golden.encoder import run

    model = random_model(BERT, 0)
    model = replace(model, **changed_attention(context_s=35)(model))
    trace: dict[str, np.ndarray] = {}
    run(model, [1] * 12, trace=trace)
    assert trace["layer.0.row_s"].max() <= 47


def test_norms_are_named_in_order() -> None:
    names = [name for name, _ in random_model(PRE, 0).norms()]
    assert names == ["embedding.norm", "layer.0.norm1", "layer.0.norm2", "final_norm"]
