"""Exercise of fully pipelined units: a word in and a word out each cycle, no handshake."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tb.compare import Comparison
from tb.cut import Vector
from tb.ports import Ports


async def stream(
    ports: Ports, inputs: dict[str, np.ndarray], outputs: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Feed inputs[name][t] in cycle t; return what the outputs show `latency` cycles later.

    The inputs are integer arrays [cycles] or [cycles, lanes]. The latency is the one that the
    unit states, so a wrong one gives wrong results.
    """
    cycles = len(next(iter(inputs.values())))
    results: dict[str, list[Any]] = {name: [] for name in outputs}
    for t in range(cycles + ports.latency):
        if t >= ports.latency:
            for name in outputs:
                results[name].append(ports.get(name))
        if t < cycles:
            for name, words in inputs.items():
                ports.set(name, words[t].tolist())
        await ports.tick()
    return {name: np.array(values, dtype=np.int64) for name, values in results.items()}


async def check_stream(
    ports: Ports, inputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> None:
    """Feed the inputs and compare the outputs with golden's; Mismatch names what differs first."""
    comparison = Comparison()
    for name, actual in (await stream(ports, inputs, tuple(expected))).items():
        cycles = (np.arange(len(actual)) + ports.latency).reshape(-1, *[1] * (actual.ndim - 1))
        axes = ("index", "lane")[: actual.ndim]
        comparison.tensor(name, expected[name], actual, axes, cycles)
    comparison.check()


async def check_vectors(ports: Ports, vectors: Iterable[Vector], operand: str) -> None:
    """Real operands of a function of one number, whose result is a mantissa r and an exponent e."""
    for vector in vectors:
        expected = {name: vector.outputs[name].values for name in "re"}
        await check_stream(ports, {"i": vector.inputs[operand].values}, expected)
