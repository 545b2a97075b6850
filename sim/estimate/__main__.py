"""`python -m sim.estimate`: cost and speed of an accelerator, without synthesis or simulation."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

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
from sim.estimate.fits import PARTS, Part, shares, verdict
from sim.estimate.memories import memories
from sim.estimate.performance import Performance, example, performance
from sim.options import add_memory_options, add_model_options, clock, shape_of
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


def _parser() -> Parser:
    result = Parser("sim.estimate", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    result.add_argument(
        "--layers",
        type=whole(1, 48),
        metavar="N",
        help="of the encoder without a model, 1 to 48 (default: 2)",
    )
    result.add_argument(
        "--clock",
        type=clock,
        default=float(CLOCK_MHZ),
        metavar="MHZ",
        help=f"for times (default: {CLOCK_MHZ})",
    )
    only = "only this part: " + ", ".join(PARTS)
    result.add_argument("--part", type=str.upper, choices=PARTS, metavar="NAME", help=only)
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
        raise UserError(
            f"--layers {options.layers} is for an encoder without a model: leave it away"
        )
    model, directory, fixed = shape_of(options)
    config = fit(options) if options.fit else sized([model], given(options), fixed)
    return config, model, str(directory)


def _resources(needed: dict[str, int], errors: dict[str, float]) -> str:
    shown = {
        x: f"{off:.1%} at points not fitted" if off else "0 at every point"
        for x, off in errors.items()
    }
    rows = [[name, number, shown[name]] for name, number in needed.items()]
    return table(["resource of an ECP5", "estimate", "error"], rows)


def _times(found: Performance, clock: float) -> str:
    return (
        f"{found.cycles:,} cycles for {found.tokens:,} tokens: {found.milliseconds:,.2f} ms at "
        f"{clock:g} MHz, {found.a_second:,.1f} a second; utilisation {found.utilisation:.1%}.\n"
        f"It reads {found.stream_bytes:,} bytes of command stream and {found.row_bytes:,} of "
        f"embedding rows: {found.megabytes_a_second:,.1f} MB/s on average, "
        f"{found.peak_megabytes_a_second:,.0f} MB/s of the stream while weights are loaded."
    )


def _print_fits(verdicts: list[dict[str, object]], parts: Sequence[Part], config: Config) -> None:
    rows: list[list[object]] = []
    for part, entry in zip(parts, verdicts):
        cells = [f"{value:.0%}" for value in shares(part, config).values()]
        rows.append([part.name, part.family, *cells, entry["verdict"]])
    print(table(["part", "family", "LUT", "FF", "DSP", "block RAM", "does it fit"], rows))
    if any("ECP5" not in part.family for part in parts):
        print(
            "Other families were not fitted, and their error is not known: Xilinx as the ECP5, "
            "GW2A and MAX 10 more by as much as\nYosys counted on 4 lanes, with two products of "
            "the array per DSP."
        )


def _run(options: argparse.Namespace) -> None:
    config, model, name = _subject(options)
    found = performance(
        config,
        model,
        options.clock,
        stream_bytes=options.stream_bytes,
        row_latency=options.row_latency,
        whole_last_layer=options.whole_last_layer,
    )
    needed, errors, beyond = estimate(config), largest_errors(), extrapolated(config)
    parts = [PARTS[name] for name in PARTS if options.part in (None, name)]
    verdicts: list[dict[str, object]] = [
        {
            "part": part.name,
            "family": part.family,
            "shares": shares(part, config),
            "verdict": verdict(part, config, errors),
        }
        for part in parts
    ]
    print(", ".join(f"{k} {v}" for k, v in config.as_dict().items() if v is not None))
    print(f"model: {name}\n")
    print(_resources(needed, errors))
    if beyond:
        print(f"LUT4 and FF are extrapolated: {', '.join(beyond)}.")
    print(f"\n{_times(found, options.clock)}\n")
    _print_fits(verdicts, parts, config)
    if options.json:
        used = memories(config)
        facts = {
            "configuration": config.as_dict(),
            "model": name,
            "resources": needed,
            "largest_errors": errors,
            "extrapolated": beyond,
            "memories": [dataclasses.asdict(m) | {"blocks": m.blocks} for m in used],
            "memory_bits": sum(memory.bits for memory in used),
            "clock_mhz": options.clock,
            "performance": dataclasses.asdict(found),
            "fits": verdicts,
        }
        write_json(options.json, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
