"""Logic of a netlist, taken into the carry chains that it feeds.

A half of an ECP5's carry cell (CCU2C) has a table F of four inputs; a part of it is a second
table, G, of two:

    F = INIT[D, C, B, A],  G = INIT[0, 0, B, A],  S = F xor CIN,  COUT = F ? CIN : G

Yosys 0.70 uses one form of it, F = A xor B xor C with a constant C, and G = A. What stands before
A and B, a masked partial product or an accumulator that begins anew, is a LUT for each bit.

This pass takes such a LUT into each half that it feeds, if nothing else reads it and both tables
can be found with at most four nets: the same F, and the same G wherever F is 0. Both operands of a
half can go inside:

    F = (a and b) xor (c and d),  G = F(0, 0, b, a) = (a and b), the carry where both are equal

So sums and carries are the same for every input. A pin without a net is 1, as an open pin is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from sim.synth.netlist import Bit, Netlist

CARRY, LUT = "CCU2C", "LUT4"
PINS, HALVES = "ABCD", "01"
OPERANDS = [pin + half for pin in PINS for half in HALVES]
SIZE = 1 << len(PINS)

Net = int
Table = dict[tuple[bool, ...], bool]  # by the values of some nets


@dataclass(frozen=True)
class Half:
    """The two tables of a half over the nets that they hang on: values in the order of `nets`."""

    nets: tuple[Net, ...]
    sums: Table  # F
    generates: Table  # G


def _bits(init: str) -> list[bool]:
    """Entries of an INIT parameter, the first one first."""
    return [bit == "1" for bit in reversed(init.rjust(SIZE, "0"))]


def _table(init: Sequence[bool], pins: Sequence[Bit], nets: Sequence[Net], mask: int) -> Table:
    """Entry `index & mask` for each value of the nets; pin i is bit i of the index."""
    found = {}
    for values in product((False, True), repeat=len(nets)):
        known = dict(zip(nets, values, strict=True))
        index = sum(
            (known[pin] if isinstance(pin, int) else pin == "1") << place
            for place, pin in enumerate(pins)
        )
        found[values] = init[index & mask]
    return found


def _distinct(pins: Iterable[Bit]) -> tuple[Net, ...]:
    return tuple(dict.fromkeys(pin for pin in pins if isinstance(pin, int)))


def _half(netlist: Netlist, name: str, half: str) -> Half:
    pins = [netlist.pin(name, pin + half, "1") for pin in PINS]
    nets, init = _distinct(pins), _bits(netlist.cells[name]["parameters"][f"INIT{half}"])
    return Half(nets, _table(init, pins, nets, SIZE - 1), _table(init, pins, nets, 3))


def _with_lut(netlist: Netlist, half: Half, lut: str, output: Net) -> Half | None:
    """The half with a LUT's inputs instead of its output; None where there are too many."""
    pins = [netlist.pin(lut, pin, "0") for pin in PINS]
    nets = _distinct([*(net for net in half.nets if net != output), *pins])
    if len(nets) > len(PINS):
        return None
    init = _bits(netlist.cells[lut]["parameters"]["INIT"])
    logic = _table(init, pins, nets, SIZE - 1)
    sums, generates = {}, {}
    for values, result in logic.items():
        known = dict(zip(nets, values, strict=True)) | {output: result}
        before = tuple(known[net] for net in half.nets)
        sums[values], generates[values] = half.sums[before], half.generates[before]
    return Half(nets, sums, generates)


def _placed(half: Half) -> tuple[list[Bit], str] | None:
    """Pins and INIT of a half; None where no order of the nets gives both tables."""
    for places in permutations(range(len(PINS)), len(half.nets)):
        pins: list[Bit] = ["1"] * len(PINS)
        for net, place in zip(half.nets, places, strict=True):
            pins[place] = net
        init = _init(half, places)
        if init is not None:
            return pins, "".join(str(int(init.get(index, False))) for index in range(SIZE))[::-1]
    return None


def _init(half: Half, places: tuple[int, ...]) -> dict[int, bool] | None:
    """The entries that are asked for with net i on pin `places[i]`; None where two contradict."""
    free = sum(1 << place for place in range(len(PINS)) if place not in places)
    init: dict[int, bool] = {}
    at = {
        values: free | sum(value << place for value, place in zip(values, places, strict=True))
        for values in half.sums
    }
    for values, index in at.items():
        init[index] = half.sums[values]
    for values, index in at.items():
        if not half.sums[values]:
            wanted = half.generates[values]
            if init.setdefault(index & 3, wanted) != wanted:
                return None
    return init


def _absorb(netlist: Netlist, lut: str) -> bool:
    """Take a LUT into every half that reads it, if each can."""
    output = netlist.pin(lut, "Z")
    readers = netlist.readers(output)
    if not isinstance(output, int) or not readers:
        return False
    found = {}
    for name, pin in readers:
        if not name or netlist.cells[name]["type"] != CARRY or pin not in OPERANDS:
            return False
        if netlist.cells[name]["parameters"][f"INJECT1_{pin[1]}"] != "NO":
            return False
        half = _with_lut(netlist, _half(netlist, name, pin[1]), lut, output)
        placed = _placed(half) if half else None
        if placed is None:
            return False
        found[name, pin[1]] = placed
    for (name, half_name), (pins, init) in found.items():
        for pin, bit in zip(PINS, pins, strict=True):
            netlist.connect(name, pin + half_name, bit)
        netlist.cells[name]["parameters"][f"INIT{half_name}"] = init
    netlist.remove(lut)
    return True


def absorb(module: dict[str, Any]) -> int:
    """Take LUTs of a flat module, a value of "modules" in Yosys' JSON, into its carry chains.

    Gives how many LUTs are gone.
    """
    netlist = Netlist(module)
    luts = 0
    while count := sum(_absorb(netlist, lut) for lut in netlist.of_type(LUT)):
        luts += count
    return luts


def open_ends(module: dict[str, Any]) -> None:
    """Take the net from each carry that nothing reads: nextpnr leads it out, through two cells."""
    netlist = Netlist(module)
    for name in netlist.of_type(CARRY):
        if not netlist.readers(netlist.pin(name, "COUT")):
            netlist.cells[name]["connections"]["COUT"] = ["x"]
