"""From a number to a case: what is odd about its first run, and the sound runs that follow it."""

from __future__ import annotations

from random import Random

from rtl.interface.config import Config
from sim.machine.inference import Client
from verify.fuzz.clients import CLIENTS
from verify.fuzz.job import Case, Run
from verify.fuzz.streams import STREAMS, Variation
from verify.fuzz.subject import POOL, Subject, subjects

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


def built(seed: int, limits: Config, number: int) -> tuple[Case, tuple[Subject, ...]]:
    """Case `number` of a seed, and the subject of each of its runs.

    Cases do not depend on each other.
    """
    columns = "" if limits.columns is None else f"x{limits.columns}"
    biased = f"b{limits.bias_heads}" if limits.bias_heads else ""
    windows = "w" if limits.windows else ""
    rms = "r" if limits.rms_norm else ""
    gated = "g" if limits.gated else ""
    rotary = f"p{limits.rotary_pairs}" if limits.rotary_pairs else ""
    choices = f"{columns}{biased}{windows}{rms}{gated}{rotary}"
    rng = Random(f"{seed} {limits.lanes}{choices} {number}")
    kind = TURNS[number % len(TURNS)]
    subject = rng.choice(subjects(limits))
    odd = KINDS[kind](rng, subject, manner(rng, subject.sound(rng.randrange(POOL))))
    played = [(odd, subject)]
    if odd.client & Client.KEEP:
        own = subject.sound(rng.randrange(POOL))
        played.append((own.but(client=Client.REST), subject))
    for _ in range(rng.choice((1, 1, 2))):
        other = subject if rng.random() < 0.5 else rng.choice(subjects(limits))
        good = other.sound(rng.randrange(POOL))
        if rng.random() < 0.3:
            good = manner(rng, good)
        played.append((good, other))
    runs = tuple(run for run, _ in played)
    return Case(number, kind, runs), tuple(subject for _, subject in played)
