"""The inside as a bench sees it: every write of a named intermediate, and the array's activity.

Unconnected, the traces cost nothing. In Verilog their ports are called trace_member.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from rtl.interface.config import Config
from rtl.interface.tile import address_bits
from rtl.interface.word import int8_word, int16_word
from rtl.primitives.members import Bundle, Out


def sum_bits(tokens: int) -> int:
    """Width of a row's sum of p, at most 255 a token: 20, with more than 4,112 tokens 21."""
    return max((255 * tokens).bit_length(), 20)


class Stall(IntEnum):
    """Why no operand was read in a cycle.

    NONE      one was read.
    IDLE      the sequencer has no tile: the inference has not begun, has ended, or a fence waits
              until the array is quiet.
    WEIGHTS   the weight tile or the embedding rows are not loaded.
    NORM      the row tile is not normalised.
    SOFTMAX   the softmax has not finished.
    DRAIN     the tile is shorter than what the array still drains, up to M columns.
    """

    NONE = 0
    IDLE = 1
    WEIGHTS = 2
    NORM = 3
    SOFTMAX = 4
    DRAIN = 5


class Activity(Bundle):
    """Activity of the array, for counters."""

    def __init__(self) -> None:
        super().__init__(
            active=Out(1, "An operand is read in this cycle."),
            operation=Out(
                8, "Its descriptor's index in the stream, modulo 256; valid with active."
            ),
            stall=Out(Stall, "Why none will be in the next."),
        )


class SoftmaxTrace(Bundle):
    """What the softmax writes."""

    def __init__(self, lanes: int, tokens: int) -> None:
        super().__init__(
            p_en=Out(1, "A word of p as it is written."),
            p_key=Out(range(tokens), ...),
            p=Out(data.ArrayLayout(unsigned(8), lanes), ...),
            row_en=Out(1, "Maximum and sum of all lanes, once a pass."),
            max=Out(int16_word(lanes), ...),
            sum=Out(data.ArrayLayout(unsigned(sum_bits(tokens)), lanes), ...),
        )


class AttentionTrace(Bundle):
    """`SoftmaxTrace`, and what the epilogue gives."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            bank_en=Out(
                1,
                "A write of the activation banks. With c ways the address is c times that within"
                " the way, and the way's number.",
            ),
            bank_address=Out(address_bits(config) + config.way_bits, ...),
            bank=Out(int8_word(config.lanes), ...),
            score_en=Out(1, "A column of scores."),
            score_key=Out(range(config.tokens), ...),
            score=Out(int16_word(config.lanes), ...),
            **SoftmaxTrace(config.lanes, config.tokens).members,
        )


class NormTrace(Bundle):
    """What the normalizer writes."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            norm_en=Out(1, "A normalised word: what X16 and X8 get."),
            norm_address=Out(range(config.x_words), ...),
            norm=Out(int16_word(config.lanes), ...),
            norm8=Out(int8_word(config.lanes), ...),
        )


class Trace(Bundle):
    """`AttentionTrace`, `NormTrace`, `Activity`, and the epilogue's other writes."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            **AttentionTrace(config).members,
            **NormTrace(config).members,
            x_en=Out(1, "A sum written to X16."),
            x_address=Out(address_bits(config), ...),
            x=Out(int16_word(config.lanes), ...),
            logit_en=Out(1, "A logit, of lane 0."),
            logit_index=Out(range(config.logit_words), ...),
            logit=Out(signed(32), ...),
            **Activity().members,
        )
