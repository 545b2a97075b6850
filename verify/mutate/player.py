"""The record of a unit's bench, then random inputs, played by Verilator on one mutant at a time."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from cli.errors import Different

from sim.builds import build_harness
from sim.design import Design
from sim.simulators import SimulatorError
from tb.generate.tops import part
from tb.record import layout
from verify.mutate.netlist import FLAGS, SELECTOR, SELECTOR_BITS, SILENT, SURVIVED

SOURCE = Path(__file__).with_name("player.sv")
RECORD = "record"
"""Outcome of a mutant that differs where the bench has read an output."""
CYCLES, STRETCH = 20_000, 100
"""Random inputs, and how many of them an input of one bit keeps its share of ones."""


@dataclass(frozen=True)
class Player:
    """A unit with its mutants as a program, and the lines that player.sv reads.

    recorded
        So many lines are the bench's; behind them all outputs are held to the sound unit's.
    """

    program: Path
    lines: str
    recorded: int

    def outcome(self, mutant: int) -> str:
        """RECORD, SURVIVED or SILENT."""
        cycle, _ = played(self.program, self.lines, mutant)
        return SILENT if cycle < 0 else RECORD if cycle < self.recorded else SURVIVED


def played(program: Path, lines: str, mutant: int, *words: str) -> tuple[int, list[int]]:
    """The cycle of the first difference, -1 without one, and the outputs that the player writes.

    A mutant whose logic does not settle differs in cycle 0.

    Raises SimulatorError: The player ends in any other way.
    """
    command = [str(program), f"+mutant={mutant}", *words]
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if mutant and "did not converge" in said:
        return 0, []
    end = re.search(r"^differs (-?\d+)$", said, re.MULTILINE)
    if done.returncode or not end:
        why = f"ended with {done.returncode}: {said.strip()[-1000:]}"
        raise SimulatorError(f"the player of mutant {mutant} {why}")
    shown = re.findall(r"^[0-9a-f]+$", done.stdout, re.MULTILINE)
    return int(end[1]), [int(word, 16) for word in shown]


def player(sound: Design, verilog: str, record: str) -> Player:
    """Of a unit, its Verilog with mutants, and what its bench has recorded (tb.record).

    Raises Different: Without a mutant it shows another word than the bench has read.
    """
    ports = json.loads(sound.sheet)["ports"]
    (inputs, given), (outputs, shown) = (_places(ports, names) for names in layout(ports))
    joined = {name: name for name in ("clk", SELECTOR)}
    for word, places in (("given", inputs), ("shown", outputs)):
        joined |= {x: f"{word}[{at}+:{ports[x]['width']}]" for x, at in places.items()}
    pins = f"input clk, input [{SELECTOR_BITS - 1}:0] {SELECTOR}, input [{given - 1}:0] given"
    unit = part(sound.name, "unit", {}, joined)
    verilog += f"module subject({pins}, output [{shown - 1}:0] shown);\n{unit}endmodule\n"
    name = f"{sound.name}-{sound.configuration}"
    design = Design(name="player", configuration=name, verilog=verilog, ports={}, sheet="")
    flags = (*FLAGS, "--main", "--timing", f"-GINPUTS={given}", f"-GOUTPUTS={shown}")
    program = build_harness(design, SOURCE, variant="mutants", flags=flags)

    masks = [((1 << ports[x]["width"]) - 1) << at for x, at in outputs.items()]
    lines = []
    for cycle in (int(line, 16) for line in record.split()):
        read, words = divmod(cycle, 1 << given + shown)
        compared = sum(mask for port, mask in enumerate(masks) if read >> port & 1)
        lines.append(compared << given + shown | words)
    noise = list(random_inputs([ports[name]["width"] for name in inputs]))
    differs, seen = played(program, _text([*lines, *noise]), 0, "+show")
    if differs >= 0:
        wrong = (seen[differs] ^ lines[differs] >> given) & lines[differs] >> given + shown
        port = next(name for name, mask in zip(outputs, masks) if wrong & mask)
        why = f"{port} is not as recorded in cycle {differs}"
        raise Different(f"the bench of {sound.name} fails without a mutant: {why}")
    every = ((1 << shown) - 1) << shown
    behind = [(every | word) << given | line for word, line in zip(seen[len(lines) :], noise)]
    return Player(program, _text([*lines, *behind]), len(lines))


def _places(ports: Mapping[str, Any], names: Iterable[str]) -> tuple[dict[str, int], int]:
    """Where each begins in a word of them all, and the bits of the word."""
    found, bits = dict[str, int](), 0
    for name in names:
        found[name] = bits
        bits += ports[name]["width"]
    return found, bits


def _text(lines: Iterable[int]) -> str:
    return "".join(f"{line:x}\n" for line in lines)


def random_inputs(widths: Sequence[int]) -> Iterator[int]:
    """Words for inputs of so many bits; the first is a reset, held for a cycle.

    One bit alone is mostly 0, mostly 1 or any, for STRETCH cycles each.
    """
    random, shares = Random(1), list[float]()
    yield 1  # what a register begins with may be lost in the netlist
    for cycle in range(CYCLES):
        if cycle % STRETCH == 0:
            shares = random.choices((0.05, 0.5, 0.95), k=len(widths))
        word, place = 0, widths[0]
        for width, share in zip(widths[1:], shares):
            value = random.getrandbits(width) if width > 1 else random.random() < share
            word |= value << place
            place += width
        yield word
