"""Cycles, time and memory bandwidth of an inference, by the exact cycle model."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from golden.model import GATE_SHIFT_MAX, ROTARY_ONE, Layer, Model, Norm, Rotary, Shape, Window
from golden.random import Kind, random_model
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.config import Config
from sim.cycles.model import predict


def performance(
    config: Config,
    model: Model,
    clock_mhz: float,
    *,
    stream_bytes: int | None = None,
    row_latency: int = 20,
    whole_last_layer: bool = False,
) -> dict[str, Any]:
    """The figures of the longest sequence that `model` and `config` take.

    ``cycles`` is the register of that name; ``utilisation`` is products / (N x M) / cycles. Bytes
    are those that it reads: the command stream and rows of the embedding table. Megabytes are 10^6
    bytes, ``peak`` that of the stream while weights are loaded as fast as they are used. ValueError
    where the model does not fit the configuration.
    """
    width = config.stream_width
    program = compile_model(model, config, whole_last_layer=whole_last_layer)
    tokens = program.tokens
    found = predict(program, tokens, stream_bytes=stream_bytes, row_latency=row_latency)
    seconds = found.cycles / clock_mhz / 1e6
    stream = len(program.stream())
    rows = 2 * tokens * embedding_table(model, config.lanes).shape[1]
    return {
        "tokens": tokens,
        "cycles": found.cycles,
        "utilisation": sum(phase.macs for phase in found.phases) / config.macs / found.cycles,
        "milliseconds": 1e3 * seconds,
        "a_second": 1 / seconds,
        "stream_bytes": stream,
        "row_bytes": rows,
        "megabytes_a_second": (stream + rows) / seconds / 1e6,
        "peak_megabytes_a_second": min(stream_bytes or width, width) * clock_mhz,
    }


def example(config: Config, layers: int) -> Model:
    """A `plain_model` as large as the limits, with a position bias where the hardware takes one.

    It is post-norm, with heads of 64 channels, as in BERT, where they divide hidden.

    Raises ValueError: No encoder is so small or so large.
    """
    most = max(1, config.hidden // 64)
    heads = next(heads for heads in range(most, 0, -1) if config.hidden % heads == 0)
    shape = Shape(
        layers=layers,
        hidden=config.hidden,
        heads=heads,
        head_size=config.hidden // heads,
        ffn=config.ffn,
        labels=min(2, config.labels),
        vocabulary=2,  # has no influence: two rows are read per token, however many there are
        positions=config.tokens,
        types=2,
    )
    return plain_model(shape, biased=heads <= config.bias_heads)


def gated(model: Model) -> Model:
    """The model with gates as large as its feed-forward networks, as ModernBERT's."""

    def with_gate(layer: Layer) -> Layer:
        gate, up = layer.ffn.up, replace(layer.ffn.up, table=None)
        return replace(layer, ffn=replace(layer.ffn, gate=gate, up=up, gate_shift=GATE_SHIFT_MAX))

    return replace(model, layers=tuple(map(with_gate, model.layers)))


def rotary(model: Model) -> Model:
    """The model with a table of rotary positions for all layers, whose angles are 0."""
    size = model.shape.tokens, model.shape.head_size // 2
    table = Rotary(np.full(size, ROTARY_ONE, np.int16), np.zeros(size, np.int16))
    layers = tuple(replace(layer, rotary=0) for layer in model.layers)
    return replace(model, rotary=(table,), layers=layers)


def local(model: Model) -> Model:
    """The model with windows of 64 keys to both sides, but for every third layer, as ModernBERT."""
    windows = cycle((None, Window(64, 64), Window(64, 64)))
    layers = tuple(replace(x, window=window) for x, window in zip(model.layers, windows))
    return replace(model, layers=layers)


def plain_model(shape: Shape, *, biased: bool = False) -> Model:
    """A model whose integers are random, since cycles depend on none of them.

    No channel has a shift of its own: a NORM with such shifts is a plane longer. The embedding
    tables have 8 bits a value.
    """
    made = random_model(shape, 0, Kind(biased=biased))

    def plain(norm: Norm) -> Norm:
        return replace(norm, operand_shifts=None)

    assert made.embedding.norm is not None
    embedding = replace(
        made.embedding, norm=plain(made.embedding.norm), token_low=None, position_low=None
    )
    layers = tuple(
        replace(x, norm1=x.norm1 and plain(x.norm1), norm2=plain(x.norm2)) for x in made.layers
    )
    return replace(made, embedding=embedding, layers=layers)
