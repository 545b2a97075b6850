"""Bundles of sequencer and issuer: tiles and the operation in hand."""

from __future__ import annotations

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from rtl.interface.config import Config
from rtl.interface.tile import BANKS, Operand, Tag, address_bits


class Operands(wiring.Signature):
    """Addresses of a cycle's two operands.

    Members
    -------
    valid : Out
        There are some; the others are valid.
    first, last : Out
        The tile's first and last operand; low without valid. The first of two passes has no last.
    index : Out
        Of the operand within its tile.
    a, a_address, b, b_address : Out
        Sources and addresses; operand B is the words of all ways.
    a_way : Out
        With several ways: that of operand A.
    b_banks : Out
        A bit for each activation bank: operand B lies there. Low while the issuer is quiet.
    low, joined : Out
        With wide operands: the activations' low halves count; the tile goes on from their sum.
    """

    def __init__(self, config: Config) -> None:
        address = address_bits(config)
        super().__init__(
            {
                "valid": Out(1),
                "first": Out(1),
                "last": Out(1),
                "index": Out(config.length_bits),
                "a": Out(Operand),
                "a_address": Out(address),
                **({"a_way": Out(range(config.ways))} if config.ways > 1 else {}),
                "b": Out(Operand),
                "b_address": Out(address),
                "b_banks": Out(BANKS),
                **({"low": Out(1), "joined": Out(1)} if config.precise else {}),
            }
        )


class TileEnd(wiring.Signature):
    """The tile in hand, on its way to the epilogue.

    Members
    -------
    start : Out
        Pulse with its last operand, when the tile before it has drained.
    tag : Out
        Valid from its first operand to its last.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"start": Out(1), "tag": Out(Tag(config))})


class Multiplier(wiring.Signature):
    """A multiplier m * 2^-s of a tensor.

    Members
    -------
    m, s : Out
        Stable from an ATTEND's first tile until the array is quiet.
    """

    def __init__(self) -> None:
        super().__init__({"m": Out(16), "s": Out(6)})


class WindowSides(wiring.Signature):
    """How far from a query the keys are that it sees.

    Members
    -------
    before, after : Out
        Tokens; the longest sequence's where there is no limit. Stable from an ATTEND's first tile
        until the array is quiet.
    """

    def __init__(self, tokens: int) -> None:
        side = range(tokens + 1)
        super().__init__({"before": Out(side), "after": Out(side)})


class Factors(wiring.Signature):
    """Multipliers of the embedding's rows.

    Members
    -------
    token, position, wide : Out
        Of the latest EMBED; stable until the array is quiet.
    """

    def __init__(self) -> None:
        super().__init__({"token": Out(8), "position": Out(8), "wide": Out(1)})


class Region(wiring.Signature):
    """Where the latest ATTEND puts its context.

    Members
    -------
    address, stride : Out
        Of row tile 0, and words a row tile; stable until the array is quiet.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"address": Out(address_bits(config)), "stride": Out(16)})


class LogitLayout(wiring.Signature):
    """How the logits lie.

    Members
    -------
    every : Out
        They are those of every token, not of the first one of each sequence.
    labels, stride : Out
        Logits of a sequence, or of a token; words from N of them to the next N. Of the LINEAR with
        LOGITS, stable until the reset.
    """

    def __init__(self) -> None:
        super().__init__({"every": Out(1), "labels": Out(16), "stride": Out(16)})
