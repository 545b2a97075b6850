"""The rules of the command stream against an account of them that looks at the whole stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from golden.random import limited, positioned, turned, widened, with_gates, with_rms_norms
from rtl.compile.program import Program, Step, compile_model
from rtl.control.rules import Rules
from rtl.interface.command import FIELDS, MAGIC, Flag, Opcode, flags_byte
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.scenarios import SMALL, SMALL_LIMITS, family
from tests.tiers import quick

CONFIG = Config(lanes=4, **SMALL_LIMITS)
FIRST, TABLE, TRANSPOSED, RESIDUAL, CHAINED, BANK, LOGITS, SHIFTS = (1 << bit for bit in range(8))
WIDE = BIAS = CHAINED  # where it is no NORM
WINDOW = BANK  # of HEADER and ATTEND
FLAGS_OF = {
    Opcode.NORM: FIRST | RESIDUAL | CHAINED | SHIFTS,
    Opcode.LINEAR: FIRST | TABLE | TRANSPOSED | RESIDUAL | BANK | LOGITS,
    Opcode.ATTEND: FIRST,
}
PRECISE_FLAGS_OF = FLAGS_OF | {Opcode.LINEAR: FLAGS_OF[Opcode.LINEAR] | WIDE, Opcode.TABLE: WIDE}
BIASED_FLAGS_OF = {Opcode.HEADER: BIAS, Opcode.ATTEND: FLAGS_OF[Opcode.ATTEND] | BIAS}
RMS = LOGITS  # of NORM
GATED = LOGITS  # of HEADER
ROTARY = SHIFTS  # of HEADER and LINEAR
CHOICES: dict[str, dict[str, Any]] = {
    "plain": {},
    "precise": {"precise": True},
    "biased": {"bias_heads": 2},
    "windowed": {"windows": True},
    "rms": {"rms_norm": True},
    "gated": {"gated": True},
    "rotary": {"rotary_pairs": 6},
    "all": {
        "precise": True,
        "bias_heads": 3,
        "windows": True,
        "rms_norm": True,
        "gated": True,
        "rotary_pairs": 7,
    },
}
NAMES = tuple(CHOICES)
KINDS = tuple(dataclasses.replace(CONFIG, **choice) for choice in CHOICES.values())
_, PRECISE, BIASED, WINDOWED, OF_RMS, OF_GATES, OF_ROTARY, ALL = KINDS


@dataclasses.dataclass(frozen=True)
class Entry:
    """A descriptor without its CRC; opcode and flags may be any byte."""

    opcode: int
    flags: int
    values: dict[str, int]

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)


def entries_of(program: Program) -> list[Entry]:
    return [Entry(int(s.opcode), flags_byte(s.flags), dict(s.values)) for s in program.steps]


TABLES = {Opcode.BIAS: BIAS, Opcode.ROTARY: ROTARY}
"""What stands behind a HEADER with such a flag, in this order."""


def sums(before: Sequence[Entry]) -> list[Entry]:
    """What has written X16 other than a NORM."""
    return [
        e
        for e in before
        if e.opcode == Opcode.EMBED or (e.opcode == Opcode.LINEAR and e.has(RESIDUAL))
    ]


def misplaced(entry: Entry, before: Sequence[Entry]) -> bool:
    """FORMAT: looks back at all that stands before, and remembers nothing."""
    norms = [e for e in before if e.opcode == Opcode.NORM and not e.has(CHAINED)]
    all_norms = [e for e in before if e.opcode == Opcode.NORM]
    done = sums(before)
    waiting = len(norms) > len(done)
    narrow = any(e.has(FIRST) for e in done) or any(
        e.has(FIRST) for e in all_norms if e.has(CHAINED)
    )
    filled = bool(done)
    kinds = {e.opcode for e in before}
    if before:
        tables = [of for of, flag in TABLES.items() if before[0].has(flag)]
        if len(before) <= len(tables):
            return entry.opcode != tables[len(before) - 1]
    if any(e.opcode == Opcode.LINEAR and e.has(LOGITS) for e in before):
        return entry.opcode != Opcode.END
    match entry.opcode:
        case Opcode.HEADER:
            right = (MAGIC, 7, CONFIG.lanes)
            return bool(before) or right != tuple(
                entry.values[name] for name in ("magic", "version", "lanes")
            )
        case _ if not before:
            return True
        case Opcode.TABLE:
            return False
        case Opcode.END:
            return True
        case Opcode.NORM:
            if waiting:
                return True
            if entry.has(CHAINED) and not (all_norms and all_norms[-1].has(RESIDUAL)):
                return True
            of_x8 = [e.opcode == Opcode.LINEAR and not e.has(BANK) for e in before]
            last = max((n for n, e in enumerate(before) if e.opcode == Opcode.NORM), default=0)
            if entry.has(CHAINED) and any(of_x8[last:]):
                return True
            return entry.has(FIRST) if not done else narrow and not entry.has(FIRST)
        case Opcode.EMBED:
            return filled or not waiting
        case Opcode.ATTEND:
            unsaid = (entry.has(flag) and not before[0].has(flag) for flag in (BIAS, WINDOW))
            return not filled or any(unsaid)
        case Opcode.LINEAR:
            if before[0].has(GATED) and entry.values["gate"] and entry.flags & ~(FIRST | WIDE):
                return True
            if not filled or (entry.has(TABLE) and Opcode.TABLE not in kinds):
                return True
            shifted = bool(all_norms) and all_norms[-1].has(SHIFTS)
            if entry.has(WIDE) and not entry.has(BANK) and shifted:
                return True
            if entry.has(RESIDUAL):
                if entry.flags & ~(FIRST | RESIDUAL | BANK | WIDE) or not entry.has(BANK):
                    return True
                return not waiting or entry.has(FIRST) != norms[-1].has(FIRST)
            of_rotary = FIRST | BANK | WIDE | ROTARY
            if entry.has(ROTARY) and (entry.flags & ~of_rotary or not before[0].has(ROTARY)):
                return True
            others = entry.flags & ~(BANK | FIRST | WIDE)
            if entry.has(LOGITS) and others != LOGITS:
                return True
            return not entry.has(BANK) and (waiting or (narrow and not entry.has(FIRST)))
    return True


def exceeds(entry: Entry, before: Sequence[Entry], c: Config) -> bool:
    """LIMIT."""
    v = entry.values
    bank = 1 << (c.bank_words - 1).bit_length()
    assert bank == c.bank_words

    def inside(name: str) -> bool:
        return v[name] % 2**22 < bank

    right: list[bool] = []
    match entry.opcode:
        case Opcode.HEADER:
            right = [
                v["tokens"] > 0,
                0 < v["hidden"] <= c.hidden,
                0 < v["ffn"] <= c.ffn,
                0 < v["labels"] <= c.labels,
            ]
        case Opcode.NORM:
            right = [
                0 < v["channels"] <= (min(c.hidden, 1023) if entry.has(RMS) else c.hidden),
                v["shift"] in range(1, 32),
                v["epsilon"] in range(1, 2**50),
            ]
        case Opcode.EMBED:
            longest = before[0].values["tokens"]
            right = [
                0 < v["channels"] <= c.hidden,
                v["token_rows"] > 0,
                longest + v["offset"] <= v["position_rows"],
                v["wide"] < 2,
            ]
        case Opcode.ATTEND:
            right = [
                v["heads"] > 0,
                0 < v["head_size"] <= c.hidden,
                v["stride"] <= bank,
                v["score_s"] in range(1, 48),
                v["context_s"] in range(1, 48),
                *map(inside, ("query", "key", "value", "context")),
                not entry.has(BIAS) or v["heads"] <= c.bias_heads,
            ]
        case Opcode.BIAS:
            right = [0 < v["heads"] <= c.bias_heads, 0 < v["row_tiles"] <= 6]
        case Opcode.ROTARY:
            right = [0 < v["pairs"] <= c.rotary_pairs, 0 < v["row_tiles"] <= 6]
        case Opcode.LINEAR:
            right = [0 < v["length"] <= max(c.hidden, c.ffn), v["columns"] > 0, v["shift"] < 16]
            if entry.has(BANK):
                right += [inside("source"), v["source_stride"] <= 4 * bank]
            else:
                right += [v["source"] == 0, max(v["length"], v["source_stride"]) <= c.hidden]
            if entry.has(ROTARY):
                of_head = range(v["rotary"], v["rotary"] + v["head_size"] // 2)
                right += [v["head_size"] % 2 == 0, len(of_head) > 0, of_head.stop <= c.rotary_pairs]
            if entry.has(RESIDUAL) or entry.has(LOGITS):
                right.append(v["destination"] == 0)
            else:
                right += [inside("destination"), v["destination_stride"] <= 4 * bank]
            if entry.has(RESIDUAL):
                right.append(max(v["columns"], v["destination_stride"]) <= c.hidden)
            if before[0].has(GATED):
                right.append(v["gate"] < 32)
            if entry.has(LOGITS):
                right += [v["columns"] <= c.labels, v["destination_stride"] <= c.labels]
    return not all(right)


def ref_error(entry: Entry, before: Sequence[Entry], config: Config) -> Error:
    """The verdict on a descriptor behind others that were taken."""
    flags_of = PRECISE_FLAGS_OF if config.precise else FLAGS_OF
    flags_of = flags_of | BIASED_FLAGS_OF if config.bias_heads else flags_of
    if config.windows:
        more = {kind: flags_of.get(kind, 0) | WINDOW for kind in (Opcode.HEADER, Opcode.ATTEND)}
        flags_of = flags_of | more
    if config.rms_norm:
        flags_of = flags_of | {Opcode.NORM: flags_of[Opcode.NORM] | RMS}
    if config.gated:
        flags_of = flags_of | {Opcode.HEADER: flags_of.get(Opcode.HEADER, 0) | GATED}
    if config.rotary_pairs:
        more = {kind: flags_of.get(kind, 0) | ROTARY for kind in (Opcode.HEADER, Opcode.LINEAR)}
        flags_of = flags_of | more
    opcodes = set(Opcode) - (set() if config.bias_heads else {Opcode.BIAS})
    opcodes -= set() if config.rotary_pairs else {Opcode.ROTARY}
    if entry.opcode not in opcodes or entry.flags & ~flags_of.get(Opcode(entry.opcode), 0):
        return Error.FORMAT
    if misplaced(entry, before):
        return Error.FORMAT
    return Error.LIMIT if exceeds(entry, before, config) else Error.NONE


def ref_errors(entries: Sequence[Entry], config: Config = CONFIG) -> list[Error]:
    """The verdict on each descriptor, up to the first that is refused."""
    found = []
    for place, entry in enumerate(entries):
        found.append(ref_error(entry, entries[:place], config))
        if found[-1] is not Error.NONE:
            break
    return found


async def judged(ctx: Any, unit: Rules, entry: Entry) -> Error:
    """What the unit says of a descriptor."""
    ctx.set(unit.opcode, entry.opcode)
    ctx.set(unit.flags, entry.flags)
    bits = 0
    fields = FIELDS[Opcode(entry.opcode)] if entry.opcode in set(Opcode) else ()
    for field in reversed(fields):
        bits = bits << 8 * field.bytes | entry.values[field.name]
    ctx.set(unit.fields, bits)
    await ctx.tick()
    return Error(ctx.get(unit.error))


async def accepted(ctx: Any, unit: Rules) -> None:
    """The unit goes on behind the descriptor in hand."""
    ctx.set(unit.accept, 1)
    await ctx.tick()
    ctx.set(unit.accept, 0)


def rtl_errors(streams: Sequence[Sequence[Entry]], config: Config = CONFIG) -> list[list[Error]]:
    """The same of the unit, which is in reset between the streams."""
    unit, reset = Rules(config), Signal()
    found: list[list[Error]] = []

    async def exercise(ctx: Any) -> None:
        for entries in streams:
            found.append([])
            for entry in entries:
                found[-1].append(await judged(ctx, unit, entry))
                if found[-1][-1] is not Error.NONE:
                    break
                await accepted(ctx, unit)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)

    sim = Simulator(ResetInserter(reset)(unit))
    sim.add_clock(1e-8)
    sim.add_testbench(exercise)
    sim.run()
    return found


def programs(config: Config = CONFIG) -> list[list[Entry]]:
    """Each model with what the hardware has: wide operands, a bias of so many heads, windows,
    RMSNorms, gates, rotary positions."""
    found = []
    rng = np.random.default_rng(4)
    for name, shape in SMALL.items():
        for whole in (False, True):
            model = family(name, shape)
            model = with_gates(rng, model) if config.gated else model
            model = widened(rng, model) if config.precise else model
            if shape.heads <= config.bias_heads and shape.kv_heads is None:
                model = positioned(rng, model)
            if config.windows:
                model = limited(rng, model)
            if config.rms_norm:
                model = with_rms_norms(rng, model)
            if config.rotary_pairs and shape.head_size % 2 == 0:
                model = turned(rng, model)
            found.append(entries_of(compile_model(model, config, whole_last_layer=whole)))
    return found


def altered(rng: np.random.Generator, entries: list[Entry]) -> list[Entry]:
    """Some descriptors left out, doubled, moved, or with another flag, opcode or field."""
    entries = list(entries)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(entries)))
        entry = entries[place]
        match int(rng.integers(7)):
            case 0:
                del entries[place]
            case 1:
                entries.insert(int(rng.integers(len(entries))), entry)
            case 2:
                other = int(rng.integers(len(entries)))
                entries[place], entries[other] = entries[other], entry
            case 3 | 4:
                flags = entry.flags ^ 1 << int(rng.integers(8))
                entries[place] = dataclasses.replace(entry, flags=flags)
            case 5 if entry.values:
                name = str(rng.choice(list(entry.values)))
                width = next(f.bytes for f in FIELDS[Opcode(entry.opcode)] if f.name == name)
                value = entry.values[name]
                options = [0, 1, value + 1, max(value - 1, 0), 1 << int(rng.integers(8 * width)),
                           CONFIG.hidden, CONFIG.hidden + 1, CONFIG.bank_words,
                           4 * CONFIG.bank_words, 4 * CONFIG.bank_words + 1, 16, 32, 47, 48,
                           2**50, CONFIG.labels, CONFIG.labels + 1]  # fmt: skip
                value = int(rng.choice(options)) % (1 << 8 * width)
                entries[place] = dataclasses.replace(entry, values=entry.values | {name: value})
            case _:
                opcode = int(rng.integers(256 if rng.random() < 0.5 else 10))
                known = FIELDS[Opcode(opcode)] if opcode in set(Opcode) else ()
                entries[place] = Entry(opcode, entry.flags, {f.name: 0 for f in known})
        if not entries:
            return [entry]
    return entries


@pytest.mark.parametrize("config", KINDS, ids=NAMES)
def test_compiled_programs_are_taken(config: Config) -> None:
    whole = programs(config)
    biased = {entries[0].has(BIAS) for entries in whole}
    assert biased == ({False, True} if config.bias_heads else {False})
    assert {entries[0].has(ROTARY) for entries in whole} >= {bool(config.rotary_pairs)}
    for entries in whole:
        assert ref_errors(entries, config=config) == [Error.NONE] * len(entries)
    expected = [[Error.NONE] * len(entries) for entries in whole]
    assert rtl_errors(whole, config=config) == expected


@pytest.mark.parametrize(
    ("config", "flag"),
    [(BIASED, BIAS), (WINDOWED, WINDOW), (OF_GATES, GATED), (OF_ROTARY, ROTARY)],
)
def test_a_header_that_asks_for_what_there_is_not(config: Config, flag: int) -> None:
    whole = [entries for entries in programs(config) if entries[0].has(flag)]
    assert whole
    expected = [[Error.FORMAT]] * len(whole)
    assert [ref_errors(entries) for entries in whole] == expected
    assert rtl_errors(whole) == expected


def test_wide_operands_are_refused_where_there_are_none() -> None:
    whole = programs(PRECISE)
    expected = [ref_errors(entries) for entries in whole]
    assert {errors[-1] for errors in expected} == {Error.FORMAT}
    assert rtl_errors(whole) == expected


@pytest.mark.slow
@pytest.mark.parametrize("config", quick(KINDS[::-1], 2), ids=NAMES[::-1])
@pytest.mark.parametrize("seed", quick(range(3)))
def test_altered_programs(seed: int, config: Config) -> None:
    rng, whole = np.random.default_rng(seed), programs(config)
    streams = [altered(rng, whole[int(rng.integers(len(whole)))]) for _ in range(300)]
    expected = [ref_errors(stream, config=config) for stream in streams]
    assert rtl_errors(streams, config=config) == expected
    last = [errors[-1] for errors in expected]
    assert min(last.count(Error.FORMAT), last.count(Error.LIMIT), last.count(Error.NONE)) > 10


def test_wide_operands_have_no_shifts() -> None:
    """A LINEAR with WIDE from X8 after a NORM with SHIFTS, and what may stand in its place."""
    shifted, plain = (
        Entry(Opcode.NORM, flags, {"channels": 8, "shift": 9, "epsilon": 1})
        for flags in (RESIDUAL | SHIFTS, RESIDUAL)
    )
    header, norm, embed = programs()[0][:3]
    assert (norm.opcode, embed.opcode) == (Opcode.NORM, Opcode.EMBED)
    linear = next(e for e in programs()[0] if e.opcode == Opcode.LINEAR)
    wide, bank = (dataclasses.replace(linear, flags=WIDE | flag) for flag in (0, BANK))
    chained = dataclasses.replace(shifted, flags=CHAINED)
    cases = [
        ((shifted, embed, wide), Error.FORMAT),
        ((shifted, embed, linear), Error.NONE),
        ((shifted, embed, bank), Error.NONE),
        ((plain, embed, wide), Error.NONE),
        ((shifted, embed, chained, wide), Error.NONE),
        ((plain, embed, dataclasses.replace(chained, flags=CHAINED | SHIFTS), wide), Error.FORMAT),
    ]
    streams = [[header, *behind] for behind, _ in cases]
    found = rtl_errors(streams, config=PRECISE)
    assert [errors[-1] for errors in found] == [error for _, error in cases]
    assert found == [ref_errors(stream, config=PRECISE) for stream in streams]


@pytest.mark.parametrize("config", [CONFIG, PRECISE], ids=["plain", "precise"])
def test_a_chained_norm_comes_before_what_reads_its_x8(config: Config) -> None:
    """A LINEAR from X8 waits for the NORM before it by its number, and would wait for ever."""
    header, norm, embed = programs()[0][:3]
    stored, chained = (
        dataclasses.replace(norm, flags=flags) for flags in (RESIDUAL, RESIDUAL | CHAINED)
    )
    linear = next(e for e in programs()[0] if e.opcode == Opcode.LINEAR)
    wide, bank, first, v = (
        dataclasses.replace(linear, flags=flags)
        for flags in (WIDE * config.precise, BANK, FIRST, TRANSPOSED)
    )
    attend = next(e for e in programs()[0] if e.opcode == Opcode.ATTEND)
    table = Entry(Opcode.TABLE, 0, {})
    residual = dataclasses.replace(linear, flags=RESIDUAL | BANK)
    cases = [
        ([chained], Error.NONE),
        ([chained, chained], Error.NONE),
        ([bank, table, attend, chained], Error.NONE),
        ([linear, stored, residual, chained], Error.NONE),
        *(([one, chained], Error.FORMAT) for one in (linear, wide, first, v)),
        ([linear, bank, table, attend, chained], Error.FORMAT),
        ([chained, linear, chained], Error.FORMAT),
        ([linear, stored, residual, wide, chained], Error.FORMAT),
    ]
    streams = [[header, stored, embed, *behind] for behind, _ in cases]
    found = rtl_errors(streams, config=config)
    assert [errors[-1] for errors in found] == [error for _, error in cases]
    assert found == [ref_errors(stream, config=config) for stream in streams]


def test_a_position_bias_stands_behind_its_header() -> None:
    """Once and directly; heads and row tiles from one to as many as there are."""
    header, bias, *others = programs(BIASED)[0]
    assert (header.flags, bias.opcode, bias.values["heads"]) == (BIAS, Opcode.BIAS, 2)
    without = dataclasses.replace(header, flags=0)
    attend = next(e for e in others if e.opcode == Opcode.ATTEND)
    until = others[: others.index(attend)]

    def of(entry: Entry, **values: int) -> Entry:
        return dataclasses.replace(entry, values=entry.values | values)

    cases = [
        ([header, *others], Error.FORMAT),
        ([without, bias], Error.FORMAT),
        ([header, bias, bias], Error.FORMAT),
        ([header, bias, *others[:3], bias], Error.FORMAT),
        ([without, *until, attend], Error.FORMAT),
        ([without, *until, dataclasses.replace(attend, flags=0)], Error.NONE),
        ([header, bias, *until, dataclasses.replace(attend, flags=0)], Error.NONE),
        *(
            ([header, of(bias, heads=heads)], Error.NONE if heads in (1, 2) else Error.LIMIT)
            for heads in (0, 1, 2, 3, 255)
        ),
        *(
            ([header, of(bias, row_tiles=rows)], Error.NONE if 0 < rows < 7 else Error.LIMIT)
            for rows in (0, 1, 6, 7, 8, 256, 65535)
        ),
        ([header, bias, *until, of(attend, heads=3)], Error.LIMIT),
        ([header, bias, *until, of(dataclasses.replace(attend, flags=0), heads=3)], Error.NONE),
    ]
    streams = [stream for stream, _ in cases]
    found = rtl_errors(streams, config=BIASED)
    assert [errors[-1] for errors in found] == [error for _, error in cases]
    assert found == [ref_errors(stream, config=BIASED) for stream in streams]


def test_rotary_positions_stand_behind_header_and_bias() -> None:
    """Once and directly; what a LINEAR may ask of them, and of what size they are."""
    both = dataclasses.replace(OF_ROTARY, bias_heads=3)
    header, bias, rotary, *others = next(
        entries for entries in programs(both) if entries[0].flags == BIAS | ROTARY
    )
    assert (bias.opcode, rotary.opcode) == (Opcode.BIAS, Opcode.ROTARY)
    q = next(e for e in others if e.opcode == Opcode.LINEAR and e.has(ROTARY))
    until = others[: others.index(q)]

    def of(entry: Entry, flags: int | None = None, **values: int) -> Entry:
        flags = entry.flags if flags is None else flags
        return Entry(entry.opcode, flags, entry.values | values)

    alone = of(header, ROTARY)
    taken = [header, bias, rotary, *until]
    cases = [
        ([*taken, q], Error.NONE),
        ([alone, rotary, *until, q], Error.NONE),
        ([header, rotary], Error.FORMAT),
        ([header, bias, *until], Error.FORMAT),
        ([header, bias, rotary, rotary], Error.FORMAT),
        ([header, bias, bias], Error.FORMAT),
        ([of(header, BIAS), bias, rotary], Error.FORMAT),
        ([of(header, BIAS), bias, *until, q], Error.FORMAT),
        ([of(header, BIAS), bias, *until, of(q, 0)], Error.NONE),
        ([*taken, rotary], Error.FORMAT),
        *(
            ([*taken, of(q, ROTARY | flag)], Error.NONE if flag in (FIRST, BANK) else Error.FORMAT)
            for flag in (FIRST, TABLE, TRANSPOSED, RESIDUAL, CHAINED, BANK, LOGITS)
        ),
        *(
            ([alone, of(rotary, pairs=pairs)], Error.NONE if 0 < pairs < 7 else Error.LIMIT)
            for pairs in (0, 1, 6, 7, 8, 262)
        ),
        *(
            ([alone, of(rotary, row_tiles=rows)], Error.NONE if 0 < rows < 7 else Error.LIMIT)
            for rows in (0, 1, 6, 7, 8, 256, 65535)
        ),
        *(
            (
                [*taken, of(q, head_size=size, rotary=first)],
                Error.NONE if size in (2, 4, 6, 12) and first + size / 2 <= 6 else Error.LIMIT,
            )
            for size in (0, 1, 2, 3, 4, 6, 12, 14, 256, 65534)
            for first in (0, 3, 4, 5, 6, 256, 65535)
        ),
        ([*taken, of(q, 0, head_size=3, rotary=9)], Error.NONE),
    ]
    streams = [stream for stream, _ in cases]
    found = rtl_errors(streams, config=both)
    assert [errors[-1] for errors in found] == [error for _, error in cases]
    assert found == [ref_errors(stream, config=both) for stream in streams]


@pytest.mark.parametrize("config", [CONFIG, BIASED, OF_ROTARY], ids=["plain", "biased", "rotary"])
def test_any_order(config: Config) -> None:
    """Descriptors of a sound program in any order and number, behind its HEADER."""
    rng, whole = np.random.default_rng(7), programs(config)
    streams = []
    for _ in range(300):
        entries = whole[int(rng.integers(len(whole)))]
        some = [entries[i] for i in rng.integers(1, len(entries), 12)]
        streams.append([entries[0], *some])
    expected = [ref_errors(stream, config=config) for stream in streams]
    assert rtl_errors(streams, config=config) == expected


@pytest.mark.parametrize("hidden", [1023, 1024])
def test_an_rms_norm_has_at_most_1023_channels(hidden: int) -> None:
    """A LayerNorm has what the configuration takes; without the option the flag is none."""
    config = dataclasses.replace(CONFIG, hidden=hidden)
    header, norm, *_ = programs(OF_RMS)[0]
    for options, flags, channels, error in (
        (True, RMS, 1023, Error.NONE),
        (True, RMS, 1024, Error.LIMIT),
        (True, 0, hidden, Error.NONE),
        (False, RMS, 1023, Error.FORMAT),
    ):
        one = dataclasses.replace(norm, flags=flags, values=norm.values | {"channels": channels})
        made = dataclasses.replace(config, rms_norm=options)
        (found,) = rtl_errors([[header, one]], config=made)
        assert found == [Error.NONE, error]


def test_a_linear_with_a_gate_has_no_other_way_of_ending() -> None:
    """FIRST_TILE and WIDE alone, a shift up to 31; without GATED the field is not read."""
    header, *others = next(entries for entries in programs(ALL) if entries[0].has(GATED))
    place = next(n for n, e in enumerate(others) if e.opcode == Opcode.LINEAR and e.values["gate"])
    until, gated = others[:place], others[place]
    plain = gated.flags & ~WIDE

    def of(flags: int, gate: int) -> Entry:
        return dataclasses.replace(gated, flags=flags, values=gated.values | {"gate": gate})

    cases = [
        (header, of(plain, 1), Error.NONE),
        (header, of(plain | FIRST, 31), Error.NONE),
        (header, of(plain | WIDE, 2), Error.NONE),
        (header, of(plain, 32), Error.LIMIT),
        (header, of(plain, 255), Error.LIMIT),
        *((header, of(plain | flag, 1), Error.FORMAT) for flag in (TABLE, TRANSPOSED, BANK)),
        *((header, of(plain | flag, 0), Error.NONE) for flag in (TABLE, TRANSPOSED, BANK)),
        *((header, of(plain | flag, 1), Error.FORMAT) for flag in (RESIDUAL, LOGITS, SHIFTS)),
    ]
    without = dataclasses.replace(header, flags=header.flags & ~GATED)
    cases += [(without, of(plain, gate), Error.NONE) for gate in (0, 1, 31, 32, 255)]
    cases += [(without, of(plain | BANK, gate), Error.NONE) for gate in (0, 1, 255)]
    streams = [[of_header, *until, one] for of_header, one, _ in cases]
    found = rtl_errors(streams, config=ALL)
    assert [errors[-1] for errors in found] == [error for _, _, error in cases]
    assert found == [ref_errors(stream, config=ALL) for stream in streams]


@pytest.mark.parametrize("config", quick(KINDS[::-1], 0), ids=NAMES[::-1])
def test_every_field_at_its_limits(config: Config) -> None:
    """Fields at 0, every power of two, the limits and about; any one or two flags turned."""
    bank, limits = config.bank_words, (config.hidden, config.ffn, config.labels, config.row_tiles)
    limits += (config.bias_heads, config.rotary_pairs, bank, 4 * bank, 15, 31, 47)
    entries = max(programs(config), key=lambda entries: len({e.opcode for e in entries}))
    kinds = {(e.opcode, e.flags): place for place, e in enumerate(entries)}
    cases: dict[int, list[Entry]] = {}
    for place in kinds.values():
        entry = entries[place]
        flags = sorted({1 << a | 1 << b for a in range(8) for b in range(8)})
        cases[place] = [dataclasses.replace(entry, flags=entry.flags ^ more) for more in flags]
        for field in FIELDS[Opcode(entry.opcode)]:
            top = 1 << 8 * field.bytes
            powers = [1 << bit for bit in range(8 * field.bytes)]
            values = {0, *powers, *(p - 1 for p in powers), *limits, *(x + 1 for x in limits)}
            values |= {entry.values[field.name] + 1, top - 1}
            cases[place] += [
                dataclasses.replace(entry, values=entry.values | {field.name: value})
                for value in sorted(values)
                if value < top
            ]
    unit, found = Rules(config), {}

    async def exercise(ctx: Any) -> None:
        for place, entry in enumerate(entries):
            found[place] = [await judged(ctx, unit, one) for one in cases.get(place, [])]
            assert await judged(ctx, unit, entry) is Error.NONE
            await accepted(ctx, unit)

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(exercise)
    sim.run()
    for place, altered in cases.items():
        expected = [ref_error(one, entries[:place], config) for one in altered]
        assert found[place] == expected
    assert set().union(*found.values()) == {Error.NONE, Error.FORMAT, Error.LIMIT}


def named(name: str) -> Step:
    program = compile_model(family("pre-norm", SMALL["pre-norm"]), CONFIG)
    return next(step for step in program.steps if step.name == name)


def test_flags_are_those_of_the_format() -> None:
    assert [flags_byte(flag) for flag in Flag] == [
        *(1 << bit for bit in range(8)),
        *(WIDE, BIAS, WINDOW, ROTARY, RMS, GATED),
    ]
    assert [flag.name for flag in Flag if flags_byte(flag) == WIDE] == ["CHAINED", "WIDE", "BIAS"]
    assert named("logits").flags & Flag.LOGITS
