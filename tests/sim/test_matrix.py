"""Hardware x model x texts: every write of every intermediate, every counter and every cycle.

Each accelerator of `tests/configs.py` plays all models of the zoo that it takes, back to back and
in turn: with and without what its options are for, the last layer cut and whole, alone and in
batches, with sources that wait for each other and with sources that rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from golden.model import Model
from rtl.compile.fit import FitError
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from sim.design import described
from sim.machine.inference import Inference, Loaded, seed_of
from sim.machine.machine import library
from sim.verdict import verdict
from tb.scenarios import batch_lengths, kinds_of, sequences
from tests import zoo
from tests.configs import CONFIGS
from tests.damage import mutated
from tests.sim.played import played, right

MODELS = (*zoo.SHAPES, *zoo.CORNERS, zoo.REAL)
#: What `make test` plays, on the accelerator that its other tests build.
FEW = ("every-token", "factorised", "one", "pre-norm", "shared-keys", "three-heads")
#: What plays texts of hundreds of tokens.
LONG = ("every-token", "odd", zoo.REAL)
#: Bytes of the command stream a cycle, None for a word; words of it that a buffer holds; cycles
#: from a request to its row.
MEMORIES = [
    *((None, 1, 20), (1, 1, 100), (2, 9, 1), (None, 5, 1), (3, 1, 7), (None, 1, 300), (1, 2, 1)),
    *((1, 300, 20), (3, 1_000_000, 77)),
]

Work = tuple[Inference, Program, Model]


def texts(program: Program, seed: int) -> list[list[int]]:
    """Lengths on both sides of a row tile, and batches that fill the memory of tokens."""
    n, most = program.config.lanes, program.tokens
    alone = [1, n - 1, n + 1, 2 * n + 1, min(most, 128 if seed % 4 else most)]
    batches = [batch_lengths(program, seed), batch_lengths(program, seed + 1)]
    ones = [1] * min(program.row_tiles, 32)
    return [[tokens] for tokens in alone if tokens <= most] + [*batches, ones]


def work(config: Config, names: Sequence[str], turn: int, *, rests: bool = False) -> Iterator[Work]:
    """The inferences of one turn: in each a model has another seed, kind and last layer."""
    for place, name in enumerate(names, turn):
        shape = zoo.shape(name, positions=config.tokens + 4)
        kinds = kinds_of(shape, config) if place % 3 else {}
        kinds |= {"first_norm": place % 2 > 0, "head_norm": place % 4 == 0}
        model = zoo.model(name, place, positions=config.tokens + 4, **kinds)
        try:
            program = compile_model(model, config, whole_last_layer=bool(place // 2 % 2))
        except FitError:
            continue
        loaded = Loaded(program, embedding_table(model, config.lanes))
        for number, lengths in enumerate(texts(program, place)):
            rate, ahead, latency = MEMORIES[(place + number) % len(MEMORIES)]
            parts = sequences(model, lengths, place + number)
            inference = loaded.inference(
                *parts,
                lengths,
                trace=True,
                stream_bytes=rate,
                stream_ahead=ahead,
                row_latency=latency,
                seed=seed_of(place, number) if rests else None,
            )
            yield inference, program, model


@pytest.mark.parametrize(
    ("name", "models", "turns"),
    [
        pytest.param("4", FEW, 1, id="few on 4"),
        *(
            pytest.param(
                *(name, LONG if "long" in name else MODELS, 3),
                marks=[pytest.mark.slow, pytest.mark.timeout(5400)],
                id=name,
            )
            for name in CONFIGS
        ),
    ],
)
def test_every_write_and_every_cycle(name: str, models: Sequence[str], turns: int) -> None:
    config, seen = CONFIGS[name], set()
    for turn in range(turns):
        given = list(work(config, models, turn, rests=turn == 2))
        order = np.random.default_rng(turn).permutation(len(given))
        results = played(config, [given[place][0] for place in order])
        for place, result in zip(order, results, strict=True):
            _, program, model = given[place]
            right(result, program, model)
            seen.add(model.shape)
    assert len(seen) >= len(models) - 2  # two are too wide for some


@pytest.mark.slow
def test_a_fault_is_seen() -> None:
    """Row tiles of X8 that do not lie in the ways in turn."""
    config = CONFIGS["4x16"]
    fault = ("m.d.sync += way.eq(way + 1)", "pass")
    unit = mutated("normalizer", fault, unit="accelerator", config=config)
    given: list[Any] = list(work(config, MODELS, 0))
    program = library(described(unit, "accelerator", config), "-fault")
    results = played(config, [one for one, *_ in given], program)
    said = [verdict(result, *of).problems for result, (_, *of) in zip(results, given, strict=True)]
    assert "values differ; first" in str(said)
