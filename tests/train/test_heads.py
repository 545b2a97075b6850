"""Several labels at once and numbers as train.heads trains them, from a tiny BERT."""

import json
import re

import numpy as np
import pytest

from quant import evaluate
from quant.calibrate import main as calibrate
from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import TextTokenizer
from quant.model import float_model
from quant.texts.data_file import read_texts
from tests.ending import refusal
from tests.train.conftest import FAST
from train import heads, heads_training
from train.targets import HEADS

pytestmark = pytest.mark.slow


@pytest.fixture
def arguments(base, tmp_path):
    def of(task, names, label, out="out"):
        """The command on the reviews with the targets that ``label`` gives a review's class."""
        file = tmp_path / f"{task}.jsonl"
        rows = [json.loads(line) for line in (tmp_path / "reviews.jsonl").read_text().splitlines()]
        for row in rows:
            row["label"] = label(row["label"])
        file.write_text("\n".join(map(json.dumps, rows)))
        data = ["--data", str(file), "--validation", str(file), "--names", names]
        places = ["--out", str(tmp_path / out), "--work", str(tmp_path / f"work-{out}")]
        return [task, "--model", str(base), *data, *places, "--steps", "40", *FAST], file

    return of


def test_several_labels(arguments, tmp_path, capsys):
    line, _ = arguments("multi-label", "good,bad,text", lambda c: [["bad", "good"][c], "text"])
    assert heads.main([*line, "--json", str(tmp_path / "a.json")]) == 0
    assert json.loads((tmp_path / "a.json").read_text())["metrics"]["validation"]["accuracy"] > 90
    assert "every label right" in capsys.readouterr().out
    spec = load(tmp_path / "out").spec
    assert (spec.task, spec.labels) == ("multi-label", ("good", "bad", "text"))


def test_numbers_come_in_their_units(arguments, tmp_path, capsys):
    line, file = arguments("regression", "stars,grams", lambda c: [2.0 * c - 1, 5000.0 + 1000 * c])
    assert heads.main(line) == 0
    checkpoint, tokenizer = load(tmp_path / "out"), TextTokenizer(tmp_path / "out")
    assert (checkpoint.spec.task, checkpoint.spec.labels) == ("regression", ("stars", "grams"))
    found = read_texts(file, names=("stars", "grams"), task="regression")
    ids = [tokenizer.encode(r.text, limit=16).ids for r in found]
    outputs = np.array([float_model.run(checkpoint.spec, checkpoint.arrays, i) for i in ids])
    error = np.abs(outputs - [r.targets for r in found]).mean(axis=0)
    assert error[0] < 0.5
    assert error[1] < 250
    # The integer model of it keeps both, though one is a thousand times the other.
    made = ["--model", str(tmp_path / "out"), "--data", str(file), "--tokens", "16"]
    assert calibrate([*made, "--out", str(tmp_path / "q")]) == 0
    figures = tmp_path / "figures.json"
    more = ["--quantized", str(tmp_path / "q"), "--json", str(figures)]
    assert evaluate.main([*made, *more]) == 0
    golden = json.loads(figures.read_text())["golden_by_float"]
    assert min(golden["stars"]["r2"], golden["grams"]["r2"]) > 0.98


def test_the_same_command_gives_the_same_bytes(arguments, tmp_path):
    for out in ("a", "b"):
        line, _ = arguments("multi-label", "good", lambda c: ["good"] * c, out)
        assert heads.main(line) == 0
    same = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("a", "b")]
    assert same[0] == same[1]


def test_the_corpora_give_targets_that_are_written_and_read(tmp_path):
    for task in ("multi-label", "regression"):
        head = HEADS[task]()
        found = head.corpus("validation")[:20]
        heads_training.write_texts(tmp_path / "a.jsonl", found, head.names, head)
        assert read_texts(tmp_path / "a.jsonl", names=head.names, task=task) == found
    reviews = HEADS["regression"]().corpus("validation")
    assert len(reviews) == 1000  # of 1,000 and of 500
    words = np.array([review.targets[1] for review in reviews])
    assert (words[0::2].mean() > 80, words[1::2].mean() < 40, words.max()) == (True, True, 100)
    assert {review.targets[0] for review in reviews} == {-1, 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--names", "a,,b"], r"--data FILE needs --names A,B,\.\.\. of its outputs"),
        (["--names", "a,a"], r"--names has 'a' and 'a', which are one name: rename one"),
        (["--data", "reviews"], r"--names belongs to a file: of reviews they are given"),
        (["--batch", "500"], r"160 training texts do not fill a batch of 500: lower --batch"),
        (["--names", "a,b,c"], r"\[1\.0\]: the model gives 3 \(a, b, c\)"),
        (["--validation", "nowhere.csv"], r"--validation: nowhere\.csv does not exist"),
    ],
)
def test_refusals(changes, message, arguments, capsys):
    line, _ = arguments("regression", "a", lambda c: [1.0])
    capsys.readouterr()
    assert re.search(message, refusal(heads.main, [*line, *changes], capsys, quiet=False))


def test_a_text_without_a_target_is_refused(arguments, capsys):
    line, _ = arguments("regression", "a", lambda c: None)
    capsys.readouterr()
    assert "a text has no target, or is a pair: neither" in refusal(heads.main, line, capsys)
