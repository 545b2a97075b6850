import numpy as np
import pytest

from golden.requantize import requantize, round_shift, saturate
from tests.golden.reference import ref_requantize

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


@pytest.mark.parametrize(
    ("x", "bits", "y"),
    [
        (127, 8, 127),
        (128, 8, 127),
        (-128, 8, -128),
        (-129, 8, -128),
        (32767, 16, 32767),
        (32768, 16, 32767),
        (-32768, 16, -32768),
        (-32769, 16, -32768),
        (1 << 61, 16, 32767),
        (-(1 << 61), 8, -128),
    ],
)
def test_saturate(x: int, bits: int, y: int) -> None:
    assert saturate(np.int64(x), bits) == y


@pytest.mark.parametrize(
    ("x", "shift", "y"),
    [
        (5, 0, 5),
        (-5, 0, -5),
        (1, 1, 1),  # +0.5 up
        (-1, 1, 0),  # -0.5 up
        (-3, 1, -1),  # -1.5 up
        (3, 1, 2),
        (2, 2, 1),  # 0.5
        (-2, 2, 0),  # -0.5
        (-6, 2, -1),  # -1.5
        (-7, 2, -2),  # -1.75
        (-5, 2, -1),  # -1.25
        (127, 8, 0),
        (128, 8, 1),
        (-128, 8, 0),
        (-129, 8, -1),
        (-(1 << 62) + 1, 47, -(1 << 15)),
    ],
)
def test_round_shift(x: int, shift: int, y: int) -> None:
    assert round_shift(np.int64(x), shift) == y


def test_round_shift_takes_a_shift_for_each_value() -> None:
    y = round_shift(np.array([6, 6, 6, 6]), np.array([0, 1, 2, 3]))
    assert y.tolist() == [6, 3, 2, 1]


@pytest.mark.parametrize(
    ("acc", "m", "s", "bits", "y"),
    [
        # the identity
        (127, 1 << 15, 15, 8, 127),
        (-128, 1 << 15, 15, 8, -128),
        (0, 1 << 15, 15, 8, 0),
        (-32768, 1 << 15, 15, 16, -32768),
        # saturation on either side, by one and by far
        (128, 1 << 15, 15, 8, 127),
        (-129, 1 << 15, 15, 8, -128),
        (INT32_MAX, 65535, 1, 8, 127),
        (INT32_MIN, 65535, 1, 8, -128),
        (32768, 1 << 15, 15, 16, 32767),
        (-32769, 1 << 15, 15, 16, -32768),
        # ties go towards plus infinity: acc / 2
        (1, 1 << 15, 16, 8, 1),
        (-1, 1 << 15, 16, 8, 0),
        (3, 1 << 15, 16, 8, 2),
        (-3, 1 << 15, 16, 8, -1),
        (-255, 1 << 15, 16, 8, -127),
        (255, 1 << 15, 16, 8, 127),  # 127.5 rounds to 128, which saturates
        (-257, 1 << 15, 16, 8, -128),  # -128.5 rounds to -128
        (-258, 1 << 15, 16, 8, -128),
        # the extremes of acc, m and s
        (INT32_MAX, 1 << 15, 47, 8, 0),  # just below a half
        (INT32_MIN, 1 << 15, 47, 8, 0),  # -0.5
        (INT32_MAX, 65535, 47, 8, 1),
        (INT32_MIN, 65535, 47, 8, -1),
        (INT32_MIN, 65535, 39, 8, -128),
        (INT32_MIN, 65535, 40, 8, -128),
        (INT32_MIN, 65535, 41, 8, -64),
        (INT32_MAX, 65535, 32, 16, 32767),
        (INT32_MIN, 65535, 32, 16, -32767),  # -32767.5
        (INT32_MIN, 65535, 33, 16, -16384),
        (1, 65535, 1, 16, 32767),
        (-1, 65535, 1, 16, -32767),
        (-1, 65535, 1, 8, -128),
        (-1, 65535, 17, 8, 0),  # -0.499992
        (-1, 65535, 16, 8, -1),
    ],
)
def test_requantize_by_hand(acc: int, m: int, s: int, bits: int, y: int) -> None:
    assert requantize(np.int32(acc), m, s, bits) == y


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
