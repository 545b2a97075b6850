"""quant.classify on one text, and with --batch on all texts of a file."""

import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.machine import ROOT

import pytest

from golden import encoder, store
from quant import classify, quantized_model
from quant.classify import main
from quant.foreign.checkpoint import DEFAULT_MODEL
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review
from tests.ending import figures, refusal

TEXTS = ["That movie was terrible!", "A wonderful film.", 'He said "so so".', "Not bad, not good."]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def options(quantized_directory: Path) -> list[str]:
    return ["--quantized", str(quantized_directory), "--model", str(DEFAULT_MODEL)]


def copy(folder: Path, out: Path, *, without: str = "", **spec: Any) -> Path:
    """A quantized model with other fields of its spec, without its checkpoint."""
    shutil.copytree(folder, out)
    description = json.loads((out / store.DESCRIPTION).read_text())
    description["info"]["checkpoint"]["directory"] = "gone"
    description["info"]["spec"] |= spec
    description["info"].pop(without, None)
    description["description_sha256"] = store.hash_of(description)
    (out / store.DESCRIPTION).write_text(json.dumps(description))
    return out


@pytest.mark.parametrize(("text", "index"), [(TEXTS[0], 0), ("A wonderful film. I loved it.", 1)])
def test_the_command_prints_both_models(text, index, options, classifier, tmp_path, capsys):
    values = figures(main, [text, *options], tmp_path / "figures.json")
    golden, floats = values["golden"], values["float"]
    tokens = classifier.tokens(text)
    codes = encoder.run(classifier.model, tokens.ids, tokens.types).tolist()
    assert list(golden["integer_logits"].values()) == codes
    names = list(golden["integer_logits"])
    assert golden["class"] == floats["class"] == names[index]
    assert sum(golden["probabilities"].values()) == pytest.approx(1)
    assert golden["logits"] == pytest.approx(floats["logits"], abs=0.1)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{names[index]}\n")
    assert all(f"{logit:,}" in printed for logit in codes)
    assert printed.endswith("\nnot compared with transformers\n")


def test_a_very_long_text_is_cut_and_said(options, capsys, monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(b"an awful waste of time. " * 20_000))
    )
    assert main(["-", *options]) == 0
    assert re.search(r"^dropped tokens +119,490$", capsys.readouterr().out, re.MULTILINE)


def test_the_quantized_model_classifies_without_its_checkpoint(
    quantized_directory: Path, tmp_path: Path, capsys: Capture
) -> None:
    alone = copy(quantized_directory, tmp_path / "alone")
    assert main([TEXTS[0], "--quantized", str(alone)]) == 0
    assert "float" not in capsys.readouterr().out
    with pytest.raises(
        UserError, match=r"the float checkpoint gone, which was calibrated, is gone"
    ):
        QuantizedModel.load(alone, None).require_checkpoint()


@pytest.mark.slow
def test_every_line_is_what_one_text_gives(classifier, options, tmp_path, monkeypatch):
    """More rows without a text than a chunk holds; the last chunk is short."""
    monkeypatch.setattr(quantized_model, "CHUNK", 2)
    source, out = tmp_path / "a.jsonl", tmp_path / "b" / "c.jsonl"
    rows = [("", "1"), *zip(TEXTS, ["negative", "positive", "", "1"]), ("", "1"), (" ", "0")]
    source.write_text("\n".join(json.dumps({"text": t, "label": n}) for t, n in rows))
    line = ["--batch", source, "-o", out, "--tokens", "6", *options]
    counts = figures(main, line, tmp_path / "d.json")
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["text"].strip() for line in found] == [text.strip() for text, _ in rows]
    full = [line for line in found if line["text"].strip()]
    assert sum("class" in line for line in found) == len(full) == 4
    for line in full:
        one = classify.classify(classifier, classifier.tokens(line["text"], max_tokens=6))
        for key in ("class", "integer_logits"):
            assert line[key] == one["golden"][key]
        assert line["probabilities"] == pytest.approx(one["golden"]["probabilities"], abs=1e-6)
        assert (line["tokens"], line["dropped_tokens"]) == (one["tokens"], one["dropped_tokens"])
    assert (counts["texts"], counts["tokens"]) == (4, sum(line["tokens"] for line in full))
    assert counts["cut_texts"] == sum(line["dropped_tokens"] > 0 for line in full) > 0
    assert [line.get("label") for line in full] == ["negative", "positive", None, "positive"]
    right = [line["class"] == line["label"] for line in full if "label" in line]
    assert counts["accuracy"] == sum(right) / 3


def test_pairs_and_standard_output(options: list[str], tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "pairs.csv"
    source.write_text("sentence1,sentence2\nIs it good?,No\n")
    assert main(["--batch", str(source), *options]) == 0
    said = capsys.readouterr()
    (line,) = map(json.loads, said.out.splitlines())
    assert (line["text"], line["pair"]) == ("Is it good?", "No")
    assert re.search(r"^texts +1$", said.err, re.MULTILINE)


def test_texts_are_read_as_they_are_needed(classifier, monkeypatch):
    """A file of any length: no more than a chunk is taken ahead of what is given."""
    monkeypatch.setattr(quantized_model, "CHUNK", 4)
    taken = 0

    def endless() -> Iterator[Review]:
        nonlocal taken
        while True:
            taken += 1
            yield Review("good film", None)

    found = classifier.predict(endless())
    for number in range(1, 10):
        next(found)
        assert taken == -(-number // 4) * 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\n  ,1\n,0\n", "holds no text"),
        ("text,label\ngood,fine\n", "texts.csv:2: 'fine' is not one of"),
        ("text\ngood\n\u200b\n", "text 2: "),
    ],
)
def test_a_bad_file_leaves_what_was_there(content, message, options, tmp_path, capsys):
    source, out = tmp_path / "texts.csv", tmp_path / "classes.jsonl"
    source.write_text(content)
    out.write_text("before")
    assert main(["--batch", str(source), "-o", str(out), *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["classes.jsonl", "texts.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "give either a text or --batch FILE"),
        ("good --batch x.csv", "give either a text or --batch FILE"),
        ("--batch x.csv --pair good", "--pair belongs to one text"),
        ("good -o x.jsonl", "--out belongs to --batch"),
        ("--batch x.csv -o ./x.csv", "--out x.csv is the file that is read"),
        ("\u200b --quantized Q", "holds nothing that the vocabulary knows"),
        ("\u200b --model M", "holds nothing that the vocabulary knows"),
        ("good --quantized Q --tokens 2", "leaves no room for the text"),
        ("good --quantized damaged", "quantized.npz: its SHA-256 is not the one in"),
        ("good --quantized names", "quantized.json cannot be used (2 labels are 'positive'"),
        ("good --quantized bare", "quantized.json cannot be used ('tensors'): calibrate again"),
    ],
)
def test_refusals(arguments, words, quantized_directory, tmp_path, capsys, monkeypatch):
    """Without a calibration, which would be told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("quant.which.BUILD", tmp_path)
    Path("x.csv").write_text("text\ngood\n")
    damaged = copy(quantized_directory, Path("damaged")) / store.ARRAYS
    data = bytearray(damaged.read_bytes())
    data[1000] ^= 1
    damaged.write_bytes(data)
    copy(quantized_directory, Path("names"), labels=["positive", "positive "])
    copy(quantized_directory, Path("bare"), without="tensors")
    named = {"Q": str(quantized_directory), "M": str(ROOT / DEFAULT_MODEL)}
    given = [named.get(word, word) for word in arguments.split(" ")]
    assert words in refusal(main, list(filter(None, given)), capsys)
