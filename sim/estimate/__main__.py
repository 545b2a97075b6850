"""`python -m sim.estimate`: cost and speed of an accelerator, without synthesis or simulation."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from contextlib import suppress

from cli.command import run_command
from cli.errors import UserError
from cli.files import write_json
from cli.options import Parser, add_json, whole

from golden.model import Model
from rtl.compile.fit import sized
from rtl.compile.options import add_fit, fit
from rtl.interface.config import Config
from rtl.interface.options import add_config_options, config_of, given
from sim.estimate.area import estimate, extrapolated, largest_errors
from sim.estimate.fits import PARTS, shares, verdict
from sim.estimate.memories import memories
from sim.estimate.performance import example, performance
from sim.options import add_memory_options, add_model_options, shape_of
from sim.phases import CLOCK_MHZ
from sim.report import table

DESCRIPTION = """\
Cost and speed of an accelerator, in seconds instead of a synthesis.

Multipliers, block RAMs and cycles are counted exactly; LUTs and flip-flops come from formulas that
were fitted to accelerators synthesised for the ECP5, and stand with their error on others that were
not used for the fit. Without --model or --quantized the cycles are those of an encoder as large as
the limits.
"""
EXAMPLES = """\
examples:
  python -m sim.estimate --lanes 8 --tokens 128 --hidden 256 --ffn 1024 --layers 4
  python -m sim.estimate --quantized build/bert-tiny-imdb --clock 80 --stream-bytes 4
  python -m sim.estimate --model my-model --lanes 16 --dsp-macs 61 --part XC7A100T
  python -m sim.estimate --lanes 4 --json build/estimate.json
"""
AROUND = "stream_bytes", "row_latency", "whole_last_layer"
TIMES = """
{cycles:,} cycles for {tokens:,} tokens: {milliseconds:,.2f} ms at {clock:g} MHz, \
{a_second:,.1f} a second; utilisation {utilisation:.1%}.
It reads {stream_bytes:,} bytes of command stream and {row_bytes:,} of embedding rows: \
{megabytes_a_second:,.1f} MB/s on average, {peak_megabytes_a_second:,.0f} MB/s of the stream while \
weights are loaded.
"""


def _clock(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) <= 10_000:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no clock: give MHz above 0, up to 10000")


def _parser() -> Parser:
    result = Parser("sim.estimate", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    what = "of the encoder without a model, 1 to 48 (default: 2)"
    result.add_argument("--layers", type=whole(1, 48), metavar="N", help=what)
    what = f"for times (default: {CLOCK_MHZ})"
    mhz = float(CLOCK_MHZ)
    result.add_argument("--clock", type=_clock, default=mhz, metavar="MHZ", help=what)
    what = "only this part: " + ", ".join(PARTS)
    result.add_argument("--part", type=str.upper, choices=PARTS, metavar="NAME", help=what)
    add_memory_options(result)
    add_json(result)
    add_fit(result)
    add_config_options(result)
    return result


def _subject(options: argparse.Namespace) -> tuple[Config, Model, str]:
    """The accelerator, the model whose cycles are predicted, and the model's name.

    The limits are those of --fit or of the model, except where they are given.
    """
    if options.model is None and options.quantized is None:
        config = fit(options) if options.fit else config_of(options)
        layers = options.layers or 2
        name = f"an encoder of {layers} layers as large as the limits"
        return config, example(config, layers), name
    if options.layers is not None:
        what = "is for an encoder without a model: leave it away"
        raise UserError(f"--layers {options.layers} {what}")
    model, directory, fixed = shape_of(options)
    config = fit(options) if options.fit else sized([model], given(options), fixed)
    return config, model, str(directory)


def _run(options: argparse.Namespace) -> None:
    config, model, name = _subject(options)
    around = {name: getattr(options, name) for name in AROUND}
    found = performance(config, model, options.clock, **around)
    needed, errors, beyond = estimate(config), largest_errors(), extrapolated(config)
    parts = [PARTS[name] for name in PARTS if options.part in (None, name)]
    verdicts = [
        {
            "part": part.name,
            "family": part.family,
            "shares": shares(part, config),
            "verdict": verdict(part, config, errors),
        }
        for part in parts
    ]
    off = {
        kind: f"{x:.1%} at points not fitted" if x else "0 at every point"
        for kind, x in errors.items()
    }
    print(", ".join(f"{k} {v}" for k, v in config.as_dict().items() if v is not None))
    print(f"model: {name}\n")
    rows = [[kind, number, off[kind]] for kind, number in needed.items()]
    print(table(["resource of an ECP5", "estimate", "error"], rows))
    if beyond:
        print(f"LUT4 and FF are extrapolated: {', '.join(beyond)}.")
    print(TIMES.format(clock=options.clock, **found))
    rows = [
        [
            part.name,
            part.family,
            *(f"{x:.0%}" for x in shares(part, config).values()),
            fit["verdict"],
        ]
        for part, fit in zip(parts, verdicts)
    ]
    print(table(["part", "family", "LUT", "FF", "DSP", "block RAM", "does it fit"], rows))
    if any("ECP5" not in part.family for part in parts):
        print(
            "Other families were not fitted, and their error is not known: Xilinx as the ECP5, "
            "GW2A and MAX 10 more by as much as\nYosys counted on 4 lanes, with two products of "
            "the array per DSP."
        )
    if options.json:
        blocks = memories(config)
        facts = {
            "configuration": config.as_dict(),
            "model": name,
            "resources": needed,
            "largest_errors": errors,
            "extrapolated": beyond,
            "memories": [dataclasses.asdict(m) | {"blocks": m.blocks} for m in blocks],
            "memory_bits": sum(memory.bits for memory in blocks),
            "clock_mhz": options.clock,
            "performance": found,
            "fits": verdicts,
        }
        write_json(options.json, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
