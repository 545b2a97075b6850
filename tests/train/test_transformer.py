"""The plain Transformer encoder as train.finetune makes it: what it learns, writes and refuses."""

import json
import re

import numpy as np
import pytest
import torch

from quant.foreign.checkpoint import load
from quant.model import float_model
from tests.ending import exit_code
from tests.quant import tiny, zoo
from train.failure import TrainError
from train.finetune import main
from train.transformer import TransformerForSequenceClassification, new_transformer

SHAPE = ["--hidden", "16", "--layers", "2", "--heads", "2", "--ffn", "32", "--positions", "24"]
FAST = ["--length", "16", "--batch", "16", "--learning-rate", "0.01", "--precision", "float32"]
ALTERNATIVES = ["--norm", "post", "--pooling", "first", "--activation", "gelu", "--unscaled"]


@pytest.fixture
def arguments(words, reviews):
    new = ["--family", "transformer", "--vocab", str(words), "--embeddings", "none", *SHAPE]
    return ["--data", str(reviews), "--teacher", "none", *new, *FAST]


def places(tmp_path, name):
    return ["--out", str(tmp_path / name), "--work", str(tmp_path / f"work-{name}")]


def logits(folder, ids, attend):
    """Of the float reference, and of the class it was trained as."""
    checkpoint = load(folder)
    ours = [
        float_model.run(checkpoint.spec, checkpoint.arrays, row[mask])
        for row, mask in zip(ids, attend)
    ]
    model = TransformerForSequenceClassification.load(folder).eval()
    with torch.no_grad():
        return np.stack(ours), model(torch.from_numpy(ids), torch.from_numpy(attend)).numpy()


@pytest.mark.parametrize("alternatives", [[], ALTERNATIVES])
def test_it_learns_and_is_the_encoder_that_is_loaded(alternatives, arguments, tmp_path):
    report = tmp_path / "report.json"
    made = [*arguments, *alternatives, "--stages", "16:6", "--json", str(report)]
    assert main([*made, *places(tmp_path, "a")]) == 0
    assert json.loads(report.read_text())["metrics"]["validation"]["accuracy"] > 90
    spec = load(tmp_path / "a").spec
    choices = spec.norm, spec.embedding_norm, spec.pooling, spec.activation
    expected = ("post", True, "first", "gelu") if alternatives else ("pre", False, "mean", "relu")
    assert choices == expected
    ids = np.random.default_rng(0).integers(0, spec.vocabulary, (3, 20)).astype(np.int32)
    attend = np.arange(20) < np.array([[20], [7], [1]])
    ours, theirs = logits(tmp_path / "a", ids, attend)
    assert np.abs(theirs).max() > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_a_trained_one_is_where_the_next_begins(arguments, words, tmp_path):
    assert main([*arguments, "--stages", "16:1", *places(tmp_path, "first")]) == 0
    three = tmp_path / "three.csv"
    three.write_text("text,label\n" + "".join(f"film {i},{'abc'[i % 3]}\n" for i in range(60)))
    frozen = ["--model", str(tmp_path / "first"), "--freeze", "--data", str(three), *FAST]
    frozen += ["--teacher", "none", "--stages", "16:1"]
    assert main([*frozen, *places(tmp_path, "second")]) == 0
    first, second = load(tmp_path / "first"), load(tmp_path / "second")
    assert second.spec.labels == ("a", "b", "c")
    for name, array in first.arrays.items():
        if not name.startswith("head."):
            np.testing.assert_array_equal(array, second.arrays[name])


def test_every_layer_is_drawn_and_keeps_the_variance():
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    drawn = {"dropout": 0.0, "attention_dropout": 0.0, "seed": 7, "vocab_size": 3000}
    for scaled in (True, False):
        model = new_transformer("ab", deviation=None, scale_embedding=scaled, **shape, **drawn)
        parameters = model.state_dict()
        words = parameters["embedding.weight"] * (8 if scaled else 1)
        assert words.std().item() == pytest.approx(1, rel=0.02)
        for name, tensor in parameters.items():
            if name.startswith("encoder.layers.1.") and tensor.ndim == 2:
                assert tensor.std().item() == pytest.approx(tensor.shape[1] ** -0.5, rel=0.05)
                assert not torch.equal(tensor, parameters[name.replace("layers.1", "layers.0")])


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--neighbours"], "--neighbours sets learned positions, those of a transformer are fixed"),
        (["--model", "models/bert-tiny-imdb"], "--family transformer is for a new model, --model"),
        (["--family", "bert", "--norm", "post"], "--norm is for a new model with --family transf"),
        (["--family", "bert", "--unscaled"], "--unscaled is for a new model with --family transf"),
        (["--norm", "both"], "argument --norm: invalid choice: 'both'"),
        (["--heads", "3"], "--hidden 16 is no multiple of --heads 3"),
        (["--stages", "32:1"], "32 tokens are asked for in --length or --stages: the model has 24"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(arguments, tmp_path, capsys, extra, message):
    assert exit_code(main, [*arguments, *places(tmp_path, "a"), *extra]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.match(f"error: {message}", error), error
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("case", "key"),
    [
        ("turned", "rope_theta"),
        ("one layer turned", "rope_theta"),
        ("gated", "gated"),
        ("RMSNorms", "rms_norm"),
        ("two bases, one head of K", "rope_theta"),
        ("one head of K", "num_key_value_heads"),
        ("no positions", "sinusoids"),
    ],
)
def test_mechanisms_that_are_not_trained(case, key, tmp_path):
    others = {"one head of K": {"num_key_value_heads": 1}, "no positions": {"sinusoids": False}}
    config = tiny.TRANSFORMER | (zoo.OWN | others)[case]
    folder = tiny.write(tmp_path, config, zoo.own_tensors(config))
    with pytest.raises(TrainError, match=f"config.json: {key} is another one than is trained"):
        TransformerForSequenceClassification.load(folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_act": "gelu_new"}, "the activation 'gelu_new' cannot be trained here: it must"),
        ({"pooling": "max"}, "pooling is 'max': it must be one of first, mean, last, none"),
        ({"window": [None, 0]}, "window is another one than is trained here"),
        ({"position_bias": "alibi"}, "position_bias is another one than is trained here"),
        ({"num_hidden_layers": 3}, "encoder.layers.2.self_attn.in_proj_weight is missing"),
    ],
)
def test_a_checkpoint_that_is_none(arguments, reviews, tmp_path, capsys, fields, message):
    assert main([*arguments, "--stages", "16:1", *places(tmp_path, "first")]) == 0
    file = tmp_path / "first" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    capsys.readouterr()
    given = ["--model", str(tmp_path / "first"), "--data", str(reviews), *FAST]
    given += ["--teacher", "none", "--stages", "16:1"]
    assert main([*given, *places(tmp_path, "second")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
