"""Copies of registers whose readers lie far apart: the same circuit, register for register."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from sim.synth import copies, refine
from sim.synth.placement import SLOTS, legal

MADE = re.compile(r"(.+)\$copy\d+")
Cell = dict[str, Any]


def flip_flop(place: str, data: int | None, q: int, enable: int | None = None) -> Cell:
    """nextpnr's cell; without `data` it takes the LUT beside it."""
    ways = {"Q": [q], "CLK": [1], "LSR": []} | ({"DI": [q + 1]} if data is None else {"M": [data]})
    ways |= {} if enable is None else {"CE": [enable]}
    return {
        "type": "TRELLIS_FF",
        "parameters": {"SD": "1 " if data is None else "0 ", "GSR": "DISABLED", "CLKMUX": "CLK",
                       "CEMUX": "1 " if enable is None else "CE", "LSRMUX": "LSR"},
        "attributes": {copies.PLACE: place},
        "port_directions": {port: "output" if port == "Q" else "input" for port in ways},
        "connections": ways,
    }  # fmt: skip


def lut(place: str, inputs: list[int], f: int) -> Cell:
    ways = {"F": [f]} | {port: [bit] for port, bit in zip("ABCD", inputs)}
    return {
        "type": "TRELLIS_COMB",
        "parameters": {"MODE": "LOGIC"},
        "attributes": {copies.PLACE: place},
        "port_directions": {port: "output" if port == "F" else "input" for port in ways},
        "connections": ways,
    }


def module(cells: dict[str, Cell]) -> dict[str, Any]:
    bits = {b for cell in cells.values() for bits in cell["connections"].values() for b in bits}
    names = {f"net{bit}": {"hide_name": 0, "bits": [bit], "attributes": {}} for bit in bits}
    return {"cells": cells, "netnames": names}


def scattered(seed: int) -> dict[str, Any]:
    """Pairs of registers, each pair with readers of every kind all over the part."""
    rng = random.Random(seed)
    columns = [x for x in range(5, 120, 3) if x % 12]
    rows = [y for y in range(15, 80, 2) if y % 12]
    places = [f"X{x}/Y{y}/SLICE{s}" for x in columns for y in rows for s in "ABCD"]
    rng.shuffle(places)
    cells: dict[str, Cell] = {}
    bit, enable = 100, 50
    cells["enable"] = flip_flop(f"{places.pop()}.FF0", 49, enable)
    cells["enabling"] = flip_flop(f"{places.pop()}.FF0", 48, 49)
    for pair in range(rng.randrange(1, 6)):
        first, second, third = bit, bit + 1, bit + 2
        bit += 3
        chosen = rng.choice([None, enable])
        cells[f"logic{pair}"] = lut(f"{places.pop()}.COMB0", [60], bit)
        cells[f"third{pair}"] = flip_flop(f"{places.pop()}.FF0", bit, third)
        bit += 1
        cells[f"first{pair}"] = flip_flop(f"{places.pop()}.FF0", 60, first)
        cells[f"second{pair}"] = flip_flop(f"{places.pop()}.FF1", first, second, chosen)
        for reader in range(rng.randrange(0, 40)):
            name, place = f"reader{pair}_{reader}", places.pop()
            kind = rng.randrange(4)
            if kind == 0:
                cells[name] = lut(f"{place}.COMB0", [second] * rng.randrange(1, 5), bit)
            elif kind == 1:
                cells[name] = flip_flop(f"{place}.FF0", second, bit, rng.choice([None, enable]))
            elif kind == 2:
                cells[name] = flip_flop(f"{place}.FF1", third, bit, second)
            else:
                cells[name] = lut(f"{place}.COMB1", [third, second], bit)
            bit += 2
    return module(cells)


def merged(made: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The module with each copy put back into its original, and their names."""
    cells = copy.deepcopy(made["cells"])
    back: dict[int, int] = {}
    found = [name for name in cells if MADE.fullmatch(name)]
    for name in found:
        original = cells[name.rpartition("$copy")[0]]
        one = cells.pop(name)
        back[one["connections"].pop("Q")[0]] = original["connections"]["Q"][0]
        same = {port: bits for port, bits in original["connections"].items() if port != "Q"}
        assert (one["connections"], one["parameters"]) == (same, original["parameters"])
    for cell in cells.values():
        for port, bits in cell["connections"].items():
            cell["connections"][port] = [back.get(bit, bit) for bit in bits]
    return cells, found


@pytest.mark.parametrize("seed", range(40))
def test_copies_put_back_give_the_same_circuit(seed: int) -> None:
    before = scattered(seed)
    made = copy.deepcopy(before)
    start = refine.placement_of(made)
    count = copies.copy_registers(made, start.names, start.cells)
    cells, found = merged(made)
    assert cells == before["cells"]
    assert len(found) == count
    assert all(name.startswith("second") for name in found)  # no other has a register before it
    for name in {*found, *(name.rpartition("$copy")[0] for name in found)}:  # all are read
        (q,) = made["cells"][name]["connections"]["Q"]
        read = [
            p for c in made["cells"].values() for p, bits in c["connections"].items() if q in bits
        ]
        assert set(read) - {"Q", "CE"}
        assert "CE" not in read or name not in found
    again = refine.placement_of(made)
    taken = Counter(again.cells.slot[again.cells.kind == 1].tolist())
    assert set(taken.values()) <= {1}
    tiles = set((again.cells.slot[again.cells.slot >= 0] // SLOTS).tolist())
    assert all(legal(tile, again.cells) for tile in tiles)


def reach(made: dict[str, Any], q: int) -> int:
    """Width and height of the readers' box."""
    at = [
        tuple(map(int, re.findall(r"\d+", cell["attributes"][copies.PLACE])[:2]))
        for cell in made["cells"].values()
        for port, bits in cell["connections"].items()
        if q in bits and cell["port_directions"][port] == "input" and port != "CE"
    ]
    return int(np.ptp(np.array(at), axis=0).sum()) if at else 0


def test_readers_lie_together_afterwards() -> None:
    """Four corners, a reader more or less in each: a register for each of them."""
    cells = {"first": flip_flop("X60/Y50/SLICEA.FF0", 60, 100),
             "second": flip_flop("X61/Y50/SLICEA.FF1", 100, 101)}  # fmt: skip
    for number, (x, y) in enumerate(
        [(10, 20), (11, 21), (110, 20), (10, 80), (110, 80), (111, 81)]
    ):
        cells[f"reader{number}"] = lut(f"X{x}/Y{y}/SLICEA.COMB0", [101], 200 + number)
    made = module(cells)
    assert reach(made, 101) == 162
    start = refine.placement_of(made)
    assert copies.copy_registers(made, start.names, start.cells) >= 3
    nets = [101, *(c["connections"]["Q"][0] for n, c in made["cells"].items() if "$copy" in n)]
    assert max(reach(made, net) for net in nets) <= 2
    for name in (name for name in made["cells"] if "$copy" in name):
        (q,) = made["cells"][name]["connections"]["Q"]
        made["cells"][name]["connections"]["NEAR"] = [q]
        made["cells"][name]["port_directions"]["NEAR"] = "input"
        assert reach(made, q) <= 8  # with the register itself


def test_what_lies_together_stays() -> None:
    cells = {"first": flip_flop("X60/Y50/SLICEA.FF0", 60, 100),
             "second": flip_flop("X61/Y50/SLICEA.FF1", 100, 101)}  # fmt: skip
    for number in range(copies.REACH):
        cells[f"reader{number}"] = lut(f"X{60 + number}/Y52/SLICEB.COMB0", [101], 200 + number)
    made = module(cells)
    start = refine.placement_of(made)
    assert copies.copy_registers(made, start.names, start.cells) == 0
    assert set(made["cells"]) == set(cells)
