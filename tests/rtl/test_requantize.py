# amaranth: UnusedElaboratable=no
"""Requantize and RoundShift against golden.requantize."""

import numpy as np
import pytest

from golden.requantize import requantize, round_shift, saturate
from rtl.requantize import Requantize, RoundShift
from tb.pipelined import run_pipelined

LANES = 4
ACC = np.array([-(2**31), -(2**31) + 1, -(2**15), -3, -2, -1, 0, 1, 2, 3, 2**15, 2**31 - 1])


def rtl_requantize(acc: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
    return run_pipelined(Requantize(acc.shape[1]), {"acc": acc, "m": m, "s": s}, ("o",))["o"]


def ref_requantize(acc: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
    return requantize(acc, m, s, 16)


def corners() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every shift with the extreme accumulators, ties of both signs, both saturations."""
    grid = np.meshgrid(ACC, [1 << 15, (1 << 15) + 1, 0xFFFF], np.arange(1, 48), indexing="ij")
    acc, m, s = (x.ravel() for x in grid)
    pad = -len(acc) % LANES
    return tuple(np.append(x, x[:pad]).reshape(-1, LANES) for x in (acc, m, s))


def random_cases(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Accumulators of every magnitude, with a shift that leaves about 16 bits or any other."""
    rng = np.random.default_rng(seed)
    shape = (2000, LANES)
    bits = rng.integers(1, 32, shape)
    acc = rng.integers(-(1 << 31), 1 << 31, shape) >> (31 - bits)
    s = np.where(
        rng.random(shape) < 0.7, bits + rng.integers(-3, 4, shape), rng.integers(1, 48, shape)
    )
    return acc, rng.integers(1 << 15, 1 << 16, shape), np.clip(s, 1, 47)


@pytest.mark.parametrize("cases", [corners(), random_cases(1)], ids=["corners", "random"])
def test_equals_golden(cases: tuple[np.ndarray, ...]) -> None:
    np.testing.assert_array_equal(rtl_requantize(*cases), ref_requantize(*cases))


def test_identity_and_negative_ties() -> None:
    acc = np.array([[-32768, -1, 0, 32767], [-3, -1, 1, 3]])
    m = np.full((2, 4), 1 << 15)
    s = np.array([[15] * 4, [16] * 4])
    expected = [[-32768, -1, 0, 32767], [-1, 0, 1, 2]]  # halves go towards plus infinity
    np.testing.assert_array_equal(rtl_requantize(acc, m, s), expected)


@pytest.mark.parametrize(("width", "bits", "most"), [(35, 16, 31), (44, 18, 29), (25, 16, 24)])
def test_round_shift_equals_golden(width: int, bits: int, most: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.integers(-(1 << width - 1), 1 << width - 1, 3000) >> rng.integers(0, width, 3000)
    s = rng.integers(1, most + 1, 3000)
    rtl = run_pipelined(RoundShift(width, bits, most), {"i": x, "s": s}, ("o",))["o"]
    np.testing.assert_array_equal(rtl, saturate(round_shift(x, s), bits))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Requantize(0), "Requantize: lanes is 0: it must lie in 1..64"),
        (lambda: Requantize(65), "Requantize: lanes is 65: it must lie in 1..64"),
        (lambda: RoundShift(24, 16, 4), "RoundShift: width is 24: it must lie in 25..64"),
        (lambda: RoundShift(32, 1, 4), "RoundShift: bits is 1: it must lie in 2..32"),
        (lambda: RoundShift(32, 16, 32), "RoundShift: most is 32: it must lie in 1..31"),
    ],
)
def test_parameters_out_of_range(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_parameter_that_is_no_integer() -> None:
    with pytest.raises(TypeError, match=r"Requantize: lanes is 4.0: it must be an integer"):
        Requantize(4.0)
