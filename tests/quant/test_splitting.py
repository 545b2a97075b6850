import numpy as np
import pytest

from quant.model.activation import ACTIVATIONS
from quant.quantize import splitting
from quant.quantize.observers import Observer
from quant.quantize.splitting import COPIES, folded, split, splittable


def observer(rows: np.ndarray) -> Observer:
    result = Observer(sampled=True)
    result.observe(rows)
    return result


def rows(reach: dict[int, float], neurons: int = 20) -> np.ndarray:
    """Pre-activations of which a few neurons reach further than the others."""
    x = np.random.default_rng(8).normal(0, 1, (600, neurons)).clip(-3, 3)
    for neuron, factor in reach.items():
        x[:, neuron] = np.abs(x[:, neuron]) * factor
    return x


def test_what_ends_as_the_identity_can_be_split() -> None:
    names = ["gelu", "gelu-quick", "gelu-tanh", "hardswish", "mish", "relu", "silu"]
    assert [name for name in ACTIVATIONS if splittable(name)] == names


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "relu"])
def test_copies_give_an_outlier_and_leave_the_others_their_precision(activation: str) -> None:
    u = rows({4: 12.0, 7: 5.0})
    weight = np.random.default_rng(9).normal(0, 0.2, (6, 20))
    found = split(observer(u), weight, activation)
    copies = found.sources[20:]
    assert set(copies.tolist()) == {4, 7}
    assert len(copies) <= COPIES
    assert np.count_nonzero(copies == 4) > np.count_nonzero(copies == 7)
    exact = ACTIVATIONS[activation](u)
    error = np.abs(folded(found.hidden(u), 20, copies) - exact)
    others = [i for i in range(20) if i not in (4, 7)]
    assert error[:, others].max() < 0.04  # one scale for all: 36 / 127 / 2 = 0.14
    # GELU is not max(u, 0) near the joints and below: up to 0.17 a joint, 0.05 for each copy.
    assert error[:, [4, 7]].max() < (0.04 if activation == "relu" else 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_the_best_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a few rows found near enough for all of them to decide."""
    u = rows({4: 12.0, 7: 5.0 + seed})
    weight = np.random.default_rng(seed).normal(0, 0.2, (6, 20))
    found = split(observer(u), weight, "gelu")
    monkeypatch.setattr(splitting, "NEAR", np.inf)
    best = split(observer(u), weight, "gelu")
    assert (found.low, found.high) == (best.low, best.high)


@pytest.mark.parametrize("steps", [1, 256])
def test_every_code_is_the_function_rounded(steps: int) -> None:
    """But for the last half step at the top, where high and low half end at 127."""
    found = split(observer(rows({4: 12.0})), np.ones((3, 20)), "gelu", precise=steps == 256)
    x, f = np.arange(-128, 128), ACTIVATIONS["gelu"]
    codes = f(x * found.input_scale + found.input_centre) - found.output_zero
    codes = steps * codes / found.output_scale
    high, low = found.tables
    made = steps * high.astype(int)[x & 255] + (0 if low is None else low[x & 255])
    assert np.abs(made - codes.clip(-128 * steps, 127.5 * steps - 0.5)).max() <= 0.5 + 1e-9
    assert (high.min(), high.max(), low is None) == (-128, 127, steps == 1)
    ends = np.array([-128, 127]) * found.input_scale + found.input_centre
    np.testing.assert_allclose(ends, [found.low, found.high])
    real = found.hidden(np.array([[0.3] * 20]))[:, :20]
    assert np.abs(real - f(0.3)).max() < found.input_scale


def test_without_outliers_nothing_is_copied() -> None:
    found = split(observer(rows({})), np.eye(20), "relu")
    assert found.sources.tolist() == list(range(20))
    assert not found.steps.any()


def test_copies_fold_into_their_neuron() -> None:
    values = np.array([[1.0, 2.0, 3.0, 10.0, 20.0, 99.0]])
    assert folded(values, 3, np.array([0, 2])).tolist() == [[11.0, 2.0, 23.0]]
