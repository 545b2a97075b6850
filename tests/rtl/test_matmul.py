# amaranth: UnusedElaboratable=no
"""The MAC array against integer matrix products, in Amaranth's simulator."""

import numpy as np
import pytest

from golden.matmul import matmul
from rtl.config import Config
from rtl.matmul import MatMul
from tb.pipelined import run_pipelined

Tiles = list[tuple[np.ndarray, np.ndarray]]  # operands A and B of each tile, [K, lanes]


def ref_matmul(tiles: Tiles) -> list[np.ndarray]:
    """acc[i, j] of each tile."""
    return [matmul(a.T, b) for a, b in tiles]


def rtl_matmul(unit: MatMul, tiles: Tiles, pauses: float) -> list[np.ndarray]:
    """The drained columns of each tile; `pauses` is the chance of a cycle without operand."""
    lanes = unit.config.lanes
    rng = np.random.default_rng(int(1000 * pauses))
    noise = (np.array([-128, 255]), np.array([-128, 127]))
    rows: list[tuple[np.ndarray, np.ndarray, int, int, int]] = []
    ends: list[int] = []

    def nothing() -> None:
        flags = rng.integers(0, 2, 2)  # without `valid` they mean nothing
        rows.append((rng.choice(noise[0], lanes), rng.choice(noise[1], lanes), 0, *flags))

    for a, b in tiles:
        for k in range(len(a)):
            last = k == len(a) - 1
            while rng.random() < pauses or (last and ends and len(rows) - ends[-1] < lanes):
                nothing()
            rows.append((a[k], b[k], 1, int(k == 0), int(last)))
        ends.append(len(rows) - 1)
    for _ in range(lanes):
        nothing()
    names = ("a", "b", "valid", "first", "last")
    inputs = {name: np.array(part) for name, part in zip(names, zip(*rows))}
    columns = run_pipelined(unit, inputs, ("o",))["o"]
    return [columns[end : end + lanes].T for end in ends]


def random_tiles(lanes: int, lengths: list[int], seed: int) -> Tiles:
    rng = np.random.default_rng(seed)
    found = []
    for place, k in enumerate(lengths):
        dtype = (np.int8, np.uint8)[place % 2]  # activations, or p of the softmax
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = rng.integers(low, high, (k, lanes), dtype=dtype, endpoint=True)
        found.append((a, rng.integers(-128, 128, (k, lanes), dtype=np.int8)))
    return found


@pytest.mark.parametrize("pauses", [0.0, 0.4])
@pytest.mark.parametrize(
    ("lanes", "dsp_macs"), [(4, None), (4, 0), (4, 7), (8, None), (8, 20), (16, None)]
)
def test_products(lanes: int, dsp_macs: int | None, pauses: float) -> None:
    """K = 1, tiles exactly N apart, long ones; LUT, DSP and mixed multipliers."""
    unit = MatMul(Config(lanes=lanes, hidden=64, ffn=64, tokens=64, dsp_macs=dsp_macs))
    tiles = random_tiles(lanes, [1, 1, lanes, lanes, 2, 37, 1, lanes + 1, 64], lanes)
    for expected, actual in zip(ref_matmul(tiles), rtl_matmul(unit, tiles, pauses)):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dsp_macs", [0, 16])
def test_extreme_operands(dsp_macs: int) -> None:
    """The widest sums that a configuration allows fit the accumulators."""
    config = Config(lanes=4, hidden=16, ffn=16, tokens=16, dsp_macs=dsp_macs)
    tiles = [
        (np.full((16, 4), a, dtype), np.full((16, 4), b, np.int8))
        for a, dtype in ((255, np.uint8), (-128, np.int8))
        for b in (-128, 127)
    ]
    for expected, actual in zip(ref_matmul(tiles), rtl_matmul(MatMul(config), tiles, 0.0)):
        np.testing.assert_array_equal(actual, expected)
        assert abs(int(expected[0, 0])) < 1 << (config.acc_bits - 1)


def test_columns_are_overwritten_when_tiles_end_too_early() -> None:
    """The unit states that it takes N cycles from end to end; this is what happens with fewer."""
    unit = MatMul(Config(lanes=4, hidden=16, ffn=16, tokens=16))
    tiles = random_tiles(4, [5, 3], 9)
    names = ("a", "b")
    inputs = {name: np.concatenate([tile[i] for tile in tiles] + [np.zeros((8, 4), np.int8)])
              for i, name in enumerate(names)}  # fmt: skip
    flags = np.zeros((3, 16), int)
    flags[0, :8] = 1
    flags[1, [0, 5]] = 1
    flags[2, [4, 7]] = 1
    inputs |= dict(zip(("valid", "first", "last"), flags))
    columns = run_pipelined(unit, inputs, ("o",))["o"]
    first, second = ref_matmul(tiles)
    np.testing.assert_array_equal(columns[4:7].T, first[:, :3])
    np.testing.assert_array_equal(columns[7:11].T, second)
