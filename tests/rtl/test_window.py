# amaranth: UnusedElaboratable=no
"""Window against golden.window, in Amaranth's simulator."""

import itertools

import pytest

from golden.model import Window as Sides
from golden.window import in_window
from rtl.control.sequencer import Sequencer
from rtl.datapath.window import Window
from rtl.interface.config import Config
from rtl.interface.isa import Flag, Opcode, flags_byte
from rtl.interface.operation import fields
from tb.ports import Ports
from tests.rtl.amaranth_ports import AmaranthPorts, simulate

CONFIGS = [Config(lanes=4, tokens=11), Config(lanes=8, tokens=16), Config(lanes=4, tokens=4)]


async def check(ports: Ports, config: Config) -> None:
    """Every window at every pair of row tiles and each column, a column a cycle.

    The longest sequence's tokens are as good as no limit; queries behind it are not looked at.
    """
    n, tokens = config.lanes, config.tokens
    sides = [*range(tokens), None]
    due: list[tuple[list[bool], str]] = []
    for before, after in itertools.product(sides, repeat=2):
        window = None if before is after is None else Sides(before, after)
        expected = in_window(window, tokens)
        ports.set("sides_before", tokens if before is None else before)
        ports.set("sides_after", tokens if after is None else after)
        places = itertools.product(range(config.row_tiles), range(config.row_tiles), range(n))
        places = [p for p in places if p[1] * n + p[2] < tokens]
        for queries, keys, column in [*places, *places[-1:] * Window.latency]:
            ports.set("apart", (keys - queries) % config.bias_head_words)
            ports.set("column", column)
            await ports.tick()
            lanes = range(min(n, tokens - queries * n))
            wanted = [bool(expected[queries * n + j, keys * n + column]) for j in lanes]
            due.append((wanted, f"{before}, {after}: {queries}, {keys}, {column}"))
            if len(due) >= Window.latency:
                bits, place = due.pop(0)
                found = ports.get("o")
                assert [bool(found >> j & 1) for j in range(len(bits))] == bits, place
        due.clear()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_window_at_every_distance(config: Config) -> None:
    simulate(Window(config), lambda ports: check(ports, config))


@pytest.mark.parametrize("sides", [(0, 15), (4094, 4095), (4095, 4094)])
@pytest.mark.parametrize("tokens", [16, 4096, 8192])
def test_sides_in_a_descriptor(tokens: int, sides: tuple[int, int]) -> None:
    """4095 is no limit; what is as far as two tokens are apart may be any such number."""
    unit = Sequencer(Config(lanes=4, tokens=tokens, hidden=4, ffn=4))

    async def exercise(ports: AmaranthPorts) -> list[int]:
        ctx, payload = ports.ctx, unit.i.payload
        ctx.set(payload.opcode, Opcode.ATTEND.value)
        ctx.set(payload.flags.as_value(), flags_byte(Opcode.ATTEND, Flag.WINDOW))
        ctx.set(fields(Opcode.ATTEND, payload.fields).window, sides[0] | sides[1] << 12)
        for signal in (unit.i.valid, unit.batch.ready, unit.quiet):
            ctx.set(signal, 1)
        await ctx.tick().repeat(6)
        return [ctx.get(unit.window.before), ctx.get(unit.window.after)]

    most = tokens - 1
    wanted = [most if side == 4095 else min(side, most) for side in sides]
    assert [min(side, most) for side in simulate(unit, exercise)] == wanted
