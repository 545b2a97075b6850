"""The register map for those who program it: C header, HTML pages, a table in Markdown."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from peakrdl_cheader.c_standards import CStandard
from peakrdl_cheader.design_scanner import DesignScanner
from peakrdl_cheader.design_state import DesignState
from peakrdl_cheader.header_generator import HeaderGenerator
from peakrdl_html import HTMLExporter
from systemrdl.node import RegNode

from rtl.dma.bus import Bus
from rtl.interface.config import Config
from rtl.registers.map import Register, compiled, registers

HEADER = "bert2rtl_registers.h"
PAGES = "bert2rtl_registers"


class _Header(HeaderGenerator):
    """PeakRDL's header, with the offset of each register and the named values of each field."""

    def exit_Reg(self, node: RegNode) -> None:
        prefix = self.get_node_prefix(node).upper()
        self.write(f"#define {prefix}_offset {node.absolute_address:#x}\n")
        for field in node.fields():
            for value in field.get_property("encode") or ():
                name = f"{prefix}__{field.inst_name.upper()}__{value.name}"
                self.write(f"#define {name} {value.value:#x}\n")
        super().exit_Reg(node)


def c_header(config: Config, bus: Bus | None = None) -> str:
    """The map as C99, names as PeakRDL gives them.

    For each field BERT2RTL__REGISTER__FIELD_bm (mask), _bp (lowest bit), _bw (width) and _reset;
    for each register BERT2RTL__REGISTER_offset, a byte address; for each named value
    BERT2RTL__REGISTER__FIELD__VALUE; and the struct `bert2rtl_t`. Only the resets of the limits
    depend on `config`. With `bus` it is the map of the accelerator with DMA.
    """
    top = compiled(config, bus=bus)
    state = DesignState(top, {"std": CStandard.gnu99, "reuse_typedefs": False})
    DesignScanner(state).run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / HEADER
        _Header(state).run(str(path), [top])
        return path.read_text()


def write_html(config: Config, folder: Path, bus: Bus | None = None) -> None:
    """The map as pages that link to each other; they begin with index.html."""
    exporter = HTMLExporter(generate_source_links=False)
    exporter.export(compiled(config, bus=bus), str(folder), title="bert2rtl: registers")


def markdown(config: Config, bus: Bus | None = None) -> str:
    """The map as a table, a line a field; resets beyond 16 bits in hexadecimal."""
    rows = ["| address | register | bits | field | access | reset | |", "|" + " --- |" * 7]
    for register in registers(config, bus=bus):
        rows += _rows(register)
    return "\n".join(rows) + "\n"


def errors(config: Config) -> str:
    """The named values of all fields as rows of a table: value, name, meaning."""
    values = [field.values for register in registers(config) for field in register.fields]
    return "".join(
        f"| {value} | {name} | {text} |\n"
        for named in values
        for value, (name, text) in named.items()
    )


def _rows(register: Register) -> Iterator[str]:
    place = [f"0x{register.address:02X}", register.name]
    for field in register.fields:
        reset = f"{field.reset:#x}" if field.reset > 0xFFFF else str(field.reset)
        name = field.name if len(register.fields) > 1 or field.name != register.name else ""
        cells = [*place, field.bits, name, field.access, reset, field.text]
        yield f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"
        place = ["", ""]
