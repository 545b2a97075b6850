"""`python -m verify.fuzz`: random malformed streams and odd clients on the accelerator."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from cli.command import Different, Exit, run_command
from cli.files import write_json
from cli.options import Parser, add_columns, add_dask, add_jobs, add_json, add_seed, positive, whole

from rtl.interface.config import HEADS_MAX, LANES, PAIRS_MAX
from rtl.interface.operation import Error
from sim.report import table
from verify.fuzz.cases import KINDS
from verify.fuzz.play import Judged, play, program
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
"""
CASES, SEED = 1000, 1


KEYS = {
    "cases, seed, lanes, columns": "how many were played; as the options say",
    "bias_heads, windows, rms_norm, gated, rotary_pairs": "as the options say",
    "kinds{}": "cases by what is wrong about them",
    "codes{}": "inferences by error code, 0: none",
    "failures[].reproduce": "the command that plays a failed case again",
    "failures[].lanes, .columns": "of its hardware; M as a number",
    "failures[].bias_heads, .windows, .rms_norm": "of its hardware",
    "failures[].gated, .rotary_pairs": "of its hardware",
    "failures[].number, .kind": "of the case",
    "failures[].wrong, .codes": "what is wrong, a line each; codes of its inferences",
}


def reproducer(seed: int, outcome: Judged) -> str:
    """The command that plays this case again."""
    lanes, columns = outcome.lanes, outcome.columns
    wide = f" --columns {columns}" if columns != lanes else ""
    wide += f" --bias-heads {outcome.bias_heads}" if outcome.bias_heads else ""
    wide += " --windows" if outcome.windows else ""
    wide += " --rms-norm" if outcome.rms_norm else ""
    wide += " --gated" if outcome.gated else ""
    wide += f" --rotary-pairs {outcome.rotary_pairs}" if outcome.rotary_pairs else ""
    return f"python -m verify.fuzz --seed {seed} --lanes {lanes}{wide} --case {outcome.number}"


def _lanes(text: str) -> list[int]:
    found = [int(part) if part.isdigit() else 0 for part in text.split(",")]
    if not set(found) <= set(LANES) or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(
            f"{text!r}: give some of {','.join(map(str, LANES))}, each once"
        )
    return found


def _parser() -> Parser:
    parser = Parser("verify.fuzz", DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--cases", type=positive, default=CASES, metavar="N", help=f"default: {CASES}"
    )
    parser.add_argument("--lanes", type=_lanes, default=[4, 8], metavar="N,N", help="default: 4,8")
    add_columns(parser)
    parser.add_argument(
        "--bias-heads",
        type=whole(0, HEADS_MAX),
        default=0,
        metavar="N",
        help="hardware with a position bias of so many heads, and models with one (default: 0)",
    )
    parser.add_argument(
        "--windows",
        action="store_true",
        help="hardware with attention windows, and models with some",
    )
    parser.add_argument(
        "--rms-norm", action="store_true", help="hardware with RMSNorms, and models with some"
    )
    parser.add_argument(
        "--gated",
        action="store_true",
        help="hardware with gated feed-forward networks, and models with some",
    )
    parser.add_argument(
        "--rotary-pairs",
        type=whole(0, PAIRS_MAX),
        default=0,
        metavar="N",
        help="hardware with rotary positions of so many pairs, and models with some (default: 0)",
    )
    parser.add_argument(
        "--case", type=whole(0, (1 << 32) - 1), metavar="K", help="play this case alone"
    )
    add_seed(parser, "the cases", SEED)
    add_jobs(parser, "simulations")
    add_dask(parser)
    add_json(parser, KEYS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    numbers = range(options.cases // len(options.lanes) or 1)
    if options.case is not None:
        numbers = range(options.case, options.case + 1)
    # The workers of a cluster build their own.
    choices = [options.bias_heads, options.windows, options.rms_norm]
    choices += [options.gated, options.rotary_pairs]
    all_limits = [config(n, options.columns, *choices) for n in options.lanes]
    programs = {limits: None if options.dask else program(limits) for limits in all_limits}
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    codes: Counter[int] = Counter()
    failures = []
    began = time.perf_counter()
    for outcome in play(programs, options.seed, numbers, options.jobs, options.dask):
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
    if options.json:  # without what depends on the machine: the same cases give the same file
        write_json(
            options.json,
            {
                "cases": total,
                "seed": options.seed,
                "lanes": options.lanes,
                "columns": options.columns,
                "bias_heads": options.bias_heads,
                "windows": options.windows,
                "rms_norm": options.rms_norm,
                "gated": options.gated,
                "rotary_pairs": options.rotary_pairs,
                "kinds": {kind: ran[kind] for kind in KINDS},
                "codes": {str(code): codes[code] for code in sorted(codes)},
                "failures": failures,
            },
        )
    if failures:
        raise Different(
            f"{len(failures)} of {total} cases failed; first: {failures[0]['reproduce']}"
        )
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
