"""The AXI4-Lite register file, driven with random delays on every channel."""

from typing import Any

import numpy as np
import pytest

from rtl.control.axi import ADDRESS_BITS, OKAY, REGISTERS, SLVERR, Registers
from tb.amaranth_ports import simulate
from tb.ports import Ports

BY_NAME = {register.name: register for register in REGISTERS}
CONTROL, ENABLE, PENDING = (
    BY_NAME[name] for name in ("control", "interrupt_enable", "interrupt_pending")
)
READABLE = [register for register in REGISTERS if register not in (CONTROL, ENABLE, PENDING)]
ADDRESSES = 1 << ADDRESS_BITS


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
    ports.set("s_axi_araddr", int(rng.integers(ADDRESSES)))
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
    """Every register, in random order; unaligned addresses are rounded down; control reads as 0.

    So does what lies behind the map.
    """
    rng = np.random.default_rng(seed)
    values = {r.name: int(rng.integers(1 << 32)) for r in READABLE}

    async def exercise(ports: Ports) -> None:
        for name, value in values.items():
            ports.set(f"value_{name}", value)
        for register in rng.permutation(np.array(REGISTERS, dtype=object)):
            address = register.address + int(rng.integers(4))
            wanted = 1 if register is ENABLE else values.get(register.name, 0)
            assert await read(ports, rng, address) == (wanted, OKAY), register.name
        for address in range(4 * len(REGISTERS), ADDRESSES):
            assert await read(ports, rng, address) == (0, OKAY), address

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
        for address in range(4 * len(REGISTERS), ADDRESSES, 4):
            assert (await write(ports, rng, address, 3))[0] == SLVERR, address
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


async def end(ports: Ports) -> None:
    """An inference ends."""
    ports.set("done", 1)
    await ports.tick()
    ports.set("done", 0)


async def level(ports: Ports, rng: np.random.Generator) -> tuple[int, int, int]:
    """The port, and what `interrupt_enable` and `interrupt_pending` read as."""
    enable, pending = [await read(ports, rng, r.address) for r in (ENABLE, PENDING)]
    assert enable[1] == pending[1] == OKAY
    return ports.get("interrupt"), enable[0], pending[0]


@pytest.mark.parametrize("seed", range(3))
def test_interrupt_of_a_client_that_knows_no_interrupt_registers(seed: int) -> None:
    """High from the cycle after the end until the next start; a refused start changes nothing."""

    async def exercise(ports: Ports) -> None:
        rng = np.random.default_rng(seed)
        assert await level(ports, rng) == (0, 1, 0)
        for _ in range(3):
            await end(ports)
            assert ports.get("interrupt") == 1
            ports.set("busy", 1)
            assert (await write(ports, rng, CONTROL.address, 1))[0] == SLVERR
            ports.set("busy", 0)
            assert await level(ports, rng) == (1, 1, 1)
            await write(ports, rng, CONTROL.address, 2)
            assert await level(ports, rng) == (1, 1, 1)
            await write(ports, rng, CONTROL.address, 1)
            assert await level(ports, rng) == (0, 1, 0)

    simulate(Registers(), exercise)


@pytest.mark.parametrize(
    ("value", "strobe", "response", "left"),
    [
        (1, 1, OKAY, 0),
        (0xFFFFFFFF, 15, OKAY, 0),
        (0, 15, OKAY, 1),
        (0xFFFFFFFE, 15, OKAY, 1),
        (1, 14, SLVERR, 1),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_acknowledge(value: int, strobe: int, response: int, left: int, seed: int) -> None:
    """Only a 1 in bit 0 with its strobe clears it, and the next end sets it again."""

    async def exercise(ports: Ports) -> None:
        rng = np.random.default_rng(seed)
        assert (await write(ports, rng, PENDING.address, 1))[0] == OKAY  # nothing to acknowledge
        await end(ports)
        for _ in range(2):
            found, pulses = await write(ports, rng, PENDING.address, value, strobe)
            assert found == response
            assert set(pulses) == {(0, 0)}
            assert await level(ports, rng) == (left, 1, left)
        await end(ports)
        assert await level(ports, rng) == (1, 1, 1)

    simulate(Registers(), exercise)


def test_an_end_in_the_cycle_of_an_acknowledge_is_not_lost() -> None:
    """Ends in every cycle around it: the port falls for those before, and never stays low after."""

    async def exercise(ports: Ports, place: int) -> list[int]:
        await end(ports)
        for name, given in (("awaddr", PENDING.address), ("wdata", 1), ("wstrb", 1)):
            ports.set(f"s_axi_{name}", given)
        seen = []
        for cycle in range(6):
            for channel in ("aw", "w"):
                ports.set(f"s_axi_{channel}valid", int(cycle == 0))
            ports.set("done", int(cycle == place))
            await ports.tick()
            seen.append(ports.get("interrupt"))
        return seen

    def played(place: int) -> list[int]:
        return simulate(Registers(), lambda ports: exercise(ports, place))

    # The write is taken in cycle 0 and acts in cycle 1.
    assert played(0) == [1, 0, 0, 0, 0, 0]
    assert played(1) == [1, 1, 1, 1, 1, 1]
    assert played(2) == [1, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_a_disabled_interrupt_waits(seed: int) -> None:
    async def exercise(ports: Ports) -> None:
        rng = np.random.default_rng(seed)
        for strobe, value, enabled in ((14, 0, 1), (15, 0xFFFFFFFE, 0), (14, 1, 0)):
            found, pulses = await write(ports, rng, ENABLE.address, value, strobe)
            assert found == (OKAY if strobe & 1 else SLVERR)
            assert set(pulses) == {(0, 0)}
            assert await level(ports, rng) == (0, enabled, 0)
        await end(ports)
        assert await level(ports, rng) == (0, 0, 1)
        await write(ports, rng, ENABLE.address, 1)
        assert await level(ports, rng) == (1, 1, 1)
        await write(ports, rng, ENABLE.address, 0)
        assert await level(ports, rng) == (0, 0, 1)
        await write(ports, rng, PENDING.address, 1)
        await write(ports, rng, ENABLE.address, 1)
        assert await level(ports, rng) == (0, 1, 0)

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
                    ports.set(
                        f"s_axi_{name}",
                        int(rng.integers(2)) * 0x1C if "addr" in name else int(rng.integers(2)),
                    )
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
