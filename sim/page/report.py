"""The page of a run of the whole model, and the picture of its timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cli.page.template import COLOURS, STYLE, render

import numpy as np
from markupsafe import Markup

from sim.activity import Kind, Lane, Operation, lanes, operations
from sim.page import timeline, values
from sim.phases import CLOCK_MHZ
from sim.play import Verified
from sim.reference import Reference

PAGE = Path(__file__).parent / "report.html"
CLOSE = 320
"""Cycles of a close look."""
LEGEND = {
    Kind.WORK: "works",
    Kind.OTHER: "works: a second kind of work, or every other operation",
    Kind.WAIT: "waits for something that is not there",
    Kind.REST: "has nothing to do",
}


class Stretch(NamedTuple):
    """Cycles in a row without an operand, for one reason."""

    first: int
    cycles: int
    reason: str


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


def _reasons(found: Sequence[Stretch]) -> list[dict[str, Any]]:
    """The stretches by reason, the one that cost most first."""
    by_text: dict[str, list[Stretch]] = {}
    for one in found:
        by_text.setdefault(one.reason, []).append(one)
    listed = [
        {
            "text": text,
            "cycles": sum(one.cycles for one in some),
            "stretches": len(some),
            "longest": max(some, key=lambda one: one.cycles),
        }
        for text, some in by_text.items()
    ]
    return sorted(listed, key=lambda one: -one["cycles"])


def _close(
    rows: Sequence[Lane], found: Sequence[Operation], reason: Mapping[str, Any], cycles: int
) -> tuple[str, Markup]:
    """Title and picture of a close look at the longest stretch of a reason."""
    longest = reason["longest"]
    wide = max(CLOSE, longest.cycles + 120)
    first = max(0, min(longest.first - 60, cycles - wide))
    window = timeline.Window(first, min(cycles, first + wide))
    title = f"Cycles {window.first:,} to {window.end - 1:,}: {reason['text']}"
    return title, timeline.picture(rows, found, window, title)


def _whole(
    played: Verified, rows: Sequence[Lane], found: Sequence[Operation], most: int = timeline.WIDTH
) -> Markup:
    """The timeline of all cycles in at most so many columns."""
    cycles = played.activity.cycles
    title = f"What every unit did in {cycles:,} cycles, from the start to the last logit"
    return timeline.picture(rows, found, timeline.Window(0, cycles), title, most)


def run_page(text: Reference, played: Verified, figures: Mapping[str, Any]) -> str:
    """The page of a run in which every bit was equal to golden.

    figures: what the run writes as JSON: unit, simulator, lanes, tokens, text, phases, ...
    """
    record = played.activity
    rows, found = lanes(record, played.program), operations(record, played.program)
    why = _reasons(stretches(rows[0], found))
    shape = text.quantized.model.shape
    return render(
        PAGE,
        failure=None,
        figures=figures,
        case=record.case,
        model=text.quantized.info["checkpoint"]["directory"],
        dropped=text.tokens.dropped,
        mhz=CLOCK_MHZ,
        legend=LEGEND,
        picture=_whole(played, rows, found),
        lanes=[(one, one.cycles()) for one in rows],
        reasons=why,
        closes=[_close(rows, found, one, record.cycles) for one in why],
        bars=[one for one in figures["phases"] if one["cycles"]],
        histograms=values.histograms(text) if text.floats is not None else [],
        heads=values.heads(text),
        all_heads=shape.layers * shape.heads,
        words=text.tokens.words[: values.WORDS],
        read=text.quantized.spec.inputs[:-1],
        picture_of=values.picture(text),
        pooling=shape.pooling,
    )


def run_picture(played: Verified) -> str:
    """The timeline of a run as one SVG file, for a document."""
    rows = lanes(played.activity, played.program)
    drawn = _whole(played, rows, operations(played.activity, played.program), 250)
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
    return render(PAGE, failure=message, review=review)
