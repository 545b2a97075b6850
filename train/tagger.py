"""Fine-tune a BERT checkpoint that gives every word a class: train.heads with that head."""

from collections.abc import Sequence

from cli.options import Parser

from quant.model.spec import TOKEN_CLASSIFICATION
from train.command import run_training
from train.heads import add_options, heads

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
    return run_training(lambda options: heads(options, NAME), parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
