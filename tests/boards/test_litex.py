"""The accelerator as a part of LiteX SoCs: its window onto memory, and the SoC as Verilog."""

from __future__ import annotations

import gc
import subprocess
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("litex")

from amaranth.hdl import UnusedElaboratable
from litex.build.sim import SimPlatform
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect.axi import AXIInterface
from migen import Module
from migen.genlib.io import CRG
from migen.sim import passive, run_simulation

from boards.litex import BASE, ReadGuard, add_accelerator
from boards.project import quiet
from boards.simulated import PADS, SimulatedSoC
from rtl.accelerator_dma import NAME, AcceleratorDma
from rtl.dma.bus import Bus
from rtl.generate.sheet import describe
from rtl.interface.config import Config
from sim.simulators import clean_environment
from tests.tiers import quick

ORIGIN, SIZE = 0x4000_0000, 0x2000
OUTSTANDING = 4
DECERR, OKAY = 3, 0
#: A burst at the first byte and the last beat of the window, and just beside both; far away.
PLACES = (ORIGIN, ORIGIN + SIZE - 4, ORIGIN - 4, ORIGIN + SIZE, 0, 0xFFFF_FFFC)
CONFIG = Config(lanes=4, tokens=16, hidden=8, ffn=16, labels=4)
Beat = tuple[int, int, int]
Signals = Iterator[Any]


def word(address: int) -> int:
    """What lies at an address."""
    return address * 0x9E37_79B1 & 0xFFFF_FFFF


class Traffic:
    """A master of bursts and a memory; each rests by chance."""

    def __init__(self, bursts: list[tuple[int, int]], seed: int, rests: float) -> None:
        self.bursts, self.rng, self.rests = bursts, Random(seed), rests
        self.master, self.bus = AXIInterface(32, 32), AXIInterface(32, 32)
        self.beats: list[Beat] = []
        self.asked: list[int] = []
        self.under_way = self.cycles = 0

    def rest(self) -> bool:
        return self.rng.random() < self.rests

    def passed(self) -> None:
        """A cycle more; the last of them is never awaited by a sound guard."""
        self.cycles += 1
        assert self.cycles < 10_000, "bursts are not answered"

    def addresses(self) -> Signals:
        """The master's addresses, never more than OUTSTANDING bursts at once."""
        ar = self.master.ar
        for address, length in self.bursts:
            while self.rest() or self.under_way >= OUTSTANDING - 1:
                yield self.passed()
            yield ar.addr.eq(address)
            yield ar.len.eq(length - 1)
            yield ar.valid.eq(1)
            yield
            while not (yield ar.ready):
                yield self.passed()
            self.under_way += 1
            yield ar.valid.eq(0)
        while sum(last for _, _, last in self.beats) < len(self.bursts):
            yield self.passed()

    @passive
    def taken(self) -> Signals:
        """The master's beats."""
        r = self.master.r
        while True:
            yield r.ready.eq(not self.rest())
            yield
            if (yield r.valid) and (yield r.ready):
                beat = (yield r.resp), (yield r.data), (yield r.last)
                self.beats.append(beat)
                self.under_way -= beat[2]

    @passive
    def memory(self) -> Signals:
        """Behind the guard: beats of the bursts in their order."""
        ar, r = self.bus.ar, self.bus.r
        waiting: deque[tuple[int, int]] = deque()
        while True:
            yield ar.ready.eq(not self.rest())
            if not (yield r.valid) and waiting and not self.rest():
                address, last = waiting.popleft()
                yield r.data.eq(word(address))
                yield r.last.eq(last)
                yield r.valid.eq(1)
            yield
            if (yield ar.valid) and (yield ar.ready):
                address, length = (yield ar.addr), (yield ar.len)
                self.asked.append(address)
                waiting += [(address + 4 * i, i == length) for i in range(length + 1)]
            if (yield r.valid) and (yield r.ready):
                yield r.valid.eq(0)


@pytest.mark.parametrize("seed", range(6))
def test_what_lies_in_the_window_passes_and_all_else_is_refused(seed: int) -> None:
    rng = Random(seed)
    places = [*PLACES, *(ORIGIN + 4 * rng.randrange(SIZE // 8) for _ in range(6))]
    bursts = [(rng.choice(places), rng.choice((1, 2, 16))) for _ in range(60)]
    bursts = [(at, 1 if at == ORIGIN + SIZE - 4 else length) for at, length in bursts]
    traffic = Traffic(bursts, seed, rests=(0, 0.3, 0.7)[seed % 3])
    guard = ReadGuard(traffic.master, traffic.bus, ORIGIN, SIZE, OUTSTANDING)
    run_simulation(guard, [traffic.addresses(), traffic.taken(), traffic.memory()])
    expected: list[Beat] = []
    for at, length in bursts:
        good, lasts = ORIGIN <= at < ORIGIN + SIZE, [*[0] * (length - 1), 1]
        expected += [
            (OKAY, word(at + 4 * i), last) if good else (DECERR, 0, last)
            for i, last in enumerate(lasts)
        ]
    assert [(resp, 0 if resp else data, last) for resp, data, last in traffic.beats] == expected
    assert traffic.asked == [at for at, _ in bursts if ORIGIN <= at < ORIGIN + SIZE]
    assert len({resp for resp, _, _ in traffic.beats}) == 2


def facts_of(data_bits: int) -> dict[str, Any]:
    """The facts of an accelerator, without its Verilog."""
    bus = Bus(data_bits=data_bits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        found = describe(AcceleratorDma(CONFIG, bus), NAME, CONFIG, trace=False)
        gc.collect()
    return found | {"bus": bus.as_dict()}


def black_box(facts: dict[str, Any]) -> str:
    """Its module with ports alone."""
    ports = facts["ports"].items()
    lines = [f"{port['direction']} [{port['width'] - 1}:0] {name}" for name, port in ports]
    return f"(* blackbox *) module {NAME}({', '.join(lines)}); endmodule\n"


class SmallSoC(SoCCore):
    """A SoC with its memory on the bus."""

    def __init__(self, standard: str, cpu: str | None, **options: Any) -> None:
        platform = SimPlatform("SIM", list(PADS))
        self.crg = CRG(platform.request("sys_clk"))
        kind = {"bus_standard": standard, "cpu_type": cpu, "cpu_variant": "lite" if cpu else None}
        sizes = {"integrated_rom_size": SIZE, "integrated_main_ram_size": SIZE}
        super().__init__(platform, 1e6, **kind, **sizes | {"with_uart": False} | options)


SOCS = {
    "LiteDRAM, no CPU": SimulatedSoC,
    "no CPU": lambda: SmallSoC("wishbone", None),
    "CPU on Wishbone": lambda: SmallSoC("wishbone", "vexriscv"),
    "CPU on AXI4": lambda: SmallSoC("axi", "vexriscv"),
}


@pytest.mark.parametrize("name", quick(SOCS, 2))
def test_it_elaborates_in_a_soc(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pin is connected, by Verilator; LiteX knows its place, reads and interrupt."""
    monkeypatch.chdir(tmp_path)
    facts = facts_of(32)
    with quiet():
        soc = SOCS[name]()
        add_accelerator(soc, facts)
        box = tmp_path / "box.v"
        box.write_text(black_box(facts))
        soc.platform.add_source(str(box))
        soc.build(build_dir=str(tmp_path), run=False)
    assert soc.bus.regions["accelerator"].origin == BASE
    dram = name.startswith("LiteDRAM")
    assert ("accelerator" in soc.bus.masters) != dram
    if dram:
        assert len(soc.sdram.crossbar.masters) == 2
    assert ("ACCELERATOR_INTERRUPT" in soc.constants) == name.startswith("CPU")
    # What LiteX's own simulation switches off.
    style = ("lint", "COMBDLY", "CASEINCOMPLETE", "TIMESCALEMOD", "BLKANDNBLK")
    command = ["verilator", "--lint-only", *(f"-Wno-{rule}" for rule in style), "-Wwarn-PINMISSING"]
    sources = [path for path, *_ in soc.platform.sources if path.endswith(".v")]
    with clean_environment():
        command += ["--top-module", "sim", *sources]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_memory_of_another_width_and_an_l2_cache_are_refused() -> None:
    with quiet():
        soc = SimulatedSoC()
        with pytest.raises(ValueError, match="data_bits is 64: the memory of this SoC is read in"):
            add_accelerator(soc, facts_of(64))
        soc.l2_cache = Module()
        with pytest.raises(ValueError, match=r"has an L2 cache, .*: make it with l2_size=0"):
            add_accelerator(soc, facts_of(32))
