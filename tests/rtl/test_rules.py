"""The rules of the command stream in hardware against those of `rtl.compile.account`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from rtl.compile.account import State
from rtl.compile.edit import Edit
from rtl.compile.program import compile_model
from rtl.control.rules import Rules
from rtl.interface.command import Descriptor, read
from rtl.interface.config import Config
from rtl.interface.isa import FIELDS, Flag, Opcode
from rtl.interface.operation import Error
from tb.scenarios import SMALL_LIMITS, kinds_of
from tests.tiers import quick
from tests.zoo import SMALL, family

CONFIG = Config(lanes=4, **SMALL_LIMITS)
EVERY = replace(CONFIG, precise=True, bias_heads=3, gated=True, rotary_pairs=7)
CONFIGS = {
    "plain": CONFIG,
    "every": EVERY,
    "precise": replace(CONFIG, precise=True),
    "biased": replace(CONFIG, bias_heads=2),
    "gated": replace(CONFIG, gated=True),
    "rotary": replace(CONFIG, rotary_pairs=6),
    "4x16": replace(EVERY, columns=16),
}
Bodies = list[bytearray]
"""The descriptors of a stream, 28 bytes each."""


def programs(config: Config = CONFIG) -> list[Bodies]:
    """Each model with and without what the hardware has, its last layer cut and whole."""
    found = []
    for place, (name, shape) in enumerate(SMALL.items()):
        for kinds in ({}, kinds_of(shape, config)):
            model = family(name, shape, **kinds)
            program = compile_model(model, config, whole_last_layer=place % 2 > 0)
            found.append([piece.body for piece in Edit(program)])
    return found


def ref_errors(stream: Bodies, config: Config) -> list[Error]:
    """The verdict on each descriptor, up to the first that is refused."""
    state, found = State(config), []
    for body in stream:
        one: Descriptor = read(bytes(body) + bytes(4), 0, 0)
        if state.misplaced(one):
            return [*found, Error.FORMAT]
        if any(state.exceeds(one)):
            return [*found, Error.LIMIT]
        state.accept(one)
        found.append(Error.NONE)
    return found


def rtl_errors(streams: Sequence[Bodies], config: Config) -> list[list[Error]]:
    """The same of the unit, which is in reset between the streams."""
    unit, reset = Rules(config), Signal()
    found: list[list[Error]] = []

    async def exercise(ctx: Any) -> None:
        for stream in streams:
            found.append([])
            for body in stream:
                ctx.set(unit.opcode, body[0])
                ctx.set(unit.flags, body[1])
                ctx.set(unit.fields, int.from_bytes(body[2:], "little"))
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


def altered(rng: np.random.Generator, stream: Bodies, config: Config) -> Bodies:
    """Some descriptors left out, doubled, moved, or with another flag, opcode or field."""
    stream = [bytearray(body) for body in stream]
    edges = [config.hidden, config.bank_words, 4 * config.bank_words, 15, 16, 31, 47, 1023, 1 << 50]
    edges += [config.labels, config.bias_heads, config.rotary_pairs, config.row_tiles]
    for _ in range(int(rng.integers(1, 4))):
        body = stream[place := int(rng.integers(len(stream)))]
        fields = FIELDS[Opcode(body[0])] if body[0] in set(Opcode) else ()
        match int(rng.integers(8)):
            case 0:
                del stream[place]
            case 1:
                stream.insert(int(rng.integers(len(stream))), bytearray(body))
            case 2:
                other = int(rng.integers(len(stream)))
                stream[place], stream[other] = stream[other], body
            case 3 | 4:
                body[1] ^= 1 << int(rng.integers(8))
            case 5 | 6 if fields:
                number = int(rng.integers(len(fields)))
                at = 2 + sum(field.bytes for field in fields[:number])
                size = fields[number].bytes
                old = int.from_bytes(body[at : at + size], "little")
                near = int(rng.choice([0, old, int(rng.choice(edges))])) + int(rng.integers(-1, 2))
                value = int(rng.choice([near, 1 << int(rng.integers(8 * size))])) % (1 << 8 * size)
                body[at : at + size] = value.to_bytes(size, "little")
            case _:
                body[0] = int(rng.integers(256 if rng.random() < 0.3 else 10))
        if not stream:
            return [body]
    return stream


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_compiled_programs_are_taken(config: Config) -> None:
    whole = programs(config)
    expected = [[Error.NONE] * len(stream) for stream in whole]
    assert [ref_errors(stream, config) for stream in whole] == expected
    assert rtl_errors(whole, config) == expected


@pytest.mark.parametrize("config", quick(CONFIGS.values(), 2), ids=[*CONFIGS])
def test_altered_programs(config: Config) -> None:
    """Those of all mechanisms, whether this hardware has them or not; any order of descriptors."""
    rng = np.random.default_rng(len(str(config)))
    whole = programs(config) + programs(replace(EVERY, columns=config.columns))
    chosen = [whole[int(rng.integers(len(whole)))] for _ in range(400)]
    streams = [altered(rng, stream, config) for stream in chosen[:300]]
    streams += [[s[0], *(s[i] for i in rng.integers(1, len(s), 12))] for s in chosen[300:]]
    expected = [ref_errors(stream, config) for stream in streams]
    assert rtl_errors(streams, config) == expected
    last = [errors[-1] for errors in expected]
    assert min(map(last.count, (Error.FORMAT, Error.LIMIT, Error.NONE))) > 10


def test_the_account_says_why() -> None:
    """Each rule that names a flag has a text; the flags of an opcode are those of the table."""
    (stream, *_) = programs()
    state = State(CONFIG)
    for body in stream[:3]:
        state.accept(read(bytes(body) + bytes(4), 0, 0))
    linear = next(body for body in stream if body[0] == Opcode.LINEAR)
    for flags, why in (
        (16, "flags 0x10: LINEAR has only 0x6f"),
        (2, "LINEAR with TABLE comes aft"),
    ):
        one = read(bytes([Opcode.LINEAR, flags, *linear[2:], 0, 0, 0, 0]), 0, 0)
        assert state.misplaced(one).startswith(why)
    assert Flag.TABLE in one.flags


@pytest.mark.parametrize(("flags", "channels"), [(64, 1023), (64, 1024), (0, 1024), (0, 1025)])
def test_an_rms_norm_has_at_most_1023_channels(flags: int, channels: int) -> None:
    config = replace(CONFIG, hidden=1024)
    header, norm, *_ = programs()[0]
    norm[1:4] = bytes([flags]) + channels.to_bytes(2, "little")
    error = Error.NONE if channels <= (1023 if flags else 1024) else Error.LIMIT
    assert rtl_errors([[header, norm]], config) == [ref_errors([header, norm], config)]
    assert ref_errors([header, norm], config)[-1] is error
