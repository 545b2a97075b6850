"""Some inferences of texts on the simulated accelerator, each judged: the share of one worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from golden.model import Model
from quant.foreign.tokenizer import Tokens
from sim.machine.inference import Loaded, seed_of
from sim.machine.machine import Machine, accelerator
from sim.verdict import Verdict, verdict

SHARE = 8
"""Inferences of a worker at a time; some seconds each."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all inferences share; `memory` are attributes of an `Inference`.

    stalls: seed of the rests on every stream; None: none.
    """

    model: Model
    loaded: Loaded
    memory: Mapping[str, Any]
    stalls: int | None


@dataclass(frozen=True, kw_only=True)
class Batch:
    """An inference: the places of its texts, golden's logits of them, and whether it is traced."""

    number: int
    texts: Sequence[int]
    sequences: Sequence[Tokens]
    golden: np.ndarray
    traced: bool

    @property
    def name(self) -> str:
        tokens = sum(len(one.ids) for one in self.sequences)
        return f"text {', '.join(map(str, self.texts))} ({tokens} tokens)"


def simulate(setup: Setup, share: Sequence[Batch]) -> list[tuple[int, int, Verdict]]:
    """Cycles, those simulated, and what is wrong of each inference; errors as for `Machine`."""
    found = []
    config = setup.loaded.program.config
    with Machine(accelerator(config), config) as machine:
        for place, batch in enumerate(share):
            first = batch.number - place
            inference = setup.loaded.inference(
                np.concatenate([one.ids for one in batch.sequences]),
                np.concatenate([one.types for one in batch.sequences]),
                lengths=[len(one.ids) for one in batch.sequences],
                **setup.memory,
                seed=None if setup.stalls is None else seed_of(setup.stalls + first, place),
                trace=batch.traced,
                name=batch.name,
            )
            result = machine.run(inference)
            judged = verdict(result, setup.loaded.program, setup.model, batch.golden)
            found.append((result.cycles, result.simulated, judged))
    return found
