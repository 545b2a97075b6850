"""Boards: litex-boards' SoC with the accelerator, what is written for it, and refusals."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("litex_boards")

from cli.errors import Different

from boards import __main__ as command
from boards import project
from boards.litex import BASE
from tests.boards.test_litex import black_box, facts_of
from tests.ending import refusal
from tests.tiers import quick

#: Width of the accelerator's reads, its way to a computer, and what the board's tools take.
BOARDS = {
    "radiona_ulx3s": (32, "uartbone", ("radiona_ulx3s.ys", "radiona_ulx3s.lpf")),
    "digilent_arty": (128, "etherbone", ("digilent_arty.tcl", "digilent_arty.xdc")),
    "digilent_nexys_video": (128, "uartbone", ("digilent_nexys_video.tcl",)),
    "sipeed_tang_primer_20k": (128, "etherbone", ("sipeed_tang_primer_20k.cst",)),
    "terasic_deca": (32, "etherbone", ("terasic_deca.qsf",)),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Builds go here; the accelerator has its ports alone, which takes less long to make."""
    monkeypatch.setattr(command, "BUILD", tmp_path)

    def made(*_: Any, bus: Any, **__: Any) -> SimpleNamespace:
        facts = facts_of(bus.data_bits)
        return SimpleNamespace(facts=facts, verilog=black_box(facts))

    monkeypatch.setattr(project, "generated", made)
    return tmp_path


@pytest.mark.parametrize("name", quick(BOARDS))
def test_a_board_elaborates_with_its_map(name, folder, capsys, monkeypatch):
    bits, bridge, files = BOARDS[name]
    # One of them is too small for any accelerator, which is refused below.
    monkeypatch.setattr(project, "check_part", lambda *_: None)
    assert command.main(["--board", name, "--lanes", "4"]) == 0
    out, written = capsys.readouterr().out, folder / name
    assert f"{BASE:#010x}" in out
    assert "main_ram" in out
    rows = list(csv.reader((written / "csr.csv").read_text().splitlines()))
    regions = {row[1]: int(row[2], 16) for row in rows if row[0] == "memory_region"}
    assert (regions["main_ram"], regions["accelerator"]) == (0x4000_0000, BASE)
    assert (written / "sdram_init.py").exists() == (name != "terasic_deca")
    verilog = (written / "gateware" / f"{name}.v").read_text()
    assert f"[{bits - 1}:0] m_axi_rdata" in (written / "accelerator_dma.v").read_text()
    assert bridge in verilog
    for file in files:
        assert (written / "gateware" / file).exists(), file


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--board zed", "--board zed: not a board of litex-boards; --list shows them"),
        ("--board terasic_deca --argument dvice=1", "--argument dvice: terasic_deca has"),
        ("--board terasic_deca --argument device", "'device' is not NAME=VALUE"),
        ("--board digilent_arty --lanes 16", "the XC7A100T cannot hold this .*DSP"),
        ("--board sipeed_tang_primer_20k --lanes 4", "GW2A-18 .* FF 111%"),
        ("--board terasic_deca --lanes 8 --tokens 512", "10M50 .*block RAM"),
        ("--list --board terasic_deca", "not allowed with argument"),
    ],
)
def test_refusals(words, message, folder, capsys):
    assert re.search(message, refusal(command.main, words.split(), capsys))
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_tools_that_are_missing_are_named(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert command.main(["--board", "digilent_arty", "--lanes", "4", "--build"]) == 3
    error = capsys.readouterr().err
    assert "did not run (Unable to find or source Vivado toolchain)" in error


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert set(BOARDS) < set(capsys.readouterr().out.split())


def test_a_clock_that_is_missed_is_refused(folder, capsys):
    report = {
        "fmax": {"sys": {"achieved": 61.94}, "eth": {"achieved": 130.0}},
        "utilization": {"MULT18X18D": {"used": 119, "available": 156}},
    }
    (folder / "timing.json").write_text(json.dumps(report))
    project.check_routed(folder, 61.9)
    assert "119 of     156" in capsys.readouterr().out
    with pytest.raises(Different, match=r"reaches 61.9 MHz, the SoC's clock is 62.5 MHz"):
        project.check_routed(folder, 62.5)
