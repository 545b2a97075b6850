"""Standard cells: areas, memories, clock and power of designs whose figures are known by hand."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rtl.accelerator_dma import AcceleratorsDma
from rtl.dma.bus import Bus
from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import Design, Port, described, generated
from sim.gates import __main__ as gates
from sim.gates.netlist import FLIP_FLOP, netlist
from sim.synth import __main__ as command
from sim.synth import memories, osu018, sta, toggles
from sim.synth.memories import Memory
from sim.synth.netlist import Bit
from sim.synth.registers import Registers, problems, registers
from sim.synth.tools import SynthesisError, run_tool
from tb.scenarios import SMALL_LIMITS
from tests.ending import refusal
from tests.tiers import quick

pytestmark = pytest.mark.slow

CONFIG = Config(lanes=4)
INSTALLED = osu018.LIBRARY.is_dir() and shutil.which(sta.PROGRAM) is not None
needs_cells = pytest.mark.skipif(
    not INSTALLED, reason="standard cells and OpenSTA are not installed"
)


def design(verilog: str, **ports: int) -> Design:
    """Of a module `top` with a clock; the ports are inputs where their width is positive."""
    sheet = json.dumps({"configuration": {"lanes": 4}})
    found = {name: Port(is_input=width > 0, width=abs(width)) for name, width in ports.items()}
    clock = {"clk": Port(is_input=True, width=1)}
    return Design(name="top", configuration="4", verilog=verilog, ports=clock | found, sheet=sheet)


#: Two parts: four flip-flops in one of them, an inverter between flip-flops in the other. One net
#: is two outputs, and one output is a constant.
PARTS = """\
module top(clk, d, q, again, high);
  input clk; wire clk;
  input [3:0] d; wire [3:0] d;
  output q; wire q;
  output again; wire again;
  output high; wire high;
  wire [3:0] held;
  assign again = q, high = 1'b1;
  top_four four (
    .clk(clk), .d(d), .q(held)
  );
  top_one one (
    .clk(clk), .d(held[0]), .q(q)
  );
endmodule
module top_four(clk, d, q);
  input clk; wire clk;
  input [3:0] d; wire [3:0] d;
  output [3:0] q; reg [3:0] q = 4'h5;
  always @(posedge clk) q <= d;
endmodule
module top_one(clk, d, q);
  input clk; wire clk;
  input d; wire d;
  output q; reg q;
  reg a;
  always @(posedge clk) begin a <= ~d; q <= a; end
endmodule
"""


@pytest.fixture
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(osu018, "FOLDER", tmp_path)


def test_a_part_may_join_nets_or_tie_them() -> None:
    """Two outputs of one net, an output that is an input, and one that is a constant."""

    def port(way: str, bit: int | str) -> dict[str, object]:
        return {"direction": way, "bits": [bit]}

    def cell(kind: str, **pins: int) -> dict[str, object]:
        return {"type": kind, "connections": {pin: [bit] for pin, bit in pins.items()}}

    part = {
        "attributes": {},
        "netnames": {},
        "ports": {
            "a": port("input", 2),
            "through": port("output", 2),
            "q": port("output", 3),
            "again": port("output", 3),
            "high": port("output", "1"),
        },
        "cells": {"gate": cell("INV", A=2, Y=3)},
    }
    top = {
        "attributes": {},
        "netnames": {},
        "ports": {"d": port("input", 9)},
        "cells": {
            "part": cell("part", a=9, through=4, q=5, again=6, high=7),
            **{f"read{bit}": cell("READ", A=bit) for bit in (4, 5, 6, 7)},
        },
    }
    flat = sta.flat({"top": top, "part": part}, "top")
    pins = {path: pins for (_, pins), path in zip(flat.cells, flat.paths)}
    gate = pins["part", "gate"]
    (d,) = flat.ports["d"][1]
    assert gate["A"] == pins["read4",]["A"] == [d]
    assert gate["Y"] == pins["read5",]["A"] == pins["read6",]["A"] != [d]
    assert pins["read7",]["A"] == ["1"]


@needs_cells
@pytest.mark.usefixtures("_own_folder")
def test_areas_by_part_are_those_of_the_layout() -> None:
    """A flip-flop is 9.6 x 10 um, a NAND 2.4 x 10, an inverter 1.6 x 10: 4, 1 and 2/3 of a gate."""
    found = osu018.synthesise(design(PARTS, d=4, q=-1, again=-1, high=-1))
    assert found.parts == {
        "four": {"kge": 0.016, "flip_flops": 4},
        "one": {"kge": 0.009, "flip_flops": 2},
    }
    assert found.mm2 == round((6 * 96 + 16) / 1e6, 4)
    assert found.kge == round((6 * 96 + 16) / 24 / 1e3, 3)
    assert found.memory_bits == {"RAM": 0, "ROM": 0, "register file": 0}
    assert found.clock is not None
    assert found.power is None
    assert (found.clock["start"], found.clock["end"]) == ("four.q", "one.a")


@needs_cells
def test_the_library_has_the_areas_of_its_layout() -> None:
    """Three cells of the library have others: OAI21X1 would be smaller than a NAND."""
    areas = osu018.areas()
    assert (areas["NAND2X1"], areas["OAI21X1"], areas["NAND3X1"]) == (24, 32, 32)
    text = osu018.liberty()
    assert re.search(r"cell \(OAI21X1\) \{\s*(cell_footprint[^;]*;\s*)?area : 32;", text)
    assert len(osu018._AREA.findall(text)) == 32


@needs_cells
def test_gates_compute_what_their_models_do() -> None:
    """The functions by which toggles are found, beside the library's own Verilog on Icarus."""
    found = osu018.functions()
    assert {"NAND2X1", "AOI22X1", "MUX2X1", "FAX1", "XNOR2X1"} <= found.keys()
    assert "DFFPOSX1" not in found
    inputs, function = found["AOI21X1"]["Y"]
    for a, b, c in itertools.product((0, 1), repeat=3):
        assert function(a, b, c) & 1 == (not ((a and b) or c)), (a, b, c)
    inputs, function = found["MUX2X1"]["Y"]
    assert inputs == ["A", "B", "S"]
    for a, b, s in itertools.product((0, 1), repeat=3):
        assert function(a, b, s) & 1 == (not (a if s else b)), (a, b, s)
    assert found["FAX1"]["YC"][1](1, 1, 0) & 1 == 1
    assert found["FAX1"]["YS"][1](1, 1, 0) & 1 == 0


@needs_cells
def test_our_flip_flop_is_the_library_s(tmp_path: Path) -> None:
    """On Icarus, for random data: the same from the first edge on."""
    theirs = osu018.library_file(osu018.MODELS).replace("DFFPOSX1", "THEIRS")
    bench = """\
module bench;
  reg clk = 0, d = 0; wire a, b; integer i, wrong = 0;
  DFFPOSX1 ours(.CLK(clk), .D(d), .Q(a)); THEIRS theirs(.CLK(clk), .D(d), .Q(b));
  initial begin
    for (i = 0; i < 1000; i = i + 1) begin
      #5 d = $random; #5 clk = 1; #5 if (a !== b || a !== d) wrong = wrong + 1;
      d = $random; #5 if (a !== b) wrong = wrong + 1; clk = 0; #5 if (a !== b) wrong = wrong + 1;
    end
    $display("wrong %0d", wrong);
  end
endmodule
"""
    (tmp_path / "all.v").write_text("\n".join([FLIP_FLOP, theirs, bench]))
    build = ["iverilog", "-g2012", "-o", "bench", "-s", "bench", "all.v"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["vvp", "bench"], cwd=tmp_path, check=True, capture_output=True)
    assert b"wrong 0" in done.stdout


def coarse(verilog: str, folder: Path, top: str = "top") -> dict[str, Any]:
    """The netlist up to memories, which needs no cells."""
    (folder / f"{top}.v").write_text(verilog)
    found = dataclasses.replace(design(verilog), name=top)
    run_tool("yosys", "-q", "-p", "; ".join(osu018.coarse(found).splitlines()), folder=folder)
    netlist: dict[str, Any] = json.loads((folder / "coarse.json").read_text())
    return netlist


REGISTERS = """\
module top(clk, other, rst, en, d, q);
  input clk; input other; input rst; input en; input [7:0] d; output [7:0] q;
  reg [7:0] a, b, q;
  always @(posedge clk) begin
    a <= d;
    if (rst) b <= 0; else if (en) b <= a;
    if (d[0]) q[3:0] <= b[3:0];
    if (rst) q[7:4] <= 3; else q[7:4] <= b[7:4];
  end
endmodule
"""


def test_registers_are_counted(tmp_path: Path) -> None:
    netlist = coarse(REGISTERS, tmp_path)["modules"]
    assert registers(netlist, "top") == Registers(bits=24, reset=12, enable=12, enables=2)
    assert problems(netlist, "top") == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("@(posedge clk)", "@(negedge clk)", "falling edges"),
        ("@(posedge clk)", "@(posedge other)", "another clock"),
        ("@(posedge clk)", "@(posedge clk & en)", "another clock"),
        ("    a <= d;", "    end always @* begin if (en) a = d; end", r"\$dlatch"),
        (
            "  always @(posedge clk) begin\n    a <= d;",
            "always @(posedge clk, posedge rst) "
            "if (rst) a <= 0; else a <= d;\nalways @(posedge clk) begin",
            r"\$adff",
        ),
    ],
)
def test_what_scan_cannot_take_is_seen(old: str, new: str, told: str, tmp_path: Path) -> None:
    assert old in REGISTERS
    verilog = REGISTERS.replace(old, new)
    if "always @*" in new:
        body, rest = verilog.split("end always @* begin if (en) a = d; end")
        rest, end = rest.split("  end\nendmodule")
        verilog = f"{body}{rest}  end\n  always @* if (en) a = d;\nendmodule{end}"
    netlist = coarse(verilog, tmp_path)["modules"]
    assert any(re.search(told, line) for line in problems(netlist, "top"))


@pytest.mark.parametrize(
    "unit",
    [
        *quick(["reciprocal", "softmax", "layernorm", "matmul"], 2),
        pytest.param("accelerator", marks=pytest.mark.slow),
    ],
)
def test_every_unit_has_one_clock_and_no_latch_and_no_loop(unit: str, tmp_path: Path) -> None:
    found = generated(unit, CONFIG)
    netlist = coarse(osu018.without_zeros(found.verilog), tmp_path, unit)
    taken = memories.take_out(netlist)
    assert problems(netlist["modules"], unit) == []
    held = registers(netlist["modules"], unit)
    assert 0 < held.reset < held.bits
    assert 0 <= held.enables <= held.enable < held.bits
    checked_for_loops(netlist, {memory.module: memory for memory in taken.values()}, tmp_path, unit)


@pytest.mark.slow
def test_the_memory_side_has_one_clock_too(tmp_path: Path) -> None:
    config = Config(lanes=4, **SMALL_LIMITS)
    made = described(AcceleratorsDma(config, Bus(cores=2)), "dma", config)
    netlist = coarse(osu018.without_zeros(made.verilog), tmp_path, "dma")
    taken = memories.take_out(netlist)
    assert problems(netlist["modules"], "dma") == []
    checked_for_loops(netlist, {m.module: m for m in taken.values()}, tmp_path, "dma")


def checked_for_loops(
    netlist: Any, kinds: dict[str, Memory], folder: Path, top: str = "top"
) -> None:
    """Yosys' `check` on the flat netlist: register files are flip-flops, other memories boxes."""
    files = [memory for memory in kinds.values() if memory.kind == "register file"]
    boxes = [memory for memory in kinds.values() if memory.kind != "register file"]
    (folder / "files.v").write_text("".join(memory.model() for memory in files))
    (folder / "boxes.v").write_text("".join(memory.box() for memory in boxes))
    (folder / "taken.json").write_text(json.dumps(netlist))
    script = "read_json taken.json; read_verilog files.v; read_verilog -lib boxes.v; "
    script += f"hierarchy -top {top}; proc; setattr -mod -unset keep_hierarchy *; flatten; "
    script += "memory; opt_expr -undriven; opt_clean; check -assert"
    run_tool("yosys", "-q", "-p", script, folder=folder)


def test_a_loop_is_seen(tmp_path: Path) -> None:
    loop = REGISTERS.replace("  always", "  wire x = y | en; wire y = x & d[1];\n  always", 1)
    loop = loop.replace("a <= d;", "a <= d ^ {8{y}};")
    netlist = coarse(loop, tmp_path)
    with pytest.raises(SynthesisError, match="found logic loop"):
        checked_for_loops(netlist, {}, tmp_path)


MEMORIES = """\
module top(clk, we, a, d, ram, rom, file);
  input clk; wire clk;
  input [1:0] we; wire [1:0] we;
  input [2:0] a; wire [2:0] a;
  input [7:0] d; wire [7:0] d;
  output [7:0] ram; reg [7:0] ram;
  output [4:0] rom; reg [4:0] rom;
  output [7:0] file; wire [7:0] file;
  reg [7:0] words [7:0];
  reg [7:0] few [3:0];
  reg [4:0] table_ [7:0];
  initial begin
    table_[0] = 1; table_[1] = 30; table_[2] = 7; table_[3] = 0;
    table_[4] = 9; table_[5] = 11; table_[6] = 31; table_[7] = 2;
  end
  always @(posedge clk) begin
    ram <= words[a]; rom <= table_[a];
    if (we[0]) words[a][3:0] <= d[3:0];
    if (we[1]) words[a][7:4] <= d[7:4];
    if (we[0]) few[a[1:0]] <= d;
  end
  assign file = few[a[1:0]];
endmodule
"""


def test_memories_are_taken_out(tmp_path: Path) -> None:
    netlist = coarse(MEMORIES, tmp_path)
    found = {memory.kind: memory for memory in memories.take_out(netlist).values()}
    assert not [c for c in netlist["modules"]["top"]["cells"].values() if c["type"] == "$mem_v2"]
    ram, rom, file = (found[kind] for kind in memories.KINDS)
    assert (ram.words, ram.bits, ram.reads, ram.writes, ram.lanes) == (8, 8, 1, 1, 2)
    assert (rom.words, rom.bits, rom.reads, rom.writes) == (8, 5, 1, 0)
    assert rom.contents == (1, 30, 7, 0, 9, 11, 31, 2)
    assert (file.words, file.bits, file.reads, file.writes) == (4, 8, 1, 1)


@pytest.mark.parametrize("seed", [0, 1])
def test_models_of_memories_behave_as_the_verilog(seed: int, tmp_path: Path) -> None:
    """The netlist with models beside the Verilog, random accesses to written words on Icarus."""
    netlist = coarse(MEMORIES, tmp_path)
    models = {m.module: m.model(seed) for m in memories.take_out(netlist).values()}
    (tmp_path / "taken.json").write_text(json.dumps(netlist))
    write = "read_json taken.json; rename top taken; write_verilog taken.v"
    run_tool("yosys", "-q", "-p", write, folder=tmp_path)
    bench = """\
module bench;
  reg clk = 0; reg [1:0] we = 0; reg [2:0] a = 0, b = 0; reg [7:0] d = 0; integer i, wrong = 0;
  wire [7:0] r, s, f, g; wire [4:0] o, p;
  top one(.clk(clk), .we(we), .a(a), .d(d), .ram(r), .rom(o), .file(f));
  taken two(.clk(clk), .we(we), .a(a), .d(d), .ram(s), .rom(p), .file(g));
  initial begin
    for (i = 0; i < 1000; i = i + 1) begin
      we = i < 8 ? 3 : $random; a = i < 8 ? i : $random; d = $random;
      #5 clk = 1; #5 clk = 0;
      if (i >= 8 && (o !== p || f !== g)) wrong = wrong + 1;
      if (i >= 8 && we == 0 && r !== s) wrong = wrong + 1;
      if (i >= 8 && we != 0 && s === r) wrong = wrong + 1;
    end
    $display("wrong %0d", wrong);
  end
endmodule
"""
    text = "\n".join([MEMORIES, (tmp_path / "taken.v").read_text(), *models.values(), bench])
    (tmp_path / "all.v").write_text(text)
    build = ["iverilog", "-g2012", "-o", "bench", "-s", "bench", "all.v"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["vvp", "bench"], cwd=tmp_path, check=True, capture_output=True)
    assert b"wrong 0" in done.stdout


def test_a_random_sequence_has_the_rates_that_were_asked_for() -> None:
    draw = random.Random(1)
    for rate, ones in [(0.5, 0.5), (0.1, 0.2), (0.02, 0.9), (0.0, 1.0), (0.0, 0.0)]:
        found = toggles._drawn(draw, rate, ones)
        assert abs(found.bit_count() / toggles.CYCLES - ones) < 0.15
        moved = (found ^ found >> 1) & (1 << toggles.CYCLES - 1) - 1
        assert abs(moved.bit_count() / toggles.CYCLES - rate) < 0.06


def test_nets_without_a_name_follow_from_the_gates_before_them() -> None:
    """Of gates whose output does not depend on how a sequence was drawn, exactly."""
    gates = {
        "INV": {"Y": (["A"], lambda a: ~a)},
        "NAND": {"Y": (["A", "B"], lambda a, b: ~(a & b))},
        "XOR": {"Y": (["A", "B"], lambda a, b: a ^ b)},
    }
    cells: list[tuple[str, dict[str, list[Bit]]]] = [
        ("F", {"CLK": [0], "D": [9], "Q": [1]}),
        ("INV", {"A": [1], "Y": [2]}),
        ("NAND", {"A": [1], "B": ["1"], "Y": [3]}),
        ("XOR", {"A": [2], "B": [3], "Y": [4]}),
        ("XOR", {"A": [1], "B": [2], "Y": [5]}),
        ("XOR", {"A": [1], "B": [7], "Y": [6]}),
    ]
    flat = sta.Flat(cells=cells, names={"part.q": [1], "other": [7]})
    found = toggles.of_nets(flat, {("part.q", 0): (0.5, 0.25), ("other", 0): (0.25, 0.5)}, gates)
    assert found[1] == (0.5, 0.25)
    assert found[2] == found[3]
    assert found[2] == (pytest.approx(0.5, abs=0.06), pytest.approx(0.75, abs=0.06))
    assert (found[4], found[5]) == ((0, 0), (0, 1))
    assert found[6][0] == pytest.approx(0.5 * 0.75 + 0.25 * 0.5, abs=0.06)


SAIF = """\
(SAIFILE
(DURATION 1000)
(INSTANCE TOP
  (INSTANCE top
    (NET
      (clk (T0 500) (T1 500) (TX 0) (TC 20))
      (d\\[0\\] (T0 750) (T1 250) (TX 0) (TC 5))
    )
    (INSTANCE four
      (NET
        (q\\[3\\] (T0 0) (T1 1000) (TX 0) (TC 0))
      )
    )
  )
)
)
"""


def test_toggles_are_read_by_the_clock(tmp_path: Path) -> None:
    (tmp_path / "a.saif").write_text(SAIF)
    assert toggles.read(tmp_path / "a.saif", "top") == {
        ("clk", 0): (2.0, 0.5),
        ("d", 0): (0.5, 0.25),
        ("four.q", 3): (0.0, 1.0),
    }


@pytest.mark.parametrize("text", ["", SAIF.replace("clk", "clock"), "no SAIF at all\n"])
def test_a_file_that_is_no_saif_of_the_design(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.saif").write_text(text)
    with pytest.raises(SynthesisError, match=r"is no SAIF of a run of top: `python -m sim\.run"):
        toggles.read(tmp_path / "a.saif", "top")


@needs_cells
@pytest.mark.usefixtures("_own_folder")
def test_power_follows_the_toggles(tmp_path: Path) -> None:
    """Twice the clock is twice the power, but leakage; still inputs leave the clock's alone."""
    netlist = osu018.mapped(design(PARTS, d=4, q=-1, again=-1, high=-1))
    flat = sta.flat(netlist.modules, "top")
    nets = {bit for _, pins in flat.cells for bits in pins.values() for bit in bits}

    def power(mhz: float, rate: float) -> sta.Power:
        _, found = sta.analyse(flat, netlist.folder, mhz, dict.fromkeys(nets, (rate, 0.5)))
        assert found is not None
        return found

    slow, fast, still = power(100, 0.5), power(200, 0.5), power(100, 0.0)
    assert fast.sequential == pytest.approx(2 * slow.sequential, rel=1e-3)
    assert fast.combinational == pytest.approx(2 * slow.combinational, rel=1e-3)
    assert still.combinational < 1e-4
    assert 0 < still.sequential < slow.sequential


#: Energies in pJ: 1 and 3 at the edges of the clock, 5 and 7 at those of the output. The load, of
#: its own input, is 1 pF at 2 V.
FLIP_FLOP_LIBRARY = """\
library(one) {
  delay_model : table_lookup; time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1uA";
  pulling_resistance_unit : "1kohm"; leakage_power_unit : "1nW"; capacitive_load_unit (1, pf);
  slew_lower_threshold_pct_rise : 20; slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80; slew_upper_threshold_pct_fall : 80;
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  nom_process : 1; nom_voltage : 2; nom_temperature : 25;
  operating_conditions (only) { process : 1; voltage : 2; temperature : 25; }
  default_operating_conditions : only;
  power_lut_template(two) { variable_1 : input_transition_time; index_1 ("0, 1"); }
  cell (F) { area : 1; cell_leakage_power : 1000;
    ff (I, N) { next_state : "D"; clocked_on : "CLK"; }
    pin(CLK) { direction : input; clock : true; capacitance : 0;
      internal_power() { rise_power(two) { values("1, 1"); } fall_power(two) { values("3, 3"); } }
    }
    pin(D) { direction : input; capacitance : 1;
      timing() { related_pin : "CLK"; timing_type : setup_rising;
        rise_constraint(scalar) { values("0.5"); } fall_constraint(scalar) { values("0.5"); }
      }
    }
    pin(Q) { direction : output; function : "I";
      timing() { related_pin : "CLK"; timing_type : rising_edge;
        cell_rise(scalar) { values("4"); } cell_fall(scalar) { values("4"); }
        rise_transition(scalar) { values("0"); } fall_transition(scalar) { values("0"); }
      }
      internal_power() { related_pin : "CLK";
        rise_power(two) { values("5, 5"); } fall_power(two) { values("7, 7"); }
      }
    }
  }
}
"""


@needs_cells
def test_power_and_clock_of_a_flip_flop_by_hand(tmp_path: Path) -> None:
    """It feeds itself: 4 pJ a cycle of the clock, and half a toggle, at 6 pJ each, in it."""
    (tmp_path / "one.lib").write_text(FLIP_FLOP_LIBRARY)
    flat = sta.Flat(
        cells=[("F", {"CLK": [0], "D": [1], "Q": [1]})],
        paths=[("f",)],
        ports={"clk": ("input", [0]), "q": ("output", [1])},
    )
    timing, power = sta.analyse(flat, tmp_path, 100.0, {0: (2.0, 0.5), 1: (0.5, 0.5)})
    assert timing == sta.Timing(period_ns=4.5, start=0, end=0)
    assert power is not None
    picojoules = 1 + 3 + 0.5 * (5 + 7) / 2 + 0.5 * 0.5 * 1 * 2**2
    assert power.sequential == pytest.approx(1e3 * (picojoules * 1e-12 * 100e6 + 1e-6), rel=1e-4)
    assert power.combinational == 0


@needs_cells
@pytest.mark.usefixtures("_own_folder")
def test_a_saif_of_another_design_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.saif").write_text(SAIF)
    with pytest.raises(SynthesisError, match="the SAIF is of another design"):
        osu018.synthesise(design(PARTS, d=4, q=-1, again=-1, high=-1), saif=tmp_path / "a.saif")


def test_without_the_library_the_command_to_run_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(osu018, "LIBRARY", tmp_path)
    for main in (command.main, gates.main):
        assert main(["reciprocal", "--target", "osu018"]) == 3
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.endswith("is missing): run `apt-get install qflow-tech-osu018 opensta` first")


@needs_cells
def test_without_opensta_the_command_to_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sta.shutil, "which", lambda name: None)
    with pytest.raises(SynthesisError, match=r"\(sta\) is not installed: run `apt-get"):
        sta.analyse(sta.Flat(), Path(), 100.0, {})


def test_opensta_runs_without_caches_of_freed_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With them it crashed on the activities of 4 and of 8 lanes."""
    program = tmp_path / "sta"
    program.write_text("#!/bin/sh\necho Error: $GLIBC_TUNABLES\n")
    program.chmod(0o755)
    monkeypatch.setattr(sta.shutil, "which", lambda name: str(program))
    with pytest.raises(SynthesisError, match=r"Error: glibc\.malloc\.tcache_count=0$"):
        sta.analyse(sta.Flat(ports={"clk": ("input", [2])}), tmp_path, 100.0, {})


@needs_cells
@pytest.mark.parametrize("unit", quick(["activation", "reciprocal", "requantize", "rsqrt"]))
def test_small_units_are_bit_exact_in_cells(unit: str) -> None:
    arguments = [unit, "--lanes", "4", "--simulator", "icarus", "--target", "osu018"]
    assert gates.main(arguments) == 0


@needs_cells
@pytest.mark.slow
@pytest.mark.parametrize("unit", ["softmax", "layernorm", "matmul", "attention", "accelerator"])
def test_every_unit_is_bit_exact_in_cells(unit: str) -> None:
    assert gates.main([unit, "--lanes", "4", "--target", "osu018"]) == 0


@needs_cells
def test_what_registers_and_memories_begin_with_is_the_seed_s() -> None:
    unit = generated("activation", CONFIG)
    first, again, other = (netlist(unit, "osu018", seed=seed).verilog for seed in (1, 1, 2))
    assert first == again != other
    begins = re.findall(r"DFFPOSX1 #\(1'b(.)\)", first)
    assert begins.count("0") > 5
    assert begins.count("1") > 5
    states = [re.findall(r"state = 32'd(\d+);", text) for text in (first, other)]
    assert states[0]
    assert states[0] != states[1]
    assert re.sub(r"1'b[01]|32'd\d+;", "", first) == re.sub(r"1'b[01]|32'd\d+;", "", other)


@needs_cells
def test_flip_flops_of_rising_edges_are_the_only_cells_with_a_state() -> None:
    found = osu018.mapped(generated("reciprocal", CONFIG))
    kinds = {kind for kind, _ in sta.flat(found.modules, "reciprocal").cells}
    gates = osu018.functions().keys()
    assert kinds - gates == {"DFFPOSX1", *(memory.module for _, memory in found.memories)}


@needs_cells
@pytest.mark.parametrize(("old", "new"), [("NAND2X1", "NOR2X1"), ("XNOR2X1", "XOR2X1")])
def test_a_wrong_gate_is_seen(old: str, new: str) -> None:
    sound = netlist(generated("reciprocal", CONFIG), "osu018")
    text = re.sub(rf"^  {old} (c\d+ )", rf"  {new} \1", sound.verilog, count=1, flags=re.MULTILINE)
    assert text != sound.verilog
    with pytest.raises(BenchError, match="values differ"):
        run_bench(dataclasses.replace(sound, verilog=text), "icarus", variant="broken-gates")


@needs_cells
def test_the_array_takes_less_than_a_gate_and_a_half_a_mac() -> None:
    """Thousands of gate equivalents, accumulator and shadow included."""
    found = osu018.synthesise(generated("matmul", CONFIG))
    assert found.kge / CONFIG.macs < 1.5


@needs_cells
def test_the_table_and_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cells.json"
    arguments = ["reciprocal", "--target", "osu018", "--parts", "--json", str(file)]
    assert command.main(arguments) == 0
    shown = capsys.readouterr().out
    written = json.loads(file.read_text())
    assert f"cells: {written['kge']:.1f} kGE, {written['mm2']:.3f} mm2\n" in shown
    assert f"{written['clock']['slow_mhz']:.1f} MHz in the slow corner" in shown
    rom = written["memory_bits"]["ROM"]
    assert rom == sum(one["words"] * one["bits"] for one in written["memories"])
    assert f"{rom:,} bits of ROM" in shown
    assert written["power"] is None


def test_a_saif_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["softmax", "--target", "osu018", "--saif", str(tmp_path / "none.saif")]
    assert "none.saif does not exist" in refusal(command.main, arguments, capsys)
