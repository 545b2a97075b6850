"""The bench of a unit, played on one mutant after the other."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cli.errors import Different
from cli.workers import each

import numpy as np

from rtl.interface.config import Config
from sim.design import Design, Port, generated
from sim.machine import machine
from sim.machine.unit import NativePorts, finish, library
from sim.simulators import SimulatorError
from verify.fuzz.subject import config
from verify.mutate import inferences
from verify.mutate.netlist import FLAGS, SELECTOR, SELECTOR_BITS, VARIANT, Mutant, with_selector

#: Tests of a bench that need files of the user, or a simulator.
LEFT_OUT = {"real_reviews", "case", "small"}
CHUNK = 10
ACCELERATOR, POSITION_BIAS = "accelerator", "position_bias"
ATTENTION, ENGINE = "attention", "accelerator.engine*"
"""No unit, but the modules of the accelerator that compute it."""
SURVIVED, SILENT = "survived", "silent"
"""Outcomes of a mutant that no test kills: it changes an output, or none."""
CYCLES = 20_000
"""Of random inputs, which tell the two apart."""


def configuration(unit: str, lanes: int, columns: int | None = None, **mechanisms: Any) -> Config:
    """What a unit is built for: accelerator and attention for small models, the others as is.

    The position bias is for a few heads and row tiles, neither a power of two, of which its bench
    plays every distance. A unit without one of the mechanisms is the same with it.
    """
    given: dict[str, Any] = {"lanes": lanes, "columns": columns} | mechanisms
    if unit == POSITION_BIAS:
        given |= {"tokens": 5 * lanes, "bias_heads": mechanisms.get("bias_heads") or 3}
    return (config if unit in (ACCELERATOR, ATTENTION) else Config)(**given)


@dataclass(frozen=True)
class Job:
    """What a process needs to play a unit's bench, here or on another machine."""

    unit: str
    design: Design
    order: tuple[str, ...]

    def program(self) -> Path:
        """The library with all mutants, built where it is missing."""
        build = machine.library if self.unit == ACCELERATOR else library
        return build(self.design, VARIANT, FLAGS)


def exercises(unit: str) -> dict[str, Callable[[Any], Any]]:
    """The tests of tb/bench_<unit>.py by name, the exhaustive ones included."""
    bench = vars(importlib.import_module(f"tb.bench_{unit}")).values()
    kinds = (value for value in bench if hasattr(value, "generate_tests"))
    return {
        test.name: partial(test.func, **test.kwargs)
        for kind in kinds
        for test in kind.generate_tests()
        if test.name.partition("/")[0] not in LEFT_OUT
    }


def prepared(unit: str, config: Config, whole: str, mutants: Sequence[Mutant]) -> Job:
    """A job whose exercises pass on the sound unit, those of the fewest cycles first.

    Those of the accelerator stay in their order.

    Raises Different: The bench fails without a mutant.
    """
    sound, selector = generated(unit, config), Port(is_input=True, width=SELECTOR_BITS)
    ports, verilog = sound.ports | {SELECTOR: selector}, with_selector(whole, mutants)
    design = dataclasses.replace(sound, verilog=verilog, ports=ports)
    of_unit = inferences.exercises() if unit == ACCELERATOR else exercises(unit)
    job = Job(unit, design, tuple(of_unit))
    program, cycles = job.program(), dict[str, int]()
    for name in job.order:
        why, cycles[name] = played(job, program, 0, name)
        if why:
            raise Different(f"the bench of {unit} fails without a mutant: {name}: {why}")
    return dataclasses.replace(job, order=tuple(sorted(cycles, key=cycles.__getitem__)))


def played(job: Job, program: Path, mutant: int, name: str) -> tuple[str, int]:
    """Why a test fails on a mutant, empty when it passes; and after how many cycles.

    Those of the accelerator count as none.
    """
    if job.unit == ACCELERATOR:
        try:
            return inferences.exercises()[name](job.design, mutant), 0
        except SimulatorError as error:
            return str(error), 0
    ports = NativePorts(program, job.design, **{SELECTOR: mutant})
    try:
        finish(exercises(job.unit)[name](ports))
    except Exception as error:  # whatever ends a test fails it, as in cocotb
        return f"{type(error).__name__}: {error}", ports.cycles
    finally:
        ports.close()
    return "", ports.cycles


def differs(job: Job, program: Path, mutant: int) -> bool:
    """Whether a mutant changes an output on random inputs, beside the sound unit."""
    if job.unit == ACCELERATOR:
        return inferences.differs(job.design, mutant)
    rng, given, outputs = np.random.default_rng(1), {}, []
    for name, facts in json.loads(job.design.sheet)["ports"].items():
        if facts["width"] and facts["direction"] == "output":
            outputs.append(name)
        elif facts["width"] and name not in ("clk", "rst"):
            given[name] = _random(facts, rng)
    shown = []
    for number in (0, mutant):
        unit = NativePorts(program, job.design, **{SELECTOR: number})
        finish(unit.reset())  # what a register begins with may be lost in the netlist
        shown.append(unit.stream(given, tuple(outputs)))
        unit.close()
    return any(not np.array_equal(word, shown[1][name]) for name, word in shown[0].items())


def _random(facts: dict[str, Any], rng: np.random.Generator) -> np.ndarray:
    """Words for an input; one bit alone is mostly 0, mostly 1 or any, for 100 cycles each."""
    if facts["width"] == 1:
        shares = rng.choice([0.05, 0.5, 0.95], CYCLES // 100).repeat(100)
        return (rng.random(CYCLES) < shares).astype(np.int64)
    element = facts.get("element", facts)
    low = -(1 << element["width"] - 1) if element["signed"] else 0
    shape = (CYCLES, *([facts["length"]] if "length" in facts else ()))
    return rng.integers(low, low + (1 << element["width"]), shape)


def outcomes(job: Job, numbers: Sequence[int]) -> list[str]:
    """For each mutant the first test that fails on it, SURVIVED or SILENT."""
    program, found = job.program(), []
    for k in numbers:
        killer = next((name for name in job.order if played(job, program, k, name)[0]), "")
        found.append(killer or (SURVIVED if differs(job, program, k) else SILENT))
    return found


def play(job: Job, count: int, jobs: int) -> Iterator[str]:
    """`outcomes` of mutants 1 to `count`, in order."""
    firsts = range(1, count + 1, CHUNK)
    shares = {f"mutant {k}": range(k, min(k + CHUNK, count + 1)) for k in firsts}
    for _, found in each(outcomes, job, shares, jobs=jobs):
        yield from found
