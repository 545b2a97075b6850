"""The accelerator's bench for mutants, in C++: traced inferences and fuzzing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from cli.errors import Different

import numpy as np

from golden.model import Attention, FeedForward, Linear, Model
from golden.random import random_model
from golden.requantize import SHIFT_MAX, SHIFT_MIN
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.command import BANK_SHIFT, bank_address
from rtl.interface.config import BANKS, Config
from rtl.interface.isa import RESIDUAL_SHIFT_MAX
from sim.design import Design, Port
from sim.machine.inference import Inference, Loaded, seed_of
from sim.machine.machine import Machine, library
from sim.simulators import SimulatorError
from sim.verdict import verdict
from verify.fuzz import play
from verify.fuzz.judge import judge
from verify.fuzz.subject import PATIENCE, SHAPES, subjects
from verify.mutate.netlist import FLAGS, SELECTOR, SELECTOR_BITS, SILENT, SURVIVED, VARIANT

SEED = 1
CASES, SHARE, OTHERS = 600, 50, 200
ROW_LATENCY = 2
PACES = (None, 1)
"""Seeds of the pauses on the streams of traced inferences; None: no pauses."""

LONGEST = 300_000
"""Cycles of any of them, rests included, that count as a hang."""

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


def exercises() -> dict[str, Callable[[Design, int], str]]:
    """Inferences whose every write is compared, and cases of the fuzzer, by name."""
    found: dict[str, Callable[[Design, int], str]] = {
        f"traced/pauses={pace is not None}": partial(_traced, pace=pace) for pace in PACES
    }
    firsts = range(0, CASES, SHARE)
    return found | {f"fuzz/from={first}": partial(_fuzzed, first=first) for first in firsts}


@dataclass(frozen=True)
class Inferences:
    """The accelerator with its mutants, on which all exercises pass without one."""

    design: Design

    def outcome(self, mutant: int) -> str:
        """The first exercise that fails on it, SURVIVED or SILENT."""
        killer = next((name for name in exercises() if self.failure(mutant, name)), "")
        return killer or (SURVIVED if differs(self.design, mutant) else SILENT)

    def failure(self, mutant: int, name: str) -> str:
        """Why an exercise fails on a mutant; empty when it passes."""
        try:
            return exercises()[name](self.design, mutant)
        except SimulatorError as error:
            return str(error)


def inferences(sound: Design, verilog: str) -> Inferences:
    """Of the accelerator and its Verilog with mutants.

    Raises Different: An exercise fails without a mutant.
    """
    selector = {SELECTOR: Port(is_input=True, width=SELECTOR_BITS)}
    job = Inferences(replace(sound, verilog=verilog, ports=sound.ports | selector))
    for name in exercises():
        if why := job.failure(0, name):
            raise Different(f"the bench of accelerator fails without a mutant: {name}: {why}")
    return job


def _machine(design: Design, mutant: int, odd: bool) -> Machine:
    limits = Config(**json.loads(design.sheet)["configuration"])  # the fuzzer's models fill it
    return Machine(library(design, VARIANT, FLAGS), limits, mutant=mutant, odd=odd)


def _fuzzed(design: Design, mutant: int, first: int) -> str:
    with _machine(design, mutant, odd=True) as machine:
        for case, facts in play.observed(machine, SEED, range(first, first + SHARE)):
            if wrong := judge(case, facts):
                return f"{case.kind} {case.number}: {wrong[0]}"
    return ""


def differs(design: Design, mutant: int) -> bool:
    """Whether cases of another seed show anything else on a mutant than on the sound design."""

    def shown(mutant: int) -> list[object]:
        with _machine(design, mutant, odd=True) as machine:
            return [
                (place, str(run), run.numbers.tolist(), run.logits.tolist())
                for _, facts in play.observed(machine, SEED + 1, range(OTHERS))
                for place, run in facts
            ]

    try:
        return shown(mutant) != shown(0)
    except SimulatorError:
        return True


Work = tuple[Program, Model, Inference]


@cache
def _work(limits: Config) -> list[Work]:
    """Inferences of every model, one token to as many as fit, then of wild, large and deep ones."""
    found: list[Work] = []
    lanes = limits.lanes
    for subject in subjects(limits):
        rng, whole = np.random.default_rng(subject.index), subject.index % 2 == 0
        layers = []
        for layer in subject.model.layers:  # multipliers of which any bit is set
            score, context = rng.integers(1 << 15, 1 << 16, 2).tolist()
            attention = replace(layer.attention, score_m=score, context_m=context)
            layers.append(replace(layer, attention=attention))
        model = replace(subject.model, layers=tuple(layers))
        program = compile_model(model, limits, whole_last_layer=whole)
        program = _turned(program, subject.index % BANKS)
        loaded = Loaded(program, subject.table)
        for tokens in (program.tokens, lanes + 1 + subject.index % lanes, 1):
            one = subject.sequence(min(tokens, program.tokens), rng)
            found.append((program, model, loaded.inference(one.ids, one.types, one.attend)))
    wild = [_wild(subject.model, subject.index) for subject in subjects(limits)[::2]]
    for model in (*wild, *(random_model(shape, shape.vocabulary) for shape in (*LARGE, DEEP))):
        program = compile_model(model, limits, whole_last_layer=True)
        rng = np.random.default_rng(model.shape.vocabulary)
        rows = (model.shape.vocabulary, max(model.shape.types, 1))
        ids, types = (rng.integers(0, n, program.tokens) for n in rows)
        loaded = Loaded(program, embedding_table(model, lanes))
        found.append((program, model, loaded.inference(ids, types)))
    return found


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
        return {name: changed(one) for name, one in vars(part).items() if isinstance(one, Linear)}

    tokens = model.shape.tokens
    context = SHIFT_MAX - (255 * tokens).bit_length()  # the largest that golden takes
    shifts: dict[str, Any] = {"score_s": SHIFT_MAX - seed, "context_s": context - seed // 4}
    sums: dict[str, Any] = {"residual_shift": RESIDUAL_SHIFT_MAX * seed // 8}  # any bit set
    layers = []
    for layer in model.layers:
        attention = replace(layer.attention, **of(layer.attention), **shifts, **sums)
        ffn = replace(layer.ffn, **of(layer.ffn), **sums)
        layers.append(replace(layer, attention=attention, ffn=ffn))
    large = int(rng.integers(128, 255))
    token, position = (large, 256 - large) if seed % 4 else (256 - large, large)
    embedding = replace(model.embedding, token_factor=token, position_factor=position)
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


def _traced(design: Design, mutant: int, pace: int | None) -> str:
    with _machine(design, mutant, odd=False) as machine:
        for number, (program, model, inference) in enumerate(_work(machine.config)):
            seed = None if pace is None else seed_of(pace, number)
            limits = {"patience": PATIENCE, "longest": LONGEST}
            played = inference.but(row_latency=ROW_LATENCY, trace=True, seed=seed, **limits)
            if wrong := verdict(machine.run(played), program, model).problems:
                return wrong[0]
    return ""
