"""Every command of the project in the order of a journey, from a checkpoint to a board.

`bert2rtl calibrate` and `python -m quant.calibrate` are one command. Standard library only, since
the front door says what there is before anything is installed.
"""

from __future__ import annotations

import re
import shlex
import sys

from cli.machine import ROOT

_MODULES = """
quant.inspect quant.calibrate quant.classify quant.embed quant.evaluate
quant.report simulate=sim.run sim.regress rtl.generate bench=tb.generate sim.vectors
rtl.compile rtl.registers sim.cycles sim.estimate sim.synth
compare=train.bench quant.export boards boards.host board-sim=boards.simulation verify.fuzz
verify.mutate sim.gates train.pretrain train.finetune
"""
COMMANDS = {word.split("=")[0].rpartition(".")[2]: word.split("=")[-1] for word in _MODULES.split()}
"""The module of every command by its name at the front door."""

entered = False  # whether commands are called as at the front door, `bert2rtl calibrate`


def spoken(text: str) -> str:
    """A text with commands called as the user called this one."""
    for name, module in COMMANDS.items() if entered else ():
        text = re.sub(rf"(\.venv/bin/)?python3? -m {module}(?!\.?\w)", f"bert2rtl {name}", text)
    return text


def then(module: str, *words: object) -> None:
    """Say on stderr which command comes next, with the folders that this one has used."""
    line = shlex.join(["python", "-m", module, *map(str, words)])
    print(spoken(f"next: {line}"), file=sys.stderr)


def overview() -> str:
    """The commands, each with the first line of its module."""
    lines = []
    for name, module in COMMANDS.items():
        path = ROOT.joinpath(*module.split("."))
        path = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        first = path.read_text(encoding="utf-8").splitlines()[0].strip('"')
        lines.append(f"  {name:12}  {re.sub('^`.*?`: ', '', first)}")
    return "\n".join(lines)
