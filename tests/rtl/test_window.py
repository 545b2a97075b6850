# amaranth: UnusedElaboratable=no
"""Window against golden.window, in Amaranth's simulator."""

import itertools

import pytest

from golden.model import Window as Sides
from golden.window import in_window
from rtl.datapath.window import Window
from rtl.interface.config import Config
from tb.amaranth_ports import simulate
from tb.ports import Ports
from tests.damage import replaced

CONFIGS = [Config(lanes=4, tokens=11), Config(lanes=8, tokens=16), Config(lanes=4, tokens=4)]


async def check(ports: Ports, config: Config) -> None:
    """Every window at every pair of row tiles and each column, a column a cycle.

    The longest sequence's tokens are as good as no limit; queries behind it are not looked at.
    """
    n, tokens = config.lanes, config.tokens
    sides = [*range(tokens), None]
    due: list[tuple[list[bool], str]] = []
    for before, after in itertools.product(sides, repeat=2):
        window = None if before is after is None else Sides(before, after)
        expected = in_window(window, tokens)
        ports.set("sides_before", tokens if before is None else before)
        ports.set("sides_after", tokens if after is None else after)
        places = itertools.product(range(config.row_tiles), range(config.row_tiles), range(n))
        places = [p for p in places if p[1] * n + p[2] < tokens]
        for queries, keys, column in [*places, *places[-1:] * Window.latency]:
            ports.set("apart", (keys - queries) % config.bias_head_words)
            ports.set("column", column)
            await ports.tick()
            lanes = range(min(n, tokens - queries * n))
            wanted = [bool(expected[queries * n + j, keys * n + column]) for j in lanes]
            due.append((wanted, f"{before}, {after}: {queries}, {keys}, {column}"))
            if len(due) >= Window.latency:
                bits, place = due.pop(0)
                found = ports.get("o")
                assert [bool(found >> j & 1) for j in range(len(bits))] == bits, place
        due.clear()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_window_at_every_distance(config: Config) -> None:
    simulate(Window(config), lambda ports: check(ports, config))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("distance - self.sides.after", "distance - self.sides.before"),
        ("last >= lane", "last > lane"),
        ("first <= lane", "first < lane"),
        ("signed(bits)", "bits"),
    ],
)
def test_a_fault_is_seen(old: str, new: str) -> None:
    with replaced("window", (old, new)) as module:
        unit = module.Window(CONFIGS[0])
    with pytest.raises(AssertionError, match=r"^\d+, \d+: \d+, \d+, \d+"):
        simulate(unit, lambda ports: check(ports, CONFIGS[0]))
