"""The rules of the command stream against `rtl.compile.account`, which looks at the whole stream.

Cases that are written out hold both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from golden.random import limited, positioned, turned, widened, with_gates, with_rms_norms
from rtl.compile.account import Descriptor, exceeds, misplaced
from rtl.compile.program import Program, Step, compile_model
from rtl.control.rules import Rules
from rtl.interface.command import FIELDS, Flag, Opcode, flags_byte, flags_of
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.scenarios import SMALL, SMALL_LIMITS, family
from tests.tiers import quick

CONFIG = Config(lanes=4, **SMALL_LIMITS)
FIRST, TABLE, TRANSPOSED, RESIDUAL, CHAINED, BANK, LOGITS, SHIFTS = (1 << bit for bit in range(8))
WIDE = BIAS = CHAINED  # where it is no NORM
WINDOW = BANK  # of HEADER and ATTEND
RMS = LOGITS  # of NORM
GATED = LOGITS  # of HEADER
ROTARY = SHIFTS  # of HEADER and LINEAR
CHOICES: dict[str, dict[str, Any]] = {
    "plain": {},
    "precise": {"precise": True},
    "biased": {"bias_heads": 2},
    "gated": {"gated": True},
    "rotary": {"rotary_pairs": 6},
    "all": {
        "precise": True,
        "bias_heads": 3,
        "gated": True,
        "rotary_pairs": 7,
    },
}
NAMES = tuple(CHOICES)
KINDS = tuple(dataclasses.replace(CONFIG, **choice) for choice in CHOICES.values())
_, PRECISE, BIASED, OF_GATES, OF_ROTARY, ALL = KINDS


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


def ref_errors(entries: Sequence[Entry], config: Config = CONFIG) -> list[Error]:
    """The verdict on each descriptor, up to the first that is refused."""
    found, before = [], list[Descriptor]()
    for entry in entries:
        known = entry.opcode in set(Opcode)
        flags = flags_of(Opcode(entry.opcode), entry.flags) if known else entry.flags
        one = Descriptor(len(before), entry.opcode, flags, entry.values, crc_good=True)
        if misplaced(one, before, config):
            found.append(Error.FORMAT)
        else:
            found.append(Error.LIMIT if any(exceeds(one, before, config)) else Error.NONE)
        if found[-1] is not Error.NONE:
            break
        before.append(one)
    return found


def rtl_errors(streams: Sequence[Sequence[Entry]], config: Config = CONFIG) -> list[list[Error]]:
    """The same of the unit, which is in reset between the streams."""
    unit, reset = Rules(config), Signal()
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
            if config.gated:
                model = with_rms_norms(rng, limited(rng, model))
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


def check(config: Config, cases: Sequence[tuple[Sequence[Entry], Error]]) -> None:
    """Hardware and account end each stream with its error."""
    streams = [stream for stream, _ in cases]
    found = rtl_errors(streams, config)
    assert [errors[-1] for errors in found] == [error for _, error in cases]
    assert found == [ref_errors(stream, config) for stream in streams]


@pytest.mark.parametrize("config", KINDS, ids=NAMES)
def test_compiled_programs_are_taken(config: Config) -> None:
    whole = programs(config)
    biased = {entries[0].has(BIAS) for entries in whole}
    assert biased == ({False, True} if config.bias_heads else {False})
    assert {entries[0].has(ROTARY) for entries in whole} >= {bool(config.rotary_pairs)}
    for entries in whole:
        assert ref_errors(entries, config) == [Error.NONE] * len(entries)
    expected = [[Error.NONE] * len(entries) for entries in whole]
    assert rtl_errors(whole, config) == expected


@pytest.mark.parametrize(
    ("config", "flag"),
    [(BIASED, BIAS), (OF_GATES, GATED), (OF_ROTARY, ROTARY)],
)
def test_a_header_that_asks_for_what_there_is_not(config: Config, flag: int) -> None:
    whole = [entries for entries in programs(config) if entries[0].has(flag)]
    assert whole
    check(CONFIG, [(entries, Error.FORMAT) for entries in whole])


def test_wide_operands_are_refused_where_there_are_none() -> None:
    check(CONFIG, [(entries, Error.FORMAT) for entries in programs(PRECISE)])


@pytest.mark.slow
@pytest.mark.parametrize("config", quick(KINDS[::-1], 2), ids=NAMES[::-1])
@pytest.mark.parametrize("seed", quick(range(3)))
def test_altered_programs(seed: int, config: Config) -> None:
    rng, whole = np.random.default_rng(seed), programs(config)
    streams = [altered(rng, whole[int(rng.integers(len(whole)))]) for _ in range(300)]
    expected = [ref_errors(stream, config) for stream in streams]
    assert rtl_errors(streams, config) == expected
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
    check(PRECISE, [([header, *behind], error) for behind, error in cases])


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
    check(config, [([header, stored, embed, *behind], error) for behind, error in cases])


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
    check(BIASED, cases)


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
    check(both, cases)


@pytest.mark.parametrize("config", [CONFIG, BIASED, OF_ROTARY], ids=["plain", "biased", "rotary"])
def test_any_order(config: Config) -> None:
    """Descriptors of a sound program in any order and number, behind its HEADER."""
    rng, whole = np.random.default_rng(7), programs(config)
    streams = []
    for _ in range(300):
        entries = whole[int(rng.integers(len(whole)))]
        some = [entries[i] for i in rng.integers(1, len(entries), 12)]
        streams.append([entries[0], *some])
    expected = [ref_errors(stream, config) for stream in streams]
    assert rtl_errors(streams, config) == expected


@pytest.mark.parametrize("hidden", [1023, 1024])
def test_an_rms_norm_has_at_most_1023_channels(hidden: int) -> None:
    """A LayerNorm has what the configuration takes."""
    config = dataclasses.replace(CONFIG, hidden=hidden)
    header, norm, *_ = programs()[0]
    for flags, channels, error in (
        (RMS, 1023, Error.NONE),
        (RMS, 1024, Error.LIMIT),
        (0, hidden, Error.NONE),
    ):
        one = dataclasses.replace(norm, flags=flags, values=norm.values | {"channels": channels})
        (found,) = rtl_errors([[header, one]], config)
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
    check(ALL, [([of_header, *until, one], error) for of_header, one, error in cases])


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
