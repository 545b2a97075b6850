"""`python -m sim.throughput`: texts a second, alone and in batches, by the exact cycle model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json, positive
from cli.progress import progress

from quant.quantized_model import QuantizedModel
from quant.texts import load_texts
from rtl.compile.batches import pack
from rtl.compile.fit import fitting_model
from rtl.compile.program import Program, compile_model
from rtl.interface.config import LANES
from sim.cycles.model import predict
from sim.options import add_model_options, add_stream_ahead, model_of
from sim.regress import utilisation
from sim.report import table

DESCRIPTION = """\
Tell how many texts a second an accelerator classifies, each alone and side by side in batches.

Cycles are those of the exact cycle model, which the simulated Verilog is held to. `whole` is each
text alone with the last layer computed for all its tokens, what `batched` is compared with twice.
`tokens` is the utilisation by the texts' own tokens, `row tiles` with the last row tile of each
counted whole.

`overlap` bounds what it would save to begin the next batch while the head of this one drains: the
stream is read in order, so no inference can follow the one before sooner than the stream is read
through with the tokens there already. It is the share of the batched cycles beyond that.
"""
EXAMPLES = """\
examples:
  python -m sim.throughput
  python -m sim.throughput --lanes 16 --batch 512
  python -m sim.throughput --whole-last-layer
  python -m sim.throughput --lanes 32 --stream-ahead 2048
  python -m sim.throughput --json build/throughput.json
"""
CLOCK_MHZ = 100
MIXES = (("rotten-tomatoes", 128), ("imdb", 128))
"""Texts and the length that they are cut to: sentences, and reviews that fill it."""


@dataclass(frozen=True)
class Setting:
    """Lanes and bytes a cycle of the command stream."""

    lanes: int
    stream_bytes: int


SETTINGS = (
    Setting(8, 1), Setting(8, 8), Setting(16, 2), Setting(16, 16), Setting(32, 8), Setting(32, 32),
    Setting(64, 16), Setting(64, 64),
)  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """The texts on one setting.

    Attributes
    ----------
    whole, alone, batched
        Cycles of all texts: each alone with the whole last layer, each alone, in batches.
    batches
        Inferences that they share.
    utilisation
        MACs / N^2 of the batched cycles: of the tokens, and with whole row tiles.
    overlap
        Share of the batched cycles that overlapping the batches would save at most.
    """

    data: str
    setting: Setting
    texts: int
    tokens: int
    whole: int
    alone: int
    batched: int
    batches: int
    utilisation: tuple[float, float]
    overlap: float


def measure(
    quantized: QuantizedModel,
    data: str,
    lengths: Sequence[int],
    setting: Setting,
    memory: int,
    whole_last_layer: bool = False,
    ahead: int = 1,
) -> Measurement:
    """Predict the cycles of all texts, in a token memory of `memory` tokens.

    ahead
        Words of the stream that a buffer holds, for texts alone and batched.
    """
    model = quantized.model

    def compiled(tokens: int, whole_last_layer: bool) -> Program:
        config = fitting_model(model, setting.lanes, tokens)
        return compile_model(model, config, whole_last_layer=whole_last_layer)

    whole = compiled(max(lengths), True)
    alone = whole if whole_last_layer else compiled(max(lengths), False)
    together = compiled(max(memory, *lengths), whole_last_layer)
    known: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}

    def cycles(program: Program, batch: Sequence[int]) -> tuple[int, int]:
        """Of the inference, and until the next could begin if its tokens were there."""
        key = id(program), tuple(batch)
        if key not in known:
            rate = setting.stream_bytes
            one = partial(predict, program, batch, stream_bytes=rate, stream_ahead=ahead)
            known[key] = one().cycles, one(tokens_there=True).stream_end
        return known[key]

    batches = [[lengths[place] for place in batch] for batch in pack(together, lengths)]
    batched = sum(cycles(together, batch)[0] for batch in batches)
    at_least = sum(cycles(together, batch)[1] for batch in batches)
    return Measurement(
        data=data,
        setting=setting,
        texts=len(lengths),
        tokens=sum(lengths),
        whole=sum(cycles(whole, [tokens])[0] for tokens in lengths),
        alone=sum(cycles(alone, [tokens])[0] for tokens in lengths),
        batched=batched,
        batches=len(batches),
        utilisation=utilisation(together, lengths, batched),
        overlap=1 - at_least / batched,
    )


def report(found: Sequence[Measurement], memory: int) -> str:
    """A line a measurement."""
    headings = [
        *("texts", "mean tokens", "lanes", "bytes/cycle", "whole", "alone", "batched"),
        *("of whole", "of alone", "inferences", "tokens", "row tiles", "overlap"),
    ]
    rows: list[list[object]] = []
    for one in found:
        ways = one.whole, one.alone, one.batched
        a_second = [CLOCK_MHZ * 1e6 * one.texts / cycles for cycles in ways]
        rows.append(
            [
                one.data,
                f"{one.tokens / one.texts:.1f}",
                one.setting.lanes,
                one.setting.stream_bytes,
                *(f"{value:,.0f}" for value in a_second),
                f"{one.whole / one.batched:.2f}",
                f"{one.alone / one.batched:.2f}",
                one.batches,
                *(f"{share:.1%}" for share in one.utilisation),
                f"{one.overlap:.2%}",
            ]
        )
    return (
        f"{table(headings, rows)}\n\nTexts a second at {CLOCK_MHZ} MHz. whole, alone: each in an "
        "inference of its own, with the whole last layer and as compiled; batched: in batches in a "
        f"token memory of {memory}; of whole, of alone: how many times as many."
    )


def parser() -> Parser:
    result = Parser("sim.throughput", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "--lanes",
        type=int,
        nargs="+",
        choices=LANES,
        default=(8, 16, 32, 64),
        metavar="N",
        help="default: 8 16 32 64",
    )
    result.add_argument(
        "--batch",
        type=positive,
        default=256,
        metavar="TOKENS",
        help="tokens that the memory holds (default: 256)",
    )
    result.add_argument(
        "--texts", type=positive, default=1000, metavar="N", help="how many (default: 1000)"
    )
    result.add_argument(
        "--whole-last-layer",
        action="store_true",
        help="alone and batched compute the last layer for all tokens, too",
    )
    add_stream_ahead(result)
    add_model_options(result)
    add_json(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    _, quantized = model_of(options)
    plan = [
        (data, lengths, setting)
        for data, tokens in MIXES
        for lengths in [_lengths(quantized, data, tokens, options.texts)]
        for setting in SETTINGS
        if setting.lanes in options.lanes
    ]
    found = [
        measure(
            quantized,
            data,
            lengths,
            setting,
            options.batch,
            options.whole_last_layer,
            options.stream_ahead,
        )
        for data, lengths, setting in progress(plan, "predicting", "settings", total=len(plan))
    ]
    print(report(found, options.batch))
    if options.json:
        write_json(options.json, [asdict(one) for one in found])


def _lengths(quantized: QuantizedModel, data: str, tokens: int, texts: int) -> list[int]:
    spec = quantized.spec
    found = load_texts(data, "test", names=(), task=spec.task)[:texts]
    return [len(quantized.tokens(one.content, one.pair, max_tokens=tokens).ids) for one in found]


if __name__ == "__main__":
    sys.exit(main())
