"""The read master: every word of stream and rows, whatever the memory does, and nothing else."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from rtl.dma.bus import DATA_BITS, Bus
from rtl.dma.fetch import Fetch
from rtl.interface.config import Config
from tests.damage import replaced
from tests.rtl.amaranth_ports import simulate
from tests.rtl.axi_memory import AxiMemory
from tests.tiers import quick

OUTPUTS = (
    "araddr",
    "arlen",
    "arsize",
    "arburst",
    "arid",
    "arlock",
    "arcache",
    "arprot",
    "arvalid",
    "rready",
)


def byte(address: int) -> int:
    """What lies at an address."""
    return (address * 2654435761 >> 9) & 255


@dataclass(frozen=True)
class Play:
    """Streams and rows to be fetched, one stream after another.

    stopping, bad
        Each stream is given up in some cycle; has a beat that is answered with SLVERR.
    """

    bus: Bus
    lanes: int = 4
    rest: float = 0.0
    latency: int = 5
    seed: int = 0
    streams: int = 2
    stopping: bool = False
    bad: bool = False


def signed(word: bytes) -> list[int]:
    return np.frombuffer(word, np.int8).tolist()


def play(one: Play, fetch: Any = None) -> tuple[AxiMemory, int]:
    """Fetch, and compare every word; the memory, and how many words were compared."""
    bus, n = one.bus, one.lanes
    config = Config(lanes=n, hidden=64, tokens=8, ffn=16)
    unit = fetch or Fetch(config, bus)
    rng = np.random.default_rng([one.seed, bus.data_bits, n])
    broken: set[int] = set()

    def at(address: int) -> int:
        if address // bus.data_bytes in broken:
            raise KeyError
        return byte(address)

    memory = AxiMemory(bus, at, one.latency, one.rest, rng)
    compared = 0

    async def cycle(ctx: Any, inputs: dict[str, int]) -> dict[str, Any]:
        for name, value in inputs.items():
            port: Any = unit
            for part in name.split("."):
                port = getattr(port, part)
            ctx.set(port, value)
        for name, value in memory.drive().items():
            ctx.set(getattr(unit.m_axi, name), value)
        memory.step({name: int(ctx.get(getattr(unit.m_axi, name))) for name in OUTPUTS})
        seen: dict[str, Any] = {"pending": ctx.get(unit.pending), "error": ctx.get(unit.error)}
        for name in ("model", "rows"):
            end = getattr(unit, name)
            if ctx.get(end.valid):
                word = ctx.get(end.payload)
                seen[name] = [word.data[i] for i in range(n)], int(word.last)
        seen["asked"] = ctx.get(unit.request.ready)
        await ctx.tick()
        return seen

    async def exercise(ports: Any) -> None:
        nonlocal compared
        ctx = ports.ctx
        for _ in range(one.streams):
            base = int(rng.integers(0, 1 << 20)) * n
            words = int(rng.integers(1, 400))
            table, row_words = (
                int(rng.integers(1 << 20, 1 << 21)) * n,
                int(rng.integers(1, 128 // n + 1)),
            )
            broken.clear()
            if one.bad:
                broken.add((base + int(rng.integers(words)) * n) // bus.data_bytes)
            limit = int(rng.integers(1, 300)) if one.stopping else 1 << 30
            inputs = {
                "start": 1,
                "stop": 0,
                "model_address": base,
                "model_words": words,
                "rows_address": table,
                "row_words": row_words,
            }
            wishes = [int(rng.integers(0, 1 << 20)) for _ in range(6)]
            due = compared + words + len(wishes) * row_words
            asked: deque[tuple[list[int], int]] = deque()
            taken = now = errors = 0
            while True:
                stop = now >= limit or errors > 0
                takes = {name: int(rng.random() >= one.rest) for name in ("model", "rows")}
                inputs |= {f"{name}.ready": value for name, value in takes.items()}
                inputs |= {"stop": int(stop), "start": int(now == 0 and not stop)}
                wish = bool(wishes) and not stop and now > 20
                inputs |= {"request.valid": int(wish)}
                if wish:
                    inputs["request.payload"] = wishes[0]
                seen = await cycle(ctx, inputs)
                errors += seen["error"]
                if wish and seen["asked"]:
                    start = table + wishes.pop(0) * row_words * n
                    for i in range(row_words):
                        word = bytes(byte(start + i * n + k) for k in range(n))
                        asked.append((signed(word), int(i == row_words - 1)))
                if takes["rows"] and "rows" in seen:
                    assert seen["rows"] == asked.popleft(), "a word of a row"
                    compared += 1
                if takes["model"] and "model" in seen and not stop:
                    start = base + taken * n
                    word = bytes(byte(start + k) for k in range(n))
                    assert start // bus.data_bytes not in broken, "a word of a bad beat was given"
                    assert seen["model"] == (signed(word), int(taken == words - 1)), (
                        "a word of the stream"
                    )
                    taken += 1
                    compared += 1
                now += 1
                if stop or taken == words:
                    rows_over = not asked and (stop or not wishes)
                    if rows_over and not seen["pending"] and not memory.beats:
                        break
                assert now < 40_000, "it hangs"
            assert (errors > 0) == one.bad, f"{errors} errors"
            assert compared == due or one.bad or one.stopping, "too few words"
            for _ in range(3):
                seen = await cycle(ctx, {"stop": 1, "start": 0, "request.valid": 0})
                assert not seen["pending"], "pending after a stop"
                assert "rows" not in seen, "a row after a stop"

    simulate(unit, exercise)
    return memory, compared


def test_the_choices_of_a_bus() -> None:
    for name, value, message in (
        ("data_bits", 16, "data_bits is 16: choose one of 32, 64, 128, 256, 512"),
        ("address_bits", 31, r"address_bits is 31: it must lie in 32\.\.64"),
        ("address_bits", 65, r"address_bits is 65: it must lie in 32\.\.64"),
        ("burst", 512, r"burst is 512: it must be a power of two in 1\.\.256"),
        ("burst", 12, r"burst is 12: it must be a power of two in 1\.\.256"),
        ("outstanding", 1, r"outstanding is 1: it must be a power of two in 2\.\.64"),
    ):
        with pytest.raises(ValueError, match=message):
            Bus(**{name: value})
    with pytest.raises(ValueError, match=r"burst is 128: .* in 1\.\.64"):
        Bus(data_bits=512, burst=128)
    assert Bus(data_bits=512, burst=64).buffer == 512


@pytest.mark.parametrize("lanes", quick([4, 16, 64]))
@pytest.mark.parametrize("data_bits", DATA_BITS)
@pytest.mark.parametrize("rest", quick([0.4, 0.0]))
def test_every_word_of_stream_and_rows(data_bits: int, lanes: int, rest: float) -> None:
    bus = Bus(data_bits=data_bits, burst=4, outstanding=4)
    memory, compared = play(Play(bus, lanes, rest))
    assert compared > 100
    assert max(beats for _, beats in memory.taken) == bus.burst


@pytest.mark.parametrize("data_bits", quick([128, 32]))
def test_a_stop_in_any_cycle(data_bits: int) -> None:
    """What comes after it is dropped, and the next stream is whole."""
    bus = Bus(data_bits=data_bits, burst=8, outstanding=2)
    play(Play(bus, 8, 0.3, streams=12, stopping=True, seed=1))


@pytest.mark.parametrize("data_bits", quick([32, 256]))
def test_a_bad_beat_is_said_before_its_words_are_given(data_bits: int) -> None:
    bus = Bus(data_bits=data_bits, burst=8, outstanding=2)
    play(Play(bus, 8, 0.2, streams=8, bad=True, seed=2))


ROW, MODEL = "a word of a row", "a word of the stream"
#: Part of rtl/, what it says, what the fault says, and what is found.
FAULTS = [
    (
        "bursts",
        "bus.burst - (now.beat & (bus.burst - 1))",
        "bus.burst - 0 * now.beat",
        "crosses 4 KiB",
    ),
    ("bursts", "final.eq(after - 1)", "final.eq(after)", ROW),
    ("words", "Mux(fresh, held.first, following)", "Mux(fresh, 0, following)", MODEL),
    ("words", "free & emptied", "emptied", MODEL),
    ("words", "place == held.last", "place == words - 1", ROW),
    ("reader", "(count != bus.outstanding)", "(count != bus.outstanding - 1 + 2)", ROW),
    ("reader", "with m.If(axi.arready):", "with m.If(1):", "an address was withdrawn or changed"),
    ("reader", "Mux(begins, head.first, 0)", "head.first", MODEL),
    ("reader", "axi.rlast & head.end", "head.end", ROW),
    ("reader", "axi.rresp[1]", "(axi.rresp == 3)", "a word of a bad beat was given"),
    ("row_addresses", "once << 2", "once << 1", ROW),
    ("row_addresses", "factor[1], once << 1", "factor[1], once", ROW),
    ("fetch", "words.free >= bursts.o.payload.length", "words.free > 0", MODEL),
    ("fetch", "ResetInserter(self.stop)(model_words)", "model_words", MODEL),
    ("fetch", "ResetInserter(self.stop)(model_bursts)", "model_bursts", MODEL),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "old", "new", "said"),
    quick(FAULTS),
)
def test_a_fault_is_found(part: str, old: str, new: str, said: str) -> None:
    bus = Bus(data_bits=128, burst=4, outstanding=4)
    config = Config(lanes=4, hidden=64, tokens=8, ffn=16)

    def all_of_it(made: Any) -> None:
        for seed in range(4):
            for rest, latency in ((0.5, 3), (0.0, 60)):
                play(Play(bus, 4, rest, latency, seed=seed), made(config, bus))
            play(Play(bus, 4, 0.3, seed=seed, streams=5, stopping=True), made(config, bus))
            play(Play(bus, 4, 0.2, seed=seed, bad=True), made(config, bus))

    with replaced(part, (old, new)):
        made = import_module("rtl.dma.fetch").Fetch
        with pytest.raises(AssertionError, match=said):
            all_of_it(made)
