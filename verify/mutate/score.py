"""What became of every mutant of a unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cli.progress import progress, stage
from cli.words import counted

from rtl.interface.config import Config, array
from rtl.interface.options import mechanisms_of
from verify.mutate import bench
from verify.mutate.equal import equivalents
from verify.mutate.netlist import Mutant, drawn, sourced
from verify.mutate.reduced import without_encoder
from verify.mutate.survivors import Known


@dataclass
class Score:
    """Attributes

    kills
        Mutants killed by each test of the bench, the first that failed.
    equivalent
        Mutants that are proved to be the sound unit.
    known, new
        The other survivors: those with a reason in the list, and those without.
    """

    unit: str
    config: Config
    seed: int
    mutants: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    equivalent: list[Mutant] = field(default_factory=list)
    known: list[tuple[Mutant, str]] = field(default_factory=list)
    new: list[Mutant] = field(default_factory=list)

    @property
    def killed(self) -> int:
        return self.kills.total()

    @property
    def percent(self) -> float:
        """Killed of those that are not equivalent."""
        rest = self.mutants - len(self.equivalent)
        return 100 * self.killed / rest if rest else 100.0

    def line(self) -> str:
        """One line with everything."""
        config = self.config
        has = [name.replace("_", " ") for name, value in mechanisms_of(config).items() if value]
        named = [self.unit, array(config.lanes, config.tile_columns), *has, f"seed {self.seed}"]
        return (
            f"{', '.join(named)}: "
            f"{self.mutants:,} mutants, {self.killed:,} killed, "
            f"{len(self.equivalent):,} equivalent, {counted(len(self.known), 'known survivors')}, "
            f"{len(self.new):,} new: {self.percent:.1f} %"
        )

    def as_dict(self) -> dict[str, Any]:
        """For a report."""
        return {
            "unit": self.unit,
            "lanes": self.config.lanes,
            "columns": self.config.tile_columns,
            **mechanisms_of(self.config),
            "seed": self.seed,
            "mutants": self.mutants,
            "killed": self.killed,
            "kills": dict(self.kills.most_common()),
            "equivalent": [str(mutant) for mutant in self.equivalent],
            "known": [{"mutant": str(m), "reason": reason} for m, reason in self.known],
            "new": [str(mutant) for mutant in self.new],
            "percent": round(self.percent, 2),
        }


def score(
    unit: str,
    config: Config,
    count: int,
    seed: int,
    known: Iterable[Known],
    jobs: int = 1,
    dask: str | None = None,
) -> Score:
    """Draw mutants of a unit, play its bench on each, and settle what survives.

    jobs, dask
        As for `cli.workers.each`: who plays.

    Raises
    ------
    ValueError
        No unit is called so.
    Different
        The bench fails without a mutant.
    ToolError
        Yosys or Verilator is missing or failed.
    """
    known = list(known)
    found = Score(unit, config, seed)
    stage(f"drawing mutants of {unit}")
    text = sourced(unit, config)
    if unit == bench.ATTENTION:
        text = without_encoder(text, config)
    whole, mutants = drawn(text, unit, count, seed, flat=unit == bench.ATTENTION)
    found.mutants = len(mutants)
    job = bench.prepared(unit, config, whole, mutants)
    killers = bench.play(job, len(mutants), jobs, dask)
    survivors = []
    for mutant, killer in zip(
        progress(mutants, f"playing the bench of {unit}", "mutants"), killers, strict=True
    ):
        if killer:
            found.kills[killer] += 1
        else:
            survivors.append(mutant)
    open_ones = []
    for mutant in survivors:
        entry = next((entry for entry in known if entry.covers(unit, mutant)), None)
        if entry is None:
            open_ones.append(mutant)
        elif entry.same:
            found.equivalent.append(mutant)
        else:
            found.known.append((mutant, entry.why))
    stage(f"proving what survives of {unit}: {counted(len(open_ones), 'mutants')}")
    for mutant, same in zip(open_ones, equivalents(whole, unit, open_ones, jobs)):
        (found.equivalent if same else found.new).append(mutant)
    return found
