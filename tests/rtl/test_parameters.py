# amaranth: UnusedElaboratable=no
"""What a unit's parameters may not be, and the cycles that it states."""

import re
from collections.abc import Callable

import pytest
from amaranth.hdl import signed, unsigned

from rtl.control.crc import Crc
from rtl.datapath.activation import ActivationTable
from rtl.datapath.layernorm import LayerNorm
from rtl.datapath.position_bias import PositionBias
from rtl.datapath.requantize import Requantize, RoundShift
from rtl.datapath.softmax import Softmax
from rtl.dma.bus import Bus
from rtl.primitives.memory import Memory, Rom
from tb import layernorm, softmax

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Softmax(0, 8), "Softmax: lanes is 0: it must lie in 1..64"),
    (lambda: Softmax(4, 0), "Softmax: tokens is 0: it must lie in 1..8192"),
    (lambda: Softmax(4, 8193), "Softmax: tokens is 8193: it must lie in 1..8192"),
    (lambda: Requantize(0), "Requantize: lanes is 0: it must lie in 1..64"),
    (lambda: Requantize(65), "Requantize: lanes is 65: it must lie in 1..64"),
    (lambda: RoundShift(24, 16, 4), "RoundShift: width is 24: it must lie in 25..64"),
    (lambda: RoundShift(32, 1, 4), "RoundShift: bits is 1: it must lie in 2..32"),
    (lambda: RoundShift(32, 16, 32), "RoundShift: maximum is 32: it must lie in 1..31"),
    (lambda: ActivationTable(-1), "ActivationTable: lanes is -1: it must lie in 1..64"),
    (lambda: LayerNorm(0, 8, 8), "LayerNorm: lanes is 0: it must lie in 1..64"),
    (lambda: LayerNorm(4, 1025, 8), "LayerNorm: hidden is 1025: it must lie in 1..1024"),
    (lambda: LayerNorm(4, 8, 0), "LayerNorm: row_tiles is 0: it must lie in 1..4096"),
    (lambda: PositionBias(1, 1, 1), "PositionBias: lanes is 1: it must lie in 2..64"),
    (lambda: PositionBias(65, 1, 1), "PositionBias: lanes is 65: it must lie in 2..64"),
    (lambda: PositionBias(4, 0, 1), "PositionBias: heads is 0: it must lie in 1..255"),
    (lambda: PositionBias(4, 256, 1), "PositionBias: heads is 256: it must lie in 1..255"),
    (lambda: PositionBias(4, 1, 0), "PositionBias: row_tiles is 0: it must lie in 1..1024"),
    (lambda: PositionBias(4, 1, 1025), "PositionBias: row_tiles is 1025: it must lie in 1..1024"),
    (lambda: Crc(0), "Crc: width is 0: it must be a positive multiple"),
    (lambda: Crc(12), "Crc: width is 12: it must be a positive multiple"),
    (lambda: Crc(64, 4), "Crc: padding is 4: it must be a multiple of 8"),
    (lambda: Crc(64, 64), "Crc: padding is 64: it must be a multiple of 8"),
    (lambda: Bus(data_bits=16), "data_bits is 16: choose one of 32, 64, 128, 256, 512"),
    (lambda: Bus(address_bits=31), "address_bits is 31: it must lie in 32..64"),
    (lambda: Bus(address_bits=65), "address_bits is 65: it must lie in 32..64"),
    (lambda: Bus(burst=512), "burst is 512: it must be a power of two in 1..256"),
    (lambda: Bus(burst=12), "burst is 12: it must be a power of two in 1..256"),
    (lambda: Bus(data_bits=512, burst=128), "in 1..64"),  # a burst stays within 4 KiB
    (lambda: Bus(outstanding=1), "outstanding is 1: it must be a power of two in 2..64"),
    (lambda: Memory(8, 0), "Memory: depth is 0: it must lie in 1..16777216"),
    (lambda: Rom(8, [1], ports=3), "Rom: ports is 3: it must lie in 1..2"),
    (lambda: Rom(8, []), "Rom: number of entries is 0: it must lie in 1.."),
    (lambda: Rom(unsigned(8), [0, 256]), "Rom: entry 1 is 256: it must lie in 0..255"),
    (lambda: Rom(signed(4), [-9]), "Rom: entry 0 is -9: it must lie in -8..7"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_a_parameter_that_is_no_integer() -> None:
    with pytest.raises(TypeError, match=r"Requantize: lanes is '4': it must be an integer"):
        Requantize("4")


def test_stated_cycles() -> None:
    """Those that the benches measure."""
    assert Softmax(8, 32).pass_cycles(12) == softmax.pass_cycles(8, 12)
    unit = LayerNorm(8, 16, 2)
    assert (unit.latency, unit.constants_latency) == (
        layernorm.LATENCY,
        layernorm.constants_latency(8),
    )
