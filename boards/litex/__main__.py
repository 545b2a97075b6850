"""`python -m boards.litex`: the accelerator in a LiteX SoC, driven by the C driver on its CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from cli.command import Different, run_command
from cli.files import write_json
from cli.options import Parser, add_columns, add_json, add_lanes, add_seed, positive

from boards.litex.job import Job, Step, difference, steps_of
from golden.store import load
from rtl.dma.bus import Bus
from rtl.interface.config import LANES
from sim.report import table

DESCRIPTION = """\
The accelerator with DMA in a LiteX SoC: VexRiscv, ROM, memory and UART on a bus of 32 bits, in
LiteX's own simulation with Verilator. The CPU runs the C driver of driver/: it reads the image in
its memory, sends tokens, waits by polling and by interrupt and prints what it reads on the UART.
Then a bit of the stream is flipped, one of the rows, and the stream looked for where no memory is.

Logits have to be golden's, errors the accelerator's. The cycles are those of its register, beside
those predicted for a memory with a beat every cycle (sim.cycles --dma --latency 1): the bus of the
SoC is slower. Needs `make setup-litex`.
"""
EXAMPLES = """\
examples:
  python -m boards.litex
  python -m boards.litex --standard wishbone --sequences 4 --seed 1
  python -m boards.litex --quantized build/bert-tiny-imdb --sequences 1
  python -m boards.litex --json build/litex.json
"""
FEWEST = min(LANES)
BUS_BITS = 32
STANDARDS = ("axi", "wishbone")
"""Buses that LiteX offers; it has a third, AXI4-Lite, for what sends no bursts."""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _command(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("boards.litex", DESCRIPTION, EXAMPLES)
    add_lanes(result, LANES, default=FEWEST)
    add_columns(result)
    result.add_argument(
        "--standard",
        choices=STANDARDS,
        default=STANDARDS[0],
        help=f"the bus of the SoC (default: {STANDARDS[0]})",
    )
    result.add_argument(
        "--quantized",
        type=Path,
        metavar="DIR",
        help="folder that quant.calibrate wrote (default: a small model of random integers)",
    )
    result.add_argument(
        "--sequences", type=positive, default=2, metavar="N", help="how many (default: 2)"
    )
    add_seed(result, "the small model and the sequences")
    add_json(result)
    return result


def _command(options: argparse.Namespace) -> None:
    model = load(options.quantized)[0] if options.quantized else None
    bus = Bus(data_bits=BUS_BITS)
    job = Job(model, options.lanes, options.sequences, options.seed, bus, columns=options.columns)
    # LiteX is loaded when it is needed: without it --help and refusals are the same.
    from boards.litex.simulation import simulate

    lines = simulate(job, options.standard, lambda line: print(f"  {line}", flush=True))
    told = steps_of(lines)
    if options.json:
        write_json(options.json, figures(options.standard, job, told))
    if what := difference(lines, job):
        raise Different(what)
    print(report(job, told))


def figures(standard: str, job: Job, told: Sequence[Step]) -> dict[str, object]:
    """Everything that the table shows, for JSON."""
    return {
        "standard": standard,
        "lanes": job.config.lanes,
        "columns": job.config.tile_columns,
        "stream_bytes": len(job.program.stream()),
        "sequences": [
            {"tokens": len(one.ids), "logits": logits, "predicted_cycles": cycles}
            for one, logits, cycles in zip(job.sequences, job.logits, job.predicted)
        ],
        "inferences": [asdict(step) for step in told],
    }


def report(job: Job, told: Sequence[Step]) -> str:
    """The cycles of the sound inferences beside the predicted ones."""
    count = len(job.sequences)
    rows = [
        [step.name, len(one.ids), step.cycles, cycles, round(step.cycles / cycles, 2)]
        for step, one, cycles in zip(told, job.sequences * 2, job.predicted * 2)
    ]
    head = ["waiting by", "tokens", "cycles", "predicted", "ratio"]
    return (
        f"\n{table(head, rows)}\n\n{4 + 2 * count} inferences; logits, error codes and "
        "interrupts are as they have to be."
    )


if __name__ == "__main__":
    sys.exit(main())
