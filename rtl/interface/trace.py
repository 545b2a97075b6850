"""The inside as a bench sees it: every write of a named intermediate, and the array's activity.

Unconnected, the traces cost nothing. In Verilog their ports are called trace_member.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from rtl.interface.config import Config
from rtl.interface.tile import address_bits
from rtl.interface.word import int8_word, int16_word


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
    DRAIN     the tile is shorter than N and the array still drains.
    """

    NONE = 0
    IDLE = 1
    WEIGHTS = 2
    NORM = 3
    SOFTMAX = 4
    DRAIN = 5


class Activity(wiring.Signature):
    """Activity of the array, for counters.

    Members
    -------
    active : Out
        An operand is read in this cycle.
    operation : Out
        Its descriptor's index in the stream, modulo 256; valid with active.
    stall : Out
        Why none will be in the next.
    """

    def __init__(self) -> None:
        super().__init__({"active": Out(1), "operation": Out(8), "stall": Out(Stall)})


class SoftmaxTrace(wiring.Signature):
    """Members
    -------
    p_en, p_key, p : Out
        A word of p as it is written.
    row_en, max, sum : Out
        Maximum and sum of all lanes, once a pass.
    """

    def __init__(self, lanes: int, tokens: int) -> None:
        super().__init__(
            {
                "p_en": Out(1),
                "p_key": Out(range(tokens)),
                "p": Out(data.ArrayLayout(unsigned(8), lanes)),
                "row_en": Out(1),
                "max": Out(int16_word(lanes)),
                "sum": Out(data.ArrayLayout(unsigned(sum_bits(tokens)), lanes)),
            }
        )


class AttentionTrace(wiring.Signature):
    """`SoftmaxTrace`, and what the epilogue gives.

    Members
    -------
    bank_en, bank_address, bank : Out
        A write of the activation banks. With c ways the address is c times that within the way, and
        the way's number.
    score_en, score_key, score : Out
        A column of scores.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "bank_en": Out(1),
                "bank_address": Out(address_bits(config) + config.way_bits),
                "bank": Out(int8_word(config.lanes)),
                "score_en": Out(1),
                "score_key": Out(range(config.tokens)),
                "score": Out(int16_word(config.lanes)),
                **SoftmaxTrace(config.lanes, config.tokens).members,
            }
        )


class NormTrace(wiring.Signature):
    """Members
    -------
    norm_en, norm_address, norm, norm8 : Out
        A normalised word: what X16 and X8 get.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "norm_en": Out(1),
                "norm_address": Out(range(config.x_words)),
                "norm": Out(int16_word(config.lanes)),
                "norm8": Out(int8_word(config.lanes)),
            }
        )


class Trace(wiring.Signature):
    """`AttentionTrace`, `NormTrace`, `Activity`, and the epilogue's other writes.

    Members
    -------
    x_en, x_address, x : Out
        A sum written to X16.
    logit_en, logit_index, logit : Out
        A logit, of lane 0.
    active, operation, stall : Out
        See `Activity`.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                **AttentionTrace(config).members,
                **NormTrace(config).members,
                "x_en": Out(1),
                "x_address": Out(address_bits(config)),
                "x": Out(int16_word(config.lanes)),
                "logit_en": Out(1),
                "logit_index": Out(range(config.labels * config.gathered_tiles)),
                "logit": Out(signed(32)),
                **Activity().members,
            }
        )
