"""Standard cells: areas, memories and clock of designs whose figures are known by hand."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from rtl.interface.config import Config
from sim.design import Design, Port, generated
from sim.synth import __main__ as command
from sim.synth import osu018
from sim.synth.tools import SynthesisError

pytestmark = pytest.mark.slow

INSTALLED = osu018.LIBRARY.is_dir() and shutil.which("sta") is not None
needs_cells = pytest.mark.skipif(
    not INSTALLED, reason="standard cells and OpenSTA are not installed"
)

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


@needs_cells
def test_area_and_clock_of_six_flip_flops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flip-flop is 9.6 x 10 um, a NAND 2.4 x 10, an inverter 1.6 x 10: 4, 1 and 2/3 of a gate."""
    monkeypatch.setattr(osu018, "FOLDER", tmp_path)
    sheet = json.dumps({"configuration": {"lanes": 4}})
    ports = {"clk": Port(is_input=True, width=1)}
    found = osu018.synthesise(
        Design(name="top", configuration="4", verilog=PARTS, ports=ports, sheet=sheet)
    )
    assert found["mm2"] == round((6 * 96 + 16) / 1e6, 4)
    assert found["kge"] == round((6 * 96 + 16) / 24 / 1e3, 3)
    assert found["memory_bits"] == {"RAM": 0, "ROM": 0, "register file": 0}
    assert found["typical_mhz"] is not None
    assert found["slow_mhz"] == pytest.approx(found["typical_mhz"] / osu018.SLOW, abs=0.1)


@needs_cells
def test_the_library_has_the_areas_of_its_layout() -> None:
    """Three cells of the library have others: OAI21X1 would be smaller than a NAND."""
    areas = osu018.areas()
    assert (areas["NAND2X1"], areas["OAI21X1"], areas["NAND3X1"]) == (24, 32, 32)
    text = osu018.liberty()
    assert re.search(r"cell \(OAI21X1\) \{\s*(cell_footprint[^;]*;\s*)?area : 32;", text)
    assert len(osu018._AREA.findall(text)) == 32


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
    (tmp_path / "top.v").write_text(MEMORIES)
    osu018._yosys(osu018._COARSE.format(top="top", modules="top"), tmp_path)
    modules = json.loads((tmp_path / "coarse.json").read_text())["modules"]
    sizes = {"RAM": 8 * 8, "ROM": 8 * 5, "register file": 4 * 8}
    assert osu018.take_out_memories(modules, {"top": 3}) == {k: 3 * n for k, n in sizes.items()}
    types = [cell["type"] for cell in modules["top"]["cells"].values()]
    # An enable, an address and two enables, an address and data of the RAM; those of the ROM.
    assert types.count("MEMORY_INPUT") == (1 + 3) + (2 + 3 + 8) + (1 + 3)
    assert types.count("MEMORY_OUTPUT") == 8 + 5
    assert types.count("$mem_v2") == 1


FLIP_FLOP_LIBRARY = """\
library(one) {
  delay_model : table_lookup; time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1uA";
  pulling_resistance_unit : "1kohm"; leakage_power_unit : "1nW"; capacitive_load_unit (1, pf);
  slew_lower_threshold_pct_rise : 20; slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80; slew_upper_threshold_pct_fall : 80;
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  nom_process : 1; nom_voltage : 2; nom_temperature : 25;
  cell (F) { area : 1;
    ff (I, N) { next_state : "D"; clocked_on : "CLK"; }
    pin(CLK) { direction : input; clock : true; capacitance : 0; }
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
    }
  }
}
"""


@needs_cells
@pytest.mark.parametrize(
    ("cells", "nanoseconds"),
    [
        ("F f(.CLK(clk), .D(q), .Q(q));", 4.5),
        ("F f(.CLK(clk), .D(d), .Q(q)); MEMORY_INPUT m(.clk(clk), .d(q));", 4.2),
        ("F f(.CLK(clk), .D(n), .Q(q)); MEMORY_OUTPUT m(.clk(clk), .q(n));", 0.5),
        ("F f(.CLK(clk), .D(d), .Q(q));", None),
    ],
)
def test_clocks_by_hand(cells: str, nanoseconds: float | None, tmp_path: Path) -> None:
    (tmp_path / "cells.lib").write_text(FLIP_FLOP_LIBRARY)
    (tmp_path / "memories.lib").write_text(osu018.MEMORIES.read_text())
    ports = "input clk; input d; output q; wire n;"
    (tmp_path / "netlist.v").write_text(f"module top(clk, d, q); {ports} {cells} endmodule\n")
    assert osu018._slowest_path("top", 10.0, tmp_path) == nanoseconds


def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(osu018, "LIBRARY", tmp_path)
    assert command.main(["reciprocal", "--target", "osu018"]) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("is missing): run `apt-get install qflow-tech-osu018 opensta` first")
    monkeypatch.setattr(osu018.shutil, "which", lambda name: None)
    with pytest.raises(SynthesisError, match=r"\(sta\) is not installed: run `apt-get"):
        osu018._slowest_path("top", 10.0, tmp_path)


@needs_cells
def test_the_array_takes_less_than_a_gate_and_a_half_a_mac() -> None:
    """Thousands of gate equivalents, accumulator and shadow included."""
    config = Config(lanes=4)
    assert osu018.synthesise(generated("matmul", config))["kge"] / config.macs < 1.5


@needs_cells
def test_the_table_and_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cells.json"
    assert command.main(["reciprocal", "--target", "osu018", "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    written = json.loads(file.read_text())
    assert f"cells: {written['kge']:.1f} kGE, {written['mm2']:.3f} mm2\n" in shown
    assert f"{written['slow_mhz']:.1f} MHz in the slow corner" in shown
    assert f"{written['memory_bits']['ROM']:,} bits of ROM" in shown
