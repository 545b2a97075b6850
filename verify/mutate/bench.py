"""The bench of a unit, played on one mutant after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cli.workers import each

from rtl.interface.config import Config
from sim.design import generated
from sim.record import recorded
from verify.fuzz.subject import config
from verify.mutate.inferences import Inferences, inferences
from verify.mutate.netlist import Mutant, with_selector
from verify.mutate.player import Player, player

CHUNK = 10
ACCELERATOR, POSITION_BIAS = "accelerator", "position_bias"
ATTENTION, ENGINE = "attention", "accelerator.engine*"
"""No unit, but the modules of the accelerator that compute it."""


def configuration(unit: str, lanes: int, columns: int | None = None, **mechanisms: Any) -> Config:
    """What a unit is built for: accelerator and attention for small models, the others as is.

    The position bias is for a few heads and row tiles, neither a power of two, of which its bench
    plays every distance. A unit without one of the mechanisms is the same with it.
    """
    given: dict[str, Any] = {"lanes": lanes, "columns": columns} | mechanisms
    if unit == POSITION_BIAS:
        given |= {"tokens": 5 * lanes, "bias_heads": mechanisms.get("bias_heads") or 3}
    return (config if unit in (ACCELERATOR, ATTENTION) else Config)(**given)


Job = Inferences | Player
"""What a process needs to play mutants: `outcome` of each."""


def prepared(unit: str, config: Config, whole: str, mutants: Sequence[Mutant]) -> Job:
    """A job that passes on the sound unit.

    Raises Different: The bench fails without a mutant.
    """
    sound, verilog = generated(unit, config), with_selector(whole, mutants)
    if unit == ACCELERATOR:
        return inferences(sound, verilog)
    return player(sound, verilog, recorded(sound, config).text)


def outcomes(job: Job, numbers: Sequence[int]) -> list[str]:
    """For each mutant what kills it, SURVIVED or SILENT."""
    return [job.outcome(number) for number in numbers]


def play(job: Job, count: int, jobs: int) -> Iterator[str]:
    """`outcomes` of mutants 1 to `count`, in order."""
    firsts = range(1, count + 1, CHUNK)
    shares = {f"mutant {k}": range(k, min(k + CHUNK, count + 1)) for k in firsts}
    for _, found in each(outcomes, job, shares, jobs=jobs):
        yield from found
