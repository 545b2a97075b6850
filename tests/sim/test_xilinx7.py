"""Xilinx 7 series: every cell is counted; options of `sim.synth` that a target does not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtl.interface.config import Config
from sim.design import generated
from sim.synth import __main__ as command
from sim.synth import xilinx7
from sim.synth.tools import SynthesisError, run_tool
from tests.ending import refusal

pytestmark = pytest.mark.slow

CONFIG = Config(lanes=4)


def test_cells_are_counted_by_kind() -> None:
    cells = {"LUT6": 3, "RAM64M": 2, "CARRY4": 9, "FDRE": 7, "DSP48E1": 1, "RAMB18E1": 3}
    assert xilinx7.used(cells) == {"LUT": 11, "FF": 7, "DSP": 1, "block RAM": 2}
    with pytest.raises(SynthesisError, match="2 cells of the type URAM288, whose cost"):
        xilinx7.used({"LUT6": 1, "URAM288": 2})


def test_the_accelerator_is_counted() -> None:
    """Products of 8 x 8 bits in the array, 8 of requantize, 24 of LayerNorm, 3 of softmax."""
    resources = xilinx7.count(generated("accelerator", CONFIG))["resources"]
    assert resources["DSP"] == 16 + 8 + 24 + 3
    assert resources["block RAM"] * 36 * 1024 > 128 * 128 * (16 + 8)  # x16 and x8 alone


def test_the_table_and_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two products a lane; the second time without Yosys."""
    monkeypatch.setattr(xilinx7, "FOLDER", tmp_path)
    file = tmp_path / "counts.json"
    arguments = ["requantize", "--lanes", "4", "--target", "xilinx7", "--json", str(file)]
    assert command.main(arguments) == 0
    shown = capsys.readouterr().out
    written = json.loads(file.read_text())
    assert shown.startswith("requantize, 4 lanes, Xilinx 7 series\n")
    assert f"{written['resources']['LUT']:,}" in shown
    assert written["resources"] == xilinx7.used(written["cells"])
    assert (written["resources"]["DSP"], written["resources"]["block RAM"]) == (8, 0)
    monkeypatch.setattr(xilinx7, "run_tool", None)
    assert command.main(arguments) == 0


#: A product behind two registers, of which Yosys' own flow for iCE40 makes one that is always 0.
TWO_REGISTERS = """\
module row(input clk, input [15:0] a, input [10:0] r, output reg [25:0] scale);
  reg [25:0] product = 0;
  initial scale = 0;
  always @(posedge clk) begin product <= a * r; scale <= product; end
endmodule
"""


def test_a_bit_that_is_driven_twice_is_an_error(tmp_path: Path) -> None:
    """Yosys warns only, and takes one of the two."""
    (tmp_path / "row.v").write_text(TWO_REGISTERS)
    script = "read_verilog row.v; synth_ice40 -dsp -top row"
    with pytest.raises(SynthesisError, match="yosys drives 26 bits twice, so its netlist"):
        run_tool("yosys", "-q", "-p", script, folder=tmp_path)


def test_an_unknown_target(capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(command.main, ["softmax", "--target", "virtex"], capsys)
    assert "'virtex'" in said
    assert all(name in said for name in command.TARGETS)


@pytest.mark.parametrize(
    ("target", "option", "only"),
    [
        *(
            ("xilinx7", f"--{option}", "ecp5")
            for option in (
                *("no-route", "part LFE5U-25", "seed 1", "placements 1", "placer heap"),
                *("router router1", "patience 60"),
            )
        ),
        ("osu018", "--placements 2", "ecp5"),
        ("xilinx7", "--freq 100", "ecp5 and osu018"),
    ],
)
def test_an_option_that_the_target_does_not_have(
    target: str, option: str, only: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the value is the default of another target."""
    name, *value = option.split()
    said = refusal(command.main, ["softmax", "--target", target, name, *value], capsys)
    assert said.startswith(f"error: argument {name}: the target {target} has none, only {only};")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e9"])
def test_a_clock_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(command.main, ["softmax", f"--freq={value}"], capsys)
    assert said.startswith(f"error: argument --freq: {float(value):g} is out of range: 1 to 1000")
