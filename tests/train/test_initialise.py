"""How random weights are drawn; heads that start out attending to neighbours."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from train.checkpoint import new_bert
from train.initialise import attend_to_neighbours
from train.pretrain import _parser
from train.pretraining import _model
from train.roberta import new_roberta


def scores(model: object, ids: torch.Tensor, heads: int) -> torch.Tensor:
    """q k^T [heads, L, L] of layer 0, from the model's own parts."""
    if hasattr(model, "base_model"):  # one of transformers
        x = model.base_model.embeddings(ids)
        part = model.base_model.encoder.layer[0].attention.self
        q, k = part.query(x), part.key(x)
    else:
        x = model.embeddings(ids)
        q, k, _ = model.layers[0].qkv(x).chunk(3, dim=-1)
    q, k = (y[0].view(len(ids[0]), heads, -1).transpose(0, 1) for y in (q, k))
    return q @ k.transpose(1, 2) / q.shape[-1] ** 0.5


def attended(weights: torch.Tensor) -> list[float]:
    """What heads 0 to 3 [4, L, L] have for the tokens at distance -1, +1, -2, +2."""
    return [
        weights[head].diagonal(distance)[4:-4].mean().item()
        for head, distance in enumerate((-1, 1, -2, 2))
    ]


@pytest.mark.parametrize("preset", ["heartbert", "bert-mini"])
def test_first_heads_look_at_their_neighbours(preset):
    sizes = {"hidden": 256, "heads": 4, "layers": 1, "ffn": 16, "positions": 128}
    shape = [f"--{name}={value}" for name, value in sizes.items()]
    ids = torch.randint(1000, 30000, (1, 100), generator=torch.Generator().manual_seed(0))
    shares = {}
    for neighbours in ([], ["--neighbours"]):
        options = _parser().parse_args(["--preset", preset, *shape, *neighbours])
        with torch.no_grad():
            model = _model(options, 30522).eval()
            weights = scores(model, ids, heads=4).softmax(-1)
        shares[bool(neighbours)] = attended(weights)
    assert max(shares[False]) < 0.02  # 1 / 100 where nothing is preferred
    assert min(shares[True]) > 0.3  # of 100 tokens, on one


def test_those_of_a_roberta_too():
    drawn = {"deviation": 0.02, "dropout": 0.0, "attention_dropout": 0.0, "seed": 0}
    drawn |= {"hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4}
    drawn |= {"intermediate_size": 16, "max_position_embeddings": 128, "vocab_size": 30522}
    model = new_roberta("ab", **drawn).eval()
    ids = torch.randint(1000, 30000, (1, 100), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = scores(model, ids, heads=4).softmax(-1)
        attend_to_neighbours(model)
        after = scores(model, ids, heads=4).softmax(-1)
    assert max(attended(before)) < 0.02
    assert min(attended(after)) > 0.3


SHAPE = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2}
SHAPE |= {"num_attention_heads": 2, "max_position_embeddings": 64}


def drawn(deviation):
    rates = {"dropout": 0.0, "attention_dropout": 0.0}
    model = new_bert("ab", vocab_size=3000, deviation=deviation, seed=7, **rates, **SHAPE)
    return model.state_dict()


def test_linear_layers_keep_the_variance_and_embeddings_are_those_of_bert():
    for name, tensor in drawn(None).items():
        if "embeddings.weight" in name or "embeddings" in name.split(".")[-2]:
            assert tensor.std() == pytest.approx(0.02, rel=0.05), name
        elif "LayerNorm" not in name and name.endswith("weight") and "classifier" not in name:
            assert tensor.std() == pytest.approx(tensor.shape[1] ** -0.5, rel=0.05), name


def test_the_deviation_of_bert_gives_the_weights_of_transformers():
    torch.manual_seed(7)
    config = BertConfig(vocab_size=3000, **SHAPE)
    expected = BertForSequenceClassification(config).state_dict()
    found = drawn(0.02)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
