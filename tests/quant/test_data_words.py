"""Texts word by word with their tags, from every kind of file."""

import json
from pathlib import Path
from typing import Any

import pytest

from quant.model.spec import TOKEN_CLASSIFICATION
from quant.texts.data_file import Layout, read_texts
from quant.texts.rows import TextError

NAMES = ("O", "B-PER", "I-PER", "B-LOC")
WORDS = [["Ada", "Lovelace", "wrote", "."], ["London"]]
TAGS = [[1, 2, 0, 0], [3]]
NAMED = [[NAMES[tag] for tag in row] for row in TAGS]


def read(path: Path, **layout: Any) -> list[tuple[Any, Any]]:
    found = read_texts(path, names=NAMES, task=TOKEN_CLASSIFICATION, layout=Layout(**layout))
    assert all(review.text == " ".join(review.words or [review.text]) for review in found)
    return [(review.words and list(review.words), list(review.tags)) for review in found]


def jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "texts.jsonl"


@pytest.mark.parametrize(
    ("words", "tags"),
    [("tokens", "ner_tags"), ("words", "tags"), ("Tokens", "labels"), ("words", "label")],
)
@pytest.mark.parametrize("said", [TAGS, NAMED, [[tag.lower() for tag in row] for row in NAMED]])
def test_jsonl(words: str, tags: str, said: list, tmp_path: Path) -> None:
    rows = [{"id": 1, words: a, tags: b} for a, b in zip(WORDS, said)]
    assert read(jsonl(tmp_path, rows)) == list(zip(WORDS, TAGS))


def test_named_columns(tmp_path: Path) -> None:
    rows = [{"tokens": ["x"], "mine": a, "ner_tags": [0], "own": b} for a, b in zip(WORDS, TAGS)]
    assert read(jsonl(tmp_path, rows), text="mine", label="own") == list(zip(WORDS, TAGS))


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"id": [1, 2], "tokens": WORDS, "ner_tags": TAGS, "pos_tags": TAGS[::-1]})
    parquet.write_table(table, tmp_path / "texts.parquet")
    assert read(tmp_path / "texts.parquet") == list(zip(WORDS, TAGS))


@pytest.mark.parametrize(
    "text",
    [
        "-DOCSTART- -X- O\n\nAda NNP B-PER\nLovelace NNP I-PER\nwrote VBD O\n. . O\n"
        "\n\nLondon N B-LOC",
        "Ada\tB-PER\r\nLovelace\tI-PER\r\nwrote\tO\r\n.\tO\r\n\r\nLondon\tB-LOC\r\n",
    ],
)
@pytest.mark.parametrize("suffix", [".conll", ".bio", ".IOB2"])
def test_a_word_a_line(text: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"texts{suffix}").write_bytes(text.encode())
    assert read(tmp_path / f"texts{suffix}") == list(zip(WORDS, TAGS))


@pytest.mark.parametrize(
    "text",
    [
        "tokens,ner_tags\nAda Lovelace wrote .,B-PER I-PER O O\nLondon,B-LOC\n",
        'words;tags\n"[""Ada"", ""Lovelace"", ""wrote"", "".""]";[1, 2, 0, 0]\nLondon;3\n',
    ],
)
def test_csv(text: str, tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text(text)
    assert read(tmp_path / "texts.csv") == list(zip(WORDS, TAGS))


def test_what_says_nothing(tmp_path: Path) -> None:
    """-100 as in transformers, null; rows without tags; rows with a text in place of words."""
    rows = [
        {"tokens": ["a", "b", "c"], "ner_tags": [-100, None, 2]},
        {"tokens": ["a", "b"], "ner_tags": None},
        {"tokens": ["a"]},
        {"text": "a b, c"},
    ]
    none = None
    assert read(jsonl(tmp_path, rows)) == [
        (["a", "b", "c"], [none, none, 2]),
        (["a", "b"], [none, none]),
        (["a"], [none]),
        (none, []),
    ]
    (tmp_path / "texts.txt").write_text("a b, c\n\nd\n")
    assert read(tmp_path / "texts.txt") == [(none, []), (none, [])]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": [0]}, ":1: 2 words have 1 tags: each needs one"),
        ({"tokens": ["a"], "tags": [4]}, ":1: the tag of word 1 is 4: an index must be .* below 4"),
        ({"tokens": ["a", "b"], "tags": ["O", "B-ORG"]}, "of word 2 is 'B-ORG', not one of O, B-P"),
        ({"tokens": ["a"], "tags": 3}, "the tags are 3, not a list"),
        ({"tokens": ["a"], "tags": [True]}, "the tag of word 1 is True, not one of"),
        ({"tokens": "[1", "tags": [0]}, r"'tokens' is '\[1', not a list of words"),
        ({"tokens": ["a", " "], "tags": [0, 0]}, "'tokens' is .* not a list of words"),
        ({"tokens": ["a", 3], "tags": [0, 0]}, "'tokens' is .* not a list of words"),
        ({"sentence": "a"}, "it has no tokens, words or text, but sentence: name the column"),
    ],
)
def test_refusals(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TextError, match=message):
        read(jsonl(tmp_path, [row]))


def test_more_refusals(tmp_path: Path) -> None:
    (tmp_path / "texts.conll").write_text("Ada B-PER\nLovelace\n")
    with pytest.raises(TextError, match="conll:2: 'Lovelace' is one column: a word and its tag"):
        read(tmp_path / "texts.conll")
    (tmp_path / "texts.conll").write_text("\n\nAda O\n\nLondon X\n")
    with pytest.raises(TextError, match="conll:5: the tag of word 1 is 'X', not one of O"):
        read(tmp_path / "texts.conll")
    (tmp_path / "texts.bio").write_bytes(b"Ad\xe4 O\n")
    with pytest.raises(TextError, match=r"is not UTF-8 text.*give its --encoding"):
        read(tmp_path / "texts.bio")
    assert read(tmp_path / "texts.bio", encoding="latin-1") == [(["Ad\xe4"], [0])]
    path = jsonl(tmp_path, [{"tokens": ["a"], "tags": [0]}])
    with pytest.raises(TextError, match=r"it has no 'mine', but tokens, tags: .* --label-column"):
        read(path, label="mine")
    with pytest.raises(TextError, match=r"it has no 'mine', but tokens, tags: .* --text-column"):
        read(path, text="mine")
