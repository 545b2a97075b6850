"""The cycles of a tile's way through array and epilogue, and the sums that they are made of.

Cycle 0 is the one in which the address of the tile's last operand is presented. Each name is the
cycle in which column 0 is there; column n follows n cycles later. A unit that gets a stage more
states it as its `latency`, and everything after it moves along.
"""

from cli.errors import UserError

from rtl.datapath.activation import ActivationTable
from rtl.datapath.layernorm import LayerNorm
from rtl.datapath.matmul import MatMul
from rtl.datapath.position_bias import PositionBias
from rtl.datapath.requantize import Requantize
from rtl.datapath.rotary import Rotary
from rtl.datapath.window import Window
from rtl.primitives.memory import Memory

COUNTED = 1
"""The tile's columns are counted."""

OPERAND = Memory.latency + 1
"""The last operand enters the array, after the mux of its sources."""

DRAINED = OPERAND + MatMul.latency
"""The array's output; each lane selects its bias, m and s, after which they may be replaced."""

SELECTED = DRAINED - 1
"""The column's bias, m and s are selected."""

BIASED = DRAINED + 1
"""The bias is added."""

SUMMED = BIASED + 1
"""The sum enters the requantizer; LOGITS: leaves."""

REQUANTIZED = SUMMED + Requantize.latency
"""int16. SCORE: leaves; others: saturated to int8, or X16's word is shifted."""

RESIDUAL_READ = REQUANTIZED - Memory.latency
"""RESIDUAL: the read of X16, whose word is there when the branch is requantized."""

GATE_READ = RESIDUAL_READ - 1
"""GATED: the read of the bank's word, which is selected and beside the branch in REQUANTIZED."""

BIAS_READ = REQUANTIZED - PositionBias.ahead
"""SCORE: the read of the position bias, which is there when the score is requantized."""

APART = REQUANTIZED - Window.latency
"""SCORE: the distance of key and queries, by which it is known who sees it when it leaves."""

CODE = REQUANTIZED + 1
"""int8, into the activation table; RESIDUAL: the sum, saturated; GATED: the product."""

LOOKED_UP = CODE + ActivationTable.latency
"""The table's answer."""

WRITTEN = LOOKED_UP + 1
"""The write: INT8, CONTEXT into a bank, RESIDUAL, EMBEDDING into X16."""

ROTARY_READ = REQUANTIZED - Rotary.ahead
"""INT8 with rotary positions: the read of cos and sin, which are there with the 16-bit result."""

TURNED = REQUANTIZED + Rotary.latency
"""INT8 with rotary positions: the int8 result, in the place of the table's answer."""

TURNED_LATE = TURNED - LOOKED_UP
"""Cycles by which it is written later than others; its tile drains so many columns more."""

AHEAD = LayerNorm.latency
"""How long before its write LayerNorm reads X16, and must know of the epilogue's writes."""


def scored(bias_heads: int) -> int:
    """The score enters the softmax: with a memory of position biases behind its sum."""
    return REQUANTIZED + (PositionBias.latency if bias_heads else 0)


def check_ahead(ahead: int) -> int:
    """Return ahead, if the epilogue knows of a write that many cycles before it.

    Raises
    ------
    ValueError
        A column is counted later than that.
    """
    if not 0 <= ahead < WRITTEN - COUNTED:
        raise UserError(
            f"Epilogue: ahead is {ahead}: it must lie in 0..{WRITTEN - COUNTED - 1}, since a "
            f"column is counted in cycle {COUNTED} of its tile, announced from the next one on and "
            f"written in cycle {WRITTEN}. LayerNorm "
            f"takes {AHEAD} cycles from read to write: where it gets slower than the epilogue, "
            "delay the epilogue's write too"
        )
    return ahead
