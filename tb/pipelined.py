"""Runs a fully pipelined component in Amaranth's simulator: a word in, a word out, each cycle."""

from typing import Any

import numpy as np
from amaranth.hdl import ValueCastable
from amaranth.lib import data
from amaranth.lib.wiring import Component
from amaranth.sim import Simulator, SimulatorContext


def to_port(word: np.ndarray) -> Any:
    """What ctx.set takes: an int, or a list of ints for an array of lanes."""
    return word.tolist()


def from_port(value: Any) -> Any:
    """What ctx.get returned as an int or a list of ints."""
    return list(value) if isinstance(value, data.Const) else value


def simulator(component: Component) -> Simulator:
    """A simulator with the clock of the component running."""
    sim = Simulator(component)
    sim.add_clock(1e-8)
    return sim


def run_pipelined(
    component: Any, inputs: dict[str, np.ndarray], outputs: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Feed inputs[name][t] to the ports in cycle t; return what the outputs show `latency` later.

    inputs
        Integer arrays [cycles] or [cycles, lanes], one a port.

    The latency is the one that the component states: a wrong one gives wrong results.
    """
    cycles = len(next(iter(inputs.values())))
    results: dict[str, list[Any]] = {name: [] for name in outputs}

    async def drive(ctx: SimulatorContext) -> None:
        for t in range(cycles):
            for name, words in inputs.items():
                ctx.set(getattr(component, name), to_port(words[t]))
            await ctx.tick()

    async def sample(ctx: SimulatorContext) -> None:
        ports: list[ValueCastable] = [getattr(component, name) for name in outputs]
        await ctx.tick().repeat(component.latency)
        for _ in range(cycles):
            values = await ctx.tick().sample(*ports)
            for name, value in zip(outputs, values[2:]):
                results[name].append(from_port(value))

    sim = simulator(component)
    sim.add_testbench(drive)
    sim.add_testbench(sample)
    sim.run()
    return {name: np.array(values, dtype=np.int64) for name, values in results.items()}
