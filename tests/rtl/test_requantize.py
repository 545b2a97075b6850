# amaranth: UnusedElaboratable=no
"""Requantize and RoundShift against golden.requantize, in Amaranth's simulator."""

from collections.abc import Callable

import numpy as np
import pytest

from golden.requantize import round_shift, saturate
from rtl.datapath.requantize import Requantize, RoundShift
from tb import requantize
from tb.amaranth_ports import simulate
from tb.pipelined import check_stream, run_pipelined


@pytest.mark.parametrize("lanes", [1, 4])
def test_corners(lanes: int) -> None:
    simulate(Requantize(lanes), lambda ports: check_stream(ports, *requantize.corners(lanes)))


@pytest.mark.parametrize("seed", [1, 2])
def test_random(seed: int) -> None:
    case = requantize.random(3, 1500, seed)
    simulate(Requantize(3), lambda ports: check_stream(ports, *case))


def test_every_shift_of_six_bits() -> None:
    """What docs/architecture.md says of s and m that no stream may have: 0 for s = 0, 48..63."""
    rng = np.random.default_rng(3)
    acc = rng.integers(-(1 << 31), 1 << 31, (64 * 40, 3)) >> rng.integers(0, 31, (64 * 40, 3))
    acc[:4] = [[-(1 << 31)] * 3, [(1 << 31) - 1] * 3, [-1] * 3, [0] * 3]
    m = rng.integers(0, 1 << 16, acc.shape) | (rng.random(acc.shape) < 0.2) * 0xFFFF
    s = np.repeat(np.arange(64), 40)[:, None].repeat(3, axis=1)
    expected = saturate(round_shift(acc * m, np.clip(s, 1, 48)), 16)
    assert not expected[s >= 48].any()  # as the formula has it
    expected[s == 0] = 0
    found = run_pipelined(Requantize(3), {"acc": acc, "m": m, "s": s}, ("o",))["o"]
    np.testing.assert_array_equal(found, expected)


def test_identity_and_negative_ties() -> None:
    acc = np.array([[-32768, -1, 0, 32767], [-3, -1, 1, 3]])
    m = np.full((2, 4), 1 << 15)
    s = np.array([[15] * 4, [16] * 4])
    expected = [[-32768, -1, 0, 32767], [-1, 0, 1, 2]]  # halves go towards plus infinity
    found = run_pipelined(Requantize(4), {"acc": acc, "m": m, "s": s}, ("o",))["o"]
    assert found.tolist() == expected


@pytest.mark.parametrize(("width", "bits", "maximum"), [(35, 16, 31), (44, 18, 29), (25, 16, 24)])
def test_round_shift(width: int, bits: int, maximum: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.integers(-(1 << width - 1), 1 << width - 1, 3000) >> rng.integers(0, width, 3000)
    s = rng.integers(1, maximum + 1, 3000)
    found = run_pipelined(RoundShift(width, bits, maximum), {"i": x, "s": s}, ("o",))["o"]
    np.testing.assert_array_equal(found, saturate(round_shift(x, s), bits))


def test_round_shift_of_results_that_fit() -> None:
    rng = np.random.default_rng(7)
    s = rng.integers(1, 30, 3000)
    x = rng.integers(-(1 << 17), 1 << 17, 3000) << s >> 1  # ties among them
    unit = RoundShift(48, 18, 29, fits=True)
    found = run_pipelined(unit, {"i": x, "s": s}, ("o",))["o"]
    np.testing.assert_array_equal(found, round_shift(x, s))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Requantize(0), r"Requantize: lanes is 0: it must lie in 1\.\.64"),
        (lambda: Requantize(65), r"Requantize: lanes is 65: it must lie in 1\.\.64"),
        (lambda: RoundShift(24, 16, 4), r"RoundShift: width is 24: it must lie in 25\.\.64"),
        (lambda: RoundShift(32, 1, 4), r"RoundShift: bits is 1: it must lie in 2\.\.32"),
        (lambda: RoundShift(32, 16, 32), r"RoundShift: maximum is 32: it must lie in 1\.\.31"),
    ],
)
def test_parameters_out_of_range(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_parameter_that_is_no_integer() -> None:
    with pytest.raises(TypeError, match=r"Requantize: lanes is '4': it must be an integer"):
        Requantize("4")
