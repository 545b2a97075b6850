"""Moves of an annealing: a cell, a group of cells or a macro, and what it changes places with.

Each draws a move and writes it into `move`; the number of its entries is returned, 0 for none.
"""

from __future__ import annotations

import numpy as np

from sim.synth.placement import (
    COLUMNS,
    FLIP_FLOP,
    FLIP_FLOPS,
    LUTS,
    MACROS,
    ROWS,
    SLOTS,
    Cells,
    Groups,
    Move,
    Sites,
    compiled,
    legal,
)

MACRO_REACH = 30  # columns


@compiled
def _tied(slot: int, cells: Cells) -> bool:
    cell = cells.flip_flop[slot]
    return bool(cell >= 0 and cells.tied[cell])


@compiled
def _grouped(slot: int, cells: Cells) -> bool:
    cell = cells.lut[slot]
    return bool(cell >= 0 and cells.group[cell] >= 0)


@compiled
def _near(rng: np.random.Generator, tile: int, reach: int) -> int:
    """A tile at most `reach` columns and rows from another one; -1: beyond the part."""
    column = tile // ROWS + rng.integers(-reach, reach + 1)
    row = tile % ROWS + rng.integers(-reach, reach + 1)
    return int(column * ROWS + row) if 0 <= column < COLUMNS - 1 and 0 <= row < ROWS else -1


@compiled
def single(rng: np.random.Generator, cell: int, reach: int, move: Move, cells: Cells) -> int:
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


@compiled
def whole(
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


@compiled
def macro(rng: np.random.Generator, move: Move, sites: Sites) -> int:
    """A DSP or block RAM and another site of its kind; entries, 0: none."""
    here, there = rng.integers(0, len(sites.cell)), rng.integers(0, len(sites.cell))
    if sites.cell[here] < 0 or here == there or abs(sites.x[here] - sites.x[there]) > MACRO_REACH:
        return 0
    if (here < sites.first[1]) != (there < sites.first[1]):
        return 0
    move.here[0], move.there[0], move.what[0] = here, there, MACROS
    return 1


@compiled
def moved_groups(count: int, move: Move, groups: Groups, cells: Cells) -> None:
    """Note where the groups of a move that was made lie now."""
    one = cells.group[cells.lut[move.there[0]]]
    other = cells.group[cells.lut[move.here[0]]] if cells.lut[move.here[0]] >= 0 else -1
    for entry in range(count):
        groups.slots[groups.first[one] + entry] = move.there[entry]
        if other >= 0:
            groups.slots[groups.first[other] + entry] = move.here[entry]


@compiled
def all_legal(count: int, move: Move, cells: Cells) -> bool:
    for entry in range(count):
        if move.what[entry] != MACROS and not (
            legal(move.here[entry] // SLOTS, cells) and legal(move.there[entry] // SLOTS, cells)
        ):
            return False
    return True
