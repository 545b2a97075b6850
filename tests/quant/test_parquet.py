"""Texts in Parquet files: the same reviews as from a table of text, and one line for what is none.

The files are written by pyarrow, which also reads them; what is held here is what becomes of them.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from cli.errors import ToolError

import pyarrow
import pytest
from pyarrow import parquet

import quant.texts.parquet
from quant.texts.corpora import load_texts
from quant.texts.data_file import (
    Layout,
    Review,
    TextError,
    label_names,
    read_texts,
    stream_texts,
)

CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


def drawn(seed: int) -> list[Review]:
    rng = random.Random(seed)
    words = ("good", "schlecht", "é", '"so"', "a\nline", "😀")
    return [
        Review(
            " ".join(rng.choices(words, k=rng.randint(1, 9))),
            rng.choice((0, 1, None)),
            rng.choice(words),
        )
        for _ in range(rng.randint(1, 700))
    ]


LABELS = {
    "int8": pyarrow.int8(),
    "uint64": pyarrow.uint64(),
    "double": pyarrow.float64(),
    "string": pyarrow.string(),
}


@pytest.mark.parametrize("suffix", ["parquet", "pq", "PARQUET"])
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("text", [pyarrow.string(), pyarrow.large_string(), "dictionary"], ids=str)
def test_pairs_and_labels_of_every_kind(tmp_path: Path, suffix: str, kind: str, text: Any) -> None:
    """Whatever the types, the codec and the size of row groups and pages."""
    seed = f"{suffix} {kind} {text}"
    rng, reviews = random.Random(seed), drawn(len(seed))
    texts = pyarrow.array([r.text for r in reviews])
    texts = texts.dictionary_encode() if text == "dictionary" else texts.cast(text)
    named = [r.label if r.label is None or kind != "string" else "ab"[r.label] for r in reviews]
    columns = {
        "id": [*range(len(reviews))],
        " Text": texts,
        "LABEL": pyarrow.array(named, LABELS[kind]),
        "sentence2": [r.pair for r in reviews],
    }
    path = written(
        tmp_path / f"a.{suffix}",
        columns,
        compression=rng.choice(CODECS),
        row_group_size=rng.choice((1, 7, 300, 1000)),
        data_page_size=rng.choice((64, 1 << 20)),
        use_dictionary=rng.random() < 0.5,
        data_page_version=rng.choice(("1.0", "2.0")),
    )
    layout = Layout(text="text")
    assert read_texts(path, names=["a", "b"], layout=layout) == reviews
    assert load_texts(str(path), "test", names=["a", "b"], layout=layout) == reviews
    assert label_names(path, layout=layout) == (["a", "b"] if kind == "string" else ["0", "1"])


def test_columns_by_name_and_a_note_on_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names with a dot, and a column that is nested; what is not asked for is not read."""
    columns = {
        "a.b": ["x", "y"],
        "a": ["?", "?"],
        "c.d.e": ["p", "q"],
        "grade": ["Bad", None],
        "s": [{"a": 1}, None],
    }
    path = written(tmp_path / "a.parquet", columns)
    layout = Layout(text="a.b", pair="c.d.e", label="grade")
    found = read_texts(path, names=["good", "bad"], layout=layout)
    assert found == [Review("x", 1, "p"), Review("y", None, "q")]
    assert capsys.readouterr().err == f"note: {path}: not read: a, s\n"
    assert [r.text for r in read_texts(path, layout=Layout(text="a"))] == ["?", "?"]
    for missing in (Layout(text="b"), Layout(text="a", pair="c"), Layout(text="a", label="e")):
        with pytest.raises(TextError, match=r"has no column '(b|c|e)': its header is a\.b, a, c\."):
            read_texts(path, layout=missing)


NOT_UTF8 = pyarrow.array([b"ok", b"\xff"]).view(pyarrow.string())
NANOSECONDS = pyarrow.array([10**17 + 1], pyarrow.timestamp("ns"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": [5]}, ": row 1: 'text' is 5, not a string"),
        ({"text": [b"x"]}, r": row 1: 'text' is b'x', not a string"),
        ({"text": [["x"]]}, r": row 1: 'text' is \['x'\], not a string"),
        ({"text": [{"text": "x"}]}, r": row 1: 'text' is {'text': 'x'}, not a string"),
        ({"text": ["x"], "pair": [None]}, " holds no text"),
        ({"text": ["x", "y"], "label": [1.0, 1.5]}, r": row 2: 'label' is 1\.5, not an index"),
        ({"text": ["x"], "label": [float("nan")]}, ": row 1: 'label' is nan, not an index"),
        ({"text": ["x"], "label": [True]}, ": row 1: 'label' is True, not an index"),
        ({"text": ["x"], "label": [-1]}, ": row 1: 'label' is -1, not an index"),
        ({"text": ["x"], "label": ["good"]}, ": row 1: 'label' is 'good', not an index"),
        ({"text": ["x"], "label": [[1]]}, r": row 1: 'label' is \[1\], not an index"),
        ({"text": ["x"], "label": [b"1"]}, ": row 1: 'label' is b'1', not an index"),
        ({"text": ["x"], "label": NANOSECONDS}, ": row 1: 'label' "),
        ({"text": NOT_UTF8}, ": row 2: 'text' cannot be read: 'utf-8' codec can't decode byte"),
        ({"text": pyarrow.array([], pyarrow.string())}, " holds no text"),
        ({"text": pyarrow.nulls(2)}, " holds no text"),
        ({"review": ["x"]}, " has no column 'text': its header is review"),
        ({}, " has no column 'text': its header is nothing"),
    ],
)
def test_what_is_no_text_or_no_label_is_named_with_its_row(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    path = written(tmp_path / "a.parquet", columns)
    with pytest.raises(TextError, match=f"^{path}{message}"):
        read_texts(path)


def test_a_row_without_a_text_is_left_out(tmp_path: Path, capsys) -> None:
    path = written(tmp_path / "a.parquet", {"text": ["x", None, " ", "y"], "label": [0, 1, 0, 1]})
    assert [(review.text, review.label) for review in read_texts(path)] == [("x", 0), ("y", 1)]
    assert f"left out: 2, the first is {path}: row 2" in capsys.readouterr().err


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    table = pyarrow.Table.from_arrays([pyarrow.array(["x"])] * 3, names=["text", "id", "text"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(TextError, match=r"a\.parquet has 2 columns 'text': rename one"):
        read_texts(tmp_path / "a.parquet")


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"cannot read .*a\.parquet: No such file or directory"):
        read_texts(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").mkdir()
    with pytest.raises(TextError, match=r"cannot read .*: Is a directory"):
        read_texts(tmp_path / "b.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"text,label\nx,1\n", bytes(5000)])
def test_what_is_no_parquet_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(TextError, match=r"a\.parquet is no Parquet file, or cut: Parquet "):
        read_texts(tmp_path / "a.parquet")


def test_a_page_that_is_damaged_is_told_with_the_rows_before_it(tmp_path: Path) -> None:
    """The checksum of a page is looked at where the file has one."""
    columns = {"text": [f"text {i}" for i in range(2000)]}
    path = written(
        tmp_path / "a.parquet",
        columns,
        write_page_checksum=True,
        row_group_size=1000,
        compression="none",
        use_dictionary=False,
    )
    data = bytearray(path.read_bytes())
    data[data.index(b"text 1500")] ^= 1
    path.write_bytes(data)
    found: list[str] = []
    with pytest.raises(TextError, match=r"a\.parquet cannot be read behind row 768: "):
        found.extend(review.text for review in stream_texts(path))
    assert found == columns["text"][:768]


@pytest.mark.parametrize("kind", ["cut", "changed", "footer"])
def test_any_damage_is_one_line_or_harms_nobody(tmp_path: Path, kind: str) -> None:
    path, said = tmp_path / "a.parquet", []
    for seed in range(25):
        rng = random.Random(f"{seed} {kind}")
        reviews = drawn(seed)
        columns = {"text": [r.text for r in reviews], "label": [r.label for r in reviews]}
        written(path, columns, compression=rng.choice(CODECS), row_group_size=100)
        data = bytearray(path.read_bytes())
        if kind == "cut":
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randint(1, 20)) if kind != "cut" else ():
            begin = 0 if kind == "changed" else max(0, len(data) - 600)
            data[rng.randrange(begin, len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            read_texts(path)
        except TextError as error:
            said.append(str(error))
    assert len(said) > 10
    assert not [line for line in said if "\n" in line or str(path) not in line]


def test_without_pyarrow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.parquet", {"text": ["x"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ToolError) as error:
        read_texts(path)
    assert str(error.value) == (
        f"{path}: reading Parquet needs the package pyarrow: run `make setup-parquet`, then use "
        ".venv/bin/python"
    )


def test_rows_are_decoded_as_they_are_taken(tmp_path: Path) -> None:
    """Not the file: only some rows ahead of the one that was asked for."""
    count = 40 * quant.texts.parquet.ROWS
    path = written(
        tmp_path / "a.parquet",
        {"text": ["some text " * 200] * count},
        use_dictionary=False,
        compression="none",
        data_page_size=1 << 16,
    )
    found, before = stream_texts(path), pyarrow.total_allocated_bytes()
    size, most = path.stat().st_size, 0
    for _ in found:
        most = max(most, pyarrow.total_allocated_bytes() - before)
    assert most < size / 4
