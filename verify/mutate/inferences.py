"""The accelerator's bench for mutants, in C++: traced inferences and fuzzing."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from golden.model import Attention, FeedForward, Linear, Model
from golden.random import random_model
from golden.requantize import SHIFT_MAX, SHIFT_MIN
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.command import BANK_SHIFT, RESIDUAL_SHIFT_MAX, bank_address
from rtl.interface.config import Config
from rtl.interface.tile import BANKS
from sim.design import Design
from sim.machine.inference import Inference, Loaded, seed_of
from sim.machine.machine import Machine, library
from sim.simulators import SimulatorError
from sim.verdict import verdict
from verify.fuzz import play
from verify.fuzz.judge import judge
from verify.fuzz.subject import PATIENCE, SHAPES, subjects

SEED = 1
CASES, SHARE, OTHERS = 600, 50, 200
ROW_LATENCY = 2
PACES = (None, 1)
"""Seeds of the pauses on the streams of traced inferences; None: no pauses."""

LONGEST = 300_000
"""Cycles of any of them, rests included, that count as a hang."""

VARIANT = "-mutants"

LARGE = tuple(
    replace(
        SHAPES[0], hidden=10, heads=1, head_size=10, ffn=16, labels=4, vocabulary=n, positions=24
    )
    for n in (0x0AAAAA, 0x155555)
)
"""One head as wide as the model, and numbers of rows with 20 and 21 bits: too large for a case."""

DEEP = replace(SHAPES[2], layers=24, ffn=16, vocabulary=20, positions=26)
"""Numbers of operations to near 2^8, cycles and active ones beyond 2^15."""

FIELDS_OF: dict[str | None, tuple[str, ...]] = {
    None: ("query", "key", "value", "context"),
    "attention.sum": ("source",),
    **dict.fromkeys("qkv", ("destination",)),
}
"""Where steps of a layer, its ATTEND (None) and those of these names, have Q, K, V, context."""


def program(design: Design, flags: tuple[str, ...]) -> Path:
    """The machine of a design, built where it is missing."""
    return library(design, VARIANT, flags)


def exercises() -> tuple[str, ...]:
    """What is played, by name: inferences whose every write is compared, and cases."""
    traced = [f"traced/pauses={pace is not None}" for pace in PACES]
    return (*traced, *(f"fuzz/from={first}" for first in range(0, CASES, SHARE)))


def played(design: Design, flags: tuple[str, ...], mutant: int, name: str) -> str:
    """Why an exercise fails on a mutant, empty when it passes."""
    kind, _, value = name.partition("/")
    limits = design_limits(design)
    try:
        traced = kind == "traced"
        with Machine(program(design, flags), limits, mutant=mutant, odd=not traced) as machine:
            if traced:
                return _traced(machine, PACES[value.endswith("True")])
            first = int(value.removeprefix("from="))
            for case, runs, facts in play.observed(machine, SEED, range(first, first + SHARE)):
                wrong = judge(case, runs, facts)
                if wrong:
                    return f"{case.kind} {case.number}: {wrong[0]}"
        return ""
    except SimulatorError as error:
        return str(error)


def differs(design: Design, flags: tuple[str, ...], mutant: int) -> bool:
    """Whether cases of another seed show anything else on a mutant than on the sound design."""
    limits, numbers = design_limits(design), range(OTHERS)

    def shown(mutant: int) -> list[object]:
        with Machine(program(design, flags), limits, mutant=mutant, odd=True) as machine:
            return [
                [
                    (place, str(run), run.numbers.tolist(), run.logits.tolist())
                    for place, run in facts
                ]
                for _, _, facts in play.observed(machine, SEED + 1, numbers)
            ]

    try:
        return shown(mutant) != shown(0)
    except SimulatorError:
        return True


def design_limits(design: Design) -> Config:
    """What it was built for: the fuzzer's models fill it."""
    return Config(**json.loads(design.sheet)["configuration"])


def _varied(model: Model, rng: np.random.Generator) -> Model:
    """The model with other multipliers in its attention, so that any of their bits is set."""
    layers = []
    for layer in model.layers:
        score, context = (int(m) for m in rng.integers(1 << 15, 1 << 16, 2))
        attention = replace(layer.attention, score_m=score, context_m=context)
        layers.append(replace(layer, attention=attention))
    return replace(model, layers=tuple(layers))


Work = tuple[Program, Model, Inference]


@functools.cache
def _work(limits: Config) -> list[Work]:
    """Inferences of every model, one token to as many as fit."""
    found: list[Work] = []
    lanes = limits.lanes
    for subject in subjects(limits):
        rng = np.random.default_rng(subject.index)
        model = _varied(subject.model, rng)
        whole = subject.index % 2 == 0
        program = compile_model(model, subject.config, whole_last_layer=whole)
        program = _turned(program, subject.index % BANKS)
        loaded = Loaded(program, subject.table)
        for tokens in (program.tokens, lanes + 1 + subject.index % lanes, 1):
            one = subject.sequence(min(tokens, program.tokens), rng)
            found.append((program, model, loaded.inference(one.ids, one.types, one.attend)))
    wild = [_wild(subject.model, subject.index) for subject in subjects(limits)[::2]]
    models = [random_model(shape, shape.vocabulary) for shape in (*LARGE, DEEP)]
    return found + [_one(model, limits) for model in (*wild, *models)]


def _wild(model: Model, seed: int) -> Model:
    """The model with any biases, and shifts up to the largest ones, in half of its channels.

    Shifts of scores and contexts are large, too, and so is one factor of the embedding; those of
    sums go from none to the largest.
    """
    rng = np.random.default_rng(seed)

    def changed(linear: Linear) -> Linear:
        if linear.m is None or linear.s is None:
            return linear
        sums = 128 * np.abs(linear.weight.astype(np.int64)).sum(axis=1)
        bias = rng.integers(sums - (1 << 31) + 1, (1 << 31) - sums)
        m = rng.integers(1 << 15, 1 << 16, len(bias))
        s = np.log2(np.abs(bias * m) + 1).astype(int) - rng.integers(4, 8, len(bias))
        taken = rng.random(len(bias)) < 0.5
        return replace(
            linear,
            bias=np.where(taken, bias, linear.bias).astype(np.int32),
            m=np.where(taken, m, linear.m).astype(np.int32),
            s=np.where(taken, s.clip(SHIFT_MIN, SHIFT_MAX), linear.s).astype(np.int32),
        )

    def of(part: Attention | FeedForward) -> dict[str, Any]:
        linears = {name: value for name, value in vars(part).items() if isinstance(value, Linear)}
        return {name: changed(linear) for name, linear in linears.items()}

    tokens = model.shape.tokens
    context = SHIFT_MAX - (255 * tokens).bit_length()  # the largest that golden takes
    shifts: dict[str, Any] = {"score_s": SHIFT_MAX - seed, "context_s": context - seed // 4}
    sums: dict[str, Any] = {"residual_shift": RESIDUAL_SHIFT_MAX * seed // 8}  # any bit set
    layers = (
        replace(
            layer,
            attention=replace(layer.attention, **of(layer.attention), **shifts, **sums),
            ffn=replace(layer.ffn, **of(layer.ffn), **sums),
        )
        for layer in model.layers
    )
    large = int(rng.integers(128, 255))
    factors = (large, 256 - large) if seed % 4 else (256 - large, large)
    embedding = replace(model.embedding, token_factor=factors[0], position_factor=factors[1])
    head = tuple(map(changed, model.head))
    return replace(model, embedding=embedding, layers=tuple(layers), head=head)


def _turned(program: Program, banks: int) -> Program:
    """The program with Q, K, V and the context of its layers so many banks further on."""
    steps = []
    for step in program.steps:
        layer = re.fullmatch(r"layer\.\d+(?:\.(q|k|v|attention\.sum))?", step.name)
        moved = {
            name: bank_address(((step.values[name] >> BANK_SHIFT) + banks) % BANKS)
            for name in (FIELDS_OF[layer[1]] if layer else ())
        }
        steps.append(replace(step, values=step.values | moved))
    return replace(program, steps=tuple(steps))


def _one(model: Model, limits: Config) -> Work:
    """One inference of any tokens, as many as fit."""
    shape = model.shape
    program = compile_model(model, limits, whole_last_layer=True)
    rng = np.random.default_rng(shape.vocabulary)
    rows = (shape.vocabulary, max(shape.types, 1))
    ids, types = (rng.integers(0, n, program.tokens) for n in rows)
    loaded = Loaded(program, embedding_table(model, limits.lanes))
    return program, model, loaded.inference(ids, types)


def _traced(machine: Machine, pace: int | None) -> str:
    for number, (program, model, inference) in enumerate(_work(machine.config)):
        result = machine.run(
            inference.but(
                row_latency=ROW_LATENCY,
                trace=True,
                seed=None if pace is None else seed_of(pace, number),
                patience=PATIENCE,
                longest=LONGEST,
            )
        )
        if wrong := verdict(result, program, model).problems:
            return wrong[0]
    return ""
