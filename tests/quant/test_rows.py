"""The rows of a file: those that were written, or one error with the line in which one begins."""

import codecs
import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from quant.model.spec import TOKEN_CLASSIFICATION
from quant.texts.data_file import Layout, read_texts
from quant.texts.rows import TextError, rows

LINE_ENDS = ("\n", "\r\n", "\r")
MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
}
CONTENT = {
    "csv": "label,text\n1,gut\n0,schön\n",
    "tsv": "label\ttext\n1\tgut\n0\tschön\n",
    "jsonl": '{"label": 1, "text": "gut"}\n{"label": 0, "text": "schön"}\n',
    "txt": "gut\nschön\n",
    "conll": "gut 1\n\nschön 0\n",
}


def texts(path: Path, encoding: str = "utf-8") -> list[str]:
    task = {"task": TOKEN_CLASSIFICATION} if path.suffix == ".conll" else {}
    layout = Layout(encoding=encoding)
    found = read_texts(path, names=("a", "b"), layout=layout, **task)
    labels = [review.label for review in found] + [tag for r in found for tag in r.tags]
    assert path.suffix == ".txt" or [x for x in labels if x is not None] == [1, 0]
    return [review.text for review in found]


@pytest.mark.parametrize("kind", CONTENT)
@pytest.mark.parametrize("encoding", MARKS)
@pytest.mark.parametrize("end", LINE_ENDS, ids=repr)
def test_marks_and_line_ends(kind: str, encoding: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    content = CONTENT[kind].replace("\n", end).encode(encoding)
    for given in {encoding, encoding[:6].rstrip("-")}:
        path.write_bytes(MARKS[encoding] + content)
        assert texts(path, given) == ["gut", "schön"]
    path.write_bytes(content)
    assert texts(path, encoding) == ["gut", "schön"]
    for wrong in {"utf-8", "utf-16", "latin-1"} - {encoding[:6].rstrip("-")}:
        path.write_bytes(MARKS[encoding] + content)
        with pytest.raises(TextError, match=rf"{path}:1 begins with the byte order mark of utf-"):
            texts(path, wrong)


@pytest.mark.parametrize("kind", CONTENT)
def test_bytes_that_are_no_text_have_their_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    *before, last = CONTENT[kind].splitlines(keepends=True)
    for blank in (0, 30000):  # more than is decoded at a time
        head = "".join(before) + "\n" * blank
        line = head.count("\n") + 1
        path.write_text(head + last, encoding="latin-1")
        with pytest.raises(TextError, match=rf"{path}:{line} is not UTF-8 text.*\(0xf6\)"):
            texts(path)
        path.write_text(head + last.replace("ö", "\0"))
        with pytest.raises(TextError, match=rf"{path}:{line} has a NUL character"):
            texts(path)
    path.write_bytes(CONTENT[kind].replace("ö", "o").encode("utf-16-le"))
    with pytest.raises(TextError, match=rf"{path}:1 has a NUL character.*--encoding \(utf-16"):
        texts(path)


CASES: list[tuple[str, str, Any]] = [
    # kind, content, the texts or what the error says
    ("csv", 'text,label\n"a\nb",1\n"c\r\nd",0\n', ["a\nb", "c\r\nd"]),
    ("csv", "text;label;\na,b;1;\nc;0;\n", ["a,b", "c"]),
    ("csv", '"text",label,"a;b;c"\nx,1,\ny,0,\n', ["x", "y"]),
    ("csv", 'text,label\n\n\n"a\nb\nc",1\nx\n', ":7: 'label' is missing: 1 value under a header"),
    ("csv", 'text,label\n"a\nb",1,2\n', ":2: 3 values under a header of 2"),
    ("csv", 'text,label\nx,1\n\n"a\nb,1\nc,0\n', ":4: not CSV: unexpected end of data: a quote op"),
    ("csv", 'text,label\nx,1\n"a\nb"c,1\n', ":3: not CSV: ',' expected after '\"'"),
    ("csv", "\ntext,label\nx,1\n", ":1 is empty: it has to name the columns"),
    ("csv", "text,text\nx,1\n", ":1 has 2 columns 'text': rename one"),
    ("csv", "Text, text ,label\nx,y,1\n", ":1 has 2 columns 'Text': rename one"),
    ("csv", "text,label,LABEL\nx,1,0\n", ":1 has 2 columns 'label': rename one"),
    ("csv", "text,pair,Pair,label\nx,y,z,1\n", ":1 has 2 columns 'pair': rename one"),
    ("csv", "text,label,id,id,ID\nx,1,7,8,9\ny,0,7,8,9\n", ["x", "y"]),
    ("tsv", 'label\ttext\n1\t"a\nb"\n0\t"c ""d""\te"\n', ["a\nb", 'c "d"\te']),
    ("tsv", 'text\tlabel\n"a\nb"\t1\n"c"\t0\n', ["a\nb", "c"]),
    ("tsv", 'text\tlabel\n"a" b\t1\n"c\t0\n', ['"a" b', '"c']),
    ("tsv", 'text\tlabel\n"a\t1\nb"\t0\n', ":2: a quote opens here that a later tab or line could"),
    ("tsv", 'label\ttext\n1\t"a\n0\tb"\n', ":2: a quote opens here"),
    ("tsv", 'text\tlabel\nx\t1\n"a\n', r":3: 'label' is missing.*\(or, .*:3: not TSV: unexpected"),
    ("tsv", "text\tlabel\nx\t1\na\n", ":3: 'label' is missing: 1 value under a header of 2"),
    ("tsv", "text\tlabel\na\tb\t1\n", ":2: 3 values under a header of 2"),
    ("tsv", "text\tText\tlabel\na\tb\t1\n", ":1 has 2 columns 'text'"),
    ("jsonl", '{"text": "x", "text": "y", "label": 1}', ":1 has 2 columns 'text': rename one"),
    ("jsonl", '\n{"text": "x", "label": 1, "Label ": 0}', ":2 has 2 columns 'label'"),
    ("jsonl", '{"text": "x", "label": 1, "id": 1, "id": 2}\n{"text": "y", "label": 0}', ["x", "y"]),
    (
        "jsonl",
        '{"text": "a\\nb", "label": 1}\n{"text": "\\ud83d\\ude00", "label": 0}',
        ["a\nb", "\U0001f600"],
    ),
    ("jsonl", '{"text": "x", "label": 1}\n{"text": "a\\uD83D", "label": 0}', r":2: a \\u esc"),
    ("jsonl", '{"text":\n "x", "label": 1}', ":1: not JSON"),
    ("jsonl", '{"text": "x", "label": 1} {"text": "y", "label": 0}', ":1: not JSON: Extra data"),
    ("txt", 'x "y\n\n\n z,\t"\n', ['x "y', 'z,\t"']),
    ("conll", "a N 1\n\nb\t\tV 0\n", ["a", "b"]),
    ("conll", "New\xa0York B 1\nx B 0\n", ["New\xa0York x"]),
    ("conll", "1\ta\tN\n2\tb\tV\n", r":1: the first column counts the words \(1, 2 "),
    ("conll", "0 a N\n1 b V\n2 c V\n\n", r":1: the first column counts the words \(0, 1, 2 "),
    ("conll", "1 1\n2 0\n", ["1 2"]),
    ("conll", "1 N 1\n\n2 N 0\n", ["1", "2"]),
    ("conll", "a N 1\n\n1 N 0\n2 N -100\n", ["a", "1 2"]),
    ("conll", "a N 1\n\nb 0\n", ":3: 'b 0' has 2 columns, the lines before it 3"),
    ("conll", "a N 1\nb V x 0\n", ":2: 'b V x 0' has 4 columns, the lines before it 3"),
]


@pytest.mark.parametrize(("kind", "content", "expected"), CASES)
def test_every_row_is_right_or_refused(
    kind: str, content: str, expected: Any, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_text(content, newline="")
    if isinstance(expected, list):
        assert texts(path) == expected
        return
    with pytest.raises(TextError, match=f"^{path}{expected}") as error:
        texts(path)
    assert "\n" not in str(error.value)


def test_words_have_one_column_each_and_other_tags_are_told(tmp_path: Path, capsys) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a"], "ner_tags": [1], "pos_tags": [0]}')
    (one,) = read_texts(path, names=("a", "b"), task=TOKEN_CLASSIFICATION)
    assert one.tags == (1,)
    assert capsys.readouterr().err == (
        f"note: {path}: tags are read from 'ner_tags', not from pos_tags (--label-column)\n"
    )
    path.write_text('{"tokens": ["a"], "tags": [1], "Tags": [0]}')
    with pytest.raises(TextError, match=r":1 has 2 columns 'tags'"):
        read_texts(path, names=("a", "b"), task=TOKEN_CLASSIFICATION)


def test_a_key_that_no_object_has(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "stars": 1}\n{"text": "y"}\n')
    assert [r.label for r in read_texts(path, layout=Layout(label="stars"))] == [1, None]
    with pytest.raises(TextError, match="no object has the key 'star'"):
        read_texts(path, layout=Layout(label="star"))


def drawn(rng: random.Random) -> list[dict[str, object]]:
    def text() -> str:
        parts = ("good", '"', '""', "\t", ",", ";", "\n", "\r\n", " ", "é", "'")
        return "".join(rng.choices(parts, k=rng.randint(1, 6)))

    names = ["text", "label", "other"][: rng.randint(1, 3)]
    rng.shuffle(names)
    return [{name: text() for name in names} for _ in range(rng.randint(1, 6))]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_random_tables_come_back(kind: str, tmp_path: Path) -> None:
    """What csv and json write; of a .tsv, which has two readings, that or an error."""
    path, refused, several = tmp_path / f"a.{kind}", 0, 0
    for seed in range(300):
        rng = random.Random(seed)
        table, end = drawn(rng), rng.choice(LINE_ENDS)
        text = io.StringIO()
        if kind == "jsonl":
            text.writelines(json.dumps(row, ensure_ascii=rng.random() < 0.5) + end for row in table)
        else:
            delimiter = "\t" if kind == "tsv" else rng.choice(",;\t")
            quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
            if end == "\r":
                quoting = csv.QUOTE_ALL  # the least leaves line breaks of another kind bare
            if len(table[0]) == 1 and kind == "csv":
                delimiter = ","  # nothing in its header shows another
            writer = csv.DictWriter(
                text, list(table[0]), delimiter=delimiter, lineterminator=end, quoting=quoting
            )
            writer.writeheader()
            writer.writerows(table)
        path.write_text(text.getvalue(), newline="", encoding="utf-8")
        blank = [not "".join(map(str, row.values())).strip() for row in table]
        try:
            found = [row for _, row in rows(path)]
        except TextError:
            refused += 1
            continue
        if not any(blank):
            assert found == table, seed
            several += any("\n" in str(v) for row in table for v in row.values())
    assert refused < (60 if kind == "tsv" else 1)
    assert several > 50


def test_random_unquoted_tables_come_back_or_are_refused(tmp_path: Path) -> None:
    path, refused = tmp_path / "a.tsv", 0
    for seed in range(300):
        rng = random.Random(seed)
        parts = ("good", '"', '"', " ", "x", "é")
        table = [
            ["".join(rng.choices(parts, k=rng.randint(1, 4))) + "." for _ in range(2)]
            for _ in range(rng.randint(1, 6))
        ]
        lines = ["text\tother", *("\t".join(row) for row in table)]
        path.write_text("\n".join(lines), encoding="utf-8")
        try:
            found = [list(row.values()) for _, row in rows(path)]
        except TextError:
            refused += 1
            continue
        assert found == table, seed
    assert refused < 100
