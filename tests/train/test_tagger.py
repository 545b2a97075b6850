"""Words and their classes as train.tagger trains them, from a tiny BERT."""

import json

import numpy as np
import pytest

from quant import evaluate
from quant.calibrate import main as calibrate
from quant.foreign.checkpoint import load
from quant.model.spec import TOKEN_CLASSIFICATION
from quant.texts.corpora import imdb
from tests.ending import refusal
from tests.train.conftest import FAST
from train import tagger
from train.targets import Words, names_of

pytestmark = pytest.mark.slow

TAGS = {"great": "B-X", "awful": "B-Y", "film": "O", "story": "O"}


@pytest.fixture
def data(words, tmp_path):
    """Words whose tag they say themselves; some have none."""
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(64):
        chosen = [str(word) for word in rng.choice(list(TAGS), rng.integers(2, 7))]
        tags = [None if rng.random() < 0.2 else TAGS[word] for word in chosen]
        rows.append({"tokens": chosen, "ner_tags": tags})
    path = tmp_path / "tags.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def command(base, data, tmp_path, *more):
    files = ["--data", str(data), "--validation", str(data), "--names", "O,B-X,B-Y"]
    places = ["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    return ["--model", str(base), *files, *places, "--steps", "60", *FAST, *more]


def test_from_a_file_to_the_evaluation(base, data, tmp_path, capsys):
    line = command(base, data, tmp_path, "--test", str(data), "--splits", str(tmp_path / "splits"))
    assert tagger.main([*line, "--json", str(tmp_path / "report.json")]) == 0
    metrics = json.loads((tmp_path / "report.json").read_text())["metrics"]
    assert metrics["test"]["accuracy"] > 95
    assert metrics["test"]["f1"] > 90
    assert "micro F1 of the entities" in capsys.readouterr().out
    spec = load(tmp_path / "out").spec
    assert (spec.task, spec.labels) == (TOKEN_CLASSIFICATION, ("O", "B-X", "B-Y"))
    written = (tmp_path / "splits" / "test.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == [
        json.loads(line) for line in data.read_text().splitlines()
    ]
    given = ["--model", str(tmp_path / "out"), "--data", str(tmp_path / "splits" / "test.jsonl")]
    assert calibrate([*given, "--remedies", "none", "--out", str(tmp_path / "quantized")]) == 0
    figures = tmp_path / "evaluation.json"
    line = [*given, "--quantized", str(tmp_path / "quantized"), "--json", str(figures)]
    assert evaluate.main(line) == 0
    found = json.loads(figures.read_text())
    assert 100 * found["float"]["accuracy"] == pytest.approx(metrics["test"]["accuracy"], abs=0.5)
    assert 100 * found["entities"]["float"]["f1"] == pytest.approx(metrics["test"]["f1"], abs=1)
    assert found["agreement"] > 0.97


def test_the_same_run_twice_gives_the_same_bytes(base, data, tmp_path):
    assert tagger.main(command(base, data, tmp_path)) == 0
    first = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert tagger.main(command(base, data, tmp_path, "--force")) == 0
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == first


@pytest.mark.parametrize(
    ("sentence", "tags"),
    [
        ("The film by Jane Campion is fine .", "-00120 00".replace(" ", "")),
        ("I think I'm in New York City , Tom !", "0000" + "12201" + "0"),
        ('He said " Never " to BBC and Bob', "-00-00-01"),
    ],
)
def test_which_words_are_names(sentence, tags):
    """What begins a sentence or a quotation, and capitals throughout, say nothing."""
    found = names_of(tuple(sentence.split()))
    assert ["-" if tag is None else str(tag) for tag in found] == list(tags)


def test_sentences_of_reviews():
    found = Words().corpus("validation")
    assert len(found) > len(imdb("validation"))
    assert all(6 <= len(review.words) <= 60 == 60 for review in found)
    named = np.mean([1 in review.tags for review in found])
    assert 0.2 < named < 0.8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ["--names", "O"],
            "--data FILE needs --names A,B,... of its outputs, and --validation FILE",
        ),
        (["--names", "O,O"], "--names has 'O' and 'O', which are one name: rename one"),
        (["--names", "O,B-X"], "tags.jsonl:"),
        (["--batch", "100"], "64 training texts do not fill a batch of 100: lower --batch"),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_refusals(change, message, base, data, tmp_path, capsys):
    assert message in refusal(tagger.main, [*command(base, data, tmp_path), *change], capsys)
