"""Simulated annealing of a placement on an ECP5: cells change places, and wires get shorter.

    cost = sum over nets q (width + height) + weight * sum over bins max(0, demand - room)^2 / room

q is how much longer than that the shortest tree of a net with so many pins is, in the mean. A net's
demand, q (width + height) + pins over the tiles of its box, is what it takes of each of them.
Compiled by Numba; `sim.synth.refine` makes the arrays from nextpnr's placement and puts them back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.synth.moves import all_legal, macro, moved_groups, single, whole
from sim.synth.placement import (
    COLUMNS,
    FLIP_FLOPS,
    LUTS,
    MACROS,
    ROWS,
    SLOTS,
    Cells,
    Groups,
    Ints,
    Move,
    Nets,
    Sites,
    compiled,
    swap,
)

BIN = 4  # tiles along each side of a bin
BIN_ROWS = -(-ROWS // BIN)
BINS = BIN_ROWS * -(-COLUMNS // BIN)
OF_GROUPS, OF_MACROS = 0.03, 0.001  # of all moves; the others are single cells


class Crowding(NamedTuple):
    """By bin, column first: the demand, and what there is room for."""

    demand: NDArray[np.float64]
    room: NDArray[np.float64]


class Wires(NamedTuple):
    """The box of every net; of the move in hand the nets that it changes, and their new boxes."""

    box: Ints
    seen: NDArray[np.int64]  # number of the move that moved one of its cells
    at: Ints  # which of `changed` it is
    changed: Ints
    boxes: Ints


@compiled
def bounds(net: int, nets: Nets, cells: Cells) -> tuple[int, int, int, int]:
    """First and last column, first and last row of a net."""
    cell = nets.pins[nets.first[net]]
    x0 = x1 = cells.x[cell]
    y0 = y1 = cells.y[cell]
    for pin in range(nets.first[net] + 1, nets.first[net + 1]):
        cell = nets.pins[pin]
        x, y = cells.x[cell], cells.y[cell]
        x0, x1, y0, y1 = min(x0, x), max(x1, x), min(y0, y), max(y1, y)
    return x0, x1, y0, y1


@compiled
def ask(sign: int, net: int, nets: Nets, box: Any, crowd: Crowding, weight: float) -> float:
    """Add a net's demand to the bins (sign -1: take it away); the change of the penalty."""
    x0, x1, y0, y1 = box[0], box[1], box[2], box[3]
    taken = nets.q[net] * ((x1 - x0) + (y1 - y0)) + nets.first[net + 1] - nets.first[net]
    each = sign * taken / ((x1 - x0 + 1) * (y1 - y0 + 1))
    change = 0.0
    for column in range(x0 // BIN, x1 // BIN + 1):
        width = min(x1, column * BIN + BIN - 1) - max(x0, column * BIN) + 1
        for row in range(y0 // BIN, y1 // BIN + 1):
            height = min(y1, row * BIN + BIN - 1) - max(y0, row * BIN) + 1
            at = column * BIN_ROWS + row
            room = crowd.room[at]
            before = max(0.0, crowd.demand[at] - room)
            crowd.demand[at] += each * width * height
            after = max(0.0, crowd.demand[at] - room)
            change += weight * (after * after - before * before) / room
    return change


@compiled
def _stays(old: int, new: int, low: int, high: int) -> bool:
    """Whether the box of a net, of which one pin moved from old to new, does not shrink there."""
    return not (old == low and new > low) and not (old == high and new < high)


@compiled
def _touch(
    cell: int, x: int, y: int, stamp: int, cells: Cells, nets: Nets, wires: Wires, found: int
) -> int:
    """List the nets of a cell that came from x, y, with their new boxes, behind those `found`."""
    if cell < 0:
        return found
    new_x, new_y = cells.x[cell], cells.y[cell]
    for entry in range(nets.begin[cell], nets.begin[cell + 1]):
        net = nets.of[entry]
        if wires.seen[net] == stamp:  # another of its cells has moved, too
            wires.boxes[wires.at[net]] = bounds(net, nets, cells)
            continue
        wires.seen[net], wires.at[net], wires.changed[found] = stamp, found, net
        x0, x1, y0, y1 = wires.box[net]
        if _stays(x, new_x, x0, x1) and _stays(y, new_y, y0, y1):
            box = min(x0, new_x), max(x1, new_x), min(y0, new_y), max(y1, new_y)
            wires.boxes[found] = box
        else:
            wires.boxes[found] = bounds(net, nets, cells)
        found += 1
    return found


@compiled
def _changed(
    count: int, move: Move, stamp: int, cells: Cells, nets: Nets, sites: Sites, wires: Wires
) -> int:
    """List the nets of what a move has moved, with their new boxes; how many they are."""
    found = 0
    for entry in range(count):
        what = move.what[entry]
        for now, before in (
            (move.here[entry], move.there[entry]),
            (move.there[entry], move.here[entry]),
        ):
            if what == MACROS:
                x, y = sites.x[before], sites.y[before]
                found = _touch(sites.cell[now], x, y, stamp, cells, nets, wires, found)
                continue
            x, y = before // SLOTS // ROWS, before // SLOTS % ROWS
            if what & LUTS:
                found = _touch(cells.lut[now], x, y, stamp, cells, nets, wires, found)
            if what & FLIP_FLOPS:
                found = _touch(cells.flip_flop[now], x, y, stamp, cells, nets, wires, found)
    return found


@compiled
def _longer(found: int, nets: Nets, wires: Wires) -> float:
    longer = 0.0
    for entry in range(found):
        net, new = wires.changed[entry], wires.boxes[entry]
        longer += nets.q[net] * (_half(new) - _half(wires.box[net]))
    return longer


@compiled
def _half(box: Any) -> int:
    return box[1] - box[0] + box[3] - box[2]


@compiled
def _crowded(
    sign: int, found: int, nets: Nets, wires: Wires, crowd: Crowding, weight: float
) -> float:
    """Put the changed nets' demand from the old boxes into the new ones (sign -1: back)."""
    change = 0.0
    for entry in range(found):
        net, old, new = wires.changed[entry], wires.box[wires.changed[entry]], wires.boxes[entry]
        if old[0] != new[0] or old[1] != new[1] or old[2] != new[2] or old[3] != new[3]:
            change += ask(-sign, net, nets, old, crowd, weight)
            change += ask(sign, net, nets, new, crowd, weight)
    return change


@compiled
def anneal(
    rng: np.random.Generator,
    moves: int,
    heat: tuple[float, float],
    reach: tuple[float, float],
    weight: float,
    cells: Cells,
    nets: Nets,
    groups: Groups,
    sites: Sites,
    crowd: Crowding,
) -> tuple[float, float]:
    """Try so many moves; the wires in tiles and the penalty for crowding after them.

    heat, reach
        Temperature in tiles and how far a move goes in tiles, at the beginning and at the end.
    weight
        Of the penalty.
    """
    count = len(nets.q)
    wires = Wires(
        np.empty((count, 4), np.int32),
        np.full(count, -1, np.int64),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty((count, 4), np.int32),
    )
    length, penalty = 0.0, 0.0
    crowd.demand[:] = 0
    for net in range(count):
        wires.box[net] = bounds(net, nets, cells)
        length += nets.q[net] * _half(wires.box[net])
        penalty += ask(1, net, nets, wires.box[net], crowd, weight)
    most = 1
    for group in range(len(groups.shape)):
        most = max(most, groups.first[group + 1] - groups.first[group])
    move = Move(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32))
    logic = np.flatnonzero(cells.slot >= 0)
    for number in range(moves):
        part = number / moves
        temperature = heat[0] * (heat[1] / heat[0]) ** part
        far = int(reach[0] * (reach[1] / reach[0]) ** part + 0.5)
        draw = rng.random()
        of_groups = draw < OF_GROUPS and len(groups.shape) > 0
        if of_groups:
            one = rng.integers(0, len(groups.shape))
            entries = whole(rng, one, far, move, cells, groups)
        elif draw < OF_GROUPS + OF_MACROS and len(sites.cell) > 0:
            entries = macro(rng, move, sites)
        else:
            entries = single(rng, logic[rng.integers(0, len(logic))], far, move, cells)
        if entries == 0:
            continue
        swap(entries, move, cells, sites)
        taken = all_legal(entries, move, cells)
        if taken:
            found = _changed(entries, move, number, cells, nets, sites, wires)
            limit = -temperature * np.log(rng.random() + 1e-12)
            longer = _longer(found, nets, wires)
            taken = longer <= limit + 12 * temperature + 8  # for more, no bin makes up
            if taken:
                crowded = _crowded(1, found, nets, wires, crowd, weight)
                taken = longer + crowded <= limit
                if taken:
                    length, penalty = length + longer, penalty + crowded
                    for entry in range(found):
                        wires.box[wires.changed[entry]] = wires.boxes[entry]
                    if of_groups:
                        moved_groups(entries, move, groups, cells)
                else:
                    _crowded(-1, found, nets, wires, crowd, weight)
        if not taken:
            swap(entries, move, cells, sites)
    return length, penalty
