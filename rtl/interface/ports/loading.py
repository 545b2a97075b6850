"""Bundles of the loader: its writes, its state, and the state of its buffers."""

from __future__ import annotations

from amaranth.hdl import signed
from amaranth.lib import data

from rtl.interface.command import PARAMETER_PLANES
from rtl.interface.config import Config, power_of_two
from rtl.interface.operation import EMBED
from rtl.interface.word import int8_word, int16_word
from rtl.primitives.members import Bundle, In, Out
from rtl.primitives.memory import WritePort


class WeightWrite(Bundle):
    """Writes the weights of an input for the columns of a tile."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            en=Out(config.ways, "`address` and the word of `data` are its next ones."),
            buffer=Out(1, "The half that is filled; valid whenever one is, by an EMBED too."),
            address=Out(range(config.weight_words), "Within the half."),
            data=Out(data.ArrayLayout(int8_word(config.lanes), config.ways), "Words of all ways."),
        )


class ParameterWrite(Bundle):
    """Writes a byte plane of bias, m and s of N channels."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            en=Out(1, "The half of the double buffer; it must be free."),
            buffer=Out(1, ...),
            plane=Out(range(PARAMETER_PLANES), "0..3 bias, 4 and 5 m, 6 s; the lowest byte first."),
            word=Out(range(config.ways), "With several ways: which N channels of the tile."),
            data=Out(8 * config.lanes, "Byte i belongs to channel i of them."),
        )


class TableWrite(WritePort):
    """Writes an entry of the activation table, in all lanes: address is the code as a byte.

    With `precise` a ninth bit says that it is the low half of an entry.
    """

    def __init__(self, precise: bool = False) -> None:
        super().__init__(8 + precise, 8)


class BiasWrite(WritePort):
    """Writes N values of the position bias: a word of a head, and above it the head."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            range(config.bias_heads * config.bias_head_words), int16_word(config.lanes)
        )


class RotaryWrite(WritePort):
    """Writes N values of the tables of rotary positions: a row tile, and above it the channel."""

    def __init__(self, config: Config) -> None:
        words = 2 * config.rotary_pairs * power_of_two(config.row_tiles)
        super().__init__(range(words), int16_word(config.lanes))


class NormParameterWrite(Bundle):
    """Writes the parameters of a channel, while no NORM is queued or running."""

    def __init__(self, hidden: int) -> None:
        super().__init__(
            en=Out(1),
            address=Out(range(hidden), "The channel."),
            gamma=Out(signed(16)),
            beta=Out(signed(32)),
            operand_shift=Out(3, "Of its int8 operand, 1..8; 8 as 0."),
        )


class Release(Bundle):
    """Progress of a double buffer's consumer."""

    def __init__(self) -> None:
        super().__init__(
            en=Out(1, "Pulse: a half is free; it may be written from the next cycle on."),
            buffer=Out(1, "Which; valid with en."),
        )


class RowsFill(Bundle):
    """An EMBED in the loader's hands, whose rows the embedding unit puts into the weight halves."""

    def __init__(self) -> None:
        super().__init__(
            active=Out(1, "An EMBED is in hand."),
            fields=Out(EMBED, "`EMBED`, valid with active and the two cycles before."),
            fill=Out(1, "The half in turn may be written."),
            done=In(1, "Pulse: it is full."),
            last=In(1, "It was the batch's last one; valid with done."),
        )


class Limit(Bundle):
    """The longest sequence that the loaded model takes."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            valid=Out(1, "From the check of the HEADER until the reset."),
            tokens=Out(16, "Valid with valid."),
            hidden=Out(16, "With several ways: the model's.", there=config.ways > 1),
        )
