"""Copies of registers whose readers lie all over the part, in a placement of nextpnr.

A register that drives sixteen multipliers has a net that goes through most of the part; what reads
it last gets it too late. Where its own input is another register's output, with no logic between,
copies of it change no bit in any cycle, and the long way is one between registers: the readers are
split by where they lie (k-means), and each part has a copy near its middle. The annealing
(`sim.synth.refine`) then moves copies like all other registers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from sim.synth.placement import COLUMNS, ROWS, SLOTS, Cells, legal

REACH = 24  # tiles, width and height of a net: one part for each, of those that go further
MOST = 8  # parts
PLACE = "NEXTPNR_BEL"  # where nextpnr has put a cell
CONTROL = ("CLK", "CE", "LSR")  # shared by a slice or a tile: these stay with the original

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Pin:
    """A port of a cell that reads a net."""

    cell: str
    port: str
    index: int


class Netlist:
    """nextpnr's module by its nets: who drives each, who reads it as data, where cells lie."""

    def __init__(self, module: dict[str, Any], names: list[str], cells: Cells) -> None:
        self.module = module
        self.number = {name: at for at, name in enumerate(names)}
        self.cells = cells
        self.driver: dict[int, str] = {}
        self.readers: dict[int, list[Pin]] = {}
        for name, cell in module["cells"].items():
            for port, bits in cell["connections"].items():
                for index, bit in enumerate(bits):
                    if not isinstance(bit, int):
                        continue
                    if cell["port_directions"][port] == "output":
                        self.driver[bit] = name
                    elif port not in CONTROL:
                        self.readers.setdefault(bit, []).append(Pin(name, port, index))
        self.names = {bit: name for name, net in module["netnames"].items() for bit in net["bits"]}
        self.next_bit = 1 + max(self.names)

    def at(self, cell: str) -> tuple[int, int]:
        number = self.number[cell]
        return int(self.cells.x[number]), int(self.cells.y[number])

    def far(self, register: str) -> int:
        """Into how many parts its readers fall; 1 for what is no register behind a register."""
        cell = self.module["cells"][register]
        if cell["type"] != "TRELLIS_FF" or not cell["connections"].get("M"):
            return 1
        source = self.driver.get(cell["connections"]["M"][0])
        if source is None or self.module["cells"][source]["type"] != "TRELLIS_FF":
            return 1
        tiles = {self.at(pin.cell) for pin in self.readers.get(cell["connections"]["Q"][0], ())}
        if len(tiles) < 2:
            return 1
        reach = int(np.ptp([*tiles], axis=0).sum())
        return min(MOST, len(tiles), -(-reach // REACH))

    def add(self, register: str, readers: list[Pin], place: str, which: int) -> None:
        """A copy of the register at `place`, for these readers."""
        made = copy.deepcopy(self.module["cells"][register])
        old = made["connections"]["Q"][0]
        net = self.next_bit
        self.next_bit += 1
        made["connections"]["Q"] = [net]
        made["attributes"][PLACE] = place
        name, called = f"{register}$copy{which}", f"{self.names[old]}$copy{which}"
        self.module["cells"][name] = made
        self.module["netnames"][called] = {"hide_name": 1, "bits": [net], "attributes": {}}
        for pin in readers:
            self.module["cells"][pin.cell]["connections"][pin.port][pin.index] = net


def copy_registers(module: dict[str, Any], names: list[str], cells: Cells, seed: int = 1) -> int:
    """Add copies to the module, whose cells have these names and places; how many.

    `cells` holds, where a copy lies, its original, so it serves no more.
    """
    netlist = Netlist(module, names, cells)
    count = 0
    for register in list(names):
        parts = netlist.far(register)
        if parts == 1:
            continue
        readers = netlist.readers[module["cells"][register]["connections"]["Q"][0]]
        points = np.array([netlist.at(pin.cell) for pin in readers], np.float64)
        middles, part = kmeans2(points, parts, minit="++", rng=np.random.default_rng(seed))
        own = np.array(netlist.at(register))
        order = np.argsort(np.abs(middles - own).sum(1), kind="stable")
        kept = next(at for at in order if np.any(part == at))  # by the original
        for which in np.unique(part).tolist():
            if which == kept:
                continue
            slot = free_slot(middles[which], netlist.number[register], cells)
            of_part = [pin for pin, at in zip(readers, part) if at == which]
            netlist.add(register, of_part, place_of(slot), which)
            count += 1
    return count


def free_slot(middle: Points, register: int, cells: Cells) -> int:
    """The slot for a flip-flop nearest to a point that takes such a register; it holds it then."""
    column, row = np.divmod(np.arange(COLUMNS * ROWS), ROWS)
    away = np.abs(column - middle[0]) + np.abs(row - middle[1])
    for tile in np.argsort(away, kind="stable").tolist():
        if not cells.open[tile]:
            continue
        for slot in range(tile * SLOTS, tile * SLOTS + SLOTS):
            if cells.flip_flop[slot] >= 0:
                continue
            cells.flip_flop[slot] = register
            if legal(tile, cells):
                return slot
            cells.flip_flop[slot] = -1
    raise ValueError("the part has no flip-flop left for a copy of a register: copy fewer")


def place_of(slot: int, unit: str = "FF") -> str:
    """What nextpnr calls the flip-flop (or K, the LUT) of a slot."""
    tile, at = divmod(slot, SLOTS)
    return f"X{tile // ROWS}/Y{tile % ROWS}/SLICE{'ABCD'[at // 2]}.{unit}{at % 2}"
