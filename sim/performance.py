"""Measure the cycles of a real model in simulated Verilog, over lanes, lengths and stream rates.

Ideal cycles are MACs / N^2 of the encoder layers; `total` counts from the first token in to the
last logit out, `layers` from the first operand of the first layer to the last of the last one. Each
measurement is compared with the prediction of sim.cycles, and its logits with golden: the exit
status is 1 where one differs.

examples:
  python -m sim.performance
  python -m sim.performance --lanes 8 16 --tokens 64 128
  python -m sim.performance --json build/performance.json
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from cli.options import positive

import numpy as np
from tqdm import tqdm

from golden.encoder import run
from golden.model import Model
from quant.calibrate import ensure
from quant.classify import Classifier
from quant.texts import imdb
from rtl.compile import MODEL
from rtl.compile.fit import FitError, fitting
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import LANES, Config
from sim.cycles.model import predict
from sim.harness import fast
from sim.phases import macs
from sim.report import table, write_json
from sim.simulators import SimulatorError

TOKENS = (16, 64, 128, 512)
#: Where the stream is limited, and the last layer computes the first row tile only.
STUDIED_LANES, STUDIED_TOKENS, STREAM_BYTES = 16, 128, (1, 2, 4, 8)
LAYER = "layer."


@dataclass(frozen=True)
class Case:
    """One measurement; stream_bytes a cycle, None for N."""

    lanes: int
    stream_bytes: int | None
    tokens: int
    first_tile_only: bool = False


@dataclass(frozen=True)
class Figures:
    """What was measured.

    Attributes
    ----------
    ideal
        MACs / N^2 of the encoder layers.
    total, layers
        Cycles from the first token to the last logit; of the encoder layers.
    predicted
        Total of the cycle model.
    stalls
        Cycles without an operand, by cause.
    logits
        They equal golden's.
    """

    case: Case
    ideal: float
    total: int
    layers: int
    predicted: int
    stalls: dict[str, int]
    logits: bool

    @property
    def good(self) -> bool:
        return self.logits and self.total == self.predicted


def cases(lanes: Sequence[int], tokens: Sequence[int]) -> list[Case]:
    """All lengths on all lanes, then what is studied at one of them."""
    plan = [Case(n, None, length) for n in lanes for length in tokens]
    if STUDIED_LANES in lanes:
        plan += [Case(STUDIED_LANES, None, length, True) for length in tokens]
        if STUDIED_TOKENS in tokens:
            plan += [Case(STUDIED_LANES, rate, STUDIED_TOKENS) for rate in STREAM_BYTES]
    return plan


def real_ids(classifier: Classifier, tokens: int) -> np.ndarray:
    """The first `tokens` ids of the first test review that has so many.

    Raises
    ------
    ValueError
        No review, or no input of the model, is that long.
    """
    longest = classifier.spec.max_tokens
    if tokens > longest:
        raise ValueError(f"{tokens} tokens are asked for: the model takes at most {longest}")
    for review in imdb("test"):
        ids = classifier.tokens(review.text, max_tokens=max(tokens, 3)).ids
        if len(ids) >= tokens:
            return ids[:tokens]
    raise ValueError(f"no test review has {tokens} tokens")


def figures_of(case: Case, program: Program, result: fast.Result, golden: np.ndarray) -> Figures:
    """The figures of one finished inference."""
    parts = [o for o in result.operations if program.steps[o.number].name.startswith(LAYER)]
    ideal = sum(macs(s, case.tokens) for s in program.steps if s.name.startswith(LAYER))
    predicted = predict(program, case.tokens, stream_bytes=case.stream_bytes)
    return Figures(
        case=case,
        ideal=ideal / case.lanes**2,
        total=result.span,
        layers=parts[-1].last - parts[0].first + 1 if parts else 0,
        predicted=predicted.cycles,
        stalls=result.stalls,
        logits=np.array_equal(result.logits, golden),
    )


def measure(
    classifier: Classifier, plan: Sequence[Case], processes: int
) -> Iterator[tuple[int, Figures]]:
    """Each case's place in the plan and its figures, as they come.

    Raises
    ------
    HarnessError, SimulatorError, FitError, ValueError
        As sim.harness.fast, the compiler and `real_ids`.
    """
    model = classifier.model
    longest = max(case.tokens for case in plan)
    ids = {length: real_ids(classifier, length) for length in {case.tokens for case in plan}}
    golden = {length: run(model, tokens) for length, tokens in ids.items()}

    def together(place: int) -> tuple[int, int]:
        return plan[place].lanes, plan[place].stream_bytes or 0

    for (lanes, rate), group in groupby(sorted(range(len(plan)), key=together), key=together):
        places = list(group)
        config = fitting(model.shape, lanes, longest)
        programs = _programs(model, config, [plan[place] for place in places])
        rows = embedding_table(model, lanes)
        jobs = [
            fast.Job(programs[plan[p].first_tile_only], rows, ids[plan[p].tokens]) for p in places
        ]
        found = fast.iterate(config, jobs, stream_bytes=rate or None, processes=processes)
        with closing(found):
            for result in found:
                place = places[result.index]
                case = plan[place]
                program = programs[case.first_tile_only]
                yield place, figures_of(case, program, result, golden[case.tokens])


def _programs(model: Model, config: Config, plan: Sequence[Case]) -> dict[bool, Program]:
    return {
        first: compile_model(model, config, first_tile_only=first)
        for first in {case.first_tile_only for case in plan}
    }


def report(found: Sequence[Figures]) -> str:
    """One line a measurement."""
    rows = []
    for one in found:
        case = one.case
        kind = "first tile only" if case.first_tile_only else "whole"
        rows.append(
            [
                case.lanes,
                case.tokens,
                case.stream_bytes or case.lanes,
                kind,
                round(one.ideal),
                one.total,
                f"{one.ideal / one.total:.2%}",
                one.layers,
                f"{one.ideal / one.layers:.2%}",
                *one.stalls.values(),
                one.predicted,
                "equal" if one.logits else "DIFFER",
            ]
        )
    headings = [
        *("lanes", "tokens", "bytes/cycle", "last layer", "ideal", "total", "ideal/total"),
        *("layers", "ideal/layers", *found[0].stalls, "predicted", "logits"),
    ]
    bad = [one for one in found if not one.good]
    verdict = (
        f"{len(bad)} of {len(found)} DIFFER from prediction or golden"
        if bad
        else (f"all {len(found)} totals as predicted, all logits equal to golden's")
    )
    return f"{table(headings, rows)}\n\n{verdict}"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m sim.performance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--lanes",
        type=int,
        nargs="+",
        choices=LANES,
        default=LANES,
        metavar="N",
        help=f"default: {' '.join(map(str, LANES))}",
    )
    result.add_argument(
        "--tokens",
        type=positive,
        nargs="+",
        default=TOKENS,
        metavar="L",
        help=f"lengths; default: {' '.join(map(str, TOKENS))}",
    )
    result.add_argument(
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="simulations at a time (default: one a core)",
    )
    result.add_argument(
        "--model", type=Path, default=MODEL, metavar="DIR", help=f"quantized (default: {MODEL})"
    )
    result.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        model = ensure() if options.model == MODEL else options.model
        classifier = Classifier.load(model, None)
        plan = cases(options.lanes, options.tokens)
        results = measure(classifier, plan, options.jobs)
        found = dict(tqdm(results, total=len(plan), disable=None, leave=False))
    except (FitError, SimulatorError, fast.HarnessError, ValueError, OSError) as error:
        print(f"sim.performance: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sim.performance: interrupted", file=sys.stderr)
        return 130
    ordered = [found[place] for place in range(len(plan))]
    print(report(ordered))
    if options.json:
        write_json(options.json, [asdict(one) | {"good": one.good} for one in ordered])
    return 0 if all(one.good for one in ordered) else 1


if __name__ == "__main__":
    sys.exit(main())
