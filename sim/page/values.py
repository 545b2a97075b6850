"""Values on the page of a run: distances from the float model, and attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cli.page import charts

import numpy as np
from markupsafe import Markup

from quant.foreign.tokenizer import Picture
from sim.reference import Reference

HEADS, WORDS = 6, 128
"""Heads and words that are drawn at most."""


@dataclass(frozen=True)
class Histogram:
    """Distances of a tensor from the float model's, in units of its scale.

    deviation: the standard deviation of the float model's values, in the same units.
    """

    tensor: str
    chart: Markup
    largest: float
    mean: float
    values: int
    deviation: float

    def __str__(self) -> str:
        """Mean and largest distance in LSB, each beside its share of the deviation."""
        parts = [f"mean {self._beside(self.mean)}", f"largest {self._beside(self.largest)}"]
        return f"{', '.join(parts)}; {self.values:,} values"

    def _beside(self, distance: float) -> str:
        share = f" ({distance / self.deviation:.2%} of the deviation)" if self.deviation else ""
        return f"{distance:.3g} LSB{share}"


def histogram(tensor: str, apart: np.ndarray, deviation: float) -> Histogram:
    """The histogram of signed distances, its counts on a logarithmic scale."""
    mean, largest = float(np.abs(apart).mean()), float(np.abs(apart).max())
    title = (
        f"{tensor}: {apart.size:,} distances from the float model, mean {mean:.3f}, largest "
        f"{largest:.2f} LSB"
    )
    chart = Markup(charts.distances(apart, title))
    return Histogram(tensor, chart, largest, mean, apart.size, deviation)


def histograms(text: Reference) -> list[Histogram]:
    """Every tensor of the trace that the float model has as well, in the order of the trace."""
    found = ((tensor, text.apart(tensor)) for tensor in text.golden)
    return [
        histogram(tensor, apart, text.spread(tensor))
        for tensor, apart in found
        if apart is not None
    ]


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
    """A head's weights in both models, and what the row that the model's head reads looks at.

    over: of an image the integer weights of its patches, to be laid over it; else None.
    """

    layer: int
    head: int
    maps: tuple[Map, ...]
    words: tuple[Word, ...]
    strongest: tuple[Word, ...]
    difference: float | None
    over: str | None


def picture(text: Reference) -> str | None:
    """The image that the model saw as a data: URI, None of a text."""
    return None if text.tokens.picture is None else charts.picture(text.tokens.picture.pixels)


def _over(seen: Picture | None, weights: np.ndarray) -> str | None:
    if seen is None:
        return None
    rows, columns = seen.grid
    patches = weights[seen.first : seen.first + rows * columns].reshape(rows, columns)
    return charts.image(np.sqrt(patches / (patches.max() or 1.0)))


def _map(model: str, weights: np.ndarray, words: Sequence[str], place: str) -> Map:
    query, key = divmod(int(weights.argmax()), weights.shape[1])
    title = (
        f"Attention weights of {place}, {model}: {len(weights)} queries by {len(weights)} keys. "
        f"The largest, {weights.max():.3f}, is from {words[query]} to {words[key]}."
    )
    return Map(model, charts.image(np.sqrt(weights / (weights.max() or 1.0))), title)


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
                    _over(text.tokens.picture, rows["integer"]),
                )
            )
    return found
