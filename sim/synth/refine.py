"""Shorter wires and less crowding: nextpnr's placement, annealed again before it is routed.

nextpnr writes where it has put every cell (NEXTPNR_BEL in its JSON) and routes a file whose places
are others (`--no-pack --no-place`). Its own refinement leaves long wires in a part that is almost
full, and does not look at crowding; `sim.synth.anneal` does, after `sim.synth.copies` has cut the
longest nets up. What a tile may hold are the rules of nextpnr's ecp5/arch_place.cc. Fixed are pins,
clocks and distributed RAM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cli.progress import progress

import numpy as np

from sim.synth import anneal
from sim.synth.copies import PLACE, copy_registers, place_of
from sim.synth.macros import SITES
from sim.synth.placement import (
    BLOCK_RAM,
    COLUMNS,
    DSP,
    FIXED,
    FLIP_FLOP,
    LUT,
    ROWS,
    SLOTS,
    Cells,
    Groups,
    Ints,
    Nets,
    Sites,
    legal,
)

MODULE = "top"  # what nextpnr calls the design
FANOUT = 1500  # of nets that count; those that go everywhere do so wherever their cells lie
MOVES, STEPS = 4_000, 40  # for each cell; by the progress bar
HEAT, REACH = (1.4, 0.1), (16.0, 4.0)  # in tiles
ROOM = 82.0  # a tile, in tiles of wire
CROWDING = 4.0

# Tree of a net by its pins, over its half-perimeter: C. E. Cheng, RISA, ICCAD 1994. From 50 on it
# goes with the root of the pins, as the shortest tree through points all over a box does.
TREE = {3: 1.0, 4: 1.0828, 5: 1.1536, 6: 1.2206, 7: 1.2823, 8: 1.3385, 9: 1.3991, 10: 1.4493}
TREE |= {15: 1.6899, 20: 1.8924, 25: 2.0743, 30: 2.2334, 35: 2.3895, 40: 2.5356, 45: 2.6625}
TREE |= {50: 2.7933}

_PLACE = re.compile(r"X(\d+)/Y(\d+)/(.+)")
_SLOT = re.compile(r"SLICE([A-D])\.(?:COMB|FF|K)([01])")
_KINDS = {"TRELLIS_COMB": LUT, "TRELLIS_FF": FLIP_FLOP, "DP16KD": BLOCK_RAM, "MULT18X18D": DSP}
_CHAINED = ("FCI", "F1", "FXA", "FXB")  # inputs that come from the LUT beside it alone


@dataclass(frozen=True)
class Refined:
    """Wires of the nets of up to `FANOUT` pins, in tiles, and the penalty for crowding; before
    the annealing with the copies of registers, which are so many."""

    copies: int
    wires_before: int
    wires: int
    penalty_before: float
    penalty: float


@dataclass(frozen=True)
class Placement:
    """nextpnr's placement as arrays; `module` is its JSON, whose cells have `names`, in order."""

    module: dict[str, Any]
    names: list[str]
    cells: Cells
    nets: Nets
    groups: Groups
    sites: Sites

    def write(self) -> None:
        """Put the places into `module`."""
        cells = self.module["cells"]
        for number, name in enumerate(self.names):
            slot = int(self.cells.slot[number])
            if slot >= 0:
                unit = "K" if self.cells.kind[number] == LUT else "FF"
                cells[name]["attributes"][PLACE] = place_of(slot, unit)
        for (name, *_), cell in zip(_sites(), self.sites.cell.tolist()):
            if cell >= 0:
                cells[self.names[cell]]["attributes"][PLACE] = name


def _sites() -> list[tuple[str, int, int]]:
    return [*SITES["DP16KD"], *SITES["MULT18X18D"]]


def placement_of(module: dict[str, Any]) -> Placement:
    """The arrays of a module that nextpnr has placed."""
    names = list(module["cells"])
    cells, owner = _cells(module)
    groups = _groups(module, cells, owner)
    at = {name: number for number, (name, *_) in enumerate(_sites())}
    holds = np.full(len(at), -1, np.int32)
    for number in np.flatnonzero((cells.kind == BLOCK_RAM) | (cells.kind == DSP)).tolist():
        holds[at[module["cells"][names[number]]["attributes"][PLACE]]] = number
    x, y = (np.array([site[axis] for site in _sites()], np.int32) for axis in (1, 2))
    begins = np.array([0, len(SITES["DP16KD"]), len(x)], np.int32)
    sites = Sites(x, y, holds, begins)
    return Placement(module, names, cells, _nets(module), groups, sites)


def _mode(cell: dict[str, Any]) -> str:
    mode: str = cell["parameters"].get("MODE", "LOGIC")
    return mode


def _cells(module: dict[str, Any]) -> tuple[Cells, dict[int, int]]:
    """Everything but the groups; and which cell drives each net."""
    count = len(module["cells"])
    tiles = COLUMNS * ROWS
    kind = np.zeros(count, np.int8)
    x, y, enable, control = (np.zeros(count, np.int32) for _ in range(4))
    slot, group = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    lut, flip_flop = (np.full(tiles * SLOTS, -1, np.int32) for _ in range(2))
    has_slots, fixed = np.zeros(tiles, np.bool_), np.zeros(tiles, np.bool_)
    tied, selects = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    sets: dict[tuple[Any, ...], int] = {}
    owner: dict[int, int] = {}
    for number, cell in enumerate(module["cells"].values()):
        place = _PLACE.fullmatch(cell["attributes"][PLACE])
        assert place is not None, cell["attributes"][PLACE]
        x[number], y[number] = int(place[1]), int(place[2])
        tile = x[number] * ROWS + y[number]
        kind[number] = _KINDS.get(cell["type"], FIXED)
        inside = _SLOT.fullmatch(place[3])
        if kind[number] in (LUT, FLIP_FLOP):
            assert inside is not None, place[3]
            slot[number] = tile * SLOTS + "ABCD".index(inside[1]) * 2 + int(inside[2])
            (lut if kind[number] == LUT else flip_flop)[slot[number]] = number
            has_slots[tile] = True
        fixed[tile] |= cell["type"] == "TRELLIS_RAMW" or _mode(cell) in ("DPRAM", "RAMW")
        nets = {port: tuple(bits) for port, bits in cell["connections"].items()}
        if kind[number] == FLIP_FLOP:
            values = cell["parameters"]
            of_slice = ("enable", values["GSR"], values["CEMUX"], nets.get("CE"))
            muxes = values["CLKMUX"], values["LSRMUX"], values.get("SRMODE")
            of_tile = ("control", *muxes, nets.get("LSR"), nets.get("CLK"))
            enable[number] = sets.setdefault(of_slice, len(sets))
            control[number] = sets.setdefault(of_tile, len(sets))
            tied[number] = int(values["SD"].strip(), 2) == 1
        selects[number] = kind[number] == LUT and bool(nets.get("M"))
        for port, way in cell["port_directions"].items():
            if way == "output":
                owner |= dict.fromkeys(nets.get(port, ()), number)
    found = Cells(
        kind, x, y, slot, lut, flip_flop, has_slots & ~fixed, enable, control, tied, selects, group
    )
    return found, owner


def _groups(module: dict[str, Any], cells: Cells, owner: dict[int, int]) -> Groups:
    """Carry chains and wide multiplexers: LUTs that hand each other what no other wire carries."""
    parent = list(range(len(cells.kind)))

    def root(cell: int) -> int:
        while parent[cell] != cell:
            parent[cell] = parent[parent[cell]]
            cell = parent[cell]
        return cell

    together: set[int] = set()

    def join(one: int, other: int) -> None:
        parent[root(one)] = root(other)
        together.update((one, other))

    for number, cell in enumerate(module["cells"].values()):
        if cells.kind[number] != LUT:
            continue
        for port in _CHAINED:
            for bit in cell["connections"].get(port, ()):
                driver = owner.get(bit)
                if driver is not None and cells.kind[driver] == LUT:
                    join(number, driver)
        if _mode(cell) == "CCU2":  # both LUTs of a slice are one carry cell
            join(number, int(cells.lut[cells.slot[number] ^ 1]))
    members: dict[int, list[int]] = {}
    for cell_number in sorted(together):
        members.setdefault(root(cell_number), []).append(cell_number)
    slots: list[int] = []
    first, shape = [0], []
    shapes: dict[tuple[int, ...], int] = {}
    for group, luts in enumerate(members.values()):
        cells.group[luts] = group
        lie = sorted(int(cells.slot[lut]) for lut in luts)
        base = lie[0] // SLOTS * SLOTS
        shape.append(shapes.setdefault(tuple(slot - base for slot in lie), len(shapes)))
        slots += lie
        first.append(len(slots))
    return Groups(*(np.array(part, np.int32) for part in (first, slots, shape)))


def _nets(module: dict[str, Any]) -> Nets:
    on: dict[int, set[int]] = {}
    for number, cell in enumerate(module["cells"].values()):
        for bits in cell["connections"].values():
            for bit in bits:
                if isinstance(bit, int):
                    on.setdefault(bit, set()).add(number)
    nets = [sorted(cells) for cells in on.values() if 2 <= len(cells) <= FANOUT]
    first, pins = _joined(nets)
    of_cell: list[list[int]] = [[] for _ in module["cells"]]
    for net, cells in enumerate(nets):
        for member in cells:
            of_cell[member].append(net)
    sizes = np.diff(first)
    q = np.interp(sizes, [*TREE], [*TREE.values()]) * np.sqrt(np.maximum(sizes / max(TREE), 1))
    return Nets(q, first, pins, *_joined(of_cell))


def _joined(lists: Iterable[list[int]]) -> tuple[Ints, Ints]:
    """Where each list begins in all of them behind each other, and these."""
    lists = list(lists)
    begins = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    return begins, np.array([value for one in lists for value in one], np.int32)


def refine(module: dict[str, Any], seed: int = 1) -> Refined:
    """Anneal the placement of nextpnr's module and write the places into it.

    The same module and seed give the same placement.
    """
    rng = np.random.default_rng(seed)
    placement = placement_of(module)
    copies = copy_registers(module, placement.names, placement.cells)
    if copies:
        placement = placement_of(module)
    crowd = anneal.Crowding(np.zeros(anneal.BINS), ROOM * np.maximum(_tiles_of_bins(), 1.0))
    parts = placement.cells, placement.nets, placement.groups, placement.sites

    def run(moves: int, heat: Any, reach: Any) -> Any:
        return anneal.anneal(rng, moves, heat, reach, CROWDING, *parts, crowd)

    before = after = run(0, HEAT, REACH)
    for step in progress(range(STEPS), "annealing the placement", unit="steps"):
        heat, reach = (
            tuple(high * (low / high) ** (at / STEPS) for at in (step, step + 1))
            for high, low in (HEAT, REACH)
        )
        after = run(MOVES * len(placement.names) // STEPS, heat, reach)
    _check(placement.cells)
    placement.write()
    return Refined(copies, before[0], after[0], before[1], after[1])


def _tiles_of_bins() -> np.ndarray:
    """Tiles of each bin that are not at the edge of the part."""
    found = np.zeros((-(-COLUMNS // anneal.BIN), anneal.BIN_ROWS))
    for column in range(2, COLUMNS - 4):
        for row in range(2, ROWS - 3):
            found[column // anneal.BIN, row // anneal.BIN] += 1
    return found.ravel()


def _check(cells: Cells) -> None:
    for tile in set((cells.slot[cells.slot >= 0] // SLOTS).tolist()):
        assert legal(tile, cells), f"tile {tile} holds what it may not"
