"""Pre-train an encoder from random weights by predicting masked words of unlabelled text.

Then `python -m train.finetune --model DIR` makes a classifier of it. A run that was stopped, by
Ctrl-C or a kill, goes on when the same command is given again, and ends with the same bytes.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from cli.options import Parser, positive

from quant.texts.corpora import CORPORA
from train.choices import PRESETS, REVIEWS
from train.command import add_common, run_training, share

EXAMPLES = """\
examples:
  python -m train.pretrain
      HeartBERT's shape on the training texts of both review corpora
  python -m train.pretrain --preset bert-tiny --data text.txt --out build/trained/mine
      another shape, on a text a line (.txt), or the text column of a .csv, .jsonl or .parquet file
"""


def main(argv: Sequence[str] | None = None) -> int:
    def command(options: argparse.Namespace) -> None:
        from train.pretraining import pretrain  # torch takes seconds

        pretrain(options)

    return run_training(command, _parser(), argv)


def _parser() -> Parser:
    parser = Parser("train.pretrain", __doc__ or "", EXAMPLES)
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        nargs="+",
        default=[REVIEWS],
        help=f"{REVIEWS} (the training texts of both corpora), one of {', '.join(CORPORA)}, "
        "or files (%(default)s)",
    )
    data.add_argument("--vocab", type=Path, metavar="FILE", help="vocab.txt")
    data.add_argument(
        "--held-out", type=positive, default=256, help="blocks for validation (%(default)s)"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--preset", choices=sorted(PRESETS), default="heartbert")
    for name in ("layers", "hidden", "heads", "ffn", "positions"):
        model.add_argument(f"--{name}", type=positive, help="instead of the preset's")
    model.add_argument(
        "--neighbours", action="store_true", help="first heads start out attending to neighbours"
    )
    recipe = parser.add_argument_group("recipe")
    recipe.add_argument("--steps", type=positive, default=1200, help="(%(default)s)")
    recipe.add_argument("--length", type=positive, default=128, help="tokens a block (%(default)s)")
    recipe.add_argument("--masked", type=share, default=0.15, help="share of tokens (%(default)s)")
    recipe.add_argument("--every", type=positive, default=100, help="steps between evaluations")
    recipe.add_argument("--dropout", type=share, default=0.0, help="(%(default)s)")
    add_common(
        parser, recipe, name="the name of --preset", rate=1e-3, batch=64, average=0.0, patience=0
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
