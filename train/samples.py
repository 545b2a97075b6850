"""Labelled texts of chosen sizes from the two review corpora, as CSV files to train on.

Half of each file is of the IMDB reviews and half of the Rotten Tomatoes sentences, shuffled. The
same texts carry two classes (negative, positive) in `two-*.csv` and four, the corpus with the
label, in `four-*.csv`. A file of N texts to train on holds the first N / 2 of either training
split; `*-validation.csv` holds 500 of either validation split and `*-test.csv` 1,000 of either test
split, so no text is in two of them.
"""

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path

from cli import files
from cli.command import run_command
from cli.machine import BUILD
from cli.options import Parser, positive

import numpy as np

from quant.texts.corpora import CORPORA
from train.failure import TrainError

EXAMPLES = """\
examples:
  python -m train.samples
  python -m train.samples --texts 2400 --out build/mine
"""
_SIZES = (500, 2000, 10000)
_MEASURED = {"validation": 1000, "test": 2000}
_LABELS = ("negative", "positive")


def sample(split: str, count: int, *, classes: int) -> list[tuple[str, str]]:
    """``count`` texts and labels, half of each corpus, in an order that depends on nothing else."""
    rows = []
    for source, read in CORPORA.items():
        reviews = read(split)
        if len(reviews) < count // 2:
            raise TrainError(
                f"--texts {count}: {source} has {len(reviews):,} {split} texts, "
                f"{2 * len(reviews):,} at most can be had"
            )
        for review in reviews[: count // 2]:
            assert review.label is not None
            name = _LABELS[review.label]
            rows.append((review.text, name if classes == 2 else f"{source} {name}"))
    return [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]


def write(path: Path, rows: Sequence[tuple[str, str]]) -> None:
    """Texts and labels as CSV with the header text,label."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("text", "label"))
    writer.writerows(rows)
    files.write(path, text.getvalue())
    print(f"{path}: {len(rows):,} texts")


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("train.samples", __doc__ or "", EXAMPLES)
    parser.add_argument(
        "--texts",
        type=positive,
        nargs="+",
        default=list(_SIZES),
        metavar="N",
        help=f"texts of the files to train on ({' '.join(map(str, _SIZES))})",
    )
    parser.add_argument(
        "--out", type=Path, default=BUILD / "samples", metavar="DIR", help="(%(default)s)"
    )
    return run_command(lambda: _write_all(parser.parse_args(argv)))


def _write_all(options: argparse.Namespace) -> None:
    for count in options.texts:
        if count < 4 or count % 2:
            raise TrainError(f"--texts {count}: an even number from 4 on is needed")
    for classes, name in ((2, "two"), (4, "four")):
        wanted = [("train", count, str(count)) for count in options.texts]
        wanted += [(split, count, split) for split, count in _MEASURED.items()]
        for split, count, suffix in wanted:
            rows = sample(split, count, classes=classes)
            write(options.out / f"{name}-{suffix}.csv", rows)


if __name__ == "__main__":
    raise SystemExit(main())
