# amaranth: UnusedElaboratable=no
"""The loader: where every byte of a program goes, and what it waits for."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.random import positioned, turned, widened, with_gates
from rtl.compile.program import Program, compile_model
from rtl.control.loader import Loader
from rtl.interface.command import FIELDS, Flag, Opcode, flags_byte
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.scenarios import (
    SMALL,
    SMALL_LIMITS,
    damaged_streams,
    family,
    rebuilt,
    refused_streams,
)
from tests.tiers import quick

CONFIG = Config(lanes=4, **SMALL_LIMITS)
WIDE = Config(lanes=64, **SMALL_LIMITS | {"tokens": 128})
"""A descriptor is half a word of it."""


PRECISE = Config(lanes=4, **SMALL_LIMITS, precise=True)
WAYS = Config(lanes=4, columns=16, **SMALL_LIMITS)
"""A word has four parts, and most payloads end within one."""
GATED = dataclasses.replace(PRECISE, gated=True)
GATE = sum(field.bytes for field in FIELDS[Opcode.LINEAR][:-1])
"""The byte of the fields that has the gate's shift."""
BIASED, BIASED_WAYS = (dataclasses.replace(config, bias_heads=5) for config in (CONFIG, WAYS))
TURNED_WAYS = dataclasses.replace(BIASED_WAYS, rotary_pairs=5)


class Surroundings:
    """Consumes what the loader hands on, at random times, and keeps it in order.

    Attributes
    ----------
    weights, parameters
        Contents of the halves at each release: the words of every column tile.
    tables, norms
        Each table after its last byte; the NORMs as pushed, with gamma, beta and shifts.
    bias, rotary
        The words of the position bias and of rotary positions by address.
    operations
        Opcode, flags and fields of each.
    fills
        Which half each filled tile used.
    """

    def __init__(self, unit: Loader, stream: bytes, seed: int, pace: float) -> None:
        self.unit, self.rng, self.pace = unit, np.random.default_rng(seed), pace
        width = unit.config.stream_width
        padded = stream + bytes(-len(stream) % width)
        self.words = [padded[i : i + width] for i in range(0, len(padded), width)]
        self.weights: list[list[bytes]] = []
        self.parameters: list[list[bytes]] = []
        self.tables: list[bytes] = []
        self.norms: list[tuple[dict[str, int], list[list[int]]]] = []
        self.bias: dict[int, list[int]] = {}
        self.rotary: dict[int, list[int]] = {}
        self.operations: list[tuple[int, int, int]] = []
        self.fills: list[int] = []
        self.error, self.end, self.taken = Error.NONE, False, 0

    async def run(self, ctx: Any) -> None:
        unit, rng = self.unit, self.rng
        halves: list[dict[int, bytes]] = [{}, {}]
        planes: list[dict[int, bytes]] = [{}, {}]
        table: dict[int, int] = {}
        parameters: dict[int, list[int]] = {}
        loaded = 0  # which half is released next
        draining: list[tuple[int, int]] = []  # until which cycle, and which half of the parameters
        users: list[int] = []  # cycles in which a table's user drains
        busy_until = 0  # of the NORM in hand
        rows_left = 0
        ctx.set(unit.start, 1)
        await ctx.tick()
        ctx.set(unit.start, 0)
        quiet, offer = 0, False
        for cycle in range(40_000):
            # What is offered stays until it is taken.
            offer = self.taken < len(self.words) and (offer or rng.random() < 0.8)
            if offer:
                ctx.set(unit.model.payload.data, int.from_bytes(self.words[self.taken], "little"))
                ctx.set(unit.model.payload.last, self.taken == len(self.words) - 1)
            ctx.set(unit.model.valid, int(offer))
            ctx.set(unit.operation.ready, int(rng.random() < 0.4))
            ctx.set(unit.norm.ready, int(cycle >= busy_until))
            ctx.set(unit.norm_free, int(cycle >= busy_until))
            # Halves are released in turn, the parameters some cycles after the weights.
            ready = ctx.get(unit.weights_ready) >> loaded & 1
            release = int(ready and rng.random() < self.pace)
            ctx.set(unit.release.en, release)
            ctx.set(unit.release.buffer, loaded)
            drains = bool(draining) and draining[0][0] <= cycle
            ctx.set(unit.parameter_release.en, drains)
            ctx.set(unit.parameter_release.buffer, draining[0][1] if drains else 0)
            drained = int(bool(users) and users[0] <= cycle)
            if drained:
                users.pop(0)
            ctx.set(unit.table_done, drained)
            fill = ctx.get(unit.rows.active) and ctx.get(unit.rows.fill) and rng.random() < 0.3
            if fill and not rows_left:
                rows_left = 3
            ctx.set(unit.rows.done, int(bool(fill)))
            ctx.set(unit.rows.last, int(rows_left == 1))

            if release:
                if planes[loaded]:
                    after = max([cycle, *(end for end, _ in draining)])
                    draining.append((after + int(rng.integers(1, 60)), loaded))
                self.weights.append([halves[loaded][k] for k in sorted(halves[loaded])])
                self.parameters.append([planes[loaded][k] for k in sorted(planes[loaded])])
                halves[loaded].clear()
                planes[loaded].clear()
                loaded ^= 1
            if fill:
                self.fills.append(ctx.get(unit.weight.buffer))
                rows_left -= 1
            if ways := ctx.get(unit.weight.en):
                half = ctx.get(unit.weight.buffer)
                written = [w for way, w in enumerate(ctx.get(unit.weight.data)) if ways >> way & 1]
                word = np.array([list(values) for values in written], np.int8).tobytes()
                assert not ctx.get(unit.weights_ready) >> half & 1, "a full half is written"
                halves[half][ctx.get(unit.weight.address)] = word
            if ctx.get(unit.parameter.en):
                half = ctx.get(unit.parameter.buffer)
                assert half not in [of for _, of in draining], "parameters in use are written"
                plane, part = ctx.get(unit.parameter.plane), ctx.get(unit.parameter.data)
                before = planes[half].get(plane, b"")
                if unit.config.ways > 1:
                    assert ctx.get(unit.parameter.word) * unit.config.lanes == len(before)
                planes[half][plane] = before + part.to_bytes(unit.config.lanes, "little")
            if drains:
                draining.pop(0)
            if ctx.get(unit.table.en):
                assert not users, "a table is written while it is used"
                table[ctx.get(unit.table.address)] = ctx.get(unit.table.data)
                if ctx.get(unit.table.address) == 255:
                    self.tables.append(bytes(table[k] for k in range(256)))
                    table.clear()
                elif len(table) == 256 and 511 in table:  # low halves, behind the high ones
                    self.tables[-1] += bytes(table[k] for k in range(256, 512))
                    table.clear()
            if unit.config.bias_heads and ctx.get(unit.bias.en):
                address = ctx.get(unit.bias.address)
                assert address not in self.bias, "a word of the bias is written twice"
                self.bias[address] = list(ctx.get(unit.bias.data))
            if unit.config.rotary_pairs and ctx.get(unit.rotary.en):
                address = ctx.get(unit.rotary.address)
                assert address not in self.rotary, "a word of rotary positions is written twice"
                self.rotary[address] = list(ctx.get(unit.rotary.data))
            if ctx.get(unit.norm_parameter.en):
                assert cycle >= busy_until, "parameters of a running NORM are written"
                channel = ctx.get(unit.norm_parameter.address)
                assert channel not in parameters, "parameters are written twice"
                parameters[channel] = [
                    ctx.get(unit.norm_parameter.gamma),
                    ctx.get(unit.norm_parameter.beta),
                    ctx.get(unit.norm_parameter.operand_shift) or 8,
                ]
            if ctx.get(unit.norm.valid) and ctx.get(unit.norm.ready):
                pushed = ctx.get(unit.norm.payload)
                fields = {name: pushed[name] for name in ("channels", "shift", "epsilon")}
                self.norms.append((fields, [parameters[k] for k in sorted(parameters)]))
                parameters.clear()
                busy_until = cycle + int(rng.integers(2, 400))
            if ctx.get(unit.operation.valid) and ctx.get(unit.operation.ready):
                done = ctx.get(unit.operation.payload)
                flags = ctx.get(unit.operation.payload.flags.as_value())
                self.operations.append((done.opcode, flags, done.fields))
                gate = done.fields >> 8 * GATE & 255 if done.opcode == Opcode.LINEAR else 0
                if done.flags.table or (unit.config.gated and gate):
                    users.append(cycle + int(rng.integers(50, 900)))
            moved = offer and ctx.get(unit.model.ready)
            self.taken += int(bool(moved))
            offer = offer and not moved
            self.error, self.end = Error(ctx.get(unit.error)), bool(ctx.get(unit.end))
            quiet = 0 if moved or release or users or draining else quiet + 1
            if self.error is not Error.NONE or (quiet > 500):
                return
            await ctx.tick()


def load(stream: bytes, seed: int = 1, pace: float = 0.05, config: Config = CONFIG) -> Surroundings:
    unit = Loader(config)
    found = Surroundings(unit, stream, seed, pace)
    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(found.run)
    sim.run()
    return found


def expected_bias(program: Program) -> dict[int, list[int]]:
    """Word w of a head, from 1 - R to R, at w modulo 16; of two planes the low bytes come first."""
    found = {}
    for step in program.steps:
        if step.opcode is Opcode.BIAS:
            n, rows = program.config.lanes, step.values["row_tiles"]
            parts = iter([step.payload[i : i + n] for i in range(0, len(step.payload), n)])
            for head in range(step.values["heads"]):
                for word in range(1 - rows, rows + 1):
                    low, high = next(parts), np.frombuffer(next(parts), np.int8).tolist()
                    values = [256 * h + b for b, h in zip(low, high)]
                    found[16 * head + word % 16] = values
    return found


def expected_rotary(program: Program) -> dict[int, list[int]]:
    """Row tile r of cos and sin of each pair in turn, at r + 8 times their number."""
    found = {}
    for step in program.steps:
        if step.opcode is Opcode.ROTARY:
            n, rows = program.config.lanes, step.values["row_tiles"]
            words = np.frombuffer(step.payload, np.uint8).reshape(-1, rows, 2, n)
            values = np.ascontiguousarray(words.swapaxes(2, 3)).view("<i2")[..., 0]
            assert len(values) == 2 * step.values["pairs"]
            for number, of_rows in enumerate(values):
                for row, word in enumerate(of_rows.tolist()):
                    found[8 * number + row] = word
    return found


def expected_tiles(program: Program) -> tuple[list[list[bytes]], list[list[bytes]]]:
    """Weights and parameters of every fill of a half; EMBED's fills hold none."""
    weights: list[list[bytes]] = []
    parameters: list[list[bytes]] = []
    for step in program.steps:
        n = program.config.lanes if Flag.TRANSPOSED in step.flags else program.config.stream_width
        if step.opcode is Opcode.EMBED:
            weights += [[]] * 3
            parameters += [[]] * 3
        if step.opcode is Opcode.LINEAR:
            length = step.values["length"]
            words = [step.payload[i : i + n] for i in range(0, len(step.payload), n)]
            for first in range(0, len(words), length + 7):
                weights.append(words[first : first + length])
                parameters.append(words[first + length : first + length + 7])
    return weights, parameters


@pytest.mark.parametrize(
    ("name", "pace", "config"),
    quick(
        [
            ("pre-norm", 0.01, CONFIG),
            ("no-pooler", 0.3, WIDE),
            ("post-norm-mean", 0.3, PRECISE),
            ("no-pooler", 0.3, WAYS),
            ("three-heads", 0.3, BIASED_WAYS),
            ("bert-tiny", 0.3, GATED),
            *(
                (name, pace, CONFIG)
                for name in ("no-pooler", "post-norm-mean")
                for pace in (0.01, 0.3)
            ),
            ("pre-norm", 0.3, CONFIG),
            ("pre-norm", 0.3, WIDE),
            ("no-pooler", 0.3, PRECISE),
            *((name, 0.3, WAYS) for name in ("pre-norm", "post-norm-mean")),
            ("no-pooler", 0.3, BIASED),
            ("pre-norm", 0.3, BIASED_WAYS),
            ("pre-norm", 0.3, TURNED_WAYS),
        ],
        4,
    ),
)
def test_program(name: str, pace: float, config: Config) -> None:
    """Each byte once, in its place, while weights, tables and NORMs are used for random times."""
    model = family(name, SMALL[name])
    if config.gated:
        model = with_gates(np.random.default_rng(0), model)
        assert all(layer.ffn.gate is not None for layer in model.layers)
    if config.precise:
        model = widened(np.random.default_rng(0), model)
        assert any(layer.ffn.wide for layer in model.layers)
    if config.bias_heads:
        model = positioned(np.random.default_rng(0), model)
    if config.rotary_pairs:
        model = turned(np.random.default_rng(0), model)
    program = compile_model(model, config)
    found = load(program.stream(), pace=pace, config=config)
    assert found.error is Error.NONE
    assert found.end
    assert found.taken == len(found.words)
    weights, parameters = expected_tiles(program)
    assert found.weights == weights
    assert found.parameters == parameters
    tables = [step.payload for step in program.steps if step.opcode is Opcode.TABLE]
    assert found.tables == tables
    assert found.bias == expected_bias(program)
    assert found.rotary == expected_rotary(program)
    assert bool(found.rotary) == bool(config.rotary_pairs)
    assert found.operations == operations_of(program)
    norms = [step for step in program.steps if step.opcode is Opcode.NORM]
    assert [norm[0] for norm in found.norms] == [step.values for step in norms]
    shifted = [Flag.SHIFTS in step.flags for step in norms]
    assert any(shifted) or config.precise
    assert all(shifted) == (name == "no-pooler" and not config.precise)
    for step, has_shifts, (_, parameters) in zip(norms, shifted, found.norms):
        planes = 6 + has_shifts
        bytes_ = np.frombuffer(step.payload, np.uint8).reshape(-1, planes, config.lanes)
        bytes_ = bytes_.swapaxes(1, 2)
        flat = np.ascontiguousarray(bytes_.reshape(-1, planes)[: step.values["channels"]])
        gamma = flat[:, :2].copy().view("<i2")[:, 0].tolist()
        beta = flat[:, 2:6].copy().view("<i4")[:, 0].tolist()
        shifts = flat[:, 6].tolist() if has_shifts else [8] * len(flat)
        assert parameters == [list(channel) for channel in zip(gamma, beta, shifts)]


def operations_of(program: Program) -> list[tuple[int, int, int]]:
    """Opcode, flags and fields of each operation."""
    found = []
    for step in program.steps:
        if step.opcode in (Opcode.EMBED, Opcode.LINEAR, Opcode.ATTEND):
            bits = 0
            for field in reversed(FIELDS[step.opcode]):
                bits = bits << 8 * field.bytes | step.values[field.name]
            found.append((step.opcode.value, flags_byte(step.flags), bits))
    return found


def test_a_gate_without_its_flag_is_none() -> None:
    """The field of a LINEAR reads as 0, and nothing else of any descriptor does."""
    program = compile_model(family("no-pooler", SMALL["no-pooler"]), GATED)
    steps = tuple(
        dataclasses.replace(step, values=step.values | {"gate": 255})
        if step.opcode is Opcode.LINEAR
        else step
        for step in program.steps
    )
    found = load(dataclasses.replace(program, steps=steps).stream(), pace=0.3, config=GATED)
    assert found.end
    assert found.operations == operations_of(program)
    kinds = [opcode for opcode, _, _ in found.operations]
    assert {Opcode.LINEAR, Opcode.ATTEND} < set(kinds)


def test_any_byte_is_a_shift() -> None:
    """Its three low bits count, 8 as 0: no payload asks for a shift that there is not."""
    program = compile_model(family("no-pooler", SMALL["no-pooler"]), CONFIG)
    rng = np.random.default_rng(5)
    drawn: list[list[int]] = []
    steps = []
    for step in program.steps:
        if Flag.SHIFTS in step.flags:
            planes = np.frombuffer(step.payload, np.uint8).reshape(-1, 7, CONFIG.lanes).copy()
            planes[:, 6] = rng.integers(0, 256, planes[:, 6].shape)
            drawn.append(planes[:, 6].reshape(-1)[: step.values["channels"]].tolist())
            step = dataclasses.replace(step, payload=planes.tobytes())
        steps.append(step)
    found = load(dataclasses.replace(program, steps=tuple(steps)).stream(), pace=0.3)
    assert found.end
    assert len(drawn) == len(found.norms)
    for values, (_, parameters) in zip(drawn, found.norms):
        assert [channel[2] for channel in parameters] == [(v - 1) % 8 + 1 for v in values]


@pytest.mark.slow
@pytest.mark.parametrize(("config", "one_of"), [(WAYS, 7), (CONFIG, 7), (WIDE, 25)])
def test_damaged_streams(config: Config, one_of: int) -> None:
    """The error, and no operation behind the damage."""
    program = compile_model(family("pre-norm", SMALL["pre-norm"]), config)
    sound = load(program.stream(), pace=0.3, config=config).operations
    rng = np.random.default_rng(8)
    for place, (name, stream, error) in enumerate(damaged_streams(program, rng)):
        if place % one_of == 0:
            found = load(stream, seed=place, pace=0.3, config=config)
            assert found.error is error, name
            assert not found.end, name
            assert found.operations == sound[: len(found.operations)], name


@pytest.mark.slow
def test_padding_at_64_lanes() -> None:
    """A bit below HEADER's CRC, and one below END's, which nothing follows; HEADER for 32 lanes."""
    program = compile_model(family("pre-norm", SMALL["pre-norm"]), WIDE)
    stream, rng = program.stream(), np.random.default_rng(3)
    for first in (32, len(stream) - 32):
        broken = bytearray(stream)
        broken[first + int(rng.integers(32))] ^= 1 << int(rng.integers(8))
        found = load(bytes(broken), pace=0.3, config=WIDE)
        assert found.error is Error.CRC
        assert not found.end
    assert load(rebuilt(program, 0, lanes=32), config=WIDE).error is Error.FORMAT
    # As rtl.compile makes it for 32 lanes the next descriptor lies where zeros must be.
    other = compile_model(
        family("pre-norm", SMALL["pre-norm"]), dataclasses.replace(WIDE, lanes=32)
    ).stream()
    assert load(other, config=WIDE).error is Error.CRC


@pytest.mark.slow
def test_refused_streams() -> None:
    program = compile_model(family("post-norm-mean", SMALL["post-norm-mean"]), CONFIG)
    for place, (name, stream, error) in enumerate(refused_streams(program)):
        if place % 2 == 0:
            found = load(stream, pace=0.3)
            assert found.error is error, name
