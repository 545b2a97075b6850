"""The chapters of a data sheet that formulas and the cycle model fill: area, bandwidth, latency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rtl.dma.bus import Bus
from rtl.generate.package.tables import table
from rtl.interface.config import Config

CLOCK_MHZ = 100
"""Of all times and rates here."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Cycles of one inference with streams at full speed.

    limits
        Options that the accelerator of the sheet lacks for this model; "" where it takes it.
    """

    model: str
    limits: str
    tokens: int
    cycles: int


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is expected of an accelerator before it is synthesised or played.

    Attributes
    ----------
    resources, errors
        LUT4, FF, DSP and block RAM of an ECP5, and how far they were off where not fitted, 0 to 1.
    extrapolated
        The limits that lie beyond every accelerator that was fitted.
    options
        The same resources with one choice changed, by that choice.
    latencies
        Of the models, in the order of the table.
    slow_model, slow_lengths
        The model of `slow` and `late`, and the tokens of each of its columns.
    slow
        Cycles for each of `slow_lengths`, by bytes of the command stream a cycle.
    late
        The same with DMA by the memory's latency in cycles; empty without.
    """

    resources: Mapping[str, int]
    errors: Mapping[str, float]
    extrapolated: Sequence[str]
    options: Mapping[str, Mapping[str, int]]
    latencies: Sequence[Latency]
    slow_model: str
    slow_lengths: Sequence[int]
    slow: Mapping[int, Sequence[int]]
    late: Mapping[int, Sequence[int]]


ESTIMATED = """\
Estimated for an ECP5, in this configuration and with one choice changed. LUT4 and FF come from
formulas, which were off by at most {LUT4:.1%} and {FF:.1%} in accelerators that they were not
fitted to; DSP and block RAM are counted from the design. {beyond}`python -m sim.estimate` of
bert2rtl compares them with parts and boards.
"""


def area(expected: Expected) -> str:
    """Resources as they are estimated, and what each choice changes."""
    rows: list[list[object]] = [["this configuration", *_grouped(expected.resources.values())]]
    rows += [[f"`{name}`", *_grouped(found.values())] for name, found in expected.options.items()]
    beyond = f"Extrapolated: {', '.join(expected.extrapolated)}. " if expected.extrapolated else ""
    said = ESTIMATED.format(**expected.errors, beyond=beyond)
    return f"{said}\n{table(('choice', *expected.resources), rows, right=4)}"


STREAMS = """\
The most that each stream carries, in bytes a cycle and in MB/s (10^6 bytes) at {clock} MHz. At less
the accelerator waits, which changes no result; `stall_weights` counts the cycles of the first two.
"""
MASTER = """\
The read master takes both from memory, {bytes} bytes a beat: {rate:,} MB/s at most, for all cores
together.
"""
SLOWER = """\
Cycles of {model} by the bytes that the command stream brings a cycle, from full speed down:
"""
LATER = """\
The same with the read master, by the latency of its memory: so many cycles from an address to the
first beat, then a beat a cycle, for one core alone.
"""


def bandwidth(config: Config, bus: Bus | None, expected: Expected) -> str:
    """What the streams need, and the cycles where they get less."""
    width, lanes = config.stream_width, config.lanes
    streams = [
        ("command stream", "M", width, "while weights are loaded"),
        ("embedding rows", "N", lanes, "while the embedding is computed"),
        ("tokens", "4", 4, "a word a token"),
        ("requests of rows", "4", 4, "two words a token: its own row and its position's"),
        ("logits", "4", 4, "a word a logit, at the end"),
    ]
    if bus is not None:  # the rest does not leave the accelerator
        streams = streams[:2]
    rows = [[name, when, of, each, f"{each * CLOCK_MHZ:,}"] for name, of, each, when in streams]
    here = f"N = {lanes}, M = {width}"
    parts = [
        STREAMS.format(clock=CLOCK_MHZ),
        table(("stream", "when", "bytes a cycle", here, "MB/s"), rows, right=2),
    ]
    if bus is not None:
        each = bus.data_bits // 8
        parts.append(MASTER.format(bytes=each, rate=each * CLOCK_MHZ))
    lengths = [f"{tokens} tokens" for tokens in expected.slow_lengths]
    parts += [
        SLOWER.format(model=expected.slow_model),
        table(("bytes a cycle", *lengths), _by(expected.slow), right=len(lengths) + 1),
    ]
    if expected.late:
        parts += [
            LATER,
            table(("latency (cycles)", *lengths), _by(expected.late), right=len(lengths) + 1),
        ]
    return "\n".join(parts)


MODELS = """\
Inferences by the cycle model: streams at full speed{master}, embedding rows 20 cycles after their
request, {clock} MHz. The models have these shapes and activations of 8 bits; the remedies of a
calibration may add cycles. Where limits are named, this accelerator is too small for the model, and
the cycles are those of one with these limits.
"""


def models(bus: Bus | None, expected: Expected) -> str:
    """Cycles and time of models that are known."""
    rows = [
        (
            one.model,
            f"`{one.limits}`" if one.limits else "",
            one.tokens,
            f"{one.cycles:,}",
            f"{one.cycles / CLOCK_MHZ / 1000:,.3f}",
        )
        for one in expected.latencies
    ]
    master = "" if bus is None else ", without the read master"
    return (
        MODELS.format(clock=CLOCK_MHZ, master=master)
        + "\n"
        + table(("model", "limits", "tokens", "cycles", "time (ms)"), rows, right=3)
    )


def _grouped(numbers: Iterable[int]) -> list[str]:
    return [f"{number:,}" for number in numbers]


def _by(found: Mapping[int, Sequence[int]]) -> list[list[object]]:
    return [[each, *_grouped(cycles)] for each, cycles in found.items()]
