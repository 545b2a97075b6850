"""The colours that all pages have: legible by day and by night."""

from __future__ import annotations

import re

from cli.page.charts import ticks
from cli.page.template import DARK, LIGHT, STYLE

import pytest


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, by WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def palettes() -> dict[str, dict[str, str]]:
    light, dark = (dict(re.findall(r"--([\w-]+): ([^;]+);", rules)) for rules in (LIGHT, DARK))
    return {"light": light, "dark": light | dark}


def mixed(shade: str, paper: str, share: float) -> str:
    """A shade over the paper, `share` of it."""
    over = [int(part) for part in shade.split()]
    under = [int(paper[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in zip(over, under))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_charts_have_the_contrast_of_wcag_aa(theme: str) -> None:
    colours = palettes()[theme]
    for surface in ("paper", "panel", "code", "good", "poor"):
        for text in ("ink", "soft", "link"):
            found = contrast(colours[text], colours[surface])
            assert found >= 4.5, f"{text} on {surface}: {found:.2f}"
    for surface in ("paper", "panel"):
        for mark in ("bar", "work", "other", "held", "wait"):
            found = contrast(colours[mark], colours[surface])
            assert found >= 3, f"{mark} on {surface}: {found:.2f}"
    # The most that a word is shaded.
    rule = re.search(r"var\(--w\) \* ([\d.]+)", STYLE)
    assert rule
    shaded = mixed(colours["shade"], colours["paper"], float(rule[1]))
    assert contrast(colours["ink"], shaded) >= 4.5


def test_ticks_are_round_and_cover() -> None:
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(-0.31, 0.29) == pytest.approx([-0.2, 0, 0.2])
    assert "-0" not in [f"{tick:g}" for tick in ticks(-0.31, 0.29)]
    assert ticks(3, 3) == [3]
