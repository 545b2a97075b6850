"""`python -m sim.power`: watts of the accelerator on a board, estimated from what toggles."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json, add_lanes, add_tokens

from golden.model import Model
from quant.foreign.tokenizer import Tokens
from rtl.compile.fit import fitting_model
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.config import LANES, Config
from sim.design import generated
from sim.estimate.area import estimate
from sim.harness import fast
from sim.options import add_model_options, clock, model_of
from sim.report import table
from sim.run import TOKENS, default_review
from verify.coverage.code import Point, read

DESCRIPTION = """\
Watts of the accelerator on an ECP5-85F, estimated.

A text runs through the simulated Verilog, which counts how often each bit of its registers changes.
What a change takes was measured by others on the same part (LFE5U-85F-6) and board (ULX3S): a chain
of 83,640 flip-flops that all change in each cycle takes 2.10 W at 100 MHz beyond the 0.20 W of the
board in reset, at its USB plug: 0.251 pJ a change, with the way to the next flip-flop.

The low estimate counts the registers' changes alone. The high one lets every LUT and flip-flop of
the netlist (by sim.estimate) change in each cycle. What is inside of multipliers and block RAMs,
and other chips, are in neither.
"""
EXAMPLES = """\
examples:
  python -m sim.power
  python -m sim.power --lanes 4 --clock 100 --review "That movie was terrible!"
  python -m sim.power --json build/power.json
"""

#: github.com/targeted/fpga-reg-power, docs/power_data.ods, the row of the ULX3S.
IDLE_WATTS = 0.202
JOULES_A_CHANGE = 25.1e-6 / 100e6

FLAGS = ("--coverage-toggle", "--coverage-underscore", "--coverage-max-width", "4096")
_MODULE = re.compile(r"^module (\S+?) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(r"^  reg (?:signed )?(?:\[\d+:0\] )?\\?(\S+?) ?(?: = \S+)?;$", re.MULTILINE)
_BIT = re.compile(r"(.+?)(?:\[\d+\])?:(?:0->1|1->0)")


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Attributes

    cycles
        Of the inference.
    simulated
        Cycles in which changes were counted: of the inference, and of the reset before it.
    changes
        Of the bits of each register, by its module and name.
    """

    cycles: int
    simulated: int
    changes: Counter[tuple[str, str]]

    @property
    def a_cycle(self) -> float:
        """Changes a cycle."""
        return self.changes.total() / self.simulated


@dataclass(frozen=True, kw_only=True)
class Watts:
    """Of the board without the accelerator's work, and with it, from `low` to `high`."""

    idle: float
    low: float
    high: float


def registers(verilog: str) -> set[tuple[str, str]]:
    """Modules and names of the registers of a text of Verilog, memories left out."""
    return {
        (module[1], register[1])
        for module in _MODULE.finditer(verilog)
        for register in _REGISTER.finditer(module[0])
    }


def plain(name: str) -> str:
    """A name as in the Verilog; Verilator writes `$` and the second of two `_` by their codes."""
    return re.sub("__0([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), name)


def changes(points: Counter[Point], verilog: str) -> Counter[tuple[str, str]]:
    """How often the bits of each register have changed, summed over instances; by its module."""
    known = registers(verilog)
    found: Counter[tuple[str, str]] = Counter()
    for point, count in points.items():
        bit = _BIT.fullmatch(point.what) if point.kind == "toggle" else None
        register = bit and (point.module, plain(bit[1]))
        if register in known:
            found[register] += count
    return found


def activity(model: Model, config: Config, tokens: Tokens) -> Activity:
    """What changes while a text runs.

    Raises
    ------
    HarnessError, SimulatorError
        The inference failed, or the simulator refuses the design.
    """
    design = generated("accelerator", config)
    program = compile_model(model, config)
    job = fast.Job(program, embedding_table(model, config.lanes), tokens.ids, tokens.types)
    with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
        data = Path(folder) / "coverage.dat"
        (result,) = fast.simulate(
            config, [job], design=design, variant="toggles", flags=FLAGS, coverage=data
        )
        found = changes(read(data.read_text(), "what the simulation wrote"), design.verilog)
    return Activity(
        cycles=result.cycles,
        simulated=result.simulated,
        changes=found,
    )


def watts(found: Activity, config: Config, mhz: float) -> Watts:
    """Of the board at a clock."""
    joules_a_second = JOULES_A_CHANGE * mhz * 1e6
    resources = estimate(config)
    return Watts(
        idle=IDLE_WATTS,
        low=IDLE_WATTS + found.a_cycle * joules_a_second,
        high=IDLE_WATTS + (resources["LUT4"] + resources["FF"]) * joules_a_second,
    )


def _parser() -> Parser:
    result = Parser("sim.power", DESCRIPTION, EXAMPLES)
    result.add_argument("--review", metavar="TEXT", help="default: a review of the test split")
    add_model_options(result)
    add_lanes(result, LANES)
    add_tokens(result, TOKENS)
    result.add_argument(
        "--clock", type=clock, default=62.5, metavar="MHZ", help="default: 62.5, the board's"
    )
    add_json(result)
    return result


def _run(options: argparse.Namespace) -> None:
    _, quantized = model_of(options)
    review = options.review if options.review is not None else default_review()
    tokens = quantized.tokens(review, max_tokens=options.tokens)
    config = fitting_model(quantized.model, options.lanes, len(tokens.ids))
    found = activity(quantized.model, config, tokens)
    told = watts(found, config, options.clock)
    seconds = found.cycles / options.clock / 1e6
    print(
        f"{config.lanes} lanes, {len(tokens.ids)} tokens, {found.cycles:,} cycles at "
        f"{options.clock:g} MHz: {1e3 * seconds:.2f} ms\n"
        f"{found.a_cycle:,.0f} bits of registers change in a cycle, on average, of about "
        f"{estimate(config)['FF']:,}\n"
    )
    names = {"idle": "in reset", "low": "low estimate", "high": "high estimate"}
    rows = [
        [names[name], f"{value:.2f}", "" if name == "idle" else f"{1e3 * value * seconds:.2f}"]
        for name, value in asdict(told).items()
    ]
    print(table(["ULX3S, without its SDRAM", "W", "mJ a text"], rows))
    if options.json:
        facts = {
            "lanes": config.lanes,
            "tokens": len(tokens.ids),
            "cycles": found.cycles,
            "clock_mhz": options.clock,
            "milliseconds": 1e3 * seconds,
            "changes_a_cycle": found.a_cycle,
            "watts": asdict(told),
        }
        write_json(options.json, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
