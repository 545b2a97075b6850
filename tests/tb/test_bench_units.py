"""The cocotb benches of the units on the generated Verilog, whose registers begin with X."""

from pathlib import Path
from typing import Any

import pytest

from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import described, generated
from tb import vectors
from tb.cut import Sequence
from tests import zoo
from tests.damage import mutated
from tests.tb.power_up import unknown
from tests.tiers import quick

#: Each with all that its hardware may have; sizes that are no power of two.
EVERY: dict[str, dict[str, Any]] = {
    "requantize": {},
    "activation": {},
    "softmax": {},
    "matmul": {"columns": 8, "precise": True, "dsp_macs": 5, "hidden": 32, "ffn": 32, "tokens": 32},
    "position_bias": {"tokens": 11, "bias_heads": 3},
    "reciprocal": {},
    "rsqrt": {},
    "layernorm": {"tokens": 20, "hidden": 21, "ffn": 21},
}
#: Without an option, with more lanes, with other multipliers.
MORE: list[tuple[str, str, Config]] = [
    ("matmul", "icarus", Config(lanes=4)),
    *((unit, "verilator", Config(lanes=8)) for unit in EVERY if unit != "position_bias"),
    *(
        (unit, "icarus", Config(lanes=lanes, hidden=96))
        for unit in ("requantize", "softmax", "layernorm")
        for lanes in (16, 32)
    ),
    *(("matmul", "verilator", Config(lanes=lanes)) for lanes in (16, 32)),
    ("matmul", "icarus", Config(lanes=4, columns=16, hidden=96)),
    ("matmul", "icarus", Config(lanes=4, hidden=96, dsp_macs=0)),
    ("matmul", "icarus", Config(lanes=4, hidden=96, precise=True)),
    *((unit, "verilator", Config(lanes=4)) for unit in ("softmax", "layernorm")),
    ("position_bias", "verilator", Config(lanes=4, **EVERY["position_bias"])),
]
NAMES = {
    "position_bias": {"every_distance", "corners", "reset_in_the_middle"},
    "layernorm": {"rms_norms", "reset_in_the_middle"},
}


@pytest.mark.parametrize(
    ("unit", "simulator", "config"),
    quick([*((x, "icarus", Config(lanes=4, **EVERY[x])) for x in EVERY), *MORE], len(EVERY)),
    ids=str,
)
def test_unit(
    unit: str, simulator: str, config: Config, real_vectors: Path, tmp_path: Path
) -> None:
    """Every test, and vectors of a real review on the shipped model where Icarus is soon done."""
    design, folder = generated(unit, config), real_vectors
    if unit == "position_bias":  # of which the shipped model has none
        model, folder = zoo.model("three-heads", biased=True), tmp_path / "vectors"
        text = Sequence(tuple(range(10)), (0,) * 10, (1,) * 10, "random")
        vectors.write(folder, model, [text], [unit], vectors.LIMIT, {})
    if simulator == "icarus":
        design = unknown(design)
    played = (unit, simulator) != ("matmul", "icarus")
    played &= unit != "layernorm" or config.hidden >= 128  # the channels of the shipped model
    env = {"VECTORS": str(folder)} if played else {}
    passed = run_bench(design, simulator, config, env=env, variant="power-up")
    names = {test.name.partition("/")[0] for test in passed}
    assert names > NAMES.get(unit, set())
    assert ("real_reviews" in names) == played


#: All operands of a unit, or its longest rows, and what it is built for.
SWEEPS = [
    ("reciprocal", "every_value", Config(lanes=4)),
    ("rsqrt", "every_mantissa", Config(lanes=4)),
    ("softmax", "rows_as_long_as_there_are", Config(lanes=4, tokens=8192)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "test", "config"), SWEEPS, ids=str)
def test_everything_there_is(unit: str, test: str, config: Config) -> None:
    env = {"EXHAUSTIVE": "1"}
    (passed,) = run_bench(unit, "verilator", config, testcases=[test], env=env)
    assert passed.name == test


@pytest.mark.slow
def test_a_fault_of_the_last_place_is_seen() -> None:
    """The last bit of Newton's residual is lost."""
    lost, config = ("- product) >> 6, ", "- product) >> 7 << 1, "), Config(lanes=4)
    unit = mutated("reciprocal", lost, unit="reciprocal", config=config)
    design, env = described(unit, "reciprocal", config), {"EXHAUSTIVE": "1"}
    with pytest.raises(BenchError, match=r"r\[index"):
        run_bench(design, "verilator", testcases=["every_value"], env=env, variant="one-ulp")


#: One fault a bench: the file, what stands there once, and what stands there instead.
FAULTS = {
    "requantize": ("requantize", "(halves + 1) >> 1", "halves >> 1"),
    "activation": ("activation", "self.o[lane]", "self.o[(lane + 1) % self.lanes]"),
    "reciprocal": ("reciprocal", "- (128 + j) * y0", "- (128 + j) * y0 + (j == 77)"),
    "rsqrt": ("rsqrt", "Mux(large, u[:10], u[:9])", "u[:9]"),
    "softmax": ("running_max", "(decided_first | Mux", "(Mux"),
    "layernorm": ("operand", "saturate(rounded, 8)", "rounded[:8].as_signed()"),
    "matmul": ("matmul", "(terms[6] - terms[7])", "(terms[6] + terms[7])"),
    "position_bias": ("position_bias", "values[j - 1] if j", "values[j] if j"),
}


@pytest.mark.parametrize("unit", quick(FAULTS))
def test_a_fault_is_seen(unit: str) -> None:
    config = Config(lanes=4, **EVERY[unit])
    file, *piece = FAULTS[unit]
    component = mutated(file, (piece[0], piece[1]), unit=unit, config=config)
    design = described(component, unit, config, lowering=PLAIN)
    with pytest.raises(BenchError, match="values differ; first"):
        run_bench(design, "icarus", variant="fault")
