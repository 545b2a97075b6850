"""quant.classify --batch: a line for each text of a file, as one text at a time has it."""

import json
from pathlib import Path

import pytest

from quant.classify import Classifier, main
from quant.measure import batch
from quant.texts.data_file import Review
from tests.quant.test_classify import quantized_option

TEXTS = ["That movie was terrible!", "A wonderful film.", 'He said "so so".', "Not bad, not good."]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "txt"])
def test_every_line_is_what_one_text_gives(
    kind: str,
    classifier: Classifier,
    quantized_directory: Path,
    tmp_path: Path,
    capsys,
    monkeypatch,
) -> None:
    monkeypatch.setattr(batch, "CHUNK", 3)  # so that the last of them is short
    source, out = tmp_path / f"texts.{kind}", tmp_path / "out" / "classes.jsonl"
    labels = ["negative", "1", "", "positive"]
    if kind == "csv":
        rows = [f'"{t.replace(chr(34), chr(34) * 2)}",{n}' for t, n in zip(TEXTS, labels)]
        source.write_text("\n".join(["text,label", *rows]))
    elif kind == "tsv":
        source.write_text("\n".join(["label\ttext", *(f"{n}\t{t}" for t, n in zip(TEXTS, labels))]))
    elif kind == "jsonl":
        rows = [json.dumps({"text": t, "label": n}) for t, n in zip(TEXTS, labels)]
        source.write_text("\n".join(rows))
    else:
        source.write_text("\n\n".join(TEXTS))
    figures = tmp_path / "figures.json"
    options = ["--batch", str(source), "-o", str(out), "--tokens", "6", "--json", str(figures)]
    assert main([*options, *quantized_option(quantized_directory)]) == 0
    printed, found = capsys.readouterr().out, lines(out)
    assert [line["text"] for line in found] == TEXTS
    for line in found:
        one = classifier.classify(classifier.tokens(line["text"], max_tokens=6)).to_json()
        assert line["class"] == one["golden"]["class"]
        assert line["integer_logits"] == one["golden"]["integer_logits"]
        assert line["probabilities"] == pytest.approx(one["golden"]["probabilities"], abs=1e-6)
        assert (line["tokens"], line["dropped_tokens"]) == (one["tokens"], one["dropped_tokens"])
    known = [line.get("label") for line in found]
    counts = json.loads(figures.read_text())
    assert (counts["texts"], counts["tokens"]) == (4, sum(line["tokens"] for line in found))
    assert counts["cut_texts"] == sum(line["dropped_tokens"] > 0 for line in found) > 0
    if kind == "txt":
        assert known == [None] * 4
        assert counts["accuracy"] is None
        assert "accuracy" not in printed
    else:
        assert known == ["negative", "positive", None, "positive"]
        right = [line["class"] == line["label"] for line in found if "label" in line]
        assert counts["accuracy"] == sum(right) / 3
        assert f"accuracy {sum(right) / 3:.2%} of 3 with a label" in printed


def test_a_row_without_a_text_has_a_line(
    quantized_directory: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    """More of them than a chunk holds; what is printed counts the texts."""
    monkeypatch.setattr(batch, "CHUNK", 2)
    source, out = tmp_path / "texts.csv", tmp_path / "out.jsonl"
    source.write_text("text,label\n,1\nA fine film.,1\n,\n ,0\n,\nDull.,0\n,1\n")
    options = ["--batch", str(source), "-o", str(out), *quantized_option(quantized_directory)]
    assert main(options) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("2 texts, ")
    assert f"kept as empty rows: 5, the first is {source}:2" in printed.err
    found = lines(out)
    assert [line["text"] for line in found] == ["", "A fine film.", "", "", "", "Dull.", ""]
    assert ["class" in line for line in found] == [bool(line["text"]) for line in found]


def test_pairs_and_standard_output(quantized_directory: Path, tmp_path: Path, capsys) -> None:
    source = tmp_path / "pairs.csv"
    source.write_text("sentence1,sentence2\nIs it good?,No\n")
    assert main(["--batch", str(source), *quantized_option(quantized_directory)]) == 0
    said = capsys.readouterr()
    (line,) = map(json.loads, said.out.splitlines())
    assert (line["text"], line["pair"]) == ("Is it good?", "No")
    assert "1 texts, " in said.err


def test_texts_are_read_as_they_are_needed(classifier: Classifier, monkeypatch) -> None:
    """A file of any length: no more than a chunk is taken ahead of what is given."""
    monkeypatch.setattr(batch, "CHUNK", 4)
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield Review("good film", None)

    found = batch.classified(
        classifier.spec,
        classifier.logit_scale,
        classifier.tokens,
        lambda texts: (classifier.model, texts),
        endless(),
    )
    for number in range(1, 10):
        next(found)
        assert taken == -(-number // 4) * 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "text,label\ngood,1\nbad,2\n",
            "texts.csv:3: '2' is not one of negative, positive or an index",
        ),
        ("text,label\n  ,1\n,0\n", "holds no text"),
        ("text,label\ngood,fine\n", "texts.csv:2: 'fine' is not one of"),
        ("text\n", "holds no text"),
        ("words\ngood\n", ":1: no column 'text' among words"),
    ],
)
def test_a_bad_file_leaves_what_was_there(
    content: str, message: str, quantized_directory: Path, tmp_path: Path, capsys
) -> None:
    source, out = tmp_path / "texts.csv", tmp_path / "classes.jsonl"
    source.write_text(content)
    out.write_text("before")
    options = ["--batch", str(source), "-o", str(out), *quantized_option(quantized_directory)]
    assert main(options) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["classes.jsonl", "texts.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a text or --batch FILE"),
        (["good", "--batch", "x.csv"], "give either a text or --batch FILE"),
        (["--batch", "x.csv", "--pair", "good"], "--pair belongs to one text"),
        (["good", "-o", "x.jsonl"], "--out belongs to --batch"),
        (["--batch", "x.csv", "-o", "./x.csv"], "--out x.csv is the file that is read"),
    ],
)
def test_what_does_not_go_together(
    arguments: list[str], message: str, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("text\ngood\n")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
