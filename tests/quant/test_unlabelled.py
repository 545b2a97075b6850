"""Commands that need no labels take a file whatever it says of its texts."""

import json
from pathlib import Path

import pytest

from quant.inspect import main as inspect
from quant.model.spec import TASKS
from quant.texts.data_file import read_texts
from tests.quant import tiny

TEXTS = "good film", "a bad film", "the film"
FILES = {
    "class.csv": ("text,label", ["excellent", "7", ""]),
    "both.csv": ("text,label,Label", ["1,2", "x,", ",0"]),
    "numbers.tsv": ("text\tlabel", ["1.5", "many", "nan"]),
    "outputs.csv": ("text,bad", ["1", "perhaps", ""]),
}


def table(folder: Path, name: str) -> Path:
    header, rest = FILES[name]
    separator = "\t" if name.endswith("tsv") else ","
    lines = [header, *(f"{text}{separator}{one}" for text, one in zip(TEXTS, rest))]
    (folder / name).write_text("\n".join(lines))
    return folder / name


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", FILES)
def test_what_a_table_says_is_not_looked_at(name: str, task: str, tmp_path: Path) -> None:
    found = read_texts(table(tmp_path, name), names=(), task=task)
    assert [(one.text, one.label, one.targets) for one in found] == [(t, None, None) for t in TEXTS]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_tags_of_other_names_are_not_looked_at(suffix: str, tmp_path: Path) -> None:
    rows = [
        {"tokens": ["good", "film"], "ner_tags": ["B-X", "O"]},
        {"tokens": ["a"], "ner_tags": []},
    ]
    file = tmp_path / f"data{suffix}"
    if suffix == ".jsonl":
        file.write_text("\n".join(map(json.dumps, rows)))
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist(rows), file)
    found = read_texts(file, names=(), task="token-classification")
    assert [(one.words, one.tags) for one in found] == [
        (("good", "film"), (None, None)),
        (("a",), (None,)),
    ]


@pytest.mark.parametrize("name", FILES)
def test_a_model_is_inspected_with_them(name: str, tmp_path: Path, capsys) -> None:
    model = tiny.write(tmp_path / "model", {"problem_type": "multi_label_classification"})
    assert inspect([str(model), "--data", str(table(tmp_path, name)), "--tokens", "8"]) == 0
    assert "on 3 texts" in capsys.readouterr().out.replace("3 texts:", "on 3 texts")
