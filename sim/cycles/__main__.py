"""`python -m sim.cycles`: the cycles of inferences, and texts a second, without simulating them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from typing import Any

from cli.command import Exit, run_command
from cli.errors import UserError
from cli.files import write_json
from cli.options import LANES as DEFAULT_LANES
from cli.options import Parser, add_columns, add_json, positive
from cli.progress import progress, stage

from golden.model import Model
from quant import which
from quant.calibrate import DEFAULT_DATA
from quant.foreign.tokenizer import encode
from quant.images import data as images
from rtl.compile.fit import fitting_model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.dma.options import add_bus_sizes, bus_of
from rtl.interface.config import LANES, Config
from rtl.interface.mechanisms import HEADS_MAX
from sim.cycles import batches, sweep
from sim.cycles.dma import predict_dma
from sim.cycles.model import predict
from sim.cycles.sweep import Case
from sim.estimate import performance
from sim.machine.inference import Loaded
from sim.options import (
    add_memory_options,
    add_model_options,
    lane_number,
    listed,
    quantized_of,
    shape_of,
)
from sim.phases import CLOCK_MHZ, work

ALL = """
Limits of the accelerator (longest sequence, widest layer) have no influence; they are chosen so
that the model fits."""
DESCRIPTION = f"""\
Predict the cycles of an inference from a model's shape, without simulating it.

--lanes, --tokens and --stream-bytes take several values with commas between them: then each
inference is a line of a table. With --play each also runs through the simulated Verilog; the exit
status is 1 where a value differs from golden's or a counter from the prediction.

The prediction equals the register `cycles` of the simulated accelerator, and so do the cycles of
each phase and the stalls by cause.{ALL}

Before the options may stand `texts`: texts a second, or `dma`: of the accelerator that reads its
memory itself. Each has a --help of its own.
"""
OF_TEXTS = f"""\
Predict texts a second: each text in an inference of its own, and in batches.

--lanes, --tokens, --stream-bytes and --batch take several values with commas between them: each
combination is a line. Texts are cut to --tokens.{ALL}
"""
OF_DMA = f"""\
Predict the cycles of the accelerator that reads stream and rows from an image at address 0 itself.

The memory takes an address at once; the beats of a burst come one a cycle from --row-latency cycles
after it on. The tokens are those with the ids 0, 1, 2 ...: they matter only where rows are no whole
bursts. --lanes and --tokens take several values with commas between them.{ALL}
"""
EXAMPLES = """\
examples:
  python -m sim.cycles
  python -m sim.cycles --quantized build/bert-tiny-imdb --lanes 16 --tokens 64
  python -m sim.cycles --stream-bytes 4 --row-latency 100 --whole-last-layer
  python -m sim.cycles --lanes 8,16 --tokens 16,64,128 --play
  python -m sim.cycles --shape 12,768,3072 --lanes 32,64 --whole-last-layer
  python -m sim.cycles --shape 22,768,1152,rotary,gated,local --tokens 512 --lanes 16
"""
KINDS = {
    "": (DESCRIPTION, EXAMPLES),
    "texts": (OF_TEXTS, "examples:\n  python -m sim.cycles texts --lanes 16 --stream-bytes 2,16\n"),
    "dma": (OF_DMA, "examples:\n  python -m sim.cycles dma --data-bits 32 --row-latency 50\n"),
}
BATCH = 256
TEXTS = 1000
TOKENS = 128
SETTINGS = "columns", "whole_last_layer", "stream_ahead", "row_latency"
WORDS = ("bias", "rotary", "gated", "local")
"""The words that may follow the sizes of --shape."""


def _shape(text: str) -> str:
    sizes, words = text.split(",")[:3], text.split(",")[3:]
    if len(sizes) < 3 or len(words) > len(set(words) & set(WORDS)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape: give layers, hidden size and feed-forward size, 12,768,3072, "
            f"and behind them any of {', '.join(WORDS)}, once"
        )
    for size in sizes:
        positive(size)
    return text


def _parser(kind: str = "") -> Parser:
    """The options of `sim.cycles`, `sim.cycles texts` or `sim.cycles dma`."""
    if kind not in KINDS:
        modes = " or ".join(filter(None, KINDS))
        raise UserError(f"{kind!r} is no mode: before the options may stand {modes}")
    result, many = Parser(f"sim.cycles {kind}".strip(), *KINDS[kind]), listed(positive)
    result.set_defaults(shape=None, stream_bytes=None, play=False, dma=kind == "dma")
    add_model_options(result)
    if kind != "texts":
        what = (
            "random integers of this shape in place of a model, heads of 64 channels: 12,768,3072 "
            "is BERT-Base; ,bias adds MPNet's bias, ,rotary,gated,local what ModernBERT has"
        )
        result.add_argument("--shape", type=_shape, metavar="LAYERS,HIDDEN,FFN", help=what)
    lanes: Any = {"type": listed(lane_number), "default": [DEFAULT_LANES], "metavar": "N"}
    what = f"some of {', '.join(map(str, LANES))} (default: {DEFAULT_LANES})"
    result.add_argument("--lanes", help=what, **lanes)
    add_columns(result)
    what = f"default: {TOKENS}, or an image's"
    result.add_argument("--tokens", type=many, metavar="L", help=what)
    add_memory_options(result, None if kind == "dma" else many, ahead=kind != "dma")
    if not kind:
        what = (
            "also simulate the Verilog on random tokens: every logit and every write must be "
            "golden's, every counter as predicted"
        )
        result.add_argument("--play", action="store_true", help=what)
    if kind == "texts":
        what = f"token memory that texts share, side by side (default: {BATCH})"
        result.add_argument("--batch", type=many, default=[BATCH], metavar="TOKENS", help=what)
        result.add_argument("--data", metavar="NAME", help="a corpus or file (default: imdb)")
        number: Any = {"type": positive, "default": TEXTS, "metavar": "N"}
        result.add_argument("--texts", help=f"default: {TEXTS:,}", **number)
    if kind == "dma":
        add_bus_sizes(result)
    add_json(result)
    return result


def _texts(options: argparse.Namespace) -> int:
    """Texts a second."""
    spec, its = which.of_options(options)
    data = options.data or images.usual(spec.inputs, DEFAULT_DATA)
    texts = images.load(spec.inputs, data, task=spec.task)[: options.texts]
    model, directory, fixed = shape_of(options)
    cut = [
        [len(encode(spec, its, t.content, t.pair, tokens).ids) for t in texts]
        for tokens in _lengths(options, fixed)
    ]
    settings = {name: getattr(options, name) for name in SETTINGS}
    plan = list(product(cut, options.lanes, options.stream_bytes or [None], options.batch))
    found = [
        batches.measure(model, lengths, lanes, memory, stream_bytes=rate, **settings)
        for lengths, lanes, rate, memory in progress(plan, "predicting", "settings")
    ]
    print(batches.report(found))
    if options.json:
        inputs = {"model": str(directory), "data": data, "clock_mhz": CLOCK_MHZ}
        write_json(options.json, [inputs | each for each in found])
    return Exit.OK


def _lengths(options: argparse.Namespace, fixed: int = 0) -> list[int]:
    """The lengths of --tokens; `fixed` alone for a model of images, which all have that many."""
    found: list[int] = options.tokens or [fixed or TOKENS]
    if fixed and found != [fixed]:
        what = f"an image of this model has {fixed} tokens, of which none can be cut"
        given = ", ".join(map(str, found))
        raise UserError(f"--tokens is {given}: {what}: leave --tokens away")
    return found


def _model(options: argparse.Namespace) -> tuple[Model, str, list[int]]:
    """The model, its name in the JSON, and the lengths of its sequences."""
    if options.shape:
        lengths = _lengths(options)
        layers, hidden, ffn, *words = options.shape.split(",")
        heads = HEADS_MAX if "bias" in words else 0
        limits = Config(tokens=max(lengths), hidden=int(hidden), ffn=int(ffn), bias_heads=heads)
        model = performance.example(limits, int(layers))
        for word in words:
            model = model if word == "bias" else getattr(performance, word)(model)
        return model, options.shape, lengths
    if options.play:
        options.quantized = quantized_of(options)
    model, directory, fixed = shape_of(options)
    lengths = _lengths(options, fixed)
    for tokens in lengths:
        if tokens > model.shape.tokens:
            raise UserError(f"--tokens is {tokens}: the model takes 1..{model.shape.tokens}")
    return model, str(directory), lengths


def _case(
    options: argparse.Namespace, model: Model, program: Program, tokens: int, rate: int | None
) -> tuple[Case, dict[str, object]]:
    """An inference, played if --play is given, and what the JSON says of the memory around it."""
    config, latency, bus = program.config, options.row_latency, bus_of(options)
    if bus is not None:
        ids = [i % model.shape.vocabulary for i in range(tokens)]
        found = predict_dma(program, ids, [0] * tokens, bus=bus, latency=latency)
        memory = bus.as_dict() | {"latency": latency}
        return Case(config, tokens, bus.data_bits // 8, found), memory
    streams = {"stream_ahead": options.stream_ahead, "row_latency": latency}
    found, played = predict(program, tokens, stream_bytes=rate, **streams), None
    if options.play:
        stage(f"playing {tokens:,} tokens on {config.lanes} x {config.tile_columns}")
        loaded = Loaded(program, embedding_table(model, config.lanes))
        played = sweep.play(loaded, model, tokens, streams | {"stream_bytes": rate})
    width = rate or config.stream_width
    return Case(config, tokens, width, found, played), {"stream_bytes": width} | streams


def _run(options: argparse.Namespace) -> int:
    if options.shape and (options.model or options.quantized):
        given = "model" if options.model else "quantized"
        raise UserError(f"--{given} needs a model, --shape is none: leave one away")
    model, name, lengths = _model(options)
    cases: list[Case] = []
    written: list[dict[str, object]] = []
    for lanes in options.lanes:
        config = fitting_model(model, lanes, max(lengths), columns=options.columns)
        program = compile_model(model, config, whole_last_layer=options.whole_last_layer)
        for tokens, rate in product(lengths, options.stream_bytes or [None]):
            case, memory = _case(options, model, program, tokens, rate)
            assert sum(phase.macs for phase in case.prediction.phases) == work(program, tokens)
            inputs = {"model": name, "whole_last_layer": options.whole_last_layer}
            cases.append(case)
            written.append(inputs | memory | case.as_dict())
    print(cases[0].report() if len(cases) == 1 else sweep.report(cases))
    if options.play:
        print("", *sweep.said(cases), sep="\n")
    if options.json:
        write_json(options.json, written[0] if len(written) == 1 else written)
    wrong = any(case.played and case.played["problem"] for case in cases)
    return Exit.DIFFERENT if wrong else Exit.OK


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    kind = given.pop(0) if given and not given[0].startswith("-") else ""
    run = _texts if kind == "texts" else _run
    return run_command(lambda: run(_parser(kind).parse_args(given)))


if __name__ == "__main__":
    sys.exit(main())
