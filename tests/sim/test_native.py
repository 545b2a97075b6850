"""Units as shared libraries: the same benches, and the sweeps that are too long for a simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rtl.interface.config import Config
from sim.design import described, generated
from sim.machine.unit import NativePorts, finish, library
from tb import reciprocal, requantize, rsqrt, softmax
from tb.compare import Mismatch
from tb.pipelined import check_stream, stream
from tests.damage import mutated

CONFIG = Config(lanes=4)
SWEEPS = {"reciprocal": reciprocal.every_value, "rsqrt": rsqrt.every_mantissa}


def ports_of(unit: str) -> NativePorts:
    design = generated(unit, CONFIG)
    return NativePorts(library(design), design)


def long_tiles(lanes: int, keys: int) -> list[softmax.Tile]:
    """Rows of the sums 2^20 - 1, 2^20, 2^20 + 1 and 255 * keys; more than 4,112 keys."""
    scores = np.full((4, keys), -32768, np.int16)
    scores[:, -4112:] = 0
    for row, p in enumerate((15, 16, 17)):
        scores[row, row] = np.rint(256 * np.log2(p / 255))
    scores[3] = 0
    return [
        softmax.Tile(np.resize(scores, (lanes, keys)), m, s) for m, s in ((40000, 26), (1 << 15, 1))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("unit", SWEEPS)
def test_every_operand(unit: str) -> None:
    finish(check_stream(ports_of(unit), *SWEEPS[unit]()))


@pytest.mark.slow
def test_rows_as_long_as_there_are() -> None:
    """Sums on both sides of 2^20, and of 8,192 keys."""
    keys = 8192
    design = generated("softmax", Config(lanes=4, tokens=keys))
    ports = NativePorts(library(design), design)
    tiles = long_tiles(4, keys)
    found = finish(softmax.check_softmax(ports, tiles, np.ones(keys, bool)))
    assert found[0].rows["sum"] == [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 255 * keys]
    masked = [*softmax.random_tiles(4, keys, 2, 300, 1), *tiles]
    finish(softmax.check_softmax(ports, masked, softmax.random_mask(keys, 1), idle=0.1))


@pytest.mark.slow
def test_a_fault_of_the_last_place_is_found() -> None:
    """The last bit of Newton's residual is lost."""
    lost = ("- product) >> 6, ", "- product) >> 7 << 1, ")
    unit = mutated("reciprocal", lost, unit="reciprocal", config=CONFIG)
    design = described(unit, "reciprocal", CONFIG)
    ports = NativePorts(library(design, "-one-ulp"), design)
    with pytest.raises(Mismatch, match=r"r\[index"):
        finish(check_stream(ports, *reciprocal.every_value()))


class CycleByCycle:
    """The same ports without whole streams."""

    def __init__(self, ports: NativePorts) -> None:
        self.set, self.get, self.tick = ports.set, ports.get, ports.tick
        self.settle, self.latency = ports.settle, ports.latency


def test_a_stream_at_once_is_that_of_its_cycles() -> None:
    inputs, expected = requantize.random(CONFIG.lanes, 50, 3)
    at_once: Any = ports_of("requantize")
    alone: Any = CycleByCycle(ports_of("requantize"))
    for ports in (at_once, alone):
        found = finish(stream(ports, inputs, ("o",)))["o"]
        assert np.array_equal(found, expected["o"])


@pytest.mark.parametrize("cycles", [1, 5, 40])
def test_an_interrupted_exercise_leaves_nothing(cycles: int) -> None:
    ports: Any = ports_of("requantize")
    alone: Any = CycleByCycle(ports)
    inputs, expected = requantize.random(CONFIG.lanes, 50, 3)
    finish(ports.interrupt(stream(alone, inputs, ("o",)), cycles))
    assert ports.get("acc") == [0] * CONFIG.lanes
    finish(check_stream(ports, inputs, expected))


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("acc", [0, 0, 0, 1 << 32], ValueError, "element 3 is 4294967296: it does not fit 32 bits"),
        ("acc", [0, 0, 0], AssertionError, "acc"),
        ("nothing", 0, KeyError, "nothing"),
    ],
)
def test_what_does_not_fit_a_port(
    name: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ports_of("requantize").set(name, value)


def test_words_that_do_not_fit_a_port() -> None:
    with pytest.raises(ValueError, match=r"s: 64..64 does not fit 6 bits"):
        ports_of("requantize").stream({"s": np.full((2, 4), 64)}, ("o",))


def test_a_bench_that_waits_for_a_simulator() -> None:
    class Waits:
        def __await__(self):
            yield

    async def exercise() -> None:
        await Waits()

    with pytest.raises(TypeError, match="waits for a simulator"):
        finish(exercise())
