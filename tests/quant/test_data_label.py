"""What a label means: a table of cases, and random files against an account of its own.

The account tries both readings of a whole file by brute force; it shares nothing with quant.
"""

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from quant.model.spec import MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION
from quant.texts.data_file import Layout, label_names, read_texts, stream_texts
from quant.texts.data_label import READINGS
from quant.texts.rows import TextError
from tests.quant import tiny

STARS = ("1", "2", "3", "4", "5")
LONG = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
BOTH = "is the name of one class and the index of another.* --labels-are names or --labels-are ind"
NEITHER = "is no name of a class, and .* no index below"
KINDS = ("csv", "tsv", "jsonl", "parquet", "words.jsonl", "words.csv", "conll", "several.jsonl")


def write(folder: Path, kind: str, labels: list[Any]) -> Path:
    """A file with a text for each label, None without one; of words all in one text."""
    path, values = folder / f"a.{kind}", list(labels)
    if kind in ("csv", "tsv"):
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if kind == "tsv" else ",")
        writer.writerows([("text", "label"), *(("x", "" if v is None else v) for v in values)])
        path.write_text(text.getvalue(), newline="")
    elif kind == "jsonl":
        path.write_text("\n".join(json.dumps({"text": "x", "label": v}) for v in values))
    elif kind == "several.jsonl":
        values = [str(v) if isinstance(v, float) else v for v in values]  # of floats: one a class
        listed = [None if v is None else [v] for v in values]
        path.write_text("\n".join(json.dumps({"text": "x", "label": v}) for v in listed))
    elif kind == "parquet":
        table = pyarrow.table({"text": ["x"] * len(values), "label": values})
        parquet.write_table(table, path)
    elif kind == "words.jsonl":
        path.write_text(json.dumps({"tokens": ["x"] * len(values), "tags": values}))
    elif kind == "words.csv":
        listed = json.dumps(values).replace('"', '""')
        path.write_text(f'tokens,tags\n{" ".join("x" * len(values))},"{listed}"\n')
    else:
        path.write_text("".join(f"x {-100 if v is None else v}\n" for v in values))
    return path


def read(path: Path, kind: str, names: Any, are: str | None = None) -> list[int | None]:
    """The class of each label of such a file."""
    layout = Layout(labels_are=are)
    if kind in ("words.jsonl", "words.csv", "conll"):
        (one,) = read_texts(path, names=names, layout=layout, task=TOKEN_CLASSIFICATION)
        return list(one.tags)
    if kind == "several.jsonl":
        found = read_texts(path, names=names, layout=layout, task=MULTI_LABEL)
        for review in found:
            assert review.targets is None or sum(review.targets) == 1
        return [None if r.targets is None else r.targets.index(1.0) for r in found]
    return [review.label for review in read_texts(path, names=names, layout=layout)]


CASES: list[tuple[Any, list[Any], list[int | None] | str, str]] = [
    # names, labels of a file, classes or what the error says, the reading that a note tells
    (STARS, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4], "names"),
    (STARS, [5, 4], [4, 3], "names"),
    (STARS, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], "indices"),
    (STARS, [1, 2, 3], BOTH, ""),
    (STARS, ["1", "2", "3"], BOTH, ""),
    (STARS, [1.0, 5.0], [0, 4], "names"),
    (STARS, [1.0, None, 3.0], BOTH, ""),
    (STARS, ["0", "5"], NEITHER, ""),
    (STARS, ["1", "0", "5"], NEITHER, ""),
    (STARS, ["6"], "is '?6'?, not one of 1, 2, 3, 4, 5 or an index", ""),
    (STARS, [None, None], [None, None], ""),
    (LONG, [1, 5], [0, 4], "names"),
    (LONG, [1, 4], BOTH, ""),
    (LONG, [0, 4], [0, 4], "indices"),
    (("2", "0", "1"), [0, 1, 2], BOTH, ""),
    (("2", "0", "1"), [3], "is '?3'?, not one of 2, 0, 1", ""),
    (("0", "1", "2"), [0, 1, 2], [0, 1, 2], ""),
    (("01", "02"), ["01", "02"], [0, 1], "names"),
    (("01", "02"), ["1", "2"], [0, 1], "names"),
    (("01", "02"), ["01"], BOTH, ""),
    (("-1", "0", "1"), [-1, 0, 1], [0, 1, 2], "names"),
    (("-1", "0", "1"), [0, 1], BOTH, ""),
    (("0.5", "1.5"), [0.5, 1.5], [0, 1], ""),
    (("1", "2", "other"), ["other", "1"], [2, 0], "names"),
    (("1", "2", "other"), ["other", "0"], NEITHER, ""),
    (("1", "2", "other"), ["0", "1", "2"], [0, 1, 2], "indices"),
    (("art", "sport"), ["SPORT", "0", "art"], [1, 0, 0], ""),
    (("LABEL_0", "LABEL_1"), [1, 0], [1, 0], ""),
    (("LABEL_1", "LABEL_0"), [1, 0], BOTH, ""),
    (("Q1", "Q2", "Q3"), [0, 2], [0, 2], "indices"),
    (("art", "sport"), ["0" * 5000 + "1", "0.0"], [1, 0], ""),
    (("GPT-2", "T5", "BERT"), [0, 2], [0, 2], ""),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("names", "labels", "expected", "told"), CASES)
def test_a_file_is_read_one_way(
    kind: str, names: Any, labels: list[Any], expected: Any, told: str, tmp_path: Path, capsys
) -> None:
    if kind == "parquet" and len({type(v) for v in labels if v is not None}) > 1:
        labels = [None if v is None else str(v) for v in labels]
    path = write(tmp_path, kind, labels)
    if isinstance(expected, str):
        with pytest.raises(TextError, match=f"^{path}.*{expected}") as error:
            read(path, kind, names)
        assert "\n" not in str(error.value)
        return
    assert read(path, kind, names) == expected
    said = capsys.readouterr().err.splitlines()
    notes = [line for line in said if "labels are read as" in line]
    assert len(notes) == bool(told), said
    assert all(f"note: {path}: labels are read as {told}: " in line for line in notes)


@pytest.mark.parametrize("kind", KINDS)
def test_the_option_forces_either_reading(kind: str, tmp_path: Path, capsys) -> None:
    path = write(tmp_path, kind, ["1", "2", "3"])
    assert read(path, kind, STARS, "names") == [0, 1, 2]
    assert read(path, kind, STARS, "indices") == [1, 2, 3]
    assert capsys.readouterr().err == ""
    path = write(tmp_path, kind, ["1", "5"])
    with pytest.raises(TextError, match="is 5: an index must be at least 0 below 5"):
        read(path, kind, STARS, "indices")
    path = write(tmp_path, kind, ["1", "0"])
    with pytest.raises(TextError, match=r"is '0', not one of 1, 2, 3, 4, 5$"):
        read(path, kind, STARS, "names")
    path = write(tmp_path, kind, ["art"])
    with pytest.raises(TextError, match=r"is 'art', not an index from 0$"):
        read(path, kind, ("art", "sport"), "indices")


def test_a_reading_that_is_none() -> None:
    with pytest.raises(TextError, match="--labels-are numbers: it must be one of names, indices"):
        Layout(labels_are="numbers")


def test_the_places_are_those_of_the_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"two\nlines",1\nx,5\ny,0\n')
    with pytest.raises(TextError) as error:
        read_texts(path, names=STARS)
    assert f"{path}:5: the label '0' is no name of a class, and {path}:4: the label '5'" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([True, False], [1, 0]),
        (["TRUE", "false"], [1, 0]),
        ([True, "True"], [1, 1]),
    ],
)
def test_booleans_are_their_words(labels: list[Any], expected: list[int], tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", labels)
    assert read(path, "jsonl", ("false", "true")) == expected
    with pytest.raises(TextError, match=r":1: 'label' is (True|'TRUE'), not one of no, yes or an"):
        read(path, "jsonl", ("no", "yes"))


def account(names: list[str], words: list[str]) -> list[int] | None:
    """The class of each word by trying both readings of the file; None where it cannot be told."""

    def number(word: str) -> float | None:
        try:
            return float(word)
        except ValueError:
            return None

    def named(word: str) -> list[int]:
        same = [i for i, name in enumerate(names) if name.lower() == word.lower()]
        if not same and number(word) is not None:
            same = [i for i, name in enumerate(names) if number(name) == number(word)]
        return same

    as_names = [named(word) for word in words]
    values = [number(word) for word in words]
    as_indices = [[int(v)] if v is not None and v in range(len(names)) else [] for v in values]
    fit_names, fit_indices = all(as_names), all(as_indices)
    if fit_names and fit_indices and as_names != as_indices:
        return None
    if not fit_names and not fit_indices:
        if any(number(name) is not None for name in names):
            return None
        either = [a or b for a, b in zip(as_names, as_indices)]
        return [one[0] for one in either] if all(either) else None
    return [one[0] for one in (as_names if fit_names else as_indices)]


def drawn(seed: int) -> tuple[list[str], list[str]]:
    """Names of classes, and the labels of a file, which may be meant either way or wrong."""
    rng = random.Random(seed)
    count = rng.randint(3, 6)
    first = rng.choice((0, 0, 1, 2, -1))
    kind = rng.choice(("number", "number", "word", "mixed", "padded"))
    numbers = [str(first + i) for i in range(count)]
    names = [f"{int(n):02d}" for n in numbers] if kind == "padded" else numbers
    if kind in ("word", "mixed"):
        words = rng.sample(["art", "sport", "money", "US", "Zoë", "a b"], count)
        names = words if kind == "word" else [rng.choice(pair) for pair in zip(words, numbers)]
    rng.shuffle(names)
    pool = rng.choice((names, [str(i) for i in range(count)], [*names, *numbers, "7", "no"]))
    labels = rng.choices(pool, k=rng.randint(1, 8))
    spell = rng.choice((str, str.upper, lambda w: f"{w}.0" if w.isdigit() else w))
    return names, [spell(label) for label in labels]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "words.jsonl", "several.jsonl"])
def test_random_files_mean_what_the_account_says(kind: str, tmp_path: Path) -> None:
    refused = 0
    for seed in range(150):
        names, labels = drawn(seed)
        path = write(tmp_path, kind, labels)
        try:
            found: list[int | None] | None = read(path, kind, names)
        except TextError as error:
            found, said = None, str(error)
            assert str(path) in said
            assert "\n" not in said
        assert found == account(names, labels), (seed, names, labels)
        refused += found is None
    assert 20 < refused < 130


def test_streams_of_any_length_are_decided_by_their_last_label(tmp_path: Path, capsys) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "x,1\n" * 3000 + "y,5\n")
    first = next(stream_texts(path, names=STARS))
    assert first.label == 0
    assert "labels are read as names" in capsys.readouterr().err


# Several labels at once.


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1,3", "5"], [(1, 0, 1, 0, 0), (0, 0, 0, 0, 1)]),
        (["1;0"], [(1, 1, 0, 0, 0)]),
        ([[1, 3], ["5.0"], []], [(1, 0, 1, 0, 0), (0, 0, 0, 0, 1), (0,) * 5]),
        ([[1, 3], [1.0, 0.0, 0.0, 0.0, 1.0]], BOTH),
        (["1|2", 3], BOTH),
        ([[0], [5]], NEITHER),
    ],
)
def test_lists_of_labels(labels: list[Any], expected: Any, tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", labels)
    if isinstance(expected, str):
        with pytest.raises(TextError, match=expected):
            read_texts(path, names=STARS, task=MULTI_LABEL)
        return
    found = read_texts(path, names=STARS, task=MULTI_LABEL)
    assert [review.targets for review in found] == expected


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        (("a", "b"), [[0, 1], [1, 0]], r":1: the labels \[0, 1\] could be indices or a 0 or 1 for"),
        (("a", "b"), ["0,1"], r"could be indices or a 0 or 1 for each of 2 labels"),
        (("a",), ["0", "0"], r"could be indices or a 0 or 1 for each of 1 label,"),
        (("a", "b"), [[0, 1], [1]], [(1, 1), (0, 1)]),
        (("a", "b"), [[0, 1], ["b"]], [(1, 1), (0, 1)]),
        (("a", "b"), [[0.0, 1.0], [1.0, 0.0]], [(0, 1), (1, 0)]),
        (("a", "b", "c"), [[0, 1, 2]], [(1, 1, 1)]),
    ],
)
def test_indices_that_could_be_flags(
    names: tuple[str, ...], labels: list[Any], expected: Any, tmp_path: Path
) -> None:
    path = write(tmp_path, "jsonl", labels)
    if isinstance(expected, list):
        found = read_texts(path, names=names, task=MULTI_LABEL)
        assert [review.targets for review in found] == expected
        return
    with pytest.raises(TextError, match=expected):
        read_texts(path, names=names, task=MULTI_LABEL)
    found = read_texts(path, names=names, layout=Layout(labels_are="indices"), task=MULTI_LABEL)
    assert found[0].targets == (1,) * len(names)


# Names of the classes in a Parquet file, as `datasets` 2 to 5 writes them.


def feature(names: list[str], kind: str) -> Any:
    one = {"names": names, "_type": "ClassLabel"}
    return {
        "class": one,
        "sequence": {"feature": one, "length": -1, "_type": "Sequence"},
        "list": {"feature": one, "_type": "List"},
        "array": [one],
    }[kind]


def of_datasets(path: Path, columns: dict[str, Any], features: dict[str, Any]) -> Path:
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(metadata), path)
    return path


def test_the_names_in_a_parquet_file_count(tmp_path: Path, capsys) -> None:
    """In another order, another case, with more names in the model; -1 is no label."""
    columns = {"text": ["x"] * 4, " Label": [0, 1, -1, None]}
    path = of_datasets(
        tmp_path / "a.parquet", columns, {" Label": feature(["Pos", "NEG"], "class")}
    )
    assert [r.label for r in read_texts(path, names=("neg", "so", "pos"))] == [2, 0, None, None]
    assert label_names(path) == ["Pos", "NEG"]
    forced = Layout(labels_are="indices")
    path = of_datasets(path, {"text": ["x"], "label": [1]}, {"label": feature(["p", "n"], "class")})
    assert read_texts(path, names=("n", "p"), layout=forced)[0].label == 1
    assert label_names(path, layout=forced) == ["0", "1"]
    path = of_datasets(path, {"text": ["x"], "label": [0]}, {"label": feature(list("21"), "class")})
    assert read_texts(path, names=("1", "2"))[0].label == 1
    assert "read as" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sequence", "list", "array"])
def test_names_of_lists(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    names = ["I", "O", "B"]
    columns = {"tokens": [["a", "b", "c", "d"]], "ner_tags": [[2, 0, -100, 1]]}
    of_datasets(path, columns, {"ner_tags": feature(names, kind)})
    found = read_texts(path, names=("O", "B", "I"), task=TOKEN_CLASSIFICATION)
    assert found[0].tags == (1, 2, None, 0)
    of_datasets(path, {"text": ["x"], "label": [[0, 2]]}, {"label": feature(names, kind)})
    assert read_texts(path, names=("O", "B", "I"), task=MULTI_LABEL)[0].targets == (0, 1, 1)
    for task in (TOKEN_CLASSIFICATION, MULTI_LABEL):
        columns = {"tokens": [["a"]], "text": ["a"], "label": [[1]]}
        of_datasets(path, columns, {"label": feature(names, kind)})
        with pytest.raises(TextError, match="no class 'I': the file's classes are I, O, B, the mo"):
            read_texts(path, names=("O", "B"), task=task)


@pytest.mark.parametrize(
    ("file", "model", "message"),
    [
        (
            ["pos", "neg", "so"],
            ("neg", "pos"),
            r"a\.parquet: the model has no class 'so': the file's classes are pos, neg, so, the "
            r"model's neg, pos: .*--labels-are indices",
        ),
        (["World", "Sports"], ("a", "b"), "the model has no class 'World'"),
        (["World", "Sports"], ("LABEL_0", "LABEL_1", "LABEL_2"), "has no class 'World'"),
        (["LABEL_0", "LABEL_1"], ("a", "b"), "the model has no class 'LABEL_0'"),
        (["pos", "Pos", "neg"], ("neg", "pos"), "'pos' and another .* both the model's 'pos'"),
        (["2", "3"], ("1", "2"), "the model has no class '3'"),
    ],
)
def test_names_that_the_model_lacks(file: Any, model: Any, message: str, tmp_path: Path) -> None:
    path = of_datasets(
        tmp_path / "a.parquet", {"text": ["x"], "label": [0]}, {"label": feature(file, "class")}
    )
    with pytest.raises(TextError, match=message):
        read_texts(path, names=model)


def test_a_model_without_names_has_the_order_of_the_file(tmp_path: Path, capsys) -> None:
    path = tmp_path / "a.parquet"
    columns = {"text": ["x", "y"], "label": [1, 0]}
    of_datasets(path, columns, {"label": feature(["pos", "neg"], "class")})
    names = ("LABEL_0", "LABEL_1")
    assert [review.label for review in read_texts(path, names=names)] == [1, 0]
    assert "labels are read as indices: the model's classes have no" in capsys.readouterr().err
    with pytest.raises(TextError, match="no class 'pos'"):
        read_texts(path, names=names, layout=Layout(labels_are="names"))
    of_datasets(path, columns, {"label": feature(["LABEL_1", "LABEL_0"], "class")})
    assert [review.label for review in read_texts(path, names=names)] == [0, 1]
    of_datasets(path, columns, {"label": feature(["0", "1"], "class")})  # only their number is said
    assert [review.label for review in read_texts(path, names=("b", "a"))] == [1, 0]
    with pytest.raises(TextError, match=BOTH):
        read_texts(path, names=("1", "0"))


def test_numbers_and_outputs_of_their_own_columns(tmp_path: Path) -> None:
    """An integer of a class is no number, and no flag."""
    path = tmp_path / "a.parquet"
    columns = {"text": ["x"], "a": [0], "b": [1]}
    of_datasets(path, columns, {"a": feature(["true", "false"], "class")})
    assert read_texts(path, names=("a", "b"), task=MULTI_LABEL)[0].targets == (1, 1)
    of_datasets(path, columns, {"b": feature(["1 star", "2 stars"], "class")})
    layout = Layout(label="b")
    with pytest.raises(TextError, match="row 1: 'b' is '2 stars', not a number"):
        read_texts(path, names=("stars",), layout=layout, task=REGRESSION)
    forced = Layout(label="b", labels_are="indices")
    assert read_texts(path, names=("s",), layout=forced, task=REGRESSION)[0].targets == (1.0,)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (b"{", "its metadata holds no features"),
        (b"[]", "its metadata holds no features"),
        (b'{"info": {"features": {"label": {"_type": "ClassLabel"}}}}', "holds no features"),
        (b'{"info": {"features": {"label": {"_type": "ClassLabel", "names": "a"}}}}', "holds no f"),
        (
            b'{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["b", "a"]}}}}',
            "row 2: 'label' is 2: the file names 2 classes, 0 to 1",
        ),
    ],
)
def test_metadata_that_cannot_be_followed(metadata: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": ["x", "y"], "label": [0, 2]})
    parquet.write_table(table.replace_schema_metadata({"huggingface": metadata}), path)
    with pytest.raises(TextError, match=rf"a\.parquet:? .*{message}"):
        read_texts(path, names=("a", "b"))


def test_random_orders_of_the_names(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for seed in range(40):
        rng = random.Random(seed)
        words = rng.choice((["art", "sport", "US"], ["1", "2", "3"], ["1 star", "2 stars", "3 st"]))
        model, file = rng.sample(words, 3), rng.sample(words, 3)
        labels = rng.choices(range(-1, 3), k=20)
        of_datasets(
            path,
            {"text": ["x"] * 20, "label": labels},
            {"label": feature([rng.choice((n, n.upper())) for n in file], "class")},
        )
        expected = [None if label < 0 else model.index(file[label]) for label in labels]
        assert [review.label for review in read_texts(path, names=model)] == expected


# Names from a file, and the commands.


def test_the_classes_of_a_file(tmp_path: Path, capsys) -> None:
    path = write(tmp_path, "csv", ["5", "1", "3", "1"])
    assert label_names(path) == ["0", "1", "2", "3", "4", "5"]
    assert "labels are read as indices: class 0 has no text (--labels-are names" in (
        capsys.readouterr().err
    )
    layout = Layout(labels_are="names")
    names = label_names(path, layout=layout)
    assert names == ["1", "3", "5"]
    assert read(path, "csv", names, "names") == [2, 0, 1, 0]
    path = write(tmp_path, "csv", ["1", "art"])
    with pytest.raises(TextError, match=r"a\.csv:3: 'label' is 'art', not an index from 0"):
        label_names(path, layout=Layout(labels_are="indices"))


@pytest.mark.slow
def test_every_command_decides_or_asks(tmp_path: Path, capsys) -> None:
    from quant import calibrate, classify, evaluate, inspect

    model = tiny.write(tmp_path / "model", {"id2label": {"0": "1", "1": "2", "2": "3"}})
    quantized, out = tmp_path / "quantized", tmp_path / "out.jsonl"
    sure = write(tmp_path, "csv", ["1", "2", "3"])
    sure.write_text(sure.read_text().replace("x,", "good film,"))
    doubt = tmp_path / "doubt.csv"
    doubt.write_text("text,label\ngood,1\nbad,2\n")
    base = ["--model", str(model)]
    both = [*base, "--quantized", str(quantized)]
    made = [*base, "--out", str(quantized), "--remedies", "none", "--data"]
    commands = {
        calibrate: made,
        evaluate: [*both, "--data"],
        classify: [*both, "-o", str(out), "--batch"],
        inspect: [str(model), "--data"],
    }
    for command in (calibrate, inspect):  # they need no labels
        assert command.main([*commands.pop(command), str(doubt)]) == 0
        assert "label" not in capsys.readouterr().err
    for command, arguments in commands.items():
        assert command.main([*arguments, str(sure)]) == 0, command
        assert f"note: {sure}: labels are read as names" in capsys.readouterr().err
        assert command.main([*arguments, str(doubt)]) == 2, command
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith(f"error: {doubt}:2: the label '1' is the name of one class")
        for are in READINGS:
            assert command.main([*arguments, str(doubt), "--labels-are", are]) == 0, command
            if command is classify:
                found = [json.loads(line)["label"] for line in out.read_text().splitlines()]
                assert found == {"names": ["1", "2"], "indices": ["2", "3"]}[are]
