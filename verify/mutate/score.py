"""The score of a unit's bench: the mutants that it kills."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from cli.progress import progress, stage

from rtl.interface.config import Config, array
from rtl.interface.options import mechanisms_of
from verify.mutate import bench
from verify.mutate.netlist import drawn, sourced


@dataclass
class Score:
    """What became of the mutants of a unit.

    Attributes
    ----------
    kills
        Killed mutants by the first test of the bench that failed.
    survivors
        Mutants that change an output and that the bench does not kill.
    silent
        Mutants that change no output in simulation: they are not counted.
    """

    unit: str
    config: Config
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    survivors: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        return self.kills.total()

    @property
    def sampled(self) -> int:
        """Mutants that count."""
        return self.killed + len(self.survivors)

    @property
    def percent(self) -> float:
        return 100 * self.killed / self.sampled if self.sampled else 100.0

    def line(self) -> str:
        """One line with everything."""
        config = self.config
        has = [name.replace("_", " ") for name, value in mechanisms_of(config).items() if value]
        named = [self.unit, array(config.lanes, config.tile_columns), *has, f"seed {self.seed}"]
        return (
            f"{', '.join(named)}: {self.killed:,} / {self.sampled:,} killed, {self.percent:.1f} %; "
            f"{len(self.silent):,} more change no output"
        )

    def as_dict(self) -> dict[str, Any]:
        """For a report."""
        figures = {name: getattr(self, name) for name in ("sampled", "killed", "percent")}
        return asdict(self) | figures


def score(unit: str, config: Config, count: int, seed: int, jobs: int = 1) -> Score:
    """Draw mutants of a unit and play its bench on each.

    Raises
    ------
    Different
        The bench fails without a mutant.
    ToolError
        Yosys or Verilator is missing or failed.
    """
    found = Score(unit, config, seed)
    stage(f"drawing mutants of {unit}")
    whole, mutants = drawn(sourced(unit, config), unit, count, seed)
    job = bench.prepared(unit, config, whole, mutants)
    outcomes = bench.play(job, len(mutants), jobs)
    for mutant in progress(mutants, f"playing the bench of {unit}", "mutants"):
        outcome = next(outcomes)
        if outcome == bench.SURVIVED:
            found.survivors.append(str(mutant))
        elif outcome == bench.SILENT:
            found.silent.append(str(mutant))
        else:
            found.kills[outcome] += 1
    return found
