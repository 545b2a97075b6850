"""The MAC array: an outer product a cycle, and a shadow copy that drains a column a cycle."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.config import Config
from rtl.primitives.pipeline import delay, register

A_BITS = 9  # operand A is int8, or p, a uint8
B_BITS = 8
HALF_BITS = 8  # of a wide operand


def lut_product(a: Any, b: Any) -> Any:
    """a * b as a sum of partial products, so that synthesis takes LUTs and not a multiplier.

    b is signed: its top bit has the weight -2^(B_BITS-1).
    """
    terms = [Mux(b[bit], a, 0) << bit for bit in range(B_BITS)]
    low = [terms[0] + terms[1], terms[2] + terms[3], terms[4] + terms[5]]
    return (low[0] + low[1]) + (low[2] + (terms[6] - terms[7]))


class MatMul(wiring.Component):
    """acc[i, j] = sum over k of a[k][i] * b[k][j], for N x M results at once.

    Each cycle takes N values of A and M of B and adds all N * M products. `first`
    starts a sum, `last` ends it: a shadow copy of the accumulators then drains through `o`, one
    column a cycle, while the next tile accumulates. K = 1 is allowed.

    Exact: no rounding, no saturation. A sum fits `config.acc_bits` as long as K is within the
    configuration's limits. N * M multipliers of 9 x 8 bits, of which `config.dsp_macs` may become
    DSP blocks; the others are written as adders.

    Parameters
    ----------
    config
        `lanes`, `columns`, the accumulators' width and the DSP budget are used.

    Members
    -------
    a, b
        Operand words, signed 9 and signed 8 bits. Read in every cycle with `valid`.
    valid, first, last
        Whether the operands count; first and last operand of a tile.
    joined
        With `config.precise`: beside `first`, the sum goes on from floor(acc / 2^8), acc being the
        tile before, which had no last.
    o
        A column: `o[i]` is acc[i, n] `latency` + n cycles after `last`.

    Errors
    ------
    Where a tile's columns up to column n count, the next one must end at least n + 1 cycles later:
    an earlier `last` overwrites undrained columns.
    """

    #: Cycles from the last operand to column 0: operands, product, accumulator, shadow.
    latency = 4

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.lanes
        super().__init__(
            {
                "a": In(data.ArrayLayout(signed(A_BITS), n)),
                "b": In(data.ArrayLayout(signed(B_BITS), config.tile_columns)),
                "valid": In(1),
                "first": In(1),
                "last": In(1),
                **({"joined": In(1)} if config.precise else {}),
                "o": Out(data.ArrayLayout(signed(config.acc_bits), n)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, columns, width = self.config.lanes, self.config.tile_columns, self.config.acc_bits
        dsp_macs = self.config.macs if self.config.dsp_macs is None else self.config.dsp_macs

        # An operand goes all over the part; multipliers with registers of their own take these in.
        a_words = [register(m, value, f"a_{i}") for i, value in enumerate(self.a)]
        b_words = [register(m, value, f"b_{j}") for j, value in enumerate(self.b)]
        valid_p = delay(m, self.valid, 2, "valid", reset=True)
        first_p = delay(m, self.first, 2, "first", reset=True)
        last_p = delay(m, self.valid & self.last, 2, "last", reset=True)
        joined_p = delay(m, self.joined, 2, "joined") if self.config.precise else None
        copy = register(m, last_p, "copy", reset=True)
        shadow = [
            [Signal(signed(width), name=f"shadow_{i}_{j}", reset_less=True) for j in range(columns)]
            for i in range(n)
        ]
        for i in range(n):
            m.d.comb += self.o[i].eq(shadow[i][0])
            for j in range(columns):
                a, b = a_words[i], b_words[j]
                ab = a * b if i * columns + j < dsp_macs else lut_product(a, b)
                product = register(m, ab, f"product_{i}_{j}")
                acc = Signal(signed(width), name=f"acc_{i}_{j}", reset_less=True)
                before = Mux(first_p, 0, acc)
                if joined_p is not None:
                    before = Mux(first_p & joined_p, acc >> HALF_BITS, before)
                with m.If(valid_p):
                    m.d.sync += acc.eq(before + product)
                after = shadow[i][j + 1] if j + 1 < columns else shadow[i][j]
                m.d.sync += shadow[i][j].eq(Mux(copy, acc, after))
        return m
