import time

import numpy as np
import pytest

from golden.encoder import run
from golden.random import multiplier, random_model
from tb.scenarios import FAMILIES
from tests import zoo

SHAPES = FAMILIES | {"narrow": zoo.shape("three-heads")}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tokens", [40, 9])
def test_activations_are_lively(name: str, tokens: int) -> None:
    shape = SHAPES[name]
    # tokens without the position offset still fit the shortest of the shapes
    tokens = min(tokens, shape.tokens)
    model = random_model(shape, 5)
    rng = np.random.default_rng(5)
    trace: dict[str, np.ndarray] = {}
    run(model, rng.integers(0, shape.vocabulary, tokens), trace=trace)
    for tensor, value in trace.items():
        if tensor == "logits" or tensor.endswith(("row_s", "row_m", ".max", ".sum")):
            continue
        info = np.iinfo(value.dtype)
        spread = value.std() / info.max
        saturated = ((value == info.min) | (value == info.max)).mean()
        if tensor.endswith(".p"):
            assert spread > 0.05, tensor
        elif tensor.endswith(".scores"):
            assert 100 < value.std() < 1000, tensor
        else:
            assert 0.1 < spread < 0.75, tensor
            assert saturated < (0.06 if value.ndim > 1 else 0.12), tensor
            assert abs(value.mean()) < value.std(), tensor
        if value.ndim > 1:
            assert len(np.unique(value)) >= min(60, value.size // 8), tensor


def test_residual_sums_are_lively() -> None:
    shape = SHAPES["bert-tiny"]
    trace: dict[str, np.ndarray] = {}
    run(random_model(shape, 1), np.arange(50), trace=trace)
    for name in ("embedding.sum", "layer.1.attention.sum", "layer.1.ffn.sum"):
        value = trace[name]
        assert 3000 < value.std() < 16_000, name
        assert (np.abs(value.astype(int)) >= 32767).mean() < 0.05, name


def test_the_seed_decides() -> None:
    shape = SHAPES["narrow"]
    first, again, other = (random_model(shape, seed) for seed in (3, 3, 4))
    ids = np.arange(20)
    assert run(first, ids).tolist() == run(again, ids).tolist()
    assert run(first, ids).tolist() != run(other, ids).tolist()


def test_bert_tiny_takes_less_than_a_second() -> None:
    start = time.perf_counter()
    random_model(SHAPES["bert-tiny"], 0)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("numerator", "denominator", "pair"),
    [(1, 1, (1 << 15, 15)), (3, 4, (49152, 16)), (32767, 1, (65534, 1)), (1, 3, (43691, 17))],
)
def test_multiplier(numerator: int, denominator: int, pair: tuple[int, int]) -> None:
    assert multiplier(numerator, denominator) == pair


def test_multiplier_out_of_range() -> None:
    with pytest.raises(ValueError, match="1000000 / 1 has no multiplier"):
        multiplier(1_000_000, 1)
