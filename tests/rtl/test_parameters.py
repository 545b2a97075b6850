# amaranth: UnusedElaboratable=no
"""What a unit's parameters may not be, and the cycles that it states."""

import re
from collections.abc import Callable

import pytest

from rtl.control.crc import Crc
from rtl.datapath.layernorm import LayerNorm
from rtl.datapath.softmax import Softmax
from rtl.dma.bus import Bus
from tb import layernorm, softmax

REFUSED: list[tuple[Callable[[], object], str]] = [
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
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_stated_cycles() -> None:
    """Those that the benches measure."""
    assert Softmax(8, 32).pass_cycles(12) == softmax.pass_cycles(8, 12)
    unit = LayerNorm(8, 16, 2)
    assert (unit.latency, unit.constants_latency) == (
        layernorm.LATENCY,
        layernorm.constants_latency(8),
    )
