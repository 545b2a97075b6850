"""The attention unit against golden.attention: q, k, v, scores, max, p, sum, context.

BERT2RTL_CASE names a file of `tb.case.write_case`; without it small random layers are played. What
follows plays cycle by cycle on ports alone: programs of all that the unit can run, and what it
refuses.
"""

import dataclasses
import os
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge

from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb import layers
from tb import refused as refusals
from tb.attention import Bench, check
from tb.cocotb_ports import NOT_EXHAUSTIVE, start
from tb.compare import Mismatch
from tb.scenarios import damaged_streams, small_attention_case
from tb.session import check_case, check_case_file
from tb.streams import Pins


class AttentionMachine:
    """`tb.session.Machine` of the attention unit."""

    def __init__(self, ports: Any) -> None:
        self.ports, self.dut, self.sheet = ports, ports.dut, ports.sheet
        self.model, self.tokens = self._pins("model"), self._pins("tokens")
        self.activations: Pins | None = self._pins("i")
        self.result = self._pins("o")
        self.request: Pins | None = None
        self.rows: Pins | None = None
        self.ended = self.dut.done

    def _pins(self, name: str) -> Pins:
        payload, valid, ready = (
            getattr(self.dut, f"{name}__{pin}") for pin in ("payload", "valid", "ready")
        )
        width = self.sheet["ports"][f"{name}__payload"]["width"] - 1
        return Pins(name, payload, valid, ready, None, width)

    async def reset(self) -> None:
        await self.ports.reset()

    async def _pulse(self, name: str) -> None:
        self.ports.set(name, 1)
        await self.ports.tick()
        self.ports.set(name, 0)

    async def start(self) -> None:
        await self._pulse("start")

    async def abort(self) -> None:
        await self._pulse("abort")

    async def outcome(self) -> tuple[Error, dict[str, Any]]:
        get = self.ports.get
        await self.ports.tick()
        return Error(get("error")), {"cycles": get("cycles"), "active": get("active_cycles")}


async def machine_of(dut: Any) -> AttentionMachine:
    """Clock and reset running, and the machine."""
    ports = await start(dut)
    await FallingEdge(dut.clk)
    return AttentionMachine(ports)


@cocotb.test(skip="BERT2RTL_CASE" not in os.environ)
async def case(dut: Any) -> None:
    await check_case_file(await machine_of(dut))


@cocotb.test(skip="BERT2RTL_CASE" in os.environ)
@cocotb.parametrize(stalls=[0.0, 0.4])
async def small(dut: Any, stalls: float) -> None:
    machine = await machine_of(dut)
    config = Config(**machine.sheet["configuration"])
    await check_case(machine, small_attention_case(config, idle=stalls, stall=stalls))


def bench_of(ports: Any, pauses: bool, seed: int = 1) -> tuple[Bench, Config]:
    """The unit after reset, and its configuration."""
    often = 0.3 if pauses else 0.0
    return Bench(ports, idle=often, stall=often, seed=seed), Config(**ports.config)


def lengths_for(config: Config, made: layers.Layer, number: int) -> list[int]:
    """Of the sequences of a batch: one token, row tiles and about, as much as fits, several."""
    n, most = config.lanes, min(made.program.tokens, 6 * config.lanes)
    rows = min(made.program.row_tiles, 6)
    batches = (
        [most],
        [1],
        [min(n + 1, most)],
        [min(2 * n - 1, most), 1][: max(rows - 1, 1)],
        [1] * rows,
        [1, min(n + 2, most - n)] if rows > 2 else [1, 1],
        [1 + (k + k // n) % n for k in range(rows)],
        [n + 1, 1, n + 2] if rows > 4 else [1],
    )
    return batches[number % len(batches)]


@cocotb.test(skip=NOT_EXHAUSTIVE)
@cocotb.parametrize(pauses=[False, True])
async def sound(dut: Any, pauses: bool) -> None:
    """Layers of all shapes in all banks, whole and cut to first row tiles, packet behind packet."""
    bench, config = bench_of(await start(dut), pauses)
    played = []
    for number in range(14):
        banks = layers.BANKS[number % len(layers.BANKS)]
        first, wide = number % 3 == 2, config.precise and number % 4 > 1
        made = layers.layer(config, number, banks=banks, first=first, wide=wide)
        lengths = lengths_for(config, made, number + number // 8)
        played.append((made, layers.inference(made, lengths, number)))
    for number in (2, 5):  # of several sequences the first row tiles alone
        made = layers.layer(config, number, first=True)
        lengths_of = [lengths_for(config, made, place) for place in range(8)]
        played += [(made, layers.inference(made, lengths, number)) for lengths in lengths_of]
    for banks in layers.BANKS:
        made = layers.layer(config, 7, banks=banks)
        played.append((made, layers.inference(made, [2 * config.lanes + 1], 7)))
    played += layers.telling(config)
    bench.queue(played[0][1])
    for (made, inference), (_, following) in zip(played, [*played[1:], played[0]]):
        bench.queue(following)
        seen = await bench.run(inference, again=pauses)
        check(bench, inference, seen, made.program.steps)


@cocotb.test(skip=NOT_EXHAUSTIVE)
@cocotb.parametrize(kind=["limits", "programs"])
async def refused(dut: Any, kind: str) -> None:
    """Streams that ask for what there is not, each at once and with nothing written."""
    bench, config = bench_of(await start(dut), False)
    cases = refusals.out_of_limits if kind == "limits" else refusals.no_programs
    for inference in cases(config):
        bench.queue(inference, tokens=False)
        check(bench, inference, await bench.run(inference, late=True))


@cocotb.test(skip=NOT_EXHAUSTIVE)
async def wrong(dut: Any) -> None:
    """Damaged streams and batches that are none; the next packets wait behind each."""
    bench, config = bench_of(await start(dut), True)
    rng = np.random.default_rng(1)
    made = layers.layer(config, 3, short=True)
    sound = layers.inference(made, [config.lanes + 1], 1)
    assert sound.writes is not None
    # A table comes first in a whole program, so nothing is written before it.
    table = layers.layer(config, 3).program
    cases = [
        sound.damaged(name, error, stream=stream, writes=None if "payload" in name else ())
        for name, stream, error in damaged_streams(table, rng)
        if f"{layers.HIDDEN}.table" in name
    ]
    cases += [
        # What a damaged payload holds is used until its CRC comes; of a damaged descriptor nothing.
        sound.damaged(
            name,
            error,
            stream=stream,
            writes=None if "payload" in name else layers.before(made.program, stream, sound.writes),
        )
        for name, stream, error in damaged_streams(made.program, rng)
    ]
    cases += refusals.wrong_tokens(config, sound)
    cases += refusals.longest_of_models(config)
    played = []
    for place, bad in enumerate(cases):
        # A word too many may be taken where a packet ends: a sound one is without it then.
        played += [bad, sound] if place % 4 == 0 or "behind" in bad.name else [bad]
    bench.queue(played[0])
    for one, following in zip(played, [*played[1:], sound]):
        bench.queue(following)
        check(bench, one, await bench.run(one))
        await bench.rest(3)


@cocotb.test(skip=NOT_EXHAUSTIVE)
async def aborted(dut: Any) -> None:
    """`abort` in cycles of all phases, and together with `start` or alone while nothing runs."""
    bench, config = bench_of(await start(dut), False)
    made = layers.layer(config, 3, short=True)
    sound = layers.inference(made, [config.lanes + 1], 1)
    bench.queue(sound)
    whole = await bench.run(sound)
    check(bench, sound, whole, made.program.steps)
    for cycle in (*range(40), *range(41, whole.busy - 44, 9), *range(whole.busy - 44, whole.busy)):
        one = dataclasses.replace(sound, interruption=("abort", cycle))
        bench.queue(one)
        check(bench, one, await bench.run(one), made.program.steps)
        if cycle % 16 == 0:
            await bench.idle_pulses()
    bench.queue(sound)
    check(bench, sound, await bench.run(sound), made.program.steps)


@cocotb.test(skip=NOT_EXHAUSTIVE)
async def edges(dut: Any) -> None:
    """Tensors that end with their banks, and a word behind them."""
    bench, config = bench_of(await start(dut), False)
    n = config.lanes
    cases = list(layers.nearly_at_the_ends(config))
    for number, lengths in ((1, [1]), (6, [2 * n - 1, 1]), (9, [n + 1])):
        cases += layers.at_the_ends(config, number, lengths)
    for one in cases:
        bench.queue(one)
        check(bench, one, await bench.run(one))
        await bench.rest(2)


@cocotb.test(skip=NOT_EXHAUSTIVE)
async def late(dut: Any) -> None:
    """What is told of a batch that comes a cycle later, sound or refused, is told a cycle later."""
    bench, config = bench_of(await start(dut), False)
    made = layers.layer(config, 3, short=True)
    sound = layers.inference(made, [config.lanes + 1], 1)
    for one in (sound, *refusals.longest_of_models(config), *refusals.wrong_tokens(config, sound)):
        busy = []
        for after in range(400, 404):
            bench.queue(one, tokens=False)
            seen = await bench.run(one, after=after)
            check(bench, one, seen, made.program.steps if one is sound else ())
            busy.append(seen.busy - after)
            await bench.rest(2)
        if len(set(busy)) > 1:
            raise Mismatch(f"{one.name}: it ends {busy} cycles after the batch")


@cocotb.test(skip=NOT_EXHAUSTIVE)
async def many(dut: Any) -> None:
    """More cycles than 16 bits count, many columns, and more than there is room for."""
    bench, config = bench_of(await start(dut), False)
    made = layers.layer(config, 3, short=True)
    sound = layers.inference(made, [config.lanes + 1], 1)
    bench.queue(sound, tokens=False)
    check(bench, sound, await bench.run(sound, after=(1 << 16) + 5), made.program.steps)
    for inference in refusals.many_columns(config):
        bench.queue(inference)
        check(bench, inference, await bench.run(inference))
