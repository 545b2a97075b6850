"""The predicted cycles against simulation: every counter and every operation, cycle for cycle."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from cli.command import Exit

import numpy as np
import pytest

from golden.encoder import run
from golden.model import Model, Shape, Window
from golden.random import random_model
from golden.store import save
from quant.calibrate import main as calibrate
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from sim.cycles import __main__ as cycles
from sim.cycles.array import Array
from sim.cycles.model import predict
from sim.cycles.norm import Taken, normalise
from sim.design import generated
from sim.machine.inference import Loaded
from sim.machine.machine import library
from tb.layernorm import random_operation, schedule
from tests.quant import tiny
from tests.sim.played import played, right
from tests.tiers import quick

VOCABULARY = 50
LONG = 512
#: For 16 lanes, which are played here alone and for seconds: -O2 takes longer than all of that.
SOONER = ("-MAKEFLAGS", "OPT_FAST=-O1", "-MAKEFLAGS", "VM_PARALLEL_BUILDS=0")
SIZES: dict[str, Any] = {"vocabulary": VOCABULARY, "positions": LONG, "types": 2}
SHAPES = {
    "bert-tiny": Shape(layers=2, hidden=128, heads=2, head_size=64, ffn=512, labels=2, **SIZES),
    "odd": Shape(
        layers=2,
        hidden=33,
        heads=3,
        head_size=7,
        ffn=50,
        labels=5,
        **SIZES,
        norm="pre",
        embedding_norm=False,
        pooling="mean",
    ),
    "chained": Shape(
        layers=1, hidden=20, heads=1, head_size=9, ffn=18, labels=6, **SIZES, norm="pre"
    ),
    "three-heads": Shape(
        layers=1, hidden=96, heads=3, head_size=32, ffn=200, labels=5, **SIZES, norm="pre"
    ),
    "every-token": Shape(
        layers=2, hidden=20, heads=2, head_size=10, ffn=30, labels=5, **SIZES, pooling="none"
    ),
    "factorised": Shape(layers=2, hidden=40, heads=2, head_size=20, ffn=30, labels=3, **SIZES),
    "pairs": Shape(
        layers=2, hidden=6, heads=3, head_size=2, ffn=9, labels=3, **SIZES, pooling="mean"
    ),
    "one": Shape(layers=1, hidden=1, heads=1, head_size=1, ffn=1, labels=1, **SIZES),
}
FACTORISED = {"factorised": 13}


@dataclass(frozen=True)
class Case:
    """A combination; stream_bytes None is a word a cycle."""

    shape: str
    tokens: int
    stream_bytes: int | None = None
    row_latency: int = 20
    whole_last_layer: bool = False

    @property
    def long(self) -> bool:
        """It needs an accelerator with more than the default limits."""
        return self.tokens > Config.tokens

    def program(self, lanes: int) -> Program:
        return program_of(self.shape, lanes, self.whole_last_layer, self.long)


CASES = {
    4: [
        Case("odd", 1),
        Case("odd", 29, None, 1),
        Case("odd", 64, 1, 100),
        Case("chained", 5, 2, 1),
        Case("chained", 30, 3, 7),
        Case("chained", 128, None, 300),
        Case("three-heads", 12, None, 20, True),
        Case("three-heads", 33, 1, 20, True),
        Case("one", 1, None, 1),
        Case("one", 7, 1),
        Case("one", 128, 2, 50),
        Case("every-token", 23, 3, 20),
        Case("factorised", 1),
        Case("factorised", 30, 2, 20, True),
        Case("every-token", 128),
        Case("bert-tiny", 16, 2, 20, True),
    ],
    8: [
        Case("odd", 3, 1),
        Case("odd", 128, 4, 20),
        Case("chained", 9, None, 1),
        Case("chained", 77, 5, 1000),
        Case("three-heads", 50, None, 3),
        Case("three-heads", 128, 2, 20, True),
        Case("one", 16, 8),
        Case("every-token", 1),
        Case("factorised", 128, None, 300),
        Case("every-token", 100, 2, 20),
        Case("bert-tiny", 1),
        Case("bert-tiny", 40, 3, 60),
        Case("bert-tiny", 64, None, 20, True),
        Case("bert-tiny", 512),
        Case("odd", 333, 3, 20, True),
    ],
    16: [
        Case("bert-tiny", 128),
        Case("bert-tiny", 128, None, 20, True),
        Case("bert-tiny", 128, 8),
        Case("bert-tiny", 128, 4),
        Case("bert-tiny", 64, 2),
        Case("bert-tiny", 16, 1),
        Case("bert-tiny", 99, 7, 200),
        Case("odd", 17, 5, 2),
        Case("odd", 128, None, 20),
        Case("chained", 31, 16, 40),
        Case("every-token", 33, 9, 2),
        Case("three-heads", 128, None, 20, True),
        Case("one", 33, 3, 1),
    ],
    32: [
        Case("bert-tiny", 128),
        Case("bert-tiny", 70, 4, 20, True),
        Case("odd", 45, 9, 30),
        Case("three-heads", 128, None, 500),
    ],
    64: [
        Case("bert-tiny", 128),
        Case("odd", 45, 9, 30),
        Case("chained", 100, 40, 3),
        Case("one", 65, None, 1, True),
    ],
}


@cache
def model_of(shape: str) -> Model:
    return random_model(SHAPES[shape], 1)


@cache
def program_of(
    shape: str, lanes: int, whole_last_layer: bool = False, long: bool = False
) -> Program:
    config = Config(lanes=lanes, tokens=LONG if long else Config.tokens)
    return compile_model(model_of(shape), config, whole_last_layer=whole_last_layer)


def marks(lanes: int, *, long: bool = False) -> list[pytest.MarkDecorator]:
    """The first case of a number of lanes builds the simulation: of 64 that takes very long."""
    if lanes == 64:
        return [pytest.mark.slow, pytest.mark.timeout(5400)]
    if lanes == 32 or long:
        return [pytest.mark.slow]
    return [pytest.mark.slow] if lanes > 4 else []


@pytest.mark.parametrize(
    ("lanes", "case"),
    [
        pytest.param(
            lanes,
            case,
            id="-".join(map(str, (lanes, *vars(case).values()))),
            marks=marks(lanes, long=case.long),
        )
        for lanes, cases in CASES.items()
        for case in cases
    ],
)
def test_prediction_equals_simulation(lanes: int, case: Case) -> None:
    rng, program = np.random.default_rng(case.tokens), case.program(lanes)
    model, config = model_of(case.shape), program.config
    inference = Loaded(program, embedding_table(model, lanes)).inference(
        rng.integers(0, VOCABULARY, case.tokens),
        stream_bytes=case.stream_bytes,
        row_latency=case.row_latency,
    )
    design = generated("accelerator", config)
    (result,) = played(config, [inference], library(design, flags=SOONER * (lanes == 16)))
    right(result, program, model)


BATCHES = {
    4: [
        ("bert-tiny", (16, 1, 9, 30), None, False),
        ("odd", (1,) * 32, None, False),
        ("odd", (5, 4, 90, 3, 1, 2), 3, False),
        ("chained", (2, 3, 1, 9, 9, 40), 1, True),
        ("three-heads", (33, 1, 1, 20, 4, 4, 4, 8), None, False),
        ("one", (1, 2, 3, 4, 5), None, False),
        ("every-token", (5, 4, 30, 1, 1, 9), None, False),
        ("one", (1,) * 9, 2, True),
    ],
    8: [
        ("bert-tiny", (9, 40, 8, 1, 30), 2, False),
        ("odd", (8,) * 9, 5, False),
        ("every-token", (9, 1, 8, 16, 17), 3, False),
        ("chained", (1, 17, 3), None, False),
    ],
    64: [
        ("bert-tiny", (64, 1), None, False),
        ("chained", (9, 50), 7, True),
    ],
}


@pytest.mark.parametrize("lanes", [pytest.param(n, marks=marks(n)) for n in BATCHES])
def test_prediction_of_batches_equals_simulation(lanes: int) -> None:
    """Sequences side by side, with the last layer cut and whole; all cycles, all logits."""
    for shape, lengths, stream_bytes, whole in BATCHES[lanes]:
        model, program = model_of(shape), program_of(shape, lanes, whole)
        rng = np.random.default_rng(lengths[0])
        ids, attend = rng.integers(0, VOCABULARY, sum(lengths)), rng.random(sum(lengths)) < 0.8
        attend[np.cumsum(lengths) - 1] = True
        inference = Loaded(program, embedding_table(model, lanes)).inference(
            ids, None, attend.astype(int), lengths, stream_bytes=stream_bytes
        )
        (result,) = played(program.config, [inference])
        right(result, program, model)


CHOICES: dict[str, dict[str, Any]] = {
    "precise": {"precise": True},
    "biased": {"bias_heads": 3},
    "windowed": {"windows": True},
    "rms": {"rms_norm": True},
    "gated": {"gated": True},
    "precise gated": {"precise": True, "gated": True},
    "rotary": {"rotary_pairs": 64},
    "precise biased windowed rms gated rotary": {
        "precise": True,
        "bias_heads": 3,
        "windows": True,
        "rms_norm": True,
        "gated": True,
        "rotary_pairs": 64,
    },
}
"""What models have, and the hardware that takes it."""


@pytest.mark.slow
@pytest.mark.parametrize("columns", [4, pytest.param(16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", quick(reversed(CHOICES), 0))
@pytest.mark.parametrize(
    ("shape", "lengths"),
    [
        ("bert-tiny", (40,)),
        ("odd", (40,)),
        ("chained", (2, 3, 1, 9, 9, 40)),
        ("three-heads", (70,)),
        ("pairs", (2, 3, 1, 9, 9, 40)),
        ("every-token", (23,)),
        ("factorised", (5, 30)),
        ("one", (3,)),
    ],
)
def test_choices_of_the_hardware(
    shape: str, lengths: tuple[int, ...], kind: str, columns: int
) -> None:
    """Every write of every intermediate, the low halves by what is made of them; all cycles."""
    config = Config(lanes=4, columns=columns, **CHOICES[kind])
    rng = np.random.default_rng(3)
    ids = rng.integers(0, VOCABULARY, sum(lengths))
    for seed in range(3):
        kinds = dict.fromkeys(kind.split(), True)
        model = random_model(SHAPES[shape], seed, FACTORISED.get(shape, 0), **kinds)
        program = compile_model(model, config, whole_last_layer=bool(seed % 2))
        loaded = Loaded(program, embedding_table(model, 4))
        (result,) = played(config, [loaded.inference(ids, lengths=lengths, trace=True)])
        right(result, program, model)


@pytest.mark.slow
def test_sums_of_a_long_text() -> None:
    """Sums on both sides of 2^20, a side without a limit and the longest one that has a limit."""
    tokens, shape = 4200, Shape(1, 8, 1, 8, 8, 2, VOCABULARY, 8192, 0, pooling="mean")
    model = random_model(shape, 1)
    (layer,) = model.layers
    # Scores of -2..2: each p is 253 or more.
    attention = replace(layer.attention, score_m=1 << 15, score_s=27, context_s=12)
    layer = replace(layer, attention=attention, window=Window(None, 4094))
    model = replace(model, layers=(layer,))
    ids = np.random.default_rng(1).integers(0, VOCABULARY, tokens)
    trace: dict[str, np.ndarray] = {}
    run(model, ids, trace=trace)
    assert len(np.unique(trace["layer.0.scores"])) > 2
    assert trace["layer.0.sum"].min() < 1 << 20 < trace["layer.0.sum"].max()
    config = Config(lanes=8, tokens=8192, hidden=8, ffn=8, labels=2, windows=True)
    program = compile_model(model, config)
    loaded = Loaded(program, embedding_table(model, 8))
    (result,) = played(config, [loaded.inference(ids, trace=True)])
    right(result, program, model)


@pytest.mark.parametrize("seed", range(20))
def test_tiles_that_are_alike_are_as_many_single_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    together, single = Array(), Array()
    for _ in range(60):
        count, length = (int(x) for x in rng.integers((0, 1), (40, 30)))
        drain, until = (int(x) for x in rng.integers(1, (40, 2000)))
        for array in (together, single):
            if until % 3 == 0:
                array.begin(array.last + until, fence=until % 2 > 0, setup=2)
            array.tile(length + until % 5, [("softmax", array.last + until % 90)], drain=drain)
        together.tiles(count, length, drain=drain)
        for _ in range(count):
            single.tile(length, drain=drain)
        assert vars(together) == vars(single)


@pytest.mark.parametrize("busy", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("lanes", "channels", "tiles"), [(4, 40, 5), (16, 8, 9), (8, 1, 7)])
def test_layernorm_events_equal_its_cycle_by_cycle_schedule(
    lanes: int, channels: int, tiles: int, busy: float
) -> None:
    """tb.layernorm.schedule is held against the RTL by that unit's own test."""
    for seed, spread in enumerate((0, 30, 300)):
        operation = random_operation(lanes, channels, tiles, seed, busy=busy, spread=spread)
        taken = Taken((t, t + 1) for t in range(20_000) if operation.busy(t))
        reads = schedule(operation)
        ends = [cycle for cycle, _, second in reads if second][channels - 1 :: channels]
        found = normalise(0, operation.arrival, channels, lanes, taken)
        assert found == [cycle + 20 for cycle in ends]


@pytest.mark.parametrize(
    ("tokens", "stream_bytes", "row_latency", "message"),
    [
        (0, None, 20, r"tokens is 0: the compiled model takes 1\.\.128"),
        (129, None, 20, r"tokens is 129: the compiled model takes 1\.\.128"),
        (8, 0, 20, "stream bytes is 0: it must be 1 or more; 4 is a word"),
        (8, None, 0, "row latency is 0: it must be 1 or more"),
    ],
)
def test_nonsense_is_refused(
    tokens: int, stream_bytes: int | None, row_latency: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        predict(program_of("odd", 4), tokens, stream_bytes=stream_bytes, row_latency=row_latency)


def test_bert_tiny_keeps_the_array_busy() -> None:
    """229,376 of the cycles are ideal; at least 0.97 of all, and 0.98 of those in the layers."""
    program = program_of("bert-tiny", 16, whole_last_layer=True)
    found = predict(program, 128)
    ideal, layers = cycles.Case(program.config, 128, 16, found).layers
    assert ideal == 229_376
    assert ideal / found.cycles >= 0.97
    assert ideal / layers >= 0.98


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(model_of("odd"), tmp_path / "odd", {})
    return tmp_path / "odd"


def test_a_directory_of_the_other_kind_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cycles.main(["--model", str(folder)]) == Exit.REFUSED
    assert f"is a quantized model, not a checkpoint: give --quantized {folder}" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("tokens", ["1", "13"])
def test_a_checkpoint_need_not_be_calibrated(
    tokens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shape is enough: the same cycles before and after a calibration without remedies."""
    model, out, data = tiny.write(tmp_path / "mine"), tmp_path / "out", tmp_path / "texts.txt"
    data.write_text("good film\na bad film\n")
    monkeypatch.setattr("quant.which.folder_of", lambda _: out)
    options = ["--lanes", "4", "--tokens", tokens, "--json", "-"]
    found = []
    for calibrated in (False, True):
        if calibrated:
            plain = ["--remedies", "none", "--data", str(data), "--out", str(out)]
            assert calibrate(["--model", str(model), *plain]) == 0
            capsys.readouterr()
        assert cycles.main(["--model", str(model), *options]) == 0
        said = capsys.readouterr()
        assert ("is not calibrated yet: this is its shape" in said.err) != calibrated
        figures = json.loads(said.out)
        assert figures.pop("model") == str(out if calibrated else model)
        found.append(figures)
    assert found[0] == found[1]
