"""`python -m quant.export`: what it writes, and what it refuses to write."""

from pathlib import Path

import pytest

from golden import store
from quant.export import __main__ as c
from quant.export.__main__ import main
from tests import zoo
from tests.ending import exit_code


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    directory = tmp_path / "quantized"
    labels = ["*/ bad /*", "good \\", "ünd\n"]
    info = {
        "spec": {"task": "classification", "labels": labels},
        "tensors": {"logits": {"scale": 0.25}},
    }
    store.save(zoo.model("no-pooler"), directory, info)
    return directory


def contents(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_it_writes_the_same_again(quantized: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "deep" / "c"
    arguments = ["c", "--quantized", str(quantized), "-o", str(out)]
    assert main(arguments) == 0
    first = contents(out)
    assert set(first) == {*c.INFERENCE, *c.GENERATED}
    assert "cc -std=c99" in capsys.readouterr().out
    out.joinpath("bert_main.c").write_text("an older one")
    assert main(arguments) == 0
    assert contents(out) == first
    assert [path.name for path in out.parent.iterdir()] == ["c"]


def test_labels_stay_in_their_comment(quantized: Path) -> None:
    shape = c.sources(*store.load(quantized))["bert_shape.h"]
    comment, _, rest = shape.partition("*/")
    assert r'labels: ["*\/ bad \/*", "good \\", "\u00fcnd\n"]' in comment
    assert "0.25 times" in comment
    assert "bad" not in rest
    for info in ({}, {"spec": None, "tensors": []}, {"spec": {"labels": 3}, "tensors": {}}):
        assert "labels:" not in c.sources(store.load(quantized)[0], info)["bert_shape.h"]


def test_default_directory(quantized: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["c", "--quantized", "quantized"]) == 0
    assert (tmp_path / "build" / "export" / "quantized" / "bert_main.c").is_file()


def test_refusals(quantized: Path, tmp_path: Path, capsys) -> None:
    def refused(*arguments: str) -> str:
        assert exit_code(main, list(arguments)) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    good = ["c", "--quantized", str(quantized), "-o"]
    out, file = tmp_path / "out", tmp_path / "file"
    file.write_text("mine")
    assert f"{file} is a file: give the name of a folder" in refused(*good, str(file))
    assert refused(*good, str(file / "below")).startswith("error: ")
    out.mkdir()
    out.joinpath("bert_main.c").write_text("an export")
    out.joinpath("notes.txt").write_text("mine")
    assert f"{out} holds notes.txt, which is not of an export" in refused(*good, str(out))
    assert contents(out) == {"bert_main.c": "an export", "notes.txt": "mine"}
    assert file.read_text() == "mine"

    new = str(tmp_path / "new")
    assert "not allowed with" in refused("c", "--model", "a", "--quantized", "b")
    assert "invalid choice: 'pdf'" in refused("pdf", "-o", new)
    assert "required: format" in refused("-o", new)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
