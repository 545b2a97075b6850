"""The accelerator's bench for mutants, in C++: traced inferences, and the fuzzer's cases."""

from __future__ import annotations

import functools
from pathlib import Path

from cli.command import Different

import numpy as np

from golden.encoder import run as golden
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.cycles.model import predict
from sim.design import Design
from sim.fuzz import play
from sim.fuzz.judge import judge
from sim.fuzz.subject import Subject, config, subjects
from sim.harness import fast
from sim.simulators import SimulatorError
from tb.compare import Mismatch

SEED = 1
CASES, SHARE = 600, 50
ROW_LATENCY = 2
PACES = (None, 1)
"""Seeds of the pauses on the streams of traced inferences; None: no pauses."""

VARIANT = "mutants"


def limits(lanes: int) -> Config:
    """What the mutants' accelerator is built for: the fuzzer's models fill it."""
    return config(lanes)


def programs(design: Design, flags: tuple[str, ...]) -> tuple[Path, Path]:
    """The harness and the fuzzer of a design, built where they are missing."""
    harness = fast.built(design, VARIANT, flags)
    return harness, play.program(0, design, f"-{VARIANT}", flags)


def exercises() -> tuple[str, ...]:
    """What is played, by name: inferences whose every write is compared, then cases."""
    traced = [f"traced/pauses={pace is not None}" for pace in PACES]
    return (*traced, *(f"fuzz/from={first}" for first in range(0, CASES, SHARE)))


def played(design: Design, flags: tuple[str, ...], mutant: int, name: str) -> str:
    """Why an exercise fails on a mutant, empty when it passes."""
    kind, _, value = name.partition("/")
    lanes = design_lanes(design)
    try:
        if kind == "traced":
            return _traced(design, flags, lanes, mutant, PACES[value.endswith("True")])
        first = int(value.removeprefix("from="))
        return _fuzzed(design, flags, lanes, mutant, range(first, first + SHARE))
    except (Different, Mismatch, SimulatorError) as error:
        return str(error)


def design_lanes(design: Design) -> int:
    """Bytes of a word of the command stream."""
    return design.ports["s_axis_model_tdata"].width // 8


@functools.cache
def _work(lanes: int) -> list[tuple[Subject, fast.Job, dict[str, np.ndarray]]]:
    """Inferences of every model, one token to as many as fit, and golden's trace of each."""
    found = []
    for subject in subjects(lanes):
        rng = np.random.default_rng(subject.index)
        for tokens in (subject.program.tokens, lanes + 1 + subject.index % lanes, 1):
            one = subject.sequence(min(tokens, subject.program.tokens), rng)
            trace: dict[str, np.ndarray] = {}
            golden(subject.model, one.ids, one.types, one.attend, trace)
            job = fast.Job(subject.program, subject.table, one.ids, one.types, one.attend)
            found.append((subject, job, trace))
    return found


def _traced(
    design: Design, flags: tuple[str, ...], lanes: int, mutant: int, pace: int | None
) -> str:
    work = _work(lanes)
    results = fast.simulate(
        config(lanes),
        [job for _, job, _ in work],
        row_latency=ROW_LATENCY,
        trace=True,
        seed=pace,
        patience=play.PATIENCE,
        design=design,
        variant=VARIANT,
        flags=flags,
        mutant=mutant,
    )
    for (subject, job, trace), result in zip(work, results, strict=True):
        tokens = len(job.ids)
        if result.error is not Error.NONE:
            return f"the code is {result.error.name}"
        fast.compare(subject.program, trace, tokens, result, np.asarray(job.attend)).check()
        if result.logits.tolist() != trace["logits"].tolist():
            return f"logits are {result.logits.tolist()}, golden says {trace['logits'].tolist()}"
        told = (result.cycles, result.active, result.stalls)
        model = predict(subject.program, tokens, row_latency=ROW_LATENCY)
        if pace is None and told != (model.cycles, model.active, model.stalls):
            return f"cycles, active and stalls are {told}, the cycle model says {model}"
    return ""


def _fuzzed(design: Design, flags: tuple[str, ...], lanes: int, mutant: int, numbers: range) -> str:
    path = programs(design, flags)[1]
    for case, runs, facts in play.observed(path, lanes, SEED, numbers, mutant=mutant):
        wrong = judge(case, runs, facts)
        if wrong:
            return f"case {case.number}: {wrong[0]}"
    return ""
