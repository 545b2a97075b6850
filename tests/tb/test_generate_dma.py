"""The bench of the accelerator with DMA, under Icarus and Verilator: sound, and with faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rtl.dma.bus import Bus
from rtl.generate.sheet import Generated, generated
from rtl.interface.config import Config
from tb.generate.folder import MARK, bench_of, write_bench
from tb.scenarios import SMALL_LIMITS
from tests.sim.test_lint import slang_says, verilator_says
from tests.tb.plain import counted, edited, failed, faulty, passed, play, replay

QUICK = "more columns"
KINDS = {
    QUICK: (4, 8, Bus(data_bits=32, address_bits=40, burst=4, outstanding=2)),
    "plain": (4, 4, Bus(burst=8, outstanding=4)),
    "wide beats": (4, 16, Bus(data_bits=512, address_bits=64)),
    "single beats": (8, 8, Bus(data_bits=256, burst=1, outstanding=8)),
}
"""Lanes, columns and bus."""
SMALL = [QUICK, "plain"]
Made = Callable[[str], Path]


@cache
def design(kind: str, trace: bool = True) -> Generated:
    lanes, columns, bus = KINDS[kind]
    config = Config(lanes=lanes, columns=columns, **SMALL_LIMITS)
    return generated("accelerator", config, bus=bus, trace=trace)


@pytest.fixture(scope="session")
def dma_benches(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """By the name of a kind, the folder of its bench, whose unit has a fault behind +fault."""

    @cache
    def written(kind: str) -> Path:
        lanes, columns, bus = KINDS[kind]
        config, made = Config(lanes=lanes, columns=columns, **SMALL_LIMITS), design(kind)
        known = made.facts, faulty("accelerator", made.verilog)
        folder = tmp_path_factory.mktemp("dma") / "a bench"
        bench = bench_of("accelerator", config, stalls=7, design=known, bus=bus)
        write_bench(bench, folder)
        (folder / "counted").write_text(str(sum(counted(bench, made.facts).values())))
        return folder

    return written


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("kind", KINDS)
def test_sound_and_with_a_fault(kind: str, simulator: str, dma_benches: Made) -> None:
    folder = dma_benches(kind)
    compared = passed(play(folder, simulator))
    traced = int((folder / "counted").read_text())
    assert traced > 1000
    assert compared > traced
    assert passed(replay(folder, simulator, "+stalls=0")) == compared
    said = failed(replay(folder, simulator, "+fault"))
    assert re.search(r"\[.*write \d+.*\] in cycle \d+ is -?\d+, golden says -?\d+", said), said


@pytest.mark.slow
def test_a_bench_without_trace_ports(tmp_path: Path) -> None:
    lanes, columns, bus = KINDS["plain"]
    config, made = Config(lanes=lanes, columns=columns, **SMALL_LIMITS), design("plain", False)
    known = made.facts, faulty("accelerator", made.verilog)
    write_bench(bench_of("accelerator", config, design=known, bus=bus), tmp_path / "bench")
    assert passed(play(tmp_path / "bench", "icarus")) == 21
    assert "logits[lane 0, write 0, label 0] in cycle" in failed(
        replay(tmp_path / "bench", "icarus", "+fault")
    )


BENCH, PARTS = "bench/accelerator_dma_bench.sv", "bench/parts.sv"
FAULTS = [
    (BENCH, ".araddr(m_axi_araddr)", ".araddr(m_axi_araddr ^ 32'd1)", "burst in cycle .* allowed"),
    (BENCH, ".arlen(m_axi_arlen)", ".arlen(8'd8)", "a burst in cycle .* allowed: .*, 9 beats"),
    (BENCH, ".arsize(m_axi_arsize)", ".arsize(3'd3)", "a burst in cycle .* that is not allowed"),
    (BENCH, ".arburst(m_axi_arburst)", ".arburst(2'd0)", "a burst in cycle .* that is not allowed"),
    (BENCH, ".arvalid(m_axi_arvalid)", ".arvalid(1'bx)", "m_axi_ar: valid is unknown in cycle"),
    (BENCH, ".rready(m_axi_rready)", ".rready(1'bx)", "m_axi_rready is unknown in cycle"),
    (BENCH, ".rready(m_axi_rready)", ".rready(1'b0)", "the unit hangs: nothing happened"),
    (BENCH, "OUTSTANDING(2)", "OUTSTANDING(1)", "more than 1 bursts are under way"),
    (BENCH, "started = taken", "started = taken + 1", "the register says .* cycles"),
    (BENCH, "job[127:96]", "job[127:96] + 1", "status is d02 at the end, .*: error 13"),
    (BENCH, "job[159:128]", "job[159:128] + 4096", "memory: nothing is held at c"),
    (BENCH, "place < job[31:0]", "place < job[31:0] - 1", "inference 0: 1 logits wait, all were"),
    (BENCH, "collect;\n      write", "supply; collect;\n      write", "not taken all tokens"),
    (PARTS, "rresp = 2'd0;", "rresp = 2'd2;", "status is c02 at the end, .*: error 12"),
    (PARTS, "rdata = word[WIDTH-1:0]", "rdata = ~word[WIDTH-1:0]", "status is .*: error 2"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "old", "new", "says"), FAULTS)
def test_what_else_can_be_wrong(
    file: str, old: str, new: str, says: str, dma_benches: Made, tmp_path: Path
) -> None:
    folder = edited(dma_benches(QUICK), tmp_path / "edited", (file, old, new))
    assert re.search(says, failed(play(folder, "icarus")))


@pytest.mark.slow
def test_missing_or_cut_vectors_are_no_pass(dma_benches: Made, tmp_path: Path) -> None:
    folder = edited(dma_benches(QUICK), tmp_path / "moved")
    passed(play(folder, "icarus"))
    for name in ("memory", "jobs", "tokens", "logit"):
        path = folder / "vectors" / f"{name}.mem"
        text = path.read_text()
        lines = text.splitlines(True)
        for damaged in (None, "", "".join(lines[:-1])):
            path.unlink()
            if damaged is not None:
                path.write_text(damaged)
            assert f"vectors/{name}.mem is missing or has not" in failed(replay(folder, "icarus"))
            path.write_text(text)
        path.write_text("".join(lines[:2] + lines[3:]))
        failed(replay(folder, "icarus"))
        path.write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SMALL)
def test_no_tool_has_anything_to_say(kind: str, dma_benches: Made, tmp_path: Path) -> None:
    folder = edited(dma_benches(kind), tmp_path / "bench")
    files = [folder / name for name in (folder / MARK).read_text().split()]
    for name, text in design(kind).files.items():
        (folder / "rtl" / name).write_text(text)
    assert slang_says(files, "accelerator_dma_bench") == ""
    assert verilator_says(files, "accelerator_dma_bench", "--timing") == ""
