"""The accelerator behind AXI masters, sources and sinks of cocotbext-axi, which nobody here wrote.

The logits are golden's; nothing of tb/ drives or watches the ports.
"""

import ctypes
import itertools
import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamSink,
    AxiStreamSource,
)

from rtl.interface.command import VERSION
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.machine.board import BASE
from tests.driver.drivers import BUSY, STILL_BUSY, CDriver
from tests.driver.library import driver_library
from tests.zoo import Compiled

# docs/architecture.md
ID, CONTROL, STATUS, CYCLES = 0x00, 0x1C, 0x20, 0x24
COUNTED = range(0x28, 0x40, 4)  # active, and the stalls
INTERRUPT_ENABLE, INTERRUPT_PENDING = 0x40, 0x44
START, DONE = 1, 2


def pauses(seed: int, share: float) -> Iterator[bool]:
    """Cycles in which a stream's end rests."""
    draw = random.Random(seed)
    return (draw.random() < share for _ in itertools.count())


class Client:
    """A host with DMA engines and an embedding memory."""

    def __init__(self, dut: Any, config: Config) -> None:
        self.dut = dut
        ends = dut.clk, dut.rst
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), *ends)
        self.model = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_model"), *ends)
        self.tokens = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_tokens"), *ends)
        self.rows = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_rows"), *ends)
        self.request = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_request"), *ends)
        self.logits = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_logits"), *ends)
        self.models = [Compiled(name, config) for name in ("no-pooler", "pre-norm")]
        self.table = self.models[0].table
        cocotb.start_soon(self._memory())

    @property
    def ends(self) -> list[Any]:
        return [self.model, self.tokens, self.rows, self.request, self.logits]

    async def _memory(self) -> None:
        while True:
            frame = await self.request.recv()
            row = int.from_bytes(bytes(frame.tdata[:4]), "little")
            await self.rows.send(self.table[row].tobytes())

    async def reset(self, cycles: int) -> None:
        """Reset the accelerator and everything around it."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, cycles)
        for end in self.ends:
            end.clear()
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)
        for end in self.ends:
            end.clear()

    async def offer(self, number: int, tokens: int) -> list[int]:
        """Send a sequence and the command stream; the logits that must come."""
        one = self.models[number]
        self.table = one.table
        await self.tokens.send(np.array(one.words(tokens), "<u4").tobytes())
        await self.model.send(one.program.stream())
        return one.logits(tokens)

    async def write(self, address: int, value: int) -> AxiResp:
        """A register's word; the response."""
        return (await self.registers.write(address, value.to_bytes(4, "little"))).resp

    async def start(self) -> None:
        assert await self.write(CONTROL, START) == AxiResp.OKAY

    async def infer(
        self,
        number: int,
        tokens: int,
        *,
        start_first: bool,
        started: bool = False,
        interrupt: bool = True,
    ) -> None:
        """A whole inference, compared; without `interrupt` none may come."""
        if start_first:
            await self.start()
            await ClockCycles(self.dut.clk, 20)
        expected = await self.offer(number, tokens)
        if not start_first:
            await ClockCycles(self.dut.clk, 20)
            if not started:
                await self.start()
        frame = await with_timeout(self.logits.recv(), 1, "ms")
        found = np.frombuffer(bytes(frame.tdata), "<i4").tolist()
        assert found == expected, f"logits are {found}, golden says {expected}"
        if not interrupt:
            await ClockCycles(self.dut.clk, 20)
            assert not self.dut.interrupt.value
        elif not self.dut.interrupt.value:
            await with_timeout(RisingEdge(self.dut.interrupt), 1, "us")
        status = await self.registers.read_dword(STATUS)
        assert status == DONE, f"status is {status:#x}"
        cycles = await self.registers.read_dword(CYCLES)
        assert cycles == sum([await self.registers.read_dword(a) for a in COUNTED]) > 0
        for end in self.ends:
            assert end.empty(), "a stream is not empty after the end"


async def client(dut: Any) -> Client:
    facts = json.loads(Path(os.environ["BERT2RTL_UNIT_SHEET"]).read_text())["configuration"]
    config = Config(**facts)
    Clock(dut.clk, 10, "ns").start()
    found = Client(dut, config)
    await found.reset(4)
    fixed = [0x54523242, VERSION, config.lanes, config.tokens, config.hidden, config.ffn]
    read = await found.registers.read_dwords(ID, len(fixed) + 1)
    assert read == [*fixed, config.labels], f"the registers from id on are {read}"
    return found


@cocotb.test()
@cocotb.parametrize(start_first=[True, False], share=[0.0, 0.6])
async def inferences(dut: Any, start_first: bool, share: float) -> None:
    """Two models in turn, sequences of one token and of several row tiles."""
    host = await client(dut)
    if share:
        for seed, end in enumerate(host.ends):
            end.set_pause_generator(pauses(seed, share))
    for number, tokens in ((0, 5), (1, 1), (0, 8)):
        await host.infer(number, tokens, start_first=start_first)


@cocotb.test()
async def a_start_while_busy(dut: Any) -> None:
    """It is refused; the inference under way knows nothing of it."""
    host = await client(dut)
    await host.start()
    for _ in range(2):
        assert await host.write(CONTROL, START) == AxiResp.SLVERR
    await host.infer(0, 3, start_first=False, started=True)
    await host.infer(1, 2, start_first=True)


@cocotb.test()
async def interrupts(dut: Any) -> None:
    """Acknowledged, disabled, enabled late; what is pending is not lost, `done` stays as it was."""
    host = await client(dut)

    async def shown() -> tuple[int, int]:
        await ClockCycles(dut.clk, 4)
        status = await host.registers.read_dword(STATUS)
        assert status == DONE
        return int(dut.interrupt.value), await host.registers.read_dword(INTERRUPT_PENDING)

    assert await host.registers.read_dword(INTERRUPT_ENABLE) == 1
    await host.infer(0, 3, start_first=True)
    assert await shown() == (1, 1)
    assert await host.write(INTERRUPT_PENDING, 1) == AxiResp.OKAY
    assert await shown() == (0, 0)

    assert await host.write(INTERRUPT_ENABLE, 0) == AxiResp.OKAY
    for _ in range(2):  # the second start finds an interrupt that nobody took
        await host.infer(1, 2, start_first=False, interrupt=False)
        assert await shown() == (0, 1)
    assert await host.write(INTERRUPT_ENABLE, 1) == AxiResp.OKAY
    assert await shown() == (1, 1)
    await host.infer(0, 4, start_first=True)
    assert await shown() == (1, 1)

    await host.write(INTERRUPT_ENABLE, 0)
    await host.reset(1)
    assert await host.registers.read_dword(INTERRUPT_ENABLE) == 1
    assert dut.interrupt.value == 0


BUS_C = """
uint32_t (*on_read)(uintptr_t);
void (*on_write)(uintptr_t, uint32_t);
uint32_t bus_read(uintptr_t address) { return on_read(address); }
void bus_write(uintptr_t address, uint32_t value) { on_write(address, value); }
"""


@cocotb.test()
async def the_c_driver(dut: Any) -> None:
    """As it stands: golden's logits, errors, aborts; nothing that it writes is refused."""
    host = await client(dut)
    read = resume(host.registers.read_dword)
    offer = resume(host.offer)
    receive = resume(host.logits.recv)

    @resume
    async def write(address: int, value: int) -> None:
        assert await host.write(address, value) == AxiResp.OKAY

    @resume
    async def run(cycles: int) -> None:
        await ClockCycles(dut.clk, cycles)

    with tempfile.TemporaryDirectory() as folder:
        bus = Path(folder, "bus.c")
        bus.write_text(BUS_C)
        driver = CDriver(driver_library(bus, bus.parent))
    reads = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_size_t)(lambda a: read(a - BASE))
    writes = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_uint32)(
        lambda a, value: write(a - BASE, value)
    )
    for name, function in (("on_read", reads), ("on_write", writes)):
        pointer = ctypes.c_void_p.in_dll(driver.library, name)
        pointer.value = ctypes.cast(function, ctypes.c_void_p).value

    def right(expected: list[int]) -> bool:
        return np.frombuffer(bytes(receive().tdata), "<i4").tolist() == expected

    @bridge
    def play() -> None:
        assert driver.open() == 0
        for number, one in enumerate(host.models):
            stream = one.program.stream()
            assert driver.check(stream) == (0, one.program.tokens)
            assert driver.check_rows(stream, one.table.tobytes()) == 0
            assert driver.start() == 0
            assert driver.start() == driver.result() == driver.counters()[0] == BUSY
            expected = offer(number, 5)
            waits = driver.wait, lambda: driver.wait_interrupt(lambda: run(50))
            assert waits[number]() == 0
            assert right(expected)
            code, counted = driver.counters()
            cycles, *parts = counted.values()
            assert (code, cycles) == (0, sum(parts))
            assert driver.acknowledge() == (number == 0)
        expected = offer(0, 3)
        host.logits.pause = True
        assert driver.start() == 0
        run(3000)
        assert driver.abort(10) == STILL_BUSY  # too late: the logits are leaving
        host.logits.pause = False
        assert driver.wait() == 0
        assert right(expected)
        assert driver.start() == 0
        offer(1, 4)
        run(300)
        assert driver.abort() == driver.result() == Error.ABORTED

    await play()
