"""The MAC array: an outer product a cycle, and a shadow copy that drains a column a cycle.

N columns stand together and take an operand in the same cycle; each further group takes it a cycle
after the one before, so that no operand has to get to all columns at once. The drain hides that:
column N of a tile is not wanted before the N columns of the first group.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data

from rtl.interface.config import Config
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import delay, register, stages

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


class MatMul(Unit):
    """acc[i, j] = sum over k of a[k][i] * b[k][j], for N x M results at once.

    Each cycle takes N values of A and M of B and adds all N * M products. `first`
    starts a sum, `last` ends it: a shadow copy of the accumulators then drains through `o`, one
    column a cycle, while the next tile accumulates. K = 1 is allowed.

    Exact: no rounding, no saturation. A sum fits `config.acc_bits` as long as K is within the
    configuration's limits. N * M multipliers of 9 x 8 bits, of which `config.dsp_macs` may become
    DSP blocks; the others are written as adders.

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
            a=In(
                data.ArrayLayout(signed(A_BITS), n), "Operands, read in every cycle with `valid`."
            ),
            b=In(data.ArrayLayout(signed(B_BITS), config.tile_columns), ...),
            valid=In(1, "Whether the operands count; first and last operand of a tile."),
            first=In(1, ...),
            last=In(1, ...),
            joined=In(
                1,
                "With `first`: from floor(acc / 2^8) on, the tile before, which had no last.",
                there=config.precise,
            ),
            o=Out(
                data.ArrayLayout(signed(config.acc_bits), n),
                "`o[i]` is acc[i, n] `latency` + n cycles after `last`.",
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, columns, width = self.config.lanes, self.config.tile_columns, self.config.acc_bits
        dsp_macs = self.config.macs if self.config.dsp_macs is None else self.config.dsp_macs

        # An operand goes all over its group; multipliers with registers of their own take these in.
        ways = self.config.ways
        a_words = [
            stages(m, register(m, a, f"a_{i}"), ways - 1, f"a_{i}", reset=False)
            for i, a in enumerate(self.a)
        ]
        b_words = [
            delay(m, register(m, b, f"b_{j}"), j // n, f"b_{j}") for j, b in enumerate(self.b)
        ]
        valid_p = stages(m, self.valid, ways + 1, "valid")
        first_p = stages(m, self.first, ways + 1, "first")
        last_p = delay(m, self.valid & self.last, 2, "last", reset=True)
        joined_p = stages(m, self.joined, ways + 1, "joined", reset=False)
        copy = stages(m, register(m, last_p, "copy", reset=True), ways - 1, "copy")
        # Column j, copied j // N cycles after column 0, has that many places less to go.
        sources: list[list[int]] = [[] for _ in range(columns - ways + 1)]
        for j in range(columns):
            sources[j - j // n].append(j)
        places = len(sources)
        acc = [
            [Signal(signed(width), name=f"acc_{i}_{j}", reset_less=True) for j in range(columns)]
            for i in range(n)
        ]
        shadow = [
            [Signal(signed(width), name=f"shadow_{i}_{j}", reset_less=True) for j in range(places)]
            for i in range(n)
        ]
        for i in range(n):
            m.d.comb += self.o[i].eq(shadow[i][0])
            for j in range(columns):
                group = j // n
                a, b, sum_ = a_words[i][group], b_words[j], acc[i][j]
                ab = a * b if i * columns + j < dsp_macs else lut_product(a, b)
                product = register(m, ab, f"product_{i}_{j}")
                before = Mux(first_p[group + 2], 0, sum_)
                joined = first_p[group + 2] & joined_p[group + 2]
                before = Mux(joined, sum_ >> HALF_BITS, before)
                with m.If(valid_p[group + 2]):
                    m.d.sync += sum_.eq(before + product)
                if j < places:
                    taken = shadow[i][j + 1] if j + 1 < places else shadow[i][j]
                    # Where two columns come at once, the later is of a tile that has drained.
                    for column in reversed(sources[j]):
                        taken = Mux(copy[column // n], acc[i][column], taken)
                    m.d.sync += shadow[i][j].eq(taken)
        return m
