"""`python -m sim.cycles`: the cycles of an inference, without simulating it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json, add_lanes, positive

from golden.store import load
from rtl.compile.fit import fitting_model
from rtl.compile.program import Program, compile_model
from rtl.dma.bus import Bus
from rtl.dma.options import add_bus_options, bus_of
from rtl.interface.command import Opcode
from rtl.interface.config import LANES
from sim.cycles.dma import predict_dma
from sim.cycles.model import Phase, Prediction, predict
from sim.options import (
    ROW_LATENCY,
    add_lane_options,
    add_memory_options,
    add_model_options,
    add_stream_ahead,
    lanes_of,
    quantized_of,
)
from sim.phases import work
from sim.report import table
from tb.trace import CAUSES

DESCRIPTION = """\
Predict the cycles of an inference from a model's shape, without simulating it.

The prediction equals the register `cycles` of the simulated accelerator, and so do the cycles of
each phase and the stalls by cause. Limits of the accelerator (longest sequence, widest layer) have
no influence; they are chosen so that the model fits.

With --dma it is the accelerator that reads an image at address 0 itself. The memory takes an
address at once; the beats of a burst come one a cycle from --latency cycles after it on. The tokens
are those with the ids 0, 1, 2 ...: they matter only where rows are no whole bursts.
"""
EXAMPLES = """\
examples:
  python -m sim.cycles
  python -m sim.cycles --quantized build/bert-tiny-imdb --lanes 16 --tokens 64
  python -m sim.cycles --stream-bytes 4 --row-latency 100 --whole-last-layer
  python -m sim.cycles --json build/cycles.json
  python -m sim.cycles --dma --data-bits 32 --latency 50
  python -m sim.cycles --dma --table
"""
CLOCK_MHZ = 100
LAYER = "layer."
WIDTHS, LATENCIES = (32, 64, 128), (20, 50, 100)
"""Of the table, bits and cycles."""


def _layers(prediction: Prediction, lanes: int) -> tuple[float, int]:
    """MACs / N^2 of the encoder layers, and cycles from their first operand to their last."""
    layers = [phase for phase in prediction.phases if phase.name.startswith(LAYER)]
    ideal = sum(phase.macs for phase in layers) / lanes**2
    return ideal, layers[-1].last - layers[0].first + 1


def figures(prediction: Prediction, lanes: int) -> dict[str, object]:
    """Everything that the table shows, for JSON."""
    ideal, span = _layers(prediction, lanes)
    macs = sum(phase.macs for phase in prediction.phases)
    return {
        "total_cycles": prediction.cycles,
        "active": prediction.active,
        "stalls": prediction.stalls,
        "macs": macs,
        "utilisation": macs / lanes**2 / prediction.cycles,
        "layers": {
            "ideal_cycles": ideal,
            "cycles": span,
            "ideal_over_total": ideal / prediction.cycles,
            "ideal_over_layers": ideal / span,
        },
        "clock_mhz": CLOCK_MHZ,
        "microseconds": prediction.cycles / CLOCK_MHZ,
        "phases": [
            asdict(phase)
            | {
                "opcode": phase.opcode.name,
                "cycles": phase.cycles,
                "utilisation": phase.macs / lanes**2 / phase.cycles,
            }
            for phase in prediction.phases
        ],
    }


def _row(phase: Phase, lanes: int) -> list[object]:
    name = f"{phase.name}.attend" if phase.opcode is Opcode.ATTEND else phase.name
    ideal = phase.macs / lanes**2
    share = f"{ideal / phase.cycles:.1%}" if phase.macs else "-"
    stalls = [phase.stalls[cause] for cause in CAUSES]
    return [name, phase.first, phase.cycles, round(ideal), share, phase.active, *stalls]


def report(prediction: Prediction, lanes: int) -> str:
    """The phases as a table, and the totals."""
    headings = ["phase", "first", "cycles", "ideal", "utilisation", "active", *CAUSES]
    total = sum(phase.macs for phase in prediction.phases) / lanes**2
    rows = [_row(phase, lanes) for phase in prediction.phases]
    rows.append(
        [
            "total",
            0,
            prediction.cycles,
            round(total),
            f"{total / prediction.cycles:.1%}",
            prediction.active,
            *(prediction.stalls[cause] for cause in CAUSES),
        ]
    )
    ideal, span = _layers(prediction, lanes)
    microseconds = prediction.cycles / CLOCK_MHZ
    return (
        f"{table(headings, rows)}\n\n"
        f"{prediction.cycles:,} cycles from the start to the last logit: {microseconds:,.1f} us at "
        f"{CLOCK_MHZ} MHz, {1e6 / microseconds:,.0f} a second.\n"
        f"Encoder layers: ideal {ideal:,.0f} cycles (MACs / N^2), {ideal / prediction.cycles:.1%} "
        f"of the total and {ideal / span:.1%} of the {span:,} from their first operand to their "
        "last.\nStalls stand with the phase that waited; the rest of the idle cycles follow the "
        "last operand."
    )


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def by_memory(program: Program, ids: Sequence[int], bus: Bus) -> dict[int, dict[int, int]]:
    """Cycles by width of the bus in bits and latency of the memory."""
    types = [0] * len(ids)
    return {
        bits: {
            latency: predict_dma(
                program, ids, types, bus=replace(bus, data_bits=bits), latency=latency
            ).cycles
            for latency in LATENCIES
        }
        for bits in WIDTHS
    }


def _print_by_memory(found: dict[int, dict[int, int]], streamed: int) -> None:
    headings = ["bits", "bytes a beat", *(f"latency {latency}" for latency in LATENCIES)]
    rows = [[bits, bits // 8, *cycles.values()] for bits, cycles in found.items()]
    print(table(headings, rows))
    print(
        f"\n{streamed:,} cycles with streams that bring a word a cycle, rows after {ROW_LATENCY}."
    )


def _parser() -> Parser:
    result = Parser("sim.cycles", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    add_lanes(result, LANES)
    add_lane_options(result)
    result.add_argument(
        "--tokens",
        type=positive,
        default=128,
        metavar="L",
        help="length of the sequence (default: 128)",
    )
    add_memory_options(result)
    add_stream_ahead(result)
    add_bus_options(result)
    result.add_argument(
        "--latency",
        type=positive,
        metavar="N",
        help=f"with --dma: cycles from an address to its first beat (default: {ROW_LATENCY})",
    )
    result.add_argument(
        "--table",
        action="store_true",
        help=f"with --dma: cycles by width, {_listed(WIDTHS)} bits, and latency, "
        f"{_listed(LATENCIES)}",
    )
    add_json(result)
    return result


def _run(options: argparse.Namespace) -> None:
    bus = bus_of(options)
    for name in ("latency", "table"):
        if bus is None and getattr(options, name):
            raise ValueError(f"--{name} is for the accelerator with --dma: give both or none")
    streams = options.stream_bytes, options.stream_ahead, options.row_latency
    if bus is not None and streams != (None, 1, ROW_LATENCY):
        raise ValueError(
            "--stream-bytes, --stream-ahead and --row-latency are of streams: with --dma give "
            "--data-bits, --outstanding and --latency"
        )
    directory = quantized_of(options)
    model, _ = load(directory)
    longest = model.shape.tokens
    if not 1 <= options.tokens <= longest:
        raise ValueError(f"--tokens is {options.tokens}: the model takes 1..{longest}")
    config = fitting_model(model, options.lanes, options.tokens, **lanes_of(options))
    program = compile_model(model, config, whole_last_layer=options.whole_last_layer)
    ids = [i % model.shape.vocabulary for i in range(options.tokens)]
    if bus is not None and options.table:
        found, streamed = by_memory(program, ids, bus), predict(program, options.tokens).cycles
        _print_by_memory(found, streamed)
        if options.json:
            write_json(options.json, {"cycles": found, "streamed": streamed})
        return
    latency = ROW_LATENCY if options.latency is None else options.latency
    if bus is None:
        memory: dict[str, object] = {
            "stream_bytes": options.stream_bytes or config.lanes,
            "stream_ahead": options.stream_ahead,
            "row_latency": options.row_latency,
        }
        prediction = predict(
            program,
            options.tokens,
            stream_bytes=options.stream_bytes,
            stream_ahead=options.stream_ahead,
            row_latency=options.row_latency,
        )
    else:
        memory = bus.as_dict() | {"latency": latency}
        prediction = predict_dma(program, ids, [0] * options.tokens, bus=bus, latency=latency)
    assert sum(phase.macs for phase in prediction.phases) == work(program, options.tokens)
    print(report(prediction, config.lanes))
    if options.json:
        inputs = {
            "model": str(directory),
            "lanes": config.lanes,
            "tokens": options.tokens,
            **memory,
            "whole_last_layer": options.whole_last_layer,
        }
        write_json(options.json, inputs | figures(prediction, config.lanes))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
