"""Exercise of the LayerNorm unit: row tiles that arrive late, a read port that is taken."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from golden.layernorm import layernorm
from golden.linear import operand
from golden.model import Norm
from golden.rsqrt import rsqrt
from tb.compare import Comparison
from tb.cut import Vector
from tb.packing import by_lanes
from tb.ports import Ports, give

LATENCY = 19  # x_en of pass 2 to y_en, as the unit's data sheet says
MAX_CYCLES = 100_000


@dataclass
class Operation:
    """z int16 [tiles, lanes, H] and its norm.

    arrival: in which cycle after start, from 1 on, each tile becomes available.
    busy: whether the read port is taken in a cycle after start.
    """

    z: np.ndarray
    norm: Norm
    arrival: list[int]
    busy: Callable[[int], bool]


@dataclass
class Seen:
    """What the unit did; cycles count from start."""

    reads: list[tuple[int, int]] = field(default_factory=list)  # cycle, address
    writes: list[tuple[int, int]] = field(default_factory=list)
    y: list[list[int]] = field(default_factory=list)
    y8: list[list[int]] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)  # cycle of each count from 1 on


def constants_latency(lanes: int) -> int:
    """Last read of pass 1 until the constants are ready, as the unit's data sheet says."""
    return 26 + lanes


def schedule(operation: Operation) -> list[tuple[int, int, bool]]:
    """(cycle, address, second pass) of every read: the policy of the data sheet, cycle by cycle."""
    tiles, lanes, channels = operation.z.shape
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
            if len(sum_end) > normed:
                before = norm_begin[normed - 1] - 4 if normed else 0
                ready = cycle >= max(sum_end[normed], before) + constants_latency(lanes)
            if ready:
                current, normed = (normed, True, 0), normed + 1
            elif summed < tiles and summed - normed < 2 and operation.arrival[summed] <= cycle:
                current, summed = (summed, False, 0), summed + 1
        cycle += 1
    return reads


async def play_operation(ports: Ports, operation: Operation) -> Seen:
    """Write the parameters, start, and answer reads like a memory of latency 2 until done."""
    seen = Seen()
    tiles, lanes, channels = operation.z.shape
    words = operation.z.transpose(0, 2, 1).reshape(-1, lanes)
    norm, shifts = operation.norm, operation.norm.operand_shifts
    for channel in range(channels):
        give(
            ports,
            "parameter_",
            en=1,
            address=channel,
            gamma=int(norm.gamma[channel]),
            beta=int(norm.beta[channel]),
            operand_shift=0 if shifts is None else int(shifts[channel]) % 8,
        )
        assert not ports.get("busy"), "busy before the start"
        await ports.tick()
    ports.set("parameter_en", 0)
    noise = np.random.default_rng(tiles)
    start = {"start": 1, "channels": channels, "tiles": tiles, "available": 0}
    start |= {"shift": norm.shift, "epsilon": norm.epsilon}
    give(ports, **start, rms=int(bool(norm.rms)))
    # What is sampled with start or parameter_en alone is noise from then on.
    ranges = {"channels": (1, channels + 1), "tiles": (1, tiles + 1), "shift": (1, 32)}
    ranges |= {"epsilon": (1, 1 << 50), "rms": (0, 2), "parameter_address": (0, channels)}
    ranges |= {"parameter_gamma": (-(1 << 15), 1 << 15), "parameter_beta": (-(1 << 31), 1 << 31)}
    await ports.tick()
    ports.set("start", 0)
    cycle = 1
    coming: list[int | None] = [None, None]
    while ports.get("busy"):
        ports.set("available", sum(a <= cycle for a in operation.arrival))
        ports.set("x_busy", int(operation.busy(cycle)))
        give(ports, **{name: int(noise.integers(*limits)) for name, limits in ranges.items()})
        address = coming.pop(0)
        garbage = [cycle * 7919 % 65536 - 32768] * lanes  # where no read was asked for
        ports.set("x_data", garbage if address is None else words[address].tolist())
        await ports.settle()
        coming.append(None)
        if ports.get("x_en"):
            coming[-1] = ports.get("x_address")
            seen.reads.append((cycle, ports.get("x_address")))
        if ports.get("y_en"):
            seen.writes.append((cycle, ports.get("y_address")))
            seen.y.append(ports.get("y"))
            seen.y8.append(ports.get("y8"))
        seen.finished += [cycle] * (ports.get("finished") - len(seen.finished))
        await ports.tick()
        cycle += 1
        assert cycle < MAX_CYCLES, "the LayerNorm unit hangs"
    seen.finished += [cycle] * (ports.get("finished") - len(seen.finished))
    await ports.tick()
    assert not ports.get("busy"), "busy after the end"
    return seen


async def check_layernorm(ports: Ports, operations: list[Operation]) -> None:
    """Run operations one after the other; compare values, addresses and cycles of all."""
    comparison = Comparison()
    for operation in operations:
        tiles, _, channels = operation.z.shape
        seen = await play_operation(ports, operation)
        reads = schedule(operation)
        writes = [(cycle + LATENCY, address) for cycle, address, second in reads if second]
        y = np.stack([layernorm(tile, operation.norm) for tile in operation.z])
        y8 = operand(y, operation.norm.operand_shifts)
        when = np.array([cycle for cycle, _ in writes]).reshape(tiles, channels, 1)
        for name, golden, given in (("y", y, seen.y), ("y8", y8, seen.y8)):
            words, expected = np.array(given), golden.transpose(0, 2, 1)
            whole = words.reshape(expected.shape) if words.size == y.size else words
            comparison.tensor(name, expected, whole, ("tile", "index", "lane"), when)
        asked = [(cycle, address) for cycle, address, _ in reads]
        for name, pairs, found in (("x", asked, seen.reads), ("y", writes, seen.writes)):
            for place, what in enumerate(("cycle", "address")):
                due, shown = (np.array([pair[place] for pair in x]) for x in (pairs, found))
                comparison.tensor(f"{name} {what}", due, shown, ("word",))
        done = [cycle + 1 for cycle, _ in writes[channels - 1 :: channels]]
        comparison.tensor("finished cycle", np.array(done), np.array(seen.finished), ("tile",))
    comparison.check()


def at_once(z: np.ndarray, norm: Norm) -> Operation:
    """All tiles are there from the start, and the read port is always free."""
    return Operation(z.astype(np.int16), norm, [1] * len(z), lambda t: False)


def random_norm(channels: int, rng: np.random.Generator) -> Norm:
    """Parameters of every magnitude."""
    gamma = rng.integers(-(1 << 15), 1 << 15, channels).astype(np.int16)
    beta = (rng.integers(-(1 << 31), 1 << 31, channels) >> rng.integers(0, 12)).astype(np.int32)
    epsilon = int(rng.integers(1, 1 << int(rng.integers(1, 50))))
    shifts = rng.integers(1, 9, channels).astype(np.uint8)
    return Norm(gamma, beta, int(rng.integers(8, 22)), epsilon, shifts)


def random_operation(
    lanes: int, channels: int, tiles: int, seed: int, *, busy: float = 0.0, spread: int = 0
) -> Operation:
    """Rows of many magnitudes and means; tiles that arrive up to `spread` cycles apart."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 16, (tiles, lanes, 1))
    z = rng.integers(-(1 << 15), 1 << 15, (tiles, lanes, channels)) >> size
    z = np.clip(z + rng.integers(-2000, 2000, (tiles, lanes, 1)), -32768, 32767)
    arrival = np.cumsum(rng.integers(0, spread + 1, tiles)) + 1
    stalls = rng.random(MAX_CYCLES) < busy
    norm = random_norm(channels, rng)
    return Operation(z.astype(np.int16), norm, arrival.tolist(), stalls.tolist().__getitem__)


def level_operation(lanes: int, channels: int, tiles: int, seed: int, furthest: int) -> Operation:
    """Rows that hardly vary, so that n is shifted least and its last bits count.

    furthest: largest mean. Of a large one the last bits of large sums of squares count as well.
    """
    rng = np.random.default_rng(seed)
    operation = random_operation(lanes, channels, tiles, seed)
    mean = rng.integers(-furthest, furthest, (tiles, lanes, 1))
    z = mean + rng.integers(-2, 3, operation.z.shape)
    gamma = rng.integers(-(1 << 15), 1 << 15, channels).astype(np.int16)
    beta = rng.integers(-(1 << 20), 1 << 20, channels).astype(np.int32)
    norm = Norm(gamma, beta, 12, 1, operation.norm.operand_shifts)
    return at_once(z, norm)


def extreme_operations(lanes: int, channels: int) -> list[Operation]:
    """S1 and S2 at their limits, the largest |n|, a constant row, outputs saturated both ways
    by every shift."""
    rows = np.zeros((5, channels), np.int64)
    rows[0] = -32768
    rows[1] = 32767
    rows[2] = np.where(np.arange(channels) % 2, -32768, 32767)  # the largest variance
    rows[3] = 32767
    rows[3, channels // 2] = -32768  # |n| = sqrt(H - 1)
    z = by_lanes(rows, lanes)
    gamma = np.full(channels, -32768, np.int16)
    beta = np.where(np.arange(channels) % 2, -(1 << 31), (1 << 31) - 1).astype(np.int32)
    return [
        at_once(z, Norm(gamma, beta, shift, epsilon, shifts))
        for shift, epsilon in ((1, 1), (16, 1 << 20), (31, (1 << 50) - 1))
        for shifts in (None, np.resize(np.array(range(1, 9), np.uint8), channels))
    ]


def of_rms(operations: list[Operation]) -> list[Operation]:
    """The operations as RMSNorms, each behind itself as a LayerNorm."""
    return [
        dataclasses.replace(one, norm=dataclasses.replace(one.norm, rms=rms))
        for one in operations
        for rms in (one.norm.rms, True)
    ]


def rms_extremes(lanes: int, channels: int) -> Operation:
    """The largest |n|, sqrt(H), of both signs and of the least z; constant rows, zeros."""
    rows = np.zeros((6, channels), np.int64)
    rows[0, channels // 2] = -32768
    rows[1, -1] = 32767
    rows[2, 0] = 1
    rows[3], rows[4] = -32768, 32767
    z = by_lanes(rows, lanes)
    gamma, beta = np.full(channels, -32768, np.int16), np.zeros(channels, np.int32)
    return at_once(z, Norm(gamma, beta, 17, 1, rms=True))


def small_shifts(lanes: int, channels: int) -> list[Operation]:
    """Outputs that are shifted by 1 to 7, with parameters so small that few saturate."""
    rng = np.random.default_rng(7)
    found = []
    for shift in range(1, 8):
        operation = random_operation(lanes, channels, 1, seed=shift)
        gamma = rng.integers(-(1 << shift), (1 << shift) + 1, channels).astype(np.int16)
        beta = rng.integers(-(1 << shift + 13), 1 << shift + 13, channels).astype(np.int32)
        operation.norm = Norm(gamma, beta, shift, operation.norm.epsilon)
        found.append(operation)
    return found


def rounding_edges(lanes: int) -> list[Operation]:
    """Rows of two channels whose n lies beside the place where it is rounded the other way, so that
    the last bits of z * scale and of its offset count: of each epsilon all there are, in each lane.
    """
    rng, found = np.random.default_rng(9), []
    apart = np.arange(1, 1 << 15)
    for epsilon in range(1, 9):
        r, e = (x.astype(np.int64) for x in rsqrt(apart * apart + epsilon))
        beyond = (apart * r + (1 << e + 3)) % (1 << e + 4)
        edges = apart[np.minimum(beyond, (1 << e + 4) - beyond) <= 4]
        gamma = np.array([32767, -32768], np.int16)
        norm = Norm(gamma, np.array([-5, 5], np.int32), 13, epsilon)
        for few in np.array_split(edges, -(-len(edges) // 3)):
            z = rng.integers(-(1 << 15), 0, (len(few), lanes, 2))
            z[..., 1] = z[..., 0] + few[:, None]
            found.append(at_once(z, norm))
    return found


def wide_rows(lanes: int, channels: int) -> Operation:
    """Rows of the full range, and all channels: the largest sums of squares that are no constant
    row's, in outputs that show the last bit of n and are not saturated."""
    rng = np.random.default_rng(10)
    z = rng.integers(-(1 << 15), 1 << 15, (1, lanes, channels))
    gamma = rng.choice(np.array([-32768, 32767], np.int16), channels)
    norm = Norm(gamma, np.zeros(channels, np.int32), 14, 1)
    return at_once(z, norm)


def broad(lanes: int, hidden: int) -> list[Operation]:
    """Rows of any mean, of the largest deviations and of one value apart, in every lane, with
    each shift and parameters of every size."""
    rng, found = np.random.default_rng(11), []
    for shift in range(1, 32):
        shape = 2, lanes, int(rng.integers(hidden // 2, hidden + 1))
        ends = rng.choice((-32768, 32767), shape)
        around = rng.integers(-(1 << 15), 1 << 15, (*shape[:2], 1))
        near = around + (rng.integers(-(1 << 15), 1 << 15, shape) >> rng.integers(1, 16))
        apart = np.where(np.arange(shape[2]) == rng.integers(shape[2]), ends, around)
        kinds = np.stack([ends, rng.integers(-(1 << 15), 1 << 15, shape), near, apart])
        z = np.take_along_axis(kinds, rng.integers(4, size=(1, *shape[:2], 1)), axis=0)[0]
        gamma, beta = (
            (rng.integers(-1 << bits, 1 << bits, shape[2]) >> rng.integers(24, size=shape[2]))
            for bits in (15, 31)
        )
        gamma, beta = gamma.astype(np.int16), beta.astype(np.int32)
        norm = dataclasses.replace(random_norm(shape[2], rng), gamma=gamma, beta=beta, shift=shift)
        found.append(at_once(np.clip(z, -32768, 32767), norm))
    return found


def epsilons(lanes: int, channels: int, tiles: int) -> list[Operation]:
    """For every leading bit of epsilon rows whose output hangs on one of its bits each, as golden
    says, and rows of about that variance, as far as there are such."""
    rng, found = np.random.default_rng(12), []
    shape = 64, channels
    for leading in range(50):
        epsilon = int(rng.integers(1 << leading, 2 << leading))
        size = min(2 ** (leading / 2) / channels, 1 << 15)
        z = rng.normal(0, 1, shape) * size * 2.0 ** rng.integers(-1, 2, (shape[0], 1))
        z = np.clip(z + rng.integers(-500, 501, (shape[0], 1)), -32768, 32767).astype(np.int16)
        gamma = rng.choice(np.array([-32768, 32767], np.int16), channels)
        norm = Norm(gamma, np.zeros(channels, np.int32), 14, epsilon)
        y = layernorm(z, norm)
        rows = []
        for bit in range(leading):
            other = dataclasses.replace(norm, epsilon=epsilon ^ 1 << bit)
            rows += np.flatnonzero((layernorm(z, other) != y).any(axis=1))[:1].tolist()
        z = np.resize(
            z[[*dict.fromkeys(rows), 0]], (min(-(-len(rows) // lanes), tiles) or 1, lanes, channels)
        )
        found.append(at_once(z, norm))
    return found


def from_vector(vector: Vector, lanes: int) -> Operation:
    """Real rows of a residual stream with the parameters of their layer."""
    x = {name: tensor.values for name, tensor in vector.inputs.items()}
    shifts = x["operand_shifts"].astype(np.uint8)
    norm = Norm(x["gamma"], x["beta"], int(x["shift"]), int(x["epsilon"]), shifts)
    return at_once(by_lanes(x["z"], lanes), norm)
