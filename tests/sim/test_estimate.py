"""Estimates: counted exactly where they say so, fitted honestly where not, refused in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from docs.figures import load
from golden.model import Shape
from golden.random import random_model
from golden.store import save
from rtl.generate.package.data_sheet import memories as of_verilog
from rtl.interface.config import LANES, Config
from sim.design import generated
from sim.estimate import __main__ as command
from sim.estimate import area, fits
from sim.estimate.memories import Memory, memories
from sim.estimate.performance import example, performance
from sim.synth import ecp5, tools
from sim.synth.place import PARTS
from tests.ending import refusal
from tests.tiers import quick
from verify.fuzz.subject import config as small

ROOT = Path(__file__).resolve().parents[2]


def recorded(name: str) -> list[list[Any]]:
    """The rows of a measurement in docs/measurements.toml."""
    (found,) = [one for one in load() if one.name == name]
    return [list(row) for row in found.all]


#: Width and depth of memories on both sides of every limit of the rule, and those of accelerators.
QUICK = ((25, 48), (8, 176), (1, 400), (1, 448), (51, 48), (65, 48), (128, 1536), (32, 6144))
MANY = (
    *((1, depth) for depth in (12, 64, 128, 256, 352, 512, 1024, 4096)),
    *((8, depth) for depth in (176, 192, 256)),
    *((width, 64) for width in (24, 32, 51, 64, 65)),
    *((25, depth) for depth in (12, 16, 32, 128)),
    *((32, depth) for depth in (2, 16, 32, 33, 512, 4096)),
    *((51, depth) for depth in (32, 768, 1024)),
    *((65, depth) for depth in (16, 32, 256, 1024, 1536)),
    (20, 72), (28, 48), (33, 24), (33, 48), (129, 32), (129, 48), (129, 512), (257, 256),
    (64, 3072), (64, 6144), (64, 4096), (128, 2048), (64, 24576),
)  # fmt: skip


def synthesised(sizes: tuple[tuple[int, int], ...], folder: Path) -> dict[tuple[int, int], dict]:
    """What Yosys makes of a memory as the accelerator has it, by width and depth."""
    modules, uses = [], []
    for width, depth in sizes:
        bits, name = max(1, (depth - 1).bit_length()), f"m_{width}_{depth}"
        modules.append(
            f"module {name}(input clk, en, input [{bits - 1}:0] wa, ra, input [{width - 1}:0] d,\n"
            f"  output reg [{width - 1}:0] q);\n"
            f"  reg [{width - 1}:0] words [0:{depth - 1}], r;\n"
            "  always @(posedge clk) begin if (en) words[wa] <= d; r <= words[ra]; q <= r; end\n"
            "endmodule\n"
        )
        uses.append(
            f"  {name} u{len(uses)}(clk, en, wa[{bits - 1}:0], ra[{bits - 1}:0],\n"
            f"    d[{width - 1}:0], q[{600 * len(uses)} +: {width}]);\n"
        )
    ports = f"input clk, en, input [15:0] wa, ra, input [599:0] d, output [{600 * len(uses)}:0] q"
    (folder / "m.v").write_text(
        "".join([*modules, f"module top({ports});\n", *uses, "endmodule\n"])
    )
    script = f"read_verilog m.v; {tools.SYNTH} -noflatten -top top; write_json m.json"
    tools.run_tool("yosys", "-q", "-p", script, folder=folder)
    netlist = json.loads((folder / "m.json").read_text())["modules"]
    found = {}
    for width, depth in sizes:
        kinds = [cell["type"] for cell in netlist[f"m_{width}_{depth}"]["cells"].values()]
        found[width, depth] = {kind: kinds.count(kind) for kind in set(kinds)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [QUICK, pytest.param(MANY, marks=pytest.mark.slow)], ids=len)
def test_memories_are_what_yosys_makes_of_them(
    sizes: tuple[tuple[int, int], ...], tmp_path: Path
) -> None:
    for (width, depth), cells in synthesised(sizes, tmp_path).items():
        told = Memory("", width, depth)
        assert told.blocks == cells.get("DP16KD", 0), (width, depth)
        distributed = cells.get("TRELLIS_DPR16X4", 0)
        assert told.distributed == (distributed > 0), (width, depth)
        luts = 4 * distributed + cells.get("LUT4", 0)
        assert abs(told.luts - luts) <= (20 if width == 1 else 0), (width, depth)
        read = cells["TRELLIS_FF"] - width  # the output register is counted elsewhere
        assert abs(told.flip_flops - read) <= 2, (width, depth)


#: Lanes of so many bits that are written apart, and the depth; then what Yosys makes of it.
APART = ((4, 16, 96), (4, 16, 768), (8, 16, 2048), (4, 32, 512), (8, 32, 128), (4, 32, 8))


@pytest.mark.slow
def test_memories_written_by_lane(tmp_path: Path) -> None:
    modules = []
    for lanes, bits, depth in APART:
        address, width = (depth - 1).bit_length(), lanes * bits
        writes = " ".join(
            f"if (en[{i}]) words[wa][{i * bits + bits - 1}:{i * bits}] "
            f"<= d[{i * bits + bits - 1}:{i * bits}];"
            for i in range(lanes)
        )
        modules.append(
            f"module m_{lanes}_{bits}_{depth}(input clk, input [{lanes - 1}:0] en,\n"
            f"  input [{address - 1}:0] wa, ra, input [{width - 1}:0] d,"
            f" output reg [{width - 1}:0] q);\n  reg [{width - 1}:0] words [0:{depth - 1}], r;\n"
            f"  always @(posedge clk) begin {writes} r <= words[ra]; q <= r; end\nendmodule\n"
        )
    tops = [f"m_{lanes}_{bits}_{depth}" for lanes, bits, depth in APART]
    for name, module, (lanes, bits, depth) in zip(tops, modules, APART, strict=True):
        (tmp_path / "m.v").write_text(module)
        script = f"read_verilog m.v; {tools.SYNTH} -top {name}; write_json m.json"
        tools.run_tool("yosys", "-q", "-p", script, folder=tmp_path)
        cells = json.loads((tmp_path / "m.json").read_text())["modules"][name]["cells"].values()
        kinds = [cell["type"] for cell in cells]
        told = Memory("", lanes * bits, depth, lanes=lanes)
        assert told.blocks == kinds.count("DP16KD"), name
        assert told.distributed == ("TRELLIS_DPR16X4" in kinds), name


def test_a_memory_of_several_counts_each() -> None:
    one, four = Memory("", 25, 32), Memory("", 25, 32, 4)
    assert (four.luts, four.flip_flops, four.bits) == (
        4 * one.luts,
        4 * one.flip_flops,
        4 * one.bits,
    )
    assert Memory("", 32, 4096, 4).blocks == 4 * Memory("", 32, 4096).blocks == 32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bias_heads", "windows", "rotary_pairs"), quick([(0, False, 0), (3, True, 5)])
)
def test_the_memories_are_those_of_the_verilog(
    bias_heads: int, windows: bool, rotary_pairs: int
) -> None:
    """Width and depth of each, as the generated accelerator instantiates them."""
    made = replace(small(4), bias_heads=bias_heads, windows=windows, rotary_pairs=rotary_pairs)
    verilog = generated("accelerator", made).verilog
    found = sorted((held.bits, held.words) for held in of_verilog(verilog, "accelerator"))
    told = [(m.width, m.depth) for m in memories(made) for _ in range(m.count)]
    assert found == sorted(told)


@pytest.mark.parametrize("point", area.points(), ids=lambda point: str(point.config.lanes))
def test_what_is_counted_is_right_at_every_point(point: area.Point) -> None:
    told = area.fit().of(point.config)
    assert told["DSP"] == point.resources["DSP"]
    assert told["block RAM"] == point.resources["block RAM"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", [one for one in area.points() if one.config.lanes == 4], ids=lambda one: str(one.array)
)
def test_the_points_are_what_synthesis_counts(point: area.Point) -> None:
    """Of the design as it stands: figures that a change has made old are seen here."""
    cost = ecp5.synthesise(generated("accelerator", point.config), route=False)
    assert {name: cost.resources[name] for name in area.RESOURCES} == point.resources
    assert {name: cost.parts["engine.matmul"][name] for name in point.array} == point.array


def test_the_units_of_16_lanes_add_up() -> None:
    """DSP and block RAM of units alone, as they were measured."""
    measured = {
        (row[0], row[1]): (row[4], row[5])
        for row in recorded("synthesis.units")
        if row[0] in ("requantize", "activation", "softmax", "layernorm")
    }
    assert {lanes for _, lanes in measured} == {4, 8, 16}
    for lanes in (4, 8, 16):
        multipliers = sum(dsp for (_, n), (dsp, _) in measured.items() if n == lanes)
        told = area.estimate(Config(lanes=lanes))
        assert told["DSP"] == lanes**2 + multipliers
        blocks = {memory.name: memory.blocks for memory in memories(Config(lanes=lanes))}
        softmax = ("scores", "p", "exponential tables", "reciprocal table")
        assert sum(blocks[name] for name in softmax) == measured["softmax", lanes][1]
        norm = ("parameters of LayerNorm", "rsqrt table")
        assert sum(blocks[name] for name in norm) == measured["layernorm", lanes][1]
        assert blocks["activation tables"] == measured["activation", lanes][1]


def test_held_out_points_have_no_part_in_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they say: the estimate stays, their error moves."""
    configs = [Config(lanes=lanes) for lanes in LANES]
    before, errors = [area.estimate(config) for config in configs], area.largest_errors()
    assert any(point.held_out for point in area.points())
    changed = tuple(
        replace(p, resources={k: 3 * v for k, v in p.resources.items()}) if p.held_out else p
        for p in area.points()
    )
    monkeypatch.setattr(area, "points", lambda: changed)
    area.fit.cache_clear()
    try:
        assert [area.estimate(config) for config in configs] == before
        assert area.largest_errors() != errors
    finally:
        area.fit.cache_clear()


def test_a_fit_finds_the_formula_that_made_its_points() -> None:
    truth = area.Fit(
        2.5,
        {
            "LUT4": np.array([700, 1500, 60, 110, 30, 200, 210, 150]),
            "FF": np.array([900, 1800, 20, 70, 400, 300, 70, 360]),
        },
    )

    def point(config: Config) -> area.Point:
        array = {"LUT4": round((2.5 + config.precise) * config.lanes**2 * config.acc_bits)}
        return area.Point(config, truth.of(config), array, held_out=False)

    configs = [
        Config(lanes=4),
        Config(lanes=8),
        Config(lanes=8, tokens=32),
        Config(lanes=16),
        Config(lanes=8, precise=True),
        Config(lanes=4, columns=16, dsp_macs=5),
        Config(lanes=4, bias_heads=2),
        Config(lanes=4, windows=True),
        Config(lanes=4, gated=True),
        Config(lanes=4, rotary_pairs=6),
    ]
    found = area.fitted(tuple(point(config) for config in configs))
    wide = Config(
        lanes=32,
        tokens=512,
        hidden=1024,
        ffn=4096,
        dsp_macs=7,
        precise=True,
        bias_heads=16,
        windows=True,
        rotary_pairs=64,
        gated=True,
    )
    wider = Config(lanes=16, columns=128)
    for config in (*configs, wide, wider):
        for name, value in truth.of(config).items():
            assert abs(found.of(config)[name] - value) <= 2
    with pytest.raises(ValueError, match="1 points do not determine 8 coefficients"):
        area.fitted((point(configs[0]),))


def test_what_is_extrapolated_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for point in area.points():
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
    """By hand, from the file's own numbers."""
    for name in ("LUT4", "FF"):
        off = [
            abs(area.fit().of(p.config)[name] / p.resources[name] - 1)
            for p in area.points()
            if p.held_out
        ]
        assert area.largest_errors()[name] == pytest.approx(max(off))
        assert max(off) < 0.05


def test_cycles_are_those_of_the_simulated_accelerator() -> None:
    """BERT-Tiny's shape on 128 tokens: the register `cycles` as it was measured."""
    rows = {row[0]: row for row in recorded("cycles.plain")}
    for lanes, stream_bytes, cycles in ((8, 8, rows[8][4]), (16, 2, rows[16][5])):
        config = Config(lanes=lanes)
        model = example(config, 2)
        told = performance(config, model, 125.0, stream_bytes=stream_bytes, whole_last_layer=True)
        assert (told.cycles, told.tokens) == (cycles, 128)
        seconds = cycles / 125e6
        assert told.milliseconds == pytest.approx(1e3 * seconds)
        assert told.a_second == pytest.approx(1 / seconds)
        assert told.row_bytes == 2 * 128 * 128
        assert told.megabytes_a_second == pytest.approx(
            (told.stream_bytes + told.row_bytes) / 1e6 / seconds
        )
        assert told.peak_megabytes_a_second == 125.0 * stream_bytes


def test_the_verdicts() -> None:
    none = dict.fromkeys(area.RESOURCES, 0.0)
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


def test_the_parts_and_boards_are_named_once() -> None:
    names = [part.name for part in fits.parts()]
    boards = [board.name for board in fits.boards()]
    for each in (names, boards):
        assert len({name.casefold() for name in each}) == len(each) >= 20
    assert set(PARTS) < set(names)
    assert {board.part for board in fits.boards()} <= set(names)
    assert {part.family for part in fits.parts()} == set(fits.families())


def test_the_family_that_is_counted() -> None:
    """As docs/measurements.toml has it, whose block RAMs of 36 kbit are two."""
    ((title, lut, flip_flops, dsp, blocks),) = recorded("synthesis.families")
    family = fits.families()[title]
    assert family.counted == {
        "LUT": int(lut.split()[0].replace(",", "")),
        "FF": flip_flops,
        "block RAM": 2 * int(blocks.removesuffix(" of 36 kbit")),
    }
    told = fits.needed(family, fits.COUNTED)
    assert told["DSP"] == dsp
    # The estimate at that point is off by less than one in a thousand.
    for name, value in family.counted.items():
        assert told[name] >= 0.999 * value


def test_another_family_is_never_taken_for_smaller_than_the_ecp5() -> None:
    for lanes in (4, 16):
        config = Config(lanes=lanes, dsp_macs=lanes)
        told = area.estimate(config)
        outside = told["DSP"] - lanes
        for name, family in fits.families().items():
            needed = fits.needed(family, config)
            assert needed["LUT"] >= told["LUT4"]
            assert (needed["FF"], needed["block RAM"]) >= (told["FF"], told["block RAM"])
            array = {"Gowin": lanes / 2, "Intel": lanes / 3}.get(name.split()[0], lanes)
            array = lanes / 2 if name == "Intel MAX 10" else array
            other = {"Intel": outside / 2, "Lattice iCE40": outside * 8 / 7}
            other["Intel MAX 10"] = outside
            rest = other.get(name, other.get(name.split()[0], outside))
            assert needed["DSP"] == ceil(round(array + rest, 6))


def test_products_that_share_a_dsp_are_counted_in_the_advice() -> None:
    """GW2A: two products of the array in a DSP."""
    none = dict.fromkeys(area.RESOURCES, 0.0)
    config = Config(lanes=4)
    plenty = {"LUT": 10**6, "FF": 10**6, "block RAM": 10**3}
    for dsp, said in {
        43: "fits",
        42: "no: DSP; with --dsp-macs 14 it fits",
        35: "no: DSP; with --dsp-macs 0 it fits",
        34: "no: DSP",
        0: "no: DSP",
    }.items():
        part = fits.Part("a part", "Gowin GW2A", plenty | {"DSP": dsp})
        assert fits.verdict(part, config, none) == said, dsp


@pytest.mark.slow
def test_families_that_were_not_fitted_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    for part in fits.parts():
        assert command.main(["--lanes", "4", "--part", part.name.upper()]) == 0
        said = capsys.readouterr().out
        assert ("These were not fitted" in said) == (part.family != "Lattice ECP5")
        like = fits.families()[part.family].like
        assert (f"\n{part.family} (as {like}): " in said) == bool(like)


BOARDS = (
    # clock, bytes of the stream a cycle that the memory brings; lanes use eight
    ("ULX3S", 62.5, 2, 125.0),
    ("ulx3s", 200, 1, 266.0),
    ("colorlight-i5", 100, 4, 400.0),
    ("arty-a7-35", 100, None, 1334.0),
    ("arty-a7-35", 200, 6, 1334.0),
    ("icebreaker", 50, None, None),
)


@pytest.mark.parametrize(("name", "clock", "stream_bytes", "rate"), BOARDS)
def test_a_board_has_its_part_and_the_cycles_of_its_memory(
    name: str,
    clock: float,
    stream_bytes: int | None,
    rate: float | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ["--lanes", "8", "--tokens", "16", "--hidden", "64", "--ffn", "64"]
    out = tmp_path / "board.json"
    given = [*sizes, "--clock", str(clock), "--board", name, "--json", str(out)]
    assert command.main(given) == 0
    facts = json.loads(out.read_text())
    (board,) = [one for one in fits.boards() if one.name == name.casefold()]
    assert facts["board"] == {
        "name": board.name,
        "megabytes_a_second": rate,
        "stream_bytes": stream_bytes,
    }
    assert [entry["part"] for entry in facts["fits"]] == [board.part]
    config = Config(lanes=8, tokens=16, hidden=64, ffn=64)
    model = example(config, 2)
    cycles = performance(config, model, 1.0, stream_bytes=stream_bytes or 8).cycles
    assert facts["performance"]["cycles"] == cycles
    assert (cycles > performance(config, model, 1.0).cycles) == (stream_bytes is not None)
    assert f"\n{board.name}: {board.part}; " in capsys.readouterr().out
    assert command.main([*given, "--stream-bytes", "3"]) == 0
    assert json.loads(out.read_text())["board"]["stream_bytes"] == 3


def test_a_model_that_a_board_cannot_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "board.json"
    for vocabulary, said in ((40_000, "fit its"), (400_000, "do not fit its")):
        folder = tmp_path / str(vocabulary)
        model = random_model(Shape(1, 24, 3, 8, 40, 2, vocabulary, 8, 2), 0)
        save(model, folder, {})
        given = ["--quantized", str(folder), "--board", "colorlight-i5", "--json", str(out)]
        assert command.main(given) == 0
        stream = json.loads(out.read_text())["performance"]["stream_bytes"]
        row = 24 if model.embedding.token_low is None else 48
        size = (stream + row * (vocabulary + 2 * 8)) / 2**20
        line = f"Command stream and embedding table, {size:.1f} MiB, {said} memory.\n"
        assert line in capsys.readouterr().out


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
    assert [entry["part"] for entry in facts["fits"]] == [part.name for part in fits.parts()]
    assert all(entry["part"] in shown for entry in facts["fits"])


def test_the_points_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "points.json"
    assert command.main(["--points", "--json", str(out)]) == 0
    shown = capsys.readouterr().out.splitlines()
    facts = json.loads(out.read_text())["points"]
    assert len(facts) == len(shown) - 2 == len(area.points())
    assert len({line.split("  ")[0] for line in shown[2:]}) == len(area.points())
    held_out = [line for line in shown if "held out" in line]
    assert len(held_out) == sum(point.held_out for point in area.points())
    for point, line in zip(area.points(), shown[2:]):
        assert f"{point.resources['LUT4']:,}" in line
        assert f"{area.error(point)['LUT4']:+.1%}" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lanes", "5"], "lanes is 5: choose one of 4, 8, 16, 32, 64"),
        (["--tokens", "0"], "tokens is 0: it must lie in 1..8192"),
        (["--hidden", "2000"], "hidden is 2000: it must lie in 1..1024"),
        (["--ffn", "-1"], "ffn is -1: it must lie in 1..4096"),
        (["--dsp-macs", "65"], "dsp_macs is 65: it must lie in 0..64, lanes x columns"),
        (["--clock", "0"], "'0' is no clock: give MHz above 0, up to 10000"),
        (["--clock", "nan"], "'nan' is no clock"),
        (["--clock", "inf"], "'inf' is no clock"),
        (["--layers", "0"], "0 is out of range: it must be 1 to 48"),
        (["--layers", "49"], "49 is out of range: it must be 1 to 48"),
        (["--quantized", "nowhere"], "nowhere"),
        (
            ["--layers", "2", "--quantized", str(ROOT)],
            "--layers 2 is for an encoder without a model",
        ),
        (["--stream-bytes", "0"], "0 is out of range"),
        (["--part", "XC7A1"], "'XC7A1' is no part: give one of LFE5U-25, "),
        (["--board", "ulx4s"], "'ulx4s' is no board: give one of ulx3s-25, "),
        (["--board", "ulx3s", "--part", "XC7Z020"], "--part: not allowed with argument --board"),
        (
            ["--board", "ulx3s", "--clock", "300"],
            "--clock 300: the memory of ulx3s brings 266 MB/s, less than a byte a cycle: "
            "give a clock of at most 266 MHz",
        ),
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
        config = Config(
            lanes=lanes,
            tokens=rng.choice((1, 2, rng.randint(1, 8192), 8192)),
            hidden=rng.choice((1, rng.randint(1, 1024), 1024)),
            ffn=rng.choice((1, rng.randint(1, 4096), 4096)),
            labels=rng.choice((1, rng.randint(1, 4096))),
            dsp_macs=rng.choice((None, 0, rng.randint(0, lanes**2))),
            columns=lanes * rng.choice((1, 2, 4, 8)),
        )
        told = area.estimate(config)
        assert all(value > 0 for value in told.values())
        bigger = replace(config, tokens=8192, hidden=1024, ffn=4096)
        assert area.estimate(bigger)["block RAM"] >= told["block RAM"]
        for part in fits.parts():
            assert fits.verdict(part, config, area.largest_errors()).startswith(("fits", "no: "))
