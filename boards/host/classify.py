"""`python -m boards.host.classify "That movie was terrible!"`: a text, or a file, on the board.

The words become tokens here, by the tokenizer that lies with the quantized model; the board does
the rest. Its image must be of that model: the board says of which it is, before the first text and
after the last. The texts of a file share inferences, as many as fit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cli.command import run_command
from cli.files import write_json
from cli.machine import BUILD
from cli.options import Parser, add_json
from cli.progress import progress

import numpy as np

from boards.host.batches import Room, config_of
from boards.host.board import Board, BoardError, InferenceError
from boards.host.options import add_board, image_in, link_of
from boards.protocol import Info
from golden.identity import identity_of
from quant.foreign.tokenizer import Tokens
from quant.images import data as images
from quant.measure.answers import (
    answer,
    numbers,
    right_of,
    said,
    table,
)
from quant.model.spec import (
    CLASSIFICATION,
    LABELLED,
    MULTI_LABEL,
    REGRESSION,
    TOKEN_CLASSIFICATION,
    EncoderSpec,
)
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review, add_columns, layout_of
from rtl.compile.image import HEADER, image_bytes
from rtl.compile.program import compile_model, image_of

MODEL = BUILD / "bert-tiny-imdb"
EXAMPLES = """\
examples:
  python -m boards.host.classify "That movie was terrible!"
  python -m boards.host.classify "A film for everyone." --port /dev/ttyUSB0 --json build/answer.json
  python -m boards.host.classify --data reviews.csv --json build/answers.json
  python -m boards.host.classify --pair "Is it any good?" "Not at all." --quantized build/mine
"""


class Texts(QuantizedModel):
    """What belongs to the model but stays on this side: tokenizer, labels, scale of the logits."""

    TASKS: ClassVar[Sequence[str]] = LABELLED

    def figures(self, tokens: Tokens, codes: np.ndarray) -> dict[str, Any]:
        """What is said of a text, and its logits."""
        logits = (codes * self.logit_scale).astype(np.float32)
        return answer(self.spec, tokens, logits, codes) | {
            "tokens": len(tokens.ids),
            "dropped_tokens": tokens.dropped,
            "integer_logits": numbers(self.spec, tokens, codes),
        }


@dataclass(frozen=True)
class Batch:
    """What an inference had in it, and took: clock cycles, seconds with the line."""

    texts: int
    tokens: int
    cycles: int
    seconds: float

    def figures(self, info: Info) -> dict[str, Any]:
        milliseconds = self.cycles / info.kilohertz
        return vars(self) | {
            "cycles_a_text": self.cycles / self.texts,
            "board_milliseconds": milliseconds,
            "board_milliseconds_a_text": milliseconds / self.texts,
        }

    @classmethod
    def sum(cls, batches: Sequence[Batch]) -> Batch:
        """All of them as one."""
        return cls(*(sum(values) for values in zip(*(vars(one).values() for one in batches))))


def classified(
    board: Board, texts: Texts, encoded: Sequence[Tokens], batches: Sequence[Sequence[int]]
) -> tuple[list[dict[str, Any]], list[Batch]]:
    """The figures of each text, in order, and what each batch took.

    Raises
    ------
    BoardError, LinkError
        As `Board.run`; an error of one text of several names it.
    """
    labels, every = len(texts.spec.labels), texts.spec.task == TOKEN_CLASSIFICATION
    took = []

    def rows() -> Iterator[tuple[int, np.ndarray]]:
        for batch in batches:
            parts = [encoded[place] for place in batch]
            began = time.monotonic()
            try:
                sequences = [(t.ids.tolist(), t.types.tolist()) for t in parts]
                answer = board.run(sequences, labels, every=every)
            except InferenceError as error:
                if error.sequence is None or len(encoded) == 1:
                    raise
                raise BoardError(f"text {batch[error.sequence] + 1}: {error}") from None
            tokens, seconds = sum(len(t.ids) for t in parts), time.monotonic() - began
            took.append(Batch(len(batch), tokens, answer.cycles, seconds))
            yield from zip(batch, answer.logits)

    found = {}
    for place, codes in progress(rows(), "classifying", total=len(encoded)):
        found[place] = texts.figures(encoded[place], codes)
    return [found[place] for place in range(len(encoded))], took


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("boards.host.classify", "Classify texts on the board.", EXAMPLES)
    result.add_argument("text", nargs="?", help="the text")
    result.add_argument("--pair", metavar="TEXT", help="a second text, for models trained on pairs")
    result.add_argument(
        "--data",
        type=Path,
        metavar="DIR|FILE",
        help="a .csv, .tsv, .jsonl, .txt or .parquet file; of images also a folder or a .npz, of "
        "rows a folder",
    )
    result.add_argument(
        "--one-by-one",
        action="store_true",
        help="an inference for each text of --data (default: they share them, as many as fit)",
    )
    result.add_argument(
        "--quantized",
        type=Path,
        default=MODEL,
        metavar="DIR",
        help=f"the model whose image the board has (default: {MODEL})",
    )
    result.add_argument(
        "--load",
        type=Path,
        metavar="FILE",
        help="the image that the board has to use; loaded first where it uses another",
    )
    add_columns(result)
    add_board(result)
    add_json(result)
    return result


def _run(options: argparse.Namespace) -> int:
    if (options.text is None) == (options.data is None):
        raise ValueError("give a text, or a file of texts with --data: one of the two")
    texts = Texts.load(options.quantized, None, floats=False)
    if texts.spec.given and options.load:
        raise ValueError(
            f"--load {options.load}: {options.quantized} is a model of {texts.spec.inputs}, whose "
            "rows are part of what is loaded: leave --load away"
        )
    model, named = identity_of(texts.model), f"--quantized {options.quantized}"
    data = b""
    if options.load:
        data, image = image_in(options.load)
        if image.model != model:
            raise ValueError(
                f"--load {options.load} holds model {image.model.hex()}, {named} is model "
                f"{model.hex()}: write its image with `python -m rtl.compile --quantized "
                f"{options.quantized} --image FILE`, or name the other with --quantized"
            )
    if options.data is None:
        reviews = [Review(options.text, None, options.pair)]
    else:
        spec, layout = texts.spec, layout_of(options)
        read = images.stream(
            options.data, inputs=spec.inputs, names=spec.labels, layout=layout, task=spec.task
        )
        reviews = list(read)
        if not reviews:
            raise ValueError(f"{options.data} holds no text")
    with link_of(options) as link:
        board = Board(link)
        info = board.info()
        room = Room.of(texts.model, info)
        encoded = [texts.tokens(r.content, r.pair, room.longest) for r in reviews]
        if texts.spec.given:
            # Their rows lie in the board's memory, where those of a vocabulary would.
            texts, encoded = texts.placed(encoded)
            model = identity_of(texts.model)
            program = compile_model(texts.model, config_of(info))
            data = image_bytes(image_of(texts.model, program))
        if data and info.digest != data[HEADER.size - len(info.digest) : HEADER.size]:
            board.load(data)
        board.require(model, named)
        if options.one_by_one:
            batches = [[place] for place in range(len(encoded))]
        else:
            batches = room.batches([len(tokens.ids) for tokens in encoded])
        answers, took = classified(board, texts, encoded, batches)
        # It may have been reset since, and have taken another from its flash.
        board.require(model, named)
    figures: dict[str, Any]
    if options.data is None:
        figures = answers[0] | took[0].figures(info)
        _show(texts.spec, figures)
    else:
        total = {"batches": len(took)} | Batch.sum(took).figures(info)
        parts = [{"places": b} | one.figures(info) for b, one in zip(batches, took, strict=True)]
        figures = {"answers": answers, "batches": parts, "total": total}
        _show_all(texts.spec, reviews, encoded, answers, total)
    if options.json:
        write_json(options.json, figures)
    return 0


def _show(spec: EncoderSpec, found: dict[str, Any]) -> None:
    cut = f" ({found['dropped_tokens']} more cut)" if found["dropped_tokens"] else ""
    print(f"{said(found)}   from {found['tokens']} tokens{cut}")
    print("\n".join(table(spec, found)))
    print(
        f"{found['cycles']:,} clock cycles, {found['board_milliseconds']:.3f} ms on the board, "
        f"{1000 * found['seconds']:.0f} ms with the line"
    )


def _show_all(
    spec: EncoderSpec,
    reviews: Sequence[Review],
    encoded: Sequence[Tokens],
    answers: Sequence[dict[str, Any]],
    total: dict[str, Any],
) -> None:
    for review, found in zip(reviews, answers, strict=True):
        shown = said(found)
        if spec.task == CLASSIFICATION:
            shown = f"{shown:12} {found['probabilities'][shown]:7.2%}"
        text = "" if "words" in found else f"  {' '.join(review.text.split())[:80]}"
        print(f"{shown}{text}")
    print(
        f"{total['texts']:,} texts in {total['batches']:,} inferences: {total['cycles']:,} clock "
        f"cycles, {total['cycles_a_text']:,.0f} a text; {total['board_milliseconds']:.3f} ms on "
        f"the board, {total['board_milliseconds_a_text']:.3f} a text; "
        f"{1000 * total['seconds']:.0f} ms with the line"
    )
    known = [
        (right, a)
        for r, t, a in zip(reviews, encoded, answers)
        if (right := right_of(spec, r, t)) is not None
    ]
    if spec.task == TOKEN_CLASSIFICATION:
        pairs = [pair for right, a in known for pair in zip(right, a["labels"], strict=True)]
        tagged = [(tag, label) for tag, label in pairs if tag is not None]
        if tagged:
            same = sum(tag == label for tag, label in tagged)
            print(f"{same:,} of {len(tagged):,} words as their tags say")
        return
    if known and spec.task == REGRESSION:
        for name in spec.labels:
            squares = [(a["values"][name] - right[name]) ** 2 for right, a in known]
            print(f"{name}: mean squared error {np.mean(squares):.4f} of {len(known)}")
    elif known:
        key = "labels" if spec.task == MULTI_LABEL else "class"
        print(f"{sum(right == a[key] for right, a in known)} of {len(known)} as their labels say")


if __name__ == "__main__":
    sys.exit(main())
