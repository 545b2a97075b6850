"""The page of a run of the whole model, and the picture of its timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.page.template import COLOURS, STYLE, render

import numpy as np
from markupsafe import Markup

from sim.activity import Kind, Lane, Operation, lanes, operations
from sim.page import timeline, values
from sim.phases import CLOCK_MHZ
from sim.play import Verified
from sim.reference import Reference
from tb.activity import Record

FOLDER = Path(__file__).parent
CLOSE = 320
"""Cycles of a close look."""


@dataclass(frozen=True)
class Stretch:
    """Cycles in a row without an operand, for one reason."""

    first: int
    cycles: int
    reason: str


@dataclass(frozen=True)
class Reason:
    """All stretches of one reason."""

    text: str
    stretches: int
    cycles: int
    longest: Stretch


@dataclass(frozen=True)
class Close:
    """A close look at some cycles, and why."""

    title: str
    picture: Markup


def stretches(array: Lane, found: Sequence[Operation]) -> list[Stretch]:
    """Where the array read no operand, in order."""
    first, state = array.runs()
    names = {one.name for one in found}
    ends = np.append(first[1:], len(array.each))
    return [
        Stretch(begin, end - begin, array.states[which].text)
        for begin, end, which in zip(first.tolist(), ends.tolist(), state.tolist())
        if array.states[which].text not in names
    ]


def reasons(found: Sequence[Stretch]) -> list[Reason]:
    """The stretches by reason, the one that cost most first."""
    by_text: dict[str, list[Stretch]] = {}
    for one in found:
        by_text.setdefault(one.reason, []).append(one)
    listed = [
        Reason(text, len(some), sum(s.cycles for s in some), max(some, key=lambda s: s.cycles))
        for text, some in by_text.items()
    ]
    return sorted(listed, key=lambda one: -one.cycles)


def _close(
    rows: Sequence[Lane], found: Sequence[Operation], why: Sequence[Reason], cycles: int
) -> list[Close]:
    """A close look at the longest stretch of each reason."""
    result = []
    for one in why:
        wide = max(CLOSE, one.longest.cycles + 120)
        first = max(0, min(one.longest.first - 60, cycles - wide))
        window = timeline.Window(first, min(cycles, first + wide))
        title = f"Cycles {window.first:,} to {window.end - 1:,}: {one.text}"
        result.append(Close(title, timeline.picture(rows, found, window, title)))
    return result


@dataclass(frozen=True)
class Bar:
    """A phase: cycles, those that useful multiply-accumulates need, and their share."""

    name: str
    cycles: int
    ideal: float
    width: float

    @property
    def share(self) -> float:
        return self.ideal / self.cycles


def _bars(phases: Sequence[Mapping[str, Any]]) -> list[Bar]:
    on_array = [one for one in phases if one["cycles"]]
    longest = max(one["cycles"] for one in on_array)
    return [
        Bar(one["name"], one["cycles"], one["ideal"] or 0.0, 100 * one["cycles"] / longest)
        for one in on_array
    ]


def _record(played: Verified) -> Record:
    if played.activity is None:
        raise UserError("the run left no record of its activity: play the whole model")
    return played.activity


def _render(**shown: Any) -> str:
    return render(FOLDER / "report.html", **shown)


def run_page(text: Reference, played: Verified, figures: Mapping[str, Any]) -> str:
    """The page of a run in which every bit was equal to golden.

    figures
        What the run writes as JSON: unit, simulator, lanes, tokens, text, phases, verdicts ...

    Raises
    ------
    ValueError
        The run left no record of its activity.
    """
    record = _record(played)
    rows, found = lanes(record, played.program), operations(record, played.program)
    why = reasons(stretches(rows[0], found))
    whole = timeline.Window(0, record.cycles)
    title = f"What every unit did in {record.cycles:,} cycles, from the start to the last logit"
    return _render(
        failure=None,
        figures=figures,
        case=record.case,
        model=text.quantized.info["checkpoint"]["directory"],
        dropped=text.tokens.dropped,
        compared=sum(figures["compared"].values()),
        tensors=len(figures["compared"]),
        mhz=CLOCK_MHZ,
        legend=LEGEND,
        picture=timeline.picture(rows, found, whole, title),
        lanes=[(one, one.cycles()) for one in rows],
        reasons=why,
        closes=_close(rows, found, why, record.cycles),
        bars=_bars(figures["phases"]),
        histograms=values.histograms(text) if text.floats is not None else [],
        heads=values.heads(text),
        all_heads=text.quantized.model.shape.layers * text.quantized.model.shape.heads,
        words=text.tokens.words[: values.WORDS],
        read=text.quantized.spec.inputs[:-1],
        picture_of=values.picture(text),
        pooling=text.quantized.model.shape.pooling,
    )


def run_picture(played: Verified) -> str:
    """The timeline of a run as one SVG file, for a document.

    Raises
    ------
    ValueError
        The run left no record of its activity.
    """
    record = _record(played)
    rows, found = lanes(record, played.program), operations(record, played.program)
    title = f"What every unit did in {record.cycles:,} cycles, from the start to the last logit"
    drawn = timeline.picture(rows, found, timeline.Window(0, record.cycles), title, 250)
    chart = [line for line in STYLE.splitlines() if line.startswith("svg .")]
    style = (
        f"svg{{{COLOURS}background:var(--paper);font:11.5px system-ui,sans-serif}}"
        "text{fill:var(--ink)}text.soft{fill:var(--soft)}" + "".join(chart).replace("svg ", "")
    )
    begin, _, rest = drawn.partition(">")
    style = " ".join(style.split())
    return f'{begin} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{rest}\n'


def failure_page(review: str, message: str) -> str:
    """The page of a run that found a difference: it says so, and shows no verdict."""
    return _render(failure=message, review=review)


LEGEND = {
    Kind.WORK: "works",
    Kind.OTHER: "works: a second kind of work, or every other operation",
    Kind.WAIT: "waits for something that is not there",
    Kind.REST: "has nothing to do",
}
