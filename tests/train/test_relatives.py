"""ELECTRA, ALBERT and DistilBERT by train.finetune: what they learn, write and refuse."""

import json
import re

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification

from quant.calibrate import main as calibrate
from quant.evaluate import main as evaluate
from quant.foreign.checkpoint import load
from quant.inspect import parts
from quant.model import float_model
from tests.ending import exit_code
from tests.tiers import quick
from train.finetune import main

pytestmark = pytest.mark.slow

SHAPE = ["--hidden", "16", "--layers", "2", "--heads", "2", "--ffn", "32", "--positions", "24"]
FAST = ["--length", "16", "--batch", "16", "--learning-rate", "0.01", "--precision", "float32"]
FAMILIES = {
    "electra": ["--embedding-size", "8"],
    "albert": ["--embedding-size", "16"],
    "distilbert": [],
}


@pytest.fixture
def arguments(reviews, words):
    new = ["--vocab", str(words), "--embeddings", "none", "--teacher", "none", *SHAPE, *FAST]
    return ["--data", str(reviews), *new, "--stages", "16:5"]


def places(tmp_path, name):
    return ["--out", str(tmp_path / name), "--work", str(tmp_path / f"work-{name}")]


@pytest.mark.parametrize("family", quick(FAMILIES))
def test_it_learns_and_its_integers_follow(arguments, tmp_path, family):
    """Float as in transformers, and the integer model right where the float one is."""
    given = [*arguments, "--family", family, *FAMILIES[family]]
    report = tmp_path / "report.json"
    assert main([*given, *places(tmp_path, "a"), "--json", str(report)]) == 0
    assert json.loads(report.read_text())["metrics"]["validation"]["accuracy"] > 90
    checkpoint = load(tmp_path / "a")
    size = {"electra": 8, "albert": 16, "distilbert": 0}[family]
    assert (checkpoint.spec.embedding_size, checkpoint.spec.layers) == (size, 2)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "a").eval()
    rng = np.random.default_rng(1)
    for length in (24, 9, 1):
        ids = rng.integers(5, checkpoint.spec.vocabulary, length).astype(np.int32)
        ours = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
        with torch.no_grad():
            theirs = model(input_ids=torch.from_numpy(ids[None].astype(np.int64))).logits[0]
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=2e-5)
    data, integers = ["--data", arguments[1]], str(tmp_path / "integers")
    assert calibrate(["--model", str(tmp_path / "a"), *data, "--out", integers]) == 0
    against = ["--model", str(tmp_path / "a"), "--quantized", integers, *data]
    assert evaluate([*against, "--json", str(report)]) == 0
    assert json.loads(report.read_text())["agreement"] > 0.98


def test_albert_shares_its_layers(arguments, tmp_path):
    given = [*arguments, "--family", "albert", "--layers", "3", *places(tmp_path, "a")]
    assert main(given) == 0
    names = load_file(tmp_path / "a" / "model.safetensors")
    assert sum(name.endswith("attention.query.weight") for name in names) == 1
    checkpoint = load(tmp_path / "a")
    assert parts(checkpoint)["layer"] == 4 * (16 * 16 + 16) + 2 * 16 * 32 + 16 + 32 + 2 * 2 * 16
    arrays = checkpoint.arrays
    for name in ("q.weight", "o.bias", "norm2.gamma", "ffn.up.weight"):
        assert arrays[f"layer.0.{name}"] is arrays[f"layer.2.{name}"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_trained_one_is_where_the_next_begins(arguments, tmp_path, family):
    """--freeze trains what reads the encoder alone."""
    assert main([*arguments, "--family", family, "--stages", "16:1", *places(tmp_path, "a")]) == 0
    further = [*arguments[:2], "--model", str(tmp_path / "a"), "--freeze", "--teacher", "none"]
    assert main([*further, *FAST, "--stages", "16:1", *places(tmp_path, "b")]) == 0
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    changed = {name for name in first if not np.array_equal(first[name], second[name])}
    heads = ("classifier.", "pre_classifier.", "albert.pooler.")
    assert {name for name in first if name.startswith(heads)} == changed


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            ["--family", "electra", "--embedding-size", "17"],
            "--embedding-size 17: an embedding is at most as wide as the encoder, --hidden 16",
        ),
        (
            ["--family", "albert", "--embedding-size", "0"],
            "argument --embedding-size: 0 is out of range: it must be 1 or more",
        ),
        (
            ["--family", "distilbert", "--embedding-size", "8"],
            "--embedding-size is for a new model with --family electra",
        ),
        (
            ["--family", "albert", "--neighbours"],
            "--neighbours sets the first layer of a bert or roberta",
        ),
        (
            ["--family", "electra", "--vocab-size", "300"],
            "--vocab-size is for a new model with --family roberta",
        ),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(arguments, tmp_path, capsys, extra, message):
    assert exit_code(main, [*arguments, *places(tmp_path, "a"), *extra]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.match(f"error: {re.escape(message)}", error), error
    assert not (tmp_path / "a").exists()
