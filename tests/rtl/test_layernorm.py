# amaranth: UnusedElaboratable=no
"""LayerNorm and RowConstants against golden.layernorm, in Amaranth's simulator."""

import numpy as np
import pytest

from golden.rsqrt import rsqrt
from rtl.datapath.layernorm import LayerNorm
from rtl.datapath.row_constants import RowConstants
from tb import layernorm
from tb.amaranth_ports import simulate
from tb.layernorm import (
    Operation,
    check_layernorm,
    extreme_operations,
    of_rms,
    random_operation,
    rms_extremes,
)
from tb.pipelined import run_pipelined
from tests.tiers import quick


def check(lanes: int, operations: list[Operation]) -> None:
    """Run operations on a unit that is just large enough."""
    hidden = max(operation.z.shape[2] for operation in operations)
    row_tiles = max(operation.z.shape[0] for operation in operations)
    simulate(LayerNorm(lanes, hidden, row_tiles), lambda ports: check_layernorm(ports, operations))


TRAFFIC = quick([(0.3, 80), (0.0, 0), (0.0, 80), (0.3, 0)])


@pytest.mark.parametrize(("busy", "spread"), TRAFFIC)
@pytest.mark.parametrize(
    ("lanes", "channels", "tiles"), [(4, 40, 5), (4, 8, 4), (8, 1, 3), (3, 33, 1)]
)
def test_values_and_cycles(lanes: int, channels: int, tiles: int, spread: int, busy: float) -> None:
    """Tiles that come late, and a read port that is taken."""
    check(
        lanes,
        [
            random_operation(lanes, channels, tiles, seed, busy=busy, spread=spread)
            for seed in range(2)
        ],
    )


def test_operations_of_different_size() -> None:
    check(4, [random_operation(4, channels, n, n) for channels, n in ((24, 3), (5, 1), (17, 2))])


def test_port_taken_for_long() -> None:
    """No read for long where a pass 2 is about to begin: its constants must survive."""
    operation = random_operation(4, 6, 4, 5)
    operation.busy = lambda t: 40 <= t < 120 or t % 90 > 50
    check(4, [operation])


@pytest.mark.parametrize("channels", quick([2, 1024], 1))
def test_extremes(channels: int) -> None:
    check(5, extreme_operations(5, channels))


@pytest.mark.parametrize("channels", quick([12, 1023], 1))
def test_rms_norms(channels: int) -> None:
    """In turn with LayerNorms; |n| up to sqrt(1023), which 18 bits hold."""
    operations = [random_operation(4, channels, 2, seed, spread=20) for seed in range(2)]
    operations = [*of_rms(operations), rms_extremes(4, channels)]
    unit = LayerNorm(4, channels, 2, rms=True)
    simulate(unit, lambda ports: check_layernorm(ports, operations, rms=True))


def test_stated_latencies() -> None:
    """The unit states what `check_layernorm` measures."""
    unit = LayerNorm(8, 16, 2)
    assert unit.latency == layernorm.LATENCY
    assert unit.constants_latency == layernorm.constants_latency(8)


@pytest.mark.parametrize(("channels", "epsilon"), [(1, 1), (128, 12345), (1024, (1 << 50) - 1)])
def test_row_constants(channels: int, epsilon: int) -> None:
    """H * r, S1 * r and e + 4 against the formulas, at full width; H is there a cycle before."""
    rng = np.random.default_rng(8)
    z = rng.integers(-(1 << 15), 1 << 15, (200, channels)) >> rng.integers(0, 15, (200, 1))
    z[0], z[1] = -32768, 32767
    s1, s2 = z.sum(axis=1), (z * z).sum(axis=1)
    r, e = rsqrt(channels * s2 - s1 * s1 + epsilon)
    steady = {"channels": np.full(201, channels), "epsilon": np.full(201, epsilon)}
    sums = {"s1": np.append(0, s1), "s2": np.append(0, s2)}
    found = run_pipelined(RowConstants(), sums | steady, ("scale", "offset", "shift"))
    np.testing.assert_array_equal(found["scale"][1:], channels * r)
    np.testing.assert_array_equal(found["offset"][1:], s1 * r)
    np.testing.assert_array_equal(found["shift"][1:], e + 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 8, 8), r"LayerNorm: lanes is 0: it must lie in 1\.\.64"),
        ((4, 1025, 8), r"LayerNorm: hidden is 1025: it must lie in 1\.\.1024"),
        ((4, 8, 0), r"LayerNorm: row_tiles is 0: it must lie in 1\.\.4096"),
    ],
)
def test_parameters_out_of_range(arguments: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LayerNorm(*arguments)
