"""The watchdog against the latest cycle in which something moved or something was awaited."""

from typing import Any

import numpy as np
import pytest

from rtl.control.watchdog import Watchdog, patience
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.amaranth_ports import simulate

CONFIG = Config(lanes=4, tokens=8, hidden=4, ffn=4)


def error_cycle(waits: list[int], moved: list[int]) -> int | None:
    """The first cycle that shows an error; None if none does."""

    async def exercise(ports: Any) -> int | None:
        for cycle, (wait, move) in enumerate(zip(waits, moved, strict=True)):
            error = Error(ports.get("error"))
            assert error in (Error.NONE, Error.TIMEOUT)
            if error is Error.TIMEOUT:
                return cycle
            ports.set("waits", wait)
            ports.set("moved", move)
            await ports.tick()
        return None

    return simulate(Watchdog(CONFIG), exercise)


@pytest.mark.parametrize("signal", ["waits", "moved"])
@pytest.mark.parametrize("seed", range(3))
def test_the_latest_sign_of_life(signal: str, seed: int) -> None:
    limit = patience(CONFIG)
    rng = np.random.default_rng(seed)
    length = 3 * limit
    signs = {name: [0] * length for name in ("waits", "moved")}
    latest = int(rng.integers(10, 2 * limit - 10))
    for cycle in {latest, *map(int, rng.integers(0, latest, 20)), *range(0, latest, limit // 2)}:
        signs[signal][cycle] = 1
    assert error_cycle(**signs) == latest + limit


def test_silence_that_ends_in_time() -> None:
    limit = patience(CONFIG)
    length = 4 * limit
    moved = [int(cycle % (limit - 3) == 0) for cycle in range(length)]
    assert error_cycle([0] * length, moved) is None


@pytest.mark.parametrize("tokens", [1, 128, 8192])
@pytest.mark.parametrize("hidden", [1, 128, 1024])
def test_no_good_inference_is_silent_for_so_long(tokens: int, hidden: int) -> None:
    """A LayerNorm between two row tiles, with X16 taken half the time; a softmax before its p."""
    config = Config(lanes=32, tokens=tokens, hidden=hidden, ffn=1)
    assert patience(config) > 2 * (4 * hidden + 3 * config.lanes + 100)
    assert patience(config) > 2 * (tokens + config.lanes + 100)
    assert patience(config) & patience(config) - 1 == 0
