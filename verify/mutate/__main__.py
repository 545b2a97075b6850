"""`python -m verify.mutate`: how many small changes of a unit its bench sees."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.command import Exit, run_command
from cli.errors import UserError
from cli.files import write_json
from cli.options import Parser, add_columns, add_jobs, add_json, add_lanes, add_seed, whole
from cli.progress import progress, stage

from rtl.interface.config import LANES, Config, array
from rtl.interface.options import MECHANISMS, add_config_options, mechanisms_of
from verify.mutate.bench import (
    ACCELERATOR,
    ATTENTION,
    ENGINE,
    SILENT,
    SURVIVED,
    configuration,
    play,
    prepared,
)
from verify.mutate.netlist import MOST, drawn, sourced

DESCRIPTION = """\
Change one bit of a unit's netlist at a time, and play the unit's bench on each change.

A mutant that the bench fails on is killed. Of the others those that change no output on random
inputs, which the unit gets beside the sound one, are not counted; the rest survive and are printed.
The score is the killed of those that count. `attention` is the engine of the accelerator, whose
bench plays its mutants.
"""
EXAMPLES = """\
examples:
  python -m verify.mutate softmax
  python -m verify.mutate --count 100
  python -m verify.mutate layernorm --count 1000 --seed 7 --json build/mutate.json
  python -m verify.mutate accelerator --columns 16 --count 60
  python -m verify.mutate accelerator --gated --rotary-pairs 8
"""
UNITS = ("requantize", "activation", "reciprocal", "rsqrt",
         "softmax", "position_bias", "layernorm", "matmul")  # fmt: skip
ALL = (*UNITS, ATTENTION, ACCELERATOR)
COUNT, DEFAULT_LANES = 200, 4


def _parser() -> Parser:
    parser = Parser("verify.mutate", DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "units",
        metavar="UNIT",
        nargs="*",
        help=f"of {', '.join(ALL)} (default: all but the last two)",
    )
    parser.add_argument(
        "--count", type=whole(1, MOST), default=COUNT, metavar="N", help=f"mutants ({COUNT})"
    )
    add_lanes(parser, LANES, DEFAULT_LANES)
    add_columns(parser)
    add_seed(parser, "the mutants", None)
    add_jobs(parser, "processes")
    add_json(parser)
    add_config_options(parser, MECHANISMS)
    return parser


@dataclass
class Score:
    """What became of the mutants of a unit.

    Attributes
    ----------
    kills
        Killed mutants by the first test of the bench that failed.
    survivors
        Mutants that change an output and that the bench does not kill.
    silent
        Mutants that change no output in simulation: they are not counted.
    """

    unit: str
    config: Config
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    survivors: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        return self.kills.total()

    @property
    def sampled(self) -> int:
        """Mutants that count."""
        return self.killed + len(self.survivors)

    @property
    def percent(self) -> float:
        return 100 * self.killed / self.sampled if self.sampled else 100.0

    def line(self) -> str:
        """One line with everything."""
        config = self.config
        has = [name.replace("_", " ") for name, value in mechanisms_of(config).items() if value]
        named = [self.unit, array(config.lanes, config.tile_columns), *has, f"seed {self.seed}"]
        return (
            f"{', '.join(named)}: {self.killed:,} / {self.sampled:,} killed, {self.percent:.1f} %; "
            f"{len(self.silent):,} more change no output"
        )

    def as_dict(self) -> dict[str, Any]:
        """For a report."""
        figures = {name: getattr(self, name) for name in ("sampled", "killed", "percent")}
        return vars(self) | {"config": self.config.as_dict()} | figures


def score(unit: str, config: Config, count: int, seed: int, jobs: int = 1) -> Score:
    """Draw mutants of a unit and play its bench on each.

    Raises
    ------
    Different
        The bench fails without a mutant.
    ToolError
        Yosys or Verilator is missing or failed.
    """
    found = Score(unit, config, seed)
    stage(f"drawing mutants of {unit}")
    top, within = (ACCELERATOR, ENGINE) if unit == ATTENTION else (unit, "*")
    whole, mutants = drawn(sourced(top, config), top, count, seed, within)
    job = prepared(top, config, whole, mutants)
    outcomes = play(job, len(mutants), jobs)
    for mutant in progress(mutants, f"playing the bench of {unit}", "mutants"):
        outcome = next(outcomes)
        if outcome == SURVIVED:
            found.survivors.append(str(mutant))
        elif outcome == SILENT:
            found.silent.append(str(mutant))
        else:
            found.kills[outcome] += 1
    return found


def _run(options: argparse.Namespace) -> int:
    for unit in options.units:
        if unit not in ALL:
            raise UserError(f"no bench of {unit!r} can be played: choose of {', '.join(ALL)}")
    found = []
    for unit in options.units or UNITS:
        began = time.perf_counter()
        config = configuration(unit, options.lanes, options.columns, **mechanisms_of(options))
        found.append(score(unit, config, options.count, options.seed, options.jobs))
        for mutant in found[-1].survivors:
            print(f"survived: {mutant}")
        print(f"{found[-1].line()} in {time.perf_counter() - began:.1f} s", flush=True)
    if options.json is not None:
        write_json(options.json, [each.as_dict() for each in found])
    return Exit.OK


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
