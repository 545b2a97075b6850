"""The figures that `sim.run` prints of played inferences, and the same for its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quant.measure.metrics import cosines
from quant.measure.tasks import task_of
from rtl.interface.config import Config
from sim.bench import PassedTest
from sim.phases import (
    CLOCK_MHZ,
    Phase,
    phases,
    work,
)
from sim.play import Verified
from sim.reference import Reference
from sim.report import table


def kept(facts: dict[str, Any]) -> dict[str, Any]:
    """The figures of an inference for JSON."""
    names = ("cycles", "active", "stalls", "operations", "compared", "mismatches")
    return {name: facts[name] for name in names if name in facts}


def whole_model(text: Reference, played: Verified) -> dict[str, Any]:
    """The answers of the three models; cycles and differences by phase."""
    facts, program = played.facts, played.program
    tokens = len(text.tokens.ids)
    said = verdicts(text, played.result)
    print(table(*_said_table(text, said)), "\n")
    rows = phases(program, tokens, facts["operations"])
    print(table(*phase_table(rows, facts, text)))
    if text.floats is not None:
        print("largest, mean: distance from the float model in units of the tensor's scale")
    useful, cycles = work(program, tokens), facts["cycles"]
    ideal = useful / program.config.macs
    stalls = ", ".join(f"{count:,} {cause}" for cause, count in facts["stalls"].items() if count)
    microseconds = cycles / CLOCK_MHZ
    print(
        f"\n{cycles:,} cycles from the start to the last logit: {microseconds / 1000:.2f} ms at "
        f"{CLOCK_MHZ} MHz, {1e6 / microseconds:.0f} {text.quantized.spec.inputs} a second.\n"
        f"Ideal {ideal:,.0f} cycles for {useful:,} MACs: utilisation {ideal / cycles:.1%}. "
        f"No operand: {stalls}."
    )
    return {
        "verdicts": said,
        "phases": [row.as_dict() for row in rows],
        "ideal_cycles": ideal,
        "utilisation": ideal / cycles,
        "milliseconds": microseconds / 1000,
        "simulation_seconds": played.seconds,
        **kept(facts),
    }


def verdicts(text: Reference, rtl: np.ndarray) -> list[dict[str, Any]]:
    """The float model, where it is there, golden and RTL: what they say of it, and the logits.

    Of a model that makes embeddings: the cosine with golden's.
    """
    spec, scale = text.quantized.spec, text.quantized.logit_scale
    task = task_of(spec)
    golden = text.golden["logits"]
    found: list[tuple[str, np.ndarray, np.ndarray]] = [
        ("golden", golden * scale, golden),
        ("RTL", rtl * scale, rtl),
    ]
    if text.floats is not None:
        found.insert(0, ("float", text.floats["logits"], text.floats["logits"]))
    if task.measure == "cosine":

        def vector(outputs: np.ndarray) -> np.ndarray:
            return spec.kept(np.atleast_2d(outputs), [len(np.atleast_2d(outputs))])

        return [
            {"model": name, "cosine": float(cosines(vector(logits), vector(golden))[0])}
            for name, _, logits in found
        ]
    return [
        {
            "model": name,
            **task_of(spec).answer(spec, text.tokens, np.asarray(scaled, np.float32), logits),
            "logits": task.numbers(spec, text.tokens, logits),
        }
        for name, scaled, logits in found
    ]


def _said_table(
    text: Reference, said: Sequence[dict[str, Any]]
) -> tuple[list[str], list[list[object]]]:
    """Headings and lines: a line a model; of a class for every token a line a word."""
    spec, task = text.quantized.spec, task_of(text.quantized.spec)
    if task.measure == "cosine":
        headings = ["model", f"cosine with golden, {spec.outputs} numbers"]
        return headings, [[one["model"], f"{one['cosine']:.6f}"] for one in said]
    if "words" in said[0]:
        columns = [one["labels"] for one in said] + [
            [f"{share:.2%}" for share in said[-1]["probabilities"]]
        ]
        headings = ["word", *(one["model"] for one in said), "of RTL's"]
        return headings, [list(line) for line in zip(said[0]["words"], *columns, strict=True)]
    if "answer" in said[0]:
        cells = [[one["model"], one["answer"], f"{one['score']:.2%}"] for one in said]
        return ["model", "answer", "probability"], cells
    if "values" in said[0]:
        return ["model", *spec.labels, "integers"], _rows(said, "values", "{:.4f}")
    lines = _rows(said, "probabilities", "{:.2%}")
    for line, one in zip(lines, said, strict=True):
        line.insert(1, task.said(one))
    return ["model", task.key, *spec.labels, "logits"], lines


def _rows(said: Sequence[dict[str, Any]], shown: str, form: str) -> list[list[object]]:
    def number(value: float) -> str:
        return f"{value:.4f}" if isinstance(value, float) else str(value)

    return [
        [
            one["model"],
            *(form.format(value) for value in one[shown].values()),
            " ".join(map(number, one["logits"].values())),
        ]
        for one in said
    ]


def phase_table(
    rows: Sequence[Phase], facts: dict[str, Any], text: Reference
) -> tuple[list[str], list[list[object]]]:
    """Headings and lines: a line a phase, and the total."""
    headings = [
        "phase",
        "cycles",
        "ideal",
        "utilisation",
        "values",
        "mismatches",
        "largest",
        "mean",
    ]
    compared, mismatches = facts["compared"], facts["mismatches"]
    lines: list[list[object]] = []
    for row in rows:
        apart = [d for tensor in row.tensors if (d := text.distance(tensor))]
        lines.append(
            [
                row.name,
                row.cycles,
                None if row.ideal is None else round(row.ideal),
                None if not row.cycles or row.ideal is None else f"{row.ideal / row.cycles:.1%}",
                sum(compared.get(tensor, 0) for tensor in row.tensors),
                sum(mismatches.get(tensor, 0) for tensor in row.tensors),
                f"{apart[-1][0]:.2f}" if apart else None,
                f"{apart[-1][1]:.3f}" if apart else None,
            ]
        )
    total, wrong = sum(compared.values()), sum(mismatches.values())
    lines.append(["total", facts["cycles"], None, None, total, wrong, None, None])
    return headings, lines


def attention(text: Reference, played: Verified) -> dict[str, Any]:
    """Cycles and differences of the phases from Q to the context of the first layer."""
    facts = played.facts
    rows = phases(played.program, len(text.tokens.ids), facts["operations"])
    wanted = {f"layer.0.{name}" for name in ("q", "k", "v", "attend")}
    rows = [row for row in rows if row.name in wanted]
    print(table(*phase_table(rows, facts, text)))
    return {"phases": [row.as_dict() for row in rows], **kept(facts)}


def unit_vectors(
    unit: str,
    text: Reference,
    config: Config,
    simulator: str,
    tests: Sequence[PassedTest],
    values: int,
    seconds: float,
) -> dict[str, Any]:
    """One line: what the unit's bench did."""
    line: dict[str, Any] = {
        "unit": unit,
        "simulator": simulator,
        "lanes": config.lanes,
        "columns": config.tile_columns,
        "tokens": len(text.tokens.ids),
        "cycles": sum(round(test.simulated_ns / 10) for test in tests),
        "values compared": values,
        "mismatches": 0,
        "seconds": round(seconds, 1),
    }
    print(table(list(line), [list(line.values())]))
    return line
