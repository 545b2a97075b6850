"""`python -m sim.cycles`: the cycles of inferences, and texts a second, without simulating them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import cycle, product

from cli.command import Exit, run_command
from cli.errors import UserError
from cli.files import write_json
from cli.options import LANES as DEFAULT_LANES
from cli.options import Parser, add_json, positive, whole
from cli.progress import progress, stage

from golden.model import Model, Window
from quant import reader
from quant.calibrate import DEFAULT_DATA
from quant.foreign.tokenizer import encode
from quant.images import data as images
from rtl.compile.fit import fitting_model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.dma.bus import Bus
from rtl.dma.options import add_bus_options, bus_of
from rtl.interface.command import Opcode
from rtl.interface.config import HEADS_MAX, LANES, Config
from sim.cycles import batches, sweep
from sim.cycles.dma import predict_dma
from sim.cycles.model import Phase, Prediction, predict
from sim.cycles.sweep import Case, layers
from sim.estimate.area import estimate
from sim.estimate.performance import example, gated, turned
from sim.machine.inference import Loaded
from sim.options import (
    ROW_LATENCY,
    add_lane_options,
    add_memory_options,
    add_model_options,
    add_stream_ahead,
    lane_number,
    lanes_of,
    listed,
    memory_of,
    quantized_of,
    shape_of,
)
from sim.phases import CLOCK_MHZ, work
from sim.report import table
from tb.trace import CAUSES

DESCRIPTION = """\
Predict the cycles of an inference from a model's shape, without simulating it.

--lanes, --tokens, --stream-bytes and --batch take several values with commas between them: then
each inference is a line of a table. With --play each also runs through the simulated Verilog; the
exit status is 1 where a value differs from golden's or a counter from the prediction. With --batch
it is texts a second: each text in an inference of its own, and in batches.

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
  python -m sim.cycles --lanes 8,16 --tokens 16,64,128 --play
  python -m sim.cycles --shape 12,768,3072 --lanes 32,64 --whole-last-layer
  python -m sim.cycles --shape 12,768,3072 --position-bias --lanes 16
  python -m sim.cycles --shape 12,768,3072 --tokens 512 --window all,all --window 64,64 --lanes 16
  python -m sim.cycles --shape 12,768,3072 --rotary --gated --lanes 16
  python -m sim.cycles --batch 256 --data rotten-tomatoes --lanes 16 --stream-bytes 2,16
  python -m sim.cycles --dma --data-bits 32 --latency 50
  python -m sim.cycles --dma --table
  python -m sim.cycles --lanes 16 --explain
"""
TEXTS = 1000
TOKENS = 128
WIDTHS, LATENCIES = (32, 64, 128), (20, 50, 100)
"""Of the table, bits and cycles."""


def figures(prediction: Prediction, multipliers: int) -> dict[str, object]:
    """Everything that the table shows, for JSON; so many multipliers work at once."""
    ideal, span = layers(prediction, multipliers)
    macs = sum(phase.macs for phase in prediction.phases)
    return {
        "total_cycles": prediction.cycles,
        "active": prediction.active,
        "stalls": prediction.stalls,
        "macs": macs,
        "utilisation": macs / multipliers / prediction.cycles,
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
                "utilisation": phase.macs / multipliers / phase.cycles,
            }
            for phase in prediction.phases
        ],
    }


def _row(phase: Phase, multipliers: int) -> list[object]:
    name = f"{phase.name}.attend" if phase.opcode is Opcode.ATTEND else phase.name
    ideal = phase.macs / multipliers
    share = f"{ideal / phase.cycles:.1%}" if phase.macs else "-"
    stalls = [phase.stalls[cause] for cause in CAUSES]
    return [name, phase.first, phase.cycles, round(ideal), share, phase.active, *stalls]


def report(prediction: Prediction, multipliers: int) -> str:
    """The phases as a table, and the totals."""
    headings = ["phase", "first", "cycles", "ideal", "utilisation", "active", *CAUSES]
    total = sum(phase.macs for phase in prediction.phases) / multipliers
    rows = [_row(phase, multipliers) for phase in prediction.phases]
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
    ideal, span = layers(prediction, multipliers)
    milliseconds = prediction.cycles / CLOCK_MHZ / 1e3
    return (
        f"{table(headings, rows)}\n\n"
        f"{prediction.cycles:,} cycles from the start to the last logit: {milliseconds:,.2f} ms at "
        f"{CLOCK_MHZ} MHz, {1e3 / milliseconds:,.0f} texts a second.\n"
        f"Encoder layers: ideal {ideal:,.0f} cycles (MACs / (N x M)), "
        f"{ideal / prediction.cycles:.1%} of the total and {ideal / span:.1%} of the {span:,} from "
        "their first operand to their last.\nStalls stand with the phase that waited; the rest of "
        "the idle cycles follow the last operand."
    )


COLUMNS = {
    "first": "cycle of the phase's first operand, counted from the start of the inference",
    "cycles": "from the first operand to the last; of the total to the last logit",
    "ideal": "multiplications / (N x M), as if every multiplier worked in every cycle",
    "utilisation": "ideal / cycles",
    "active": "cycles in which an operand was read",
    "idle": "cycles without one: nothing to compute yet or any more, or a fence that waits until "
    "the array is quiet",
    "weights": "the same: the weight tile or the embedding rows are not loaded",
    "norm": "the same: the row tile is not normalised",
    "softmax": "the same: the softmax has not finished",
    "drain": "the same: the tile is shorter than N and the array still drains",
}
"""What `--explain` says."""


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


def _shape(text: str) -> list[int]:
    values = [whole(1)(part) for part in text.split(",")]
    if len(values) != 3:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape: give layers, hidden size and feed-forward size, 12,768,3072"
        )
    return values


def _side(text: str) -> int | None:
    return None if text == "all" else whole(0)(text)


def _window(text: str) -> Window | None:
    sides = text.split(",")
    if len(sides) != 2:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no window: give the keys before and those behind a query, 64,64, or all "
            "of them on a side: all,0 is causal, all,all a layer without a window"
        )
    before, after = map(_side, sides)
    if before is None and after is None:
        return None
    try:
        return Window(before, after)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _said(window: Window | None) -> str:
    """A window as `_window` reads it."""
    sides = (None, None) if window is None else (window.before, window.after)
    return ",".join("all" if side is None else str(side) for side in sides)


def _parser() -> Parser:
    result = Parser("sim.cycles", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    result.add_argument(
        "--shape",
        type=_shape,
        metavar="LAYERS,HIDDEN,FFN",
        help="no model but random integers of this shape, with heads of 64 channels: 12,768,3072 "
        "is BERT-Base",
    )
    result.add_argument(
        "--position-bias",
        action="store_true",
        help="with --shape: its scores have a position bias, as MPNet's",
    )
    result.add_argument(
        "--rotary",
        action="store_true",
        help="with --shape: all layers have rotary positions, as ModernBERT's",
    )
    result.add_argument(
        "--gated",
        action="store_true",
        help="with --shape: all feed-forward networks are gated, as ModernBERT's",
    )
    result.add_argument(
        "--window",
        type=_window,
        action="append",
        metavar="BEFORE,AFTER",
        help="with --shape: how many keys before and behind its own a query sees, 64,64, or all of "
        "a side; of several --window the layers take one each, in turn",
    )
    result.add_argument(
        "--lanes",
        type=listed(lane_number),
        default=[DEFAULT_LANES],
        metavar="N",
        help=f"N lanes: some of {_listed(LANES)} (default: {DEFAULT_LANES})",
    )
    add_lane_options(result)
    result.add_argument(
        "--tokens",
        type=listed(positive),
        metavar="L",
        help="lengths of the sequence; with --batch texts are cut to it (default: "
        f"{TOKENS}; of a model of images the one length that they have)",
    )
    add_memory_options(result, stream_bytes=listed(positive))
    add_stream_ahead(result)
    result.add_argument(
        "--play",
        action="store_true",
        help="also run random tokens through the simulated Verilog: every logit and every write of "
        "every named intermediate must be golden's, every counter as predicted",
    )
    texts = result.add_argument_group("texts a second")
    texts.add_argument(
        "--batch",
        type=listed(positive),
        metavar="TOKENS",
        help="texts alone, and as many an inference as a token memory of so many tokens holds",
    )
    texts.add_argument(
        "--data",
        metavar="NAME",
        help="with --batch: imdb, rotten-tomatoes (their test split), or a file (default: imdb)",
    )
    texts.add_argument(
        "--texts", type=positive, metavar="N", help=f"with --batch: how many (default: {TEXTS})"
    )
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
    result.add_argument(
        "--explain", action="store_true", help="say below the table what its columns are"
    )
    add_json(result)
    return result


def _check(options: argparse.Namespace, bus: Bus | None) -> None:
    """Refuse options that do not go together."""
    for name in ("latency", "table"):
        if bus is None and getattr(options, name):
            raise UserError(f"--{name} is for the accelerator with --dma: give both or none")
    streams = options.stream_bytes, options.stream_ahead, options.row_latency
    if bus is not None and streams != (None, 1, ROW_LATENCY):
        raise UserError(
            "--stream-bytes, --stream-ahead and --row-latency are of streams: with --dma give "
            "--data-bits, --outstanding and --latency"
        )
    for name in ("play", "batch"):
        if bus is not None and getattr(options, name):
            raise UserError(f"--{name} is for the accelerator without --dma: leave one away")
    for name in ("data", "texts"):
        if options.batch is None and getattr(options, name) is not None:
            raise UserError(f"--{name} is for --batch: give both or none")
    if options.batch is not None and options.play:
        raise UserError("--batch predicts: `python -m sim.regress --batch` plays batches")
    if options.table and len(options.lanes) * len(options.tokens or (0,)) > 1:
        raise UserError("--table is of one accelerator: give one of --lanes and one of --tokens")
    if options.shape is not None:
        for name in ("model", "quantized", "batch"):
            if getattr(options, name) is not None:
                raise UserError(f"--{name} needs a model, --shape is none: leave one away")
    elif options.position_bias:
        raise UserError("--position-bias is for --shape: a model has one or not")
    elif options.window:
        raise UserError("--window is for --shape: the layers of a model have windows or not")
    for name in ("rotary", "gated"):
        if getattr(options, name) and options.shape is None:
            raise UserError(f"--{name} is for --shape: the layers of a model are or are not")


def _batches(options: argparse.Namespace) -> None:
    """Texts a second."""
    spec, its = reader.of_options(options)
    data = options.data or images.usual(spec.inputs, DEFAULT_DATA)
    texts = images.load(spec.inputs, data, "test", names=(), task=spec.task)
    texts = texts[: options.texts or TEXTS]
    if not texts:
        raise UserError(f"{data} holds no text: nothing would be counted")
    model, directory, fixed = shape_of(options)
    options.tokens = _lengths(options, fixed)
    cut = {
        tokens: [len(encode(spec, its, t.content, t.pair, tokens).ids) for t in texts]
        for tokens in options.tokens
    }
    rates = options.stream_bytes or [None]
    plan = list(product(cut.items(), options.lanes, rates, options.batch))
    found = [
        batches.measure(
            model,
            lengths,
            lanes,
            memory,
            choices=lanes_of(options),
            whole_last_layer=options.whole_last_layer,
            stream_bytes=rate,
            stream_ahead=options.stream_ahead,
            row_latency=options.row_latency,
        )
        for (_, lengths), lanes, rate, memory in progress(plan, "predicting", "settings")
    ]
    print(batches.report(found))
    if options.json:
        inputs = {"model": str(directory), "data": data, "clock_mhz": CLOCK_MHZ}
        write_json(options.json, [inputs | asdict(one) for one in found])


def _lengths(options: argparse.Namespace, fixed: int) -> list[int]:
    """Those of --tokens; of a model of images, whose inputs are all `fixed` tokens, that alone."""
    found: list[int] = options.tokens or [fixed or TOKENS]
    if fixed and found != [fixed]:
        raise UserError(
            f"--tokens is {_listed(found)}: an image of this model has {fixed} tokens, of which "
            "none can be cut: leave --tokens away"
        )
    return found


def _model(options: argparse.Namespace) -> tuple[Model, str]:
    """The model, and what the JSON calls it; --tokens where they were not given."""
    if options.shape is not None:
        options.tokens = _lengths(options, 0)
        longest = max(options.tokens)
        layers, hidden, ffn = options.shape
        heads = HEADS_MAX if options.position_bias else 0
        config = Config(tokens=longest, hidden=hidden, ffn=ffn, bias_heads=heads)
        name = f"{layers} layers, hidden {hidden}, feed-forward {ffn}"
        name += ", position bias" if options.position_bias else ""
        name += ", rotary positions" * options.rotary + ", gated" * options.gated
        model = example(config, layers)
        model = replace(model, layers=tuple(map(gated, model.layers))) if options.gated else model
        model = turned(model) if options.rotary else model
        if options.window:
            name += f", windows in turn: {'; '.join(map(_said, options.window))}"
            limited = (
                replace(layer, window=window)
                for layer, window in zip(model.layers, cycle(options.window))
            )
            model = replace(model, layers=tuple(limited))
        return model, name
    if options.play:
        options.quantized = quantized_of(options)
    model, directory, fixed = shape_of(options)
    options.tokens = _lengths(options, fixed)
    for tokens in options.tokens:
        if tokens > model.shape.tokens:
            raise UserError(f"--tokens is {tokens}: the model takes 1..{model.shape.tokens}")
    return model, str(directory)


def _program(options: argparse.Namespace, model: Model, lanes: int) -> Program:
    """The model compiled for the accelerator of so many lanes that takes all lengths."""
    config = fitting_model(model, lanes, max(options.tokens), **lanes_of(options))
    return compile_model(model, config, whole_last_layer=options.whole_last_layer)


def _ids(model: Model, tokens: int) -> list[int]:
    return [i % model.shape.vocabulary for i in range(tokens)]


Told = tuple[Case, dict[str, object]]
"""A case, and what the JSON says of the memories around it."""


def _streamed(options: argparse.Namespace, model: Model, program: Program) -> Iterator[Told]:
    """Each length and rate, played where asked for."""
    config, dsp = program.config, estimate(program.config)["DSP"]
    table = embedding_table(model, config.lanes) if options.play else None
    for tokens, rate in product(options.tokens, options.stream_bytes or [None]):
        memory = memory_of(options) | {"stream_bytes": rate}
        found = predict(program, tokens, **memory)
        played = None
        if table is not None:
            stage(f"playing {tokens:,} tokens on {config.lanes} x {config.tile_columns}")
            played = sweep.play(Loaded(program, table), model, tokens, memory)
        width = rate or config.stream_width
        case = Case(config.lanes, config.tile_columns, tokens, width, dsp, found, played)
        yield case, memory | {"stream_bytes": width}


def _fetched(
    options: argparse.Namespace, model: Model, program: Program, bus: Bus
) -> Iterator[Told]:
    """Each length, with DMA."""
    config, dsp = program.config, estimate(program.config)["DSP"]
    latency = options.latency or ROW_LATENCY
    for tokens in options.tokens:
        ids = _ids(model, tokens)
        found = predict_dma(program, ids, [0] * tokens, bus=bus, latency=latency)
        width = bus.data_bits // 8
        case = Case(config.lanes, config.tile_columns, tokens, width, dsp, found)
        yield case, bus.as_dict() | {"latency": latency}


def _by_memory(options: argparse.Namespace, model: Model, bus: Bus) -> None:
    """The table of widths and latencies."""
    (lanes,), (tokens,) = options.lanes, options.tokens
    program = _program(options, model, lanes)
    found, streamed = by_memory(program, _ids(model, tokens), bus), predict(program, tokens).cycles
    _print_by_memory(found, streamed)
    if options.json:
        write_json(options.json, {"cycles": found, "streamed": streamed})


def _run(options: argparse.Namespace) -> int:
    bus = bus_of(options)
    _check(options, bus)
    if options.batch is not None:
        _batches(options)
        return Exit.OK
    model, name = _model(options)
    if bus is not None and options.table:
        _by_memory(options, model, bus)
        return Exit.OK
    cases: list[Case] = []
    written: list[dict[str, object]] = []
    for lanes in options.lanes:
        program = _program(options, model, lanes)
        if bus is None:
            told = _streamed(options, model, program)
        else:
            told = _fetched(options, model, program, bus)
        for case, memory in told:
            assert sum(phase.macs for phase in case.prediction.phases) == work(program, case.tokens)
            cases.append(case)
            inputs = {"model": name, "lanes": lanes, "columns": case.columns}
            inputs |= {"tokens": case.tokens, **memory}
            inputs["whole_last_layer"] = options.whole_last_layer
            found = figures(case.prediction, case.macs) | sweep.as_dict(case.played)
            written.append(inputs | found)
    if len(cases) == 1:
        print(report(cases[0].prediction, cases[0].macs))
    else:
        print(sweep.report(cases))
    if options.explain:
        print("", *(f"{name:12} {meaning}" for name, meaning in COLUMNS.items()), sep="\n")
    if options.play:
        print("", *sweep.said(cases), sep="\n")
    if options.json:
        write_json(options.json, written[0] if len(written) == 1 else written)
    return Exit.OK if sweep.good(cases) else Exit.DIFFERENT


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
