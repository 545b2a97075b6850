"""The rules of the command stream against an account of them that looks at the whole stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from golden.random import limited, positioned, widened
from rtl.compile.program import Program, Step, compile_attention, compile_model
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
PRECISE, BIASED, WINDOWED, ALL = (
    dataclasses.replace(CONFIG, precise=precise, bias_heads=heads, windows=windows)
    for precise, heads, windows in (
        (True, 0, False),
        (False, 2, False),
        (False, 0, True),
        (True, 3, True),
    )
)
KINDS = (CONFIG, PRECISE, BIASED, WINDOWED, ALL)
NAMES = ("plain", "precise", "biased", "windowed", "all")


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


def sums(before: Sequence[Entry]) -> list[Entry]:
    """What has written X16 other than a NORM."""
    return [
        e
        for e in before
        if e.opcode == Opcode.EMBED or (e.opcode == Opcode.LINEAR and e.has(RESIDUAL))
    ]


def misplaced(entry: Entry, before: Sequence[Entry], encoder: bool) -> bool:
    """FORMAT: looks back at all that stands before, and remembers nothing."""
    norms = [e for e in before if e.opcode == Opcode.NORM and not e.has(CHAINED)]
    all_norms = [e for e in before if e.opcode == Opcode.NORM]
    done = sums(before)
    waiting = len(norms) > len(done)
    narrow = any(e.has(FIRST) for e in done) or any(
        e.has(FIRST) for e in all_norms if e.has(CHAINED)
    )
    filled = bool(done) or not encoder
    kinds = {e.opcode for e in before}
    if len(before) == 1 and before[0].has(BIAS):
        return entry.opcode != Opcode.BIAS
    if encoder and any(e.opcode == Opcode.LINEAR and e.has(LOGITS) for e in before):
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
            return encoder or Opcode.ATTEND not in kinds
        case Opcode.NORM:
            if not encoder or waiting:
                return True
            if entry.has(CHAINED) and not (all_norms and all_norms[-1].has(RESIDUAL)):
                return True
            return entry.has(FIRST) if not done else narrow and not entry.has(FIRST)
        case Opcode.EMBED:
            return bool(done) or not waiting or not encoder
        case Opcode.ATTEND:
            unsaid = (entry.has(flag) and not before[0].has(flag) for flag in (BIAS, WINDOW))
            return not filled or any(unsaid)
        case Opcode.LINEAR:
            if not filled or (entry.has(TABLE) and Opcode.TABLE not in kinds):
                return True
            shifted = bool(all_norms) and all_norms[-1].has(SHIFTS)
            if entry.has(WIDE) and not entry.has(BANK) and shifted:
                return True
            if entry.has(RESIDUAL):
                if entry.flags & ~(FIRST | RESIDUAL | BANK | WIDE) or not entry.has(BANK):
                    return True
                return not waiting or entry.has(FIRST) != norms[-1].has(FIRST)
            others = entry.flags & ~(BANK | FIRST | WIDE)
            if entry.has(LOGITS) and (others != LOGITS or not encoder):
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
                0 < v["channels"] <= c.hidden,
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
        case Opcode.LINEAR:
            right = [0 < v["length"] <= max(c.hidden, c.ffn), v["columns"] > 0, v["shift"] < 16]
            if entry.has(BANK):
                right += [inside("source"), v["source_stride"] <= 4 * bank]
            else:
                right += [v["source"] == 0, max(v["length"], v["source_stride"]) <= c.hidden]
            if entry.has(RESIDUAL) or entry.has(LOGITS):
                right.append(v["destination"] == 0)
            else:
                right += [inside("destination"), v["destination_stride"] <= 4 * bank]
            if entry.has(RESIDUAL):
                right.append(max(v["columns"], v["destination_stride"]) <= c.hidden)
            if entry.has(LOGITS):
                right += [v["columns"] <= c.labels, v["destination_stride"] <= c.labels]
    return not all(right)


def ref_errors(
    entries: Sequence[Entry], encoder: bool = True, config: Config = CONFIG
) -> list[Error]:
    """The verdict on each descriptor, up to the first that is refused."""
    found = []
    flags_of = PRECISE_FLAGS_OF if config.precise else FLAGS_OF
    flags_of = flags_of | BIASED_FLAGS_OF if config.bias_heads else flags_of
    if config.windows:
        more = {kind: flags_of.get(kind, 0) | WINDOW for kind in (Opcode.HEADER, Opcode.ATTEND)}
        flags_of = flags_of | more
    opcodes = set(Opcode) - (set() if config.bias_heads else {Opcode.BIAS})
    for place, entry in enumerate(entries):
        before = entries[:place]
        foreign = (
            entry.flags & ~flags_of.get(Opcode(entry.opcode), 0) if entry.opcode in opcodes else 1
        )
        if foreign or misplaced(entry, before, encoder):
            found.append(Error.FORMAT)
        else:
            found.append(Error.LIMIT if exceeds(entry, before, config) else Error.NONE)
        if found[-1] is not Error.NONE:
            break
    return found


def rtl_errors(
    streams: Sequence[Sequence[Entry]], encoder: bool = True, config: Config = CONFIG
) -> list[list[Error]]:
    """The same of the unit, which is in reset between the streams."""
    unit, reset = Rules(config, encoder=encoder), Signal()
    found: list[list[Error]] = []

    async def exercise(ctx: Any) -> None:
        for entries in streams:
            found.append([])
            for entry in entries:
                ctx.set(unit.opcode, entry.opcode)
                ctx.set(unit.flags, entry.flags)
                bits = 0
                fields = FIELDS[Opcode(entry.opcode)] if entry.opcode in set(Opcode) else ()
                for field in reversed(fields):
                    bits = bits << 8 * field.bytes | entry.values[field.name]
                ctx.set(unit.fields, bits)
                await ctx.tick()
                found[-1].append(Error(ctx.get(unit.error)))
                if found[-1][-1] is not Error.NONE:
                    break
                ctx.set(unit.accept, 1)
                await ctx.tick()
                ctx.set(unit.accept, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)

    sim = Simulator(ResetInserter(reset)(unit))
    sim.add_clock(1e-8)
    sim.add_testbench(exercise)
    sim.run()
    return found


def programs(config: Config = CONFIG) -> list[list[Entry]]:
    """Each model with what the hardware has: wide operands, a bias of so many heads, windows."""
    found = []
    rng = np.random.default_rng(4)
    for name, shape in SMALL.items():
        for whole in (False, True):
            model = family(name, shape)
            model = widened(rng, model) if config.precise else model
            if shape.heads <= config.bias_heads:
                model = positioned(rng, model)
            if config.windows:
                model = limited(rng, model)
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
                opcode = int(rng.integers(256 if rng.random() < 0.5 else 9))
                known = FIELDS[Opcode(opcode)] if opcode in set(Opcode) else ()
                entries[place] = Entry(opcode, entry.flags, {f.name: 0 for f in known})
        if not entries:
            return [entry]
    return entries


@pytest.mark.parametrize("config", KINDS, ids=NAMES)
def test_compiled_programs_are_taken(config: Config) -> None:
    whole = programs(config)
    biased = {entries[0].has(BIAS) for entries in whole}
    assert biased == {0: {False}, 2: {False, True}, 3: {True}}[config.bias_heads]
    for entries in whole:
        assert ref_errors(entries, config=config) == [Error.NONE] * len(entries)
    expected = [[Error.NONE] * len(entries) for entries in whole]
    assert rtl_errors(whole, config=config) == expected


@pytest.mark.parametrize(("config", "flag"), [(BIASED, BIAS), (WINDOWED, WINDOW)])
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


@pytest.mark.parametrize("config", KINDS, ids=NAMES)
@pytest.mark.parametrize("seed", quick(range(3)))
def test_altered_programs(seed: int, config: Config) -> None:
    rng, whole = np.random.default_rng(seed), programs(config)
    streams = [altered(rng, whole[int(rng.integers(len(whole)))]) for _ in range(250)]
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


@pytest.mark.parametrize("config", [CONFIG, BIASED], ids=["plain", "biased"])
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


@pytest.mark.parametrize("config", [CONFIG, PRECISE, ALL], ids=["plain", "precise", "all"])
def test_attention_alone(config: Config) -> None:
    """No EMBED, no NORM, no sums, no logits; the context of an ATTEND is the result."""
    shape, biased = SMALL["three-heads"], bool(config.bias_heads)
    kinds = {"precise": config.precise, "biased": biased, "windowed": config.windows}
    model = family("three-heads", shape, **kinds)
    entries, whole = entries_of(compile_attention(model, config, 0)), programs(config)
    rng = np.random.default_rng(9)
    streams = [entries]
    for _ in range(200):
        others = [*entries[1:], *whole[int(rng.integers(len(whole)))][1:]]
        first = entries[: 1 + int(biased and rng.random() < 0.8)]
        streams.append([*first, *(others[i] for i in rng.integers(0, len(others), 5))])
    expected = [ref_errors(stream, encoder=False, config=config) for stream in streams]
    assert expected[0] == [Error.NONE] * len(entries)
    assert rtl_errors(streams, encoder=False, config=config) == expected


def named(name: str) -> Step:
    program = compile_model(family("pre-norm", SMALL["pre-norm"]), CONFIG)
    return next(step for step in program.steps if step.name == name)


def test_flags_are_those_of_the_format() -> None:
    assert [flags_byte(flag) for flag in Flag] == [
        *(1 << bit for bit in range(8)),
        WIDE,
        BIAS,
        WINDOW,
    ]
    assert [flag.name for flag in Flag if flags_byte(flag) == WIDE] == ["CHAINED", "WIDE", "BIAS"]
    assert named("logits").flags & Flag.LOGITS
