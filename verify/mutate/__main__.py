"""`python -m verify.mutate`: how many small changes of a unit its bench sees."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cli.command import Exit, run_command
from cli.errors import UserError
from cli.files import write_json
from cli.options import Parser, add_columns, add_jobs, add_json, add_lanes, add_seed, whole
from cli.progress import progress, stage

from rtl.interface.config import LANES, Config, array
from rtl.interface.options import add_mechanisms, mechanisms_of
from verify.mutate.bench import ACCELERATOR, ATTENTION, ENGINE, configuration, play, prepared
from verify.mutate.netlist import MOST, SILENT, SURVIVED, drawn, sourced

DESCRIPTION = """\
Change one bit of a unit's netlist at a time, and play the unit's bench on each change.

The cocotb bench of a unit is recorded once. A mutant is killed if an output differs in a cycle in
which the bench has read it. Of the others those that change no output on random inputs are not
counted; the rest survive and are printed. The score is the killed of those that count. Mutants of
the accelerator are killed by traced inferences and cases of the fuzzer; `attention` is its engine.
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
    what = f"of {', '.join(ALL)} (default: all but the last two)"
    parser.add_argument("units", metavar="UNIT", nargs="*", help=what)
    what, most = f"mutants ({COUNT})", whole(1, MOST)
    parser.add_argument("--count", type=most, default=COUNT, metavar="N", help=what)
    add_lanes(parser, LANES, DEFAULT_LANES)
    add_columns(parser)
    add_seed(parser, "the mutants", None)
    add_jobs(parser, "processes")
    add_json(parser)
    add_mechanisms(parser)
    return parser


def score(unit: str, config: Config, count: int, seed: int, jobs: int = 1) -> dict[str, Any]:
    """Draw mutants of a unit and play its bench on each; what became of them, for a report.

    Of it `kills` counts the killed: those of the accelerator by the first test that failed, others
    as of the record. `survivors` change an output and are not killed; `silent` ones change none in
    simulation and are not `sampled`.

    Raises Different: The bench fails without a mutant.
    Raises ToolError: Yosys or Verilator is missing or failed.
    """
    stage(f"drawing mutants of {unit}")
    top, within = (ACCELERATOR, ENGINE) if unit == ATTENTION else (unit, "*")
    whole, mutants = drawn(sourced(top, config), top, count, seed, within)
    outcomes = play(prepared(top, config, whole, mutants), len(mutants), jobs)
    kills, left = Counter[str](), dict[str, list[str]]({SURVIVED: [], SILENT: []})
    for mutant in progress(mutants, f"playing the bench of {unit}", "mutants"):
        outcome = next(outcomes)
        if outcome in left:
            left[outcome].append(str(mutant))
        else:
            kills[outcome] += 1
    killed, sampled = kills.total(), kills.total() + len(left[SURVIVED])
    percent = 100 * killed / sampled if sampled else 100.0
    found = {"unit": unit, "config": config.as_dict(), "seed": seed, "kills": kills}
    found |= {"survivors": left[SURVIVED], "silent": left[SILENT]}
    return found | {"sampled": sampled, "killed": killed, "percent": percent}


def _run(options: argparse.Namespace) -> int:
    for unit in options.units:
        if unit not in ALL:
            raise UserError(f"no bench of {unit!r} can be played: choose of {', '.join(ALL)}")
    found = []
    for unit in options.units or UNITS:
        began = time.perf_counter()
        config = configuration(unit, options.lanes, options.columns, **mechanisms_of(options))
        one = score(unit, config, options.count, options.seed, options.jobs)
        found.append(one)
        for mutant in one["survivors"]:
            print(f"survived: {mutant}")
        has = [name.replace("_", " ") for name, value in mechanisms_of(config).items() if value]
        named = [unit, array(config.lanes, config.tile_columns), *has, f"seed {options.seed}"]
        print(
            f"{', '.join(named)}: {one['killed']:,} / {one['sampled']:,} killed, "
            f"{one['percent']:.1f} %; {len(one['silent']):,} more change no output "
            f"in {time.perf_counter() - began:.1f} s",
            flush=True,
        )
    if options.json is not None:
        write_json(options.json, found)
    return Exit.OK


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
