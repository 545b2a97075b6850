"""A placement on an ECP5 as arrays: cells, nets, what may lie where, and places changed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golden.fast.compiled import compiler

COLUMNS, ROWS = 128, 97  # of tiles, LFE5U-85F
SLOTS = 8  # of a tile: a LUT and a flip-flop each
FIXED, LUT, FLIP_FLOP, BLOCK_RAM, DSP = range(5)
LUTS, FLIP_FLOPS, MACROS = 1, 2, 4  # what a move moves

compiled = compiler(Path(__file__).parent)  # of what the modules of this folder have

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


class Move(NamedTuple):
    """What changes places: `LUTS`, `FLIP_FLOPS` or both of two slots, `MACROS` of two sites."""

    here: Ints
    there: Ints
    what: Ints


@compiled
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


@compiled
def _put(cell: int, slot: int, cells: Cells) -> None:
    if cell >= 0:
        cells.slot[cell] = slot
        cells.x[cell], cells.y[cell] = slot // SLOTS // ROWS, slot // SLOTS % ROWS


@compiled
def swap(count: int, move: Move, cells: Cells, sites: Sites) -> None:
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
