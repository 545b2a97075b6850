"""An SDR SDRAM chip: its geometry and the times that its data sheet demands."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Chip:
    """Geometry in powers of two, times in nanoseconds as JEDEC names them, and the CAS latency.

    The defaults suit each chip that the ULX3S has been built with, up to 133 MHz, and use 32 MiB of
    it: each time is the longest among AS4C32M16SB-7, AS4C16M16SA-7, IS42S16160 and
    MT48LC16M16A2-75.

    Parameters
    ----------
    row_bits, column_bits, bank_bits
        A word of 16 bits lies at (row, bank, column), the column in the lowest bits of its address.
    cas
        CAS latency in cycles, 2 or 3.
    clock
        Shortest clock period at that CAS latency.
    rc, ras, ras_max, rcd, rp, rrd
        ACTIVATE to ACTIVATE of a bank, to its PRECHARGE at least and at most, to its READ or WRITE;
        PRECHARGE to ACTIVATE or REFRESH; ACTIVATE to ACTIVATE of another bank.
    rfc, wr, mrd
        REFRESH to any command, WRITE to PRECHARGE of its bank, LOAD MODE to any command; the last
        is two cycles at least.
    power_up
        From a steady clock to the first command.
    refresh
        In any such time each row is refreshed once.

    Raises
    ------
    ValueError
        A value is out of its range; the message names it.
    """

    row_bits: int = 13
    column_bits: int = 9
    bank_bits: int = 2
    cas: int = 3
    clock: float = 7.5
    rc: float = 70
    ras: float = 45
    ras_max: float = 100_000
    rcd: float = 21
    rp: float = 21
    rrd: float = 15
    rfc: float = 70
    wr: float = 20
    mrd: float = 15
    power_up: float = 200_000
    refresh: float = 64_000_000

    def __post_init__(self) -> None:
        for name, least, most in (
            ("row_bits", 1, 13),
            ("column_bits", 1, 9),
            ("bank_bits", 2, 2),
            ("cas", 2, 3),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"Chip: {name} is {value}: it must lie in {least}..{most}")
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                raise ValueError(f"Chip: {field.name} is {value}: it must be above 0")

    @property
    def address_bits(self) -> int:
        """Width of the address of a word of 16 bits."""
        return self.row_bits + self.bank_bits + self.column_bits

    @property
    def rows(self) -> int:
        """Rows of a bank, and REFRESH commands in the time `refresh`."""
        return 1 << self.row_bits


@dataclass(frozen=True)
class Cycles:
    """The times of a chip in cycles of a clock, rounded up; `interval` between refreshes, down."""

    rc: int
    ras: int
    rcd: int
    rp: int
    rrd: int
    rfc: int
    wr: int
    mrd: int
    power_up: int
    interval: int

    @classmethod
    def of(cls, chip: Chip, megahertz: float) -> Cycles:
        """The cycles of `chip` at a clock.

        The interval is a cycle shorter than the average that the chip asks for: a refresh waits
        for the row that is being read, and of two that lie `rows` apart the later may have waited
        longer.

        Raises
        ------
        ValueError
            The clock is too fast for the chip, or so slow that refreshing leaves no time.
        """
        if not 1 <= megahertz <= 1000 / chip.clock:
            raise ValueError(
                f"the SDRAM's clock is {megahertz:g} MHz: it must lie in 1..{1000 / chip.clock:g}"
            )

        def up(nanoseconds: float) -> int:
            return math.ceil(nanoseconds * megahertz / 1000 - 1e-9)

        interval = math.floor(chip.refresh * megahertz / 1000 / chip.rows) - 1
        names = ("rc", "ras", "rcd", "rp", "rrd", "rfc", "wr", "power_up")
        times = {name: up(getattr(chip, name)) for name in names}
        found = cls(**times, mrd=max(2, up(chip.mrd)), interval=interval)
        busy = found.ras + found.rp + found.rfc + found.rcd
        if interval < 2 * busy:
            raise ValueError(
                f"the SDRAM's clock is {megahertz:g} MHz: a refresh every {interval} cycles leaves "
                f"no time, it must be {2 * busy} or more"
            )
        return found
