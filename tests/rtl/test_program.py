"""The compiler: what does not fit and why, and the layout of payloads and tables."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from golden.model import Linear, Shape
from golden.random import Kind, random_model
from rtl.compile.fit import FitError, fitting, longest_sequence
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import LANES, Config
from rtl.interface.isa import Flag, Opcode
from tests.zoo import SMALL, family

SHAPE = Shape(2, 20, heads=3, head_size=6, ffn=50, labels=5, vocabulary=30, positions=40, types=2)
CONFIG = Config(lanes=4, tokens=32, hidden=24, ffn=50, labels=5)


def changed(**limits: int) -> Config:
    return dataclasses.replace(CONFIG, **limits)


@pytest.mark.parametrize(
    ("shape", "limits", "message"),
    [
        ({}, {"hidden": 19}, "hidden size is 20, the configuration's hidden takes 19: "
         "generate one with --hidden 20 or more"),
        ({}, {"ffn": 49}, "feed-forward size is 50, the configuration's ffn takes 49: "
         "generate one with --ffn 50 or more"),
        ({}, {"labels": 4}, "number of labels is 5, the configuration's labels takes 4: "
         "generate one with --labels 5 or more"),
        ({"heads": 6, "head_size": 9}, {}, "attention width (heads * head size) is 54, "
         "the configuration's hidden takes 50: generate one with --hidden 54 or more"),
        ({"heads": 1, "head_size": 25}, {}, "head size is 25, the configuration's hidden takes 24: "
         "generate one with --hidden 25 or more"),
        ({"heads": 12, "head_size": 1}, {"tokens": 4, "ffn": 50},
         "one row tile of V takes 48 words and of the feed-forward layer 50, the banks have "
         "4 x 32: generate one with a larger --tokens"),
    ],
)  # fmt: skip
def test_does_not_fit(shape: dict[str, Any], limits: dict[str, int], message: str) -> None:
    model = family("bert-tiny", dataclasses.replace(SHAPE, **shape))
    with pytest.raises(FitError, match="^" + re.escape(message) + "$"):
        compile_model(model, changed(**limits))


@pytest.mark.parametrize(
    ("width", "tokens", "message"),
    [
        (60, 32, "widest head layer is 60, the configuration's ffn takes 50: generate one with "
         "--ffn 60"),
        (50, 4, "widest hidden layer of the head is 50, a bank has 32 words: generate one with a "
         "larger --tokens"),
    ],
)  # fmt: skip
def test_a_wide_head_does_not_fit(width: int, tokens: int, message: str) -> None:
    model = family("bert-tiny", SHAPE)
    bias, m, s = (np.full(width, x, np.int32) for x in (0, 1 << 15, 20))
    wide = Linear(np.ones((width, 20), np.int8), bias, m, s, model.head[0].table)
    last = Linear(np.ones((5, width), np.int8), np.zeros(5, np.int32))
    model = dataclasses.replace(model, head=(wide, last))
    with pytest.raises(FitError, match=message):
        compile_model(model, changed(tokens=tokens))


def test_addresses_are_those_of_every_configuration() -> None:
    """A stream depends on the lanes, and on limits only where they shorten the sequences."""
    model = family("bert-tiny", SHAPE)
    streams = {
        compile_model(model, changed(tokens=40, **limits)).stream()
        for limits in ({}, {"hidden": 100}, {"ffn": 1000}, {"labels": 9})
    }
    streams.add(compile_model(model, changed(tokens=500)).stream())
    assert len(streams) == 1


@pytest.mark.parametrize(
    ("positions", "limits", "tokens"),
    [(40, {}, 32), (29, {}, 29), (40, {"tokens": 40}, 40), (200, {"tokens": 7}, 7)],
)
def test_longest_sequence(positions: int, limits: dict[str, int], tokens: int) -> None:
    model = family("bert-tiny", dataclasses.replace(SHAPE, positions=positions))
    program = compile_model(model, changed(**limits))
    assert program.tokens == tokens
    assert program.steps[0].values["tokens"] == tokens


def test_longest_sequence_is_what_the_banks_hold() -> None:
    """A V that pads each head of one channel to four needs more rows than the hidden size."""
    shape = dataclasses.replace(SHAPE, heads=12, head_size=1)
    program = compile_model(family("bert-tiny", shape), changed(hidden=20, ffn=50))
    assert program.tokens == CONFIG.bank_words // 48 * 4 < 32


@pytest.mark.parametrize(
    ("labels", "limit", "between", "row_tiles"),
    [
        (5, 5, None, 2),  # 2 gathered row tiles of 5 words
        (4, 5, None, 2),
        (3, 5, None, 3),
        (1, 5, None, 8),
        (5, 20, None, 8),
        (5, 19, None, 7),
        (1, 5, 32, 8),  # a hidden layer of the head has a row tile for each, too: 256 words
        (1, 5, 40, 6),
    ],
)
def test_logits_of_every_token_need_room(
    labels: int, limit: int, between: int | None, row_tiles: int
) -> None:
    model = family("bert-tiny", dataclasses.replace(SHAPE, labels=labels, pooling="none"))
    head = model.head[-1:]
    if between is not None:
        ones = np.full(between, 1 << 15, np.int32), np.full(between, 15, np.int32)
        zeros = [np.zeros(size, np.int8) for size in ((between, 20), (labels, between))]
        biases = [np.zeros(size, np.int32) for size in (between, labels)]
        head = Linear(zeros[0], biases[0], *ones), Linear(zeros[1], biases[1])
    program = compile_model(dataclasses.replace(model, head=head), changed(labels=limit))
    assert (program.row_tiles, program.tokens) == (row_tiles, row_tiles * 4)
    assert [step.name for step in program.steps if Flag.LOGITS in step.flags] == ["logits"]
    assert not any(Flag.FIRST_TILE in step.flags for step in program.steps)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("labels", [1, 9, 64, 100])
def test_the_fitting_configuration_has_room_for_every_token(lanes: int, labels: int) -> None:
    shape = Shape(1, 8, 1, 8, 8, labels, 20, 300, 0, pooling="none")
    model = random_model(shape, 1)
    for tokens in (1, 128, 200):
        config = fitting(shape, lanes, tokens)
        assert longest_sequence(model, config) >= tokens
        if config.labels > Config.labels:
            less = dataclasses.replace(config, labels=config.labels - 1)
            assert longest_sequence(model, less) < config.tokens


def weights_of(program: Program, name: str) -> tuple[np.ndarray, np.ndarray]:
    """[columns, K] weights and [columns, 7] parameter bytes of a LINEAR, out of its payload."""
    n = program.config.lanes
    step = next(s for s in program.steps if s.name == name)
    length, columns = step.values["length"], step.values["columns"]
    words = np.frombuffer(step.payload, np.int8).reshape(-(-columns // n), length + 7, n)
    weights = words[:, :length].swapaxes(1, 2).reshape(-1, length)
    planes = words[:, length:].swapaxes(1, 2).reshape(-1, 7).view(np.uint8)
    return weights, planes


@pytest.mark.parametrize("lanes", LANES)
def test_payloads(lanes: int) -> None:
    model = family("bert-tiny", SHAPE)
    program = compile_model(model, changed(lanes=lanes, hidden=max(96, 3 * lanes)))
    layer = model.layers[1]
    for name, linear in (("layer.1.q", layer.attention.q), ("layer.1.ffn.sum", layer.ffn.down)):
        weights, planes = weights_of(program, name)
        columns = len(linear.bias)
        np.testing.assert_array_equal(weights[:columns], linear.weight)
        assert not weights[columns:].any()
        assert not planes[columns:].any()
        for channel, plane in enumerate(planes[:columns]):
            bias, m, s = linear.bias[channel], linear.m, linear.s
            assert m is not None
            assert s is not None
            wanted = int(bias).to_bytes(4, "little", signed=True)
            wanted += int(m[channel]).to_bytes(2, "little") + bytes([s[channel]])
            assert bytes(plane) == wanted
    # V: every head padded to whole column tiles.
    weights, _ = weights_of(program, "layer.1.v")
    padded = -(-6 // lanes) * lanes
    by_head = weights.reshape(3, padded, 20)
    np.testing.assert_array_equal(by_head[:, :6].reshape(18, 20), layer.attention.v.weight)
    assert not by_head[:, 6:].any()


@pytest.mark.parametrize("shifts", [False, True])
@pytest.mark.parametrize("lanes", [4, 8])
def test_norm_payload(lanes: int, shifts: bool) -> None:
    """Six planes, and a seventh where the norm has shifts."""
    model = family("bert-tiny", SHAPE)
    layer = model.layers[0]
    drawn = np.resize(np.arange(1, 9, dtype=np.uint8), 20) if shifts else None
    norm = dataclasses.replace(layer.norm2, operand_shifts=drawn)
    layers = (dataclasses.replace(layer, norm2=norm), *model.layers[1:])
    model = dataclasses.replace(model, layers=layers)
    program = compile_model(model, changed(lanes=lanes, hidden=24))
    step = next(s for s in program.steps if s.name == "layer.0.ffn.norm")
    count = 7 if shifts else 6
    planes = np.frombuffer(step.payload, np.uint8).reshape(-1, count, lanes).swapaxes(1, 2)
    planes = np.ascontiguousarray(planes.reshape(-1, count)[:20])
    assert (Flag.SHIFTS in step.flags) == shifts
    if shifts:
        assert planes[:, 6].tolist() == [1, 2, 3, 4, 5, 6, 7, 8] * 2 + [1, 2, 3, 4]
    np.testing.assert_array_equal(planes[:, :2].copy().view("<i2")[:, 0], norm.gamma)
    np.testing.assert_array_equal(planes[:, 2:6].copy().view("<i4")[:, 0], norm.beta)
    assert step.values == {"channels": 20, "shift": norm.shift, "epsilon": norm.epsilon}


def test_a_table_is_sent_when_it_changes() -> None:
    model = family("pre-norm", dataclasses.replace(SHAPE, norm="pre"))  # ReLU in both layers
    program = compile_model(model, CONFIG)
    names = [step.name for step in program.steps if step.opcode is Opcode.TABLE]
    assert names == ["layer.0.ffn.hidden.table", "head.0.table"]
    assert program.steps[[s.opcode for s in program.steps].index(Opcode.TABLE)].payload == bytes(
        max(x, 0) for x in np.arange(256).astype(np.uint8).view(np.int8).tolist()
    )


def test_a_gate_without_a_table_gets_that_of_the_codes() -> None:
    """A product is as wide as the latest table, which may be that of another layer."""
    config = dataclasses.replace(CONFIG, precise=True, gated=True)
    model = random_model(SHAPE, 4, Kind(precise=True, gated=True))
    wide, other = model.layers[0], model.layers[1]
    assert wide.ffn.gate is not None
    assert wide.ffn.gate.table_low is not None
    bare = dataclasses.replace(wide.ffn.gate, table=None, table_low=None)
    other = dataclasses.replace(other, ffn=dataclasses.replace(wide.ffn, gate=bare))
    program = compile_model(dataclasses.replace(model, layers=(wide, other)), config)
    steps = {step.name: step for step in program.steps}
    assert steps["layer.0.ffn.gate.table"].flags == Flag.WIDE
    assert steps["layer.1.ffn.gate.table"].flags == Flag(0)
    assert steps["layer.1.ffn.gate.table"].payload == bytes(range(256))
    for layer in "01":
        gate, product = (steps[f"layer.{layer}.ffn.{name}"] for name in ("gate", "hidden"))
        assert (gate.flags & Flag.TABLE, product.flags & Flag.TABLE) == (Flag.TABLE, Flag(0))
        places = ("destination", "destination_stride", "columns", "length")
        assert [gate.values[p] for p in places] == [product.values[p] for p in places]
        assert (gate.values["gate"], product.values["gate"]) == (0, wide.ffn.gate_shift)


@pytest.mark.parametrize("name", SMALL)
def test_whole_last_layer(name: str) -> None:
    """The last layer computes row tile 0 alone, but K and V; other poolings need all rows."""
    model = family(name, SMALL[name])
    config = Config(lanes=4, tokens=24, hidden=32, ffn=32, labels=8)
    whole, pruned = (compile_model(model, config, whole_last_layer=x) for x in (True, False))
    assert len(whole.steps) == len(pruned.steps)
    differ = {
        step.name for step, other in zip(whole.steps, pruned.steps) if step.flags != other.flags
    }
    last = f"layer.{model.shape.layers - 1}"
    if model.shape.pooling != "first":
        assert not differ
        return
    assert {f"{last}.q", last, f"{last}.attention.sum", f"{last}.ffn.hidden"} <= differ
    assert not {f"{last}.k", f"{last}.v"} & differ
    assert all(name.startswith(last) or name == "final.norm" for name in differ)
    for step, other in zip(whole.steps, pruned.steps):
        assert other.flags in (step.flags, step.flags | Flag.FIRST_TILE)
        assert step.payload == other.payload


@pytest.mark.parametrize("lanes", [4, 8, 32])
def test_wide_embedding_table(lanes: int) -> None:
    """For every N channels a word of high bytes and one of low bytes."""
    model = family("bert-tiny", SHAPE)
    rng = np.random.default_rng(lanes)
    low = rng.integers(-127, 128, (30, 20), np.int8), rng.integers(-127, 128, (2, 40, 20), np.int8)
    embedding = dataclasses.replace(
        model.embedding, token_factor=128, token_low=low[0], position_low=low[1]
    )
    model = dataclasses.replace(model, embedding=embedding)
    table = embedding_table(model, lanes)
    words = -(-20 // lanes)
    assert table.shape == (30 + 2 * 40, 2 * words * lanes)
    position = 30 + 40 + 7, embedding.position[1, 7], low[1][1, 7]
    for number, high, low_bytes in ((3, embedding.token[3], low[0][3]), position):
        for channel in range(words * lanes):
            word, lane = divmod(channel, lanes)
            pair = [table[number, (2 * word + part) * lanes + lane] for part in range(2)]
            assert pair == ([high[channel], low_bytes[channel]] if channel < 20 else [0, 0])
    steps = compile_model(model, changed(lanes=lanes, hidden=96)).steps
    (embed,) = (step for step in steps if step.opcode is Opcode.EMBED)
    assert embed.values["wide"] == 1


@pytest.mark.parametrize("lanes", [4, 8, 32])
def test_embedding_table(lanes: int) -> None:
    model = family("bert-tiny", SHAPE)
    embedding = dataclasses.replace(model.embedding, token_low=None, position_low=None)
    model = dataclasses.replace(model, embedding=embedding)
    table = embedding_table(model, lanes)
    assert table.shape == (30 + 2 * 40, -(-20 // lanes) * lanes)
    np.testing.assert_array_equal(table[17, :20], model.embedding.token[17])
    np.testing.assert_array_equal(table[30 + 39, :20], model.embedding.position[0, 39])
    np.testing.assert_array_equal(table[30 + 40, :20], model.embedding.position[1, 0])
    assert not table[:, 20:].any()
