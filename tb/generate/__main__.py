"""`python -m tb.generate`: a self-checking SystemVerilog bench of a unit, for any simulator.

A review has to be tokenized and its model found, so this program uses quant and sim. Nothing
imports it: what writes a bench is in `tb.generate.folder` and needs neither.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cli.command import run_command
from cli.errors import UserError
from cli.machine import BUILD
from cli.options import Parser, add_columns, add_lanes, add_tokens, positive, whole
from cli.progress import stage

from golden.model import Model
from quant.quantized_model import QuantizedModel
from rtl.compile.fit import fitting_model
from rtl.dma.options import add_bus_options, bus_of
from rtl.generate.sheet import STREAMED, refuse_dma
from rtl.generate.units import unit as unit_of
from rtl.interface.config import LANES, Config, array
from sim.design import generated
from sim.options import add_model_options, quantized_of
from sim.record import recorded
from sim.run import TOKENS, input_of
from sim.vectors import sequences_of
from tb.cut import Sequence as Tokens
from tb.generate.folder import bench_of, check_folder, write_bench

DESCRIPTION = """\
Write a self-checking SystemVerilog bench of a unit that needs no Python to run.

The folder holds the unit's Verilog, the bench, $readmemh vectors, and a README with the lines for
other simulators. The bench ends with PASS or with the first value that differs: run
DIR/run_icarus.sh or DIR/run_verilator.sh. The accelerator plays small models and a review, and
every trace port is held to golden; with DMA it has an AXI4 memory. The cocotb bench of any other
unit is recorded on Icarus: what it gives and reads is what its bench here plays.
"""
EXAMPLES = """\
examples:
  python -m tb.generate softmax
  python -m tb.generate accelerator --text "That movie was terrible!" --lanes 4 -o build/bench
  python -m tb.generate accelerator --stalls 7 --tokens 32
  python -m tb.generate accelerator --dma --data-bits 128 --tokens 32
  python -m tb.generate layernorm --no-review -o build/layernorm
"""
OUT = BUILD / "bench"
#: Values or rows of each tensor of a review.
LIMIT = 1024
OF_REVIEWS = "model", "quantized", "tokens", "limit"
SEED_MAX = (1 << 31) - 1


def _parser() -> Parser:
    parser = Parser("tb.generate", DESCRIPTION, EXAMPLES)
    parser.add_argument("unit", help="which unit; `python -m rtl.generate --list` shows them")
    source = parser.add_mutually_exclusive_group()
    what = "default: a review of the test split"
    source.add_argument("--text", "--review", dest="review", metavar="TEXT", help=what)
    what = "random cases alone, in the default configuration: no model is needed"
    source.add_argument("--no-review", action="store_true", help=what)
    add_model_options(parser)
    add_lanes(parser, LANES)
    add_columns(parser)
    add_tokens(parser, TOKENS)
    what = "of the accelerator: pauses on every stream, drawn by this seed (default: none)"
    parser.add_argument("--stalls", type=whole(1, SEED_MAX), metavar="SEED", help=what)
    what = "values or rows of each tensor for any other unit (default: %(default)s)"
    parser.add_argument("--limit", type=positive, default=LIMIT, metavar="N", help=what)
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=f"default: {OUT}/UNIT")
    add_bus_options(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    name, bus = unit_of(options.unit).name, bus_of(options)
    if bus is not None:
        refuse_dma(name)
    if options.stalls is not None and name != STREAMED:
        raise UserError(
            f"--stalls is for the {STREAMED}: the pauses of {name} are those of its cocotb bench"
        )
    plain = _parser()
    given = [x for x in OF_REVIEWS if getattr(options, x) != plain.get_default(x)]
    if options.no_review and given:
        raise UserError(f"--{given[0]} is of reviews: leave it or --no-review out")
    if name == STREAMED and "limit" in given:
        raise UserError(f"--limit is for other units: the {STREAMED} plays all, so leave it out")
    out = options.out or OUT / name
    check_folder(out)
    reviews: list[tuple[Model, Tokens]] = []
    config = Config(lanes=options.lanes, columns=options.columns)
    if not options.no_review:
        quantized = QuantizedModel.load(quantized_of(options), None, floats=False)
        text = input_of(quantized.spec, options.review)
        model, (review,) = sequences_of([text], quantized, options.tokens)
        config = fitting_model(model, options.lanes, len(review.ids), columns=options.columns)
        reviews.append((model, review))
    shape, record = array(config.lanes, config.tile_columns), None
    stage(f"generating the bench of {name}, {shape}")
    if name != STREAMED:  # its cocotb bench plays four row tiles of 45 channels
        tokens, hidden = max(config.tokens, 4 * config.lanes, 32), max(config.hidden, 45)
        config = replace(config, tokens=tokens, hidden=hidden)
        record = recorded(generated(name, config), config, reviews, options.limit)
    bench = bench_of(name, config, reviews, stalls=options.stalls, record=record, bus=bus)
    write_bench(bench, out)
    for played in bench.facts["inferences"]:
        print(f"plays  {played}")
    scripts = " or ".join(shlex.quote(f"{out}/run_{name}.sh") for name in ("icarus", "verilator"))
    print(f"{out}: run {scripts}; {out}/README.md says more")


if __name__ == "__main__":
    sys.exit(main())
