import json
import random

import pytest

from quant.model.spec import CLASSIFICATION, MULTI_LABEL, TOKEN_CLASSIFICATION
from quant.texts.corpora import load_texts
from quant.texts.data_file import (
    Layout,
    Review,
    TextError,
    label_names,
    read_texts,
    stream_texts,
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\n"Good, very",1\nBad,0\nWho knows,\n'),
        (
            "a.jsonl",
            '{"text": "Good, very", "label": 1}\n\n{"label": "0", "text": "Bad"}\n'
            '{"text": "Who knows"}\n',
        ),
    ],
)
def test_csv_and_jsonl(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    expected = [Review("Good, very", 1), Review("Bad", 0), Review("Who knows", None)]
    assert read_texts(tmp_path / name) == expected
    assert load_texts(str(tmp_path / name), "test") == expected


def test_plain_text_has_a_text_a_line_and_no_labels(tmp_path):
    (tmp_path / "a.txt").write_text("Good, very\n\n  Bad \n")
    assert read_texts(tmp_path / "a.txt") == [Review("Good, very", None), Review("Bad", None)]


def test_named_labels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,sport\ny,art\nz,1\n")
    assert label_names(path) == ["1", "art", "sport"]
    reviews = read_texts(path, names=["art", "sport"])
    assert [review.label for review in reviews] == [1, 0, 1]


def test_indices_as_labels_name_themselves(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nx,2\ny,0\n")
    assert label_names(tmp_path / "a.csv") == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"review,label\nx,1\n", r"a\.csv has no column 'text': its header is review, la"),
        ("a.csv", b"", r"a\.csv holds no text"),
        ("a.csv", b"text,label\n", r"a\.csv holds no text"),
        ("a.csv", b"text,label\nx,good\n", r"a\.csv:2: 'label' is 'good', not an index from 0"),
        ("a.csv", b"text,label\nx,-1\n", r"a\.csv:2: 'label' is '-1', not an index from 0"),
        ("a.csv", b'text,label\n"x,1\n', r"a\.csv:2: not CSV: unexpected end of data"),
        (
            "a.csv",
            b"text,label\n\xff\xfe,1\n",
            r"a\.csv:2 is not UTF-8 text: invalid start byte \(0xff\): give",
        ),
        ("a.jsonl", b'{"text": "x"}\n{"text"}\n', r"a\.jsonl:2: not JSON: "),
        ("a.jsonl", b"[1]\n", r"a\.jsonl:1: not a JSON object with a 'text' key"),
        (
            "a.jsonl",
            b'{"label": 1}\n',
            r":1: 'text' is missing; its keys are label: name one with",
        ),
        ("a.jsonl", b'{"text": 5}\n', r"a\.jsonl:1: 'text' is 5, not a string"),
        ("a.jsonl", b'{"text": "x", "label": 1.5}\n', r"'label' is 1\.5, not an index from 0"),
        (
            "a.csv",
            b"text,label\nGood, very,1\n",
            r"a\.csv:2: 3 values under a header of 2: ",
        ),
        ("a.csv", b"text,pair\nx,\n", r"a\.csv holds no text"),
        ("a.tsv", b"text\tpair\nx\n", r"a\.tsv:2: 'pair' is missing: 1 value under a"),
        ("a.csv", b"text,label\nx,1.5\n", r"a\.csv:2: 'label' is '1\.5', not an index from 0"),
        ("a.csv", b"text,label\nx,4096\n", r"a\.csv:2: 'label' is 4096: an index must be"),
        ("a.jsonl", b'{"text": "x", "label": true}\n', r"'label' is True, not an index from 0"),
        (
            "a.jsonl",
            b'{"text": "x"}\n{"text": "x", "pair": "y"}\n',
            r"a\.jsonl:2: it has a pair ",
        ),
        ("a.jsonl", b'{"text": "x", "pair": "y"}\n{"text": "x"}\n', r"a\.jsonl:2: it has no pair"),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl:1: not JSON"),
        ("a.txt", b"\n \n", r"a\.txt holds no text"),
        ("a.pdf", b"x", r"a\.pdf: unknown kind of file, use \.csv, \.tsv, \.jsonl, \.txt"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_what_is_wrong(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TextError, match=message):
        read_texts(tmp_path / name)


def test_a_label_beyond_the_names(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nx,2\n")
    with pytest.raises(TextError, match=r"is 2: an index must be at least 0 below 2"):
        read_texts(tmp_path / "a.csv", names=["art", "sport"])


def test_a_file_without_labels(tmp_path):
    (tmp_path / "a.csv").write_text("text\nx\n")
    with pytest.raises(TextError, match=r"has no labels: a 'label' column or key is needed"):
        label_names(tmp_path / "a.csv")


PAIRS = [
    Review("Wie, bitte?", 1, "Grün; ja."),
    Review('He said "no"', 0, '"Quoted"'),
    Review("Kein Wort", None, "tab here: é"),
]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def as_table(reviews, mark: str, header: tuple[str, ...]) -> str:
    rows = [header]
    rows += [
        (quoted(r.text), quoted(r.pair), "" if r.label is None else f"{r.label}.0") for r in reviews
    ]
    return "".join(mark.join(row) + "\r\n" for row in rows)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
@pytest.mark.parametrize(
    ("name", "mark"), [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t")]
)
@pytest.mark.parametrize("header", [("text", "pair", "label"), (" Text1", "TEXT2", "Label")])
def test_pairs_are_read_from_every_kind_of_table(encoding, name, mark, header, tmp_path):
    path = tmp_path / name
    path.write_bytes(as_table(PAIRS, mark, header).encode(encoding))
    layout = Layout(encoding="utf-8" if encoding == "utf-8-sig" else encoding)
    assert read_texts(path, layout=layout) == PAIRS


def test_pairs_are_read_from_json(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"premise": r.text, "hypothesis": r.pair, "label": r.label} for r in PAIRS]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_texts(path) == PAIRS


def test_columns_by_name_and_a_note_on_the_others(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("id,question,answer,grade\n7,Who?,Me.,Good\n")
    layout = Layout(text="question", pair="answer", label="grade")
    assert read_texts(path, names=["bad", "good"], layout=layout) == [Review("Who?", 1, "Me.")]
    assert capsys.readouterr().err == f"note: {path}: not read: id\n"
    for missing in (
        Layout(text="query"),
        Layout(text="question", pair="reply"),
        Layout(text="question", label="class"),
    ):
        with pytest.raises(TextError, match=r"has no column '(query|reply|class)': its header"):
            read_texts(path, layout=missing)


def test_an_unquoted_tsv_keeps_its_quotes(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"Good" and "bad"\t0\n"open\t1\n"whole ""field"""\t1\n')
    texts = [review.text for review in read_texts(path)]
    assert texts == ['"Good" and "bad"', '"open', 'whole "field"']


def test_the_column_that_pandas_gives_no_name(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text(",text,label\n0,A fine film.,1\n1,Dull.,0\n")
    assert [review.label for review in read_texts(path)] == [1, 0]
    assert capsys.readouterr().err == f"note: {path}: not read: (no name)\n"
    for task in (CLASSIFICATION, TOKEN_CLASSIFICATION):
        layout = Layout(text="other")
        with pytest.raises(TextError, match=r"\(no name\), text, label: name"):
            read_texts(path, names=("a", "b"), layout=layout, task=task)
    path.write_text("text,\nx\n")
    with pytest.raises(TextError, match=r":2: '\(no name\)' is missing"):
        read_texts(path)


EMPTY = [
    ("a.txt", "x\n\n \ny\n\n", 2, 2, {}),
    ("a.csv", "text,label\nx,1\n ,0\n,1\ny,0\n", 2, 3, {}),
    ("a.tsv", "text\tlabel\n\t1\nx\t0\ny\t1\n", 1, 2, {}),
    ("a.jsonl", '{"text": null}\n{"text": "x"}\n{"text": "y"}\n{"text": ""}\n', 2, 1, {}),
    ("a.csv", "text,pair\nx,a\n,b\ny,c\nz,\n", 2, 3, {}),
    (
        "a.jsonl",
        '{"tokens": ["x"], "tags": [1]}\n{"tokens": [], "tags": [1]}\n{"tokens": null}\n'
        '{"text": " "}\n{"tokens": "y", "tags": "0"}\n',
        3,
        2,
        {"task": TOKEN_CLASSIFICATION},
    ),
]


@pytest.mark.parametrize(("name", "content", "count", "first", "more"), EMPTY)
def test_rows_without_a_text_are_left_out_and_counted(
    name, content, count, first, more, tmp_path, capsys
):
    path = tmp_path / name
    path.write_text(content)
    reviews = read_texts(path, names=("n", "p"), **more)
    assert [review.text for review in reviews] == ["x", "y"]
    assert f"rows without a text are left out: {count}, the first is {path}:{first}\n" in (
        capsys.readouterr().err
    )
    kept = list(stream_texts(path, names=("n", "p"), empty=True, **more))
    assert [review for review in kept if review.present] == reviews
    assert len(kept) == 2 + count * (name != "a.txt")


@pytest.mark.parametrize("label", ["1", "1.0", "1.", 1, 1.0, "sport", "SPORT", " Sport "])
def test_a_label_in_every_spelling(label, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "x", "label": label}))
    assert read_texts(path, names=["art", "sport"]) == [Review("x", 1)]


def test_an_exact_name_comes_before_one_in_another_case(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,US\ny,us\n")
    assert [review.label for review in read_texts(path, names=["us", "US"])] == [1, 0]


CASED = ("x_There", "x_there", "No")


@pytest.mark.parametrize(
    ("task", "header", "rows", "found"),
    [
        (CLASSIFICATION, "text,label", ["a,x_there", "b,x_There", "c,NO"], [1, 0, 2]),
        (MULTI_LABEL, "text,label", ["a,x_there;no", "b,x_There"], [(0, 1, 1), (1, 0, 0)]),
        (MULTI_LABEL, "text,x_there,NO,x_There", ["a,1,0,0", "b,0,1,1"], [(0, 1, 0), (1, 0, 1)]),
        (TOKEN_CLASSIFICATION, "tokens,tags", ["a b,x_there no"], [(1, 2)]),
        (CLASSIFICATION, "text,label", ["a,no", "b,X_THERE"], ":3: 'label' is 'X_THERE', and x_T"),
        (MULTI_LABEL, "text,label", ["a,no;X_there"], ":2: 'label' is 'X_there', and x_There, x_t"),
        (MULTI_LABEL, "text,x_there,no", ["a,1,0"], "a column 'x_there' and none 'x_There'"),
        (TOKEN_CLASSIFICATION, "tokens,tags", ["a b,X_there no"], "tag of word 1 is 'X_there', an"),
    ],
)
def test_classes_that_differ_in_case_alone(task, header, rows, found, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join([header, *rows]))
    if isinstance(found, str):
        with pytest.raises(TextError, match=found):
            read_texts(path, names=CASED, task=task)
        return
    reviews = read_texts(path, names=CASED, task=task)
    kind = {CLASSIFICATION: "label", TOKEN_CLASSIFICATION: "tags"}.get(task, "targets")
    assert [getattr(review, kind) for review in reviews] == found


def test_label_names_that_differ_in_case_alone_are_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,Good\ny,bad\nz,GOOD\n")
    assert label_names(path) == ["Good", "bad"]
    path.write_text("text,label\nx,1.0\ny,0\nz,\n")
    assert label_names(path) == ["0", "1"]


@pytest.mark.parametrize("name", ["no-such", "rot13", "hex", "\0", "utf-8\n5"])
def test_an_encoding_that_is_none(name):
    with pytest.raises(TextError, match=r"no text encoding named"):
        Layout(encoding=name)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".txt"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-7", "idna", "ascii"])
def test_any_bytes_are_texts_or_one_line(suffix, encoding, tmp_path):
    path = tmp_path / f"a{suffix}"
    heads = [b"", b"text\n", b"text,label\n", b'{"text": "x"}\n', b"text\tpair\n", b"\xff\xfet\0"]
    said = []
    for seed in range(60):
        draw = random.Random(f"{seed}{suffix}{encoding}")
        alphabet = draw.choice([bytes(range(256)), b'ab,;"\t\n\r01{}:', b'"\n,x'])
        tail = bytes(draw.choices(alphabet, k=draw.randrange(60)))
        path.write_bytes(draw.choice(heads) + tail)
        try:
            read_texts(path, layout=Layout(encoding=encoding))
        except TextError as error:
            said.append(str(error))
    assert said
    assert [line for line in said if "\n" in line] == []
