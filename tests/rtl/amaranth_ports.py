"""Ports in Amaranth's own simulator."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from amaranth.lib import data
from amaranth.sim import Simulator, SimulatorContext

from rtl.generate.verilog import ports
from tb.pipelined import stream
from tb.ports import Ports

T = TypeVar("T")


class AmaranthPorts:
    """`tb.ports.Ports` of an Amaranth component; its ports have the names of its Verilog."""

    def __init__(self, ctx: SimulatorContext, component: Any) -> None:
        self.ctx, self.component = ctx, component
        self.latency: int = getattr(component, "latency", 0)
        self._ports = {name: value for name, _, _, value in ports(component)}

    def set(self, name: str, value: int | Sequence[int]) -> None:
        self.ctx.set(self._ports[name], value)

    def get(self, name: str) -> Any:
        value = self.ctx.get(self._ports[name])
        return list(value) if isinstance(value, data.Const) else value

    async def settle(self) -> None:
        pass  # ctx.get sees outputs settled

    async def tick(self) -> None:
        await self.ctx.tick()


def simulate(component: Any, exercise: Callable[[Ports], Awaitable[T]]) -> T:
    """Run `exercise` on a component and return its result."""
    results: list[T] = []

    async def testbench(ctx: SimulatorContext) -> None:
        results.append(await exercise(AmaranthPorts(ctx, component)))

    sim = Simulator(component)
    sim.add_clock(1e-8)
    sim.add_testbench(testbench)
    sim.run()
    return results[0]


def run_pipelined(
    component: Any, inputs: dict[str, np.ndarray], outputs: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """`stream` through a component in Amaranth's simulator."""
    return simulate(component, lambda ports: stream(ports, inputs, outputs))
