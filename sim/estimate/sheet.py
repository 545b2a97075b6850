"""Area, bandwidth and latency in the data sheet of a package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from golden.model import Model, Shape
from rtl.compile.fit import sized
from rtl.compile.program import compile_model
from rtl.dma.bus import Bus
from rtl.generate.package.expected import Expected, Latency
from rtl.interface.config import Config
from rtl.interface.options import LIMITS, options_of
from sim.cycles.dma import predict_dma
from sim.cycles.model import predict
from sim.estimate.area import estimate, extrapolated, largest_errors
from sim.estimate.performance import plain_model

# The vocabulary has no influence: two rows are read a token, whatever there are.
SHIPPED = Shape(
    layers=2, hidden=128, heads=2, head_size=64, ffn=512,
    labels=2, vocabulary=2, positions=512, types=2,
)  # fmt: skip
EMBEDDER = Shape(
    layers=6, hidden=384, heads=12, head_size=32, ffn=1536,
    labels=384, vocabulary=2, positions=256, types=2, pooling="mean",
)  # fmt: skip
MODELS = {
    "BERT-Tiny (2 layers, hidden 128, FFN 512)": SHIPPED,
    "all-MiniLM-L6-v2, sentence embeddings (6 layers, hidden 384, FFN 1,536)": EMBEDDER,
}
LENGTHS = (16, 64, 128)
"""Tokens, as far as the accelerator takes them."""
MEMORY_LATENCIES = (20, 50, 100)


def model_of(shape: Shape) -> Model:
    """A model of SHIPPED or EMBEDDER; an embedder's head is one layer."""
    made = plain_model(shape)
    return replace(made, head=made.head[-1:]) if shape.pooling == "mean" else made


def expected(config: Config, bus: Bus | None = None) -> Expected:
    """Area by formulas, cycles by the cycle model.

    bus
        Of an accelerator with DMA, of whose memory side the area is not counted.
    """
    lengths = [tokens for tokens in LENGTHS if tokens <= config.tokens] or [config.tokens]
    free = {name: getattr(config, name) for name in config.as_dict() if name not in LIMITS}
    latencies, programs = [], []
    for name, shape in MODELS.items():
        model = model_of(shape)
        tokens = min(config.tokens, model.shape.tokens)
        needed = sized([model], free | {"tokens": tokens})
        # The configuration, with limits as large as the model needs.
        limits = {x: max(getattr(config, x), getattr(needed, x)) for x in LIMITS}
        larger = replace(config, **limits)
        program = compile_model(model, larger)
        programs.append(program)
        more = " ".join(options_of(larger, config))
        latencies += [
            Latency(model=name, limits=more, tokens=n, cycles=predict(program, n).cycles)
            for n in lengths
        ]
    shipped, width = programs[0], config.stream_width
    return Expected(
        resources=estimate(config),
        errors=largest_errors(),
        extrapolated=extrapolated(config),
        options={" ".join(options_of(other, config)): estimate(other) for other in _others(config)},
        latencies=latencies,
        slow_model="BERT-Tiny",
        slow_lengths=lengths,
        slow={
            brought: [predict(shipped, n, stream_bytes=brought).cycles for n in lengths]
            for brought in (width >> k for k in range(width.bit_length()))
        },
        late={
            latency: [
                predict_dma(shipped, [1] * n, [0] * n, bus=bus, latency=latency).cycles
                for n in lengths
            ]
            for latency in MEMORY_LATENCIES
            if bus is not None
        },
    )


def _others(config: Config) -> Iterator[Config]:
    """The configuration with one choice changed, as far as Config takes it."""
    changes: list[dict[str, Any]] = [{"dsp_macs": 0}, {"columns": 2 * config.tile_columns}]
    changes += [{"precise": True}, {"bias_heads": 12}, {"rotary_pairs": 32}, {"gated": True}]
    changes += [{name: 2 * getattr(config, name)} for name in LIMITS]
    for change in changes:
        with suppress(ValueError):  # beyond the limits of Config
            other = replace(config, **change)
            if other != config:
                yield other
