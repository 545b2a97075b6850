"""Estimates: counted exactly where they say so, fitted honestly where not, refused in one line."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from docs.figures import load
from rtl.generate.package.data_sheet import memories as of_verilog
from rtl.interface.config import LANES, Config
from sim.design import generated
from sim.estimate import __main__ as command
from sim.estimate import area, fits
from sim.estimate.memories import Memory, memories
from sim.estimate.performance import example, performance
from sim.estimate.points import MECHANISMS, POINTS, RESOURCES, Point
from sim.synth import ecp5, tools
from tests.ending import refusal
from tests.tiers import quick
from verify.fuzz.subject import config as small


def recorded(name: str) -> list[list[Any]]:
    """The rows of a measurement in docs/measurements.toml."""
    (found,) = [one for one in load() if one.name == name]
    return [list(row) for row in found.all]


#: Width, depth and lanes written apart, on both sides of every limit of the rule.
MEMORIES = (
    *((1, depth, 1) for depth in (12, 64, 128, 256, 352, 400, 448, 512, 1024, 4096)),
    *((8, depth, 1) for depth in (176, 192, 256)),
    *((width, 64, 1) for width in (24, 32, 51, 64, 65)),
    *((25, depth, 1) for depth in (12, 16, 32, 48, 128)),
    *((32, depth, 1) for depth in (2, 16, 32, 33, 512, 4096, 6144)),
    *((51, depth, 1) for depth in (32, 48, 768, 1024)),
    *((65, depth, 1) for depth in (16, 32, 48, 256, 1024, 1536)),
    (20, 72, 1), (28, 48, 1), (33, 24, 1), (33, 48, 1), (129, 32, 1), (129, 48, 1), (129, 512, 1),
    (257, 256, 1), (64, 3072, 1), (64, 6144, 1), (64, 4096, 1), (128, 1536, 1), (128, 2048, 1),
    (64, 24576, 1),
    (64, 96, 4), (64, 768, 4), (128, 2048, 8), (128, 512, 4), (256, 128, 8), (128, 8, 4),
)  # fmt: skip
MODULE = """
module {name}(input clk, input [{lanes}-1:0] en, input [{bits}-1:0] wa, ra,
  input [{width}-1:0] d, output reg [{width}-1:0] q);
  reg [{width}-1:0] words [0:{depth}-1], r;
  integer i;
  always @(posedge clk) begin
    for (i = 0; i < {lanes}; i = i + 1)
      if (en[i]) words[wa][i*{lane} +: {lane}] <= d[i*{lane} +: {lane}];
    r <= words[ra]; q <= r;
  end
endmodule
"""
USE = """  {name} u_{name}(clk, en[{lanes}-1:0], wa[{bits}-1:0], ra[{bits}-1:0], d[{width}-1:0],
    q[600*{number} +: {width}]);
"""


@pytest.mark.slow
def test_memories_are_what_yosys_makes_of_them(tmp_path: Path) -> None:
    modules, uses = [], []
    for number, (width, depth, lanes) in enumerate(MEMORIES):
        bits, name = max(1, (depth - 1).bit_length()), f"m_{width}_{depth}_{lanes}"
        names = {"name": name, "width": width, "depth": depth, "lanes": lanes, "bits": bits}
        modules.append(MODULE.format(**names, lane=width // lanes))
        uses.append(USE.format(**names, number=number))
    ports = "input clk, input [7:0] en, input [15:0] wa, ra, input [599:0] d"
    top = f"module top({ports}, output [{600 * len(uses)}:0] q);\n{''.join(uses)}endmodule\n"
    (tmp_path / "m.v").write_text("".join([*modules, top]))
    script = f"read_verilog m.v; {tools.SYNTH} -noflatten -top top; write_json m.json"
    tools.run_tool("yosys", "-q", "-p", script, folder=tmp_path)
    netlist = json.loads((tmp_path / "m.json").read_text())["modules"]
    for width, depth, lanes in MEMORIES:
        name = f"m_{width}_{depth}_{lanes}"
        cells = Counter(cell["type"] for cell in netlist[name]["cells"].values())
        memory = Memory("", width, depth, lanes=lanes)
        assert memory.blocks == cells["DP16KD"], name
        assert memory.distributed == (cells["TRELLIS_DPR16X4"] > 0), name
        if lanes == 1:
            luts = 4 * cells["TRELLIS_DPR16X4"] + cells["LUT4"]
            assert abs(memory.luts - luts) <= (20 if width == 1 else 0), name
            read = cells["TRELLIS_FF"] - width  # the output register is counted elsewhere
            assert abs(memory.flip_flops - read) <= 2, name


def test_a_memory_of_several_counts_each() -> None:
    one, four = Memory("", 25, 32), Memory("", 25, 32, 4)
    for name in ("luts", "flip_flops", "bits"):
        assert getattr(four, name) == 4 * getattr(one, name)
    assert Memory("", 32, 4096, 4).blocks == 4 * Memory("", 32, 4096).blocks == 32


@pytest.mark.slow
@pytest.mark.parametrize(("bias_heads", "rotary_pairs"), quick([(0, 0), (3, 5)]))
def test_the_memories_are_those_of_the_verilog(bias_heads: int, rotary_pairs: int) -> None:
    """Width and depth of each, as the generated accelerator instantiates them."""
    made = replace(small(4), bias_heads=bias_heads, rotary_pairs=rotary_pairs)
    verilog = generated("accelerator", made).verilog
    found = sorted((row[5], row[4]) for row in of_verilog(verilog, "accelerator"))
    told = [(m.width, m.depth) for m in memories(made) for _ in range(m.count)]
    assert found == sorted(told)


def test_what_is_counted_is_right_at_every_point() -> None:
    for point in POINTS:
        found = area.estimate(point.config)
        assert [found[name] - point.resources[name] for name in ("DSP", "block RAM")] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", [one for one in POINTS if one.config.lanes == 4], ids=lambda one: str(one.resources)
)
def test_the_points_are_what_synthesis_counts(point: Point) -> None:
    """Of the design as it stands: figures that a change has made old are seen here."""
    cost = ecp5.synthesise(generated("accelerator", point.config), route=False)
    assert {name: cost.resources[name] for name in RESOURCES} == point.resources


def test_held_out_points_have_no_part_in_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they say: the estimate stays, their error moves."""
    configs = [Config(lanes=lanes) for lanes in LANES]
    before, errors = [area.estimate(config) for config in configs], area.largest_errors()
    changed = tuple(
        replace(p, resources={k: 3 * v for k, v in p.resources.items()}) if p.held_out else p
        for p in POINTS
    )
    monkeypatch.setattr(area, "POINTS", changed)
    area.fit.cache_clear()
    try:
        assert [area.estimate(config) for config in configs] == before
        assert area.largest_errors() != errors
    finally:
        area.fit.cache_clear()


def test_a_fit_finds_the_formula_that_made_its_points() -> None:
    luts, flip_flops = [700, 1500, 60, 110, 30, 210, 150], [900, 1800, 20, 70, 400, 70, 360]
    truth = area.Fit({"LUT4": np.array(luts), "FF": np.array(flip_flops)})

    def point(config: Config) -> Point:
        return Point(config, truth.of(config), held_out=False)

    known = [p.config for p in POINTS if not p.held_out]
    everything = {"precise": True, "bias_heads": 16, "dsp_macs": 7, **MECHANISMS}
    wide = Config(lanes=32, tokens=512, hidden=1024, ffn=4096, **everything)
    found = area.fitted([point(config) for config in known])
    for config in (*known, wide, Config(lanes=16, columns=128)):
        for name, value in truth.of(config).items():
            assert abs(found.of(config)[name] - value) <= 2


def test_what_is_extrapolated_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for point in POINTS:
        assert area.extrapolated(point.config) == []
    far = Config(lanes=32, tokens=4096, hidden=1, ffn=4096)
    told = area.extrapolated(far)
    assert [entry.split()[0] for entry in told] == ["lanes", "tokens", "hidden", "ffn"]
    assert told[0] == "lanes 32 (measured: 4 to 16)"
    assert command.main(["--lanes", "32"]) == 0
    line = "LUT4 and FF are extrapolated: lanes 32 (measured: 4 to 16).\n"
    assert line in capsys.readouterr().out
    assert command.main([]) == 0
    assert "extrapolated" not in capsys.readouterr().out


def test_a_mac_without_a_multiplier_costs_luts() -> None:
    all_of_them, none = Config(lanes=8), Config(lanes=8, dsp_macs=0)
    more = area.estimate(none)["LUT4"] - area.estimate(all_of_them)["LUT4"]
    assert more == 64 * area.MULTIPLIER_LUTS
    assert area.estimate(all_of_them)["DSP"] - area.estimate(none)["DSP"] == 64


def test_the_stated_errors_are_the_largest() -> None:
    for name in ("LUT4", "FF"):
        off = [abs(area.error(p)[name]) for p in POINTS if p.held_out]
        assert area.largest_errors()[name] == max(off) < 0.05


def test_cycles_are_those_of_the_simulated_accelerator() -> None:
    """BERT-Tiny's shape on 128 tokens: the register `cycles` as it was measured."""
    rows = {row[0]: row for row in recorded("cycles.plain")}
    for lanes, stream_bytes, cycles in ((8, 8, rows[8][4]), (16, 2, rows[16][5])):
        config = Config(lanes=lanes)
        model = example(config, 2)
        told = performance(config, model, 125.0, stream_bytes=stream_bytes, whole_last_layer=True)
        assert (told["cycles"], told["tokens"]) == (cycles, 128)
        seconds = cycles / 125e6
        assert told["milliseconds"] == pytest.approx(1e3 * seconds)
        assert told["a_second"] == pytest.approx(1 / seconds)
        assert told["row_bytes"] == 2 * 128 * 128
        assert told["megabytes_a_second"] == pytest.approx(
            (told["stream_bytes"] + told["row_bytes"]) / 1e6 / seconds
        )
        assert told["peak_megabytes_a_second"] == 125.0 * stream_bytes


def test_the_verdicts() -> None:
    none = dict.fromkeys(RESOURCES, 0.0)
    config = Config(lanes=8)
    needed = area.estimate(config)

    def part(**changes: int) -> fits.Part:
        exact = {"LUT": needed["LUT4"], **{k: needed[k] for k in ("FF", "DSP", "block RAM")}}
        return fits.Part("a part", "Lattice ECP5", exact | changes)

    assert fits.verdict(part(LUT=2 * needed["LUT4"]), config, none) == "fits"
    assert fits.verdict(part(), config, none) == "fits, LUT tight"
    assert fits.verdict(part(), config, none | {"LUT4": 0.01}) == "no: LUT"
    assert fits.verdict(part(FF=needed["FF"] - 1), config, none) == "no: FF"
    fewer = part(DSP=needed["DSP"] - 5)
    assert fits.verdict(fewer, config, none) == "no: DSP"  # the LUTs are full already
    fewer = part(DSP=needed["DSP"] - 5, LUT=2 * needed["LUT4"])
    assert fits.verdict(fewer, config, none) == "no: DSP; with --dsp-macs 59 it fits"
    assert fits.verdict(part(DSP=10, LUT=10**6), config, none) == "no: DSP"
    small = fits.Part("small", "Lattice ECP5", dict.fromkeys(("LUT", "FF", "DSP", "block RAM"), 1))
    assert fits.verdict(small, config, none) == "no: LUT, FF, DSP, block RAM"


def test_a_xilinx_7_counts_no_more_than_the_ecp5_for_which_the_estimate_is() -> None:
    """As docs/measurements.toml has it, whose block RAMs of 36 kbit are two."""
    ((_, lut, flip_flops, dsp, blocks),) = recorded("synthesis.families")
    found = area.estimate(Config(lanes=4))
    assert int(lut.split()[0].replace(",", "")) <= found["LUT4"]
    assert (flip_flops <= found["FF"], dsp) == (True, found["DSP"])
    assert 2 * int(blocks.removesuffix(" of 36 kbit")) <= found["block RAM"]


def test_two_products_of_the_array_per_dsp_are_counted_in_the_advice() -> None:
    none = dict.fromkeys(RESOURCES, 0.0)
    plenty = {"LUT": 10**6, "FF": 10**6, "DSP": 0, "block RAM": 10**3}
    for dsp, verdict in {
        43: "fits",
        42: "no: DSP; with --dsp-macs 14 it fits",
        35: "no: DSP; with --dsp-macs 0 it fits",
        34: "no: DSP",
    }.items():
        part = fits.Part("a part", "Gowin GW2A", plenty | {"DSP": dsp})
        assert fits.verdict(part, Config(lanes=4), none) == verdict


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "estimate.json"
    sizes = ["--lanes", "4", "--tokens", "20", "--hidden", "24", "--ffn", "40", "--layers", "3"]
    assert command.main([*sizes, "--clock", "50", "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    facts = json.loads(out.read_text())
    config = Config(lanes=4, tokens=20, hidden=24, ffn=40)
    assert facts["configuration"] == config.as_dict()
    assert facts["resources"] == area.estimate(config)
    assert f"{facts['resources']['LUT4']:,}" in shown
    assert facts["performance"]["tokens"] == 20
    assert f"{facts['performance']['cycles']:,} cycles for 20 tokens" in shown
    assert sum(m["blocks"] for m in facts["memories"]) == facts["resources"]["block RAM"]
    assert [entry["part"] for entry in facts["fits"]] == [*fits.PARTS]
    assert all(entry["part"] in shown for entry in facts["fits"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lanes", "5"], "lanes is 5: choose one of 4, 8, 16, 32, 64"),
        (["--tokens", "0"], "tokens is 0: it must lie in 1..8192"),
        (["--dsp-macs", "65"], "dsp_macs is 65: it must lie in 0..64, lanes x columns"),
        (["--clock", "0"], "'0' is no clock: give MHz above 0, up to 10000"),
        (["--clock", "nan"], "'nan' is no clock"),
        (["--layers", "49"], "49 is out of range: it must be 1 to 48"),
        (["--layers", "2", "--quantized", "x"], "--layers 2 is for an encoder without a model"),
        (["--stream-bytes", "0"], "0 is out of range"),
        (["--part", "XC7A1"], "argument --part: invalid choice: 'XC7A1' (choose from"),
    ],
)
def test_what_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(command.main, arguments, capsys)


@pytest.mark.slow
def test_any_configuration_has_an_estimate_or_a_reason() -> None:
    """Whatever Config takes has one; and more of anything never costs less."""
    rng = Random(5)
    for _ in range(100):
        lanes = rng.choice(LANES)
        most = {"tokens": 8192, "hidden": 1024, "ffn": 4096, "labels": 4096}
        sizes = {name: rng.choice((1, rng.randint(1, top), top)) for name, top in most.items()}
        dsp_macs = rng.choice((None, 0, rng.randint(0, lanes**2)))
        columns = lanes * rng.choice((1, 2, 4, 8))
        config = Config(lanes=lanes, dsp_macs=dsp_macs, columns=columns, **sizes)
        told = area.estimate(config)
        assert all(value > 0 for value in told.values())
        bigger = replace(config, tokens=8192, hidden=1024, ffn=4096)
        assert area.estimate(bigger)["block RAM"] >= told["block RAM"]
        for part in fits.PARTS.values():
            assert fits.verdict(part, config, area.largest_errors()).startswith(("fits", "no: "))
