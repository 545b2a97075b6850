"""Train a classifier of texts, numbers, labels, words or images, and write it as a checkpoint.

--out holds the run while it goes on, and at the end the checkpoint alone: the weights of the best
evaluation, training.json with all figures, and the curves as SVG. After Ctrl-C or a kill the same
command with --resume goes on from the last evaluation. It uses a GPU where torch finds one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.options import Parser, positive, whole

from quant.texts.corpora import CORPORA
from quant.texts.data_file import add_columns
from train.command import add_common, add_sizes, run_training, share
from train.data import DIGITS, TASKS

EXAMPLES = """\
examples:
  python -m train.finetune --data reviews.csv --out build/trained/mine
      a BERT-Tiny from random weights, on any CSV (columns text, label) or JSONL
  python -m train.finetune --family bert2rtl-transformer --data rotten-tomatoes
      a plain Transformer encoder
  python -m train.finetune --model models/bert-tiny-imdb --freeze --data sentences.jsonl
      from a checkpoint, training its pooler and classifier only
  python -m train.finetune --model DIR --task multi-label --names joy,fear --data train.csv
      several labels at once; numbers and a class for every word alike
"""

_OWN = "bert2rtl-transformer", "bert2rtl-fused"
FAMILIES = ("bert", "roberta", "electra", "albert", "distilbert", *_OWN)
_NEW = {"word_dropout": 0.1, "teacher": "nb-svm"}
_OLD = {"word_dropout": 0.0, "teacher": "none"}
DEFAULTS: dict[str, dict[str, Any]] = {
    "new": {"epochs": 9, "length": [128, 128, 512], "batch": 32, "learning_rate": 5e-4, **_NEW},
    "model": {"epochs": 3, "length": [128], "batch": 32, "learning_rate": 5e-5, **_OLD},
    "digits": {"epochs": 240, "batch": 64, "learning_rate": 2e-3},
}
"""Of a new model of texts, with --model, and of digits."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_training(parser(), "train.training.finetune", argv)


def parser() -> Parser:
    result = Parser("train.finetune", __doc__ or "", EXAMPLES)
    data = result.add_argument_group("data")
    sets = f"{', '.join((*CORPORA, DIGITS))}, or a table of texts (%(default)s)"
    data.add_argument("--data", default="imdb", metavar="NAME|FILE", help=sets)
    data.add_argument("--validation", metavar="FILE", help="to select by (a tenth of --data)")
    data.add_argument("--test", metavar="FILE", help="measured at the end")
    data.add_argument("--task", choices=TASKS, default=TASKS[0], help="of a file (%(default)s)")
    data.add_argument("--names", metavar="A,B,...", help="outputs of a file (its classes, sorted)")
    data.add_argument("--limit", type=positive, metavar="N", help="train on N of them alone")
    add_columns(result)
    model = result.add_argument_group("model")
    model.add_argument("--model", type=Path, metavar="DIR", help="start from this checkpoint")
    model.add_argument("--freeze", action="store_true", help="train pooler and classifier only")
    model.add_argument("--family", choices=FAMILIES, default="bert", help="if new (%(default)s)")
    add_sizes(model, layers=2, hidden=128, heads=2, ffn=512, positions=512)
    add_sizes(model, patch=2, embedding_size=64, vocab_size=8192)
    model.add_argument("--vocab", type=Path, metavar="FILE", help="vocab.txt (that of BERT)")
    kinds, what = ("minilm", "none"), "MiniLM's principal components, or random"
    model.add_argument("--embeddings", choices=kinds, default="minilm", help=what)
    defaults = (
        f"{kind}: {', '.join(f'{name} {value}' for name, value in of.items())}"
        for kind, of in DEFAULTS.items()
    )
    recipe = result.add_argument_group("recipe", "\n".join(defaults))
    recipe.add_argument("--epochs", type=positive, metavar="N", help="passes over the examples")
    what = "longest window in tokens; several share the epochs, and the last one measures"
    recipe.add_argument("--length", type=whole(3), nargs="+", metavar="N", help=what)
    recipe.add_argument("--word-dropout", type=share, metavar="P", help="words shown as [MASK]")
    kinds, what = ("nb-svm", "none"), "a linear model of n-grams to distil from"
    recipe.add_argument("--teacher", choices=kinds, help=what)
    add_common(result, recipe, "the name of --data")
    return result


if __name__ == "__main__":
    raise SystemExit(main())
