"""Predicts the cycles of the attention unit: the accelerator's engine behind another wrapper.

Activations come from outside, no NORM is awaited, and what leaves at the end is the context.
"""

from __future__ import annotations

from collections.abc import Sequence

from rtl.compile.program import Program
from rtl.interface.command import Opcode
from sim.cycles.model import Inference, Prediction
from sim.cycles.sources import Rows, Words

OUTPUT_INTERVAL = 4
"""Cycles of a word of the context: address, read, held, taken."""

OUTPUT_LATENCY = 2
"""Cycles from the engine's end to the first of them, and from the last to `done`, together."""


class Attention(Inference):
    """One inference of the attention unit, with streams and a sink that never pause.

    words
        Activations come in so many, a cycle each from the first on, with more columns than lanes
        from the HEADER on.
    after
        Cycle in which the first token comes.
    """

    def __init__(
        self, program: Program, lengths: Sequence[int], *, words: int, after: int = 0
    ) -> None:
        super().__init__(program, lengths, Words(1), Rows(1))
        self.ready = after + sum(lengths)
        if self.ways > 1:
            self.loading = words
        else:
            self.ready = max(self.ready, words)

    def _end(self, act: int, logits: int) -> Prediction:
        (width,) = {
            step.values["heads"] * step.values["head_size"]
            for step in self.program.steps
            if step.opcode is Opcode.ATTEND
        }
        finished = max(act + 1, self.array.made, self.array.quiet)
        cycles = finished + OUTPUT_LATENCY + OUTPUT_INTERVAL * width * self.row_tiles
        active = sum(phase.active for phase in self.phases)
        return Prediction(cycles, active, {}, tuple(self.phases))
