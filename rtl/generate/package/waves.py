"""Timing diagrams; those of the registers are recorded from the simulated register file."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import wavedrom
from amaranth.sim import Simulator

from rtl.control.axi import ADDRESS, Registers

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
    stimulus: Callable[[int, Mapping[str, int]], Mapping[str, int]],
    cycles: int,
    names: Sequence[str],
) -> dict[str, list[int]]:
    """What ports of the register file show in each cycle.

    stimulus
        Inputs of a cycle from its number and what was shown in the cycle before.
    names
        Of members, `s_axi_` left away where they belong to it.
    """
    unit = Registers()

    def port(name: str) -> Any:
        return getattr(unit, name) if hasattr(unit, name) else getattr(unit.s_axi, name)

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
    shown = recorded(lambda cycle, _: _writing("control", 1, cycle), 6, [*WRITE, "start"])
    words = {"awaddr": "awvalid", "wdata": "wvalid", "bresp": "bvalid"}
    return diagram("Start: address and data are taken, then act, then are answered", shown, words)


def read_diagram() -> str:
    """A read of `interrupt_enable`, whose answer waits a cycle until it is taken."""

    def stimulus(cycle: int, _: Mapping[str, int]) -> dict[str, int]:
        asks = {"araddr": ADDRESS["interrupt_enable"], "arvalid": int(cycle == 1)}
        return asks | {"rready": int(cycle == 3)}

    shown = recorded(stimulus, 6, READ)
    title = "Read of interrupt_enable: the answer follows a cycle after the address and waits"
    return diagram(title, shown, {"araddr": "arvalid", "rdata": "rvalid"})


def interrupt_diagram() -> str:
    """The end of an inference, and its acknowledgement."""

    def stimulus(cycle: int, _: Mapping[str, int]) -> dict[str, int]:
        return _writing("interrupt_pending", 4, cycle) | {"done": int(cycle == 1)}

    names = ["done", "interrupt", "awaddr", "awvalid", "awready", "wvalid", "wready", "bvalid"]
    shown = recorded(stimulus, 9, names)
    title = "Interrupt: high from the end of an inference until it is acknowledged"
    return diagram(title, shown, {"awaddr": "awvalid"})


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
    title = "Stream: a word waits for tready, then passes; tlast is with the last"
    return diagram(title, shown, {"tdata": "tvalid"})


DIAGRAMS: dict[str, Callable[[], str]] = {
    "stream": stream_diagram,
    "start": start_diagram,
    "read": read_diagram,
    "interrupt": interrupt_diagram,
}
