"""How often each net of a netlist toggles, by the SAIF of a run of the Verilog before it.

A net that has kept its name toggles as in the run. The others, within the logic between registers,
are simulated without delay: each named net becomes a random sequence of as many ones and toggles as
the run had, independent of the others, and all gates are computed on these sequences. Glitches are
not in it, nor that bits of one word change together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from sim.synth.netlist import Bit
from sim.synth.sta import Flat
from sim.synth.tools import SynthesisError

CYCLES = 1024
"""Length of the sequences."""

_STEPS = (1 << CYCLES - 1) - 1

Activity = tuple[float, float]
"""Toggles a cycle, and the share of time at 1."""

Gates = Mapping[str, Mapping[str, tuple[list[str], Callable[..., int]]]]

_NET = re.compile(r"^\((\S+) (.*)\)$")
_FACT = re.compile(r"\((\w+) (\d+)\)")
_BIT = re.compile(r"^(.*)\[(\d+)\]$")


def read(path: Path, top: str) -> dict[tuple[str, int], Activity]:
    """Activity of each bit by its name, "part.part.signal", and its number.

    Raises
    ------
    SynthesisError
        The file is no SAIF of a run of `top`.
    """
    place: list[str] = []
    found: dict[tuple[str, int], Activity] = {}
    duration = 0
    with path.open(errors="replace") as lines:
        for line in lines:
            text = line.strip().replace("\\", "")
            if text.startswith("(DURATION "):
                duration = int(text[10:-1])
            elif text.startswith("(INSTANCE "):
                place.append(text[10:])
            elif text == "(NET":
                place.append("")
            elif text == ")" and place:
                place.pop()
            elif place and top in place and (net := _NET.match(text)):
                facts = {name: int(number) for name, number in _FACT.findall(net[2])}
                bit = _BIT.match(net[1])
                name, number = (bit[1], int(bit[2])) if bit else (net[1], 0)
                whole = ".".join([*place[place.index(top) + 1 : -1], name])
                found[whole, number] = (facts["TC"], facts["T1"])
    clock = found.get(("clk", 0))
    if not duration or clock is None or not clock[0]:
        raise SynthesisError(
            f"{path} is no SAIF of a run of {top}: `python -m sim.run --saif {path}` writes one"
        )
    cycles = clock[0] / 2
    return {name: (count / cycles, ones / duration) for name, (count, ones) in found.items()}


def of_nets(
    netlist: Flat, named: Mapping[tuple[str, int], Activity], gates: Gates
) -> dict[Bit, Activity]:
    """Activity of every net of the netlist.

    gates
        Of each type of cell its outputs: their inputs, and what becomes of these.

    Raises
    ------
    SynthesisError
        The run was of another design: less than half of the registers' outputs have a name in it.
    """
    known: dict[Bit, Activity] = {}
    for name, bits in netlist.names.items():
        for number, bit in enumerate(bits):
            if isinstance(bit, int) and (name, number) in named:
                known[bit] = named[name, number]
    registers = [pins["Q"][0] for kind, pins in netlist.cells if "Q" in pins]
    if 2 * sum(bit in known for bit in registers) < len(registers):
        raise SynthesisError("the SAIF is of another design, or of other choices of this one")
    sequences = _simulated(netlist, known, gates)
    return {
        bit: known.get(bit)
        or (
            ((sequence ^ sequence >> 1) & _STEPS).bit_count() / (CYCLES - 1),
            sequence.bit_count() / CYCLES,
        )
        for bit, sequence in sequences.items()
    }


def _simulated(netlist: Flat, known: Mapping[Bit, Activity], gates: Gates) -> dict[Bit, int]:
    """A sequence for each net, a bit a cycle."""
    every = (1 << CYCLES) - 1
    driver: dict[Bit, tuple[Callable[..., int], list[Bit]]] = {}
    for kind, pins in netlist.cells:
        for output, (inputs, function) in gates.get(kind, {}).items():
            if output in pins:
                driver[pins[output][0]] = function, [pins[name][0] for name in inputs]
    random = Random(0)
    found: dict[Bit, int] = {"0": 0, "1": every, "x": 0}
    pins_of_all = (bits for _, pins in netlist.cells for bits in pins.values())
    for start in sorted({bit for bits in pins_of_all for bit in bits if isinstance(bit, int)}):
        waiting: list[Bit] = [start]
        while waiting:
            bit = waiting[-1]
            if bit in found:
                waiting.pop()
            elif bit in known or bit not in driver:
                found[bit] = _drawn(random, *known.get(bit, (0.0, 0.0)))
            else:
                function, operands = driver[bit]
                missing = [each for each in operands if each not in found]
                waiting += missing
                if not missing:
                    found[bit] = function(*(found[each] for each in operands)) & every
    return found


def _drawn(random: Random, toggles: float, ones: float) -> int:
    """A sequence of two states that leaves each so often that both rates come out."""
    value = random.random() < ones
    leave = (min(toggles / 2 / max(1 - ones, 1e-9), 1), min(toggles / 2 / max(ones, 1e-9), 1))
    sequence = 0
    for _ in range(CYCLES if toggles else 0):
        value ^= random.random() < leave[value]
        sequence = sequence << 1 | value
    return sequence if toggles else (1 << CYCLES) - 1 if value else 0
