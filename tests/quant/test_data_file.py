"""Files of texts: what each row means, or one error with the file and the line where it begins."""

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from quant.images.data import load, stream
from quant.model.spec import (
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    TASKS,
    TEXTS,
    TOKEN_CLASSIFICATION,
)
from quant.texts.data_file import Layout, Review, TextError, label_names

NAMES = ("art", "sport", "No, not that")
STARS = ("1", "2", "3", "4", "5")
TAGS = ("O", "B-PER", "I-PER")
read_texts = partial(load, TEXTS)


def written(folder: Path, name: str, content: Any, **metadata: Any) -> Path:
    """A file of this text, these bytes, objects, or columns of a Parquet file."""
    path = folder / name
    if name.endswith(".parquet") and isinstance(content, dict):
        table = pyarrow.table(content).replace_schema_metadata(metadata or None)
        parquet.write_table(table, path, row_group_size=2)
    elif isinstance(content, list):
        path.write_text("\n".join(map(json.dumps, content)))
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def of_datasets(folder: Path, columns: dict[str, Any], features: dict[str, Any]) -> Path:
    about = json.dumps({"info": {"features": features}})
    return written(folder, "a.parquet", columns, huggingface=about)


PAIRS = [
    Review('Wie,\n"bitte"?', 1, "Grün; ja."),
    Review("Kein\tWort", None, 'a "b"'),
    Review("x", 0, "y"),
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("kind", [",csv", ";csv", "\tcsv", "\ttsv", " jsonl", " parquet"])
def test_pairs_are_read_from_every_kind_of_file(kind, mark, end, tmp_path):
    rows = [{"id": 7, " Premise": r.text, "HYPOTHESIS": r.pair, "Label": r.label} for r in PAIRS]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    text = mark + "".join(json.dumps(row, ensure_ascii=False) + end for row in rows)
    if kind.endswith("sv"):
        table = [["" if cell is None else f"{cell}" for cell in row.values()] for row in rows]
        quoted = [[cell.replace('"', '""') for cell in row] for row in ([*columns], *table)]
        between = f'"{kind[0]}"'
        text = mark + "".join(f'"{between.join(row)}"{end}' for row in quoted)
    path = written(tmp_path, f"a.{kind[1:]}", columns if kind == " parquet" else text)
    assert read_texts(path, names=("0", "1")) == PAIRS
    assert read_texts(path) == [replace(review, label=None) for review in PAIRS]
    assert [r.pair for r in read_texts(path, layout=Layout(pair=""))] == [None] * 3


US, OWN, OTHERS = ("us", "US", "No"), ("LABEL_0", "LABEL_1"), ("LABEL_1", "LABEL_0")
LABELS: dict[str, list[tuple[Any, Any, Any]]] = {
    CLASSIFICATION: [
        *((NAMES, label, 1) for label in ("1", "1.0", 1, 1.0, "SPORT", " Sport ", "01")),
        *((STARS, label, 2) for label in (3, "3", 3.0, "3.0", "03")),
        *((STARS, label, f"'{label}' is not one of 1, 2, 3, 4, 5$") for label in (0, 6)),
        *((("1 star", "2 stars"), label, "is not one of 1 star, 2 stars$") for label in "012"),
        *((NAMES, label, r"is not one of art, .* or an index from 0 to 2$") for label in "3-+"),
        *((NAMES, label, "is not one of") for label in (True, 0.5, [1], "-1", "+1", "1" * 40)),
        *((("1", "2", "other"), "0", "'0' is not one of"), (("01", "02"), 1, 0)),
        *((OWN, 1, 1), (OTHERS, 1, "'1' is not one of LABEL_1, LABEL_0$")),
        *((US, "US", 1), (US, "Us", "could mean us, US"), (("GPT-2", "T5", "BERT"), 2, 2)),
        *((NAMES, "  ", None), (NAMES, "0" * 5000 + "1.0", 1)),
    ],
    MULTI_LABEL: [
        *((NAMES, label, (0, 1, 1)) for label in ('["No, not that", 1]', [0.0, 1.0, 1.0])),
        *((NAMES, label, (1, 0, 1)) for label in (["ART", "2"], [0, 2], [1, 0, 1])),
        *((NAMES, "[]", (0, 0, 0)), (NAMES, [True, False, False], (1, 0, 0)), (NAMES, "", None)),
        *((NAMES, [1.0, 0.5, 0.0], "1.0 or 0.0 for each of art"), (NAMES, [1, 1], "label twice")),
        *((NAMES, "art, sport", "'art, sport' is not one of"), (STARS, [1, 5], (1, 0, 0, 0, 1))),
        (("some", "none", "all"), ["some", None], "'' is not one of"),
        *((("a",), label, "could be indices or a 0 or 1 for each") for label in ("0", "0.0", "1")),
        *((("1", "2"), label, "could be indices or a 0") for label in ([1, 0], ["1", "1"])),
    ],
    REGRESSION: [
        *((("stars",), "-1.5e1", (-15,)), (("a", "b"), "[-1, 2.25]", (-1, 2.25))),
        *((("a", "b"), "1", "'1' is not a finite number for a, b"), (("a", "b"), "[1; 2]", "JSON")),
        *((("s",), x, "finite") for x in ("x", "1_0", "٣", "nan", "1e999", True, "1 2")),
        (("s",), None, None),
    ],
}


@pytest.mark.parametrize(
    ("task", "names", "label", "expected"),
    [(task, *row) for task, rows in LABELS.items() for row in rows],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_a_label_means(kind, task, names, label, expected, tmp_path):
    path = written(tmp_path, "a.jsonl", [{"text": "x", "label": label}])
    if kind == "csv":
        cell = label if isinstance(label, str) else json.dumps(label)
        cell = "" if label is None else cell.replace('"', '""')
        path = written(tmp_path, "a.csv", f'text,label\nx,"{cell}"\n')
    if isinstance(expected, str):
        with pytest.raises(TextError, match=f"^{path}:{1 + (kind == 'csv')}: .*{expected}"):
            read_texts(path, names=names, task=task)
        return
    (review,) = read_texts(path, names=names, task=task)
    assert (review.label if task == CLASSIFICATION else review.targets) == expected


CONLL = "-DOCSTART- -X- O\n\nAda NNP B-PER\nNew\xa0York NNP I-PER\n\n\nx N -100\n"
ADA = ["Ada", "New\xa0York"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conll", CONLL),
        ("a.BIO", CONLL.replace(" ", "\t").replace("\n", "\r\n").rstrip()),
        ("a.jsonl", [{"tokens": ADA, "tags": [1, "i-per"]}, {"tokens": ["x"], "tags": [None]}]),
        ("a.csv", 'Words,labels\n"[""Ada"", ""New\xa0York""]","[1, 2]"\n"[""x""]",\n'),
        ("a.parquet", {"words": [ADA, ["x"]], "ner_tags": [[1, 2], [-100]], "tags": ["", ""]}),
    ],
)
def test_words_and_their_tags(name: str, content: Any, tmp_path: Path) -> None:
    path = written(tmp_path, name, content)
    words = [("Ada", "New\xa0York"), ("x",)]
    for names, tags in ((TAGS, [(1, 2), (None,)]), ((), [(None, None), (None,)])):
        found = read_texts(path, names=names, task=TOKEN_CLASSIFICATION)
        assert [(review.words, review.tags) for review in found] == list(zip(words, tags))
        assert [review.text for review in found] == ["Ada New\xa0York", "x"]


MIXED = [{"text": '["a'}, {"tokens": []}, {"words": ["a", "b"]}, {"text": " "}]


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.txt", '\ufeffx "y\n\n  z,\t"\r\n', ['x "y', 'z,\t"']),
        ("a.csv", '"text",label,"a;b"\n"x\r\ny",1,\n\n,0,\n \nz,0,\n', ["x\r\ny", "", "z"]),
        ("a.csv", 'text\n""\n"  "\nx\n', ["", "  ", "x"]),
        ("a.tsv", 'label\ttext\n1\the said "no"\n\t"a\tb"\n', ['he said "no"', "a\tb"]),
        ("a.csv", "text,pair\nx,y\n,z\nx,\n", ["x", "", "x"]),
        ("a.jsonl", '{"text": "\\ud83d\\ude00"}\n\n{"text": null, "label": ""}\n', ["😀", ""]),
        ("a.parquet", {"text": ["x", None, " "], "a.b": [1, 2, 3]}, ["x", "", " "]),
        ("a.jsonl", MIXED, ['["a', "", "a b", ""]),
    ],
)
def test_texts_and_rows_without(name, content, texts, tmp_path, capsys):
    path = written(tmp_path, name, content)
    task = TOKEN_CLASSIFICATION if "words" in str(content) else CLASSIFICATION
    rows = read_texts(path, empty=True, task=task)
    assert [review.text for review in rows] == texts
    present = read_texts(path, task=task)
    assert present == [review for review in rows if review.present]
    missing = len(texts) - len(present)
    note = f" {missing} rows without a text are left out\n"
    assert (note in capsys.readouterr().err) == bool(missing)


BAD = b"text,label\nx,1\n\n"
NOT_JSON = ('{"text": NaN}', '{"a": 1e999}', '"\\uD83D"', "[" * 100_000, "1" * 5000, '{"text"}')
NOT_WORDS: list[tuple[dict[str, Any], str]] = [
    ({"tokens": ["a", "b"], "tags": [0]}, r"\[0\] is not a list of 2 tags, one per word"),
    ({"tokens": ["a"], "tags": [3]}, "'3' is not one of"),
    *(({"tokens": x, "tags": "O"}, "is not a list of words") for x in (["a", " "], "a b", "[1]")),
]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *(("a.jsonl", text, ":1: not JSON: ") for text in NOT_JSON),
        *(("w.jsonl", [row], f":1: .*{message}") for row, message in NOT_WORDS),
        ("a.csv", "", ":1: no column 'text' among nothing: name one with --text-column"),
        ("a.csv", "text,pair\nx,\n", " holds no text"),
        ("a.csv", "text,Label,LABEL\nx,1,0\n", ":1: 2 columns are called 'label'"),
        ("a.csv", 'text,label\n"a\nb",1\nx\n', ":4: 1 cells under a header of 2: quote a text"),
        ("a.csv", 'text,label\nx,1\n\n"a\nb,1\nc,0\n', ":4: unexpected end of data: quotes en"),
        ("a.csv", 'text,label\n"a" b,1\n', ":2: ',' expected after '\"': quotes enclose"),
        ("a.tsv", '\ufefftext\tlabel\n"a\t1\n', ":2: unexpected end of data"),
        ("a.csv", BAD + b"\xe9,1\n", ":4: the byte 0xe9 is not text in UTF-8: save the file as"),
        ("a.jsonl", b'{"text": "\xc3\xa9"}\n{"text": "\xed\xa0\x80"}', ":2: the byte 0xed is"),
        ("a.txt", "\ufeffx\r\nné\0\n".encode(), ":2: the byte 0x00 is not text"),
        ("a.jsonl", '{"text": "x"}'.encode("utf-16"), ":1: the byte 0xff is not text"),
        ("a.jsonl", '{"text": "x"}\n{"text"}\n', ":2: not JSON: Expecting ':'"),
        ("a.jsonl", "[1]\n", r":1: \[1\] is not a JSON object"),
        ("a.jsonl", '{"text": "x", "pair": "y"}\n{"text": "x"}', ":2: all rows of a file have"),
        ("a.jsonl", '{"text": "x"}\n{"label": 1}', ":2: no column 'text' among label: name one"),
        ("a.parquet", {"text": [b"x"]}, ": row 1: 'text' is b'x', not a string"),
        ("a.parquet", {"text": ["x"], "label": [float("nan")]}, ": row 1: 'nan' is not one of"),
        ("a.parquet", {"text": pyarrow.nulls(2)}, " holds no text"),
        ("a.parquet", {"review": ["x"]}, ": no column 'text' among review"),
        ("a.parquet", {"text": pyarrow.array([b"\xff"]).view("string")}, ": what follows cannot"),
        ("a.pdf", "x", r": not a file of \.csv, \.tsv, \.jsonl, \.txt"),
        ("a.conll", "Ada O\n\nLove lace O\n", ":3: 3 columns, not 2: a line is a word, others"),
        ("a.bio", "\n\nAda O\n\nx X\ny O\n\n", ":5: 'X' is not one of O, B-PER"),
    ],
)
def test_refusals_name_file_line_and_what_is_wrong(name, content, message, tmp_path):
    path = written(tmp_path, name, content)
    words = name[0] == "w" or name.endswith((".conll", ".bio"))
    task = TOKEN_CLASSIFICATION if words else CLASSIFICATION
    with pytest.raises(TextError, match=f"^{path}{message}") as error:
        read_texts(path, names=TAGS if words else NAMES, task=task)
    assert "\n" not in str(error.value)


def test_columns_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "id,question,answer,grade\n7,Who?,Me.,Good\n")
    layout = Layout("question", "answer", "grade")
    assert read_texts(path, names=("bad", "good"), layout=layout) == [Review("Who?", 1, "Me.")]
    for part, name in (("text", "query"), ("pair", "reply"), ("label", "class")):
        with pytest.raises(TextError, match=f"no column '{name}' among id, .* --{part}-column"):
            read_texts(path, names=NAMES, layout=Layout(**{"text": "question", part: name}))
    path = written(tmp_path, "a.jsonl", [{"text": "x", "stars": 1}, {"text": "y"}])
    found = read_texts(path, names=STARS, layout=Layout(label="stars"))
    assert [review.label for review in found] == [0, None]
    with pytest.raises(TextError, match=f"^{tmp_path}: not a file of .csv"):
        read_texts(tmp_path)


@pytest.mark.parametrize("task", TASKS)
def test_labels_are_not_looked_at_without_names(task: str, tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "text,label,Label,tags\nx,7,,2\ny,much,nan,\n")
    layout = Layout(label="score")
    for found in (read_texts(path, names=(), task=task, layout=x) for x in (None, layout)):
        assert found == [Review("x", None), Review("y", None)]


def feature(names: Any) -> dict[str, Any]:
    """A ClassLabel as `datasets` 2 to 5 writes it, alone or in a list."""
    one = {"names": names, "_type": "ClassLabel"}
    listed = {kind: {"feature": one, "_type": kind} for kind in ("Sequence", "List")}
    return {"class": one, "array": [one], **listed}


@pytest.mark.parametrize("kind", feature([]))
def test_the_names_of_a_class_label_count(kind: str, tmp_path: Path) -> None:
    """In any order and case, with more names in the model; -1 and -100 are no class."""
    own, names = ["I-PER", "o"], ("O", "B-PER", "I-PER")
    labels: list[Any] = [0, 1, -1, None] if kind == "class" else [[0, 1], [1], [], None]
    columns = {"text": list("abcd"), " Label": labels, "ner_tags": [[1, -100, 0]] + [None] * 3}
    columns["tokens"] = [["a", "b", "c"]] + [["a"]] * 3
    features = {" Label": feature(own)[kind], "ner_tags": feature(own)["List"]}
    path = of_datasets(tmp_path, columns, features)
    if kind == "class":
        assert [r.label for r in read_texts(path, names=names)] == [2, 0, None, None]
        assert label_names(path) == own
    else:
        found = read_texts(path, names=names, task=MULTI_LABEL)
        assert [r.targets for r in found] == [(1, 0, 1), (1, 0, 0), (0, 0, 0), None]
    assert read_texts(path, names=names, task=TOKEN_CLASSIFICATION)[0].tags == (0, None, 2)
    with pytest.raises(TextError, match=": row 1: 'I-PER' is not one of O, B"):
        read_texts(path, names=("O", "B"), task=CLASSIFICATION if kind == "class" else MULTI_LABEL)


@pytest.mark.parametrize(
    ("own", "names", "label", "expected"),
    [
        (["pos", "neg"], OWN, 1, 1),
        (["LABEL_1", "LABEL_0"], OWN, 0, 1),
        (["2", "1"], ("1", "2"), 0, 1),
        (["b", "a"], ("a", "b"), 1.0, 0),
        (["b", "a"], ("a", "b"), "b", 1),
        (["0", "1"], ("b", "a"), 1, 1),
        (["0", "1"], ("1", "0"), 1, 0),
        (["pos", "neg"], ("neg", "pos"), 2, ": row 2: 2 is not a class from 0 to 1"),
        (["pos", "neg"], (*OWN, "LABEL_2"), 0, "'pos' is not one of LABEL_0"),
        *((own, ("a", "b"), 0, "huggingface is damaged: write it") for own in (["a", "a"], "ab")),
        (["2", "3"], ("1", "2"), 0, 1),
        (["2", "3"], ("1", "2"), 1, "'3' is not one of 1, 2"),
        (["1 star", "2 stars"], ("1", "2"), 0, "'1 star' is not one of 1, 2"),
        (["1", "2"], ("1 star", "2 stars"), 0, "'1' is not one of 1 star, 2 stars"),
    ],
)
def test_the_file_s_classes_and_the_model_s(own, names, label, expected, tmp_path):
    columns = {"text": ["x", "y"], "label": [None, label]}
    path = of_datasets(tmp_path, columns, {"label": feature(own)["class"]})
    if isinstance(expected, str):
        with pytest.raises(TextError, match=f"^{path}.*{expected}"):
            read_texts(path, names=names)
    else:
        assert read_texts(path, names=names)[1].label == expected


def test_the_classes_of_a_file(tmp_path: Path) -> None:
    for labels, names in (
        (["sport", "art", 1, "ART"], ["1", "art", "sport"]),
        ([10, "0", 0, "9.0", None, ""], ["0", "9", "10"]),
        ([2, 0, 3], ["0", "2", "3"]),
    ):
        path = written(tmp_path, "a.jsonl", [{"text": "x", "label": label} for label in labels])
        assert label_names(path) == names
        assert {r.label for r in read_texts(path, names=names)} - {None} == {0, 1, 2}
    with pytest.raises(TextError, match="has no labels: name their column or key with"):
        label_names(written(tmp_path, "a.csv", "text\nx\n"))


def test_parquet_is_decoded_as_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": ["some text " * 200] * 10_000})
    parquet.write_table(table, path, use_dictionary=False, compression="none")
    before, most = pyarrow.total_allocated_bytes(), 0
    for _ in stream(TEXTS, path):
        most = max(most, pyarrow.total_allocated_bytes() - before)
    assert most < path.stat().st_size / 4


FILES: dict[str, Any] = {
    "csv": "text,label\n" + 'x,1\n"y,\n",0\n' * 20,
    "tsv": "text\tlabel\n" + "x\t1\n" * 40,
    "jsonl": [{"text": "é", "label": 1}] * 40,
    "txt": "x\n" * 40,
    "conll": "word x 1\n" * 40,
    "parquet": {"text": ["x"] * 40, "label": [1] * 40},
}


@pytest.mark.parametrize("suffix", FILES)
def test_damage_is_one_line_or_harms_nobody(suffix: str, tmp_path: Path) -> None:
    said = []
    task = TOKEN_CLASSIFICATION if suffix == "conll" else CLASSIFICATION
    for seed in range(80):
        rng = random.Random(f"{seed} {suffix}")
        path = written(tmp_path, f"a.{suffix}", FILES[suffix])
        data = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 5)):
            data[rng.randrange(len(data))] = rng.choice((*b'\0\n\t",{}[]', rng.randrange(256)))
        path.write_bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
        try:
            read_texts(path, names=("0", "1"), task=task)
        except TextError as error:
            said.append(str(error))
    assert len(said) > 20
    assert not [line for line in said if "\n" in line or not line.startswith(str(path))]
