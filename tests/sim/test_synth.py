"""Resources and timing of a small design whose figures are known, and the reading of reports."""

from __future__ import annotations

import dataclasses
import json

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.compile.program import compile_model
from rtl.interface.config import Config
from sim.cycles.model import predict
from sim.design import described
from sim.estimate.fits import PARTS
from sim.estimate.performance import example
from sim.phases import work
from sim.synth import __main__ as command
from sim.synth import ecp5, place, tools
from tests.sim.conftest import Accumulator

LARGEST = PARTS[place.PART]


class Product(wiring.Component):
    """o = a * b, two cycles later, without a reset."""

    latency = 2

    def __init__(self):
        super().__init__({"a": In(signed(8)), "b": In(signed(8)), "o": Out(signed(16))})

    def elaborate(self, platform):
        m = Module()
        a, b = Signal(signed(8), reset_less=True), Signal(signed(8), reset_less=True)
        o = Signal(signed(16), reset_less=True)
        m.d.sync += [a.eq(self.a), b.eq(self.b), o.eq(a * b)]
        m.d.comb += self.o.eq(o)
        return m


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(ecp5, "FOLDER", tmp_path)


@pytest.fixture(scope="module")
def unrouted(tmp_path_factory):
    """The cost of the accumulator, without a placement."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ecp5, "FOLDER", tmp_path_factory.mktemp("unrouted"))
        return ecp5.synthesise(
            described(Accumulator(), "accumulator", Config(lanes=4)), route=False
        )


#: A register that is a constant and has two names, each with an initial value.
TWO_NAMES = """
module top(input clk, output [1:0] q);
  reg register;
  (* init = 2'b00 *) wire [1:0] names;
  wire one, other;
  always @(posedge clk) register <= 1'b0;
  assign one = register, other = one, names = {other, one}, q = names;
endmodule
"""


@pytest.mark.slow
def test_what_is_flattened_first_may_have_registers_of_two_names(tmp_path, monkeypatch):
    """The first failure is feigned; the flat netlist is Yosys' own."""
    ran = []

    def run_tool(*arguments, **options):
        ran.append(arguments)
        if len(ran) == 1:
            raise tools.SynthesisError("stopped")
        return tool(*arguments, **options)

    tool = tools.run_tool
    monkeypatch.setattr(tools, "run_tool", run_tool)
    (tmp_path / "top.v").write_text(TWO_NAMES)
    tools.run_yosys("read_verilog top.v", "top", "write_json top.json", tmp_path)
    assert len(ran) == 2
    assert "Executing ABC9" in (tmp_path / "yosys-steps.log").read_text()
    module = json.loads((tmp_path / "top.json").read_text())["modules"]["top"]
    assert module["ports"]["q"]["bits"] == ["0", "0"]


@pytest.mark.slow
def test_the_end_of_what_yosys_wrote_is_in_the_error(tmp_path):
    """After ABC, what it prints does not arrive: the log that it writes does."""
    (tmp_path / "top.v").write_text("module top(input a, output b); assign b = a; endmodule")
    with pytest.raises(tools.SynthesisError, match=r"yosys-steps.log:\n(.*\n)*.*No such command"):
        tools.run_yosys("read_verilog top.v", "top", "no_such_command", tmp_path)


@pytest.mark.slow
def test_figures_of_a_16_bit_accumulator(accumulator, tmp_path):
    cost = ecp5.synthesise(accumulator())
    # 16 bits of sum: 16 flip-flops, 8 carry cells of two LUTs each.
    assert cost.resources == {"LUT4": 16, "FF": 16, "DSP": 0, "block RAM": 0}
    assert cost.folded.flip_flops == 0
    (timing,) = cost.timings
    assert cost.median == cost.worst == timing
    # A carry chain of 16 bits on this part; the target alone would be 100.
    assert 200 < timing.fmax_mhz < 600
    assert timing.path
    assert set(timing.path) <= {"operands", "part.o", "o", "outputs", "results"}
    # Around it: 9 operand bits (rst, i) and the one shifted in, 16 results, one capture.
    (path,) = (tmp_path / "accumulator-4").glob("*-wrapped.json")
    netlist = json.loads(path.read_text())
    kinds = [cell["type"] for cell in netlist["modules"]["wrapped"]["cells"].values()]
    assert kinds.count("TRELLIS_FF") == 16 + 9 + 16 + 1


def timing(seed, fmax):
    return place.Timing(fmax_mhz=fmax, path=["a", "b"], logic_ns=1.0, routing_ns=2.0, seed=seed)


@pytest.mark.parametrize(
    ("by_seed", "unended", "median", "worst"),
    [
        ({1: 90.0}, 0, 90.0, 90.0),
        ({1: 90.0, 2: 80.0}, 0, 80.0, 80.0),
        ({3: 99.0, 4: 70.0, 5: 85.5}, 0, 85.5, 70.0),
        ({1: 4.0, 2: 1.0, 3: 3.0, 4: 2.0}, 0, 2.0, 1.0),
        # What has not ended counts as the slowest.
        ({1: 90.0}, 1, None, None),
        ({1: 90.0, 2: 80.0}, 1, 80.0, None),
        ({1: 107.8, 2: 110.7, 3: 104.4, 4: 111.9}, 1, 107.8, None),
        ({1: 107.8, 2: 110.7, 3: 104.4}, 2, 104.4, None),
        ({}, 3, None, None),
    ],
)
def test_the_median_of_the_placements_counts(unrouted, by_seed, unended, median, worst):
    timings = [timing(seed, fmax) for seed, fmax in by_seed.items()]
    others = [*range(len(by_seed) + 1, len(by_seed) + unended + 1)]
    cost = dataclasses.replace(unrouted, timings=timings, unended=others)
    assert [one and one.fmax_mhz for one in (cost.median, cost.worst)] == [median, worst]
    told = command.describe(cost, LARGEST)
    shown = ["not ended" if mhz is None else f"{mhz:.1f} MHz" for mhz in (median, worst)]
    count = len(by_seed) + unended
    seeds = "1 seed" if count == 1 else f"{count} seeds"
    assert f"median {shown[0]}, worst {shown[1]}, {seeds}" in told
    rows = [line.split() for line in told.splitlines() if line.endswith("a -> b")]
    assert [(row[0], row[1]) for row in rows] == [(str(s), f"{f:.1f}") for s, f in by_seed.items()]
    left = [line.split()[0] for line in told.splitlines() if "not ended" in line]
    assert left == [*map(str, others), *["Fmax,"] * (unended > 0)]
    assert command.figures(cost, None)["fmax_mhz"] == {
        "median": median,
        "worst": worst,
        "by_seed": {str(seed): fmax for seed, fmax in by_seed.items()},
    }


@pytest.mark.slow
def test_a_placement_that_takes_too_long_is_stopped(accumulator, capsys):
    cost = ecp5.synthesise(accumulator(), seeds=(1, 2), patience=0.05)
    assert (cost.timings, cost.unended, cost.median) == ([], [1, 2], None)
    assert "seed 2 has not ended after 0.05 s\n" in capsys.readouterr().err
    assert not cost.worst
    again = ecp5.synthesise(accumulator(), seeds=(1,))
    assert [timing.seed for timing in again.timings] == [1]


@pytest.mark.slow
def test_what_was_synthesised_is_read_back(accumulator, monkeypatch):
    options = ({"route": False}, {"seeds": (1, 2, 3)})
    unplaced, placed = made = [ecp5.synthesise(accumulator(), **one) for one in options]
    assert (unplaced.timings, unplaced.median, unplaced.worst) == ([], None, None)
    assert [timing.seed for timing in placed.timings] == [1, 2, 3]
    assert len({timing.fmax_mhz for timing in placed.timings}) > 1
    monkeypatch.setattr(tools, "run_tool", None)
    assert [ecp5.synthesise(accumulator(), **one) for one in options] == made


@pytest.mark.slow
def test_another_seed_costs_its_placement_alone(accumulator, monkeypatch):
    first = ecp5.synthesise(accumulator())
    run_tool, ran = tools.run_tool, []

    def recorded(name, *arguments, **options):
        ran.append((name, arguments[arguments.index("--seed") + 1]))
        run_tool(name, *arguments, **options)

    monkeypatch.setattr(tools, "run_tool", recorded)
    both = ecp5.synthesise(accumulator(), seeds=(1, 2))
    assert ran == [("nextpnr-ecp5", "2")]
    assert dataclasses.replace(both, timings=both.timings[:1]) == first
    ecp5.synthesise(accumulator(), freq=50.0)
    ecp5.synthesise(accumulator(), router="router2")
    ecp5.synthesise(accumulator(), part="LFE5U-25")
    assert ran[1:] == [("nextpnr-ecp5", "1")] * 3
    ecp5.synthesise(accumulator(), freq=50.0, route=False)
    assert len(ran) == 4


@pytest.mark.slow
def test_registers_beside_a_multiplier_are_folded_and_counted(tmp_path):
    """o = register(register(a) * register(b)): 16 + 16 bits inside of one DSP, timed as such."""
    cost = ecp5.synthesise(described(Product(), "product", Config(lanes=4)))
    assert cost.resources == {"LUT4": 0, "FF": 32, "DSP": 1, "block RAM": 0}
    assert (cost.folded.dsp_inputs, cost.folded.dsp_outputs) == (1, 1)
    assert cost.folded.flip_flops == 32
    small = PARTS["LFE5U-25"]
    told = command.describe(cost, small)
    assert ["DSP", "1", "28", "3.6", "%"] in [line.split() for line in told.splitlines()]
    assert "32 of the FF lie inside: 0 output registers of block RAMs, 1 of DSPs" in told
    (path,) = (tmp_path / "product-4").glob("*-wrapped.json")
    netlist = json.loads(path.read_text())
    (multiplier,) = (
        cell
        for cell in netlist["modules"]["wrapped"]["cells"].values()
        if cell["type"] == "MULT18X18D"
    )
    assert multiplier["parameters"]["REG_OUTPUT_CLK"] == "CLK0"
    # Unregistered, the product alone takes 3.9 ns.
    assert cost.median.fmax_mhz > 260


def test_throughput_of_the_whole_accelerator():
    """At N = 4 with 51 DSPs: cycles by the model that tests/sim/test_cycles.py holds to the RTL."""
    config = Config(lanes=4)
    speed = command.throughput(config, 100.0, 51)
    model = example(config, 2)
    program = compile_model(model, config)
    cycles = predict(program, 128).cycles
    operations = 2 * work(program, 128)
    assert (speed["tokens"], speed["cycles"]) == (128, cycles)
    assert speed["milliseconds"] == pytest.approx(cycles / 100e3)
    assert speed["a_second"] == pytest.approx(100e6 / cycles)
    assert speed["gops"] == pytest.approx(operations / (cycles / 100e6) / 1e9)
    assert speed["gops_a_dsp"] == pytest.approx(speed["gops"] / 51)
    assert f"({cycles:,} cycles, 2 layers" in command.describe_throughput(speed)


def test_trace_ports_stay_open_in_the_wrapper(accumulator):
    design = accumulator()
    port = type(design.ports["o"])
    ports = design.ports | {"trace_sum": port(is_input=False, width=16)}
    assert "trace_sum" not in ecp5.wrapper(dataclasses.replace(design, ports=ports))
    assert ".o(outputs[0 +: 16])" in ecp5.wrapper(design)


def test_a_refused_design_is_told(accumulator):
    design = accumulator()
    broken = type(design)(**(vars(design) | {"verilog": "module accumulator(; endmodule"}))
    with pytest.raises(tools.SynthesisError, match=r"(?s)yosys failed.*syntax error"):
        ecp5.synthesise(broken, route=False)


@pytest.mark.parametrize(
    ("resource", "used", "said"),
    [
        ("DSP", 29, r"takes 29 DSP, and LFE5U-25 has 28: .*--dsp-macs"),
        ("LUT4", 24_289, r"takes 24,289 LUT4, and LFE5U-25 has 24,288: .*--part"),
        ("block RAM", 57, r"takes 57 block RAM, and LFE5U-25 has 56: .*--no-route"),
    ],
)
def test_what_no_part_has_room_for_is_not_placed(resource, used, said, unrouted, monkeypatch):
    monkeypatch.setattr(tools, "run_tool", None)
    counts = unrouted.resources | {resource: used}
    moved = {"absorbed": unrouted.absorbed, "folded": dataclasses.asdict(unrouted.folded)}
    found = {"resources": counts} | moved
    monkeypatch.setattr(ecp5, "_synthesise", lambda design, folder: found)
    design = described(Accumulator(), "accumulator", Config(lanes=4))
    with pytest.raises(tools.SynthesisError, match=said):
        ecp5.synthesise(design, part="LFE5U-25")
    assert ecp5.synthesise(design, part="LFE5U-25", route=False).resources == counts


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
    timing = place.read_timing(report, seed=3)
    assert timing.seed == 3
    assert timing.fmax_mhz == 105.0
    assert timing.path == ["sum", "part.carry", "table.rom.0.0"]
    assert (timing.logic_ns, timing.routing_ns) == (1.0, 3.5)


def test_a_design_without_registers_is_refused():
    with pytest.raises(tools.SynthesisError, match="no path from register to register"):
        place.read_timing({"fmax": {}, "critical_paths": []}, seed=1)
