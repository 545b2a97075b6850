"""The figures that `sim.run` prints of played inferences, and the same for its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quant.measure.metrics import cosines
from quant.measure.tasks import task_of
from sim.phases import CLOCK_MHZ, Phase, phases, work
from sim.play import Verified
from sim.reference import Reference
from sim.report import table


def whole_model(text: Reference, played: Verified) -> dict[str, Any]:
    """The answers of the three models; cycles and differences by phase."""
    facts, program = played.facts, played.program
    tokens = len(text.tokens.ids)
    said = verdicts(text, played.logits)
    print(_said_table(text, said), "\n")
    rows = phases(program, tokens, facts["operations"])
    print(phase_table(rows, facts, text))
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
        **facts,
    }


def verdicts(text: Reference, rtl: np.ndarray) -> list[dict[str, Any]]:
    """The float model, where it is there, golden and RTL: what they say of it, and the logits.

    Of a model that makes embeddings: the cosine with golden's.
    """
    spec, golden = text.quantized.spec, text.golden["logits"]
    task, scale = task_of(spec), text.quantized.logit_scale
    found: list[tuple[str, np.ndarray, Any]] = [("golden", golden, scale), ("RTL", rtl, scale)]
    if text.floats is not None:
        found.insert(0, ("float", text.floats["logits"], 1))

    def vector(outputs: np.ndarray) -> np.ndarray:
        return spec.kept(np.atleast_2d(outputs), [len(np.atleast_2d(outputs))])

    def said(logits: np.ndarray, scale: Any) -> dict[str, Any]:
        if task.measure == "cosine":
            return {"cosine": float(cosines(vector(logits), vector(golden))[0])}
        answer = task.answer(spec, text.tokens, np.asarray(logits * scale, np.float32), logits)
        return {**answer, "logits": task.numbers(spec, text.tokens, logits)}

    return [{"model": name, **said(logits, scale)} for name, logits, scale in found]


def _said_table(text: Reference, said: Sequence[dict[str, Any]]) -> str:
    """A line per model, or per word where every token has a class."""
    spec, task = text.quantized.spec, task_of(text.quantized.spec)
    models = [one["model"] for one in said]
    if task.measure == "cosine":
        headings = ["model", f"cosine with golden, {spec.outputs} numbers"]
        return table(headings, [[one["model"], f"{one['cosine']:.6f}"] for one in said])
    if "words" in said[0]:
        shares = [f"{share:.2%}" for share in said[-1]["probabilities"]]
        columns = said[0]["words"], *(one["labels"] for one in said), shares
        return table(["word", *models, "of RTL's"], list(zip(*columns, strict=True)))
    if "answer" in said[0]:
        cells = [[one["model"], one["answer"], f"{one['score']:.2%}"] for one in said]
        return table(["model", "answer", "probability"], cells)
    values = "values" in said[0]
    shown, form = ("values", "{:.4f}") if values else ("probabilities", "{:.2%}")
    rows = [
        [
            one["model"],
            *([] if values else [task.said(one)]),
            *(form.format(value) for value in one[shown].values()),
            " ".join(
                f"{x:.4f}" if isinstance(x, float) else str(x) for x in one["logits"].values()
            ),
        ]
        for one in said
    ]
    keys = ([], "integers") if values else ([task.key], "logits")
    return table(["model", *keys[0], *spec.labels, keys[1]], rows)


def phase_table(rows: Sequence[Phase], facts: dict[str, Any], text: Reference) -> str:
    """A line per phase, and the total."""
    headings = ["phase", "cycles", "ideal", "utilisation"]
    headings += ["values", "mismatches", "largest", "mean"]
    compared, mismatches = facts["compared"], facts["mismatches"]
    lines: list[list[object]] = []
    for row in rows:
        found = [pair for tensor in row.tensors if (pair := text.twins(tensor))]
        apart = np.abs(found[-1][0] - found[-1][1]) if found else None
        lines.append(
            [
                row.name,
                row.cycles,
                round(row.ideal) if row.ideal is not None else None,
                f"{row.ideal / row.cycles:.1%}" if row.cycles and row.ideal is not None else None,
                sum(compared.get(tensor, 0) for tensor in row.tensors),
                sum(mismatches.get(tensor, 0) for tensor in row.tensors),
                None if apart is None else f"{apart.max():.2f}",
                None if apart is None else f"{apart.mean():.3f}",
            ]
        )
    total, wrong = sum(compared.values()), sum(mismatches.values())
    lines.append(["total", facts["cycles"], None, None, total, wrong, None, None])
    return table(headings, lines)
