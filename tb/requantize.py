"""Cases of the requantize bench: accumulators with multipliers and shifts, and golden's answers."""

import numpy as np

from golden.requantize import requantize, saturate
from tb.compare import Comparison
from tb.cut import Vector
from tb.packing import by_lanes
from tb.pipelined import stream
from tb.ports import Ports

ACC = np.array([-(2**31), -(2**31) + 1, -(2**15), -3, -2, -1, 0, 1, 2, 3, 2**15, 2**31 - 1])
POWERS = 1 << np.arange(31)
POWERS = np.concatenate([-2 * POWERS, POWERS, -1 - POWERS])

Words = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def _words(acc: np.ndarray, m: np.ndarray, s: np.ndarray) -> Words:
    return {"acc": acc, "m": m, "s": s}, {"o": requantize(acc, m, s, 16)}


def corners(lanes: int) -> Words:
    """Every shift with the extreme accumulators, ties of both signs, both saturations.

    And with every product that is a power of two, which sets one bit, or all bits above it, or all
    but one; the largest, which are none, are those next above one, in each lane.
    """
    shifts = np.arange(1, 48)
    extremes = np.meshgrid(ACC, [1 << 15, (1 << 15) + 1, 0xFFFF], shifts, indexing="ij")
    powers = np.meshgrid(POWERS, [1 << 15], shifts, indexing="ij")
    power, m, s = np.meshgrid(
        np.arange(42, 47), [0x8001, 0xAAAB, 0xFFFF], shifts[:9], indexing="ij"
    )
    above = [np.repeat(x, lanes) for x in (-(-(1 << power) // m), m, s)]
    all_of_them = [
        np.concatenate([x.ravel() for x in group]) for group in zip(above, extremes, powers)
    ]
    return _words(*(by_lanes(x, lanes) for x in all_of_them))


def random(lanes: int, words: int, seed: int) -> Words:
    """Accumulators of every magnitude; shifts that leave about 16 bits, and any others."""
    rng = np.random.default_rng(seed)
    shape = (words, lanes)
    bits = rng.integers(1, 32, shape)
    acc = rng.integers(-(1 << 31), 1 << 31, shape) >> (31 - bits)
    near = np.clip(bits + rng.integers(-3, 4, shape), 1, 47)
    s = np.where(rng.random(shape) < 0.7, near, rng.integers(1, 48, shape))
    return _words(acc, rng.integers(1 << 15, 1 << 16, shape), s)


async def check_vectors(ports: Ports, lanes: int, vectors: list[Vector]) -> None:
    """Real accumulators; an int8 result is the unit's int16 saturated once more."""
    comparison = Comparison()
    for vector in vectors:
        inputs = {name: by_lanes(x.values, lanes) for name, x in vector.inputs.items()}
        found = (await stream(ports, inputs, ("o",)))["o"]
        y, axes = vector.outputs["y"], ("index", "lane")
        comparison.tensor(vector.name, by_lanes(y.values, lanes), saturate(found, y.bits), axes)
    comparison.check()
