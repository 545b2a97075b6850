"""Start, end and failure of an inference."""

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import wiring

from rtl.interface.operation import Error
from rtl.primitives.members import In, Out


class Control(wiring.Component):
    """Holds everything else in reset between inferences, and cleans up after a failed one.

    A failed inference is drained: the rest of both input streams is taken and dropped up to their
    `last`, and rows that were asked for are awaited, so that the next one starts clean. `abort`
    ends a run (or a drain whose source has fallen silent) at once, but for rows still to come; the
    streams then start anew with the next inference. Once the results leave it is too late for both:
    they are complete, and a stream allows no withdrawal.
    """

    start: In(1, "Pulses. A start while busy or with an abort, an abort while idle do nothing.")
    abort: In(1, ...)
    error: In(Error, "Failures of the units, or NONE; the sequence that has failed, or 0.")
    number: In(16, ...)
    leaving: In(1, "The inference has ended well, its results are on their way out.")
    finished: In(1, "Pulse, with `leaving`: the last of them is taken.")
    model_ended: In(1, "Pulses: a word with `last` was taken from the stream.")
    tokens_ended: In(1, ...)
    rows_pending: In(1, "Embedding rows were asked for, or are in this cycle, and have not come.")
    reset: Out(1, "For all units; low during a run.", init=1)
    begin: Out(1, "Pulse: the first cycle of a run.")
    drain_model: Out(1, "The stream's words are to be dropped.")
    drain_tokens: Out(1, ...)
    busy: Out(1, "An inference is under way or drained; pulse: it has ended, `code` says how.")
    done: Out(1, ...)
    code: Out(Error, "Of the latest inference, and the sequence that has failed, or 0.")
    failed: Out(16, ...)

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        model_over, tokens_over = Signal(), Signal()
        with m.If(self.model_ended):
            m.d.sync += model_over.eq(1)
        with m.If(self.tokens_ended):
            m.d.sync += tokens_over.eq(1)
        m.d.sync += self.begin.eq(0)

        with m.FSM(name="state") as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.sync += [model_over.eq(0), tokens_over.eq(0)]
                with m.If(self.start & ~self.abort):
                    m.d.sync += [
                        self.reset.eq(0),
                        self.begin.eq(1),
                        self.code.eq(Error.NONE),
                        self.failed.eq(0),
                    ]
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(self.leaving):
                    with m.If(self.finished):
                        m.d.sync += self.reset.eq(1)
                        m.d.comb += self.done.eq(1)
                        m.next = "IDLE"
                with m.Elif(self.abort):
                    m.d.sync += [self.reset.eq(1), self.code.eq(Error.ABORTED)]
                    m.next = "ABORT"
                with m.Else():
                    m.d.sync += [self.code.eq(self.error), self.failed.eq(self.number)]
                    with m.If(self.error != Error.NONE):
                        m.d.sync += self.reset.eq(1)
                        m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += [
                    self.drain_model.eq(~model_over),
                    self.drain_tokens.eq(~tokens_over),
                ]
                with m.If(self.abort):
                    m.next = "ABORT"
                with m.Elif(model_over & tokens_over & ~self.rows_pending):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
            with m.State("ABORT"):
                with m.If(~self.rows_pending):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        return m
