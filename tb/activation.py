"""Exercise of the activation table."""

import numpy as np

from golden.activation import lookup
from tb.cut import Vector
from tb.packing import by_lanes
from tb.pipelined import check_stream
from tb.ports import Ports, give


def random_table(seed: int) -> np.ndarray:
    """A permutation of all codes: no two entries are alike, none equals its address."""
    codes = np.arange(-128, 128)
    return np.roll(np.random.default_rng(seed).permutation(codes), seed).astype(np.int8)


async def write(ports: Ports, table: np.ndarray) -> None:
    """Write the table, a code a cycle."""
    for code in range(256):
        give(ports, "write_", en=1, address=code, data=int(table[code]) & 255)
        await ports.tick()
    ports.set("write_en", 0)


def with_noise(x: np.ndarray) -> dict[str, np.ndarray]:
    """Codes to look up, with noise on the write port, which is not enabled."""
    rng = np.random.default_rng(len(x))
    noise = {name: rng.integers(0, 256, len(x)) for name in ("write_address", "write_data")}
    return {"i": x} | noise


async def check_activation(ports: Ports, lanes: int, table: np.ndarray) -> None:
    """Write a table and look up all codes in all lanes, each lane in another order, twice."""
    await write(ports, table)
    codes = np.arange(-128, 128).astype(np.int8)
    x = np.stack([np.roll(codes, 17 * lane) for lane in range(lanes)], axis=1)
    for _ in range(2):  # noise of the first time would show in the second
        await check_stream(ports, with_noise(x), {"o": lookup(table, x)})


async def check_vectors(ports: Ports, lanes: int, vectors: list[Vector]) -> None:
    """Real codes through the tables of a real model."""
    for vector in vectors:
        await write(ports, vector.inputs["table"].values)
        x, y = (by_lanes(t.values, lanes) for t in (vector.inputs["x"], vector.outputs["y"]))
        await check_stream(ports, with_noise(x), {"o": y})
