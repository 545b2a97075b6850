"""Bundles of sequencer and issuer: tiles and the operation in hand."""

from __future__ import annotations

from rtl.interface.config import BANKS, Config
from rtl.interface.tile import Operand, Tag, address_bits
from rtl.primitives.members import Bundle, Out


class Operands(Bundle):
    """Addresses of a cycle's two operands."""

    def __init__(self, config: Config) -> None:
        address = address_bits(config)
        super().__init__(
            valid=Out(1, "There are some; the others are valid."),
            first=Out(1, "The tile's first and last operand; the first of two passes has no last."),
            last=Out(1, ...),
            index=Out(config.length_bits, "Of the operand within its tile."),
            a=Out(Operand, "Sources and addresses; operand B is the words of all ways."),
            a_address=Out(address, ...),
            a_way=Out(range(config.ways), "With several ways: that of operand A."),
            b=Out(Operand, ...),
            b_address=Out(address, ...),
            b_banks=Out(BANKS, "A bit for each bank: operand B lies there."),
            low=Out(
                1,
                "The activations' low halves count; the tile goes on from their sum.",
                there=config.precise,
            ),
            joined=Out(1, ..., there=config.precise),
        )


class TileEnd(Bundle):
    """The tile in hand, on its way to the epilogue."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            start=Out(1, "Pulse with its last operand, when the tile before it has drained."),
            tag=Out(Tag(config), "Valid from its first operand to its last."),
        )


class Multiplier(Bundle):
    """A multiplier m * 2^-s of a tensor."""

    def __init__(self) -> None:
        super().__init__(
            m=Out(16, "Stable from an ATTEND's first tile until the array is quiet."), s=Out(6, ...)
        )


class WindowSides(Bundle):
    """How far from a query the keys are that it sees."""

    def __init__(self, tokens: int) -> None:
        side = range(tokens + 1)
        super().__init__(
            before=Out(side, "Tokens, `tokens` without a limit; stable as a `Multiplier`."),
            after=Out(side, ...),
        )


class Factors(Bundle):
    """Multipliers of the embedding's rows."""

    def __init__(self) -> None:
        super().__init__(
            token=Out(8, "Of the latest EMBED; stable until the array is quiet."),
            position=Out(8, ...),
            wide=Out(1, ...),
        )


class Region(Bundle):
    """Where the latest ATTEND puts its context."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            address=Out(
                address_bits(config),
                "Of row tile 0, and words a row tile; stable until the array is quiet.",
            ),
            stride=Out(16, ...),
        )


class LogitLayout(Bundle):
    """How the logits lie."""

    def __init__(self) -> None:
        super().__init__(
            every=Out(1, "They are those of every token, not of the first one of each sequence."),
            labels=Out(16, "Of a sequence or token; words from N of them to the next N."),
            stride=Out(16, ...),
        )
