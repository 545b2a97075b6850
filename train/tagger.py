"""Fine-tune a BERT checkpoint that gives every word a class: train.heads with that head."""

import argparse
from collections.abc import Sequence

from cli.options import Parser

from quant.model.spec import TOKEN_CLASSIFICATION
from train.command import run_training
from train.heads import add_options

NAME = "tagger"
EXAMPLES = """\
examples:
  python -m train.tagger --splits build/names
  python -m train.tagger --data train.conll --validation valid.conll --names O,B-PER,I-PER
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("train.tagger", "Fine-tune a BERT that gives every word a class.", EXAMPLES)
    add_options(parser, "the names in sentences of IMDB", name=NAME, rate=5e-4)
    parser.set_defaults(task=TOKEN_CLASSIFICATION)

    def command(options: argparse.Namespace) -> None:
        from train.heads_training import heads  # torch takes seconds

        heads(options, NAME)

    return run_training(command, parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
