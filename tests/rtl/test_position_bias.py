# amaranth: UnusedElaboratable=no
"""PositionBias against golden.position_bias, in Amaranth's simulator."""

import re

import numpy as np
import pytest

from rtl.datapath.position_bias import PositionBias
from tb.amaranth_ports import simulate
from tb.ports import Ports
from tb.position_bias import CORNERS, check_scores, every_place, parts, random_table


@pytest.mark.parametrize(
    ("lanes", "heads", "row_tiles"), [(2, 1, 1), (2, 3, 3), (4, 2, 4), (4, 1, 5), (8, 5, 1)]
)
@pytest.mark.parametrize("idle", [0.0, 0.5])
def test_every_distance_of_every_head(lanes: int, heads: int, row_tiles: int, idle: float) -> None:
    async def exercise(ports: Ports) -> None:
        for seed in (1, 2):
            table = random_table(heads, lanes * row_tiles, seed)
            blocks = every_place(table, lanes, seed)
            await check_scores(ports, table, blocks, idle=idle, seed=seed)
            await check_scores(ports, table, parts(blocks, seed), idle=idle, seed=seed)
            await check_scores(ports, table, blocks, biased=False, idle=idle, seed=seed)

    simulate(PositionBias(lanes, heads, row_tiles), exercise)


def test_corners() -> None:
    """All pairs of them in every lane, and sums that saturate on either side."""
    table = random_table(2, 40, 3, corners=True)
    blocks = every_place(table, 4, 3, corners=True)
    pairs = {
        (lane, int(block.scores[lane, key]), int(table[block.head, 39 + distance]))
        for block in blocks
        for lane, key in np.ndindex(4, 4)
        for distance in [(block.key_row - block.row) * 4 + key - lane]
    }
    assert len(pairs) == 4 * len(CORNERS) ** 2
    simulate(PositionBias(4, 2, 10), lambda ports: check_scores(ports, table, blocks, seed=3))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1, 1, 1), "lanes is 1: it must lie in 2..64"),
        ((65, 1, 1), "lanes is 65: it must lie in 2..64"),
        ((4, 0, 1), "heads is 0: it must lie in 1..255"),
        ((4, 256, 1), "heads is 256: it must lie in 1..255"),
        ((4, 1, 0), "row_tiles is 0: it must lie in 1..1024"),
        ((4, 1, 1025), "row_tiles is 1025: it must lie in 1..1024"),
    ],
)
def test_parameters_out_of_range(values: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"PositionBias: {message}")):
        PositionBias(*values)
