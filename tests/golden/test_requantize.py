import numpy as np
import pytest

from golden.requantize import requantize, round_shift
from tests.golden.reference import ref_requantize

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


@pytest.mark.parametrize(
    ("shift", "results"),
    [
        (0, {5: 5, -5: -5}),
        (1, {1: 1, -1: 0, -3: -1, 3: 2}),  # 0.5, -0.5, -1.5 and 1.5: ties go up
        (2, {2: 1, -2: 0, -6: -1, -7: -2, -5: -1}),  # 0.5, -0.5, -1.5, -1.75 and -1.25
        (8, {127: 0, 128: 1, -128: 0, -129: -1}),
        (47, {-(1 << 62) + 1: -(1 << 15)}),
    ],
)
def test_round_shift(shift: int, results: dict[int, int]) -> None:
    found = round_shift(np.array([*results]), np.full(len(results), shift))
    assert found.tolist() == [*results.values()]


@pytest.mark.parametrize(
    ("m", "s", "bits", "results"),
    [
        # the identity, and saturation on either side by one and by far
        (1 << 15, 15, 8, {127: 127, -128: -128, 0: 0, 128: 127, -129: -128}),
        (1 << 15, 15, 16, {-32768: -32768, 32768: 32767, -32769: -32768}),
        (65535, 1, 8, {INT32_MAX: 127, INT32_MIN: -128, -1: -128}),
        (65535, 1, 16, {1: 32767, -1: -32767}),
        # ties go towards plus infinity: 127.5 saturates, -128.5 is -128
        (1 << 15, 16, 8, {1: 1, -1: 0, 3: 2, -3: -1, -255: -127, 255: 127, -257: -128, -258: -128}),
        # the extremes of acc and s: just below a half, and -0.5
        (1 << 15, 47, 8, {INT32_MAX: 0, INT32_MIN: 0}),
        (65535, 47, 8, {INT32_MAX: 1, INT32_MIN: -1}),
        (65535, 40, 8, {INT32_MIN: -128}),
        (65535, 41, 8, {INT32_MIN: -64}),
        (65535, 32, 16, {INT32_MAX: 32767, INT32_MIN: -32767}),  # -32767.5
        (65535, 17, 8, {-1: 0}),  # -0.499992
    ],
)
def test_requantize_by_hand(m: int, s: int, bits: int, results: dict[int, int]) -> None:
    acc = np.array([*results], np.int32)
    assert requantize(acc, m, s, bits).tolist() == [*results.values()]


@pytest.mark.parametrize("bits", [8, 16])
def test_requantize_equals_the_reference(bits: int) -> None:
    rng = np.random.default_rng(bits)
    size = 20_000
    s = rng.integers(1, 48, size)
    m = rng.integers(1 << 15, 1 << 16, size)
    # accumulators of every magnitude, half of them near where the result leaves its range
    acc = rng.integers(INT32_MIN, INT32_MAX + 1, size) >> rng.integers(0, 31, size)
    edge = (1 << (bits - 1)) * (1 << s) // m * rng.choice([-1, 1], size)
    near = np.clip(edge + rng.integers(-3, 4, size), INT32_MIN, INT32_MAX)
    acc[::2] = near[::2]
    y = requantize(acc.astype(np.int32), m.astype(np.int32), s.astype(np.int32), bits)
    assert y.dtype == (np.int8 if bits == 8 else np.int16)
    cases = zip(acc.tolist(), m.tolist(), s.tolist())
    assert y.tolist() == [ref_requantize(*case, bits) for case in cases]
