"""nextpnr's placement annealed: it takes the places, and every cell has one of its own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtl.interface.config import Config
from sim.design import generated
from sim.synth import copies, ecp5, refine
from sim.synth.copies import PLACE
from sim.synth.placement import FIXED


def half_perimeters(module: dict[str, Any]) -> int:
    """Of all nets of up to `FANOUT` pins, from the places that the file names."""
    at: dict[int, set[tuple[int, int]]] = {}
    pins: dict[int, set[str]] = {}
    for name, cell in module["cells"].items():
        column, row, _ = cell["attributes"][PLACE].split("/", 2)
        for bits in cell["connections"].values():
            for bit in (bit for bit in bits if isinstance(bit, int)):
                at.setdefault(bit, set()).add((int(column[1:]), int(row[1:])))
                pins.setdefault(bit, set()).add(name)
    kept = [np.array([*at[net]]) for net in at if len(pins[net]) <= refine.FANOUT]
    return int(sum(np.ptp(places, axis=0).sum() for places in kept))


def test_nextpnr_routes_what_was_annealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit with carry chains, DSPs and block RAMs, and copies of its registers for readers that
    lie a little apart; a place that may not be, nextpnr refuses."""
    monkeypatch.setattr(ecp5, "FOLDER", tmp_path)
    monkeypatch.setattr(copies, "REACH", 1)
    said: list[str] = []
    first: list[tuple[int, dict[str, Any]]] = []
    original = refine.placement_of

    def watched(module: dict[str, Any]) -> refine.Placement:
        places = {name: cell["attributes"][PLACE] for name, cell in module["cells"].items()}
        first.append((half_perimeters(module), places))
        return original(module)

    monkeypatch.setattr(refine, "placement_of", watched)
    cost = ecp5.synthesise(generated("rsqrt", Config(lanes=4)), annealed=True, say=said.append)
    assert len(cost.timings) == 1
    assert any("before the annealing" in line for line in said)
    (placed,) = tmp_path.glob("*/*.annealed")
    module = json.loads(placed.read_text())["modules"][refine.MODULE]
    (_, places), (before, with_copies) = first
    assert half_perimeters(module) < 0.95 * before
    after = {name: cell["attributes"][PLACE] for name, cell in module["cells"].items()}
    made = after.keys() - places.keys()
    assert any(f"{len(made)} copies of registers" in line for line in said)
    assert len(made) > 3
    places = with_copies
    kinds = {name: cell["type"] for name, cell in module["cells"].items()}
    assert len({*after.values()}) == len(after)
    moved = {kinds[name] for name in after if after[name] != places[name]}
    assert {"TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", "DP16KD"} >= moved >= {"TRELLIS_COMB"}
    # Read again, what was written is what was meant, and nothing that is closed has moved.
    again = original(module)
    assert not np.any((again.cells.slot >= 0) & (again.cells.kind == FIXED))
    for name in after:
        if kinds[name] not in ("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", "DP16KD"):
            assert after[name] == places[name]
