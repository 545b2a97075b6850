# amaranth: UnusedElaboratable=no
"""The schedule: what the documentation says of it, and what it cannot be."""

import re
from collections.abc import Iterator

import pytest

from rtl.datapath import layernorm, schedule, softmax
from rtl.datapath.epilogue import Epilogue
from rtl.datapath.matmul import MatMul
from rtl.datapath.requantize import Requantize
from rtl.interface.config import Config
from tb.scenarios import SMALL_LIMITS
from tests.damage import ROOT

CONFIG = Config(lanes=4, **SMALL_LIMITS)


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


def test_a_layernorm_slower_than_the_epilogue_is_refused() -> None:
    refused = r"Epilogue: ahead is 21: it must lie in 0\.\.19, .* LayerNorm takes .* slower than"
    with pytest.raises(ValueError, match=refused):
        Epilogue(CONFIG, ahead=21)
