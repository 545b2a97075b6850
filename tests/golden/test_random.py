import numpy as np
import pytest

from golden.encoder import run
from golden.random import Kind, multiplier, random_model
from tests import zoo
from tests.zoo import FAMILIES

SHAPES = FAMILIES | {"narrow": zoo.shape("three-heads")}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tokens", [40, 9])
def test_activations_are_lively(name: str, tokens: int) -> None:
    shape = SHAPES[name]
    model = random_model(shape, 5)
    ids = np.random.default_rng(5).integers(0, shape.vocabulary, min(tokens, shape.tokens))
    trace: dict[str, np.ndarray] = {}
    run(model, ids, trace=trace)
    for tensor, value in trace.items():
        if tensor == "logits" or tensor.endswith(("row_s", "row_m", ".max")):
            continue
        info = np.iinfo(value.dtype)
        spread = value.std() / info.max
        saturated = ((value == info.min) | (value == info.max)).mean()
        if tensor.endswith(".p"):
            assert spread > 0.05, tensor
        elif tensor.endswith(".scores"):
            assert 100 < value.std() < 1000, tensor
        elif value.dtype != np.int32:
            stream = tensor.endswith(".sum")
            low, high = (0.09, 0.49) if stream else (0.1, 0.75)
            assert low < spread < high, tensor
            most = 0.05 if stream else 0.06 if value.ndim > 1 else 0.12
            assert saturated < most, tensor
            assert abs(value.mean()) < value.std(), tensor
        if value.ndim > 1 and value.dtype != np.int32:
            assert len(np.unique(value)) >= min(60, value.size // 8), tensor


def test_the_seed_decides() -> None:
    first, again, other = (random_model(SHAPES["narrow"], seed) for seed in (3, 3, 4))
    ids = np.arange(20)
    assert run(first, ids).tolist() == run(again, ids).tolist()
    assert run(first, ids).tolist() != run(other, ids).tolist()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("shared-keys", {"biased": True}, "biased is True; allowed False but for heads with K and"),
        ("three-heads", {"rotary": True}, "rotary is True; allowed False but for an even"),
        ("bert-tiny", {"first_norm": False}, "first_norm is False; allowed True but for nor"),
        ("pre-norm", {"first_norm": False}, "first_norm is False; allowed True but for nor"),
        ("pre-norm", {"embedding_size": 3}, "embedding_size is 3; allowed 0 but for norm 'post'"),
    ],
)
def test_what_a_shape_cannot_have(name: str, change: dict[str, int], message: str) -> None:
    shape, kind = zoo.shape(name), Kind(**change, gated=True)
    with pytest.raises(ValueError, match=message):
        random_model(shape, 0, kind)
    assert kind.fitting(shape) == Kind(gated=True)
    random_model(shape, 0, kind.fitting(shape))


@pytest.mark.parametrize(
    ("numerator", "denominator", "pair"),
    [(1, 1, (1 << 15, 15)), (3, 4, (49152, 16)), (32767, 1, (65534, 1)), (1, 3, (43691, 17))],
)
def test_multiplier(numerator: int, denominator: int, pair: tuple[int, int]) -> None:
    assert multiplier(numerator, denominator) == pair


def test_multiplier_out_of_range() -> None:
    with pytest.raises(ValueError, match="1000000 / 1 has no multiplier"):
        multiplier(1_000_000, 1)
