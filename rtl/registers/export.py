"""The register map for those who program or verify it: C header, HTML, Markdown."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from peakrdl_cheader.c_standards import CStandard
from peakrdl_cheader.design_scanner import DesignScanner
from peakrdl_cheader.design_state import DesignState
from peakrdl_cheader.header_generator import HeaderGenerator
from systemrdl.node import RegNode

from rtl.dma.bus import Bus
from rtl.interface.config import Config
from rtl.registers.map import Field, Register, compiled, registers

HEADER = "bert2rtl_registers.h"
PAGE = "bert2rtl_registers.html"
_STYLE = """\
:root { color-scheme: light dark; font: 15px/1.5 sans-serif }
body { max-width: 60em; margin: 2em auto }
table { border-collapse: collapse; width: 100% } th { text-align: left }
th, td { border-bottom: 1px solid #8888; padding: 0.2em 0.8em 0.2em 0; vertical-align: top }"""


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
        text = path.read_text()
    # PeakRDL pads the struct up to registers that are not there.
    return re.sub(r"\n *uint8_t RESERVED_\w+\[\w+\];(?=\n\} \w+;)", "", text)


def html(config: Config, bus: Bus | None = None) -> str:
    """The map as one page that needs no other file, no script and no server."""
    map_ = registers(config, bus=bus)
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f"<title>bert2rtl: registers</title><style>\n{_STYLE}\n</style></head><body>",
        "<h1>Registers</h1><table><tr><th>address</th><th>register</th></tr>",
    ]
    for one in map_:
        link = f'<a href="#{one.name}">{one.name}</a>'
        parts.append(f"<tr><td>0x{one.address:02X}</td><td>{link}</td></tr>")
    parts.append("</table>")
    for one in map_:
        parts.append(f'<h2 id="{one.name}">0x{one.address:02X} {one.name}</h2>')
        parts.append(f"<p>{escape(one.text)}</p><table>")
        cells = ("bits", "field", "access", "reset", "")
        parts.append(f"<tr>{''.join(f'<th>{cell}</th>' for cell in cells)}</tr>")
        for field in one.fields:
            named = [f"{value} {name}: {text}" for value, (name, text) in field.values.items()]
            said = "<br>".join(escape(text) for text in (field.text, *named) if text)
            cells = (field.bits, field.name, field.access, _reset(field), said)
            parts.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        parts.append("</table>")
    return "\n".join([*parts, "</body></html>"]) + "\n"


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
        name = field.name if len(register.fields) > 1 or field.name != register.name else ""
        cells = [*place, field.bits, name, field.access, _reset(field), field.text]
        yield f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"
        place = ["", ""]


def _reset(field: Field) -> str:
    return f"{field.reset:#x}" if field.reset > 0xFFFF else str(field.reset)
