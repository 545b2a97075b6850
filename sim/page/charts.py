"""What the page shows of values: distances from the float model, and attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from quant.page.svg import ticks
from sim.page.png import uri
from sim.reference import Reference

BINS, HEADS, WORDS = 41, 6, 128
"""Columns of a histogram; heads and words that are drawn at most."""


@dataclass(frozen=True)
class Histogram:
    """Distances of a tensor from the float model's, in units of its scale."""

    tensor: str
    chart: Markup
    largest: float
    mean: float
    values: int


def histogram(tensor: str, apart: np.ndarray) -> Histogram:
    """The histogram of signed distances, its counts on a logarithmic scale."""
    reach = max(float(np.abs(apart).max()), 1e-9)
    counts, _ = np.histogram(apart, BINS, (-reach, reach))
    heights = np.where(counts > 0, 0.6 + np.log10(np.maximum(counts, 1)), 0)
    width, high, bottom = 280, 84, 92
    step, scale = width / BINS, high / heights.max()
    path = "".join(
        f"M{place * step + 0.4:.1f} {bottom}v{-height * scale:.1f}h{step - 0.8:.1f}V{bottom}Z"
        for place, height in enumerate(heights)
        if height
    )
    marks = []
    for tick in ticks(-reach, reach, 4):
        at = width / 2 * (1 + tick / reach)
        if 10 < at < width - 10:
            marks.append(f'<path class="tick" d="M{at:.1f} {bottom}v4"/>')
            marks.append(
                f'<text class="soft" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">'
                f"{tick:g}</text>"
            )
    mean, largest = float(np.abs(apart).mean()), float(np.abs(apart).max())
    title = (
        f"{tensor}: {apart.size:,} distances from the float model, mean {mean:.3f}, largest "
        f"{largest:.2f} units of the scale"
    )
    chart = Markup(
        f'<svg viewBox="0 0 {width} 112" role="img" aria-label="{escape(title)}">'
        f'<path class="base" d="M0 {bottom}h{width}"/><path class="work" d="{path}"/>'
        f"{''.join(marks)}</svg>"
    )
    return Histogram(tensor, chart, largest, mean, apart.size)


def histograms(text: Reference) -> list[Histogram]:
    """Every tensor of the trace that the float model has as well, in the order of the trace."""
    found = ((tensor, text.apart(tensor)) for tensor in text.golden)
    return [histogram(tensor, apart) for tensor, apart in found if apart is not None]


@dataclass(frozen=True)
class Word:
    """A word of the text and the weight that it has, by the float and the integer model."""

    text: str
    floats: float | None
    integers: float
    shade: float


@dataclass(frozen=True)
class Map:
    """The attention weights of one model in one head, as an image."""

    model: str
    image: str
    title: str


@dataclass(frozen=True)
class Head:
    """A head's weights in both models, and what the row that the model's head reads looks at."""

    layer: int
    head: int
    maps: tuple[Map, ...]
    words: tuple[Word, ...]
    strongest: tuple[Word, ...]
    difference: float | None


def _map(model: str, weights: np.ndarray, words: Sequence[str], place: str) -> Map:
    query, key = divmod(int(weights.argmax()), weights.shape[1])
    title = (
        f"Attention weights of {place}, {model}: {len(weights)} queries by {len(weights)} keys. "
        f"The largest, {weights.max():.3f}, is from {words[query]} to {words[key]}."
    )
    return Map(model, uri(np.sqrt(weights / (weights.max() or 1.0))), title)


def heads(text: Reference) -> list[Head]:
    """The first HEADS heads, layer by layer; of a long text the first WORDS words.

    The integer weights are p / sum of golden, which the hardware's equal bit for bit.
    """
    shape, words = text.quantized.model.shape, text.tokens.words[:WORDS]
    found: list[Head] = []
    for layer in range(shape.layers):
        name = f"layer.{layer}"
        integers = text.golden[f"{name}.p"] / text.golden[f"{name}.sum"][..., None]
        floats = None if text.floats is None else text.floats[f"{name}.probs"]
        for head in range(shape.heads):
            if len(found) == HEADS:
                return found
            place = f"layer {layer}, head {head}"
            both = {"float": None if floats is None else floats[head], "integer": integers[head]}
            rows = {
                model: weights[0] if shape.pooling == "first" else weights.mean(axis=0)
                for model, weights in both.items()
                if weights is not None
            }
            largest = float(rows["integer"].max()) or 1.0
            said = tuple(
                Word(
                    word,
                    float(rows["float"][i]) if "float" in rows else None,
                    float(rows["integer"][i]),
                    round(float(np.sqrt(rows["integer"][i] / largest)), 2),
                )
                for i, word in enumerate(words)
            )
            difference = None if floats is None else np.abs(floats[head] - integers[head]).max()
            found.append(
                Head(
                    layer,
                    head,
                    tuple(
                        _map(model, np.asarray(weights)[: len(words), : len(words)], words, place)
                        for model, weights in both.items()
                        if weights is not None
                    ),
                    said,
                    tuple(sorted(said, key=lambda one: -one.integers)[:5]),
                    None if difference is None else float(difference),
                )
            )
    return found
