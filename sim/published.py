"""`python -m sim.published`: BERT-Base by the exact cycle model, beside published accelerators."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json
from cli.progress import progress

from golden.model import Model
from rtl.compile.program import compile_model
from rtl.interface.config import LANES, Config
from sim.cycles.model import predict
from sim.estimate.area import estimate
from sim.estimate.performance import example
from sim.performance import LAYER
from sim.report import table

DESCRIPTION = """\
Set the cycles of BERT-Base (12 layers, hidden 768, 12 heads, feed-forward 3,072) on 128 tokens
beside those of published accelerators.

Cycles of this accelerator are those of the exact cycle model, which the simulated Verilog is held
to, with a word of the command stream a cycle: embedding and head included. Cycles of the others are
their latency times their clock. Products are the multiply-accumulates of the encoder layers,
padding left out; utilisation is products / (N^2 * cycles).
"""
EXAMPLES = """\
examples:
  python -m sim.published
  python -m sim.published --lanes 16 32 --json build/published.json
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
class Row:
    """An accelerator on BERT-Base.

    Attributes
    ----------
    products
        Multiply-accumulates of the encoder layers that it computes.
    utilisation
        Products / (N^2 * cycles); None where N is not this project's.
    """

    name: str
    last_layer: str
    dsp: int
    cycles: int
    products: int
    utilisation: float | None

    @property
    def per_dsp(self) -> float:
        """Products a DSP and cycle."""
        return self.products / self.dsp / self.cycles


def limits(lanes: int) -> Config:
    """The smallest accelerator that takes it."""
    return Config(lanes=lanes, tokens=TOKENS, hidden=HIDDEN, ffn=FFN)


def predicted(model: Model, lanes: int, *, whole_last_layer: bool) -> Row:
    """This accelerator with so many lanes."""
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
    )


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
    add_json(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    model = example(limits(options.lanes[0]), LAYERS)
    plan = [(lanes, whole) for lanes in options.lanes for whole in (True, False)]
    found = [
        predicted(model, lanes, whole_last_layer=whole)
        for lanes, whole in progress(plan, "predicting", "accelerators", total=len(plan))
    ]
    rows = found + beside(found[0].products)
    print(report(rows))
    if options.json:
        write_json(options.json, [asdict(row) | {"per_dsp": row.per_dsp} for row in rows])


if __name__ == "__main__":
    sys.exit(main())
