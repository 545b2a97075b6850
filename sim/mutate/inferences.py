"""The accelerator's bench for mutants, in C++: traced inferences, edges of the banks, fuzzing."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

from cli.command import Different

import numpy as np

from golden.encoder import run as golden
from golden.model import Model, Shape
from golden.random import random_model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.cycles.model import predict
from sim.design import Design
from sim.fuzz import play
from sim.fuzz.cases import built
from sim.fuzz.job import Case
from sim.fuzz.judge import judge
from sim.fuzz.subject import Subject, config, subjects
from sim.harness import fast
from sim.mutate.edges import edges
from sim.simulators import SimulatorError
from tb.compare import Mismatch

SEED = 1
CASES, SHARE = 600, 50
ROW_LATENCY = 2
PACES = (None, 1)
"""Seeds of the pauses on the streams of traced inferences; None: no pauses."""

VARIANT = "mutants"

LARGE = tuple(
    Shape(
        layers=1, hidden=10, heads=1, head_size=10, ffn=16, labels=4,
        vocabulary=rows, positions=24, types=2,
    )
    for rows in (0x0AAAAA, 0x155555)
)  # fmt: skip
"""One head as wide as the model, and numbers of rows with 20 and 21 bits: too large for a case."""


def limits(lanes: int) -> Config:
    """What the mutants' accelerator is built for: the fuzzer's models fill it."""
    return config(lanes)


def programs(design: Design, flags: tuple[str, ...]) -> tuple[Path, Path]:
    """The harness and the fuzzer of a design, built where they are missing."""
    harness = fast.built(design, VARIANT, flags)
    return harness, play.program(0, design, f"-{VARIANT}", flags)


def exercises() -> tuple[str, ...]:
    """What is played, by name: inferences whose every write is compared, edges, and cases."""
    traced = [f"traced/pauses={pace is not None}" for pace in PACES]
    return (*traced, "edges", *(f"fuzz/from={first}" for first in range(0, CASES, SHARE)))


def played(design: Design, flags: tuple[str, ...], mutant: int, name: str) -> str:
    """Why an exercise fails on a mutant, empty when it passes."""
    kind, _, value = name.partition("/")
    lanes = design_lanes(design)
    try:
        if kind == "traced":
            return _traced(design, flags, lanes, mutant, PACES[value.endswith("True")])
        if kind == "edges":
            return _judged(design, flags, lanes, mutant, edges(lanes))
        first = int(value.removeprefix("from="))
        cases = [built(SEED, lanes, number) for number in range(first, first + SHARE)]
        return _judged(design, flags, lanes, mutant, cases)
    except (Different, Mismatch, SimulatorError) as error:
        return str(error)


def design_lanes(design: Design) -> int:
    """Bytes of a word of the command stream."""
    return design.ports["s_axis_model_tdata"].width // 8


def _varied(model: Model, rng: np.random.Generator) -> Model:
    """The model with other multipliers in its attention, so that any of their bits is set."""
    layers = []
    for layer in model.layers:
        score, context = (int(m) for m in rng.integers(1 << 15, 1 << 16, 2))
        attention = dataclasses.replace(layer.attention, score_m=score, context_m=context)
        layers.append(dataclasses.replace(layer, attention=attention))
    return dataclasses.replace(model, layers=tuple(layers))


@functools.cache
def _work(lanes: int) -> list[tuple[Program, fast.Job, dict[str, np.ndarray]]]:
    """Inferences of every model, one token to as many as fit, and golden's trace of each."""
    found = []
    for subject in subjects(lanes):
        rng = np.random.default_rng(subject.index)
        model = _varied(subject.model, rng)
        whole = subject.index % 2 == 0
        program = compile_model(model, subject.config, whole_last_layer=whole)
        for tokens in (program.tokens, lanes + 1 + subject.index % lanes, 1):
            one = subject.sequence(min(tokens, program.tokens), rng)
            trace: dict[str, np.ndarray] = {}
            golden(model, one.ids, one.types, one.attend, trace)
            job = fast.Job(program, subject.table, one.ids, one.types, one.attend)
            found.append((program, job, trace))
    return found + [_large(shape, lanes) for shape in LARGE]


def _large(shape: Shape, lanes: int) -> tuple[Program, fast.Job, dict[str, np.ndarray]]:
    """One inference of any tokens."""
    model = random_model(shape, shape.vocabulary)
    program = compile_model(model, config(lanes), whole_last_layer=True)
    rng = np.random.default_rng(shape.vocabulary)
    ids, types = (rng.integers(0, n, program.tokens) for n in (shape.vocabulary, shape.types))
    attend = np.ones(program.tokens, np.int64)
    trace: dict[str, np.ndarray] = {}
    golden(model, ids, types, attend, trace)
    table = embedding_table(model, lanes)
    return program, fast.Job(program, table, ids, types, attend), trace


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
    for (program, job, trace), result in zip(work, results, strict=True):
        tokens = len(job.ids)
        if result.error is not Error.NONE:
            return f"the code is {result.error.name}"
        fast.compare(program, trace, tokens, result, np.asarray(job.attend)).check()
        logits = trace["logits"].ravel()  # of all tokens, where the model pools none
        if result.logits.tolist() != logits.tolist():
            return f"logits are {result.logits.tolist()}, golden says {logits.tolist()}"
        told = (result.cycles, result.active, result.stalls)
        model = predict(program, tokens, row_latency=ROW_LATENCY)
        if pace is None and told != (model.cycles, model.active, model.stalls):
            return f"cycles, active and stalls are {told}, the cycle model says {model}"
        seen = [(o.number, o.first, o.last, o.active, o.stalls) for o in result.operations]
        phases = [(p.number, p.first, p.last, p.active, p.stalls) for p in model.phases]
        if pace is None and seen != phases:
            return f"the operations are {seen}, the cycle model says {phases}"
    return ""


def _judged(
    design: Design,
    flags: tuple[str, ...],
    lanes: int,
    mutant: int,
    cases: Sequence[tuple[Case, tuple[Subject, ...]]],
) -> str:
    path = programs(design, flags)[1]
    for case, runs, facts in play.shown(path, lanes, cases, mutant=mutant):
        wrong = judge(case, runs, facts)
        if wrong:
            return f"{case.kind} {case.number}: {wrong[0]}"
    return ""
