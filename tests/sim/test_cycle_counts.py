"""One number of cycles: register, streams, both benches and the cycle model say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.model import Model
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.config import Config, ceil_div
from sim.bench import run_bench
from sim.cycles.model import predict
from sim.machine.inference import Loaded
from tb.case import Case, accelerator_inference, write_case
from tests import zoo
from tests.sim.played import played, right

#: As in tests/tb/test_bench_accelerator.py, so that one build serves both.
CONFIG = Config(lanes=4)
MODELS = {
    "post": zoo.model("bert-tiny", 1),
    "pre": zoo.model("pre-norm-embedding-norm", 2, vocabulary=30),
}
LENGTHS = (1, 5, 16)


def by_cocotb(
    folder: Path, model: Model, stream_bytes: int, row_latency: int
) -> list[dict[str, Any]]:
    program, rows = compile_model(model, CONFIG), embedding_table(model, CONFIG.lanes)
    played = tuple(accelerator_inference(program, model, sequence(n), rows=rows) for n in LENGTHS)
    interval = ceil_div(CONFIG.lanes, stream_bytes)
    case, report = folder / "case.npz", folder / "report.json"
    write_case(case, Case(inferences=played, interval=interval, row_latency=row_latency))
    env = {"CASE": str(case), "REPORT": str(report)}
    run_bench("accelerator", "verilator", CONFIG, testcases=["case"], env=env)
    found: list[dict[str, Any]] = json.loads(report.read_text())["inferences"]
    return found


def sequence(tokens: int) -> np.ndarray:
    return np.random.default_rng(tokens).integers(0, 30, tokens)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("stream_bytes", "row_latency"), [(4, 20), (4, 1), (1, 2), (2, 77)])
def test_all_count_the_same(name: str, stream_bytes: int, row_latency: int, tmp_path: Path) -> None:
    model = MODELS[name]
    program, rows = compile_model(model, CONFIG), embedding_table(model, CONFIG.lanes)
    memory = {"stream_bytes": stream_bytes, "row_latency": row_latency}
    loaded = Loaded(program, rows)
    machine = played(CONFIG, [loaded.inference(sequence(n), **memory) for n in LENGTHS])
    cocotb = by_cocotb(tmp_path, model, stream_bytes, row_latency)
    for tokens, one, other in zip(LENGTHS, machine, cocotb, strict=True):
        said = predict(program, tokens, **memory)
        expected = {"cycles": said.cycles, "active": said.active, "stalls": said.stalls}
        assert {"cycles": one.cycles, "active": one.active, "stalls": one.stalls} == expected
        assert {counter: other[counter] for counter in expected} == expected
        # The first token is taken in the first of the cycles, the last logit in the last.
        assert one.span == other["span"] == said.cycles


@pytest.mark.slow
def test_counters_of_more_than_sixteen_bits() -> None:
    """An embedding memory so slow that cycles and a stall exceed 2^16."""
    model, latency = MODELS["post"], (1 << 16) + 5000
    program, rows = compile_model(model, CONFIG), embedding_table(model, CONFIG.lanes)
    slow = {"row_latency": latency, "patience": 2 * latency}
    (one,) = played(CONFIG, [Loaded(program, rows).inference(sequence(5), **slow)])
    right(one, program, model)
    assert min(one.cycles, one.stalls["weights"]) > 1 << 16
