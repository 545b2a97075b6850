# amaranth: UnusedElaboratable=no
"""The schedule: what the documentation says of it, and that a stage more moves all that follows."""

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rtl.compile.program import compile_model
from rtl.datapath import layernorm, schedule, softmax
from rtl.datapath.epilogue import Epilogue
from rtl.datapath.matmul import MatMul
from rtl.datapath.requantize import Requantize
from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.bench import run_bench
from sim.design import described
from tb.case import Case, write_case
from tb.scenarios import SMALL, SMALL_LIMITS, family, inferences
from tests.damage import ROOT, replaced

CONFIG = Config(lanes=4, **SMALL_LIMITS)
Pieces = tuple[tuple[str, str], ...]


def documented() -> Iterator[tuple[str, str]]:
    """Stage and cycles, row by row of the table in the chapter on the schedule."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    chapter = text.partition("\n## Schedule\n")[2].partition("\n## ")[0]
    for stage, cycles in re.findall(r"^\| (.+) \| (.+) \|$", chapter, re.MULTILINE):
        if stage not in ("stage", "---"):
            yield stage, cycles.partition(" (")[0]


def test_documentation() -> None:
    """Each row of the table, as a formula of N and L at several sizes."""
    s = schedule
    for n, keys in ((4, 1), (8, 77), (16, 128)):
        stated = {
            "address to operand": s.OPERAND,
            "operand to column 0": MatMul.latency,
            "column to sum with bias": s.SUMMED - s.DRAINED,
            "requantize": Requantize.latency,
            "table, residual, write": s.WRITTEN - s.REQUANTIZED,
            "last operand's address to the write of column 0": s.WRITTEN,
            "last operand's address to the tile being written": s.WRITTEN + 4 * n,
            "last score of L keys to the first p that may be read": softmax.START_LATENCY
            + softmax.pass_cycles(n, keys),
            "score to the softmax, with `--bias-heads`": s.scored(1) - s.scored(0),
            "write of a turned column after that of others, with `--rotary-pairs`": s.TURNED_LATE,
            "LayerNorm's last read of pass 1 to its constants": layernorm.constants_latency(n),
            "LayerNorm's read in pass 2 to the write": layernorm.LayerNorm.latency,
        }
        shown, sizes = {}, {"N": n, "M": 4 * n, "L": keys}
        for stage, cycles in documented():
            shown[stage] = sum(sizes.get(term) or int(term) for term in cycles.split(" + "))
        assert shown == stated


PLAYED = {"bert-tiny": 13, "pre-norm-embedding-norm": 3}


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is normalised before and one after its sums; sources without a pause."""
    path = tmp_path_factory.mktemp("schedule") / "case.npz"
    played = []
    for name, tokens in PLAYED.items():
        model = family(name, SMALL[name])
        played += inferences(model, compile_model(model, CONFIG), [tokens], name=name)
    write_case(path, Case(inferences=tuple(played), row_latency=1))
    return path


def counted(cycles: int, active: int, stalls: dict[str, int]) -> dict[str, int]:
    """What a schedule decides: all but when rows come, which the bench's own memory decides."""
    return {"cycles": cycles - stalls["weights"], "active": active} | {
        cause: count for cause, count in stalls.items() if cause != "weights"
    }


def predicted() -> list[dict[str, int]]:
    """The cycle model's figures for the case, with the modules of rtl/ that are now imported."""
    before = {name: sys.modules.pop(name) for name in [*sys.modules] if "sim.cycles" in name}
    compiled: Any = import_module("rtl.compile.program")
    limits: Any = import_module("rtl.interface.config").Config(lanes=4, **SMALL_LIMITS)
    predict: Any = import_module("sim.cycles.model").predict
    found = []
    for name, tokens in PLAYED.items():
        program = compiled.compile_model(family(name, SMALL[name]), limits)
        figures = predict(program, tokens, row_latency=1)
        found.append(counted(figures.cycles, figures.active, figures.stalls))
    for name in [name for name in sys.modules if "sim.cycles" in name]:
        del sys.modules[name]
    sys.modules.update(before)
    return found


MORE: dict[str, tuple[str, Pieces]] = {
    "none": ("matmul", ()),
    "requantize": (
        "requantize",
        (
            ("latency = 3 + SATURATING_LATENCY", "latency = 4 + SATURATING_LATENCY"),
            ("self.o[lane].eq(shift.o)", 'self.o[lane].eq(register(m, shift.o, f"late{lane}"))'),
        ),
    ),
    "matmul": (
        "matmul",
        (
            ("    latency = 4\n", "    latency = 5\n"),
            (
                "m.d.comb += self.o[i].eq(shadow[i][0])",
                "m.d.sync += self.o[i].eq(shadow[i][0])",
            ),
        ),
    ),
    "activation": (
        "activation",
        (
            ("latency = READ_LATENCY", "latency = READ_LATENCY + 1"),
            (
                "self.o[lane].eq(table.read.data.as_signed())",
                'self.o[lane].eq(register(m, table.read.data.as_signed(), f"late{lane}"))',
            ),
            (
                "from rtl.primitives.parameters import check",
                "from rtl.primitives.parameters import check\n"
                "from rtl.primitives.pipeline import register",
            ),
        ),
    ),
    "memory": ("memory", (("READ_LATENCY = 2", "READ_LATENCY = 3"),)),
    "maximum": (
        "running_max",
        (
            ("    latency = 4\n", "    latency = 5\n"),
            ("self.last, 3,", "self.last, 4,"),
            ("self.buffer, 3,", "self.buffer, 4,"),
        ),
    ),
}


@pytest.mark.parametrize(
    "stage",
    [pytest.param(stage, marks=pytest.mark.slow) for stage in MORE],
)
def test_a_stage_more_moves_all_that_follows(stage: str, case: Path, tmp_path: Path) -> None:
    """Every write is as golden says, and the cycle model, which is told nothing, agrees."""
    file, pieces = MORE[stage]
    with replaced(file, *pieces):
        component = import_module("rtl.generate.units").unit("accelerator").build(CONFIG)
        design = described(component, "accelerator", CONFIG, lowering=PLAIN)
        expected = predicted()
    report = tmp_path / "report.json"
    env = {"CASE": str(case), "REPORT": str(report)}
    run_bench(design, "icarus", variant=f"stage-{stage}", testcases=["case"], env=env)
    facts = json.loads(report.read_text())["inferences"]
    found = [counted(entry["cycles"], entry["active"], entry["stalls"]) for entry in facts]
    assert found == expected
    longer = sum(e["cycles"] for e in expected) - sum(e["cycles"] for e in predicted())
    assert longer > 0 or stage == "none"


REFUSED = r"Epilogue: ahead is 21: it must lie in 0\.\.19, .* LayerNorm takes .* slower than"


def test_a_layernorm_slower_than_the_epilogue_is_refused() -> None:
    slower = (
        ("latency = gamma_latency + 2 + SATURATING_LATENCY + 1", "latency = gamma_latency + 10"),
    )
    with replaced("norm_lane", *slower):
        late = import_module("rtl.datapath.schedule")
        assert late.AHEAD == schedule.AHEAD + 2
        with pytest.raises(ValueError, match=REFUSED):
            late.check_ahead(late.AHEAD)
    with pytest.raises(ValueError, match=REFUSED):
        Epilogue(CONFIG, ahead=21)
