"""Resources and timing of a small design whose figures are known, and the reading of reports."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sim.synth import __main__ as command
from sim.synth import ecp5


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(ecp5, "FOLDER", tmp_path)


def test_figures_of_a_16_bit_accumulator(accumulator, tmp_path):
    cost = ecp5.synthesise(accumulator())
    # 16 bits of sum: 16 flip-flops, 8 carry cells of two LUTs each.
    assert cost.resources == {"LUT4": 16, "FF": 16, "DSP": 0, "block RAM": 0}
    assert cost.parts == {"part": cost.resources}
    assert cost.timing is not None
    # A carry chain of 16 bits on this part; the target alone would be 100.
    assert 200 < cost.timing.fmax_mhz < 600
    assert cost.timing.path
    assert set(cost.timing.path) <= {"operands", "part.total", "o", "outputs", "results"}
    # Around it: 9 operand bits (rst, i) and the one shifted in, 16 results, one capture.
    netlist = json.loads((tmp_path / "accumulator-4" / "wrapped.json").read_text())
    kinds = [cell["type"] for cell in netlist["modules"]["wrapped"]["cells"].values()]
    assert kinds.count("TRELLIS_FF") == 16 + 9 + 16 + 1


def test_the_fastest_of_several_placements_counts(accumulator):
    cost = ecp5.synthesise(accumulator(), seeds=(1, 2, 3))
    assert list(cost.fmax_by_seed) == ["1", "2", "3"]
    assert cost.timing is not None
    assert cost.timing.fmax_mhz == max(cost.fmax_by_seed.values())
    assert cost.fmax_by_seed[str(cost.timing.seed)] == cost.timing.fmax_mhz
    assert "the fastest of 3 placements" in command.describe(cost)


def test_the_second_time_the_figures_are_read_back(accumulator, monkeypatch):
    first = ecp5.synthesise(accumulator(), route=False)
    monkeypatch.setattr(ecp5, "run_tool", None)
    assert ecp5.synthesise(accumulator(), route=False) == first
    assert first.timing is None


def test_trace_ports_stay_open_in_the_wrapper(accumulator):
    design = accumulator()
    port = type(design.ports["o"])
    ports = design.ports | {"trace_sum": port(is_input=False, width=16)}
    assert "trace_sum" not in ecp5.wrapper(dataclasses.replace(design, ports=ports))
    assert ".o(outputs[0 +: 16])" in ecp5.wrapper(design)


def test_a_refused_design_is_told(accumulator):
    design = accumulator()
    broken = type(design)(**(vars(design) | {"verilog": "module accumulator(; endmodule"}))
    with pytest.raises(ecp5.SynthesisError, match=r"(?s)yosys failed.*syntax error"):
        ecp5.synthesise(broken, route=False)


def step(kind, delay, start, end, net=None):
    facts = {"type": kind, "delay": delay, "from": {"cell": start}, "to": {"cell": end}}
    return facts if net is None else facts | {"net": net}


def test_the_slowest_register_to_register_path_is_read():
    clock = "$glbnet$clk"
    path = [
        step("clk-to-q", 0.5, "unit.sum_TRELLIS_FF_Q_3", "unit.sum_TRELLIS_FF_Q_3"),
        step("routing", 1.25, "a", "b", net="unit.sum[3]"),
        step("logic", 0.25, "b", "b"),
        step("routing", 1.5, "b", "c", net="unit.part._01_[4]"),
        step("routing", 0.5, "c", "d", net="unit.part.carry_LUT4_Z_1_D_PFUMX_Z_C0[2]"),
        step("routing", 0.25, "d", "e", net="$abc$12$n5"),
        step("setup", 0.25, "unit.table.rom.0.0", "unit.table.rom.0.0"),
    ]
    ends = f"posedge {clock}"
    report = {
        "fmax": {clock: {"achieved": 104.96, "constraint": 100}},
        "critical_paths": [
            {"from": "<async>", "to": ends, "path": [step("routing", 90, "pin", "x", net="pin")]},
            {"from": ends, "to": ends, "path": path},
        ],
    }
    timing = ecp5.read_timing(report, seed=3)
    assert timing.seed == 3
    assert timing.fmax_mhz == 105.0
    assert timing.path == ["sum", "part.carry", "table.rom.0.0"]
    assert (timing.logic_ns, timing.routing_ns) == (1.0, 3.5)


def test_a_design_without_registers_is_refused():
    with pytest.raises(ecp5.SynthesisError, match="no path from register to register"):
        ecp5.read_timing({"fmax": {}, "critical_paths": []}, seed=1)


def test_an_unknown_unit_is_refused(capsys):
    assert command.main(["nonsense"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: no unit is called 'nonsense': choose one of")
