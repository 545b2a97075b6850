"""Train an encoder from random weights to predict masked words of texts without labels.

Then `python -m train.finetune --model DIR` makes a classifier of it. After Ctrl-C or a kill the
same command with --resume goes on from the last evaluation.
"""

from collections.abc import Sequence
from pathlib import Path

from cli.options import Parser, positive, whole

from quant.texts.corpora import CORPORA
from train.command import add_common, add_sizes, run_training

EXAMPLES = """\
examples:
  python -m train.pretrain
      HeartBERT's shape, fused Q, K and V, on the training texts of both review corpora
  python -m train.pretrain --family bert --data text.txt --out build/trained/mine
      a BERT, on a text a line (.txt), or the text column of a .csv, .jsonl or .parquet file
"""


def main(argv: Sequence[str] | None = None) -> int:
    return run_training(parser(), "train.training.pretrain", argv)


def parser() -> Parser:
    result = Parser("train.pretrain", __doc__ or "", EXAMPLES)
    data = result.add_argument_group("data")
    sets = f"{', '.join(CORPORA)} (both), or files of texts"
    data.add_argument("--data", nargs="+", default=[*CORPORA], metavar="NAME|FILE", help=sets)
    data.add_argument("--held-out", type=positive, default=256, metavar="N", help="blocks (256)")
    model = result.add_argument_group("model")
    kinds, what = ("bert2rtl-fused", "bert"), "(%(default)s)"
    model.add_argument("--family", choices=kinds, default=kinds[0], help=what)
    add_sizes(model, layers=4, hidden=256, heads=4, ffn=1024, positions=128)
    model.add_argument("--vocab", type=Path, metavar="FILE", help="vocab.txt (that of BERT)")
    recipe = result.add_argument_group("recipe")
    recipe.add_argument("--epochs", type=positive, default=3, metavar="N", help="(%(default)s)")
    recipe.add_argument("--length", type=whole(3), default=128, metavar="N", help="tokens (128)")
    add_common(result, recipe, "the name of --family")
    result.set_defaults(batch=64, learning_rate=1e-3)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
