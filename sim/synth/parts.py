"""Which part of a unit each cell of its flat netlist came from."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from rtl.generate.verilog import by_module, instances

#: What does not lie in a part, but in the unit itself.
ITSELF = "(itself)"

_STEM = re.compile(r"_(TRELLIS_FF|LUT4|CCU2C|PFUMX|L6MUX21|MULT18X18D|DP16KD)_.*$")
_DEPTH = 2  # parts of parts are told apart, what lies deeper counts with them


def parts_by_line(verilog: str) -> list[str]:
    """For each line of the text, the part of the top module it lies in: `part` or `part.part`.

    The top module is the first one. Lines of a module that several parts have say nothing: "".
    """
    modules = by_module(verilog)
    part_of: dict[str, str] = {}
    for path, module in instances(verilog, next(iter(modules))).items():
        part = ".".join(path[:_DEPTH]) or ITSELF
        part_of[module] = part if part_of.get(module, part) == part else ""
    return [part_of.get(name, ITSELF) for name, text in modules.items() for _ in text.splitlines()]


def cells_by_part(verilog: str, file: str, cells: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Cell types of a flat netlist, counted for each part of the unit.

    Registers, carry chains, multipliers and memories keep the line of the Verilog they came from.
    A LUT does not: it counts where the register or carry chain of the same name lies, else where
    its own name says. `file` is the name under which Yosys read the text, `cells` are the "cells"
    of its JSON.
    """
    by_line = parts_by_line(verilog)
    parts = {
        ".".join(path[:depth])
        for path in instances(verilog, next(iter(by_module(verilog))))
        for depth in range(1, min(_DEPTH, len(path)) + 1)
    }
    # "matmul.v:120.3-121.20", joined by "|" with others where cells were merged or mapped.
    line_of = re.compile(rf"(?:^|\|){re.escape(file)}:(\d+)\.")
    part_of_stem: dict[str, str] = {}
    unknown: list[tuple[str, str]] = []
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, cell in cells.items():
        source = line_of.search(cell["attributes"].get("src", ""))
        part = by_line[int(source[1]) - 1] if source else ""
        if not part:
            unknown.append((name, cell["type"]))
            continue
        part_of_stem.setdefault(_STEM.sub("", name), part)
        counts[part][cell["type"]] += 1
    for name, kind in unknown:
        stem = _STEM.sub("", name)
        *path, _ = stem.split(".") if "$" not in stem else [""]
        prefixes = (".".join(path[:depth]) for depth in range(_DEPTH, 0, -1))
        own = next((prefix for prefix in prefixes if prefix in parts), ITSELF)
        counts[part_of_stem.get(stem, own)][kind] += 1
    return counts
