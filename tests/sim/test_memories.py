"""Other memory under the design: one file in place of another, and every bench says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtl.generate import library
from sim.design import generated
from sim.record import recorded
from tb.generate.folder import MARK, bench_of, write_bench
from tests.sim.test_lint import slang_says, verilator_says
from tests.tb.plain import CONFIG, passed, play
from tests.tiers import quick

XPM = Path(__file__).with_name("xpm_memory.v")
"""What stands for AMD's library."""
EXAMPLES = ("xilinx_xpm", "sram_macro")


def replaced(bench: Path, which: str) -> list[Path]:
    """The files of a bench, with the memory of an example; its list names them."""
    other = bench / which
    other.mkdir()
    for name, text in library.examples()[which].items():
        (other / name).write_text(text)
    if which == "xilinx_xpm":
        (other / XPM.name).write_text(XPM.read_text())
    listed = (bench / MARK).read_text().split()
    ours = f"rtl/{library.RAM}.v"
    assert ours in listed
    listed.remove(ours)
    listed += [f"{which}/{path.name}" for path in sorted(other.iterdir())]
    (bench / MARK).write_text("\n".join([*listed, ""]))
    return [bench / name for name in listed]


@pytest.mark.parametrize("which", quick(EXAMPLES))
@pytest.mark.parametrize("unit", ["softmax", pytest.param("accelerator", marks=pytest.mark.slow)])
def test_an_example_in_place_of_the_memory(unit: str, which: str, tmp_path: Path) -> None:
    """Bits and cycles are the same; only the accelerator has lanes."""
    streams = unit == "accelerator"
    record = None if streams else recorded(generated(unit, CONFIG), CONFIG)
    bench = bench_of(unit, CONFIG, stalls=3, record=record)
    write_bench(bench, tmp_path / "ours")
    wanted = passed(play(tmp_path / "ours", "icarus"))
    write_bench(bench, tmp_path / "bench")
    files = replaced(tmp_path / "bench", which)
    assert slang_says(files, bench.top) == ""
    assert verilator_says(files, bench.top, "--timing") == ""
    assert passed(play(tmp_path / "bench", "icarus")) == wanted
