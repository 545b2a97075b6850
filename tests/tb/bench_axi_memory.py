"""The accelerator with DMA behind the AXI4-Lite master and the AxiRam of cocotbext-axi.

The logits are golden's; nothing of tb/ or sim/ drives or watches the ports.
"""

import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiRamRead, AxiReadBus, AxiResp

from rtl.compile.image import image_bytes
from rtl.interface.config import Config
from tests.zoo import Compiled

# docs/architecture.md
CONTROL, STATUS, PENDING = 0x1C, 0x20, 0x44
MODEL_ADDRESS, MODEL_BYTES, ROWS_ADDRESS, ROW_BYTES = 0x80, 0x88, 0x8C, 0x94
TOKEN, TOKEN_LAST, LOGIT, LOGITS_WAITING = 0x98, 0x9C, 0xA4, 0xA8
START, ABORT, DONE = 1, 2, 2
ABORTED, BUS = 9, 12

PLACES = 0x1004, 0x8FF8
"""Of the images: aligned to words alone."""


def pauses(seed: int, share: float) -> Iterator[bool]:
    """Cycles in which a channel rests."""
    draw = random.Random(seed)
    return (draw.random() < share for _ in itertools.count())


class SlowRam(AxiRamRead):
    """AxiRam with a latency that is drawn for each beat that does not follow on the one before.

    Attributes
    ----------
    latency
        Cycles that it may take; 0: none.
    bad
        The beat with this number, counted from now, fails.
    """

    latency = 0
    bad: int | None = None
    beats = 0
    after = -1

    async def _read(self, address: int, length: int) -> bytes:
        self.beats += 1
        if self.latency and address != self.after:
            await ClockCycles(self.clock, random.randint(1, self.latency))
        self.after = address + length
        if self.bad is not None:
            self.bad -= 1
            if self.bad < 0:
                self.bad = None
                raise ValueError("a bad beat")
        return bytes(self.read(address, length))


class Host:
    """A CPU, and the memory that both it and the accelerator see."""

    def __init__(self, dut: Any, config: Config) -> None:
        self.dut = dut
        ends = dut.clk, dut.rst
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), *ends)
        self.ram = SlowRam(AxiReadBus.from_prefix(dut, "m_axi"), *ends, size=1 << 20)
        self.models = [Compiled(name, config) for name in ("no-pooler", "pre-norm")]
        for one, place in zip(self.models, PLACES):
            self.ram.write(place, image_bytes(one.image))

    def pace(self, latency: int, share: float = 0.0) -> None:
        """How slow the memory is, and in which share of the cycles its channels rest."""
        self.ram.latency = latency
        for seed, channel in enumerate((self.ram.ar_channel, self.ram.r_channel)):
            channel.set_pause_generator(pauses(seed, share) if share else None)
            channel.pause = False

    async def reset(self) -> None:
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 3)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)

    async def write(self, address: int, value: int) -> AxiResp:
        return (await self.registers.write(address, value.to_bytes(4, "little"))).resp

    async def read(self, address: int) -> int:
        value: int = await self.registers.read_dword(address)
        return value

    async def point(self, number: int) -> None:
        image, place = self.models[number].image, PLACES[number]
        for address, value in (
            (MODEL_ADDRESS, place + image.stream_offset),
            (MODEL_BYTES, len(image.stream)),
            (ROWS_ADDRESS, place + image.rows_offset),
            (ROW_BYTES, image.row_bytes),
        ):
            assert await self.write(address, value) == AxiResp.OKAY

    async def send(self, number: int, tokens: int) -> list[int]:
        """Write a sequence; the logits that must come."""
        one = self.models[number]
        for i, word in enumerate(one.words(tokens)):
            assert await self.write(TOKEN_LAST if i == tokens - 1 else TOKEN, word) == AxiResp.OKAY
        return one.logits(tokens)

    async def start(self) -> None:
        assert await self.write(CONTROL, START) == AxiResp.OKAY

    async def ended(self) -> int:
        """The error code, after the interrupt, which is acknowledged."""
        if not self.dut.interrupt.value:
            await with_timeout(RisingEdge(self.dut.interrupt), 1, "ms")
        status = await self.read(STATUS)
        assert status & 3 == DONE
        assert await self.write(PENDING, 1) == AxiResp.OKAY
        await ClockCycles(self.dut.clk, 3)
        assert not self.dut.interrupt.value
        return status >> 8

    async def logits(self) -> list[int]:
        words = [await self.read(LOGIT) for _ in range(await self.read(LOGITS_WAITING))]
        return np.array(words, np.uint32).view(np.int32).tolist()

    async def infer(self, number: int, tokens: int, *, start_first: bool = False) -> None:
        """A whole inference, compared."""
        await self.point(number)
        if start_first:
            await self.start()
        expected = await self.send(number, tokens)
        if not start_first:
            await self.start()
        assert await self.ended() == 0
        assert await self.logits() == expected
        assert self.ram.ar_channel.empty()
        assert self.ram.r_channel.empty()


async def host(dut: Any) -> Host:
    facts = json.loads(Path(os.environ["BERT2RTL_UNIT_SHEET"]).read_text())["configuration"]
    Clock(dut.clk, 10, "ns").start()
    found = Host(dut, Config(**facts))
    await found.reset()
    return found


@cocotb.test()
async def inferences(dut: Any) -> None:
    """Two models in turn; fast, slow and resting memories; tokens before and after the start."""
    one = await host(dut)
    await one.infer(0, 5)
    one.pace(30)
    await one.infer(1, 1, start_first=True)
    one.pace(10, 0.4)
    await one.infer(0, 8, start_first=True)


@cocotb.test()
async def bad_beats(dut: Any) -> None:
    """SLVERR in stream or rows ends the inference with BUS; the next is right."""
    one = await host(dut)
    one.pace(12, 0.2)
    for beat in (0, 7, 31):
        await one.point(1)
        await one.send(1, 3)
        one.ram.bad = beat
        await one.start()
        assert await one.ended() == BUS
        assert await one.read(LOGITS_WAITING) == 0
        assert one.ram.r_channel.empty()
    await one.infer(1, 4)


@cocotb.test()
async def aborts(dut: Any) -> None:
    """Whatever is under way; the next inference is right, on another model."""
    one = await host(dut)
    one.pace(40, 0.2)
    for cycles in (1, 25, 300):
        await one.point(1)
        await one.send(1, 3)
        await one.start()
        await ClockCycles(dut.clk, cycles)
        assert await one.write(CONTROL, ABORT) == AxiResp.OKAY
        assert await one.ended() == ABORTED
        assert one.ram.r_channel.empty()
    one.pace(3)
    await one.infer(0, 2)


@cocotb.test()
async def resets(dut: Any) -> None:
    """A reset in the middle; the memory's with it."""
    one = await host(dut)
    for cycles in (20, 400):
        await one.point(0)
        await one.send(0, 4)
        await one.start()
        await ClockCycles(dut.clk, cycles)
        await one.reset()
    await one.infer(1, 3)
