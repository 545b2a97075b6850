"""`python -m sim.gates`: the netlist after synthesis against the bench of its unit."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json
from cli.progress import stage
from cli.words import counted

from rtl.generate.units import UNITS
from rtl.interface.config import Config
from rtl.interface.options import add_config_options, config_of, mechanisms_of
from sim.bench import run_bench
from sim.design import generated
from sim.gates.netlist import netlist
from sim.report import table
from sim.simulators import SIMULATORS
from tb.scenarios import SMALL_LIMITS

DESCRIPTION = """\
Synthesise units for the ECP5 and play their benches on the netlist, bit for bit.

The netlist is what sim.synth counts: LUTs, carry chains, flip-flops, multipliers and block RAMs,
with Yosys' models of the cells and ours (sim/gates/cells.v) of multiplier and block RAM.
The accelerator is small by default (24 tokens, hidden 32).
"""
EXAMPLES = """\
examples:
  python -m sim.gates softmax
  python -m sim.gates requantize activation reciprocal rsqrt --simulator icarus
  python -m sim.gates accelerator --lanes 4
"""
#: Its bench plays whole inferences, so that a large configuration would take long.
WHOLE = "accelerator"


def _parser() -> Parser:
    result = Parser("sim.gates", DESCRIPTION, EXAMPLES)
    what = "which ones (default: all)"
    result.add_argument("units", nargs="*", metavar="UNIT", default=list(UNITS), help=what)
    result.add_argument("--simulator", choices=SIMULATORS, default="verilator", help="verilator")
    add_json(result)
    add_config_options(result)
    return result


def config_for(unit: str, options: argparse.Namespace) -> Config:
    """The configuration of the options; where they name no limit, `WHOLE` is small."""
    config = config_of(options)
    plain = Config(lanes=config.lanes, columns=config.columns, **mechanisms_of(config))
    return replace(config, **SMALL_LIMITS) if unit == WHOLE and config == plain else config


def _run(options: argparse.Namespace) -> None:
    designs = [generated(unit, config_for(unit, options)) for unit in options.units]
    rows: list[list[object]] = []
    for design in designs:
        start = time.monotonic()
        tests = run_bench(netlist(design), options.simulator, variant="gates")
        cycles = sum(round(test.simulated_ns / 10) for test in tests)
        seconds = round(time.monotonic() - start, 1)
        rows.append([design.name, design.configuration, len(tests), cycles, seconds])
        stage(f"{design.name}: every bit equal in {counted(len(tests), 'tests')}")
    head = ["unit", "configuration", "tests", "cycles", "seconds"]
    if options.json is not None:
        write_json(options.json, [dict(zip(head, row, strict=True)) for row in rows])
    print(table(head, rows))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
