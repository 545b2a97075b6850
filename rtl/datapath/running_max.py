"""The running maximum of columns of scores, one lane beside the other."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data

from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import delay, register

LEAST = -(1 << 15)


class RunningMax(Unit):
    """o = max over the valid columns from the first to the last, in each lane; -2^15 without one.

    One column a cycle. A comparison and the update that depends on it in one cycle would be the
    slowest path of the softmax, so they take two: the first compares a column with the maximum
    and with the column before it, the second knows whether that one was taken, so which of the
    two comparisons counts.

    Attributes
    ----------
    latency
        Cycles from the last column to its maximum in o: 4.
    """

    latency = 4

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        column = data.ArrayLayout(signed(16), lanes)
        super().__init__(
            en=In(1, "A column is present: first, last, buffer, valid and i belong to it."),
            buffer=In(1, "Where its maximum goes, after the last column."),
            first=In(1),
            last=In(1),
            valid=In(lanes, "A bit for each lane, for which the column counts."),
            i=In(column),
            o_buffer=In(1),
            o=Out(column, "Maxima of o_buffer, in the same cycle; until its next last column."),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycle 1: a masked column becomes the least score.
        compared_en = register(m, self.en, "compared_en", reset=True)
        compared_first = register(m, self.first, "compared_first")
        # Cycle 2: comparisons. Cycle 3: the maximum. Cycle 4: it moves to its buffer.
        decided_en = register(m, compared_en, "decided_en", reset=True)
        decided_first = register(m, compared_first, "decided_first")
        complete = delay(m, self.en & self.last, 3, "complete", reset=True)
        complete_buffer = delay(m, self.buffer, 3, "complete_buffer")
        for n in range(self.lanes):
            best = Signal(signed(16), name=f"best{n}", reset_less=True)
            compared = register(m, Mux(self.valid[n], self.i[n], LEAST), f"compared{n}")
            decided = register(m, compared, f"decided{n}")
            above_best = register(m, compared > best, f"above_best{n}")
            above_last = register(m, compared > decided, f"above_last{n}")
            takes, taken = Signal(name=f"takes{n}"), Signal(name=f"taken{n}")
            m.d.comb += takes.eq(decided_en & (decided_first | Mux(taken, above_last, above_best)))
            m.d.sync += taken.eq(takes)
            with m.If(takes):
                m.d.sync += best.eq(decided)
            maxima = [Signal.like(best, name=f"max{b}_{n}") for b in range(2)]
            for b in range(2):
                with m.If(complete & (complete_buffer == b)):
                    m.d.sync += maxima[b].eq(best)
            m.d.comb += self.o[n].eq(Mux(self.o_buffer, maxima[1], maxima[0]))
        return m
