"""The netlist of a unit, its mutants, and Verilog in which an input chooses one of them."""

from __future__ import annotations

import fnmatch
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rtl.generate.hierarchy import VerilogError
from rtl.generate.units import unit
from rtl.generate.verilog import netlist
from rtl.interface.config import Config
from sim.synth.tools import run_tool

ROOT = Path(__file__).resolve().parents[2]
SELECTOR, SELECTOR_BITS = "mutant", 16
MOST = (1 << SELECTOR_BITS) - 1

#: Yosys writes operands of unequal widths.
FLAGS, VARIANT = ("-Wno-lint", "-Wno-fatal"), "-mutants"
SURVIVED, SILENT = "survived", "silent"
"""Outcomes of a mutant that nothing kills: it changes an output, or none."""
#: What Verilator says of Yosys' style, whatever the design.
OF_YOSYS = "".join(
    f"/* verilator lint_off {rule} */\n"
    for rule in ("PROCASSINIT", "CASEOVERLAP", "UNOPTFLAT", "SYMRSVDWORD")
)

#: Ports of cells that have no other value: clocks, and resets that a memory's ports do not use.
LEFT_OUT = re.compile(r"(CLK|clk|RD_CLK|WR_CLK|RD_[AS]RST)")

_MODULE = re.compile(r"^module (?:\\(\S+) |(\w+))\(", re.MULTILINE)

#: Parts that are units with benches of their own.
PARTS = {"matmul", "requantize", "reciprocal", "rsqrt", "softmax", "position_bias", "layernorm"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One bit of one port of a cell that is inverted, constant or mixed with its neighbour.

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

    def path(self, top: str) -> set[str]:
        """Names of the parts that it lies in; those of a flat netlist are in its cells' names."""
        flat = self.cell.rpartition(".")[0]
        return set(re.split(r"[.\\]+", f"{self.module.removeprefix(top)}.{flat}"))

    @property
    def command(self) -> str:
        """The options that make it in Yosys, the selector aside."""
        other = f" -ctrlbit {self.other}" if self.other >= 0 else ""
        where = f"-module {self.module} -cell {self.cell} -port {self.port} -portbit {self.bit}"
        return f"-mode {self.mode} {where}{other}"

    def __str__(self) -> str:
        named = f" ({self.wire})" if self.wire else ""
        return f"{self.command}{named}  {', '.join(self.sources)}"


def yosys(commands: str, text: str, *wanted: str) -> list[str]:
    """Run commands on the RTLIL `unit.il`; the texts of the files that they wrote.

    Raises SynthesisError: Yosys is not installed, or refused something.
    """
    with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
        here = Path(folder)
        (here / "unit.il").write_text(text)
        (here / "script.ys").write_text(f"read_rtlil unit.il\n{commands}")
        run_tool("yosys", "-q", "-s", "script.ys", folder=here)
        return [(here / name).read_text() for name in wanted]


def sourced(name: str, config: Config) -> str:
    """RTLIL of a unit whose cells name their source lines; enables and resets are multiplexers.

    So a fault in an enable or a reset is one of a multiplexer, as every other is.
    """
    text = netlist(unit(name).build(config), name, sources=True)
    text = re.sub(r'(?<=["|])/[^"|]*/site-packages/', "", text)  # may lie in the checkout
    return text.replace(f"{ROOT}/", "")


def _parsed(line: str) -> Mutant:
    options: dict[str, list[str]] = {}
    for key, value in pairwise(line.split()):
        if key.startswith("-") and not key[1:].isdigit():
            options.setdefault(key[1:], []).append(value)
    first = {key: values[0] for key, values in options.items()}
    return Mutant(
        **{key: first[key] for key in ("mode", "module", "cell", "port")},
        bit=int(first["portbit"]),
        other=int(first.get("ctrlbit", "-1")),
        wire=f"{first['wire']}[{first['wirebit']}]" if "wire" in first else "",
        sources=tuple(options.get("src", ())),
    )


def _bits(text: str, within: str) -> int:
    """Bits of the ports of all cells that are not constant, in modules of such names."""
    modules = json.loads(text)["modules"]
    return sum(
        isinstance(bit, int)
        for name in fnmatch.filter(modules, within)
        for cell in modules[name]["cells"].values()
        for port in cell["connections"].values()
        for bit in port
    )


def drawn(
    text: str, top: str, count: int, seed: int, within: str = "*"
) -> tuple[str, list[Mutant]]:
    """The prepared netlist, and that many of its mutants, spread by Yosys over the modules of names
    as `within`.

    Parts that are units of their own are left out: their own benches answer for them.
    """
    prepare = "dffunmap\nopt_clean\nwrite_rtlil whole.il\nwrite_json whole.json\n"
    whole, facts = yosys(prepare, text, "whole.il", "whole.json")
    # Asked for more than there are, Yosys does not end; a bit has three mutants or more.
    asked = min(3 * count + 100, _bits(facts, within))
    (listed,) = yosys(f"mutate -list {asked} -seed {seed} -o list {within}\n", whole, "list")
    mutants = map(_parsed, listed.splitlines())
    kept = [m for m in mutants if not LEFT_OUT.fullmatch(m.port) and not PARTS & m.path(top)]
    return whole, kept[:count]


def with_selector(text: str, mutants: Sequence[Mutant]) -> str:
    """Verilog with an input `mutant`: 0 for the sound unit, k for mutant k - 1."""
    lines = "".join(
        f"mutate -ctrl {SELECTOR} {SELECTOR_BITS} {number} {mutant.command}\n"
        for number, mutant in enumerate(mutants, 1)
    )
    (written,) = yosys(f"{lines}opt_clean\nwrite_verilog -noattr unit.v\n", text, "unit.v")
    return OF_YOSYS + plain_module_names(written)


def plain_module_names(text: str) -> str:
    """Write modules as unit_part instead of the escaped \\unit.part, which few tools show well."""
    names = [escaped or plain for escaped, plain in _MODULE.findall(text)]
    plain_names = [re.sub(r"\W", "_", name) for name in names]
    if len(set(plain_names)) != len(names):
        twice = sorted({name for name in plain_names if plain_names.count(name) > 1})
        raise VerilogError(f"two modules would both be called {', '.join(twice)}: rename a part")
    unnamed = [name for name in names if "U$" in name]
    if unnamed:
        raise VerilogError(
            f"a part has no name: {unnamed[0]}. Use `m.submodules.name = part`, so that Verilog "
            "names stay the same when another part is added."
        )
    for name, plain in zip(names, plain_names, strict=True):
        text = text.replace(f"module \\{name} (", f"module {plain}(")
        text = text.replace(f"\\{name}  ", f"{plain} ")
    return text
