"""Simulated annealing of a placement on an ECP5: cells change places, and wires get shorter.

    cost = sum over nets q (width + height) + weight * sum over bins max(0, demand - room)^2 / room

q is how much longer than that the shortest tree of a net with so many pins is, in the mean. A net's
demand, q (width + height) + pins over the tiles of its box, is what it takes of each of them.
Compiled by Numba; `sim.synth.refine` makes the arrays from nextpnr's placement and puts them back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

COLUMNS, ROWS = 128, 97  # of tiles, LFE5U-85F
SLOTS = 8  # of a tile: a LUT and a flip-flop each
BIN = 4  # tiles along each side of a bin
BIN_ROWS = -(-ROWS // BIN)
FIXED, LUT, FLIP_FLOP, BLOCK_RAM, DSP = range(5)
LUTS, FLIP_FLOPS, MACROS = 1, 2, 4  # what a move moves
OF_GROUPS, OF_MACROS = 0.03, 0.001  # of all moves; the others are single cells
MACRO_REACH = 30  # columns

Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Cells(NamedTuple):
    """Cells and where they lie; slot s is in tile s // `SLOTS`, tile t in column t // `ROWS`.

    kind, x, y, slot
        By cell; slot -1: neither LUT nor flip-flop.
    lut, flip_flop
        By slot, -1: empty.
    open
        By tile: it has slots, and what lies in them may move.
    enable, control
        Of a flip-flop: those of a slice share the one, those of a tile the other.
    tied
        A flip-flop that takes its LUT's output inside of the slot, so they move together.
    selects
        A LUT that uses the slot's M, which a flip-flop that is not tied takes its data from.
    group
        By cell: LUTs of a carry chain or of a wide multiplexer, which move together; -1: none.
    """

    kind: NDArray[np.int8]
    x: Ints
    y: Ints
    slot: Ints
    lut: Ints
    flip_flop: Ints
    open: Flags
    enable: Ints
    control: Ints
    tied: Flags
    selects: Flags
    group: Ints


class Nets(NamedTuple):
    """Cells of net n: pins[first[n] : first[n + 1]]; nets of cell c: of[begin[c] : begin[c + 1]].

    q
        By net: see above.
    """

    q: NDArray[np.float64]
    first: Ints
    pins: Ints
    begin: Ints
    of: Ints


class Groups(NamedTuple):
    """Slots of group g: slots[first[g] : first[g + 1]]; those of one shape may change places."""

    first: Ints
    slots: Ints
    shape: Ints


class Sites(NamedTuple):
    """Of DSPs and block RAMs: the cell there (-1: none); block RAMs are those before first[1]."""

    x: Ints
    y: Ints
    cell: Ints
    first: Ints


class Crowding(NamedTuple):
    """By bin, column first: the demand, and what there is room for."""

    demand: NDArray[np.float64]
    room: NDArray[np.float64]


class Move(NamedTuple):
    """What changes places: `LUTS`, `FLIP_FLOPS` or both of two slots, `MACROS` of two sites."""

    here: Ints
    there: Ints
    what: Ints


class Wires(NamedTuple):
    """The box of every net; of the move in hand the nets that it changes, and their new boxes."""

    box: Ints
    seen: NDArray[np.int64]
    changed: Ints
    boxes: Ints


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def legal(tile: int, cells: Cells) -> bool:
    """Whether the slots of a tile may be filled as they are."""
    control = -1
    for slot in range(tile * SLOTS, tile * SLOTS + SLOTS, 2):
        one, other = cells.flip_flop[slot], cells.flip_flop[slot + 1]
        if one >= 0 and other >= 0 and cells.enable[one] != cells.enable[other]:
            return False
        for at in (slot, slot + 1):
            cell = cells.flip_flop[at]
            if cell < 0:
                continue
            if control >= 0 and cells.control[cell] != control:
                return False
            control = cells.control[cell]
            lut = cells.lut[at]
            if not cells.tied[cell] and lut >= 0 and cells.selects[lut]:
                return False
    return True


@njit(cache=True)
def _put(cell: int, slot: int, cells: Cells) -> None:
    if cell >= 0:
        cells.slot[cell] = slot
        cells.x[cell], cells.y[cell] = slot // SLOTS // ROWS, slot // SLOTS % ROWS


@njit(cache=True)
def _swap(count: int, move: Move, cells: Cells, sites: Sites) -> None:
    """Make a move; once more, and everything is where it was."""
    for entry in range(count):
        here, there, what = move.here[entry], move.there[entry], move.what[entry]
        if what & LUTS:
            one, other = cells.lut[here], cells.lut[there]
            cells.lut[here], cells.lut[there] = other, one
            _put(one, there, cells)
            _put(other, here, cells)
        if what & FLIP_FLOPS:
            one, other = cells.flip_flop[here], cells.flip_flop[there]
            cells.flip_flop[here], cells.flip_flop[there] = other, one
            _put(one, there, cells)
            _put(other, here, cells)
        if what == MACROS:
            one, other = sites.cell[here], sites.cell[there]
            sites.cell[here], sites.cell[there] = other, one
            for cell, site in ((one, there), (other, here)):
                if cell >= 0:
                    cells.x[cell], cells.y[cell] = sites.x[site], sites.y[site]


@njit(cache=True)
def _tied(slot: int, cells: Cells) -> bool:
    cell = cells.flip_flop[slot]
    return bool(cell >= 0 and cells.tied[cell])


@njit(cache=True)
def _grouped(slot: int, cells: Cells) -> bool:
    cell = cells.lut[slot]
    return bool(cell >= 0 and cells.group[cell] >= 0)


@njit(cache=True)
def _near(rng: np.random.Generator, tile: int, reach: int) -> int:
    """A tile at most `reach` columns and rows from another one; -1: beyond the part."""
    column = tile // ROWS + rng.integers(-reach, reach + 1)
    row = tile % ROWS + rng.integers(-reach, reach + 1)
    return int(column * ROWS + row) if 0 <= column < COLUMNS - 1 and 0 <= row < ROWS else -1


@njit(cache=True)
def _single(rng: np.random.Generator, cell: int, reach: int, move: Move, cells: Cells) -> int:
    """A LUT or flip-flop and what lies in another slot; entries of the move, 0: none."""
    here = cells.slot[cell]
    tile = _near(rng, here // SLOTS, reach)
    if tile < 0 or tile == here // SLOTS or not (cells.open[tile] and cells.open[here // SLOTS]):
        return 0
    there = tile * SLOTS + rng.integers(0, SLOTS)
    both = _tied(here, cells) or _tied(there, cells)
    if cells.kind[cell] == FLIP_FLOP and not both:
        what = FLIP_FLOPS
    elif _grouped(here, cells) or _grouped(there, cells):
        return 0
    else:
        what = LUTS | FLIP_FLOPS if both else LUTS
    move.here[0], move.there[0], move.what[0] = here, there, what
    return 1


@njit(cache=True)
def _whole(
    rng: np.random.Generator, group: int, reach: int, move: Move, cells: Cells, groups: Groups
) -> int:
    """A group and what lies elsewhere, a group of its shape or single cells; entries, 0: none."""
    begin, end = groups.first[group], groups.first[group + 1]
    base = groups.slots[begin] // SLOTS
    tile = _near(rng, base, reach)
    if tile < 0 or tile == base:
        return 0
    shift = (tile - base) * SLOTS
    last = len(cells.lut)
    first = groups.slots[begin] + shift
    if not 0 <= first < last:
        return 0
    other = -1
    if _grouped(first, cells):
        other = cells.group[cells.lut[first]]
        same = groups.shape[other] == groups.shape[group]
        if other == group or not same or groups.slots[groups.first[other]] != first:
            return 0
    for entry in range(end - begin):
        here = groups.slots[begin + entry]
        there = here + shift
        if not 0 <= there < last:
            return 0
        if not (cells.open[here // SLOTS] and cells.open[there // SLOTS]):
            return 0
        lut = cells.lut[there]
        if (lut < 0 and other >= 0) or (lut >= 0 and cells.group[lut] not in (-1, other)):
            return 0
        both = _tied(here, cells) or _tied(there, cells)
        what = LUTS | FLIP_FLOPS if both else LUTS
        move.here[entry], move.there[entry], move.what[entry] = here, there, what
    return int(end - begin)


@njit(cache=True)
def _macro(rng: np.random.Generator, move: Move, sites: Sites) -> int:
    """A DSP or block RAM and another site of its kind; entries, 0: none."""
    here, there = rng.integers(0, len(sites.cell)), rng.integers(0, len(sites.cell))
    if sites.cell[here] < 0 or here == there or abs(sites.x[here] - sites.x[there]) > MACRO_REACH:
        return 0
    if (here < sites.first[1]) != (there < sites.first[1]):
        return 0
    move.here[0], move.there[0], move.what[0] = here, there, MACROS
    return 1


@njit(cache=True)
def _moved_groups(count: int, move: Move, groups: Groups, cells: Cells) -> None:
    """Note where the groups of a move that was made lie now."""
    one = cells.group[cells.lut[move.there[0]]]
    other = cells.group[cells.lut[move.here[0]]] if cells.lut[move.here[0]] >= 0 else -1
    for entry in range(count):
        groups.slots[groups.first[one] + entry] = move.there[entry]
        if other >= 0:
            groups.slots[groups.first[other] + entry] = move.here[entry]


@njit(cache=True)
def _all_legal(count: int, move: Move, cells: Cells) -> bool:
    for entry in range(count):
        if move.what[entry] != MACROS and not (
            legal(move.here[entry] // SLOTS, cells) and legal(move.there[entry] // SLOTS, cells)
        ):
            return False
    return True


@njit(cache=True)
def _touch(cell: int, stamp: int, cells: Cells, nets: Nets, wires: Wires, found: int) -> int:
    """List the nets of a cell whose boxes are others now, behind the `found` before."""
    if cell < 0:
        return found
    for entry in range(nets.begin[cell], nets.begin[cell + 1]):
        net = nets.of[entry]
        if wires.seen[net] == stamp:
            continue
        wires.seen[net] = stamp
        new, old = bounds(net, nets, cells), wires.box[net]
        if new[0] != old[0] or new[1] != old[1] or new[2] != old[2] or new[3] != old[3]:
            wires.changed[found], wires.boxes[found] = net, new
            found += 1
    return found


@njit(cache=True)
def _changed(
    count: int, move: Move, stamp: int, cells: Cells, nets: Nets, sites: Sites, wires: Wires
) -> int:
    """List the nets whose boxes a move has changed; how many they are."""
    found = 0
    for entry in range(count):
        for at in (move.here[entry], move.there[entry]):
            what = move.what[entry]
            if what & LUTS:
                found = _touch(cells.lut[at], stamp, cells, nets, wires, found)
            if what & FLIP_FLOPS:
                found = _touch(cells.flip_flop[at], stamp, cells, nets, wires, found)
            if what == MACROS:
                found = _touch(sites.cell[at], stamp, cells, nets, wires, found)
    return found


@njit(cache=True)
def _longer(found: int, nets: Nets, wires: Wires) -> float:
    longer = 0.0
    for entry in range(found):
        net, new = wires.changed[entry], wires.boxes[entry]
        longer += nets.q[net] * (_half(new) - _half(wires.box[net]))
    return longer


@njit(cache=True)
def _half(box: Any) -> int:
    return box[1] - box[0] + box[3] - box[2]


@njit(cache=True)
def _crowded(
    sign: int, found: int, nets: Nets, wires: Wires, crowd: Crowding, weight: float
) -> float:
    """Put the changed nets' demand from the old boxes into the new ones (sign -1: back)."""
    change = 0.0
    for entry in range(found):
        net = wires.changed[entry]
        change += ask(-sign, net, nets, wires.box[net], crowd, weight)
        change += ask(sign, net, nets, wires.boxes[entry], crowd, weight)
    return change


@njit(cache=True)
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
            entries = _whole(rng, one, far, move, cells, groups)
        elif draw < OF_GROUPS + OF_MACROS and len(sites.cell) > 0:
            entries = _macro(rng, move, sites)
        else:
            entries = _single(rng, logic[rng.integers(0, len(logic))], far, move, cells)
        if entries == 0:
            continue
        _swap(entries, move, cells, sites)
        taken = _all_legal(entries, move, cells)
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
                        _moved_groups(entries, move, groups, cells)
                else:
                    _crowded(-1, found, nets, wires, crowd, weight)
        if not taken:
            _swap(entries, move, cells, sites)
    return length, penalty
