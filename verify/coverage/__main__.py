"""`python -m verify.coverage`: what the checks of the accelerator reach, on one page."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cli.command import Exit, run_command
from cli.errors import Different
from cli.files import write, write_json
from cli.machine import BUILD
from cli.options import Parser, add_dask, add_jobs, add_json, add_lanes, add_seed, positive

from rtl.interface.config import LANES
from sim.report import table
from verify.coverage import code, functional
from verify.coverage.collect import Covered, collect
from verify.coverage.page import page
from verify.fuzz.subject import config

DESCRIPTION = """\
Play the fuzzer's cases on the accelerator and count what they reach.

Code: every line, every branch, and both edges of every bit of the Verilog. Function: every opcode x
flag x remainder of the sequence in the lanes x cause of a stall x error code. All of it on one HTML
page, which names what was not reached.
"""
EXAMPLES = """\
examples:
  python -m verify.coverage
  python -m verify.coverage --cases 20000 --least 90 --json build/coverage.json
  python -m verify.coverage --lanes 8 --seed 7 --html build/eight.html
"""
CASES, SEED, DEFAULT_LANES = 2000, 1, 4
PAGE = BUILD / "coverage.html"


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r}: give a percentage, 0 to 100")
    return value


def _parser() -> Parser:
    parser = Parser("verify.coverage", DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--cases", type=positive, default=CASES, metavar="N", help=f"default: {CASES}"
    )
    add_lanes(parser, LANES, DEFAULT_LANES)
    parser.add_argument(
        "--least",
        type=_percent,
        default=0.0,
        metavar="P",
        help="exit code 1 if lines, branches, toggles or function have less (default: %(default)g)",
    )
    parser.add_argument(
        "--html", type=Path, default=PAGE, metavar="FILE", help=f"the page (default: {PAGE})"
    )
    add_seed(parser, "the cases", SEED)
    add_jobs(parser, "simulations")
    add_dask(parser)
    add_json(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    began = time.perf_counter()
    found = Covered(options.lanes)
    for part in collect(
        config(options.lanes), options.seed, range(options.cases), options.jobs, options.dask
    ):
        found.add(part)
    shares = found.shares()
    holes = code.holes(found.points)
    bins = functional.missing(functional.everything(options.lanes), found.bins)
    percent = found.percent()
    rows = [[kind, done, total, f"{percent[kind]:.2f}"] for kind, (done, total) in shares.items()]
    print(table(["what", "covered", "of", "%"], rows))
    print(
        f"\n{found.cases:,} cases, {options.lanes} lanes, seed {options.seed}: "
        f"{time.perf_counter() - began:.1f} s"
    )
    write(options.html, page(found, options.seed, holes, bins))
    print(f"page: {options.html}")
    if options.json is not None:
        write_json(
            options.json,
            {
                "lanes": options.lanes,
                "seed": options.seed,
                "cases": found.cases,
                "covered": {
                    kind: {"covered": done, "of": total, "percent": round(percent[kind], 2)}
                    for kind, (done, total) in shares.items()
                },
                "holes": {"code": holes, "functional": bins},
                "excluded": {str(one): one.reason for one in functional.EXCLUDED},
            },
        )
    _judge(found, options)
    return Exit.OK


def _judge(found: Covered, options: argparse.Namespace) -> None:
    if found.wrong:
        number, why = next(iter(found.wrong.items()))
        raise Different(f"{len(found.wrong)} of {found.cases} cases failed; case {number}: {why}")
    if found.impossible():
        raise Different(f"covered, although it is excluded: {found.impossible()[0]}")
    for kind, percent in found.percent().items():
        if percent < options.least:
            raise Different(
                f"{kind}: {percent:.2f} % are covered, --least asks for {options.least:g} %"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
