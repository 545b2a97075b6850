"""The sequencer's tiles against loops with multiplications in Python."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.random import limited, positioned, turned, widened, with_gates
from rtl.compile.program import Program, Step, compile_model
from rtl.control.sequencer import Sequencer
from rtl.interface.command import BANK_SHIFT, FIELDS, Flag, Opcode, bank_address, flags_byte
from rtl.interface.config import Config
from rtl.interface.operation import fields
from rtl.interface.tile import Epilogue, Operand
from tb.amaranth_ports import AmaranthPorts, simulate
from tb.scenarios import SMALL, SMALL_LIMITS, family
from tests.tiers import quick

CONFIG = Config(lanes=4, **SMALL_LIMITS)
N = CONFIG.lanes
Tile = dict[str, int]


TURNED = ("turned", "place", "pair", "last_pair", "begins", "repeats")


def word(address: int) -> int:
    """The bank's number in the top two bits, the word within the bank below."""
    bank, offset = divmod(address, 1 << BANK_SHIFT)
    return bank * CONFIG.bank_words + offset


class RefSequencer:
    """The loops of docs/architecture.md, each address computed from its indices."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths
        self.present = [min(N, x - first) for x in lengths for first in range(0, x, N)]
        self.rows = len(self.present)
        self.begins = [sum(-(-x // N) for x in lengths[:number]) for number in range(len(lengths))]
        self.gathered = False
        self.half = 0  # of the weight double buffer

    def tiles(self, steps: tuple[Step, ...]) -> Iterator[Tile]:
        for step in steps:
            if step.opcode is Opcode.EMBED:
                yield from self.embed(step.values["channels"], 4 if step.values["wide"] else 2)
            elif step.opcode is Opcode.LINEAR:
                yield from self.linear(step)
            elif step.opcode is Opcode.ATTEND:
                sides = None, None
                if step.flags & Flag.WINDOW:
                    sides = step.values["window"] % 4096, step.values["window"] // 4096
                for tile in self.attend(step.values, bool(step.flags & Flag.FIRST_TILE), *sides):
                    yield tile | {"biased": bool(step.flags & Flag.BIAS)}

    def embed(self, channels: int, rows: int) -> Iterator[Tile]:
        for row in range(self.rows):
            tiles = -(-channels // N)
            for tile in range(tiles):
                last = tile == tiles - 1
                yield {
                    "a": Operand.ONE_HOT.value,
                    "b": Operand.WEIGHT.value,
                    "b_address": self.half * CONFIG.weight_words + tile * rows * N,
                    "length": rows * self.present[row],
                    "release": last,
                    "epilogue": Epilogue.EMBEDDING.value,
                    "address": row * channels + tile * N,
                    "columns": min(N, channels - tile * N),
                    "row_tile_done": last,
                }
            self.half ^= 1

    def linear(self, step: Step) -> Iterator[Tile]:
        v, flags = step.values, step.flags
        first = bool(flags & Flag.FIRST_TILE)
        rows = list(range(self.rows))
        if first:
            rows = list(range(-(-len(self.lengths) // N))) if self.gathered else self.begins
        gathers = first and not self.gathered and bool(flags & (Flag.RESIDUAL | Flag.LOGITS))
        kind = Epilogue.INT8
        if flags & Flag.RESIDUAL:
            kind = Epilogue.RESIDUAL
        if flags & Flag.LOGITS:
            kind = Epilogue.LOGITS
        # A product has the width of the latest table.
        uses_table = bool(flags & Flag.TABLE) or v["gate"] > 0
        tiles = -(-v["columns"] // N)
        for tile in range(tiles):
            for number, row in enumerate(rows):
                weights = {"": Operand.WEIGHT.value, "_address": self.half * CONFIG.weight_words}
                activations = {
                    "": (Operand.BANK if flags & Flag.BANK else Operand.X8).value,
                    "_address": word(v["source"]) + row * v["source_stride"],
                }
                transposed = bool(flags & Flag.TRANSPOSED)
                a, b = (weights, activations) if transposed else (activations, weights)
                last = number == len(rows) - 1
                stride = N if transposed else v["destination_stride"]
                made = {
                    **{f"a{key}": value for key, value in a.items()},
                    **{f"b{key}": value for key, value in b.items()},
                    "length": v["length"],
                    "row": row,
                    "release": last,
                    "tag_release": last,
                    "epilogue": kind.value,
                    "transposed": transposed,
                    "table": bool(flags & Flag.TABLE),
                    "table_last": uses_table and last and tile == tiles - 1,
                    "weight_buffer": self.half,
                    "address": word(v["destination"])
                    + (number // N if gathers else row) * stride
                    + tile * (self.rows * N if transposed else N),
                    "columns": self.present[row] if transposed else min(N, v["columns"] - tile * N),
                    "shift": v["gate"] or v["shift"],
                    "gated": v["gate"] > 0,
                    "gather": gathers,
                    "row_tile_done": bool(flags & Flag.RESIDUAL)
                    and tile == tiles - 1
                    and (not gathers or last or number % N == N - 1),
                    "turned": bool(flags & Flag.ROTARY),
                } | ({"lane": number % N, "read": row * stride + tile * N} if gathers else {})
                if flags & Flag.ROTARY:
                    made |= {
                        "place": row - max(begin for begin in self.begins if begin <= row),
                        "pair": v["rotary"],
                        "last_pair": v["rotary"] + v["head_size"] // 2 - 1,
                        "begins": tile == 0,
                        "repeats": number > 0,
                    }
                if flags & Flag.WIDE:
                    yield made | {"low": 1, "joined": 0}
                yield made | {"low": 0, "joined": bool(flags & Flag.WIDE)}
            self.half ^= 1
        self.gathered |= first and bool(flags & Flag.RESIDUAL)

    def attend(
        self, v: dict[str, int], first: bool, before: int | None, after: int | None
    ) -> Iterator[Tile]:
        def sees(row: int, key: int) -> bool:
            """Some query of a row tile sees some key of another; row tiles begin at N of each."""
            far = [k - q for k in range(key * N, key * N + N) for q in range(row * N, row * N + N)]
            return any(
                (before is None or distance >= -before)
                and (after is None or first or distance <= after)
                for distance in far
            )

        work = [
            (number, head, row)
            for number, length in enumerate(self.lengths)
            for head in range(v["heads"])
            for row in range(1 if first else -(-length // N))
        ]
        order: list[tuple[str, int]] = [("scores", 0)]
        for place in range(1, len(work)):
            order += [("scores", place), ("context", place - 1)]
        order.append(("context", len(work) - 1))
        for kind, place in order:
            number, head, row = work[place]
            tokens, begin = self.lengths[number], self.begins[number]
            key_tiles = [key for key in range(-(-tokens // N)) if sees(row, key)]
            walked = min(tokens, (key_tiles[-1] + 1) * N) - key_tiles[0] * N
            row = begin + row
            if kind == "scores":
                for key in key_tiles:
                    yield {
                        "a": Operand.BANK.value,
                        "a_address": word(v["query"]) + row * v["stride"] + head * v["head_size"],
                        "b": Operand.BANK.value,
                        "b_address": word(v["key"])
                        + (begin + key) * v["stride"]
                        + head * v["head_size"],
                        "tag_row": begin + key,
                        "length": v["head_size"],
                        "softmax": 0,
                        "epilogue": Epilogue.SCORE.value,
                        "address": (key - key_tiles[0]) * N,
                        "columns": min(N, tokens - key * N),
                        "score_first": key == key_tiles[0],
                        "score_last": key == key_tiles[-1],
                        "softmax_buffer": place % 2,
                        "apart": key - work[place][2],
                        "head": head,
                    }
            else:
                tiles = -(-v["head_size"] // N)
                for tile in range(tiles):
                    column = head * tiles + tile
                    yield {
                        "a": Operand.P.value,
                        "b": Operand.BANK.value,
                        "b_address": word(v["value"])
                        + (column * self.rows + begin + key_tiles[0]) * N,
                        "length": walked,
                        "softmax": tile == 0,
                        "epilogue": Epilogue.CONTEXT.value,
                        "address": word(v["context"])
                        + row * v["stride"]
                        + head * v["head_size"]
                        + tile * N,
                        "columns": min(N, v["head_size"] - tile * N),
                        "softmax_buffer": place % 2,
                    }


def rtl_tiles(program: Program, lengths: list[int], stall: float) -> tuple[list[Tile], list[str]]:
    """The tiles, and for operations that need a quiet array what was wrong about it.

    A tile outside its bank is wrong too.
    """
    config = program.config
    unit, rng = Sequencer(config), np.random.default_rng(sum(lengths))
    steps = [s for s in program.steps if s.opcode in (Opcode.EMBED, Opcode.LINEAR, Opcode.ATTEND)]

    async def send(ctx: Any) -> None:
        for number, step in enumerate(steps):
            bits = 0
            for field in reversed(FIELDS[step.opcode]):
                bits = bits << 8 * field.bytes | step.values[field.name]
            payload = unit.i.payload
            ctx.set(payload.opcode, step.opcode.value)
            ctx.set(payload.flags.as_value(), flags_byte(step.flags))
            ctx.set(payload.fields, bits)
            ctx.set(payload.number, number)
            ctx.set(unit.i.valid, 1)
            await ctx.tick().until(unit.i.ready)
        ctx.set(unit.i.valid, 0)

    async def exercise(ports: Any) -> Any:
        ctx = ports.ctx
        for number, tokens in enumerate(lengths):
            ctx.set(unit.length.en, 1)
            ctx.set(unit.length.address, number)
            ctx.set(unit.length.data, tokens)
            await ctx.tick()
        ctx.set(unit.length.en, 0)
        ctx.set(unit.batch.sequences, len(lengths))
        ctx.set(unit.batch.row_tiles, sum(-(-tokens // N) for tokens in lengths))
        ctx.set(unit.batch.gathered, -(-len(lengths) // N))
        ctx.set(unit.batch.ready, 1)
        ctx.set(unit.quiet, 1)
        found: list[Tile] = []
        wrong: list[str] = []
        quiet = 0
        before = -1
        for _ in range(40 * 1000):
            ready = int(rng.random() >= stall)
            ctx.set(unit.o.ready, ready)
            # Downstream gets quiet some cycles after the last tile.
            was_quiet = quiet == 0
            ctx.set(unit.quiet, int(was_quiet and not ctx.get(unit.o.valid)))
            if ctx.get(unit.o.valid) and ready:
                tile = ctx.get(unit.o.payload)
                tag = tile.tag
                step = steps[tile.operation]
                fenced = step.opcode is Opcode.ATTEND or step.flags & Flag.BANK
                fenced |= step.opcode is Opcode.LINEAR and step.values["gate"] > 0
                if tile.operation != before and fenced and not was_quiet:
                    wrong.append(f"{step.name} began before the array was quiet")
                before = tile.operation
                fields = (
                    "a",
                    "a_address",
                    "b",
                    "b_address",
                    "length",
                    "release",
                    "row",
                    "weights",
                    "norm",
                    "softmax",
                )
                tags = ("epilogue", "table", "transposed", "weight_buffer", "softmax_buffer",
                        "score_first", "score_last", "address", "columns", "shift", "row_tile_done",
                        "table_last", "gather", "lane", "read")  # fmt: skip
                plain = {name: getattr(tile, name) for name in fields}
                plain |= {name: getattr(tag, name) for name in tags}
                plain |= {"tag_release": tag.release, "tag_row": tag.row}
                names = ("low", "joined")
                plain |= {name: getattr(tile, name) if config.precise else 0 for name in names}
                if config.bias_heads:
                    plain |= {"head": tag.head, "biased": ctx.get(unit.biased)}
                if config.has_apart:
                    plain["apart"] = tag.apart
                if config.gated:
                    plain["gated"] = tag.gated
                if config.rotary_pairs:
                    plain |= {name: getattr(tag, name) for name in TURNED}
                found.append({k: int(getattr(x, "value", x)) for k, x in plain.items()})
                quiet = int(rng.integers(5, 30))
            else:
                quiet = max(quiet - 1, 0)
            await ctx.tick()
            if ctx.get(unit.idle) and not ctx.get(unit.o.valid) and sent[0]:
                break
        if ctx.get(unit.outside):
            wrong.append("a tile lies outside its bank")
        return found, wrong

    sent = [False]

    async def background(ctx: Any) -> None:
        await send(ctx)
        sent[0] = True

    results: list[Any] = []

    async def testbench(ctx: Any) -> None:
        results.append(await exercise(AmaranthPorts(ctx, unit)))

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(testbench)
    sim.add_testbench(background, background=True)
    sim.run()
    found: tuple[list[Tile], list[str]] = results[0]
    return found


LENGTHS = ([1, 2, 1, 4, 1, 3], [11], [1], [4], [5, 3, 4], [1, 9])


@pytest.mark.parametrize("lengths", quick(LENGTHS), ids=str)
@pytest.mark.parametrize("name", quick(SMALL, 4))
def test_tiles(name: str, lengths: list[int]) -> None:
    """Every field that matters of every tile of a whole program, in order.

    Each model meets stalls, both widths of operands and a position bias or none, in each
    combination, and each batch too; then windows, gates and rotary positions of their own.
    """
    place = list(SMALL).index(name) + LENGTHS.index(lengths)
    stall, precise = (0.0, 0.6)[place % 2], bool(place // 2 % 2)
    whole = lengths in ([1], [4], [1, 9])
    model = family(name, SMALL[name])
    gated = place % 7 < 3
    if gated:
        model = with_gates(np.random.default_rng(place), model)
    if precise:
        model = widened(np.random.default_rng(sum(lengths)), model)
    biased = place % 3 > 0 and model.shape.kv_heads is None
    if biased:
        model = positioned(np.random.default_rng(place), model)
    heads = model.shape.heads + place % 2 if biased else 0
    windows = place % 5 > 1
    if windows:
        model = limited(np.random.default_rng(place + sum(lengths)), model)
    pairs = place % 4 * model.shape.head_size if model.shape.head_size % 2 == 0 else 0
    if pairs:
        model = turned(np.random.default_rng(place), model)
    choices = {"precise": precise, "windows": windows, "gated": gated, "rotary_pairs": pairs}
    config = dataclasses.replace(CONFIG, bias_heads=heads, **choices)
    program = compile_model(model, config, whole_last_layer=whole)
    expected = list(RefSequencer(lengths).tiles(program.steps))
    actual, wrong = rtl_tiles(program, lengths, stall)
    fits = sum(-(-tokens // N) for tokens in lengths) <= program.row_tiles
    assert wrong == ([] if fits else ["a tile lies outside its bank"])
    for place, (wanted, tile) in enumerate(zip(expected, actual)):
        sources = {wanted["a"], wanted["b"]}
        waits = {"weights": Operand.WEIGHT.value in sources, "norm": Operand.X8.value in sources}
        wanted = {"softmax": 0, "turned": 0} | wanted | waits
        if "apart" in wanted:
            wanted["apart"] %= config.bias_head_words
        absent = [] if config.bias_heads else ["head", "biased"]
        absent += [] if config.has_apart else ["apart"]
        absent += [] if config.gated else ["gated"]
        absent += [] if config.rotary_pairs else ["turned"]
        wanted = {k: v for k, v in wanted.items() if k not in absent}
        shown = {field: tile[field] for field in wanted}
        assert shown == {k: int(v) for k, v in wanted.items()}, f"tile {place}"
    assert len(actual) == len(expected)


@pytest.mark.parametrize("sides", [(0, 15), (4094, 4095), (4095, 4094)])
@pytest.mark.parametrize("tokens", [16, 4096, 8192])
def test_sides_of_a_window(tokens: int, sides: tuple[int, int]) -> None:
    """4095 is no limit; what is as far as two tokens are apart may be any such number."""
    unit = Sequencer(Config(lanes=4, tokens=tokens, hidden=4, ffn=4, windows=True))

    async def exercise(ports: AmaranthPorts) -> list[int]:
        ctx, payload = ports.ctx, unit.i.payload
        ctx.set(payload.opcode, Opcode.ATTEND.value)
        ctx.set(payload.flags.as_value(), flags_byte(Flag.WINDOW))
        attend = fields(Opcode.ATTEND, payload.fields)
        ctx.set(attend.window, sides[0] | sides[1] << 12)
        for signal in (unit.i.valid, unit.batch.ready, unit.quiet):
            ctx.set(signal, 1)
        await ctx.tick().repeat(6)
        return [ctx.get(unit.window.before), ctx.get(unit.window.after)]

    most = tokens - 1
    wanted = [most if side == 4095 else min(side, most) for side in sides]
    assert [min(side, most) for side in simulate(unit, exercise)] == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        ("layer.0.q", {"destination": 0}, False),
        ("layer.0.k", {"destination": bank_address(1, CONFIG.bank_words - 1)}, True),
        ("layer.0.v", {"destination": bank_address(3, CONFIG.bank_words - 1)}, True),
        ("layer.0", {"query": bank_address(2, CONFIG.bank_words - 9)}, True),
        ("layer.0", {"key": bank_address(0, CONFIG.bank_words - 9)}, True),
        ("layer.0", {"value": bank_address(3, CONFIG.bank_words - 9)}, True),
        ("layer.0", {"context": bank_address(1, CONFIG.bank_words - 9)}, True),
        ("layer.0.ffn.hidden", {"destination_stride": 2 * CONFIG.bank_words}, True),
        ("layer.0.ffn.sum", {"source_stride": 2 * CONFIG.bank_words}, True),
        ("layer.0.ffn.sum", {"source_stride": CONFIG.bank_words}, False),
    ],
)
def test_tiles_outside_their_bank(name: str, values: dict[str, int], wrong: bool) -> None:
    model = family("no-pooler", SMALL["no-pooler"])
    program = compile_model(model, CONFIG, whole_last_layer=True)
    steps = [
        dataclasses.replace(step, values=step.values | values) if step.name == name else step
        for step in program.steps
    ]
    _, found = rtl_tiles(dataclasses.replace(program, steps=tuple(steps)), [11], 0.0)
    assert found == ["a tile lies outside its bank"] * wrong
