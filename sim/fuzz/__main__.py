"""Play random malformed streams and odd clients on the accelerator, and judge every case.

A case is an inference with something wrong about it (its command stream, its tokens, its rows, an
abort or a reset in any cycle, its clients), and one or two sound ones after it. It must end, with a
code that an independent account of the rules allows, and leave the sound inferences bit-right.

examples:
  python -m sim.fuzz
  python -m sim.fuzz --cases 100000 --lanes 4,8 --jobs 2 --json build/fuzz.json
  python -m sim.fuzz --seed 1 --lanes 8 --case 123
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from cli import command
from cli.files import write_json

from rtl.interface.config import LANES
from rtl.interface.operation import Error
from sim.fuzz.cases import KINDS
from sim.fuzz.play import Outcome, play, program
from sim.report import table
from sim.simulators import SimulatorError


def reproducer(seed: int, outcome: Outcome) -> str:
    """The command that plays this case again."""
    return f"python -m sim.fuzz --seed {seed} --lanes {outcome.lanes} --case {outcome.number}"


def _lanes(text: str) -> list[int]:
    found = [int(part) if part.isdigit() else 0 for part in text.split(",")]
    if not set(found) <= set(LANES) or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(
            f"{text!r}: give some of {','.join(map(str, LANES))}, each once"
        )
    return found


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: it must be an integer of 1 or more")
    return int(text)


def _number(text: str) -> int:
    if not text.isdigit() or int(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r}: it must lie in 0..2^32-1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sim.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", type=_count, default=1000, metavar="N", help="default: 1000")
    parser.add_argument("--seed", type=_number, default=1, metavar="S", help="default: 1")
    parser.add_argument("--lanes", type=_lanes, default=[4, 8], metavar="N,N", help="default: 4,8")
    parser.add_argument("--jobs", type=_count, default=1, metavar="N", help="processes; default: 1")
    parser.add_argument("--case", type=_number, metavar="K", help="play this case alone")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    return parser


def main() -> int:
    options = _parser().parse_args()
    numbers = range(options.cases // len(options.lanes) or 1)
    if options.case is not None:
        numbers = range(options.case, options.case + 1)
    try:
        programs = {lanes: program(lanes) for lanes in options.lanes}
    except SimulatorError as error:
        raise command.ToolError(error) from None
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    codes: Counter[int] = Counter()
    failures = []
    began = time.perf_counter()
    for outcome in play(programs, options.seed, numbers, options.jobs):
        ran[outcome.kind] += 1
        codes.update(outcome.codes)
        if outcome.wrong:
            failed[outcome.kind] += 1
            failures.append({"reproduce": reproducer(options.seed, outcome)} | vars(outcome))
            print(f"{reproducer(options.seed, outcome)}  # {outcome.kind}: {outcome.wrong[0]}")
            sys.stdout.flush()
    seconds = time.perf_counter() - began
    print(table(["kind", "cases", "failures"], [[k, ran[k], failed[k]] for k in KINDS if ran[k]]))
    told = [f"{Error(c).name if c in set(Error) else c} {codes[c]:,}" for c in sorted(codes)]
    print(f"\ncodes of the inferences: {', '.join(told)}")
    total = sum(ran.values())
    print(f"{total:,} cases in {seconds:.1f} s: {len(failures)} failures")
    if options.json:
        write_json(
            options.json,
            {
                "cases": total,
                "seed": options.seed,
                "lanes": options.lanes,
                "seconds": seconds,
                "kinds": {kind: ran[kind] for kind in KINDS},
                "codes": {str(code): codes[code] for code in sorted(codes)},
                "failures": failures,
            },
        )
    if failures:
        raise command.Different(
            f"{len(failures)} of {total} cases failed; first: {failures[0]['reproduce']}"
        )
    return command.Exit.OK


if __name__ == "__main__":
    sys.exit(command.run(main))
