"""Arrays of more columns than lanes: every write of every intermediate, and every cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from golden.model import Model, Shape
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from sim.design import described
from sim.machine.inference import Inference, Loaded
from sim.machine.machine import library
from sim.verdict import verdict
from tb.scenarios import SMALL, family
from tests.damage import mutated, with_pieces
from tests.sim.played import played, right

LANES = 4
LIMITS = {"tokens": 40, "hidden": 40, "ffn": 32, "labels": 16}

#: Heads of two words of V and of three: one ends with a group of 4, one goes on in the next.
SHAPES = SMALL | {
    f"{words} words a head": Shape(
        layers=1, hidden=3 * size, heads=3, head_size=size, ffn=11, labels=2,
        vocabulary=20, positions=40, types=2,
    )
    for words, size in ((2, 6), (3, 9))
}  # fmt: skip

#: Of one sequence and of several, which begin in every way: a tile of keys has words of others.
BATCHES = [(1,), (24,), (11,), (1,) * 6, (5, 1, 9, 2), (3, 13, 4), (30,), (4, 4, 17, 2)]

Work = tuple[Inference, Program, Model]


def work(config: Config, seed: int, **others: Any) -> Iterator[Work]:
    """All families, the last layer cut and whole, on all batches that they take.

    By an even seed those of pre-norm that can be are without norm1 in layer 0, by an odd one all
    have a norm in the head.
    """
    for name, shape in SHAPES.items():
        odd = bool(seed % 2)
        kinds = {"precise": config.precise, "gated": config.gated}
        kinds |= {"first_norm": odd, "head_norm": odd}
        model = family(name, shape, seed, **kinds)
        program = compile_model(model, config, whole_last_layer=bool(seed % 2))
        loaded = Loaded(program, embedding_table(model, LANES))
        for lengths in BATCHES:
            row_tiles = sum(-(-tokens // LANES) for tokens in lengths)
            if max(lengths) > program.tokens or row_tiles > program.row_tiles:
                continue
            rng = np.random.default_rng([seed, *lengths])
            ids = rng.integers(0, shape.vocabulary, sum(lengths))
            attend = rng.random(sum(lengths)) < 0.8
            attend[np.cumsum(lengths) - 1] = True
            one = loaded.inference(ids, None, attend.astype(int), lengths, trace=True, **others)
            yield one, program, model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "precise", "gated"),
    [
        (16, False, False),
        pytest.param(8, False, False, marks=pytest.mark.slow),
        pytest.param(32, False, False, marks=pytest.mark.slow),
        pytest.param(8, True, True, marks=pytest.mark.slow),
        pytest.param(32, True, False, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("stream_bytes", [None, 1])
def test_every_family_on_a_wide_array(
    columns: int, precise: bool, gated: bool, stream_bytes: int | None
) -> None:
    config = Config(lanes=LANES, columns=columns, precise=precise, gated=gated, **LIMITS)
    given = list(work(config, 1 if stream_bytes else 2, stream_bytes=stream_bytes))
    assert len(given) >= 60
    results = played(config, [one for one, *_ in given])
    for result, (_, program, model) in zip(results, given, strict=True):
        right(result, program, model)


#: What only more columns than lanes have: the file, what stands there, what the fault says.
FAULTS = {
    "a row tile of X8 in the next way": ("normalizer", "m.d.sync += way.eq(way + 1)", "pass"),
    "results of a group": ("walkers", "Mux(wraps | ~in_ways, d", "Mux(1 | ~in_ways, d"),
    "the way of operand A": ("walkers", "tile.a_way.eq(way)", "tile.a_way.eq(0)"),
    "the last row tile of a group": ("walkers", "row.eq(row + minimum(", "row.eq(0 * minimum("),
    "the way of V": ("walkers", "way.eq(way + 1)", "way.eq(way)"),
    "keys of the sequence before": ("attend", "Mux(key_first, low_row[:way_bits], 0)", "0"),
    "where the next sequence begins": (
        "attend", "Mux(next_row[:way_bits] == 0, further, last)", "further",
    ),
    "where the next head begins": ("attend", "Mux(after_head == 0, next_value, value)", "value"),
    "columns of the head before": ("attend", "Mux(first_tile, head_way, 0)", "0"),
    "parts of a plane": ("payload", "(self.part == ways - 1)", "(self.part == 0)"),
    "a word that ends with a payload": ("loader", "(writer.done & padding)", "(writer.done & 0)"),
    "a word of the last of V": ("loader", "writer.takes_whole | writer.ends", "writer.takes_whole"),
    "parameters of the first": ("epilogue", "Mux(at[SELECTED - 1].transposed, 0, l", "Mux(1, 0, l"),
    "a tile that ends too early": ("issuer", "last_drained(tile.tag.columns, self.config)", "0"),
}  # fmt: skip


def test_every_fault_has_its_place() -> None:
    for part, old, new in FAULTS.values():
        with_pieces(part, (old, new))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen(name: str) -> None:
    part, old, new = FAULTS[name]
    config = Config(lanes=LANES, columns=16, **LIMITS)
    unit = mutated(part, (old, new), unit="accelerator", config=config)
    design = described(unit, "accelerator", config)
    given = list(work(config, 2))
    program = library(design, f"-wide-{list(FAULTS).index(name)}")
    results = played(config, [one for one, *_ in given], program)
    assert any(verdict(result, *of) for result, (_, *of) in zip(results, given, strict=True))
