"""The ports of a unit as a bench sees them, the same in cocotb and in Amaranth.

A bench sets inputs, lets them settle, reads what the unit shows in this cycle, and ticks:

    ports.set("i", 5)
    await ports.settle()       # only needed before reading an output that depends on inputs at once
    ready = ports.get("ready")
    await ports.tick()         # the next cycle begins
"""

from collections.abc import Sequence
from typing import Any, Protocol


class Ports(Protocol):
    """Ports by name; a word of lanes is a list of integers.

    latency
        The latency that the unit states.
    """

    latency: int

    def set(self, name: str, value: int | Sequence[int]) -> None:
        """Give an input its value from now on."""

    def get(self, name: str) -> Any:
        """An int, or a list of ints for an array of lanes."""

    async def settle(self) -> None:
        """Wait until outputs follow the inputs of this cycle."""

    async def tick(self) -> None:
        """Go on to the next cycle."""


def give(ports: Ports, prefix: str = "", /, **values: int | Sequence[int]) -> None:
    """Give inputs, whose names begin with `prefix`, their values from now on."""
    for name, value in values.items():
        ports.set(prefix + name, value)
