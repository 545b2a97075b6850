"""The AXI4-Lite register file, driven with random delays on every channel."""

from typing import Any

import numpy as np
import pytest

from rtl.control.axi import OKAY, REGISTERS, SLVERR, Registers
from tb.amaranth_ports import simulate
from tb.ports import Ports

CONTROL = next(register for register in REGISTERS if register.name == "control")
READABLE = [register for register in REGISTERS if register is not CONTROL]


async def write(
    ports: Any, rng: np.random.Generator, address: int, value: int, strobe: int = 15
) -> tuple[int, list[tuple[int, int]]]:
    """Address and data come apart; the response, and (start, abort) of every cycle."""
    pulses: list[tuple[int, int]] = []

    async def tick() -> None:
        await ports.tick()
        pulses.append((ports.get("start"), ports.get("abort")))

    delays = {"aw": int(rng.integers(4)), "w": int(rng.integers(4))}
    for name, given in (("awaddr", address), ("wdata", value), ("wstrb", strobe)):
        ports.set(f"s_axi_{name}", given)
    for _ in range(40):
        for channel in delays:
            ports.set(f"s_axi_{channel}valid", int(delays[channel] == 0))
        await ports.settle()
        took = {c: delays[c] == 0 and ports.get(f"s_axi_{c}ready") for c in delays}
        await tick()
        delays = {c: -1 if took[c] else max(d - 1, 0) if d >= 0 else d for c, d in delays.items()}
        if max(delays.values()) < 0:
            break
    for channel in delays:
        ports.set(f"s_axi_{channel}valid", 0)
    await tick()
    for _ in range(int(rng.integers(4))):
        assert ports.get("s_axi_bvalid")
        await tick()
    ports.set("s_axi_bready", 1)
    assert ports.get("s_axi_bvalid")
    response = ports.get("s_axi_bresp")
    await tick()
    ports.set("s_axi_bready", 0)
    assert not ports.get("s_axi_bvalid")
    return response, pulses


async def read(ports: Any, rng: np.random.Generator, address: int) -> tuple[int, int]:
    """Data and response."""
    ports.set("s_axi_araddr", address)
    ports.set("s_axi_arvalid", 1)
    assert ports.get("s_axi_arready")
    await ports.tick()
    ports.set("s_axi_arvalid", 0)
    ports.set("s_axi_araddr", int(rng.integers(64)))
    for _ in range(int(rng.integers(4))):
        assert ports.get("s_axi_rvalid")
        assert not ports.get("s_axi_arready")
        await ports.tick()
    ports.set("s_axi_rready", 1)
    answer = ports.get("s_axi_rdata"), ports.get("s_axi_rresp")
    await ports.tick()
    ports.set("s_axi_rready", 0)
    assert not ports.get("s_axi_rvalid")
    return answer


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_reads(seed: int) -> None:
    """Every register, in random order; unaligned addresses are rounded down; control reads as 0."""
    rng = np.random.default_rng(seed)
    values = {r.name: int(rng.integers(1 << 32)) for r in READABLE}

    async def exercise(ports: Ports) -> None:
        for name, value in values.items():
            ports.set(f"value_{name}", value)
        for register in rng.permutation(np.array(REGISTERS, dtype=object)):
            address = register.address + int(rng.integers(4))
            wanted = values.get(register.name, 0)
            assert await read(ports, rng, address) == (wanted, OKAY), register.name

    simulate(Registers(), exercise)


@pytest.mark.parametrize(
    ("value", "strobe", "pulse"),
    [
        (1, 15, (1, 0)),
        (2, 1, (0, 1)),
        (3, 15, (0, 1)),
        (0, 15, (0, 0)),
        (0xFFFFFFFC, 15, (0, 0)),
        (1, 14, (0, 0)),
        (3, 0, (0, 0)),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_control(value: int, strobe: int, pulse: tuple[int, int], seed: int) -> None:
    """One pulse of one cycle, and an error where the strobe of byte 0 is low.

    Both bits are an abort: an inference that has just ended must not be followed by another.
    """

    async def exercise(ports: Ports) -> None:
        rng = np.random.default_rng(seed)
        response, pulses = await write(ports, rng, CONTROL.address, value, strobe)
        assert response == (OKAY if strobe & 1 else SLVERR)
        seen = [p for p in pulses if p != (0, 0)]
        assert seen == ([pulse] if pulse != (0, 0) else [])

    simulate(Registers(), exercise)


def test_other_registers_refuse_writes() -> None:
    async def exercise(ports: Ports) -> None:
        rng = np.random.default_rng(0)
        for register in READABLE:
            response, pulses = await write(ports, rng, register.address, 3)
            assert response == SLVERR, register.name
            assert set(pulses) == {(0, 0)}
        assert (await write(ports, rng, CONTROL.address, 1))[0] == OKAY

    simulate(Registers(), exercise)


@pytest.mark.parametrize(
    ("value", "response", "pulse"), [(1, SLVERR, (0, 0)), (2, OKAY, (0, 1)), (3, OKAY, (0, 1))]
)
def test_a_start_while_busy_is_refused(value: int, response: int, pulse: tuple[int, int]) -> None:
    async def exercise(ports: Ports) -> None:
        ports.set("busy", 1)
        found, pulses = await write(ports, np.random.default_rng(1), CONTROL.address, value)
        assert found == response
        assert [p for p in pulses if p != (0, 0)] == [pulse] * (pulse != (0, 0))

    simulate(Registers(), exercise)


def test_no_output_hangs_on_an_input_of_the_same_cycle() -> None:
    """IHI 0022, A3.2.1: every input changes within a cycle, no output does."""
    inputs = (
        "awaddr",
        "awvalid",
        "wdata",
        "wstrb",
        "wvalid",
        "bready",
        "araddr",
        "arvalid",
        "rready",
    )
    outputs = ("awready", "wready", "bvalid", "bresp", "arready", "rvalid", "rdata", "rresp")
    rng = np.random.default_rng(5)

    async def exercise(ports: Ports) -> None:
        seen = set()
        for _ in range(400):
            shown = []
            for _ in range(3):
                for name in inputs:
                    ports.set(f"s_axi_{name}", int(rng.integers(2)) * 0x1C if "addr" in name
                              else int(rng.integers(2)))  # fmt: skip
                await ports.settle()
                shown.append(tuple(ports.get(f"s_axi_{name}") for name in outputs))
            assert shown[0] == shown[1] == shown[2]
            seen.add(shown[0])
            await ports.tick()
        assert len(seen) > 8

    simulate(Registers(), exercise)


def test_map() -> None:
    addresses = [register.address for register in REGISTERS]
    assert addresses == list(range(0, 4 * len(REGISTERS), 4))
    assert len({register.name for register in REGISTERS}) == len(REGISTERS)
