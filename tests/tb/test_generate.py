"""The benches of tb.generate in simulators that know nothing of Python: sound, and with faults."""

from __future__ import annotations

import json
import random
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rtl.compile.program import compile_model
from rtl.generate.sheet import module_files
from rtl.generate.units import UNITS
from rtl.interface.config import LANES, Config
from sim.design import generated
from sim.record import recorded
from tb.generate import tops
from tb.generate.folder import MARK, bench_of, fitted, write_bench
from tests.sim.test_lint import verilator_says
from tests.tb.plain import (
    CONFIG,
    Benches,
    counted,
    edited,
    failed,
    passed,
    play,
    replay,
    without_a_word,
)  # fmt: skip
from tests.tiers import quick

#: On Icarus, which has recorded their benches before, two units are quick.
QUICK = [("requantize", "icarus"), ("reciprocal", "icarus")]
OTHERS = [one for one in product(UNITS, ("icarus", "verilator")) if one not in QUICK]


@pytest.mark.parametrize(("unit", "simulator"), quick([*QUICK, *OTHERS], 2))
def test_sound_and_with_a_fault(unit: str, simulator: str, benches: Benches) -> None:
    bench, folder = benches(unit)
    compared = passed(play(folder, simulator))
    sheet = json.loads(generated(unit, CONFIG).sheet)
    counts = counted(bench, sheet)
    assert compared >= sum(counts.values()) > 100
    assert unit == "accelerator" or compared == sum(counts.values())
    if unit == "accelerator":
        assert passed(replay(folder, simulator, "+stalls=0")) == compared
        shown = {name for name in sheet["ports"] if name.startswith("trace_")}
        others = ("en", "address", "key", "index", "active", "operation", "stall")
        words = {name for name in shown if name.rpartition("_")[2] not in others}
        assert len(words) == 9
        assert {name for name in counts if counts[name]} >= words
    said = failed(replay(folder, simulator, "--", "+fault"))
    assert re.search(
        r"[\w. -]+\[(lane \d+, )?write \d+.*\] in cycle \d+ is -?\d+, golden says -?\d+"
        if unit == "accelerator"
        else r"\w+\[lane \d+\] in cycle \d+ is -?\d+, not -?\d+",
        said,
    ), said
    if unit == "requantize":
        assert "FAILED: see" in failed(play(folder, simulator, "--", "+fault"))


@pytest.mark.slow
def test_the_example(benches: Benches, tmp_path: Path) -> None:
    """As Verilog of 2001 it gives golden's logits, and not those of files with inverted bits."""
    folder = edited(benches("accelerator")[1], tmp_path / "bench")
    place = folder / "example"

    def said() -> list[str]:
        build = ["iverilog", "-g2001", "-o", "example.vvp", "-y", "../rtl", "example.v"]
        subprocess.run(build, cwd=place, check=True, capture_output=True)
        run = ["vvp", "-n", "example.vvp"]
        done = subprocess.run(run, cwd=place, capture_output=True, text=True, timeout=300)
        return done.stdout.splitlines()

    logits = [int(logit, 16) for logit in (place / "logits.mem").read_text().split()]
    signed = [value - (value >> 31 << 32) for value in logits]
    *found, last = said()
    assert found == [f"logit {place}: {value}" for place, value in enumerate(signed)]
    assert re.fullmatch(rf"PASS: {len(logits)} logits in \d+ cycles", last)
    for name, bits in (("rows.mem", 0xFFFFFFFF), ("tokens.mem", 1)):  # all channels; the id
        text = (place / name).read_text()
        damaged = "".join(f"{int(line, 16) ^ bits:0{len(line)}x}\n" for line in text.split())
        (place / name).write_text(damaged)
        assert "FAILED: a logit is not golden's" in said()
        (place / name).write_text(text)


def test_missing_or_cut_vectors_are_no_pass(benches: Benches, tmp_path: Path) -> None:
    _, source = benches("requantize")
    folder = edited(source, tmp_path / "moved")
    passed(play(folder, "icarus"))
    for path in sorted((folder / "vectors").glob("*.mem")):
        text = path.read_text()
        lines = text.splitlines(True)
        for damaged in (None, "", "".join(lines[:-1]), "".join(lines[:1] + lines[2:])):
            path.unlink()
            if damaged is not None:
                path.write_text(damaged)
            said = failed(replay(folder, "icarus"))
            assert f"vectors/{path.name} is missing or has not {len(lines)} words" in said
            path.write_text(text)
    passed(replay(folder, "icarus"))


ACCELERATOR = "bench/accelerator_bench.sv"


WRONG = [
    (
        ".s_axis_tokens_tvalid(s_axis_tokens_tvalid)", ".s_axis_tokens_tvalid(1'b0)",
        r"the unit hangs: nothing happened for \d+ cycles, now \d+, inference 0",
    ),
    (
        ".trace_p_en(trace_p_en)", ".trace_p_en()",
        r"trace_p: its enable is unknown in cycle \d+",
    ),
    (
        ".en(trace_p_en)", ".en(1'b0)",
        r"trace_p: a word is missing at the end of inference 0: write 0 of layer.0.p",
    ),
    (
        ".en(trace_score_en)", ".en(trace_score_en || trace_p_en)",
        r"(trace_score: a word too many in cycle|layer.0.scores: address\[write)",
    ),
    (
        "trace_bank_address}", "trace_bank_address ^ 1'd1}",
        r"layer.0.q: address\[write 0\] in cycle \d+ is \d+, golden says \d+",
    ),
    (
        ".m_axis_logits_tdata(m_axis_logits_tdata)", ".m_axis_logits_tdata()",
        r"logits\[lane 0, write 0, label 0\] in cycle \d+ is [xXzZ]",
    ),
    (
        ".word(m_axis_logits_tlast)", ".word(~m_axis_logits_tlast)",
        r"m_axis_logits_tlast\[lane 0, write 0, word 0\] in cycle \d+ is 1, golden says 0",
    ),
    (
        "while (interrupt !== 1'b1) @(negedge clk);", "repeat (40) @(negedge clk);",
        "inference 0: status is 1 at the end",
    ),
    (
        "go = 1'b1;", "go = 1'b1; @(negedge clk);",
        r"inference 0 has ended in cycle \d+ and has not taken all words",
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "says"), WRONG)
def test_what_else_can_be_wrong(
    old: str, new: str, says: str, benches: Benches, tmp_path: Path
) -> None:
    """The bench sees a stream cut off, a port that is silent or speaks too often, and X."""
    folder = edited(benches("accelerator")[1], tmp_path / "edited", (ACCELERATOR, old, new))
    assert re.search(says, failed(play(folder, "icarus")))


@pytest.mark.slow
def test_a_seed_that_is_no_number(benches: Benches, tmp_path: Path) -> None:
    folder = edited(benches("accelerator")[1], tmp_path / "bench")
    assert passed(play(folder, "icarus", "--stalls", "4000000000")) > 100
    assert "the seed is no number" in failed(replay(folder, "icarus", "+stalls=seven"))


@pytest.mark.parametrize("timescale", ["", "`timescale 1ps/1ps", "`timescale 10us/100ns"])
def test_no_timescale_matters(timescale: str, benches: Benches, tmp_path: Path) -> None:
    """Neither for the bench nor, among modules that have one, for the unit."""
    bench, folder = benches("reciprocal")
    (tmp_path / "first.v").write_text(f"{timescale}\n")
    build = ["iverilog", "-g2012", "-s", bench.top, "-o", tmp_path / "bench", tmp_path / "first.v"]
    build += (folder / MARK).read_text().split()
    subprocess.run(build, cwd=folder, check=True)
    done = subprocess.run([tmp_path / "bench"], cwd=folder, capture_output=True, text=True)
    assert passed(done) > 30
    ports = "  reciprocal unit ();\n"
    top = tmp_path / "top.v"
    top.write_text(f"{timescale}\nmodule top;\n{ports}endmodule\n")
    files = [*sorted((folder / "rtl").glob("*.v")), top]
    assert verilator_says(files, "top", "-Wno-PINMISSING") == ""


def test_nothing_compared_is_no_pass(benches: Benches, tmp_path: Path) -> None:
    _, source = benches("reciprocal")
    folder = edited(source, tmp_path / "edited")
    path = folder / "vectors" / "pins.mem"
    *words, end = path.read_text().split()
    bench = (folder / "bench" / "reciprocal_bench.sv").read_text()
    width = int(re.search(r"WIDTH = (\d+);", bench)[1])
    bare = [f"{int(word, 16) & (1 << width - 2) - 1:0{len(word)}x}" for word in words]
    path.write_text("\n".join([*bare, end, ""]))
    assert "nothing was compared" in failed(play(folder, "icarus"))


def test_unknown_bits_are_differences(benches: Benches, tmp_path: Path) -> None:
    _, source = benches("requantize")
    change = ("rtl/requantize.v", "~(", "32'bx ^ (")
    folder = edited(source, tmp_path / "edited", change)
    passed(play(folder, "icarus"))
    said = failed(replay(folder, "icarus", "+fault"))
    assert re.search(r"o\[lane \d\] in cycle \d+ is [xX], not -?\d+", said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "limits"),
    [
        ("matmul", {"hidden": 7, "ffn": 7, "tokens": 9, "columns": 8}),
        ("matmul", {"hidden": 7, "ffn": 40, "tokens": 9, "precise": True}),
        ("accelerator", {"hidden": 8, "ffn": 8, "tokens": 9, "labels": 2, "columns": 8}),
        ("accelerator", {"hidden": 7, "ffn": 9, "tokens": 9, "labels": 2, "precise": True}),
    ],
)
def test_the_smallest_limits(unit: str, limits: dict[str, Any], tmp_path: Path) -> None:
    config = Config(lanes=4, **limits)
    record = None if unit == "accelerator" else recorded(generated(unit, config), config)
    made = bench_of(unit, config, stalls=2, record=record, prefix="tiny_")
    files = write_bench(made, tmp_path / "bench")
    names = {path.relative_to(tmp_path / "bench").as_posix() for path in files}
    assert {f"rtl/tiny_{unit}.v", f"bench/tiny_{unit}_bench.sv", "README.md"} <= names
    assert all(path.is_file() for path in files)
    assert passed(play(tmp_path / "bench", "icarus")) > 30


def test_random_models_fit_whatever_is_generated() -> None:
    """Limits are drawn by seed; the smallest are among them."""
    draw = random.Random(5)
    limits = {"tokens": 80, "hidden": 40, "ffn": 40, "labels": 6}
    configs = [Config(lanes=lanes, **dict.fromkeys(limits, 1)) for lanes in LANES]
    for _ in range(60):
        chosen = {name: draw.randint(1, most) for name, most in limits.items()}
        configs.append(Config(lanes=draw.choice(LANES), **chosen))
    for config in configs:
        for name in ("three-heads", "pre-norm"):
            assert compile_model(fitted(name, config), config).tokens >= 1


SINK = """
module top;
  reg clk = 1'b0;
  reg rst = 1'b1;
  reg valid = 1'b0;
  reg [7:0] data = 8'd7;
  reg [31:0] cycle = 32'd0;
  wire ready;
  always #5 clk = ~clk;
  always @(posedge clk) cycle <= cycle + 1;
  bench_sink #(.NAME("stream"), .WIDTH(8), .STREAM(32'd1)) sink (
      .clk(clk), .rst(rst), .stalls(32'd1), .cycle(cycle), .valid(valid), .ready(ready), .data(data)
  );
  initial begin
    repeat (3) @(negedge clk);
    rst = 1'b0;
    repeat (64) begin
      @(negedge clk);
      #1 valid = 1'b1;
      @(posedge clk);
      while (!ready) begin
        @(negedge clk);
        #1 EDIT
        @(posedge clk);
      end
      @(negedge clk);
      #1 valid = 1'b0;
      data = data + 8'd1;
    end
    $display("PASS: 64 values compared in %0d cycles", cycle);
    $finish;
  end
endmodule
"""


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("", ""),
        ("valid = 1'b0;", r"stream: the word [0-9a-f]+ was withdrawn or changed in cycle \d+"),
        ("data = data ^ 8'd1;", r"stream: the word [0-9a-f]+ was withdrawn or changed in cycle"),
        ("valid = 1'bx;", r"stream: valid is unknown in cycle \d+"),
    ],
)
def test_a_word_stays_until_it_is_taken(edit: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "parts.sv").write_text(tops.parts_text())
    (tmp_path / "top.sv").write_text(SINK.replace("EDIT", edit))
    command = ["iverilog", "-g2012", "-s", "top", "-o", "top.vvp", "parts.sv", "top.sv"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["vvp", "-n", "top.vvp"], cwd=tmp_path, capture_output=True, text=True)
    if says:
        assert re.search(says, failed(done))
    else:
        passed(done)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_no_tool_has_anything_to_say(unit: str, benches: Benches, tmp_path: Path) -> None:
    """By the standard (slang), and without a warning of Verilator."""
    bench, source = benches(unit)
    folder = edited(source, tmp_path / "bench")
    files = [folder / name for name in (folder / MARK).read_text().split()]
    assert "".join(file.read_text() for file in files if file.suffix == ".v") == bench.verilog
    without_a_word(folder, bench.top, module_files(generated(unit, CONFIG).verilog))
