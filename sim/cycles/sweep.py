"""Inferences in a table: predicted, and played in the simulated Verilog where asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from golden.model import Model
from rtl.interface.config import Config
from rtl.interface.isa import Opcode
from sim.cycles.model import Phase, Prediction
from sim.estimate.area import estimate
from sim.machine.inference import Loaded
from sim.machine.machine import Machine, accelerator
from sim.phases import CLOCK_MHZ
from sim.report import table
from sim.verdict import verdict


@dataclass(frozen=True)
class Case:
    """An inference; `width` is bytes of the command stream a cycle, or of a beat of the bus."""

    config: Config
    tokens: int
    width: int
    prediction: Prediction
    played: dict[str, Any] | None = None

    @property
    def layers(self) -> tuple[float, int]:
        """Of the encoder layers MACs / (N x M), and cycles from the first operand to the last."""
        found = [phase for phase in self.prediction.phases if phase.name.startswith("layer.")]
        macs = sum(phase.macs for phase in found)
        return macs / self.config.macs, found[-1].last - found[0].first + 1

    @property
    def _place(self) -> dict[str, Any]:
        n, m = self.config.lanes, self.config.tile_columns
        return {"lanes": n, "columns": m, "tokens": self.tokens}

    def row(self) -> dict[str, object]:
        """A line of a table of inferences, by heading."""
        cycles, dsp = self.prediction.cycles, estimate(self.config)["DSP"]
        ideal, span = self.layers
        macs = ideal * self.config.macs / cycles
        return {
            **self._place,
            "bytes/cycle": self.width,
            "ideal": round(ideal),
            "cycles": cycles,
            "ideal/cycles": f"{ideal / cycles:.2%}",
            "layers": span,
            "ideal/layers": f"{ideal / span:.2%}",
            "a second": f"{1e6 * CLOCK_MHZ / cycles:,.0f}",
            **self.prediction.stalls,
            "DSP": dsp,
            "MACs/cycle": round(macs),
            "MACs/cycle/DSP": f"{macs / dsp:.3f}",
        }

    def report(self) -> str:
        """The phases as a table, and the totals."""

        def row(name: str, first: int, of: Phase | Prediction, macs: int) -> dict[str, object]:
            share = macs / self.config.macs
            return {
                "phase": name,
                "first": first,
                "cycles": of.cycles,
                "ideal": round(share),
                "utilisation": f"{share / of.cycles:.1%}" if macs else "-",
                "active": of.active,
                **of.stalls,
            }

        total, phases = self.prediction, self.prediction.phases
        attends = [".attend" * (phase.opcode is Opcode.ATTEND) for phase in phases]
        rows = [row(p.name + attend, p.first, p, p.macs) for p, attend in zip(phases, attends)]
        rows.append(row("total", 0, total, sum(phase.macs for phase in phases)))
        milliseconds = total.cycles / CLOCK_MHZ / 1e3
        ideal, span = self.layers
        return (
            f"{_table(rows)}\n\n"
            f"{total.cycles:,} cycles from the start to the last logit: {milliseconds:,.2f} ms at "
            f"{CLOCK_MHZ} MHz, {1e3 / milliseconds:,.0f} texts a second.\n"
            f"Encoder layers: ideal {ideal:,.0f} cycles (MACs / (N x M)), "
            f"{ideal / total.cycles:.1%} of the total and {ideal / span:.1%} of the {span:,} from "
            "their first operand to their last.\nStalls stand with the phase that waited; the "
            "rest of the idle cycles follow the last operand."
        )

    def as_dict(self) -> dict[str, Any]:
        """Sizes, counters, and those of each phase, for JSON."""
        ideal, span = self.layers
        phases = self.prediction.phases
        return {
            **self._place,
            "total_cycles": self.prediction.cycles,
            "active": self.prediction.active,
            "stalls": self.prediction.stalls,
            "macs": sum(phase.macs for phase in phases),
            "layers": {"ideal_cycles": ideal, "cycles": span},
            "clock_mhz": CLOCK_MHZ,
            "phases": [
                asdict(phase) | {"opcode": phase.opcode.name, "cycles": phase.cycles}
                for phase in phases
            ],
            "played": self.played,
        }


def play(loaded: Loaded, model: Model, tokens: int, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Play random tokens and hold them to golden and to the prediction: `Case.played`.

    The register ``cycles``; the ``values`` (logits and writes of every named intermediate) that
    were compared, and how many are ``mismatches``; the ``problem``, "" when nothing is wrong.

    memory: attributes of `sim.machine.inference.Inference`.
    """
    rng = np.random.default_rng(0)
    ids = rng.integers(model.shape.vocabulary, size=tokens, dtype=np.int32)
    types = rng.integers(max(model.shape.types, 1), size=tokens, dtype=np.int32)
    config = loaded.program.config
    with Machine(accelerator(config), config) as machine:
        result = machine.run(loaded.inference(ids, types, trace=True, **memory))
    found = verdict(result, loaded.program, model)
    values, mismatches = found.compared.total(), found.mismatches.total()
    counts = {"cycles": result.cycles, "values": values, "mismatches": mismatches}
    return counts | {"problem": "; ".join(found.problems)}


def said(cases: Sequence[Case]) -> list[str]:
    """A line for each that was played."""
    return [
        f"{case.config.lanes} lanes, {case.config.tile_columns} columns, {case.tokens} tokens, "
        f"{case.width} bytes a cycle: {played['cycles']:,} cycles in the Verilog, "
        f"{played['values']:,} values compared with golden, {played['mismatches']:,} differ; "
        + (played["problem"] or "as predicted, equal bit for bit")
        for case in cases
        if (played := case.played)
    ]


def report(cases: Sequence[Case]) -> str:
    """A line per inference."""
    return (
        f"{_table([case.row() for case in cases])}\n\nideal: MACs / (N x M) of the encoder layers; "
        "layers: cycles from their first operand to their last; a second: inferences at "
        f"{CLOCK_MHZ} MHz."
    )


def _table(rows: Sequence[dict[str, object]]) -> str:
    return table([*rows[0]], [[*row.values()] for row in rows])
