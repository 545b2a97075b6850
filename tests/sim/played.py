"""Inferences on the machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from golden.model import Model
from rtl.compile.program import Program
from rtl.interface.config import Config
from sim.machine.inference import Inference
from sim.machine.machine import Machine, accelerator
from sim.machine.result import Result
from sim.verdict import Verdict, verdict

#: Flags of a build that plays less long than it takes.
NOT_OPTIMISED = ("-MAKEFLAGS", "OPT_FAST=-O0")


def played(
    config: Config, inferences: Iterable[Inference], program: Path | None = None
) -> list[Result]:
    """What they showed, back to back on one accelerator, or on that of another library."""
    with Machine(program or accelerator(config), config) as machine:
        return [machine.run(one) for one in inferences]


def right(result: Result, program: Program, model: Model) -> Verdict:
    """Every bit and cycle of it is right, and some were compared."""
    found = verdict(result, program, model)
    assert found.problems == ()
    assert found.compared.total()
    return found
