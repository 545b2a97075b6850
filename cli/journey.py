"""Every command of the project in the order of a journey, from a checkpoint to a board.

`bert2rtl calibrate` and `python -m quant.calibrate` are one command. Standard library only, since
the front door says what there is before anything is installed.
"""

from __future__ import annotations

import difflib
import re
import shlex
import sys
from typing import NamedTuple

REFUSED = 2  # cli.command.Exit, which a front door may not import before its command does


class Command(NamedTuple):
    """A command by its name at the front door, the module that it is, and what it gives."""

    name: str
    module: str
    gives: str


JOURNEY: dict[str, tuple[Command, ...]] = {
    "The model in integers": (
        Command("inspect", "quant.inspect", "what a checkpoint is, whether it maps, what it costs"),
        Command("calibrate", "quant.calibrate", "the INT8 model of a checkpoint"),
        Command("classify", "quant.classify", "a text by golden and float model, side by side"),
        Command("embed", "quant.embed", "texts as vectors of a sentence encoder"),
        Command("similarity", "quant.similarity", "the cosine of two texts"),
        Command("evaluate", "quant.evaluate", "accuracy, agreement with the float model, SQNR"),
        Command("report", "quant.report", "one HTML page of a calibration"),
        Command("ablation", "quant.ablation", "the worth of each choice of the numerics"),
    ),
    "The accelerator": (
        Command("simulate", "sim.run", "a text through golden and simulated Verilog, every bit"),
        Command("regress", "sim.regress", "many texts through the simulated Verilog"),
        Command("generate", "rtl.generate", "Verilog, constraints, FuseSoC core, data sheet"),
        Command("bench", "tb.generate", "a SystemVerilog bench for any simulator, no Python"),
        Command("vectors", "sim.vectors", "test vectors of a unit"),
        Command("compile", "rtl.compile", "the command stream of a model, or its memory image"),
        Command("registers", "rtl.registers", "the register map as C header and HTML"),
        Command("diagram", "rtl.generate.diagram", "the block diagram as SVG"),
    ),
    "Speed and size": (
        Command("cycles", "sim.cycles", "cycles predicted, exactly, over lanes and lengths"),
        Command("estimate", "sim.estimate", "cost, speed and which parts, without synthesis"),
        Command("synth", "sim.synth", "resources and clock of FPGAs; area and power of silicon"),
        Command("compare", "train.bench", "accuracy and speed beside float and other INT8"),
    ),
    "Elsewhere": (Command("export", "quant.export", "the integer model as C99"),),
    "A board": (
        Command("boards", "boards", "the accelerator in the SoC of any board of LiteX's"),
        Command("host", "boards.host", "texts on the board"),
        Command("board-sim", "boards.simulation", "a review on the SoC in LiteX's simulation"),
    ),
    "Trust": (
        Command("fuzz", "verify.fuzz", "malformed streams and odd clients, against golden"),
        Command("mutate", "verify.mutate", "whether a bench sees any bit that changes"),
        Command("coverage", "verify.coverage", "what fuzzing has reached of the Verilog"),
        Command("gates", "sim.gates", "the netlist after synthesis against its bench"),
    ),
    "Training": (
        Command("pretrain", "train.pretrain", "a checkpoint from scratch, by masked words"),
        Command("finetune", "train.finetune", "classes, labels, numbers or words of your texts"),
    ),
}
COMMANDS = {command.name: command for part in JOURNEY.values() for command in part}
_NAMES = {command.module: command.name for command in COMMANDS.values()}
_MODULE = re.compile(r"(?:\.venv/bin/)?python3? -m ([\w.]*\w)")

_entered = False


def enter() -> None:
    """From here on commands are called as at the front door, `bert2rtl calibrate`."""
    global _entered
    _entered = True


def spoken(text: str) -> str:
    """A text with commands called as the user called this one."""
    if not _entered:
        return text

    def name(match: re.Match[str]) -> str:
        return f"bert2rtl {_NAMES[match[1]]}" if match[1] in _NAMES else match[0]

    return _MODULE.sub(name, text)


def then(module: str, *words: object) -> None:
    """Say on stderr which command comes next, with the folders that this one has used."""
    line = shlex.join(["python", "-m", module, *map(str, words)])
    print(spoken(f"next: {line}"), file=sys.stderr)


def overview() -> str:
    """What `bert2rtl --help` shows."""
    width = max(map(len, COMMANDS))
    parts = [
        "usage: bert2rtl COMMAND [OPTION ...]\n\n"
        "From a fine-tuned BERT checkpoint to verified Verilog. `bert2rtl COMMAND --help` shows\n"
        "the options of a command with examples, `bert2rtl --version` the version."
    ]
    for title, commands in JOURNEY.items():
        lines = [f"  {one.name:{width}}  {one.gives}" for one in commands]
        parts.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(parts)


def unknown(name: str) -> str:
    """One line for a command that there is not."""
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"error: no command is called {name!r}: {hint}bert2rtl --help shows them all"


def no_command(package: str) -> int:
    """What `python -m package` says where a package has commands and is none."""
    inside = [module for module in _NAMES if module.startswith(f"{package}.")]
    there = ", ".join(f"python -m {module}" for module in inside)
    said = f"its commands are {there}" if there else "python -m bert2rtl --help shows the commands"
    print(f"error: {package} is a package, not a command: {said}", file=sys.stderr)
    return REFUSED
