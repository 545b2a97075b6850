"""The registers of a stream: every payload once and in order, at the rate that is stated."""

from typing import Any

import numpy as np
import pytest

from rtl.primitives.queues import OneDeepQueue, SkidBuffer
from tb.amaranth_ports import simulate

Queue = SkidBuffer | OneDeepQueue
QUEUES = (SkidBuffer, OneDeepQueue)


def played(unit: Queue, count: int, offered: float, taken: float) -> tuple[list[int], list[int]]:
    """Payloads in the order in which they came, and how many were inside in each cycle."""
    rng = np.random.default_rng(count)

    async def exercise(ports: Any) -> tuple[list[int], list[int]]:
        came: list[int] = []
        inside: list[int] = []
        sent, offer = 0, False
        for _ in range(20 * count):
            # A source that has offered a payload keeps it there.
            offer = sent < count and (offer or rng.random() < offered)
            ports.set("i__valid", int(offer))
            ports.set("i__payload", sent & 255 if offer else 0xEE)
            before = ports.get("i__ready")
            ports.set("o__ready", int(rng.random() < taken))
            await ports.settle()
            assert ports.get("i__ready") == before, "the source hangs on the sink's answer"
            if ports.get("o__valid") and ports.get("o__ready"):
                came.append(ports.get("o__payload"))
            if offer and before:
                sent, offer = sent + 1, False
            await ports.tick()
            inside.append(sent - len(came))
            if len(came) == count:
                break
        return came, inside

    return simulate(unit, exercise)


@pytest.mark.parametrize("taken", [0.2, 0.8, 1.0])
@pytest.mark.parametrize("offered", [0.2, 1.0])
@pytest.mark.parametrize("queue", QUEUES)
def test_order(queue: type[Queue], offered: float, taken: float) -> None:
    unit = queue(8)
    came, inside = played(unit, 150, offered, taken)
    assert came == list(range(150))
    # It fills, and never takes more than it holds.
    assert max(inside) == (unit.capacity if taken < 1 else 1)


@pytest.mark.parametrize(("queue", "cycles"), [(SkidBuffer, 1), (OneDeepQueue, 2)])
def test_throughput(queue: type[Queue], cycles: int) -> None:
    """With a source and a sink that never pause: cycles a payload, and the latency."""
    count = 40
    _, inside = played(queue(8), count, 1.0, 1.0)
    assert len(inside) == cycles * (count - 1) + 1 + queue.latency
