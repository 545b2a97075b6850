"""Heads that start out attending to neighbours, seen through the whole first layer."""

import pytest
import torch

from train.pretrain import _model, _parser


def scores(model: object, ids: torch.Tensor, heads: int) -> torch.Tensor:
    """q k^T [heads, L, L] of layer 0, from the model's own parts."""
    if hasattr(model, "bert"):
        x = model.bert.embeddings(ids)
        part = model.bert.encoder.layer[0].attention.self
        q, k = part.query(x), part.key(x)
    else:
        x = model.embeddings(ids)
        q, k, _ = model.layers[0].qkv(x).chunk(3, dim=-1)
    q, k = (y[0].view(len(ids[0]), heads, -1).transpose(0, 1) for y in (q, k))
    return q @ k.transpose(1, 2) / q.shape[-1] ** 0.5


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
        # Heads 0 to 3: the tokens at distance -1, +1, -2, +2.
        shares[bool(neighbours)] = [
            weights[head].diagonal(distance)[4:-4].mean().item()
            for head, distance in enumerate((-1, 1, -2, 2))
        ]
    assert max(shares[False]) < 0.02  # 1 / 100 where nothing is preferred
    assert min(shares[True]) > 0.3  # of 100 tokens, on one
