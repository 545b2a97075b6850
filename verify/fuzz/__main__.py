"""`python -m verify.fuzz`: random malformed streams and odd clients on the accelerator."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.command import Exit, run_command
from cli.errors import Different, UserError
from cli.files import write, write_json
from cli.options import Parser, add_columns, add_dask, add_jobs, add_json, add_seed, positive, whole
from cli.words import counted

from rtl.interface.operation import Error
from rtl.interface.options import add_mechanisms, mechanisms_of, options_of
from sim.options import lane_number, listed
from sim.report import table
from verify.fuzz.cases import KINDS
from verify.fuzz.play import COVERAGE, Judged, play, program
from verify.fuzz.subject import config

DESCRIPTION = """\
Play random malformed streams and odd clients on the accelerator, and judge every case.

A case is an inference with something wrong about it (its command stream, its tokens, its rows, an
abort or a reset in any cycle, its clients), and one or two sound ones after it. It must end, with a
code that an independent account of the rules allows, and leave the sound inferences bit-right.
"""
EXAMPLES = """\
examples:
  python -m verify.fuzz
  python -m verify.fuzz --cases 100000 --lanes 4,8 --json build/fuzz.json
  python -m verify.fuzz --lanes 8 --columns 32
  python -m verify.fuzz --lanes 4 --bias-heads 2
  python -m verify.fuzz --cases 10000000 --dask tcp://head:8786
  python -m verify.fuzz --seed 1 --lanes 8 --case 123
  python -m verify.fuzz --lanes 4 --coverage build/coverage.dat
"""
CASES, SEED, GIVEN = 1000, 1, ("seed", "lanes", "columns")


def reproducer(seed: int, outcome: Judged) -> str:
    """The command that plays this case again."""
    lanes = outcome.limits.lanes
    words = ["--lanes", str(lanes), *options_of(outcome.limits, config(lanes))]
    return f"python -m verify.fuzz --seed {seed} {' '.join(words)} --case {outcome.number}"


def _failure(seed: int, outcome: Judged) -> dict[str, Any]:
    limits = outcome.limits
    array = {"lanes": limits.lanes, "columns": limits.tile_columns}
    facts = {name: getattr(outcome, name) for name in ("number", "kind", "wrong", "codes")}
    return {"reproduce": reproducer(seed, outcome)} | array | mechanisms_of(limits) | facts


def _parser() -> Parser:
    parser = Parser("verify.fuzz", DESCRIPTION, EXAMPLES)
    number, what = parser.add_mutually_exclusive_group(), f"default: {CASES}"
    number.add_argument("--cases", type=positive, default=CASES, metavar="N", help=what)
    lanes, what = listed(lane_number), "default: 4,8"
    parser.add_argument("--lanes", type=lanes, default=[4, 8], metavar="N,N", help=what)
    add_columns(parser)
    what = "play this case alone"
    number.add_argument("--case", type=whole(0, (1 << 32) - 1), metavar="K", help=what)
    what = "also write which lines, branches and toggles of the Verilog the cases cover, as "
    what += "verilator_coverage reads it; of one number of lanes"
    parser.add_argument("--coverage", type=Path, metavar="FILE", help=what)
    add_seed(parser, "the cases", SEED)
    add_jobs(parser, "simulations")
    add_dask(parser)
    add_json(parser)
    add_mechanisms(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    if options.coverage and len(options.lanes) > 1:
        raise UserError("--coverage is of one accelerator: give one number of --lanes")
    built: dict[str, Any] = COVERAGE if options.coverage else {}
    covered: Counter[str] | None = Counter() if options.coverage else None
    # The workers of a cluster build their own.
    chosen = mechanisms_of(options)
    all_limits = [config(n, options.columns, **chosen) for n in options.lanes]
    share, rest = divmod(options.cases, len(all_limits))
    numbers = {limits: range(share + (i < rest)) for i, limits in enumerate(all_limits)}
    if options.case is not None:
        numbers = dict.fromkeys(all_limits, range(options.case, options.case + 1))
    played = [limits for limits in all_limits if numbers[limits]]
    programs = {limits: None if options.dask else program(limits, **built) for limits in played}
    ran, failed, codes, failures = Counter[str](), Counter[str](), Counter[int](), []
    began = time.perf_counter()
    for outcome in play(programs, options.seed, numbers, options.jobs, options.dask, covered):
        ran[outcome.kind] += 1
        codes.update(outcome.codes)
        if outcome.wrong:
            failed[outcome.kind] += 1
            failures.append(_failure(options.seed, outcome))
            print(f"{reproducer(options.seed, outcome)}  # {outcome.kind}: {outcome.wrong[0]}")
            sys.stdout.flush()
    seconds = time.perf_counter() - began
    print(table(["kind", "cases", "failures"], [[k, ran[k], failed[k]] for k in KINDS if ran[k]]))
    names = [f"{Error(c).name if c in set(Error) else c} {codes[c]:,}" for c in sorted(codes)]
    print(f"\ncodes of the inferences: {', '.join(names)}")
    total = sum(ran.values())
    print(f"{counted(total, 'cases')} in {seconds:.1f} s: {counted(len(failures), 'failures')}")
    if options.json:  # without what depends on the machine: the same cases give the same file
        told = {"cases": total} | {name: getattr(options, name) for name in GIVEN} | chosen
        kinds = {kind: ran[kind] for kind in KINDS}
        shown = {str(code): codes[code] for code in sorted(codes)}
        write_json(options.json, told | {"kinds": kinds, "codes": shown, "failures": failures})
    if covered is not None:
        lines = [f"{point} {count}\n" for point, count in covered.items()]
        write(options.coverage, "".join(["# SystemC::Coverage-3\n", *lines]))
    if failures:
        raise Different(
            f"{len(failures):,} of {counted(total, 'cases')} failed; "
            f"first: {failures[0]['reproduce']}"
        )
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
