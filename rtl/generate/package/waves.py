"""Timing diagrams; those of registers and bursts are recorded from the simulated parts."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import wavedrom
from amaranth.sim import Simulator

from rtl.control.axi import ADDRESS, Registers
from rtl.dma.bus import Bus
from rtl.dma.reader import Reader

Shown = Mapping[str, Sequence[int]]
"""The value of each signal, cycle by cycle."""

WRITE = ("awaddr", "awvalid", "awready", "wdata", "wvalid", "wready", "bresp", "bvalid", "bready")
READ = ("araddr", "arvalid", "arready", "rdata", "rvalid", "rready")


def _wave(values: Sequence[int], counts: Sequence[int] | None) -> dict[str, Any]:
    """A line of WaveJSON: levels, or words where `counts` says when there is one."""
    wave, data, before = "", [], None
    for at, value in enumerate(values):
        now = None if counts is not None and not counts[at] else value
        if at and now == before:
            wave += "."
        elif counts is None:
            wave += str(value)
        elif now is None:
            wave += "x"
        else:
            wave += "="
            data.append(f"0x{value:02X}" if value > 9 else str(value))
        before = now
    return {"wave": wave, "data": data} if data else {"wave": wave}


def diagram(title: str, shown: Shown, words: Mapping[str, str]) -> str:
    """SVG of the signals over a clock.

    words
        By the name of each signal that is no level, the signal that says when it is valid.
    """
    cycles = len(next(iter(shown.values())))
    lines = [{"name": "clk", "wave": "p" + "." * (cycles - 1)}]
    for name, values in shown.items():
        counts = shown[words[name]] if name in words else None
        lines.append({"name": name} | _wave(values, counts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what the library calls
        drawn: str = wavedrom.render(json.dumps({"signal": lines})).tostring()
    head, _, rest = drawn.partition(">")
    return f"{head}><title>{html.escape(title)}</title>{rest}\n"


def recorded(
    unit: Any,
    port: Callable[[str], Any],
    stimulus: Callable[[int, Mapping[str, int]], Mapping[str, int]],
    cycles: int,
    names: Sequence[str],
) -> dict[str, list[int]]:
    """What ports of a unit show in each cycle.

    port
        The signal of a name.
    stimulus
        Inputs of a cycle from its number and what was shown in the cycle before.
    """
    shown: dict[str, list[int]] = {name: [] for name in names}

    async def play(ctx: Any) -> None:
        before: dict[str, int] = dict.fromkeys(names, 0)
        for cycle in range(cycles):
            for name, value in stimulus(cycle, before).items():
                ctx.set(port(name), value)
            before = {name: ctx.get(port(name)) for name in names}
            for name, value in before.items():
                shown[name].append(value)
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(play)
    simulator.run()
    return shown


def registers(
    stimulus: Callable[[int, Mapping[str, int]], Mapping[str, int]],
    cycles: int,
    names: Sequence[str],
) -> dict[str, list[int]]:
    """What the register file shows; `s_axi_` is left away where it begins a name."""
    unit = Registers()

    def port(name: str) -> Any:
        return getattr(unit if hasattr(unit, name) else unit.s_axi, name)

    return recorded(unit, port, stimulus, cycles, names)


def _writing(register: str, at: int, cycle: int) -> dict[str, int]:
    """A write of 1 that is offered in cycle `at`, its response taken two cycles later."""
    offered = int(cycle == at)
    return {
        "awaddr": ADDRESS[register],
        "awvalid": offered,
        "wdata": 1,
        "wstrb": 15,
        "wvalid": offered,
        "bready": int(cycle == at + 2),
    }


def start_diagram() -> str:
    """A write of 1 to `control`."""
    shown = registers(lambda cycle, _: _writing("control", 1, cycle), 6, [*WRITE, "start"])
    words = {"awaddr": "awvalid", "wdata": "wvalid", "bresp": "bvalid"}
    return diagram(CAPTIONS["start"], shown, words)


def read_diagram() -> str:
    """A read of `interrupt_enable`, whose answer waits a cycle until it is taken."""

    def stimulus(cycle: int, _: Mapping[str, int]) -> dict[str, int]:
        asks = {"araddr": ADDRESS["interrupt_enable"], "arvalid": int(cycle == 1)}
        return asks | {"rready": int(cycle == 3)}

    shown = registers(stimulus, 6, READ)
    return diagram(CAPTIONS["read"], shown, {"araddr": "arvalid", "rdata": "rvalid"})


def interrupt_diagram() -> str:
    """The end of an inference, and its acknowledgement."""

    def stimulus(cycle: int, _: Mapping[str, int]) -> dict[str, int]:
        ends = {"busy": int(cycle <= 1), "done": int(cycle == 1)}
        return _writing("interrupt_pending", 4, cycle) | ends

    names = ["interrupt", "awaddr", "awvalid", "awready", "wvalid", "wready", "bvalid"]
    shown = registers(stimulus, 9, ["busy", "done", *names])
    ended = shown.pop("done").index(1)
    # The register's bit comes when busy goes, and stays to the next start.
    bits = {
        "status.busy": shown.pop("busy"),
        "status.done": [int(cycle > ended) for cycle in range(9)],
    }
    return diagram(CAPTIONS["interrupt"], bits | shown, {"awaddr": "awvalid"})


BURST = ("arvalid", "arready", "araddr", "arlen", "rvalid", "rready", "rdata", "rlast")


def burst_diagram() -> str:
    """Two bursts, the second asked for before the first has come."""
    bus, lanes = Bus(), 8
    unit = Reader(bus, (lanes, lanes))
    lengths, first = (3, 2), 0x2000
    starts = [first + bus.data_bytes * sum(lengths[:place]) for place in range(len(lengths))]

    def port(name: str) -> Any:
        if hasattr(unit.m_axi, name):
            return getattr(unit.m_axi, name)
        stream = unit.model
        return getattr(stream if hasattr(stream, name) else stream.payload, name)

    left = [length - place for length in lengths for place in range(length)]
    comes = (0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0)  # a beat, in each cycle

    def stimulus(cycle: int, _: Mapping[str, int]) -> dict[str, int]:
        number, at = min(cycle, len(lengths) - 1), min(sum(comes[:cycle]), len(left) - 1)
        return {
            "valid": int(cycle < len(lengths)),
            "beat": starts[number] // bus.data_bytes,
            "length": lengths[number],
            "arready": int(cycle != 2),
            "rvalid": comes[cycle],
            "rdata": 0xD0 + at,
            "rlast": comes[cycle] & (left[at] == 1),
        }

    shown = recorded(unit, port, stimulus, len(comes), BURST)
    words = {"araddr": "arvalid", "arlen": "arvalid", "rdata": "rvalid"}
    return diagram(CAPTIONS["burst"], shown, words)


def stream_diagram() -> str:
    """Three words of a stream: one passes in each cycle with valid and ready."""
    valid, ready = (0, 1, 1, 1, 0, 1, 0), (1, 0, 1, 1, 1, 1, 1)
    word, words, last = 0, [], []
    for offered, taken in zip(valid, ready):
        words.append(word)
        last.append(int(bool(offered) and word == 2))
        word += offered & taken
    assert word == 3, "a word was offered and not taken"
    shown = {"tvalid": valid, "tready": ready, "tdata": words, "tlast": last}
    return diagram(CAPTIONS["stream"], shown, {"tdata": "tvalid"})


DIAGRAMS: dict[str, Callable[[], str]] = {
    "stream": stream_diagram,
    "burst": burst_diagram,
    "start": start_diagram,
    "read": read_diagram,
    "interrupt": interrupt_diagram,
}
CAPTIONS = {
    "stream": "A word of a stream waits for tready, then passes; tlast is with the last",
    "burst": "Two bursts: an address waits for arready; arlen is one less than the beats",
    "start": "A write of 1 to control: taken, acting a cycle later, answered a cycle after that",
    "read": "A read: the answer follows a cycle after the address and waits until it is taken",
    "interrupt": "The interrupt is high from the end of an inference until it is acknowledged",
}


def shown_in(bus: Bus | None) -> list[str]:
    """The diagrams in the data sheet of an accelerator, which has streams or bursts."""
    other = "stream" if bus is not None else "burst"
    return [name for name in DIAGRAMS if name != other]
