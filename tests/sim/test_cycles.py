"""The cycle model: its parts, sums of long texts and the command; test_matrix.py holds it to the
Verilog."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from golden.encoder import run
from golden.model import Shape, Window
from golden.random import random_model
from golden.store import save
from quant.calibrate import main as calibrate
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from sim.cycles import __main__ as cycles
from sim.cycles.array import Array
from sim.cycles.model import predict
from sim.cycles.norm import Taken, normalise
from sim.machine.inference import Loaded
from tb.layernorm import random_operation, schedule
from tests import zoo
from tests.ending import refusal
from tests.quant import tiny
from tests.sim.played import played, right

VOCABULARY = 50


@cache
def program_of(name: str, lanes: int, whole_last_layer: bool = False) -> Program:
    model = zoo.model(name, vocabulary=VOCABULARY, positions=512)
    return compile_model(model, Config(lanes=lanes), whole_last_layer=whole_last_layer)


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
    config = Config(lanes=8, tokens=8192, hidden=8, ffn=8, labels=2)
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
    program = program_of(zoo.REAL, 16, whole_last_layer=True)
    found = predict(program, 128)
    ideal, layers = cycles.Case(program.config, 128, 16, found).layers
    assert ideal == 229_376
    assert ideal / found.cycles >= 0.97
    assert ideal / layers >= 0.98


def test_a_directory_of_the_other_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(zoo.model("odd"), tmp_path, {})
    said = refusal(cycles.main, ["--model", tmp_path], capsys)
    assert f"is a quantized model, not a checkpoint: give --quantized {tmp_path}" in said


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
