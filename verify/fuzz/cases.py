"""From a number to a case: what is odd about its first run, and the sound runs that follow it."""

from __future__ import annotations

from random import Random

from rtl.interface.config import Config
from sim.machine.inference import Client
from verify.fuzz.clients import CLIENTS
from verify.fuzz.streams import STREAMS, Variation
from verify.fuzz.subject import POOL, Case, Run, subjects

KINDS: dict[str, Variation] = STREAMS | CLIENTS
WEIGHTS = {"abort at a word": 6, "abort": 3, "abort and start": 2, "field": 2, "flags": 2}

TURNS = [kind for kind in KINDS for _ in range(WEIGHTS.get(kind, 1))]
"""Kinds in the order of the cases' numbers."""


def manner(rng: Random, run: Run) -> Run:
    """Pauses on all streams, streams that begin before or after the start, a slower memory."""
    return run.but(
        seed=1 + rng.getrandbits(31) if rng.random() < 0.3 else None,
        idle=rng.choice((0, 0, 0, 1, 2, 30)),
        model_delay=rng.choice((0, 0, 1, 2, 50)),
        tokens_delay=rng.choice((0, 0, 1, 2, 50, 400)),
        row_latency=rng.choice((1, 1, 2, 20)),
    )


def built(seed: int, limits: Config, number: int) -> Case:
    """Case `number` of a seed; cases do not depend on each other."""
    chosen = {"x": limits.columns, "b": limits.bias_heads}
    chosen |= {"g": limits.gated, "p": limits.rotary_pairs}
    choices = "".join(f"{name}{'' if x is True else x}" for name, x in chosen.items() if x)
    rng = Random(f"{seed} {limits.lanes}{choices} {number}")
    kind = TURNS[number % len(TURNS)]
    subject = rng.choice(subjects(limits))
    odd = KINDS[kind](rng, subject, manner(rng, subject.sound(rng.randrange(POOL))))
    runs = [odd]
    if odd.client & Client.KEEP:
        runs.append(subject.sound(rng.randrange(POOL)).but(client=Client.REST))
    for _ in range(rng.choice((1, 1, 2))):
        other = subject if rng.random() < 0.5 else rng.choice(subjects(limits))
        good = other.sound(rng.randrange(POOL))
        runs.append(manner(rng, good) if rng.random() < 0.3 else good)
    return Case(number, kind, tuple(runs))
