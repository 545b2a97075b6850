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
from tb.generate.folder import Bench, bench_of, write_bench
from tb.scenarios import SMALL_LIMITS
from tests.tb.plain import counted, edited, failed, faulty, passed, play, replay, without_a_word


def config(columns: int = 4, lanes: int = 4) -> Config:
    return Config(lanes=lanes, columns=columns, **SMALL_LIMITS)


QUICK = "more columns"
KINDS = {
    QUICK: (config(8), Bus(data_bits=32, address_bits=40, burst=4, outstanding=2)),
    "plain": (config(), Bus(burst=8, outstanding=4)),
    "wide beats": (config(16), Bus(data_bits=512, address_bits=64)),
    "single beats": (config(8, lanes=8), Bus(data_bits=256, burst=1, outstanding=8)),
}
Made = Callable[[str], tuple[Generated, Bench, Path]]


def written(folder: Path, kind: str, trace: bool = True) -> tuple[Generated, Bench, Path]:
    """A bench, whose unit has a fault behind +fault, in its folder."""
    limits, bus = KINDS[kind]
    made = generated("accelerator", limits, bus=bus, trace=trace)
    known = made.facts, faulty("accelerator", made.verilog)
    bench = bench_of("accelerator", limits, stalls=7, design=known, bus=bus)
    write_bench(bench, folder)
    return made, bench, folder


@pytest.fixture(scope="session")
def dma_benches(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """By the name of a kind."""
    return cache(lambda kind: written(tmp_path_factory.mktemp("dma") / "a bench", kind))


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("kind", KINDS)
def test_sound_and_with_a_fault(kind: str, simulator: str, dma_benches: Made) -> None:
    made, bench, folder = dma_benches(kind)
    compared = passed(play(folder, simulator))
    assert compared > sum(counted(bench, made.facts).values()) > 1000
    assert passed(replay(folder, simulator, "+stalls=0")) == compared
    said = failed(replay(folder, simulator, "+fault"))
    assert re.search(r"\[.*write \d+.*\] in cycle \d+ is -?\d+, golden says -?\d+", said), said


@pytest.mark.slow
def test_a_bench_without_trace_ports(tmp_path: Path) -> None:
    *_, folder = written(tmp_path / "bench", "plain", trace=False)
    assert passed(play(folder, "icarus")) == 21
    said = failed(replay(folder, "icarus", "+fault"))
    assert "logits[lane 0, write 0, label 0] in cycle" in said


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
    folder = edited(dma_benches(QUICK)[-1], tmp_path / "edited", (file, old, new))
    assert re.search(says, failed(play(folder, "icarus")))


@pytest.mark.slow
def test_missing_or_cut_vectors_are_no_pass(dma_benches: Made, tmp_path: Path) -> None:
    folder = edited(dma_benches(QUICK)[-1], tmp_path / "moved")
    passed(play(folder, "icarus"))
    for name in ("memory", "jobs", "tokens", "logit"):
        path = folder / "vectors" / f"{name}.mem"
        text = path.read_text()
        lines = text.splitlines(True)
        says = f"vectors/{name}.mem is missing or has not"
        for left, said in (([], says), (lines[:-1], says), (lines[:2] + lines[3:], "")):
            path.write_text("".join(left))
            assert said in failed(replay(folder, "icarus"))
        path.unlink()
        assert says in failed(replay(folder, "icarus"))
        path.write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [QUICK, "plain"])
def test_no_tool_has_anything_to_say(kind: str, dma_benches: Made, tmp_path: Path) -> None:
    made, bench, source = dma_benches(kind)
    without_a_word(edited(source, tmp_path / "bench"), bench.top, made.files)
