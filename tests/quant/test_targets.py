"""What a file says of a model with several labels, or numbers: every form, and what is refused."""

import json
from pathlib import Path

import pytest

from quant.model.spec import MULTI_LABEL, REGRESSION
from quant.texts.corpora import load_texts
from quant.texts.data_file import Layout, TextError, read_texts

NAMES = ("joy", "fear", "No, not that")
NUMBERS = ("anger", "length")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("joy", (1, 0, 0)),
        ("FEAR, joy", (1, 1, 0)),
        ("joy;2", (1, 0, 1)),
        ("1|0", (1, 1, 0)),
        ("no, not THAT", (0, 0, 1)),
        ('["No, not that", "fear"]', (0, 1, 1)),
        ("[]", (0, 0, 0)),
        ("[0, 2]", (1, 0, 1)),
        ("[1.0, 0.0, 1.0]", (1, 0, 1)),
        ("  ", None),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_several_labels_in_one_column(field, expected, kind, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        quoted = field.replace('"', '""')
        path.write_text(f'text,label\nx,"{quoted}"\n')
    else:
        value = json.loads(field) if field.startswith("[") else field
        path.write_text(json.dumps({"text": "x", "label": value}))
    (review,) = read_texts(path, names=NAMES, task=MULTI_LABEL)
    assert (review.label, review.targets) == (None, expected)


def test_columns_of_the_names(tmp_path: Path, capsys) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,Fear,joy,"no, not that",more\nx,1,false,0,?\ny,,,,\n')
    assert [r.targets for r in read_texts(path, names=NAMES, task=MULTI_LABEL)] == [(0, 1, 0), None]
    assert capsys.readouterr().err == f"note: {path}: not read: more\n"
    path.write_text("text,anger,length\nx,-1.5,2e3\n")
    assert load_texts(str(path), "test", names=NUMBERS, task=REGRESSION)[0].targets == (-1.5, 2000)
    path.write_text("text,label,anger,length\nx,[1; 2],3,4\n")
    with pytest.raises(TextError, match=r":2: 'label' is '\[1; 2\]', no JSON list"):
        read_texts(path, names=NUMBERS, task=REGRESSION)


@pytest.mark.parametrize(
    ("field", "names", "expected"),
    [
        ("3.5", ("stars",), (3.5,)),
        ("[3.5]", ("stars",), (3.5,)),
        ("[-1, 2.25]", NUMBERS, (-1, 2.25)),
        ("", NUMBERS, None),
    ],
)
def test_numbers_in_one_column(field, names, expected, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"text\tscore\nx\t{field}\n")
    layout = Layout(label="score")
    assert read_texts(path, names=names, layout=layout, task=REGRESSION)[0].targets == expected


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {"text": ["x", "y", "z"], "label": [[0, 2], [], None], "stars": [1.5, None, 3.0]}
    parquet.write_table(pyarrow.table(columns), path)
    found = read_texts(path, names=NAMES, task=MULTI_LABEL)
    assert [review.targets for review in found] == [(1, 0, 1), (0, 0, 0), None]
    found = read_texts(path, names=("stars",), layout=Layout(label="stars"), task=REGRESSION)
    assert [review.targets for review in found] == [(1.5,), None, (3.0,)]


@pytest.mark.parametrize(
    ("task", "names", "content", "message"),
    [
        (
            MULTI_LABEL,
            NAMES,
            "text,label\nx,hope\n",
            r"a\.csv:2: 'label' is 'hope', not one of joy",
        ),
        (MULTI_LABEL, NAMES, "text,label\nx,3\n", r"'label' is 3: an index must be at least 0 bel"),
        (MULTI_LABEL, NAMES, 'text,label\nx,"joy,,fear"\n', r"'joy,,fear', with an empty label"),
        (MULTI_LABEL, NAMES, 'text,label\nx,"joy,0"\n', r"is 'joy,0', where joy is twice"),
        (
            MULTI_LABEL,
            NAMES,
            'text,label\nx,"[1.0, 0.5, 0.0]"\n',
            r"a 0\.0 or 1\.0 for each of the",
        ),
        (MULTI_LABEL, NAMES, 'text,label\nx,"[1.0, 0.0]"\n', r"for each of the 3 labels"),
        (MULTI_LABEL, NAMES, "text,joy,fear\nx,1,0\n", r"'joy' and none 'No, not that': each out"),
        (MULTI_LABEL, ("a", "b"), "text,a,b\nx,1,2\n", r"'b' is '2', not one of 0, 1, false, tr"),
        (MULTI_LABEL, ("a", "b"), "text,a,b\nx,1,\n", r"'b' is empty, though other outputs"),
        (REGRESSION, ("s",), "text,label\nx,good\n", r"a\.csv:2: 'label' is 'good', not a number"),
        (REGRESSION, ("s",), "text,label\nx,1_000\n", r"'label' is '1_000', not a number"),
        (REGRESSION, ("s",), "text,s\nx,\u0663\n", r"'s' is '\u0663', not a number"),
        (REGRESSION, ("s",), "text,label\nx,nan\n", r"'label' is 'nan', not a finite number"),
        (REGRESSION, ("s",), "text,label\nx,1e999\n", r"'1e999', not a finite number"),
        (REGRESSION, ("s",), "text,s\nx,two\n", r"'s' is 'two', not a number"),
        (REGRESSION, NUMBERS, "text,label\nx,1\n", r"is '1', 1 number: the model gives 2 \(anger"),
        (REGRESSION, NUMBERS, 'text,label\nx,"[1, true]"\n', r"is True, not a number"),
        (REGRESSION, NUMBERS, "text,length\nx,1\n", r"a column 'length' and none 'anger'"),
    ],
)
def test_refusals_name_file_line_and_what_is_allowed(
    task: str, names: tuple[str, ...], content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(TextError, match=message):
        read_texts(path, names=names, task=task)
