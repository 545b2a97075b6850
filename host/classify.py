"""`python -m host.classify "That movie was terrible!"`: a text, or a file of them, on the board.

The words become tokens here, by the tokenizer that lies with the quantized model; the board does
the rest. Its image must be of that model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json
from cli.progress import progress

import numpy as np

from board.protocol import Info
from golden.store import load
from host.board import Answer, Board, BoardError
from host.options import add_board, image_in, link_of
from quant.data_file import Review, add_columns, layout_of, read_texts
from quant.float_model import softmax
from quant.spec import CLASSIFICATION, EncoderSpec
from quant.tokenizer import TextTokenizer, Tokens
from rtl.compile.image import HEADER

MODEL = Path("build/bert-tiny-imdb")
EXAMPLES = """\
examples:
  python -m host.classify "That movie was terrible!"
  python -m host.classify "A film for everyone." --port /dev/ttyUSB0 --json build/answer.json
  python -m host.classify --data reviews.csv --json build/answers.json
  python -m host.classify --pair "Is it any good?" "Not at all." --quantized build/mine
"""


@dataclass(frozen=True)
class Texts:
    """What belongs to the model but stays on this side: tokenizer, labels, scale of the logits."""

    tokenizer: TextTokenizer
    spec: EncoderSpec
    scale: float

    @classmethod
    def load(cls, quantized: Path) -> Texts:
        """Raises ValueError naming the folder where it holds no quantized classifier."""
        _, info = load(quantized)
        try:
            spec = EncoderSpec.from_json(info["spec"])
            scale = float(info["tensors"]["logits"]["scale"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{quantized} has no usable {error}: calibrate again") from None
        spec.require(CLASSIFICATION, quantized)
        return cls(TextTokenizer(quantized), spec, scale)

    def tokens(self, review: Review, limit: int) -> Tokens:
        return self.tokenizer.encode(
            review.text,
            review.pair,
            limit=min(limit, self.spec.max_tokens),
            segments=self.spec.types,
        )

    def figures(self, tokens: Tokens, answer: Answer, info: Info, seconds: float) -> dict[str, Any]:
        """Class, logits and time of an answer.

        Raises
        ------
        BoardError
            It has not as many logits as the model has classes.
        """
        labels = self.spec.labels
        if len(answer.logits) != len(labels):
            raise BoardError(
                f"the board answers with {len(answer.logits)} logits, this model has {len(labels)} "
                "classes: load its image, or name the other model with --quantized"
            )
        logits = (answer.logits * self.scale).astype(np.float32)
        return {
            "class": labels[int(answer.logits.argmax())],
            "tokens": len(tokens.ids),
            "dropped_tokens": tokens.dropped,
            "integer_logits": dict(zip(labels, map(int, answer.logits))),
            "logits": dict(zip(labels, map(float, logits))),
            "probabilities": dict(zip(labels, map(float, softmax(logits)))),
            "cycles": answer.cycles,
            "board_milliseconds": answer.cycles / info.kilohertz,
            "seconds": seconds,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("host.classify", "Classify texts on the board.", EXAMPLES)
    result.add_argument("text", nargs="?", help="the text")
    result.add_argument("--pair", metavar="TEXT", help="a second text, for models trained on pairs")
    result.add_argument("--data", type=Path, metavar="FILE", help="a .csv, .tsv, .jsonl or .txt")
    result.add_argument(
        "--quantized", type=Path, default=MODEL, metavar="DIR",
        help=f"the model whose image the board has (default: {MODEL})",
    )  # fmt: skip
    result.add_argument(
        "--load", type=Path, metavar="FILE",
        help="the image that the board has to use; loaded first where it uses another",
    )  # fmt: skip
    add_columns(result)
    add_board(result)
    add_json(result)
    return result


def _run(options: argparse.Namespace) -> int:
    if (options.text is None) == (options.data is None):
        raise ValueError("give a text, or a file of texts with --data: one of the two")
    texts = Texts.load(options.quantized)
    if options.data is None:
        reviews = [Review(options.text, None, options.pair)]
    else:
        reviews = read_texts(options.data, names=texts.spec.labels, layout=layout_of(options))
    with link_of(options) as link:
        board = Board(link)
        info = board.info()
        if options.load:
            image, _ = image_in(options.load)
            if info.digest != image[HEADER.size - len(info.digest) : HEADER.size]:
                board.load(image)
        longest = min(info.tokens, info.longest // 4)
        encoded = [texts.tokens(review, longest) for review in reviews]
        answers = []
        for tokens in progress(encoded, "classifying"):
            began = time.monotonic()
            answer = board.run(tokens.ids.tolist(), tokens.types.tolist())
            answers.append(texts.figures(tokens, answer, info, time.monotonic() - began))
    if options.data is None:
        _show(answers[0])
    else:
        _show_all(reviews, answers)
    if options.json:
        write_json(options.json, answers[0] if options.data is None else {"answers": answers})
    return 0


def _show(answer: dict[str, Any]) -> None:
    cut = f" ({answer['dropped_tokens']} more cut)" if answer["dropped_tokens"] else ""
    print(f"{answer['class']}   from {answer['tokens']} tokens{cut}")
    width = max(5, *map(len, answer["logits"]))
    print(f"{'class':{width}}{'integer logit':>14} {'logit':>9} {'probability':>12}")
    for label, logit in answer["logits"].items():
        print(
            f"{label:{width}}{answer['integer_logits'][label]:14} {logit:9.4f} "
            f"{answer['probabilities'][label]:12.2%}"
        )
    print(
        f"{answer['cycles']:,} clock cycles, {answer['board_milliseconds']:.3f} ms on the board, "
        f"{1000 * answer['seconds']:.0f} ms with the line"
    )


def _show_all(reviews: Sequence[Review], answers: Sequence[dict[str, Any]]) -> None:
    for review, answer in zip(reviews, answers, strict=True):
        probability = answer["probabilities"][answer["class"]]
        text = " ".join(review.text.split())
        print(f"{answer['class']:12} {probability:7.2%}  {text[:80]}")
    known = [(r, a) for r, a in zip(reviews, answers) if r.label is not None]
    if known:
        right = sum(a["class"] == list(a["logits"])[r.label or 0] for r, a in known)
        print(f"{right} of {len(known)} as their labels say")


if __name__ == "__main__":
    sys.exit(main())
