"""The bench of the accelerator: families, lengths, stalls, failures and resets.

Registers and memories begin with X on Icarus, with anything on Verilator.
"""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtl.compile.program import compile_model
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.bench import run_bench
from sim.design import Design, generated
from tb.case import Case, Inference, write_case
from tb.scenarios import SMALL_LIMITS, batches, inferences, kinds_of
from tests import configs
from tests.malformed import damaged, damaged_streams, refused_streams, refused_tokens
from tests.tb.power_up import at_random, unknown
from tests.zoo import SMALL, family

LIMITS = Config(lanes=4, **SMALL_LIMITS)
EVERY = dataclasses.replace(LIMITS, **configs.EVERY)
COLUMNS = dataclasses.replace(EVERY, columns=16)


@functools.cache
def accelerator(config: Config, simulator: str) -> Design:
    """Its Verilog, made once."""
    design = generated("accelerator", config)
    return unknown(design) if simulator == "icarus" else at_random(design, seed=1)


def play(
    folder: Path, simulator: str, config: Config, found: Sequence[Inference], **settings: Any
) -> list[dict[str, Any]]:
    """Play the inferences; their reports."""
    path, report = folder / "case.npz", folder / "report.json"
    write_case(path, Case(inferences=tuple(found), **settings))
    env = {"CASE": str(path), "REPORT": str(report)}
    design = accelerator(config, simulator)
    run_bench(design, simulator, config, testcases=["case"], env=env, variant="power-up")
    facts: list[dict[str, Any]] = json.loads(report.read_text())["inferences"]
    assert len(facts) == len(found)
    for inference, entry in zip(found, facts):
        assert entry["first_difference"] is None
        if inference.error is Error.NONE and inference.interruption is None:
            assert set(entry["compared"]) == {w.tensor for w in inference.writes or ()}
            assert all(entry["compared"].values())
    return facts


#: Settings of the streams, of which each config of a simulator meets another.
PACES: list[dict[str, Any]] = [
    {"idle": 0.3, "stall": 0.5, "row_latency": 7},
    {"row_latency": 60, "interval": 4},
    {"idle": 0.8, "stall": 0.0},
    {"idle": 0.0, "stall": 0.9, "row_latency": 1},
]


@pytest.mark.slow
@pytest.mark.parametrize("pace", range(len(PACES)))
@pytest.mark.parametrize("config", [LIMITS, EVERY, COLUMNS], ids=["plain", "every", "columns"])
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_models_in_turn(simulator: str, config: Config, pace: int, tmp_path: Path) -> None:
    """All families with and without what the hardware has, alone and in batches, one after another.

    Odd lengths, L = 1, holes in the mask, the last layer cut and whole; on Icarus each family at
    one pace, on Verilator at each. tests/sim/test_matrix.py has more hardware and longer texts.
    """
    found = []
    for place, (name, shape) in enumerate(SMALL.items(), pace):
        if simulator == "icarus" and place % len(PACES):
            continue
        kinds = kinds_of(shape, config) if place % 3 else {}
        model = family(name, shape, place, **kinds)
        program = compile_model(model, config, whole_last_layer=bool(place % 2))
        found += inferences(model, program, [11, 1, 6], seed=place, name=name)
        found += batches(model, program, 1, seed=place)
    order = np.random.default_rng(pace).permutation(len(found))
    play(tmp_path, simulator, config, [found[i] for i in order], seed=3, **PACES[pace])


@pytest.fixture(scope="module")
def small() -> tuple[Any, Any, list[Inference]]:
    """A model that does not fill the limits, its program and three sound inferences."""
    model = family("three-heads", dataclasses.replace(SMALL["three-heads"], positions=20))
    program = compile_model(model, LIMITS)
    return model, program, inferences(model, program, [5, 9, 3])


def between(sound: Sequence[Inference], bad: Sequence[Inference]) -> list[Inference]:
    """After every third bad inference, and at the end, a sound one."""
    found: list[Inference] = []
    for place, inference in enumerate(bad):
        found.append(inference)
        if place % 3 == 2 or place == len(bad) - 1:
            found.append(sound[place // 3 % len(sound)])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_refused_streams_and_tokens(simulator: str, small: Any, tmp_path: Path) -> None:
    """Some of those that tests/sim/test_recovery.py plays, on memories that hold anything."""
    model, program, sound = small
    rng, bad = np.random.default_rng(4), []
    for name, stream, error in [*damaged_streams(program, rng), *refused_streams(program)]:
        bad.append(damaged(sound[len(bad) % 3], name, error, stream=stream))
    for name, words, error in refused_tokens(model, program, sound[0].tokens):
        bad.append(damaged(sound[0], name, error, tokens=words))
    square = compile_model(model, dataclasses.replace(LIMITS, columns=16)).stream()
    bad.append(damaged(sound[0], "of another array", Error.FORMAT, stream=square))
    assert {i.error for i in bad} >= {
        *(Error.CRC, Error.TRUNCATED, Error.OVERRUN, Error.FORMAT, Error.LIMIT),
        *(Error.TOKEN, Error.NO_KEY, Error.LENGTH),
    }
    bad = bad[:: 1 if simulator == "verilator" else 7]
    play(tmp_path, simulator, LIMITS, between(sound, bad), idle=0.1, stall=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["abort", "reset"])
@pytest.mark.parametrize(("simulator", "moments"), [("icarus", 4), ("verilator", 60)])
def test_interrupted_at_any_moment(
    kind: Any, simulator: str, moments: int, small: Any, tmp_path: Path
) -> None:
    model, program, sound = small
    sound = [*sound, *batches(model, program, 2)]
    rng = np.random.default_rng(6)
    bad = [
        dataclasses.replace(sound[place % 5], name=f"{kind} in {after}", interruption=(kind, after))
        for place, after in enumerate(map(int, np.sort(rng.integers(1, 3000, moments))))
    ]
    facts = play(tmp_path, simulator, LIMITS, between(sound, bad), idle=0.1, stall=0.2)
    assert sum(entry["interrupted"] == kind for entry in facts) >= 2 * moments // 3
