"""The passes over a netlist of Yosys before it is counted, simulated or placed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sim.synth import carry, fold, netlist
from sim.synth.fold import Folded

#: What decides what comes out, for keys of files that are kept.
SOURCES = (Path(__file__), *(Path(str(module.__file__)) for module in (carry, fold, netlist)))


def improve(module: dict[str, Any]) -> tuple[int, Folded]:
    """Both passes over a flat module, a value of "modules" in Yosys' JSON, in place.

    How many LUTs carry chains have taken in, and what block RAMs and multipliers have.
    """
    return carry.absorb(module), fold.fold(module)


def improve_file(path: Path, top: str, *, placed: bool) -> None:
    """Both passes over the module `top` of a JSON file that Yosys wrote, in place.

    With `placed` it is for nextpnr, and carries that nothing reads lose their nets.
    """
    design = json.loads(path.read_text())
    module = design["modules"][top]
    improve(module)
    if placed:
        carry.open_ends(module)
    path.write_text(json.dumps(design))
