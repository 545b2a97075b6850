"""`python -m sim.estimate`: cost and speed of an accelerator, without synthesis or simulation."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeVar

from cli.command import run_command
from cli.errors import UserError
from cli.files import write_json
from cli.options import Parser, add_json, whole

from golden.model import Model
from golden.store import DESCRIPTION as QUANTIZED
from rtl.compile.fit import sized
from rtl.compile.options import add_fit, fit
from rtl.compile.program import embedding_table
from rtl.interface.config import (
    Config,
)
from rtl.interface.options import add_config_options, config_of, given
from sim.estimate.area import (
    RESOURCES,
    error,
    estimate,
    extrapolated,
    largest_errors,
    points,
)
from sim.estimate.fits import Board, Part, boards, families, parts, shares, verdict
from sim.estimate.memories import memories
from sim.estimate.performance import (
    Performance,
    example,
    performance,
)
from sim.options import add_memory_options, add_model_options, clock, shape_of
from sim.phases import CLOCK_MHZ
from sim.report import table

DESCRIPTION = """\
Cost and speed of an accelerator, in seconds instead of a synthesis.

Multipliers, block RAMs and cycles are counted exactly; LUTs and flip-flops come from formulas that
were fitted to synthesised accelerators, and stand with their error on others that were not used for
the fit (--points shows them). They are fitted to the ECP5 alone; the last lines say what stands for
other families. Without --model or --quantized the cycles are those of an encoder as large as the
limits.
"""
EXAMPLES = """\
examples:
  python -m sim.estimate --lanes 8 --tokens 128 --hidden 256 --ffn 1024 --layers 4
  python -m sim.estimate --lanes 16 --dsp-macs 61
  python -m sim.estimate --quantized build/bert-tiny-imdb --clock 80 --stream-bytes 4
  python -m sim.estimate --model my-model --lanes 16 --part XC7A100T
  python -m sim.estimate --lanes 8 --board ulx3s --clock 62.5
  python -m sim.estimate --points
  python -m sim.estimate --lanes 4 --json build/estimate.json
"""
MAX_LAYERS = 48
Named = TypeVar("Named", Part, Board)


def _part(text: str) -> Part:
    return _named(text, "part", {part.name: part for part in parts()})


def _board(text: str) -> Board:
    return _named(text, "board", {board.name: board for board in boards()})


def _named(text: str, kind: str, known: Mapping[str, Named]) -> Named:
    """The one of that name, in letters of either case."""
    for name, one in known.items():
        if name.casefold() == text.casefold():
            return one
    raise argparse.ArgumentTypeError(f"{text!r} is no {kind}: give one of {', '.join(known)}")


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
    only = result.add_mutually_exclusive_group()
    only.add_argument(
        "--part",
        type=_part,
        metavar="NAME",
        help="only this part: " + ", ".join(part.name for part in parts()),
    )
    only.add_argument(
        "--board",
        type=_board,
        metavar="NAME",
        help="only the part of this board, and no more bytes of the stream a cycle than its memory "
        "brings: " + ", ".join(board.name for board in boards()),
    )
    add_memory_options(result)
    add_json(result)
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
        if c.bias_heads:
            name += f", position bias of {c.bias_heads} heads"
        if c.windows:
            name += ", windows"
        if c.gated:
            name += ", gated"
        if c.rotary_pairs:
            name += f", rotary positions of {c.rotary_pairs} pairs"
        if c.rms_norm:
            name += ", RMSNorms"
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
        raise UserError(
            f"--layers {options.layers} is for an encoder without a model: leave it away"
        )
    model, _, fixed = shape_of(options)
    return sized([model], given(options), fixed)


def _model(options: argparse.Namespace, config: Config) -> tuple[Model, str, bool]:
    """The model whose cycles are told, its name, and whether its embedding table is whole."""
    if options.model is None and options.quantized is None:
        layers = options.layers or 2
        return (
            example(config, layers),
            f"an encoder of {layers} layers as large as the limits",
            False,
        )
    model, directory, _ = shape_of(options)
    return model, str(directory), (directory / QUANTIZED).is_file()


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
        f"{told.cycles:,} cycles for {told.tokens:,} tokens: {told.milliseconds:,.2f} ms at "
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
    chosen = [part for part in parts() if asked in (None, part.name)]
    for part in chosen:
        share, answer = shares(part, config), verdict(part, config, errors)
        cells = (f"{value:.0%}" if isfinite(value) else "none there" for value in share.values())
        rows.append([part.name, part.family, *cells, answer])
        told = {name: value if isfinite(value) else None for name, value in share.items()}
        found.append({"part": part.name, "family": part.family, "shares": told, "verdict": answer})
    head = ["part", "family", "LUT", "FF", "DSP", "block RAM", "does it fit"]
    return "\n".join([table(head, rows), *_of_families(chosen)]), found


def _of_families(chosen: Sequence[Part]) -> list[str]:
    """What the shares of each family are worth; nothing of the ECP5, to which they are fitted."""
    lines = []
    for name in dict.fromkeys(part.family for part in chosen):
        family = families()[name]
        if family.counted is None:
            continue
        more = [f"{each} {times:.2f} x" for each, times in family.more.items() if times > 1]
        lines.append(
            f"{name}{f' (as {family.like})' if family.like else ''}: "
            f"{', '.join(more) or 'LUT, FF and block RAM as'} the ECP5's; {family.units}."
        )
    if lines:
        lines.append(
            "These were not fitted, and none was placed: LUT, FF and block RAM are the ECP5's, or "
            "more by as much as\n`sim.synth` counted more on 4 lanes; their error is not known."
        )
    return lines


def _stream_bytes(options: argparse.Namespace, config: Config) -> int | None:
    """Bytes of the stream a cycle: the option, or what the board's memory brings.

    Raises
    ------
    ValueError
        The memory brings less than a byte a cycle.
    """
    memory = options.board.memory if options.board else None
    if options.stream_bytes is not None or memory is None:
        return None if options.stream_bytes is None else int(options.stream_bytes)
    rate = memory.megabytes_a_second(options.clock)
    brought = int(rate // options.clock)
    if not brought:
        raise UserError(
            f"--clock {options.clock:g}: the memory of {options.board.name} brings {rate:,.0f} "
            f"MB/s, less than a byte a cycle: give a clock of at most {rate:g} MHz"
        )
    return brought if brought < config.stream_width else None


def _of_board(board: Board, clock: float, stream_bytes: int | None, held: int | None) -> str:
    """The board's part and memory.

    held
        Bytes of the model in memory; None where no calibrated model is named.
    """
    told = board.memory
    if told is None:
        return f"{board.name}: {board.part}; its memory is not known here and taken to keep up."
    used = "as many bytes of the stream a cycle as are used"
    if stream_bytes is not None:
        used = f"{stream_bytes} bytes of the stream a cycle"
    lines = [
        f"{board.name}: {board.part}; {told.mebibytes:,} MiB of {told.kind}, {told.bits} bits: "
        f"at most {told.megabytes_a_second(clock):,.0f} MB/s at the pins, of which a controller",
        f"takes some. The cycles are those with {used}.",
    ]
    if held is not None:
        room = "fit" if held <= told.mebibytes << 20 else "do not fit"
        lines.append(
            f"Command stream and embedding table, {held / 2**20:,.1f} MiB, {room} its memory."
        )
    return "\n".join(lines)


def _run(options: argparse.Namespace) -> None:
    if options.points:
        facts = _measured()
        if options.json:
            write_json(options.json, facts)
        return
    config = _config(options)
    stream_bytes = _stream_bytes(options, config)
    model, name, whole = _model(options, config)
    told = performance(
        config,
        model,
        options.clock,
        stream_bytes=stream_bytes,
        row_latency=options.row_latency,
        whole_last_layer=options.whole_last_layer,
    )
    needed, errors = estimate(config), largest_errors()
    asked = options.board.part if options.board else options.part and options.part.name
    fits, verdicts = _fits(config, errors, asked)
    used = memories(config)
    print(", ".join(f"{k} {v}" for k, v in config.as_dict().items() if v is not None))
    print(f"model: {name}\n")
    print(_resources(needed, errors))
    beyond = extrapolated(config)
    if beyond:
        print(f"LUT4 and FF are extrapolated: {', '.join(beyond)}.")
    print()
    if options.board:
        table_bytes = embedding_table(model, config.lanes).nbytes
        held = told.stream_bytes + table_bytes if whole else None
        print(_of_board(options.board, options.clock, stream_bytes, held))
    print(_times(told, options.clock), end="\n\n")
    print(fits)
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
        if options.board:
            memory = options.board.memory
            facts["board"] = {
                "name": options.board.name,
                "megabytes_a_second": memory and memory.megabytes_a_second(options.clock),
                "stream_bytes": stream_bytes,
            }
        write_json(options.json, facts)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
