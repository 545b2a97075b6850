"""The memory bus: its free choices, its ports, and what goes between the parts that use it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from cli.errors import UserError

from amaranth.hdl import unsigned
from amaranth.lib import data

from rtl.primitives.members import Bundle, In, Out

DATA_BITS = (32, 64, 128, 256, 512)
PAGE_BYTES = 4096
"""No burst crosses a multiple of this (AXI4, A3.4.1)."""
INCR = 1
NORMAL = 0b0011
"""ARCACHE: normal, non-cacheable, bufferable."""


@dataclass(frozen=True, kw_only=True)
class Bus:
    """The choices of an AXI4 read master.

    Parameters
    ----------
    data_bits
        Width W of RDATA: 32, 64, 128, 256 or 512.
    address_bits
        Width of ARADDR, 32 to 64.
    burst
        Most beats of a burst, a power of two of 1 to 256; all of them together have 4096 bytes or
        fewer. 16 is what AXI3 takes, too.
    outstanding
        Most bursts that are asked for and have not come, a power of two of 2 to 64.
        Stream and rows have a buffer of burst * outstanding beats each.

    Raises
    ------
    ValueError
        A value is outside its range; the message names it.
    """

    data_bits: int = 64
    address_bits: int = 32
    burst: int = 16
    outstanding: int = 8

    def __post_init__(self) -> None:
        if self.data_bits not in DATA_BITS:
            choice = ", ".join(map(str, DATA_BITS))
            raise UserError(f"data_bits is {self.data_bits}: choose one of {choice}")
        if not 32 <= self.address_bits <= 64:
            raise UserError(f"address_bits is {self.address_bits}: it must lie in 32..64")
        most = min(256, PAGE_BYTES // self.data_bytes)
        for name, low, high in (("burst", 1, most), ("outstanding", 2, 64)):
            value = getattr(self, name)
            if not low <= value <= high or value & (value - 1):
                raise UserError(f"{name} is {value}: it must be a power of two in {low}..{high}")

    @property
    def data_bytes(self) -> int:
        """Bytes of a beat."""
        return self.data_bits // 8

    @property
    def shift(self) -> int:
        """log2 of the bytes of a beat: ARSIZE."""
        return self.data_bytes.bit_length() - 1

    @property
    def buffer(self) -> int:
        """Beats that may be asked for and not be taken, for stream and rows each."""
        return self.burst * self.outstanding

    def as_dict(self) -> dict[str, int]:
        """The choices, for reports."""
        return asdict(self)


def per_beat(bus: Bus, lanes: int) -> int:
    """Words of N bytes in a beat; 1 where a word takes several beats."""
    return max(bus.data_bytes // lanes, 1)


def index_bits(bus: Bus, lanes: int) -> int:
    """Width of a word's place in its beat."""
    return per_beat(bus, lanes).bit_length() - 1


class AxiRead(Bundle):
    """The read channels of AXI4, from the master; valid and ready as AMBA defines them."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(
            arid=Out(1),
            araddr=Out(bus.address_bits),
            arlen=Out(8),
            arsize=Out(3),
            arburst=Out(2),
            arlock=Out(1),
            arcache=Out(4),
            arprot=Out(3),
            arqos=Out(4),
            arvalid=Out(1),
            arready=In(1),
            rid=In(1),
            rdata=In(bus.data_bits),
            rresp=In(2),
            rlast=In(1),
            rvalid=In(1),
            rready=Out(1),
        )


def region(bus: Bus, word_bits: int) -> data.StructLayout:
    """Words to be read: byte address of the first, a multiple of N, and how many, 1 or more."""
    return data.StructLayout({"address": bus.address_bits, "words": unsigned(word_bits)})


def burst(bus: Bus, lanes: int) -> data.StructLayout:
    """A burst.

    beat
        Address of its first beat, in beats.
    length
        Beats.
    first, last
        Places of the first word in the first beat, and of the last in the last.
    end
        It is the last of its region.
    """
    index = index_bits(bus, lanes)
    return data.StructLayout(
        {
            "beat": bus.address_bits - bus.shift,
            "length": bus.burst.bit_length(),
            "first": index,
            "last": index,
            "end": 1,
        }
    )


def beat(bus: Bus, lanes: int) -> data.StructLayout:
    """A beat that has come; first, last and end say of it what those of `burst` say."""
    index = index_bits(bus, lanes)
    return data.StructLayout({"data": bus.data_bits, "first": index, "last": index, "end": 1})


class Beats(Bundle):
    """Beats in the cycle in which they come, from the read master."""

    def __init__(self, bus: Bus, lanes: int) -> None:
        super().__init__(
            valid=Out(1, "A beat comes, and is taken."), payload=Out(beat(bus, lanes), ...)
        )
