# amaranth: UnusedElaboratable=no
"""The MAC array against integer matrix products, in Amaranth's simulator."""

import numpy as np
import pytest

from golden.matmul import matmul
from rtl.datapath.matmul import MatMul
from rtl.interface.config import Config
from tb.amaranth_ports import simulate
from tb.matmul import (
    WIDE_JOINED,
    WIDE_LENGTHS,
    check_tiles,
    extreme_tiles,
    products,
    random_counts,
    random_tiles,
)
from tb.pipelined import run_pipelined
from tests.tiers import quick


@pytest.mark.parametrize("pauses", quick([0.4, 0.0]))
@pytest.mark.parametrize(
    ("lanes", "columns", "dsp_macs"),
    quick([
        (4, 4, 7), (4, 8, None), (4, 32, 9), (4, 4, None), (4, 4, 0), (8, 8, None), (8, 8, 20),
        (16, 16, None), (8, 32, 0),
    ], 3),
)  # fmt: skip
def test_products(lanes: int, columns: int, dsp_macs: int | None, pauses: float) -> None:
    """K = 1, tiles exactly M apart, long ones; LUT, DSP and mixed multipliers."""
    limits = {"hidden": 64, "ffn": 64, "tokens": 64}
    unit = MatMul(Config(lanes=lanes, columns=columns, dsp_macs=dsp_macs, **limits))
    lengths = [1, 1, columns, columns, 2, 37, 1, columns + 1, 64]
    tiles = random_tiles(lanes, columns, lengths, lanes)
    simulate(unit, lambda ports: check_tiles(ports, tiles, pauses))


@pytest.mark.parametrize(("lanes", "columns"), [(4, 4), (4, 8), (4, 32), (8, 16)])
def test_tiles_of_few_columns_that_count(lanes: int, columns: int) -> None:
    """The next tile ends as soon as those are out, a cycle later where it is one alone."""
    unit = MatMul(Config(lanes=lanes, columns=columns, hidden=64, ffn=64, tokens=64))
    tiles = random_tiles(lanes, columns, [1, 1, 2, 1, 1, 1, 3, 1] * 6, columns)
    counts = random_counts(tiles, columns)
    simulate(unit, lambda ports: check_tiles(ports, tiles, counts=counts))


@pytest.mark.parametrize("pauses", [0.0, 0.4])
@pytest.mark.parametrize(("lanes", "columns"), [(4, 4), (4, 16), (8, 8)])
def test_wide_operands(lanes: int, columns: int, pauses: float) -> None:
    """The tile of the high halves goes on from the sum of the low ones, which does not drain."""
    config = Config(lanes=lanes, columns=columns, hidden=64, ffn=64, dsp_macs=5, precise=True)
    tiles = random_tiles(lanes, columns, WIDE_LENGTHS, lanes)
    simulate(MatMul(config), lambda ports: check_tiles(ports, tiles, pauses, WIDE_JOINED))


def test_the_widest_sum_of_two_passes() -> None:
    """Low halves of one end, high ones of the same: what `acc_bits` has to hold."""
    config = Config(lanes=4, hidden=16, ffn=16, tokens=1, precise=True)
    for a in (-128, 127):
        for b in (-127, 127):
            tile = np.full((16, 4), a, np.int8), np.full((16, 4), b, np.int8)
            simulate(
                MatMul(config),
                lambda ports, tile=tile: check_tiles(ports, [tile] * 2, joined=[False, True]),
            )
            widest = int(products([tile] * 2, [False, True])[1][0, 0])
            assert -(1 << config.acc_bits - 1) <= widest < 1 << config.acc_bits - 1


@pytest.mark.parametrize("dsp_macs", [0, 16])
def test_extreme_operands(dsp_macs: int) -> None:
    """The widest sums that a configuration allows fit the accumulators."""
    config = Config(lanes=4, hidden=16, ffn=16, tokens=16, dsp_macs=dsp_macs)
    tiles = extreme_tiles(4, 4, 16)
    simulate(MatMul(config), lambda ports: check_tiles(ports, tiles))
    widest = max(abs(int(matmul(a.T, b)[0, 0])) for a, b in tiles)
    assert widest < 1 << (config.acc_bits - 1)


def test_columns_are_overwritten_when_tiles_end_too_early() -> None:
    """The unit states that it takes N cycles from end to end; this is what happens with fewer."""
    unit = MatMul(Config(lanes=4, hidden=16, ffn=16, tokens=16))
    tiles = random_tiles(4, 4, [5, 3], 9)
    inputs = {
        name: np.concatenate([tile[place] for tile in tiles] + [np.zeros((8, 4), np.int8)])
        for place, name in enumerate(("a", "b"))
    }
    flags = np.zeros((3, 16), int)
    flags[0, :8] = 1
    flags[1, [0, 5]] = 1
    flags[2, [4, 7]] = 1
    inputs |= dict(zip(("valid", "first", "last"), flags))
    columns = run_pipelined(unit, inputs, ("o",))["o"]
    first, second = (matmul(a.T, b) for a, b in tiles)
    np.testing.assert_array_equal(columns[4:7].T, first[:, :3])
    np.testing.assert_array_equal(columns[7:11].T, second)
