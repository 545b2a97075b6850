"""Bundles of the loader: its writes, its state, and the state of its buffers."""

from __future__ import annotations

from amaranth.hdl import signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.command import PARAMETER_PLANES
from rtl.interface.config import Config, power_of_two
from rtl.interface.operation import EMBED
from rtl.interface.word import int8_word, int16_word
from rtl.primitives.memory import WritePort


class WeightWrite(wiring.Signature):
    """Writes the weights of an input for the columns of a tile.

    Members
    -------
    en : Out, a bit a way
        `address` and the word of `data` are its next ones.
    buffer : Out
        The half that is filled; valid whenever one is, by an EMBED too.
    address : Out
        Within the half.
    data : Out
        Words of all ways.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "en": Out(config.ways),
                "buffer": Out(1),
                "address": Out(range(config.weight_words)),
                "data": Out(data.ArrayLayout(int8_word(config.lanes), config.ways)),
            }
        )


class ParameterWrite(wiring.Signature):
    """Writes a byte plane of bias, m and s of N channels.

    Members
    -------
    en, buffer : Out
        The half of the double buffer; it must be free.
    plane : Out
        0..3 bias, 4 and 5 m, 6 s; the lowest byte first.
    word : Out
        With several ways: which N channels of the tile.
    data : Out
        Byte i belongs to channel i of them.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "en": Out(1),
                "buffer": Out(1),
                "plane": Out(range(PARAMETER_PLANES)),
                **({"word": Out(range(config.ways))} if config.ways > 1 else {}),
                "data": Out(8 * config.lanes),
            }
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


class NormParameterWrite(wiring.Signature):
    """Writes the parameters of a channel, while no NORM is queued or running.

    Members
    -------
    en : Out
    address : Out
        The channel.
    gamma, beta : Out, signed(16) and signed(32)
    operand_shift : Out, 3
        Of its int8 operand, 1..8; 8 as 0.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(
            {
                "en": Out(1),
                "address": Out(range(hidden)),
                "gamma": Out(signed(16)),
                "beta": Out(signed(32)),
                "operand_shift": Out(3),
            }
        )


class Release(wiring.Signature):
    """Progress of a double buffer's consumer.

    Members
    -------
    en : Out
        Pulse: a half is free; it may be written from the next cycle on.
    buffer : Out
        Which; valid with en.
    """

    def __init__(self) -> None:
        super().__init__({"en": Out(1), "buffer": Out(1)})


class RowsFill(wiring.Signature):
    """An EMBED in the loader's hands, whose rows the embedding unit puts into the weight halves.

    Members
    -------
    active : Out
        An EMBED is in hand.
    fields : Out
        `EMBED`, valid with active and the two cycles before.
    fill : Out
        The half in turn may be written.
    done : In
        Pulse: it is full.
    last : In
        It was the sequence's last one; valid with done.
    """

    def __init__(self) -> None:
        super().__init__(
            {"active": Out(1), "fields": Out(EMBED), "fill": Out(1), "done": In(1), "last": In(1)}
        )


class Limit(wiring.Signature):
    """The longest sequence that the loaded model takes.

    Members
    -------
    valid : Out
        From the check of the HEADER until the reset.
    tokens : Out
        Valid with valid.
    hidden : Out
        With several ways: the model's; valid with valid.
    """

    def __init__(self, config: Config) -> None:
        hidden = {"hidden": Out(16)} if config.ways > 1 else {}
        super().__init__({"valid": Out(1), "tokens": Out(16), **hidden})
