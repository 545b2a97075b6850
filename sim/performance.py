"""`python -m sim.performance`: cycles of a real model in simulated Verilog, as predicted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby

from cli.command import Exit, run_command
from cli.files import write_json
from cli.options import Parser, add_jobs, add_json, positive
from cli.progress import progress

import numpy as np

from golden.encoder import run
from golden.model import Model
from quant.quantized_model import QuantizedModel
from quant.texts.corpora import imdb
from rtl.compile.fit import fitting_model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import LANES, Config
from sim.cycles.model import predict
from sim.machine import volume as fast
from sim.options import add_model_options, model_of
from sim.phases import macs
from sim.report import table

DESCRIPTION = """\
Measure the cycles of a real model in simulated Verilog, over lanes, lengths and stream rates.

Ideal cycles are MACs / N^2 of the encoder layers; `total` is the register `cycles`, `layers` counts
from the first operand of the first layer to the last of the last one. Each measurement is compared
with the prediction of sim.cycles, and its logits with golden: the exit status is 1 where one
differs.
"""
EXAMPLES = """\
examples:
  python -m sim.performance
  python -m sim.performance --lanes 8 16 --tokens 64 128
  python -m sim.performance --lanes 64 --tokens 128
  python -m sim.performance --json build/performance.json
"""
MEASURED_LANES, TOKENS = (4, 8, 16, 32), (16, 64, 128, 512)
"""By default: to generate and build 64 lanes takes long."""
#: Where the stream is limited, and the last layer computes the first row tile alone.
STUDIED_LANES, STUDIED_TOKENS, STREAM_BYTES = 16, 128, (1, 2, 4, 8)
LAYER = "layer."


@dataclass(frozen=True)
class Setting:
    """One measurement; stream_bytes a cycle, None for N."""

    lanes: int
    stream_bytes: int | None
    tokens: int
    whole_last_layer: bool = True


@dataclass(frozen=True)
class Measurement:
    """What was measured.

    Attributes
    ----------
    ideal
        MACs / N^2 of the encoder layers.
    total, layers
        The register `cycles`; from the first operand of the encoder layers to their last.
    predicted
        Total of the cycle model.
    stalls
        Cycles without an operand, by cause.
    logits
        They equal golden's.
    """

    setting: Setting
    ideal: float
    total: int
    layers: int
    predicted: int
    stalls: dict[str, int]
    logits: bool

    @property
    def good(self) -> bool:
        return self.logits and self.total == self.predicted


def settings(lanes: Sequence[int], tokens: Sequence[int]) -> list[Setting]:
    """All lengths on all lanes, all layers whole; then what is studied at one of them."""
    plan = [Setting(n, None, length) for n in lanes for length in tokens]
    if STUDIED_LANES in lanes:
        plan += [Setting(STUDIED_LANES, None, length, False) for length in tokens]
        if STUDIED_TOKENS in tokens:
            plan += [Setting(STUDIED_LANES, rate, STUDIED_TOKENS) for rate in STREAM_BYTES]
    return plan


def real_ids(quantized: QuantizedModel, tokens: int) -> np.ndarray:
    """The first `tokens` ids of the first test review that has so many.

    Raises
    ------
    ValueError
        No review, or no input of the model, is that long.
    """
    longest = quantized.spec.max_tokens
    if tokens > longest:
        raise ValueError(f"{tokens} tokens are asked for: the model takes at most {longest}")
    for review in imdb("test"):
        ids = quantized.tokens(review.text, max_tokens=max(tokens, 3)).ids
        if len(ids) >= tokens:
            return ids[:tokens]
    raise ValueError(f"no test review has {tokens} tokens")


def figures_of(
    setting: Setting, program: Program, result: fast.Result, golden: np.ndarray
) -> Measurement:
    """The figures of one finished inference."""
    parts = [o for o in result.operations if program.steps[o.number].name.startswith(LAYER)]
    ideal = sum(macs(s, setting.tokens) for s in program.steps if s.name.startswith(LAYER))
    predicted = predict(program, setting.tokens, stream_bytes=setting.stream_bytes)
    return Measurement(
        setting=setting,
        ideal=ideal / setting.lanes**2,
        total=result.cycles,
        layers=parts[-1].last - parts[0].first + 1 if parts else 0,
        predicted=predicted.cycles,
        stalls=result.stalls,
        logits=np.array_equal(result.logits, golden),
    )


def measure(
    quantized: QuantizedModel, plan: Sequence[Setting], processes: int
) -> Iterator[tuple[int, Measurement]]:
    """Each setting's place in the plan and its figures, as they come.

    Raises
    ------
    MachineError, SimulatorError, FitError, ValueError
        As sim.machine.volume, the compiler and `real_ids`.
    """
    model = quantized.model
    longest = max(setting.tokens for setting in plan)
    ids = {length: real_ids(quantized, length) for length in {setting.tokens for setting in plan}}
    golden = {length: run(model, tokens) for length, tokens in ids.items()}

    def together(place: int) -> tuple[int, int]:
        return plan[place].lanes, plan[place].stream_bytes or 0

    for (lanes, rate), group in groupby(sorted(range(len(plan)), key=together), key=together):
        places = list(group)
        config = fitting_model(model, lanes, longest)
        programs = _programs(model, config, [plan[place] for place in places])
        rows = embedding_table(model, lanes)
        jobs = [
            fast.Job(programs[plan[p].whole_last_layer], rows, ids[plan[p].tokens]) for p in places
        ]
        found = fast.simulate_each(config, jobs, stream_bytes=rate or None, processes=processes)
        with closing(found):
            for result in found:
                place = places[result.index]
                setting = plan[place]
                program = programs[setting.whole_last_layer]
                yield place, figures_of(setting, program, result, golden[setting.tokens])


def _programs(model: Model, config: Config, plan: Sequence[Setting]) -> dict[bool, Program]:
    return {
        whole: compile_model(model, config, whole_last_layer=whole)
        for whole in {setting.whole_last_layer for setting in plan}
    }


def report(found: Sequence[Measurement]) -> str:
    """One line a measurement."""
    rows = []
    for one in found:
        setting = one.setting
        kind = "whole" if setting.whole_last_layer else "first row tile"
        rows.append(
            [
                setting.lanes,
                setting.tokens,
                setting.stream_bytes or setting.lanes,
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


def parser() -> Parser:
    result = Parser("sim.performance", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "--lanes",
        type=int,
        nargs="+",
        choices=LANES,
        default=MEASURED_LANES,
        metavar="N",
        help=f"some of {' '.join(map(str, LANES))} (default: {' '.join(map(str, MEASURED_LANES))})",
    )
    result.add_argument(
        "--tokens",
        type=positive,
        nargs="+",
        default=TOKENS,
        metavar="L",
        help=f"lengths; default: {' '.join(map(str, TOKENS))}",
    )
    add_model_options(result)
    add_jobs(result, "simulations")
    add_json(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    _, quantized = model_of(options)
    plan = settings(options.lanes, options.tokens)
    results = measure(quantized, plan, options.jobs)
    found = dict(progress(results, "simulating", "settings", total=len(plan)))
    ordered = [found[place] for place in range(len(plan))]
    print(report(ordered))
    if options.json:
        write_json(options.json, [asdict(one) | {"good": one.good} for one in ordered])
    return Exit.OK if all(one.good for one in ordered) else Exit.DIFFERENT


if __name__ == "__main__":
    sys.exit(main())
