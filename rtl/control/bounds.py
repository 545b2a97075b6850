"""The check that every tile stays within the banks that its descriptor names, or the logits."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data

from rtl.interface.config import Config
from rtl.primitives.members import In, Out, Unit


def offset_bits(config: Config) -> int:
    """Width of sums of addresses and strides: they show that they have left the four banks.

    Logits that begin within their memory and end behind it fit, too.
    """
    banks = (config.bank_words - 1).bit_length() + 3
    return max(banks, (config.logit_words + config.labels - 1).bit_length())


class Area(data.StructLayout):
    """Consecutive words of the activation banks, or of the logits' memory."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "used": unsigned(1),  # the tile reads or writes them; the others count only then
                "start": unsigned(offset_bits(config)),  # not yet cut to the width of the banks
                "words": unsigned(max(config.length_bits, config.tile_columns.bit_length())),
                "bank": unsigned(2),  # in which they must lie
                "spans": unsigned(1),  # in any (the feed-forward buffer, which begins in bank 0)
                "logits": unsigned(1),  # they are logits; bank and spans do not count
            }
        )


class Bounds(Unit):
    """Looks at the areas of each tile as it is made.

    A tensor that outgrows its bank would be read from, or written into, another one, and logits of
    every token may be more than there is room for. How many row tiles there are is known with the
    sequence alone, so the check is of each tile, not of the descriptor. It takes 3 cycles; no tile
    is computed in fewer than 20.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            en=In(1, "A tile is made."),
            areas=In(
                data.ArrayLayout(Area(config), 2),
                "What it reads and writes in the banks; valid with en.",
            ),
            outside=Out(
                1, "From 3 cycles after the first tile that left its bank on, until the reset."
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        bank_bits = (self.config.bank_words - 1).bit_length()
        made = Signal()
        m.d.sync += made.eq(self.en)
        for number in range(2):
            area = Signal(Area(self.config), name=f"area_{number}", reset_less=True)
            last = Signal(
                range(2 << offset_bits(self.config)), name=f"last_{number}", reset_less=True
            )
            known = Signal(Area(self.config), name=f"known_{number}")
            m.d.sync += [
                area.eq(self.areas[number]),
                known.eq(area),
                known.used.eq(area.used & made),
                last.eq(area.start + area.words - 1),
            ]
            first_bank, last_bank = known.start[bank_bits:], last[bank_bits:]
            left = Mux(
                known.spans,
                (first_bank > 3) | (last_bank > 3),
                (first_bank != known.bank) | (last_bank != known.bank),
            )
            beyond = last > self.config.logit_words - 1
            with m.If(known.used & Mux(known.logits, beyond, left)):
                m.d.sync += self.outside.eq(1)
        return m
