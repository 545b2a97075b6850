"""Places of DSPs and block RAMs before nextpnr's own placement."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rtl.interface.config import Config
from sim.design import generated
from sim.synth import ecp5, macros

KINDS = {"LUT4": 60, "TRELLIS_FF": 40, "CCU2C": 9, "MULT18X18D": 7, "DP16KD": 5, "$scopeinfo": 3}


def module(seed: int, nets: int = 150) -> dict[str, Any]:
    """Cells of every kind on random nets of 2 to 6 pins, one of them on a net a hundredfold."""
    rng = np.random.default_rng(seed)
    cells: dict[str, Any] = {
        f"{kind}_{i}": {"type": kind, "connections": {}}
        for kind, count in KINDS.items()
        for i in range(count)
    }
    names = [name for name in cells if "scope" not in name]
    for net in range(nets):
        for pin, name in enumerate(rng.choice(names, int(rng.integers(2, 7)))):
            cells[name]["connections"][f"P{net}_{pin}"] = [net + 2, "0"]
    return {"cells": cells, "ports": {}}


def half_perimeters(source: dict[str, Any], where: dict[str, tuple[float, float]]) -> float:
    """By the definition, net by net."""
    nets: dict[int, set[str]] = {}
    for name, cell in source["cells"].items():
        for bits in cell["connections"].values():
            for bit in bits:
                if bit != "0":
                    nets.setdefault(bit, set()).add(name)
    total = 0.0
    for names in nets.values():
        xs, ys = zip(*(where[name] for name in names))
        total += max(xs) - min(xs) + max(ys) - min(ys)
    return total


def test_the_part_has_as_many_places() -> None:
    for kind, row in (("MULT18X18D", "DSP"), ("DP16KD", "block RAM")):
        assert len({name for name, _, _ in macros.SITES[kind]}) == ecp5.AVAILABLE[row]
        assert len({(x, y) for _, x, y in macros.SITES[kind]}) == ecp5.AVAILABLE[row]
        assert all(name.startswith(f"X{x}/Y{y}/") for name, x, y in macros.SITES[kind])


@pytest.mark.parametrize("seed", range(3))
def test_wirelength(seed: int) -> None:
    source = module(seed)
    graph = macros.Hypergraph(source)
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 90, (2, len(graph.names)))
    where = dict(zip(graph.names, zip(x.tolist(), y.tolist())))
    assert len(graph.names) == sum(KINDS.values()) - KINDS["$scopeinfo"]
    assert graph.wirelength((x, y)) == pytest.approx(half_perimeters(source, where))


@pytest.mark.parametrize("seed", range(3))
def test_the_wire_that_a_cell_takes_at_a_place(seed: int) -> None:
    """Against the boxes of its nets with the cell there and without the cell."""
    source = module(seed)
    graph = macros.Hypergraph(source)
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 20, len(graph.names)).astype(float)
    cells = np.flatnonzero(graph.kinds == "DP16KD")
    at = np.array([3.0, 0.0, 19.0, 7.0, 7.0, 12.0])
    found = graph.added(cells, x, at)
    assert found.shape == (len(cells), len(at))
    for number, cell in enumerate(cells):
        for place, column in enumerate(at):
            wanted, nets = 0.0, 0
            for first, count in zip(graph.first, graph.sizes):
                pins = graph.pins[first : first + count]
                if cell in pins:
                    nets += 1
                    others = x[pins[pins != cell]]
                    wanted += max(np.ptp(np.append(others, column)) - np.ptp(others), 0)
            assert found[number, place] == wanted
            assert graph.pins_of(cells)[number] == nets


@pytest.mark.parametrize("seed", range(3))
def test_short_wires_have_the_least_weighted_squares(seed: int) -> None:
    """Each cell lies at the weighted mean of what pulls on it: the form's gradient is 0. At the
    places of before, the squares of a net are its length: no two pins are nearer than NEAR."""
    graph = macros.Hypergraph(module(seed))
    rng = np.random.default_rng(seed)
    size = len(graph.names)
    before = rng.permutation(size) * 2.0  # all apart
    target, pull = rng.uniform(0, 90, size), rng.uniform(0.1, 1, size)
    found = graph.short(before, target, pull)
    gradient, squares = pull * (found - target), 0.0
    for first, count in zip(graph.first, graph.sizes):
        cells = graph.pins[first : first + count]
        low, high = cells[before[cells].argmin()], cells[before[cells].argmax()]
        pairs = {(low, high)} | {(a, b) for a in cells for b in (low, high) if a not in (low, high)}
        for a, b in pairs:
            weight = 2 / (count - 1) / abs(before[a] - before[b])
            squares += weight * (before[a] - before[b]) ** 2 / 2
            gradient[a] += weight * (found[a] - found[b])
            gradient[b] += weight * (found[b] - found[a])
    assert np.abs(gradient).max() < 0.02
    assert squares == pytest.approx(graph.wirelength((before, np.zeros(size))))


def test_every_macro_gets_a_place_of_its_own_kind() -> None:
    source = module(1)
    places, wires = macros.places_of(source)
    assert (places, wires) == macros.places_of(source)
    assert len(set(places.values())) == len(places) == KINDS["MULT18X18D"] + KINDS["DP16KD"]
    for name, place in places.items():
        kind = source["cells"][name]["type"]
        assert place in {site for site, _, _ in macros.SITES[kind]}
    assert macros.places_of(source, starts=3)[1] <= wires


def test_wires_are_far_shorter_than_by_chance() -> None:
    """Of two groups of cells that share no net."""
    cells: dict[str, Any] = {}
    for group in range(2):
        for number in range(200):
            kind = {0: "MULT18X18D", 1: "DP16KD"}.get(number // 3, "LUT4")
            nets = [1000 * group + (number * k) % 200 + 2 for k in (1, 3, 7)]
            pins = {f"P{i}": [net] for i, net in enumerate(nets)}
            cells[f"{group}_{number}"] = {"type": kind, "connections": pins}
    source = {"cells": cells, "ports": {}}
    _, wires = macros.places_of(source)
    rng = np.random.default_rng(0)
    random = rng.uniform(2, 93, (2, len(cells)))
    assert wires < macros.Hypergraph(source).wirelength((random[0], random[1])) / 2


def test_the_logic_is_spread_evenly() -> None:
    graph = macros.Hypergraph(module(2, nets=400))
    rng = np.random.default_rng(0)
    places = tuple(rng.normal(60, 1, (2, len(graph.names))))
    boxes = list(macros._bisected(graph, (places[0], places[1])))
    cells = np.concatenate([found for found, _ in boxes])
    assert sorted(cells) == np.flatnonzero(graph.area).tolist()
    whole = graph.area.sum() / (122 * 91)
    for found, (left, right, bottom, top) in boxes:
        assert graph.area[found].sum() / ((right - left) * (top - bottom)) == pytest.approx(
            whole, rel=0.7
        )
    (x, y), _ = macros._spread(graph, (places[0], places[1]))
    for found, (left, right, bottom, top) in boxes:
        assert (x[found] >= left).all()
        assert (x[found] <= right).all()
        assert (y[found] >= bottom).all()
        assert (y[found] <= top).all()


def test_nextpnr_takes_the_places(tmp_path, monkeypatch) -> None:
    """Of a unit with block RAMs, routed: it refuses a place that the part has not."""
    monkeypatch.setattr(ecp5, "FOLDER", tmp_path)
    said: list[str] = []
    design = generated("activation", Config(lanes=4))
    cost = ecp5.synthesise(design, macros=1, say=said.append)
    assert len(cost.timings) == 1
    assert any("places for DSPs and block RAMs" in line for line in said)
    (placed,) = tmp_path.glob("*/*-wrapped-????????-1.json")
    cells = json.loads(placed.read_text())["modules"]["wrapped"]["cells"]
    kinds = {name: cell["type"] for name, cell in cells.items() if "BEL" in cell["attributes"]}
    assert kinds
    assert set(kinds.values()) <= set(macros.SITES)
