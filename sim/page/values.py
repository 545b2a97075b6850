"""Values on the page of a run: distances from the float model, and attention weights."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

from cli.page import charts

import numpy as np
from markupsafe import Markup

from sim.reference import Reference

HEADS, WORDS = 6, 128
"""Heads and words that are drawn at most."""


def histograms(text: Reference) -> list[dict[str, Any]]:
    """Signed distances of every tensor that the float model has as well, and what is said of them.

    In units of the tensor's scale, in the order of the trace; counts are on a logarithmic scale.
    Distances stand beside their share of the standard deviation of the float model's values.
    """
    return [
        _histogram(tensor, found[0] - found[1], float(found[1].std()))
        for tensor in text.golden
        if (found := text.twins(tensor)) is not None
    ]


def _histogram(tensor: str, apart: np.ndarray, deviation: float) -> dict[str, Any]:
    mean, largest = float(np.abs(apart).mean()), float(np.abs(apart).max())

    def beside(distance: float) -> str:
        share = f" ({distance / deviation:.2%} of the deviation)" if deviation else ""
        return f"{distance:.3g} LSB{share}"

    title = (
        f"{tensor}: {apart.size:,} distances from the float model, mean {mean:.3f}, largest "
        f"{largest:.2f} LSB"
    )
    said = f"mean {beside(mean)}, largest {beside(largest)}; {apart.size:,} values"
    return {"tensor": tensor, "chart": Markup(charts.distances(apart, title)), "said": said}


def picture(text: Reference) -> str | None:
    """The image that the model saw as a data: URI, None of a text."""
    return None if text.tokens.picture is None else charts.picture(text.tokens.picture.pixels)


def _opacity(weights: np.ndarray) -> str:
    return charts.image(np.sqrt(weights / (weights.max() or 1.0)))


def heads(text: Reference) -> list[dict[str, Any]]:
    """The first HEADS heads, layer by layer; of a long text the first WORDS words.

    Each with the weights of both models, what the row that the model's head reads looks at, and of
    an image the weights of its patches, to be laid over it. The integer weights are p / sum of
    golden, which the hardware's equal bit for bit.
    """
    shape = text.quantized.model.shape
    return [
        _head(text, *place)
        for place in islice(product(range(shape.layers), range(shape.heads)), HEADS)
    ]


def _head(text: Reference, layer: int, head: int) -> dict[str, Any]:
    name, words, seen = f"layer.{layer}", text.tokens.words[:WORDS], text.tokens.picture
    integers = text.golden[f"{name}.p"][head] / text.golden[f"{name}.sum"][head][..., None]
    floats = None if text.floats is None else text.floats[f"{name}.probs"][head]
    both = {"integer": integers} if floats is None else {"float": floats, "integer": integers}
    first = text.quantized.model.shape.pooling == "first"
    rows = {model: w[0] if first else w.mean(axis=0) for model, w in both.items()}
    row, largest = rows["integer"], float(rows["integer"].max()) or 1.0
    said: list[dict[str, Any]] = [
        {
            "text": word,
            "floats": float(rows["float"][i]) if "float" in rows else None,
            "integers": float(row[i]),
            "shade": round(float(np.sqrt(row[i] / largest)), 2),
        }
        for i, word in enumerate(words)
    ]
    over = None
    if seen is not None:
        across, down = seen.grid
        over = _opacity(row[seen.first : seen.first + across * down].reshape(across, down))
    maps = []
    for model, whole in both.items():
        weights = np.asarray(whole)[: len(words), : len(words)]
        query, key = divmod(int(weights.argmax()), weights.shape[1])
        title = (
            f"Attention weights of layer {layer}, head {head}, {model}: {len(weights)} queries by "
            f"{len(weights)} keys. The largest, {weights.max():.3f}, is from {words[query]} to "
            f"{words[key]}."
        )
        maps.append({"model": model, "image": _opacity(weights), "title": title})
    return {
        "layer": layer,
        "head": head,
        "maps": maps,
        "words": said,
        "strongest": sorted(said, key=lambda one: -one["integers"])[:5],
        "difference": None if floats is None else float(np.abs(floats - integers).max()),
        "over": over,
    }
