"""`python -m sim.estimate`: cost and speed of an accelerator, without synthesis or simulation."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from cli.command import run_command
from cli.files import write_json
from cli.keys import under
from cli.options import Parser, add_json, whole

from golden.model import Model
from rtl.compile.fit import sized
from rtl.compile.options import add_fit, fit
from rtl.interface.config import CONFIG_KEYS, Config
from rtl.interface.options import add_config_options, config_of, given
from sim.estimate.area import (
    RESOURCES,
    error,
    estimate,
    extrapolated,
    largest_errors,
    points,
)
from sim.estimate.fits import parts, shares, verdict
from sim.estimate.memories import memories
from sim.estimate.performance import PERFORMANCE_KEYS, Performance, example, performance
from sim.options import add_memory_options, add_model_options, clock, shape_of
from sim.phases import CLOCK_MHZ
from sim.report import table

DESCRIPTION = """\
Cost and speed of an accelerator, in seconds instead of a synthesis.

Multipliers, block RAMs and cycles are counted exactly; LUTs and flip-flops come from formulas that
were fitted to synthesised accelerators, and stand with their error on others that were not used for
the fit (--points shows them). Without --model or --quantized the cycles are those of an encoder as
large as the limits.
"""
EXAMPLES = """\
examples:
  python -m sim.estimate --lanes 8 --tokens 128 --hidden 256 --ffn 1024 --layers 4
  python -m sim.estimate --lanes 16 --dsp-macs 61
  python -m sim.estimate --quantized build/bert-tiny-imdb --clock 80 --stream-bytes 4
  python -m sim.estimate --model my-model --lanes 16 --part XC7A100T
  python -m sim.estimate --points
  python -m sim.estimate --lanes 4 --json build/estimate.json
"""
MAX_LAYERS = 48


KEYS = {
    **CONFIG_KEYS,
    "model": "whose cycles are told",
    "resources{}": "LUT4, FF, DSP and block RAM of an ECP5, estimated",
    "largest_errors{}, extrapolated": "at points not fitted, shares; limits beyond the points",
    "memories[].name, .count": "a kind of memory, and how many of it",
    "memories[].width, .depth, .lanes": "bits, words, parts written apart",
    "memories[].at_once": "its word is there in the cycle of the address",
    "memories[].blocks, memory_bits": "block RAMs of all of its kind; bits of all memories",
    "clock_mhz": "for the times",
    **under("performance.", PERFORMANCE_KEYS),
    "fits[].part, .shares{}": "a part, and what is needed of it, 1: all",
    "fits[].verdict": "whether it fits",
}
POINTS_KEYS = {
    "points[].config{}": "limits and choices of a synthesised accelerator, by option",
    "points[].resources{}, .array{}": "measured, of all and of the array",
    "points[].held_out": "it has no part in the fit",
    "points[].error{}": "estimate / measured - 1",
}


def _part(text: str) -> str:
    names = {part.name.casefold(): part.name for part in parts()}
    if text.casefold() not in names:
        allowed = ", ".join(names.values())
        raise argparse.ArgumentTypeError(f"{text!r} is no part: give one of {allowed}")
    return names[text.casefold()]


def _parser() -> Parser:
    result = Parser("sim.estimate", DESCRIPTION, EXAMPLES)
    add_model_options(result)
    result.add_argument(
        "--layers",
        type=whole(1, MAX_LAYERS),
        metavar="N",
        help=f"of the encoder without a model, 1 to {MAX_LAYERS} (default: 2)",
    )
    result.add_argument(
        "--clock",
        type=clock,
        default=float(CLOCK_MHZ),
        metavar="MHZ",
        help=f"for times (default: {CLOCK_MHZ})",
    )
    result.add_argument(
        "--points", action="store_true", help="show measured figures beside the estimates and stop"
    )
    result.add_argument(
        "--part",
        type=_part,
        metavar="NAME",
        help="only this part: " + ", ".join(part.name for part in parts()),
    )
    add_memory_options(result)
    add_json(result, KEYS, {"with --points": POINTS_KEYS})
    add_fit(result)
    add_config_options(result)
    return result


def _measured() -> dict[str, object]:
    """Print the measured points; the same for JSON."""
    rows: list[list[object]] = []
    found = []
    for point in points():
        off = error(point)
        c = point.config
        name = f"{c.lanes}, {c.tokens}, {c.hidden}, {c.ffn}"
        if c.dsp_macs is not None:
            name += f", {c.dsp_macs} MACs with a DSP"
        if c.columns is not None:
            name += f", {c.columns} columns"
        if c.precise:
            name += ", precise"
        use = "held out" if point.held_out else "fitted"
        row: list[object] = [name, use]
        for resource in RESOURCES:
            row += [point.resources[resource], f"{off[resource]:+.1%}"]
        rows.append(row)
        facts = dataclasses.asdict(point) | {"config": c.as_dict(), "error": off}
        found.append(facts)
    headings = ["lanes, tokens, hidden, ffn", "use"]
    for resource in RESOURCES:
        headings += [resource, "error"]
    print(table(headings, rows))
    return {"points": found}


def _config(options: argparse.Namespace) -> Config:
    """The accelerator: its limits are those of --fit or of the model, where they are not given."""
    if options.fit:
        return fit(options)
    if options.model is None and options.quantized is None:
        return config_of(options)
    if options.layers is not None:
        raise ValueError(
            f"--layers {options.layers} is for an encoder without a model: leave it away"
        )
    return sized([shape_of(options)[0]], given(options))


def _model(options: argparse.Namespace, config: Config) -> tuple[Model, str]:
    """The model whose cycles are told, and its name."""
    if options.model is None and options.quantized is None:
        layers = options.layers or 2
        return example(config, layers), f"an encoder of {layers} layers as large as the limits"
    model, directory = shape_of(options)
    return model, str(directory)


def _resources(needed: dict[str, int], errors: dict[str, float]) -> str:
    rows: list[list[object]] = []
    for name, number in needed.items():
        off = errors[name]
        rows.append(
            [name, number, f"{off:.1%} at points not fitted" if off else "0 at every point"]
        )
    return table(["resource of an ECP5", "estimate", "error"], rows)


def _times(told: Performance, clock: float) -> str:
    return (
        f"{told.cycles:,} cycles for {told.tokens} tokens: {told.milliseconds:,.2f} ms at "
        f"{clock:g} MHz, {told.a_second:,.1f} a second; utilisation {told.utilisation:.1%}.\n"
        f"It reads {told.stream_bytes:,} bytes of command stream and {told.row_bytes:,} of "
        f"embedding rows: {told.megabytes_a_second:,.1f} MB/s on average, "
        f"{told.peak_megabytes_a_second:,.0f} MB/s of the stream while weights are loaded."
    )


def _fits(
    config: Config, errors: dict[str, float], asked: str | None
) -> tuple[str, list[dict[str, object]]]:
    """Of all parts, or of the one that is asked for."""
    rows: list[list[object]] = []
    found: list[dict[str, object]] = []
    for part in parts():
        if asked not in (None, part.name):
            continue
        share, answer = shares(part, estimate(config)), verdict(part, config, errors)
        rows.append([part.name, *(f"{value:.0%}" for value in share.values()), answer])
        found.append({"part": part.name, "shares": share, "verdict": answer})
    return table(["part", "LUT", "FF", "DSP", "block RAM", "does it fit"], rows), found


def _run(options: argparse.Namespace) -> None:
    if options.points:
        facts = _measured()
        if options.json:
            write_json(options.json, facts)
        return
    config = _config(options)
    model, name = _model(options, config)
    told = performance(
        config,
        model,
        options.clock,
        stream_bytes=options.stream_bytes,
        row_latency=options.row_latency,
        whole_last_layer=options.whole_last_layer,
    )
    needed, errors = estimate(config), largest_errors()
    fits, verdicts = _fits(config, errors, options.part)
    used = memories(config)
    print(", ".join(f"{k} {v}" for k, v in config.as_dict().items() if v is not None))
    print(f"model: {name}\n")
    print(_resources(needed, errors))
    beyond = extrapolated(config)
    if beyond:
        print(f"LUT4 and FF are extrapolated: {', '.join(beyond)}.")
    print()
    print(_times(told, options.clock), end="\n\n")
    print(fits)
    print("On Xilinx 7, LUT and DSP are at most what is said; block RAMs are RAMB18.")
    if options.json:
        facts = {
            "configuration": config.as_dict(),
            "model": name,
            "resources": needed,
            "largest_errors": errors,
            "extrapolated": beyond,
            "memories": [dataclasses.asdict(m) | {"blocks": m.blocks} for m in used],
            "memory_bits": sum(memory.bits for memory in used),
            "clock_mhz": options.clock,
            "performance": dataclasses.asdict(told),
            "fits": verdicts,
        }
        write_json(options.json, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
