"""The accelerator as an IP-XACT component, IEEE 1685-2014."""

from __future__ import annotations

import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

from peakrdl_ipxact import IPXACTExporter

from rtl.dma.bus import Bus
from rtl.dma.share import CORE_ADDRESS_BITS
from rtl.generate.package.core import ABOUT, name_of
from rtl.generate.package.instances import Ports
from rtl.generate.package.interfaces import (
    CLOCK,
    FULL,
    INTERRUPT,
    LITE,
    RESET,
    STREAM,
    interfaces,
)
from rtl.interface.config import Config
from rtl.registers.map import compiled

NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
MAP, SPACE = "registers", "memory"

_TYPES = {
    LITE: ("amba.com", "AMBA4", "AXI4-Lite", "r0p0_0"),
    FULL: ("amba.com", "AMBA4", "AXI4", "r0p0_0"),
    STREAM: ("amba.com", "AMBA4", "AXI4Stream", "r0p0_1"),
    CLOCK: ("xilinx.com", "signal", "clock", "1.0"),
    RESET: ("xilinx.com", "signal", "reset", "1.0"),
    INTERRUPT: ("xilinx.com", "signal", "interrupt", "1.0"),
}
"""Bus definitions: Arm's, and for single signals, which Arm defines none of, those of Vivado."""

_FILES: dict[str, tuple[str, str | None, bool]] = {
    ".v": ("verilogSource", None, False),
    ".h": ("cSource", None, True),
    ".sdc": ("user", "SDC", False),
    ".xdc": ("user", "XDC", False),
    ".lpf": ("user", "LPF", False),
}
"""By suffix: type of a file, what it is where the standard has no name for it, whether it is
included by others."""


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def _add(parent: xml.Element, name: str, text: str | None = None, **more: str) -> xml.Element:
    made = xml.SubElement(parent, _tag(name), more)
    made.text = text
    return made


def component(
    module: str,
    ports: Ports,
    config: Config,
    files: Mapping[str, Sequence[str]],
    bus: Bus | None = None,
) -> str:
    """Text of the component.

    Parameters
    ----------
    files
        Paths from the component's own place, by the name of the file set; `rtl` is the Verilog.
    bus
        Of an accelerator with DMA.

    Raises
    ------
    ValueError
        A port belongs to no interface.
    """
    vendor, library, name, release = name_of(module).split(":")
    map_ = _memory_map(config, ports["s_axi_awaddr"]["width"], bus)
    root = xml.Element(_tag("component"))
    root.set(f"{{{XSI}}}schemaLocation", f"{NAMESPACE} {NAMESPACE}/index.xsd")
    for key, text in zip(
        ("vendor", "library", "name", "version"), (vendor, library, name, release)
    ):
        _add(root, key, text)
    _add_interfaces(_add(root, "busInterfaces"), ports)
    if bus is not None:
        space = _add(_add(root, "addressSpaces"), "addressSpace")
        _add(space, "name", SPACE)
        _add(space, "range", f"'h{1 << bus.address_bits:x}")
        _add(space, "width", str(bus.data_bits))
    _add(root, "memoryMaps").append(map_)
    _add_model(_add(root, "model"), module, ports)
    sets = _add(root, "fileSets")
    for name, paths in files.items():
        one = _add(sets, "fileSet")
        _add(one, "name", name)
        for path in paths:
            _add_file(one, path)
    _add(root, "description", ABOUT)
    xml.register_namespace("ipxact", NAMESPACE)
    xml.register_namespace("xsi", XSI)
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, "unicode") + "\n"


def _memory_map(config: Config, address_bits: int, bus: Bus | None) -> xml.Element:
    """The map of the registers: a block for each core, of all addresses that it answers."""
    exporter = IPXACTExporter()
    exporter.skip_not_present = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.xml"
        exporter.export(compiled(config, bus=bus), str(path))
        (found,) = xml.parse(path).getroot().iter(_tag("memoryMap"))
    for element in found.iter():
        element.text = " ".join((element.text or "").split()) or None
    found[0].text = MAP
    (block,) = found.findall(_tag("addressBlock"))
    found.remove(block)
    cores = bus.cores if bus else 1
    for core in range(cores):
        one = deepcopy(block)
        one[0].text = f"core{core}" if cores > 1 else one[0].text
        base, size = core << CORE_ADDRESS_BITS, 1 << min(address_bits, CORE_ADDRESS_BITS)
        for tag, value in (("baseAddress", base), ("range", size)):
            (element,) = one.findall(_tag(tag))
            element.text = f"'h{value:x}"
        found.append(one)
    return found


def _add_interfaces(parent: xml.Element, ports: Ports) -> None:
    found = interfaces(ports)
    for one in found:
        made = _interface(parent, one.name, one.kind, {**one.ports, "ACLK": CLOCK})
        role = _add(made, "master" if one.manager else "slave")
        if one.kind == FULL:
            _add(role, "addressSpaceRef", addressSpaceRef=SPACE)
        elif one.kind == LITE:
            _add(role, "memoryMapRef", memoryMapRef=MAP)
    clock = _interface(parent, CLOCK, CLOCK, {"CLK": CLOCK})
    _add(clock, "slave")
    joined = ":".join(one.name for one in found)
    _parameters(clock, {"ASSOCIATED_BUSIF": joined, "ASSOCIATED_RESET": RESET})
    reset = _interface(parent, RESET, RESET, {"RST": RESET})
    _add(reset, "slave")
    _parameters(reset, {"POLARITY": "ACTIVE_HIGH"})
    interrupt = _interface(parent, INTERRUPT, INTERRUPT, {"INTERRUPT": INTERRUPT})
    _add(interrupt, "master")
    _parameters(interrupt, {"SENSITIVITY": "LEVEL_HIGH"})


def _interface(parent: xml.Element, name: str, kind: str, ports: Mapping[str, str]) -> xml.Element:
    made = _add(parent, "busInterface")
    _add(made, "name", name)
    keys = ("vendor", "library", "name", "version")
    names = dict(zip(keys, _TYPES[kind]))
    xml.SubElement(made, _tag("busType"), names)
    abstraction = _add(_add(made, "abstractionTypes"), "abstractionType")
    rtl = names | {"name": f"{names['name']}_rtl"}
    xml.SubElement(abstraction, _tag("abstractionRef"), rtl)
    maps = _add(abstraction, "portMaps")
    for logical, physical in ports.items():
        joined = _add(maps, "portMap")
        _add(_add(joined, "logicalPort"), "name", logical)
        _add(_add(joined, "physicalPort"), "name", physical)
    return made


def _parameters(interface: xml.Element, values: Mapping[str, str]) -> None:
    """Strings, which stand as literals of SystemVerilog."""
    parent = _add(interface, "parameters")
    for name, value in values.items():
        one = _add(parent, "parameter", parameterId=name, type="string")
        _add(one, "name", name)
        _add(one, "value", f'"{value}"')


def _add_model(parent: xml.Element, module: str, ports: Ports) -> None:
    view = _add(_add(parent, "views"), "view")
    _add(view, "name", "rtl")
    _add(view, "componentInstantiationRef", "verilog")
    made = _add(_add(parent, "instantiations"), "componentInstantiation")
    _add(made, "name", "verilog")
    _add(made, "language", "verilog")
    _add(made, "moduleName", module)
    _add(_add(made, "fileSetRef"), "localName", "rtl")
    listed = _add(parent, "ports")
    for name, facts in ports.items():
        port = _add(listed, "port")
        _add(port, "name", name)
        wire = _add(port, "wire")
        _add(wire, "direction", "in" if facts["direction"] == "input" else "out")
        if facts["width"] > 1:
            vector = _add(_add(wire, "vectors"), "vector")
            _add(vector, "left", str(facts["width"] - 1))
            _add(vector, "right", "0")


def _add_file(parent: xml.Element, path: str) -> None:
    kind, user, included = _FILES[Path(path).suffix]
    one = _add(parent, "file")
    _add(one, "name", path)
    made = _add(one, "fileType", kind)
    if user is not None:
        made.set("user", user)
    if included:
        _add(one, "isIncludeFile", "true")
