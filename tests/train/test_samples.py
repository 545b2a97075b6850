"""Files of chosen sizes: halves of both corpora, labels in words, no text in two files."""

import csv

import pytest

from quant.texts.corpora import CORPORA
from train.samples import main


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def test_files_hold_halves_of_both_corpora_and_share_no_text(tmp_path):
    assert main(["--texts", "10", "40", "--out", str(tmp_path)]) == 0
    found = {path.stem: rows(path) for path in tmp_path.iterdir()}
    counts = {"10": 10, "40": 40, "validation": 1000, "test": 2000}
    assert {name: len(texts) for name, texts in found.items()} == {
        f"{classes}-{name}": count for classes in ("two", "four") for name, count in counts.items()
    }
    names = {0: "negative", 1: "positive"}
    known = {
        review.text: f"{source} {names[review.label]}"
        for source, read in CORPORA.items()
        for split in ("train", "validation", "test")
        for review in read(split)
    }
    for name, count in counts.items():
        four, two = found[f"four-{name}"], found[f"two-{name}"]
        assert [(text, label.split()[1]) for text, label in four] == two
        assert all(known[text] == label for text, label in four)
        assert sum(label.startswith("imdb") for _, label in four) == count / 2
    assert {text for text, _ in found["four-10"]} <= {text for text, _ in found["four-40"]}
    parts = [{text for text, _ in found[f"four-{name}"]} for name in ("40", "validation", "test")]
    assert len(set.union(*parts)) == 3040


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("15000", "--texts 15000: rotten-tomatoes has 7,030 train texts, 14,060 at most"),
        ("2", "--texts 2: an even number from 4 on is needed"),
        ("7", "--texts 7: an even number from 4 on is needed"),
    ],
)
def test_what_cannot_be_had_is_one_clear_line(tmp_path, capsys, texts, message):
    assert main(["--texts", texts, "--out", str(tmp_path / "a")]) == 2
    assert message in capsys.readouterr().err
