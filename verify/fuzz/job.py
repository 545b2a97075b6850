"""A case of the fuzzer: runs of the accelerator from one reset on, and what is right for each."""

from __future__ import annotations

from dataclasses import dataclass, field

from rtl.interface.operation import Error
from sim.machine.inference import Inference


@dataclass(frozen=True, kw_only=True)
class Run(Inference):
    """One inference, good or bad.

    Attributes
    ----------
    logits
        What golden computes where these very streams are a sound inference; None for others.
    behind
        What golden computes of the packets that stand behind the first ones in both streams.
    others
        Codes that are right for this run besides those of its streams.
    """

    logits: tuple[int, ...] | None = None
    behind: tuple[int, ...] | None = None
    others: frozenset[Error] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Case:
    """What is played from one reset on."""

    number: int
    kind: str
    runs: tuple[Run, ...]
