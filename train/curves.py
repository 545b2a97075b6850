"""The curves of a training run as SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH, _HEIGHT, _EDGE = 400, 220, 60
_COLOURS = ("#1f77b4", "#d62728")


def curves(history: Sequence[Mapping[str, Any]]) -> str:
    """A panel of the losses, and one of the accuracy where there is one, over the steps."""
    panels = [("train_loss", "loss"), ("accuracy",)][: 1 + ("accuracy" in history[0])]
    width = _WIDTH + _EDGE
    parts = [
        f'<g transform="translate({width * i + _EDGE} 30)">{_panel(history, keys)}</g>'
        for i, keys in enumerate(panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(parts) + 20}" height="280" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>\n'
    )


def _panel(history: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    last, values = history[-1]["step"], [row[key] for key in keys for row in history]
    low, high = min(values), max(values)
    parts = [
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#999"/>',
        f'<text x="-6" y="{_HEIGHT}" text-anchor="end">{low:.4g}</text>',
        f'<text x="-6" y="10" text-anchor="end">{high:.4g}</text>',
        f'<text x="{_WIDTH}" y="{_HEIGHT + 16}" text-anchor="end">step {last}</text>',
    ]
    across, down = _WIDTH / last, _HEIGHT / ((high - low) or 1)
    for i, key in enumerate(keys):
        places = ((across * row["step"], down * (high - row[key])) for row in history)
        line, said = " ".join(f"{x:.1f},{y:.1f}" for x, y in places), key.replace("_", " ")
        parts.append(f'<polyline points="{line}" fill="none" stroke="{_COLOURS[i]}"/>')
        parts.append(f'<text x="{100 * i}" y="-8" fill="{_COLOURS[i]}">{said}</text>')
    return "".join(parts)
