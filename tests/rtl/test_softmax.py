# amaranth: UnusedElaboratable=no
"""Softmax and RowScale against golden.softmax, in Amaranth's simulator."""

from functools import partial

import numpy as np
import pytest

from golden.softmax import row_scale
from rtl.datapath.row_scale import RowScale
from rtl.datapath.softmax import Softmax
from tb import softmax
from tb.amaranth_ports import simulate
from tb.pipelined import run_pipelined
from tb.softmax import check_softmax, random_mask, random_tiles
from tests.tiers import quick


@pytest.mark.parametrize("idle", quick([0.4, 0.0]))
@pytest.mark.parametrize(
    ("lanes", "keys", "tokens"),
    quick([(1, 1, 1), (3, 5, 8), (4, 13, 13), (4, 4, 16), (8, 40, 64), (16, 20, 100)], 3),
)
def test_tiles(lanes: int, keys: int, tokens: int, idle: float) -> None:
    """Both buffers, masks with holes, narrow and wide scores; the cycles too."""
    for spread in (300, 3000):
        tiles, mask = random_tiles(lanes, keys, 4, spread, spread), random_mask(keys, spread)
        unit = Softmax(lanes, tokens)
        simulate(unit, partial(check_softmax, tiles=tiles, attend=mask, idle=idle))


@pytest.mark.parametrize(("lanes", "keys", "tokens"), [(1, 3, 4), (4, 13, 13), (8, 20, 64)])
def test_windows(lanes: int, keys: int, tokens: int) -> None:
    """Each query sees keys of its own, or none; each tile others."""
    tiles = softmax.in_windows(random_tiles(lanes, keys, 6, 700, 5), keys)
    counts = {bool(row.any()) for tile in tiles if tile.seen is not None for row in tile.seen}
    assert counts == ({False} if lanes == 1 else {False, True})
    unit, mask = Softmax(lanes, tokens, windows=True), random_mask(keys, 2)
    simulate(unit, partial(check_softmax, tiles=tiles, attend=mask, idle=0.2))


def test_corners() -> None:
    simulate(Softmax(4, 6), lambda ports: check_softmax(ports, *softmax.corner_tiles(4)))


def test_every_distance() -> None:
    tiles = softmax.all_distances(8, 64)
    mask = np.ones(64, bool)
    simulate(Softmax(8, 64), lambda ports: check_softmax(ports, tiles, mask))


def test_stated_cycles() -> None:
    """The unit's methods state what `check_softmax` measured; and a pass did wait in the queue."""
    unit, keys = Softmax(8, 32), 12
    assert unit.pass_cycles(keys) == softmax.pass_cycles(8, keys)
    tiles, mask = random_tiles(8, keys, 3, 500, 3), np.ones(keys, bool)
    first, second, _ = simulate(unit, lambda ports: check_softmax(ports, tiles, mask))
    assert first.finished == first.last + unit.cycles(keys)
    assert (
        second.last + unit.cycles(keys) < second.finished == first.finished + unit.pass_cycles(keys)
    )


@pytest.mark.parametrize("bits", [20, 21])
@pytest.mark.parametrize("m", [1 << 15, 46341, 0xFFFF])
def test_row_scale(m: int, bits: int) -> None:
    """All magnitudes of the sum; products below and above 2^31 and just below a power of two."""
    total = np.random.default_rng(6).integers(0, 1 << bits, 1500) >> np.arange(1500) % bits
    total[:bits] = 1 << np.arange(bits)
    inputs = {"sum": total, "m": np.full(1500, m), "s": np.full(1500, 20)}
    found = run_pipelined(RowScale(bits), inputs, ("row_m", "row_s"))
    row_m, row_s = row_scale(total, m, 20)
    np.testing.assert_array_equal(found["row_m"], row_m)
    np.testing.assert_array_equal(found["row_s"], row_s)


@pytest.mark.parametrize(
    ("lanes", "tokens", "message"),
    [
        (0, 8, r"Softmax: lanes is 0: it must lie in 1\.\.64"),
        (4, 0, r"Softmax: tokens is 0: it must lie in 1\.\.8192"),
        (4, 8193, r"Softmax: tokens is 8193: it must lie in 1\.\.8192"),
    ],
)
def test_parameters_out_of_range(lanes: int, tokens: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Softmax(lanes, tokens)
