"""`python -m sim.run`: a text through checkpoint, golden model and simulated Verilog."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.command import Exit, run_command
from cli.errors import Different, ToolError, UserError
from cli.files import write, write_json
from cli.journey import then
from cli.machine import BUILD
from cli.options import Parser, add_columns, add_json, add_lanes, add_tokens

from quant import which
from quant.foreign.tokenizer import encode
from quant.images import data as images
from quant.model.spec import EncoderSpec
from quant.quantized_model import QuantizedModel
from quant.texts.corpora import imdb
from quant.texts.data_file import Review
from rtl.compile.fit import fitting_model, fixed_tokens
from rtl.generate.units import unit
from rtl.interface.config import LANES, Config, array
from sim import play, summary
from sim.builds import built
from sim.design import generated
from sim.options import add_memory_options, add_model_options, quantized_of
from sim.page.report import failure_page, run_page, run_picture
from sim.play import WHOLE, Verified
from sim.reference import Reference, reference
from sim.report import table
from sim.simulators import SIMULATORS
from tb.trace import CAUSES

DESCRIPTION = """\
Take a text through the quantized model in golden and in simulated Verilog.

The whole model runs in the generated accelerator, and every intermediate that the hardware writes
is compared with the golden model, bit for bit, and with the float model in units of its scale.
"""
EXAMPLES = """\
examples:
  python -m sim.run
  python -m sim.run --text "That movie was terrible!" --lanes 16
  python -m sim.run --quantized build/mine --text "That movie was terrible!"
  python -m sim.run --unit softmax --simulator icarus
  python -m sim.run --waves
"""

OUT = BUILD / "sim"
TOKENS = 128


def input_of(spec: EncoderSpec, text: str | None, pair: str | None = None) -> Review:
    """What the user gave, a text or a file.

    By default the first review of the test split that fills 128 tokens, or its first image.
    """
    if text is not None:
        return Review(text, None, pair)
    if spec.given:
        first = next(images.stream(spec.inputs, images.usual(spec.inputs, "")))
    else:
        first = next(review for review in imdb("test") if len(review.text.split()) >= TOKENS)
    return replace(first, pair=pair)


def parser() -> Parser:
    result = Parser("sim.run", DESCRIPTION, EXAMPLES)
    what = (
        "of a model of images or rows the file of one (default: a review of the test split, or an "
        "image of it)"
    )
    result.add_argument("--text", "--review", dest="review", metavar="TEXT", help=what)
    result.add_argument("--pair", metavar="TEXT", help="a second text, for models trained on pairs")
    what = f"default: {WHOLE}, the whole model"
    result.add_argument("--unit", default=WHOLE, help=what)
    add_model_options(result)
    add_lanes(result, LANES)
    add_columns(result)
    add_tokens(result, TOKENS)
    result.add_argument("--simulator", default="verilator", choices=sorted(SIMULATORS))
    add_memory_options(result)
    result.add_argument("--waves", action="store_true", help="record every signal as FST")
    what = "the page of a run of the whole model (default: beside the figures)"
    result.add_argument("--html", type=Path, metavar="FILE", help=what)
    result.add_argument("--svg", type=Path, metavar="FILE", help="its timeline alone, as a picture")
    add_json(result, OUT / "report.json")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    name = options.unit
    unit(name)
    if (options.html or options.svg) and name != WHOLE:
        given = "--html" if options.html else "--svg"
        raise UserError(f"{given} shows a run of the whole model: leave --unit {name} away")
    if options.review is not None:  # refused before a calibration
        spec, reader = which.of_options(options)
        most = spec.max_tokens if spec.given else options.tokens
        encode(spec, reader, Review(options.review, None).content, options.pair, most)
    with _building(options):
        directory = quantized_of(options)
        checkpoint = None if options.model is None else which.local(options.model)
        quantized = QuantizedModel.load(directory, checkpoint)
    review = input_of(quantized.spec, options.review, options.pair)
    fixed = fixed_tokens(quantized.model, quantized.info)
    tokens = fixed if fixed and options.tokens == TOKENS else options.tokens
    text = reference(quantized, review, tokens)
    quantized, tokens = text.quantized, len(text.tokens.ids)
    config = fitting_model(quantized.model, options.lanes, tokens, columns=options.columns)
    shown = " ".join(review.text.split())
    print(f"{quantized.spec.inputs[:-1]:8}{shown[:300]}{'...' if len(shown) > 300 else ''}")
    if options.pair is not None:
        print(f"pair    {' '.join(options.pair.split())[:300]}")
    cut = f", {text.tokens.dropped} more cut" if text.tokens.dropped else ""
    print(f"tokens  {tokens}{cut}")
    print(f"model   {directory}, INT8 of {quantized.info['checkpoint']['directory']}")
    shape = array(config.lanes, config.tile_columns)
    print(f"unit    {name}, {shape}, {options.simulator}\n", flush=True)
    stem = f"{name}-{config.lanes}x{config.tile_columns}-{options.simulator}"
    fst = OUT / f"{stem}-waves" / f"{name}.fst"
    # What has no neighbours (/dev/stdout) has its page in OUT.
    beside = options.json.with_suffix(".html") if options.json.suffix else OUT / "report.html"
    page = options.html or beside
    with play.own_folder() as folder:
        try:
            figures, played = _figures(text, play.Setting(options, config, folder))
        except Different as error:
            if name == WHOLE:
                write(page, failure_page(review.text, str(error)))
            raise
        seconds = time.perf_counter() - begin
        facts = {"unit": name, "simulator": options.simulator, "lanes": config.lanes}
        facts |= {"columns": config.tile_columns, "tokens": tokens, "text": review.text}
        facts |= {"pair": options.pair, "total_seconds": seconds, "stall_causes": CAUSES}
        report = facts | figures
        if played is not None:
            write(page, run_page(text, played, report))
            if options.svg:
                write(options.svg, run_picture(played))
        write_json(options.json, report)
        if options.waves:
            fst.parent.mkdir(parents=True, exist_ok=True)
            (folder / fst.name).replace(fst)
    print(f"\nEvery bit equal to the golden model. {seconds:.0f} s; figures in {options.json}")
    if played is not None:
        print(f"the run, cycle by cycle: {page}")
    if options.waves:
        print(f"waves: {fst}; open it with: gtkwave {fst}, or surfer {fst}")
    if played is not None:
        then("rtl.generate", "accelerator", "--lanes", options.lanes, "--fit", directory)
    return Exit.OK


@contextmanager
def _building(options: argparse.Namespace) -> Iterator[None]:
    """Where the shipped model has to be calibrated first, its accelerator is built meanwhile.

    It fits the default limits. Whoever needs the build first takes its lock and the other waits, so
    nothing depends on who does it, and what fails here fails again where it is told.
    """
    shipped = options.model is None and options.quantized is None and options.unit == WHOLE
    if not shipped or which.model_of(options)[1]:
        yield
        return
    config = Config(lanes=options.lanes, columns=options.columns)
    process = multiprocessing.get_context("spawn").Process(
        target=build_ahead, args=(config, options.simulator, options.waves), daemon=True
    )
    process.start()
    try:
        yield
    except BaseException:
        process.terminate()
        raise


def build_ahead(config: Config, simulator: str, waves: bool) -> None:
    """Build the accelerator as a run of it does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is told by the command alone
    with suppress(ToolError, ValueError, OSError):
        with built(generated(WHOLE, config), simulator, waves=waves):
            pass


def _figures(text: Reference, around: play.Setting) -> tuple[dict[str, Any], Verified | None]:
    """Play the text on a unit and print what came of it; of the whole model the inference, too."""
    if around.options.unit == WHOLE:
        played = play.play_accelerator(text, around)
        return summary.whole_model(text, played), played
    line = play.play_vectors(text, around)
    print(table(list(line), [list(line.values())]))
    return line, None


if __name__ == "__main__":
    sys.exit(main())
