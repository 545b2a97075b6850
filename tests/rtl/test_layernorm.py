# amaranth: UnusedElaboratable=no
"""LayerNorm against golden.layernorm, every read against the policy that its docstring states."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth.sim import SimulatorContext

from golden.layernorm import layernorm
from golden.model import Norm
from golden.requantize import round_shift, saturate
from golden.rsqrt import rsqrt
from rtl.layernorm import LayerNorm, RowConstants
from tb.pipelined import from_port, run_pipelined, simulator, to_port


@dataclass
class Operation:
    """z int16 [tiles, lanes, H], its norm, and when its row tiles arrive and reads must wait."""

    z: np.ndarray
    norm: Norm
    arrival: list[int]  # cycle after begin, from 1 on, in which each tile becomes available
    busy: Callable[[int], bool]  # cycle after begin -> x_busy


@dataclass
class Seen:
    """What one operation did: cycles count from begin."""

    reads: list[tuple[int, int]] = field(default_factory=list)  # cycle, address
    writes: list[tuple[int, int]] = field(default_factory=list)
    y: list[list[int]] = field(default_factory=list)
    y8: list[list[int]] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)  # cycle of each count from 1 on


def ref_layernorm(operation: Operation) -> tuple[np.ndarray, np.ndarray]:
    """y and y8 in the order of the writes: [tiles * H, lanes]."""
    y = np.stack([layernorm(tile, operation.norm) for tile in operation.z])
    y = y.transpose(0, 2, 1).reshape(-1, y.shape[1])
    return y, saturate(round_shift(y, 8), 8)


def ref_schedule(operation: Operation, lanes: int) -> list[tuple[int, int, bool]]:
    """(cycle, address, second pass) of every read, cycle by cycle from the docstring's policy."""
    tiles, _, channels = operation.z.shape
    constants_latency = LayerNorm(lanes, channels, tiles).constants_latency
    reads: list[tuple[int, int, bool]] = []
    sum_end: list[int] = []
    norm_begin: list[int] = []
    summed = normed = 0
    current: tuple[int, bool, int] | None = None  # tile, second, next channel
    cycle = 1
    while normed < tiles or current:
        free = current is None
        if current and not operation.busy(cycle):
            tile, second, channel = current
            reads.append((cycle, tile * channels + channel, second))
            if channel == 0 and second:
                norm_begin.append(cycle)
            current = (tile, second, channel + 1)
            if channel + 1 == channels:
                free, current = True, None
                if not second:
                    sum_end.append(cycle)
        if free:
            ready = False
            if len(sum_end) > normed and (normed == 0 or len(norm_begin) == normed):
                before = norm_begin[normed - 1] - 4 if normed else 0
                ready = cycle >= max(sum_end[normed], before) + constants_latency
            if ready:
                current, normed = (normed, True, 0), normed + 1
            elif summed < tiles and summed - normed < 2 and operation.arrival[summed] <= cycle:
                current, summed = (summed, False, 0), summed + 1
        cycle += 1
    return reads


def rtl_layernorm(unit: LayerNorm, operations: list[Operation]) -> list[Seen]:
    """Run operations one after the other; the words come from a model of X16, latency 2."""
    runs = [Seen() for _ in operations]

    async def drive(ctx: SimulatorContext) -> None:
        for operation, seen in zip(operations, runs):
            tiles, _, channels = operation.z.shape
            words = operation.z.transpose(0, 2, 1).reshape(-1, unit.lanes)
            ctx.set(unit.parameter_en, 1)
            for channel in range(channels):
                ctx.set(unit.parameter_address, channel)
                ctx.set(unit.parameter_gamma, int(operation.norm.gamma[channel]))
                ctx.set(unit.parameter_beta, int(operation.norm.beta[channel]))
                await ctx.tick()
            ctx.set(unit.parameter_en, 0)
            ctx.set(unit.begin, 1)
            ctx.set(unit.channels, channels)
            ctx.set(unit.tiles, tiles)
            ctx.set(unit.shift, operation.norm.shift)
            ctx.set(unit.epsilon, operation.norm.epsilon)
            ctx.set(unit.available, 0)
            await ctx.tick()
            ctx.set(unit.begin, 0)
            ctx.set(unit.channels, 0)
            ctx.set(unit.epsilon, 0)
            cycle = 1
            coming: list[int | None] = [None, None]
            while ctx.get(unit.busy):
                ctx.set(unit.available, sum(a <= cycle for a in operation.arrival))
                ctx.set(unit.x_busy, operation.busy(cycle))
                address = coming.pop(0)
                garbage = np.full(unit.lanes, cycle % 9 - 4)
                ctx.set(unit.x_data, to_port(garbage if address is None else words[address]))
                *_, x_en, x_address, y_en, y_address, y, y8, finished = await ctx.tick().sample(
                    unit.x_en, unit.x_address, unit.y_en, unit.y_address, unit.y, unit.y8,
                    unit.finished,
                )  # fmt: skip
                coming.append(x_address if x_en else None)
                if x_en:
                    seen.reads.append((cycle, x_address))
                if y_en:
                    seen.writes.append((cycle, y_address))
                    seen.y.append(from_port(y))
                    seen.y8.append(from_port(y8))
                while len(seen.finished) < finished:
                    seen.finished.append(cycle)
                cycle += 1
                assert cycle < 100_000, "LayerNorm hangs"
            assert ctx.get(unit.finished) == tiles
            seen.finished += [cycle] * (tiles - len(seen.finished))

    sim = simulator(unit)
    sim.add_testbench(drive)
    sim.run()
    return runs


def random_norm(channels: int, rng: np.random.Generator) -> Norm:
    gamma = rng.integers(-(1 << 15), 1 << 15, channels).astype(np.int16)
    beta = (rng.integers(-(1 << 31), 1 << 31, channels) >> rng.integers(0, 12)).astype(np.int32)
    return Norm(
        gamma, beta, int(rng.integers(8, 22)), int(rng.integers(1, 1 << rng.integers(1, 50)))
    )


def operation(
    lanes: int, channels: int, tiles: int, seed: int, *, busy: float = 0.0, spread: int = 0
) -> Operation:
    """Random rows of many magnitudes; tiles that arrive within `spread` cycles of each other."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 16, (tiles, lanes, 1))
    z = rng.integers(-(1 << 15), 1 << 15, (tiles, lanes, channels)) >> size
    z = np.clip(z + rng.integers(-2000, 2000, (tiles, lanes, 1)), -32768, 32767)
    arrival = np.cumsum(rng.integers(0, spread + 1, tiles)) + 1
    stalls = rng.random(100_000) < busy
    return Operation(
        z.astype(np.int16), random_norm(channels, rng), arrival.tolist(), lambda t: bool(stalls[t])
    )


def check(lanes: int, operations: list[Operation]) -> None:
    hidden = max(o.z.shape[2] for o in operations)
    row_tiles = max(o.z.shape[0] for o in operations)
    unit = LayerNorm(lanes, hidden, row_tiles)
    for index, (op, seen) in enumerate(zip(operations, rtl_layernorm(unit, operations))):
        y, y8 = ref_layernorm(op)
        np.testing.assert_array_equal(np.array(seen.y), y, f"operation {index}")
        np.testing.assert_array_equal(np.array(seen.y8), y8, f"operation {index}")
        schedule = ref_schedule(op, lanes)
        assert seen.reads == [(cycle, address) for cycle, address, _ in schedule]
        writes = [(cycle + unit.latency, a) for cycle, a, second in schedule if second]
        assert seen.writes == writes
        channels = op.z.shape[2]
        assert seen.finished == [cycle + 1 for cycle, _ in writes[channels - 1 :: channels]]


@pytest.mark.parametrize("busy", [0.0, 0.3])
@pytest.mark.parametrize("spread", [0, 80])
@pytest.mark.parametrize(
    ("lanes", "channels", "tiles"), [(4, 40, 5), (4, 8, 4), (8, 1, 3), (3, 33, 1)]
)
def test_equals_golden(lanes: int, channels: int, tiles: int, spread: int, busy: float) -> None:
    """Values and every cycle, with tiles that come late and a read port that is taken."""
    check(
        lanes,
        [operation(lanes, channels, tiles, seed, busy=busy, spread=spread) for seed in range(2)],
    )


def test_operations_of_different_size() -> None:
    check(4, [operation(4, 24, 3, 1), operation(4, 5, 1, 2), operation(4, 17, 2, 3)])


def test_port_taken_for_long() -> None:
    """No read for 60 cycles where a pass 2 is about to begin: its constants must survive."""
    op = operation(4, 6, 4, 5)
    op.busy = lambda t: 40 <= t < 100 or t % 90 > 50
    check(4, [op])


def test_extreme_rows() -> None:
    """1,024 channels at the limits: S2 = 2^40, S1 = -2^25, |n| just below 32, saturated outputs."""
    channels = 1024
    rows = np.full((1, 5, channels), -32768)
    rows[0, 1] = 32767
    rows[0, 2, ::2] = 32767  # the largest variance
    rows[0, 3] = 32767
    rows[0, 3, 700] = -32768  # |n| = sqrt(1023)
    rows[0, 4] = 0
    gamma = np.full(channels, -32768, np.int16)
    beta = np.where(np.arange(channels) % 2, -(1 << 31), (1 << 31) - 1).astype(np.int32)
    for shift, epsilon in ((1, 1), (16, 1 << 20), (31, (1 << 50) - 1)):
        norm = Norm(gamma, beta, shift, epsilon)
        check(5, [Operation(rows.astype(np.int16), norm, [1], lambda t: False)])


def test_row_constants() -> None:
    """H * r, S1 * r and e + 4 against the formulas, at full width."""
    rng = np.random.default_rng(8)
    for channels, epsilon in ((1, 1), (128, 12345), (1024, (1 << 50) - 1)):
        z = rng.integers(-(1 << 15), 1 << 15, (200, channels)) >> rng.integers(0, 15, (200, 1))
        z[0], z[1] = -32768, 32767
        s1, s2 = z.sum(axis=1), (z * z).sum(axis=1)
        r, e = rsqrt(channels * s2 - s1 * s1 + epsilon)
        steady = {"channels": np.full(200, channels), "epsilon": np.full(200, epsilon)}
        rtl = run_pipelined(
            RowConstants(), {"s1": s1, "s2": s2, **steady}, ("scale", "offset", "shift")
        )
        np.testing.assert_array_equal(rtl["scale"], channels * r)
        np.testing.assert_array_equal(rtl["offset"], s1 * r)
        np.testing.assert_array_equal(rtl["shift"], e + 4)


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
