"""Other families of FPGAs: every cell is counted, and a netlist that Yosys gets wrong is found."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import generated
from sim.gates import __main__ as gates
from sim.gates.netlist import netlist
from sim.synth import __main__ as command
from sim.synth import count as counting
from sim.synth.count import count, used
from sim.synth.families import FAMILIES, script_of
from sim.synth.models import cell_models
from sim.synth.tools import SynthesisError, run_tool
from tests.ending import refusal
from tests.tiers import quick

pytestmark = pytest.mark.slow

CONFIG = Config(lanes=4)

#: A product behind two registers, as LayerNorm has it.
TWO_REGISTERS = """\
module row(input clk, input [15:0] a, input [10:0] r, output reg [25:0] scale);
  reg [25:0] product = 0;
  initial scale = 0;
  always @(posedge clk) begin product <= a * r; scale <= product; end
endmodule
"""


def test_cells_are_counted_by_kind() -> None:
    cells = {"LUT6": 3, "RAM64M": 2, "CARRY4": 9, "FDRE": 7, "DSP48E1": 1, "RAMB18E1": 3}
    assert used("xilinx7", cells) == {"LUT": 11, "FF": 7, "DSP": 1, "block RAM": 2}
    multipliers = {"MISTRAL_MUL18X18": 3, "MISTRAL_MUL9X9": 2, "MISTRAL_ALUT6": 2}
    assert used("cyclone5", multipliers) == {"LUT": 4, "FF": 0, "DSP": 3, "block RAM": 0}


def test_a_cell_of_unknown_cost_is_refused() -> None:
    with pytest.raises(SynthesisError, match="ice40: 2 cells of the type SB_SPRAM256KA, whose"):
        used("ice40", {"SB_LUT4": 1, "SB_SPRAM256KA": 2})


@pytest.mark.parametrize(("family", "dsp"), quick([("gowin", 8), ("cyclone5", 4), ("ice40", 8)]))
def test_two_products_a_lane(family: str, dsp: int) -> None:
    """Requantize multiplies the halves of an accumulator; Cyclone V has two products a DSP."""
    counts = count(generated("requantize", CONFIG), family)
    assert counts.resources["DSP"] == dsp
    assert counts.resources["block RAM"] == 0
    assert counts.resources["FF"] >= 4 * (32 + 16)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_accelerator_is_counted(family: str) -> None:
    """Products of 8 x 8 bits in the array, 8 of requantize, 24 of LayerNorm, 3 of softmax."""
    counts = count(generated("accelerator", CONFIG), family)
    array = {"gowin": Fraction(16, 2), "cyclone5": Fraction(16, 3)}.get(family, Fraction(16))
    others = {"cyclone5": Fraction(8 + 24 + 3, 2)}.get(family, Fraction(8 + 24 + 3))
    if family == "ice40":  # 16 x 16 bits: a wider product takes several
        units = [count(generated(unit, CONFIG), family) for unit in ("layernorm", "softmax")]
        others = Fraction(8 + sum(unit.resources["DSP"] for unit in units))
        assert others > 8 + 24 + 3
    assert counts.resources["DSP"] == ceil(array + others)
    bits = {"xilinx7": 36, "nexus": 18, "gowin": 18, "cyclone5": 10, "ice40": 4}[family] * 1024
    assert counts.resources["block RAM"] * bits > 128 * 128 * (16 + 8)  # x16 and x8 alone


def _mapped(script: str, folder: Path) -> dict[str, int]:
    (folder / "row.v").write_text(TWO_REGISTERS)
    commands = f"read_verilog row.v; {script}; delete t:$scopeinfo; write_json row.json"
    run_tool("yosys", "-q", "-p", commands, folder=folder)
    cells = json.loads((folder / "row.json").read_text())["modules"]["row"]["cells"].values()
    return {kind: sum(cell["type"] == kind for cell in cells) for kind in ("SB_MAC16", "SB_DFF")}


def test_a_bit_that_is_driven_twice_is_an_error(tmp_path: Path) -> None:
    """What Yosys makes of it by itself, with a warning only: a product that is always 0."""
    with pytest.raises(SynthesisError, match="yosys drives 26 bits twice, so its netlist"):
        _mapped("synth_ice40 -dsp -top row", tmp_path)


def test_the_flow_for_ice40_keeps_the_product(tmp_path: Path) -> None:
    assert _mapped(script_of("ice40", "row"), tmp_path) == {"SB_MAC16": 1, "SB_DFF": 26}


@pytest.mark.parametrize(
    "family",
    [
        pytest.param("ice40", marks=pytest.mark.slow),
        *(pytest.param(f, marks=pytest.mark.slow) for f in ("nexus", "xilinx7", "cyclone5")),
    ],
)
def test_requantize_is_bit_exact_after_synthesis(family: str) -> None:
    arguments = ["requantize", "--lanes", "4", "--simulator", "icarus", "--target", family]
    assert gates.main(arguments) == 0


@pytest.mark.slow
def test_layernorm_is_bit_exact_after_synthesis() -> None:
    assert gates.main(["layernorm", "--lanes", "4", "--target", "ice40"]) == 0


@pytest.mark.slow
def test_an_operand_that_yosys_loses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own flow for Nexus: one of two products that share a register reads zeros."""
    own = dataclasses.replace(FAMILIES["nexus"], script="synth_nexus -noiopad -top {top}")
    monkeypatch.setitem(FAMILIES, "nexus", own)
    design = netlist(generated("requantize", CONFIG), "nexus")
    with pytest.raises(BenchError, match="values differ"):
        run_bench(design, "icarus", variant="broken-gates")


@pytest.mark.parametrize(
    ("family", "cell"),
    [("gowin", "MULT18X18"), ("xilinx7", "RAMB36E1"), ("nexus", "PDPSC16K"), ("ice40", "NONE")],
)
def test_a_cell_without_behaviour_is_refused(family: str, cell: str) -> None:
    with pytest.raises(SynthesisError, match=f"{family}: Yosys brings no behaviour of .* {cell},"):
        cell_models(family, [cell])


@pytest.mark.parametrize("family", quick(["gowin", "ice40"]))
def test_the_table_and_the_file(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.json"
    arguments = ["requantize", "--lanes", "4", "--target", family, "--json", str(file)]
    assert command.main(arguments) == 0
    shown = capsys.readouterr().out
    written = json.loads(file.read_text())
    assert (written["target"], written["unit"]) == (family, "requantize")
    assert shown.startswith(f"requantize, 4 lanes, {FAMILIES[family].title}\n")
    assert f"{written['resources']['LUT']:,}" in shown
    assert written["resources"] == used(family, written["cells"])


def test_a_family_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(counting, "FOLDER", tmp_path)
    broken = dataclasses.replace(FAMILIES["gowin"], script="synth_gowin -family none -top {top}")
    monkeypatch.setitem(FAMILIES, "gowin", broken)
    with pytest.raises(SynthesisError, match="requantize for gowin: yosys failed; the end of"):
        count(generated("requantize", CONFIG), "gowin")
    assert not list(tmp_path.glob("*/*.json"))


def test_it_is_counted_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(counting, "FOLDER", tmp_path)
    design = generated("requantize", CONFIG)
    first = count(design, "gowin")
    monkeypatch.setattr(counting, "run_tool", None)
    assert count(design, "gowin") == first


def test_an_unknown_target(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (command.main, gates.main):
        said = refusal(main, ["softmax", "--target", "virtex"], capsys)
        assert "'virtex'" in said
        assert "xilinx7" in said


@pytest.mark.parametrize(
    ("target", "option", "only"),
    [
        *(
            ("gowin", option, "ecp5")
            for option in (
                ["--no-route"],
                ["--part", "LFE5U-25"],
                ["--seed", "1"],
                ["--placements", "1"],
                ["--placer", "heap"],
                ["--router", "router1"],
                ["--patience", "60"],
            )
        ),
        ("osu018", ["--placements", "2"], "ecp5"),
        ("ice40", ["--freq", "100"], "ecp5 and osu018"),
        ("cyclone5", ["--parts"], "ecp5"),
    ],
)
def test_an_option_that_the_target_does_not_have(
    target: str, option: list[str], only: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the value is the default of another target."""
    said = refusal(command.main, ["softmax", "--target", target, *option], capsys)
    assert said.startswith(
        f"error: argument {option[0]}: the target {target} has none, only {only};"
    )


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e9"])
def test_a_clock_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(command.main, ["softmax", f"--freq={value}"], capsys)
    assert said.startswith(f"error: argument --freq: {float(value):g} is out of range: 1 to 1000")
