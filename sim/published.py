"""`python -m sim.published`: BERT-Base beside published accelerators, played on request."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from cli.command import Exit, run_command
from cli.files import write_json
from cli.options import Parser, add_json
from cli.progress import progress, stage

import numpy as np

from golden import fast
from golden.model import Model
from quant.foreign.tokenizer import Tokens
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import LANES, Config
from sim.cycles.model import predict
from sim.estimate.area import estimate
from sim.estimate.performance import example
from sim.machine.volume import ROW_LATENCY
from sim.performance import LAYER
from sim.report import table
from sim.reviews import Review, Setup, simulate

DESCRIPTION = """\
Set the cycles of BERT-Base (12 layers, hidden 768, 12 heads, feed-forward 3,072) on 128 tokens
beside those of published accelerators.

Cycles of this accelerator are those of the exact cycle model, which the simulated Verilog is held
to, with a word of the command stream a cycle: embedding and head included. Cycles of the others are
their latency times their clock. Products are the multiply-accumulates of the encoder layers,
padding left out; utilisation is products / (N^2 * cycles).

With --play a BERT-Base of random integers runs through the simulated Verilog whole: every logit and
every write of every named intermediate must be golden's, the cycles those of the model.
"""
EXAMPLES = """\
examples:
  python -m sim.published
  python -m sim.published --lanes 16 32 --json build/published.json
  python -m sim.published --lanes 32 --play
"""
LAYERS, HIDDEN, FFN, TOKENS = 12, 768, 3072, 128


@dataclass(frozen=True)
class Published:
    """What a paper says of BERT-Base on 128 tokens."""

    name: str
    source: str
    milliseconds: float
    clock_mhz: float
    dsp: int

    @property
    def cycles(self) -> int:
        return round(1e3 * self.milliseconds * self.clock_mhz)


DATE_2021 = "Liu, Li, Cheng: Hardware Acceleration of Fully Quantized BERT, DATE 2021"
PUBLISHED = (
    Published("FQ-BERT, ZCU102", DATE_2021, 43.89, 214, 1751),
    Published("FQ-BERT, ZCU111", DATE_2021, 23.79, 214, 3287),
)


@dataclass(frozen=True)
class Played:
    """One inference of BERT-Base in the simulated Verilog.

    Attributes
    ----------
    cycles
        Of the register `cycles`.
    values, mismatches
        Compared logits and writes of intermediates, and how many differ from golden's.
    problem
        What is wrong, "" when nothing is.
    """

    cycles: int
    values: int
    mismatches: int
    problem: str


@dataclass(frozen=True)
class Row:
    """An accelerator on BERT-Base.

    Attributes
    ----------
    products
        Multiply-accumulates of the encoder layers that it computes.
    utilisation
        Products / (N^2 * cycles); None where N is not this project's.
    played
        What its Verilog did; None where it was not played.
    """

    name: str
    last_layer: str
    dsp: int
    cycles: int
    products: int
    utilisation: float | None
    played: Played | None = None

    @property
    def per_dsp(self) -> float:
        """Products a DSP and cycle."""
        return self.products / self.dsp / self.cycles


def limits(lanes: int) -> Config:
    """The smallest accelerator that takes it."""
    return Config(lanes=lanes, tokens=TOKENS, hidden=HIDDEN, ffn=FFN)


def measured(model: Model, lanes: int, *, whole_last_layer: bool, playing: bool) -> Row:
    """This accelerator with so many lanes, as predicted and, where asked for, as played."""
    config = limits(lanes)
    program = compile_model(model, config, whole_last_layer=whole_last_layer)
    found = predict(program, TOKENS)
    products = sum(phase.macs for phase in found.phases if phase.name.startswith(LAYER))
    return Row(
        name=f"{lanes} lanes",
        last_layer="whole" if whole_last_layer else "first row tile",
        dsp=estimate(config)["DSP"],
        cycles=found.cycles,
        products=products,
        utilisation=products / lanes**2 / found.cycles,
        played=play(model, program, found.cycles) if playing else None,
    )


def play(model: Model, program: Program, cycles: int) -> Played:
    """One inference on random tokens in the Verilog, every write compared; `cycles` are due.

    Raises
    ------
    SimulatorError, MachineError
        As the harness.
    """
    rng = np.random.default_rng(0)
    ids = rng.integers(model.shape.vocabulary, size=TOKENS, dtype=np.int32)
    types = rng.integers(max(model.shape.types, 1), size=TOKENS, dtype=np.int32)
    (logits,) = fast.run_batch(model, [ids], [types])
    setup = Setup(
        model=model,
        config=program.config,
        program=program,
        rows=embedding_table(model, program.config.lanes),
        stream_bytes=None,
        stream_ahead=1,
        row_latency=ROW_LATENCY,
        stalls=None,
    )
    stage(f"playing {program.config.lanes} lanes")
    (verdict,) = simulate(setup, (0, [[Review(Tokens(ids, types, ()), logits, traced=True)]]))
    late = f"{cycles:,} cycles were predicted" * (verdict.cycles != cycles)
    return Played(verdict.cycles, verdict.values, verdict.mismatches, verdict.problem or late)


def beside(products: int) -> list[Row]:
    """The published ones; all compute that many products."""
    return [
        Row(one.name, "whole", one.dsp, one.cycles, products, utilisation=None) for one in PUBLISHED
    ]


def report(rows: Sequence[Row]) -> str:
    """A line an accelerator, and where the published figures come from."""
    headings = [
        *("accelerator", "last layer", "DSP", "cycles", "products a cycle", "utilisation"),
        "products a DSP and cycle",
    ]
    lines = [
        [
            row.name,
            row.last_layer,
            row.dsp,
            row.cycles,
            round(row.products / row.cycles),
            "-" if row.utilisation is None else f"{row.utilisation:.1%}",
            f"{row.per_dsp:.3f}",
        ]
        for row in rows
    ]
    told = [
        f"{row.name}, {row.last_layer}: {row.played.cycles:,} cycles in the Verilog, "
        f"{row.played.values:,} values compared with golden, {row.played.mismatches:,} differ; "
        + (row.played.problem or "as predicted, equal bit for bit")
        for row in rows
        if row.played
    ]
    told += [
        f"{one.name}: {one.milliseconds} ms at {one.clock_mhz:g} MHz ({one.source})"
        for one in PUBLISHED
    ]
    return "\n".join([table(headings, lines), "", *told])


def parser() -> Parser:
    result = Parser("sim.published", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "--lanes",
        type=int,
        nargs="+",
        choices=LANES,
        default=(32, 64),
        metavar="N",
        help=f"some of {' '.join(map(str, LANES))} (default: 32 64)",
    )
    result.add_argument(
        "--play", action="store_true", help="run each through the simulated Verilog, too"
    )
    add_json(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    model = example(limits(options.lanes[0]), LAYERS)
    plan = [(lanes, whole) for lanes in options.lanes for whole in (True, False)]
    found = [
        measured(model, lanes, whole_last_layer=whole, playing=options.play)
        for lanes, whole in progress(plan, "counting", "accelerators", total=len(plan))
    ]
    rows = found + beside(found[0].products)
    print(report(rows))
    if options.json:
        write_json(options.json, [asdict(row) | {"per_dsp": row.per_dsp} for row in rows])
    failed = any(row.played and row.played.problem for row in rows)
    return Exit.DIFFERENT if failed else Exit.OK


if __name__ == "__main__":
    sys.exit(main())
