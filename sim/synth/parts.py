"""Which part of a unit each cell of its flat netlist came from."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

#: What does not lie in a part, but in the unit itself.
ITSELF = "(itself)"

_MODULE = re.compile(r"^module (\w+)\(", re.MULTILINE)
_INSTANCE = re.compile(r"^  (\w+) (\w+) \($")
_STEM = re.compile(r"_(TRELLIS_FF|LUT4|CCU2C|PFUMX|L6MUX21|MULT18X18D|DP16KD)_.*$")
_DEPTH = 2  # parts of parts are told apart, what lies deeper counts with them


def parts_by_line(verilog: str) -> list[str]:
    """For each line of the text, the part of the top module it lies in: `part` or `part.part`.

    The top module is the first one. Every module of generated Verilog has one instance.
    """
    module_of_line, name = [], ""
    for line in verilog.splitlines():
        if line.startswith("module "):
            name = line.split()[1].partition("(")[0]
        module_of_line.append(name)
    part_of = {
        module: ".".join(path[:_DEPTH]) or ITSELF for module, path in modules(verilog).items()
    }
    return [part_of.get(module, ITSELF) for module in module_of_line]


def modules(verilog: str) -> dict[str, tuple[str, ...]]:
    """For each module the instances that lead to it from the top, which is the first module.

    Every module of generated Verilog has one instance.
    """
    instances, name, names = defaultdict(list), "", re.findall(_MODULE, verilog)
    known = set(names)
    for line in verilog.splitlines():
        if line.startswith("module "):
            name = line.split()[1].partition("(")[0]
        match = _INSTANCE.match(line)
        if match and match[1] in known:
            instances[name].append((match[1], match[2]))
    found: dict[str, tuple[str, ...]] = {names[0]: ()}

    def visit(module: str) -> None:
        for child, instance in instances[module]:
            found[child] = (*found[module], instance)
            visit(child)

    visit(names[0])
    return found


def kept(verilog: str) -> dict[str, str]:
    """The part that each module down to that depth is; what lies deeper belongs to one of them."""
    paths = modules(verilog).items()
    return {module: ".".join(path) or ITSELF for module, path in paths if len(path) <= _DEPTH}


def cells_by_part(verilog: str, file: str, cells: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Cell types of a flat netlist, counted for each part of the unit.

    Registers, carry chains, multipliers and memories keep the line of the Verilog they came from.
    A LUT does not: it counts where the register or carry chain of the same name lies, else where
    its own name says. `file` is the name under which Yosys read the text, `cells` are the "cells"
    of its JSON.
    """
    by_line = parts_by_line(verilog)
    parts = set(by_line)
    # "matmul.v:120.3-121.20", joined by "|" with others where cells were merged or mapped.
    line_of = re.compile(rf"(?:^|\|){re.escape(file)}:(\d+)\.")
    part_of_stem: dict[str, str] = {}
    unknown: list[tuple[str, str]] = []
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, cell in cells.items():
        source = line_of.search(cell["attributes"].get("src", ""))
        if source is None:
            unknown.append((name, cell["type"]))
            continue
        part = by_line[int(source[1]) - 1]
        part_of_stem.setdefault(_STEM.sub("", name), part)
        counts[part][cell["type"]] += 1
    for name, kind in unknown:
        stem = _STEM.sub("", name)
        *path, _ = stem.split(".") if "$" not in stem else [""]
        prefixes = (".".join(path[:depth]) for depth in range(_DEPTH, 0, -1))
        own = next((prefix for prefix in prefixes if prefix in parts), ITSELF)
        counts[part_of_stem.get(stem, own)][kind] += 1
    return counts
