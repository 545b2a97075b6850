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
    random_tiles,
)
from tb.pipelined import run_pipelined
from tests.tiers import quick


@pytest.mark.parametrize("pauses", [0.0, 0.4])
@pytest.mark.parametrize(
    ("lanes", "dsp_macs"), [(4, None), (4, 0), (4, 7), (8, None), (8, 20), (16, None)]
)
def test_products(lanes: int, dsp_macs: int | None, pauses: float) -> None:
    """K = 1, tiles exactly N apart, long ones; LUT, DSP and mixed multipliers."""
    unit = MatMul(Config(lanes=lanes, hidden=64, ffn=64, tokens=64, dsp_macs=dsp_macs))
    tiles = random_tiles(lanes, [1, 1, lanes, lanes, 2, 37, 1, lanes + 1, 64], lanes)
    simulate(unit, lambda ports: check_tiles(ports, tiles, lanes, pauses))


@pytest.mark.parametrize("pauses", [0.0, 0.4])
@pytest.mark.parametrize(
    ("lanes", "epilogue_lanes"),
    quick([(4, 2), (4, 1), (8, 4), (16, 2)], 3),
)
def test_columns_in_parts(lanes: int, epilogue_lanes: int, pauses: float) -> None:
    """Rows drain one part after the other, and tiles may end as close as all of them take."""
    config = Config(
        lanes=lanes, hidden=64, ffn=64, tokens=64, epilogue_lanes=epilogue_lanes, dsp_macs=3
    )
    parts, drain = config.column_parts, config.drain
    tiles = random_tiles(lanes, [1, 1, drain, drain, 2, 37, 1, drain + 1, 64], lanes)
    unit = MatMul(config)
    assert len(unit.o) == epilogue_lanes
    simulate(unit, lambda ports: check_tiles(ports, tiles, lanes, pauses, parts))


@pytest.mark.parametrize("pauses", [0.0, 0.4])
@pytest.mark.parametrize(("lanes", "epilogue_lanes"), [(4, 4), (4, 1), (8, 4)])
def test_wide_operands(lanes: int, epilogue_lanes: int, pauses: float) -> None:
    """The tile of the high halves goes on from the sum of the low ones, which does not drain."""
    config = Config(
        lanes=lanes, hidden=64, ffn=64, epilogue_lanes=epilogue_lanes, dsp_macs=5, precise=True
    )
    tiles = random_tiles(lanes, WIDE_LENGTHS, lanes)
    simulate(
        MatMul(config),
        lambda ports: check_tiles(ports, tiles, lanes, pauses, config.column_parts, WIDE_JOINED),
    )


def test_the_widest_sum_of_two_passes() -> None:
    """Low halves of one end, high ones of the same: what `acc_bits` has to hold."""
    config = Config(lanes=4, hidden=16, ffn=16, tokens=1, precise=True)
    for a in (-128, 127):
        for b in (-127, 127):
            tile = np.full((16, 4), a, np.int8), np.full((16, 4), b, np.int8)
            simulate(
                MatMul(config),
                lambda ports, tile=tile: check_tiles(ports, [tile] * 2, 4, joined=[False, True]),
            )
            widest = int(products([tile] * 2, [False, True])[1][0, 0])
            assert -(1 << config.acc_bits - 1) <= widest < 1 << config.acc_bits - 1


@pytest.mark.parametrize("dsp_macs", [0, 16])
def test_extreme_operands(dsp_macs: int) -> None:
    """The widest sums that a configuration allows fit the accumulators."""
    config = Config(lanes=4, hidden=16, ffn=16, tokens=16, dsp_macs=dsp_macs)
    tiles = extreme_tiles(4, 16)
    simulate(MatMul(config), lambda ports: check_tiles(ports, tiles, 4))
    widest = max(abs(int(matmul(a.T, b)[0, 0])) for a, b in tiles)
    assert widest < 1 << (config.acc_bits - 1)


def test_columns_are_overwritten_when_tiles_end_too_early() -> None:
    """The unit states that it takes N cycles from end to end; this is what happens with fewer."""
    unit = MatMul(Config(lanes=4, hidden=16, ffn=16, tokens=16))
    tiles = random_tiles(4, [5, 3], 9)
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
