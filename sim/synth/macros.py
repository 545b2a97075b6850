"""Places for DSPs and block RAMs, found before nextpnr places the logic around them.

nextpnr's static placer moves them to their few places when the logic has long gathered elsewhere,
and the logic follows. Here a global placement of the whole netlist gives them places first (SimPL:
Kim, Lee and Markov, 2012). It goes to and fro between two placements that pull on each other,
harder every time:

    short    the least sum of squared distances, whose weights make it the half-perimeter wirelength
             of the placement before (bound2bound: Spindler, Schlichtmann and Johannes, 2008), by
             conjugate gradients
    spread   every cell near where it was, the logic evenly over the part (bisected by its area
             again and again), each macro on a place of its own (the assignment of least distance)

Which of many minima it finds depends on where it starts, so several starts are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from cli.progress import progress

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import cg

Doubles: TypeAlias = NDArray[np.float64]
Places: TypeAlias = tuple[Doubles, Doubles]  # x and y of every cell, in tiles

WIDTH, HEIGHT = 126.0, 95.0  # tiles of an LFE5U-85F
EDGE = 2.0  # of its tiles without logic
BLOCKS = (*range(0, 63, 9), *range(65, 119, 9))  # first columns of what repeats in the rows below
SITES = {
    "MULT18X18D": [
        (f"X{block + x}/Y{y}/MULT18_{z}", block + x, y)
        for y in (10, 34, 58)
        for block in BLOCKS
        for x, z in ((4, 0), (5, 1), (8, 4), (9, 5))
    ],
    "DP16KD": [
        (f"X{block + 4 + 2 * z}/Y{y}/EBR{z}", block + 4 + 2 * z, y)
        for y in (22, 46, 70, 82)
        for block in BLOCKS
        for z in range(4)
    ],
}
"""The places of each kind of macro: nextpnr's name, column and row."""

AREA = {"LUT4": 1.0, "CCU2C": 2.0, "TRELLIS_FF": 0.35, "TRELLIS_DPR16X4": 6.0}
"""In LUTs. Most registers go with a LUT."""

FANOUT = 1500  # of nets that go everywhere, wherever their cells lie
TURNS = 120
PULL = 0.03  # more in every turn
STAY = 0.3  # of a macro, for each of its pins and tile that it moves; wires count 1
NEAR = 0.5  # tiles below which a distance does not count as less
LEAF = 12  # cells that bisection leaves together


class Hypergraph:
    """The cells of a flat netlist and the nets between them, as arrays.

    pins: the cells of all nets, net after net, of which `first` are the first places.
    """

    def __init__(self, module: dict[str, Any]) -> None:
        kinds = {name: cell["type"] for name, cell in module["cells"].items()}
        self.names = [name for name, kind in kinds.items() if kind != "$scopeinfo"]
        self.kinds = np.array([kinds[name] for name in self.names])
        self.area = np.array([AREA.get(kind, 0.0) for kind in self.kinds])
        cells: dict[int, set[int]] = {}
        for number, name in enumerate(self.names):
            for bits in module["cells"][name]["connections"].values():
                for bit in bits:
                    if isinstance(bit, int):
                        cells.setdefault(bit, set()).add(number)
        nets = [sorted(found) for found in cells.values() if 2 <= len(found) <= FANOUT]
        self.pins = np.array([cell for net in nets for cell in net], np.int64)
        self.sizes = np.array([len(net) for net in nets], np.int64)
        self.first = np.cumsum(self.sizes) - self.sizes
        self.net = np.repeat(np.arange(len(nets)), self.sizes)  # of each pin

    def wirelength(self, places: Places) -> float:
        """The sum over all nets of half the perimeter of the box around their cells, in tiles."""
        return float(sum((high - low).sum() for low, high in map(self._ends, places)))

    def pins_of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many nets each cell is on."""
        result: NDArray[np.int64] = np.bincount(self.pins, minlength=len(self.names))[cells]
        return result

    def _ends(self, x: Doubles) -> tuple[Doubles, Doubles]:
        found = x[self.pins]
        return np.minimum.reduceat(found, self.first), np.maximum.reduceat(found, self.first)

    def added(self, cells: NDArray[np.int64], x: Doubles, at: Doubles) -> Doubles:
        """Wire in one direction that each cell takes at each of the places `at`, [cells, at].

        The sum over its nets of the distance to the box around their other cells.
        """
        number = np.full(len(self.names), -1)
        number[cells] = np.arange(len(cells))
        ours = np.flatnonzero(number[self.pins] >= 0)
        net = self.net[ours]
        order = np.lexsort((x[self.pins], self.net))
        found, last = x[self.pins][order], self.first + self.sizes - 1
        lowest, highest = order[self.first[net]] == ours, order[last[net]] == ours
        low = found[self.first[net] + lowest]
        high = found[last[net] - highest]
        places, where = np.unique(at, return_inverse=True)
        apart = np.maximum(low[:, None] - places, 0) + np.maximum(places - high[:, None], 0)
        result = np.zeros((len(cells), len(places)))
        np.add.at(result, number[self.pins[ours]], apart)
        return result[:, where]

    def short(self, x: Doubles, target: Doubles, pull: Doubles) -> Doubles:
        """The `short` placement in one direction from x, each cell pulled to its target."""
        low, high = self._bounds(x)
        rows, columns, weights = [self.pins[high]], [self.pins[low]], [self._weight(x, low, high)]
        places = np.arange(len(self.pins))
        inner = (places != low[self.net]) & (places != high[self.net])
        for bound in (low[self.net], high[self.net]):
            rows.append(self.pins[inner])
            columns.append(self.pins[bound[inner]])
            weights.append(self._weight(x, places[inner], bound[inner]))
        a, b, w = (np.concatenate(parts) for parts in (rows, columns, weights))
        pairs = np.concatenate([a, b]), np.concatenate([b, a])
        size = len(self.names)
        matrix = coo_array((np.concatenate([w, w]), pairs), shape=(size, size)).tocsr()
        diagonal = np.asarray(matrix.sum(axis=1)).ravel() + pull
        system = diags_array(diagonal) - matrix
        inverse = diags_array(1 / diagonal)
        found, _ = cg(system, pull * target, x0=x, rtol=1e-4, maxiter=150, M=inverse)
        result: Doubles = found
        return result

    def _bounds(self, x: Doubles) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places in `pins` of the lowest and the highest cell of each net, two of them."""
        order = np.lexsort((x[self.pins], self.net))
        return order[self.first], order[self.first + self.sizes - 1]

    def _weight(self, x: Doubles, a: NDArray[np.int64], b: NDArray[np.int64]) -> Doubles:
        apart = np.abs(x[self.pins[a]] - x[self.pins[b]])
        result: Doubles = 2 / (self.sizes[self.net[a]] - 1) / np.maximum(apart, NEAR)
        return result


def places_of(module: dict[str, Any], starts: int = 1) -> tuple[dict[str, str], float]:
    """The place of every DSP and block RAM of a flat netlist, and the wirelength in tiles.

    Of so many starts the one with the shortest wires; the same netlist gives the same.
    """
    graph = Hypergraph(module)
    found = [
        _placed(graph, start) for start in progress(range(starts), "placing macros", unit="starts")
    ]
    macros, wires = min(found, key=lambda one: one[1])
    return macros, wires


def fix(module: dict[str, Any], starts: int = 1) -> float:
    """Give nextpnr the places of the macros; the wirelength with which they were found."""
    macros, wires = places_of(module, starts)
    for name, place in macros.items():
        module["cells"][name].setdefault("attributes", {})["BEL"] = place
    return wires


def _placed(graph: Hypergraph, start: int) -> tuple[dict[str, str], float]:
    rng = np.random.default_rng(start)
    size = len(graph.names)
    middle = np.full(size, WIDTH / 2), np.full(size, HEIGHT / 2)
    places = tuple(m + rng.uniform(-20, 20, size) for m in middle)
    x, y = (graph.short(p, m, np.full(size, 1e-4)) for p, m in zip(places, middle))
    best: tuple[dict[str, str], float] = {}, np.inf
    for turn in range(TURNS):
        spread, macros = _spread(graph, (x, y))
        wires = graph.wirelength(spread)
        if wires < best[1]:
            best = macros, wires
        pull = PULL * (turn + 1)
        x, y = (
            graph.short(p, s, pull / np.maximum(np.abs(p - s), NEAR))
            for p, s in zip((x, y), spread)
        )
    return best


def _spread(graph: Hypergraph, places: Places) -> tuple[Places, dict[str, str]]:
    """The `spread` placement near another one, and the names of the macros' places."""
    x, y = (p.copy() for p in places)
    for cells, box in _bisected(graph, places):
        for p, low, high in ((x, *box[:2]), (y, *box[2:])):
            p[cells] = _within(p[cells], low, high)
    macros = {}
    for kind, sites in SITES.items():
        cells = np.flatnonzero(graph.kinds == kind)
        columns, rows = (np.array([site[axis] for site in sites], np.float64) for axis in (1, 2))
        apart = np.abs(x[cells, None] - columns) + np.abs(y[cells, None] - rows)
        cost = graph.added(cells, x, columns) + graph.added(cells, y, rows)
        cost += STAY * graph.pins_of(cells)[:, None] * apart
        for cell, site in zip(cells, linear_sum_assignment(cost)[1]):
            x[cell], y[cell] = columns[site], rows[site]
            macros[graph.names[cell]] = sites[site][0]
    return (x, y), macros


def _bisected(
    graph: Hypergraph, places: Places
) -> Iterator[tuple[NDArray[np.int64], tuple[float, float, float, float]]]:
    """Boxes that cover the part, and the few cells of each: its share of the logic's area."""
    waiting = [(np.flatnonzero(graph.area), (EDGE, WIDTH - EDGE, EDGE, HEIGHT - EDGE))]
    while waiting:
        cells, box = waiting.pop()
        if len(cells) <= LEAF:
            yield cells, box
            continue
        left, right, bottom, top = box
        across = right - left >= top - bottom
        order = cells[np.argsort(places[0 if across else 1][cells], kind="stable")]
        area = np.cumsum(graph.area[order])
        half = min(max(int(np.searchsorted(area, area[-1] / 2)), 1), len(order) - 1)
        x, y = (left + right) / 2, (bottom + top) / 2
        boxes = (
            ((left, x, bottom, top), (x, right, bottom, top))
            if across
            else ((left, right, bottom, y), (left, right, y, top))
        )
        waiting += zip((order[:half], order[half:]), boxes)


def _within(x: Doubles, low: float, high: float) -> Doubles:
    """x as it is where it fits, else stretched over low..high in its order."""
    least, most = float(x.min(initial=low)), float(x.max(initial=low))
    if least >= low and most <= high:
        return x
    if most - least < 1e-9:
        return x.clip(low, high)
    return low + (x - least) / (most - least) * (high - low)
