# amaranth: UnusedElaboratable=no
"""The sides of a window as a descriptor has them."""

import pytest

from rtl.control.sequencer import Sequencer
from rtl.interface.config import Config
from rtl.interface.isa import Flag, Opcode, flags_byte
from rtl.interface.operation import fields
from tests.rtl.amaranth_ports import AmaranthPorts, simulate


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
