"""The bench of the attention unit, on Icarus and Verilator."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from golden.encoder import run as golden
from golden.store import load
from quant.calibrate import ensure
from quant.quantized_model import QuantizedModel
from rtl.compile.program import compile_attention
from rtl.interface.config import Config
from sim.bench import run_bench
from sim.design import Design, generated
from tb.case import Case, attention_inference, write_case
from tb.scenarios import SMALL, SMALL_LIMITS, family, layer_inferences
from tests.tb.power_up import unknown
from tests.tiers import quick

REVIEW = (
    "That movie was terrible! The plot made no sense, the actors seemed bored, and after two hours "
    "I wanted my evening back. Only the music by a friend of mine saved it from being a disaster."
)
PARTS = ("q", "k", "v", "scores", "max", "p", "sum", "context")
SETTINGS = [
    (0.4, 0.4, False, False),
    (0.3, 0.0, True, True),
    (0.0, 0.0, False, False),
    (0.5, 0.0, False, False),
    (0.0, 0.7, False, True),
    (0.0, 0.0, True, False),
]


@functools.cache
def attention(config: Config) -> Design:
    """Its Verilog, made once."""
    return generated("attention", config)


@pytest.mark.parametrize(("idle", "stall", "precise", "biased"), quick(SETTINGS, 0))
def test_small_shapes_on_icarus(
    idle: float, stall: float, precise: bool, biased: bool, tmp_path: Path
) -> None:
    config = Config(lanes=4, **SMALL_LIMITS, precise=precise, bias_heads=4 * biased)
    found, kinds = [], set()
    for name in ("bert-tiny", "three-heads", "post-norm-mean"):
        model = family(name, SMALL[name], precise=precise, biased=biased)
        for layer in range(model.shape.layers if precise else 1):
            kinds.add(model.attention_wide(layer))
            found += layer_inferences(model, config, layer, [7, 1, 13])
    assert kinds == {False, precise}
    path = tmp_path / "case.npz"
    seed = int(10 * idle + 100 * stall)
    write_case(path, Case(inferences=tuple(found), idle=idle, stall=stall, seed=seed))
    env = {"CASE": str(path)}
    design = unknown(attention(config))
    run_bench(design, "icarus", config, testcases=["case"], env=env, variant="power-up")


@pytest.mark.slow
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_both_layers_of_the_shipped_model_on_a_review(stall: float, tmp_path: Path) -> None:
    folder = ensure()
    model, _ = load(folder)
    text = QuantizedModel.load(folder, None).reader.encode(REVIEW, limit=64)
    attend = np.ones(len(text.ids), bool)
    attend[5:9] = False
    trace: dict[str, np.ndarray] = {}
    golden(model, text.ids, text.types, attend, trace)
    config = Config(lanes=8, tokens=64)
    inferences = tuple(
        attention_inference(compile_attention(model, config, layer), model, layer, x8, attend)
        for layer, x8 in enumerate((trace["embedding.x8"], trace["layer.0.ffn.x8"]))
    )
    path, report = tmp_path / "case.npz", tmp_path / "report.json"
    write_case(path, Case(inferences=inferences, idle=stall, stall=stall))
    env = {"CASE": str(path), "REPORT": str(report)}
    run_bench(attention(config), "verilator", config, testcases=["case"], env=env)
    for layer, facts in enumerate(json.loads(report.read_text())["inferences"]):
        names = {f"layer.{layer}.{x}" for x in PARTS}
        assert set(facts["compared"]) == names
        assert facts["compared"][f"layer.{layer}.p"] == 2 * len(text.ids) ** 2
        assert not any(facts["mismatches"].values())
