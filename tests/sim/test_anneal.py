"""Annealing a placement: cost, rules and places against an account of them in plain Python."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sim.synth import anneal
from sim.synth.anneal import BIN, BIN_ROWS, BINS
from sim.synth.placement import (
    BLOCK_RAM,
    COLUMNS,
    DSP,
    FLIP_FLOP,
    LUT,
    ROWS,
    SLOTS,
    Cells,
    Groups,
    Nets,
    Sites,
)

SIDE = 8  # columns and rows of tiles that are used
COLUMN = 10  # the first of them
Parts = tuple[Cells, Nets, Groups, Sites]


def random_parts(seed: int) -> Parts:
    """A legal placement: chains of LUTs, flip-flops tied and free, DSPs, block RAMs."""
    rng = np.random.default_rng(seed)
    tiles = COLUMNS * ROWS
    count = 300
    kind = np.zeros(count, np.int8)
    x, y, enable, control = (np.zeros(count, np.int32) for _ in range(4))
    slot, group = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    lut, flip_flop = (np.full(tiles * SLOTS, -1, np.int32) for _ in range(2))
    tied, selects = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    usable = [(COLUMN + i) * ROWS + j for i in range(SIDE) for j in range(SIDE)]
    is_open = np.zeros(tiles, np.bool_)
    is_open[usable] = rng.random(len(usable)) < 0.9
    found = Cells(kind, x, y, slot, lut, flip_flop, is_open, enable, control, tied, selects, group)

    def put(cell: int, at: int) -> None:
        slot[cell], (x[cell], y[cell]) = at, divmod(at // SLOTS, ROWS)

    cell, begins, slots, shapes = 0, [0], [], []
    for number, tile in enumerate(rng.permutation(usable)[:8].tolist()):  # chains of 2 or 4
        length = 2 << number % 2
        for at in range(tile * SLOTS, tile * SLOTS + length):
            kind[cell], group[cell], lut[at] = LUT, number, cell
            put(cell, at)
            slots.append(at)
            cell += 1
        begins.append(len(slots))
        shapes.append(number % 2)
    places = rng.permutation([t * SLOTS + s for t in usable for s in range(SLOTS)]).tolist()
    for at in places:
        if cell >= 270:
            break
        if lut[at] < 0 and rng.random() < 0.5:
            kind[cell], lut[at], selects[cell] = LUT, cell, rng.random() < 0.2
            put(cell, at)
            cell += 1
        if rng.random() < 0.5:
            kind[cell], flip_flop[at] = FLIP_FLOP, cell
            tied[cell] = lut[at] >= 0 and group[lut[at]] < 0 and rng.random() < 0.5
            enable[cell], control[cell] = rng.integers(2), rng.integers(2)
            put(cell, at)
            cell += 1
            if not rules_hold(found, at // SLOTS):
                cell -= 1
                kind[cell], flip_flop[at], tied[cell], slot[cell] = 0, -1, False, -1
    sites = [(2 + 3 * i, 1 + 4 * j) for i in range(4) for j in range(4)]
    site_x, site_y = (np.array(axis, np.int32) for axis in zip(*sites))
    holds = np.full(len(sites), -1, np.int32)
    for number in (0, 3, 5, 9, 12, 15):
        kind[cell] = BLOCK_RAM if number < 8 else DSP
        x[cell], y[cell], holds[number] = site_x[number], site_y[number], cell
        cell += 1
    nets = [
        sorted(rng.choice(cell, rng.choice((2, 3, 5, 12, 40)), replace=False).tolist())
        for _ in range(250)
    ]
    of_cell: list[list[int]] = [[] for _ in range(count)]
    for net, pins in enumerate(nets):
        for pin in pins:
            of_cell[pin].append(net)
    q = rng.uniform(1, 3, len(nets))
    joined = [
        (np.cumsum([0, *map(len, lists)]), [value for one in lists for value in one])
        for lists in (nets, of_cell)
    ]
    as_nets = Nets(q, *(np.array(part, np.int32) for pair in joined for part in pair))
    groups = Groups(*(np.array(part, np.int32) for part in (begins, slots, shapes)))
    held = Sites(site_x, site_y, holds, np.array([0, 8, 16], np.int32))
    return found, as_nets, groups, held


def rules_hold(cells: Cells, tile: int) -> bool:
    """What nextpnr's ecp5/arch_place.cc asks of a tile, said once more."""
    inside = [int(c) for c in cells.flip_flop[tile * SLOTS : tile * SLOTS + SLOTS]]
    present = [cell for cell in inside if cell >= 0]
    if len({int(cells.control[cell]) for cell in present}) > 1:
        return False
    for one, other in zip(inside[::2], inside[1::2]):
        if one >= 0 and other >= 0 and cells.enable[one] != cells.enable[other]:
            return False
    luts = cells.lut[tile * SLOTS : tile * SLOTS + SLOTS]
    taken = [lut >= 0 and bool(cells.selects[lut]) for lut in luts]
    return not any(cell >= 0 and not cells.tied[cell] and m for cell, m in zip(inside, taken))


def cost(parts: Parts, room: np.ndarray, weight: float) -> tuple[float, float]:
    """Wires and penalty, tile by tile."""
    cells, nets, *_ = parts
    wires, demand = 0.0, np.zeros((COLUMNS, BIN_ROWS * BIN))
    for net, (begin, end) in enumerate(pairwise(nets.first.tolist())):
        pins = nets.pins[begin:end]
        x, y = cells.x[pins], cells.y[pins]
        length = nets.q[net] * float(np.ptp(x) + np.ptp(y))
        wires += length
        box = demand[x.min() : x.max() + 1, y.min() : y.max() + 1]
        box += (length + end - begin) / box.size
    of_bins = demand.reshape(-1, BIN, BIN_ROWS, BIN).sum((1, 3)).ravel()
    return wires, float((weight * np.maximum(of_bins - room, 0) ** 2 / room).sum())


def run(parts: Parts, room: np.ndarray, moves: int, heat: tuple[float, float]) -> Any:
    crowd = anneal.Crowding(np.zeros(BINS), room)
    rng = np.random.default_rng(3)
    return anneal.anneal(rng, moves, heat, (6.0, 2.0), 0.5, *parts, crowd)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("heat", [(5.0, 0.2), (0.01, 0.01)])
def test_what_is_true_before_is_true_after(seed: int, heat: tuple[float, float]) -> None:
    parts = random_parts(seed)
    cells, _, groups, sites = parts
    room = np.full(BINS, 40.0)
    before = cost(parts, room, 0.5)
    assert run(parts, room, 0, heat) == pytest.approx(before)
    closed = [(int(cell), int(cells.slot[cell])) for cell in np.flatnonzero(cells.slot >= 0)]
    closed = [(cell, slot) for cell, slot in closed if not cells.open[slot // SLOTS]]
    assert closed
    pairs = [(int(f), int(cells.lut[cells.slot[f]])) for f in np.flatnonzero(cells.tied)]
    assert pairs
    lie = [cells.slot[cells.group == number].tolist() for number in range(len(groups.shape))]
    shapes = [[at - slots[0] for at in slots] for slots in lie]

    after = run(parts, room, 60_000, heat)
    assert after == pytest.approx(cost(parts, room, 0.5))
    assert sum(after) < 0.9 * sum(before)
    for cell, slot in closed:
        assert cells.slot[cell] == slot
    for flip_flop, lut in pairs:
        assert cells.slot[flip_flop] == cells.slot[lut]
    for number, shape in enumerate(shapes):
        slots = cells.slot[cells.group == number].tolist()
        assert [at - slots[0] for at in slots] == shape
        assert slots[0] % SLOTS == 0
        assert groups.slots[groups.first[number] : groups.first[number + 1]].tolist() == slots
    for kind, holds in ((LUT, cells.lut), (FLIP_FLOP, cells.flip_flop)):
        there = np.flatnonzero(holds >= 0)
        assert sorted(holds[there].tolist()) == np.flatnonzero(cells.kind == kind).tolist()
        assert (cells.slot[holds[there]] == there).all()
        assert (cells.x[holds[there]] == there // SLOTS // ROWS).all()
        assert (cells.y[holds[there]] == there // SLOTS % ROWS).all()
    for tile in range(COLUMNS * ROWS):
        assert rules_hold(cells, tile)
    for site, cell in enumerate(sites.cell.tolist()):
        if cell >= 0:
            assert cells.kind[cell] == (BLOCK_RAM if site < 8 else DSP)
            assert (cells.x[cell], cells.y[cell]) == (sites.x[site], sites.y[site])
    assert np.count_nonzero(sites.cell >= 0) == 6


def test_crowding_is_given_up_wire_for() -> None:
    """With little room the demand of the fullest bin falls, and wires are longer than without."""
    found = {}
    for room in (1e9, 900.0):
        parts = random_parts(1)
        crowd = anneal.Crowding(np.zeros(BINS), np.full(BINS, room))
        rng = np.random.default_rng(5)
        wires, _ = anneal.anneal(rng, 100_000, (3.0, 0.1), (6.0, 2.0), 4.0, *parts, crowd)
        found[room] = wires, crowd.demand.max()
    assert found[900.0][0] > found[1e9][0]
    assert found[900.0][1] < 0.9 * found[1e9][1]


def test_the_same_seed_gives_the_same_places() -> None:
    one, other = random_parts(2), random_parts(2)
    for parts in (one, other):
        run(parts, np.full(BINS, 40.0), 5_000, (2.0, 0.1))
    assert (one[0].slot == other[0].slot).all()
    assert (one[3].cell == other[3].cell).all()
