"""train.bench compares the same checkpoint."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime")

from transformers import AutoModel, BertConfig

from golden import fast, store
from quant.foreign.checkpoint import load
from quant.model import float_model
from quant.texts.data_file import Review
from tests import zoo
from train import bench, comparison
from train.families import load_model

MODEL = Path(__file__).parents[2] / "models" / "bert-tiny-imdb"
FEW = ["--texts", "4", "--batch", "2", "--tokens", "16", "--repeats", "1"]


@pytest.fixture
def quantized(tmp_path, monkeypatch):
    """A quantized model of the checkpoint's shape, so that nothing is calibrated."""
    store.save(zoo.model(zoo.REAL, 0, vocabulary=30522), tmp_path, {})
    monkeypatch.setattr(comparison, "ensure", lambda model, tasks: tmp_path)
    return store.load(tmp_path)[0]


def test_the_sides_are_the_same_checkpoint(quantized):
    """Float is this project's own, and INT8 is near it, for any batch and length."""
    reference = load_model(MODEL, "classification", ("negative", "positive"))
    these = comparison.sides(reference, None, quantized)
    checkpoint = load(MODEL)
    for length in (5, 40):
        ids = np.random.default_rng(length).integers(1000, 20000, (2, length))
        exact = [float_model.run(checkpoint.spec, checkpoint.arrays, row) for row in ids]
        np.testing.assert_allclose(these["float"](ids), exact, atol=1e-4)
        for side in ("INT8", "INT8 per channel"):
            assert 0 < np.abs(these[side](ids) - exact).max() < 1
        assert (these["golden"](ids) == fast.run_batch(quantized, list(ids))).all()


def test_an_encoder_gives_the_mean_or_the_first_of_its_tokens(quantized):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = AutoModel.from_config(BertConfig(vocab_size=30, intermediate_size=16, **sizes)).eval()
    ids = np.arange(10).reshape(2, 5)
    with torch.no_grad():
        states = model(torch.from_numpy(ids)).last_hidden_state.numpy()
    for pooling, wanted in {"mean": states.mean(1), "first": states[:, 0]}.items():
        these = comparison.sides(model, pooling, quantized)
        for side, tolerance in {"float": 1e-5, "INT8": 0.2}.items():
            np.testing.assert_allclose(these[side](ids), wanted, atol=tolerance)


def test_the_figures_of_accuracy():
    exact = np.array([[1.0, 0], [0.9, 0.1], [-1, 0.1], [-1, 0]])
    turned = np.array([[0.0, 1], [0.1, 0.9], [-1, 0.1], [-1, 0]])
    sides = {"float": lambda ids: exact[ids[0]], "other": lambda ids: turned[ids[0]]}
    texts = [np.array([i]) for i in range(4)]
    first, second = comparison.accuracy("m", sides, texts, [0, 0, 1, 0])
    assert (first["accuracy_percent"], first["agreement_percent"]) == (75, 100)
    assert (second["accuracy_percent"], second["agreement_percent"]) == (25, 50)
    first, second = comparison.accuracy("m", sides, texts, None)
    assert (first["mean_cosine"], first["same_neighbour_percent"]) == (pytest.approx(1), 100)
    assert second["mean_cosine"] == pytest.approx((0.18 / 0.82 + 2) / 4)
    assert second["same_neighbour_percent"] == 100
    turned[1] = -1, 0
    assert comparison.accuracy("m", sides, texts, None)[1]["same_neighbour_percent"] == 0


def test_the_command(quantized, tmp_path, capsys, monkeypatch):
    reviews = [Review("a good film " * 20, 1), Review("a bad film " * 30, 0), Review("good", 1)] * 4
    monkeypatch.setattr(comparison, "imdb", lambda split: reviews)
    file = tmp_path / "figures" / "bench.json"
    assert bench.main(["--model", str(MODEL), *FEW, "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    sides = ["float", "INT8", "INT8 per channel", "golden"]
    assert [row["side"] for row in found["accuracy"]] == sides
    assert [(row["tokens"], row["batch"]) for row in found["speed"]] == [(16, 2), (16, 1)]
    for row in found["speed"]:
        assert row["speed_of_float"] == row["float_ms"] / row["golden_ms"]
        assert row["speed_of_int8"] == row["int8_ms"] / row["golden_ms"]
    assert "side golden, texts 4, accuracy_percent" in capsys.readouterr().out


def test_a_model_of_another_kind_is_refused(capsys):
    assert bench.main(["--model", str(MODEL), *FEW, "--tokens", "513"]) == 2
    assert "bert-tiny-imdb takes 512 at most" in capsys.readouterr().err
    assert bench.main(["--model", "models/vit-tiny-digits"]) == 2
    assert "give an encoder of texts" in capsys.readouterr().err
