"""The page of what was covered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtl.interface.operation import Error
from sim.page.template import render
from verify.coverage.code import KINDS
from verify.coverage.collect import Covered
from verify.coverage.functional import EXCLUDED, everything

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Share:
    """Covered, and of how many."""

    done: int
    total: int

    @property
    def text(self) -> str:
        return f"{self.done:,} of {self.total:,}" if self.total else "-"

    @property
    def percent(self) -> str:
        return f"{100 * self.done / self.total:.1f}" if self.total else "-"


def _modules(found: Covered) -> dict[str, list[Share]]:
    """By module its lines, branches and toggles."""
    shares: dict[str, dict[str, list[int]]] = {}
    for point, count in found.points.items():
        one = shares.setdefault(point.module, {kind: [0, 0] for kind in KINDS})[point.kind]
        one[0] += bool(count)
        one[1] += 1
    return {
        module: [Share(*kinds[kind]) for kind in KINDS] for module, kinds in sorted(shares.items())
    }


def _matrix(found: Covered) -> dict[str, list[Share]]:
    """By opcode and flag the bins of each error code."""
    rows: dict[str, dict[Error, list[int]]] = {}
    for one in everything(found.lanes):
        cell = rows.setdefault(one.what, {code: [0, 0] for code in Error})[one.code]
        cell[0] += one in found.bins
        cell[1] += 1
    return {what: [Share(*cells[code]) for code in Error] for what, cells in rows.items()}


def page(found: Covered, seed: int, holes: Mapping[str, Sequence[str]], bins: Sequence[str]) -> str:
    """One HTML file that needs nothing else.

    holes, bins
        What was not covered: code by module, and functional bins.
    """
    return render(
        FOLDER / "page.html",
        found=found,
        seed=seed,
        shares={kind: Share(*share) for kind, share in found.shares().items()},
        kinds=KINDS,
        modules=_modules(found),
        codes=[code.name for code in Error],
        matrix=_matrix(found),
        excluded=[(str(one), one.reason) for one in EXCLUDED],
        holes=holes,
        bins=bins,
    )
