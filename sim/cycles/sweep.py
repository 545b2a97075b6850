"""Several inferences as one table: predicted, and played in the simulated Verilog where asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from golden.model import Model
from sim.cycles.model import Prediction
from sim.machine.inference import Loaded
from sim.machine.machine import Machine, accelerator
from sim.phases import CLOCK_MHZ
from sim.report import table
from sim.verdict import verdict
from tb.trace import CAUSES

LAYER = "layer."


def layers(prediction: Prediction, macs: int) -> tuple[float, int]:
    """MACs / (N x M) of the encoder layers, and cycles from their first operand to their last."""
    found = [phase for phase in prediction.phases if phase.name.startswith(LAYER)]
    return sum(p.macs for p in found) / macs, found[-1].last - found[0].first + 1


@dataclass(frozen=True)
class Played:
    """An inference of random tokens in the simulated Verilog.

    Attributes
    ----------
    cycles
        Of the register `cycles`.
    values, mismatches
        Compared logits and writes of every named intermediate, and how many differ from golden's.
    problem
        What is wrong, "" when nothing is.
    """

    cycles: int
    values: int
    mismatches: int
    problem: str


@dataclass(frozen=True)
class Case:
    """One inference.

    Attributes
    ----------
    width
        Bytes of the command stream a cycle, or of a beat of the bus.
    dsp
        DSPs of the accelerator, as sim.estimate counts them.
    played
        None where it was not played.
    """

    lanes: int
    columns: int
    tokens: int
    width: int
    dsp: int
    prediction: Prediction
    played: Played | None = None

    @property
    def macs(self) -> int:
        """MACs of the array."""
        return self.lanes * self.columns


def play(loaded: Loaded, model: Model, tokens: int, memory: Mapping[str, Any]) -> Played:
    """Play random tokens and hold them to golden and to the prediction.

    memory: attributes of `sim.machine.inference.Inference`.

    Raises
    ------
    SimulatorError
        Verilator is missing or refuses the design.
    """
    rng = np.random.default_rng(0)
    ids = rng.integers(model.shape.vocabulary, size=tokens, dtype=np.int32)
    types = rng.integers(max(model.shape.types, 1), size=tokens, dtype=np.int32)
    config = loaded.program.config
    with Machine(accelerator(config), config) as machine:
        result = machine.run(loaded.inference(ids, types, trace=True, **memory))
    found = verdict(result, loaded.program, model)
    values, mismatches = found.compared.total(), found.mismatches.total()
    return Played(result.cycles, values, mismatches, "; ".join(found.problems))


def said(cases: Sequence[Case]) -> list[str]:
    """A line for each that was played."""
    return [
        f"{case.lanes} lanes, {case.columns} columns, {case.tokens} tokens, {case.width} bytes a "
        f"cycle: {case.played.cycles:,} cycles in the Verilog, {case.played.values:,} values "
        f"compared with golden, {case.played.mismatches:,} differ; "
        + (case.played.problem or "as predicted, equal bit for bit")
        for case in cases
        if case.played
    ]


def good(cases: Sequence[Case]) -> bool:
    """Nothing that was played differs."""
    return not any(case.played and case.played.problem for case in cases)


def report(cases: Sequence[Case]) -> str:
    """A line an inference."""
    headings = [
        *("lanes", "columns", "tokens", "bytes/cycle", "ideal", "cycles", "ideal/cycles", "layers"),
        *("ideal/layers", "a second", *CAUSES, "DSP", "MACs/cycle", "MACs/cycle/DSP"),
    ]
    rows: list[list[object]] = []
    for case in cases:
        cycles, stalls = case.prediction.cycles, case.prediction.stalls
        ideal, span = layers(case.prediction, case.macs)
        macs = ideal * case.macs / cycles
        rows.append(
            [
                *(case.lanes, case.columns, case.tokens, case.width, round(ideal), cycles),
                *(f"{ideal / cycles:.2%}", span, f"{ideal / span:.2%}"),
                *(f"{1e6 * CLOCK_MHZ / cycles:,.0f}", *(stalls[cause] for cause in CAUSES)),
                *(case.dsp, round(macs), f"{macs / case.dsp:.3f}"),
            ]
        )
    return (
        f"{table(headings, rows)}\n\nideal: MACs / (N x M) of the encoder layers; layers: cycles "
        f"from their first operand to their last; a second: inferences at {CLOCK_MHZ} MHz."
    )


def as_dict(played: Played | None) -> dict[str, Any]:
    """For JSON, empty where nothing was played."""
    return {} if played is None else {"played": asdict(played)}
