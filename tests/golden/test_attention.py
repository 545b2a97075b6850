import numpy as np
import pytest

from golden.attention import attention, join_heads, split_heads
from golden.model import Shape
from golden.random import random_model
from tests.golden.reference import ref_attention


def case(heads: int, head_size: int, tokens: int, seed: int) -> tuple:
    shape = Shape(1, 20, heads, head_size, 8, 2, 10, max(tokens, 8), 0)
    rng = np.random.default_rng(seed)
    x8 = np.clip(np.round(rng.normal(0, 32, (tokens, 20))), -128, 127).astype(np.int8)
    attend = rng.random(tokens) < 0.6
    attend[rng.integers(tokens)] = True
    return x8, random_model(shape, seed), attend


@pytest.mark.parametrize(
    ("heads", "head_size", "tokens"), [(1, 1, 1), (2, 5, 7), (3, 4, 12), (5, 3, 2), (1, 16, 9)]
)
def test_equals_the_reference(heads: int, head_size: int, tokens: int) -> None:
    for seed in range(4):
        x8, model, attend = case(heads, head_size, tokens, seed)
        trace: dict[str, np.ndarray] = {}
        trace["layer.0.context"] = attention(x8, model, 0, attend, trace.__setitem__)
        expected = ref_attention(x8.tolist(), model.layers[0].attention, heads, attend.tolist())
        assert {name: x.tolist() for name, x in trace.items()} == {
            f"layer.0.{name}": x for name, x in expected.items()
        }


def test_holes_in_the_mask_hide_their_tokens() -> None:
    """What a masked token holds changes no other token, and dropping it changes no other either."""
    x8, model, _ = case(2, 5, 12, 3)
    attend = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1], bool)
    context = attention(x8, model, 0, attend)
    other = np.where(attend[:, None], x8, -x8 - 1)
    assert (attention(other, model, 0, attend)[attend] == context[attend]).all()
    kept = attention(x8[attend], model, 0, np.ones(8, bool))
    assert (kept == context[attend]).all()


def test_one_valid_key_passes_its_value_through() -> None:
    """Every query sees only token 4: context = requantize(v[4]) up to the reciprocal's rounding."""
    x8, model, _ = case(2, 5, 7, 1)
    attend = np.arange(7) == 4
    trace: dict[str, np.ndarray] = {}
    context = attention(x8, model, 0, attend, trace.__setitem__)
    assert (trace["layer.0.sum"] == 255).all()
    assert (context == context[0]).all()
    parameters = model.layers[0].attention
    exact = trace["layer.0.v"][4].astype(int) * parameters.context_m / 2**parameters.context_s
    exact = np.clip(exact, -128, 127)
    assert np.abs(context[0] - exact).max() <= 0.5 + 127 * 2**-14


def test_equal_keys_give_the_mean() -> None:
    """Equal rows of x8: every p is 255 and the context is v itself, scaled."""
    x8, model, _ = case(3, 4, 9, 2)
    x8[:] = x8[0]
    trace: dict[str, np.ndarray] = {}
    context = attention(x8, model, 0, np.ones(9, bool), trace.__setitem__)
    assert (trace["layer.0.p"] == 255).all()
    parameters = model.layers[0].attention
    exact = trace["layer.0.v"][0].astype(int) * parameters.context_m / 2**parameters.context_s
    exact = np.clip(exact, -128, 127)
    assert np.abs(context - exact).max() <= 0.5 + 127 * 2**-14


def test_split_and_join_are_inverse() -> None:
    x = np.arange(5 * 12, dtype=np.int8).reshape(5, 12)
    heads = split_heads(x, 3)
    assert heads.shape == (3, 5, 4)
    assert heads[1, 2].tolist() == x[2, 4:8].tolist()
    assert (join_heads(heads) == x).all()
