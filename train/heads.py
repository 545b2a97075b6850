"""Fine-tune a BERT checkpoint for several labels at once, numbers, or a class of every word.

Texts and targets come from a file, as `quant.evaluate` reads it, or from the corpora: which of
"positive" and "review" (a whole one, not a sentence) hold; or the sentiment, -1 or 1, and the
number of words up to 100; or which words are names.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from cli.options import MODEL, Parser, positive

from quant.model.spec import MULTI_LABEL, REGRESSION
from quant.texts.data_file import add_columns
from train.choices import REVIEWS
from train.command import add_common, run_training

EXAMPLES = """\
examples:
  python -m train.heads multi-label --splits build/multi-label-texts
  python -m train.heads regression --steps 1000
  python -m train.heads multi-label --data train.csv --validation more.csv --names joy,fear
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(
        "train.heads", "Fine-tune a BERT for several labels at once, or for numbers.", EXAMPLES
    )
    parser.add_argument("task", choices=(MULTI_LABEL, REGRESSION), help="kind of the outputs")
    add_options(parser, "both corpora", name="the task", rate=2e-4)

    def command(options: argparse.Namespace) -> None:
        from train.heads_training import heads  # torch takes seconds

        heads(options, options.task)

    return run_training(command, parser, argv)


def add_options(parser: Parser, corpora: str, *, name: str, rate: float) -> None:
    """Add all but the task; ``corpora`` are what is trained on without --data."""
    parser.add_argument(
        "--model", type=Path, default=MODEL, metavar="DIR", help=f"start from it (default: {MODEL})"
    )
    data = parser.add_argument_group("texts")
    data.add_argument(
        "--data",
        default=REVIEWS,
        metavar="FILE",
        help=f"to train on (default: {REVIEWS}, {corpora})",
    )
    data.add_argument("--validation", metavar="FILE", help="to select by, needed with --data FILE")
    data.add_argument("--test", metavar="FILE", help="to measure on")
    data.add_argument("--names", metavar="A,B,...", help="of the outputs, with --data FILE")
    data.add_argument("--splits", type=Path, metavar="DIR", help="write the splits there as .jsonl")
    add_columns(parser)
    recipe = parser.add_argument_group("recipe")
    recipe.add_argument("--steps", type=positive, default=1200, help="(%(default)s)")
    recipe.add_argument("--length", type=positive, default=128, help="tokens (%(default)s)")
    add_common(parser, recipe, name=name, rate=rate, batch=32, average=0.99, patience=0)


if __name__ == "__main__":
    raise SystemExit(main())
