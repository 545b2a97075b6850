"""The bench of the accelerator: families, lengths, stalls, failures and resets.

Registers and memories begin with X on Icarus, with anything on Verilator.
"""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.model import Model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.interface.registers import ADDRESS
from sim.accelerator import Played, play
from sim.design import Design, generated
from sim.machine.inference import ABORT, Action, Event, Inference, Loaded, Packets
from sim.verdict import expected_of, failure
from tb.compare import Comparison
from tb.expected import expected_writes
from tb.packing import ATTEND_BIT
from tb.scenarios import SMALL_LIMITS, batch_lengths, kinds_of, sequence, sequences
from tests import configs
from tests.malformed import damaged_streams, refused_streams, refused_tokens
from tests.sim.played import right
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


Work = tuple[Inference, Program, Model]
"""An inference, and whose it is."""


def work(
    model: Model, program: Program, lengths: Sequence[int], batches: int = 0, **around: Any
) -> list[Work]:
    """Sequences of these lengths, and as many batches, all their writes recorded."""
    loaded = Loaded(program, embedding_table(model, program.config.lanes))
    found = [loaded.inference(*sequence(model, n, n), trace=True, **around) for n in lengths]
    for seed in range(batches):
        many = batch_lengths(program, seed)
        parts = sequences(model, many, seed)
        found.append(loaded.inference(*parts, many, trace=True, **around))
    return [(one, program, model) for one in found]


def played(
    folder: Path, simulator: str, config: Config, found: Sequence[Inference], **settings: Any
) -> list[Played]:
    """What they showed; all have ended."""
    design = accelerator(config, simulator)
    results = play(design, simulator, config, found, folder, variant="power-up", **settings)
    assert len(results) == len(found)
    return results


def begun(one: Played, program: Program, model: Model) -> None:
    """What an inference that was cut off has written is right as far as it goes."""
    comparison, inference = Comparison(), one.result.inference
    traces, logits = expected_of(inference, model, None)
    attend = (inference.words & ATTEND_BIT) > 0
    expected = expected_writes(program, traces, inference.lengths, attend)
    comparison.ports(expected, one.result.writes, whole=False)
    assert (comparison.message(), comparison.problem) == ("", "")
    assert one.result.logits.tolist() == logits[: one.result.logits.size].tolist()


#: Settings of the streams, of which each config of a simulator meets another; `share` is that of a
#: word of the command stream which comes in a cycle.
PACES: list[dict[str, Any]] = [
    {"idle": 0.3, "stall": 0.5, "row_latency": 7},
    {"row_latency": 60, "share": 4},
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
    given: list[Work] = []
    pauses = dict(PACES[pace])
    around = {"row_latency": pauses.pop("row_latency", 20)}
    around["stream_bytes"] = max(config.stream_width // pauses.pop("share", 1), 1)
    for place, (name, shape) in enumerate(SMALL.items(), pace):
        if simulator == "icarus" and place % len(PACES):
            continue
        kinds = kinds_of(shape, config) if place % 3 else {}
        model = family(name, shape, place, **kinds)
        program = compile_model(model, config, whole_last_layer=bool(place % 2))
        given += work(model, program, [11, 1, 6], 1, **around)
    order = np.random.default_rng(pace).permutation(len(given))
    found = [given[i][0] for i in order]
    for i, one in zip(order, played(tmp_path, simulator, config, found, seed=3, **pauses)):
        right(one.result, *given[i][1:])


@pytest.fixture(scope="module")
def small() -> list[Work]:
    """A model that does not fill the limits: three sequences and two batches of it."""
    model = family("three-heads", dataclasses.replace(SMALL["three-heads"], positions=20))
    return work(model, compile_model(model, LIMITS), [5, 9, 3], 2)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_refused_streams_and_tokens(simulator: str, small: list[Work], tmp_path: Path) -> None:
    """Some of those that tests/sim/test_recovery.py plays, on memories that hold anything."""
    (sound, program, model), rng = small[0], np.random.default_rng(4)
    width = program.config.stream_width
    streams = [*damaged_streams(program, rng), *refused_streams(program)]
    square = compile_model(model, dataclasses.replace(LIMITS, columns=16)).stream()
    streams.append(("of another array", square, Error.FORMAT))
    bad = [(sound.but(model=Packets.whole(s, width), name=n), error) for n, s, error in streams]
    for name, words, error in refused_tokens(model, program, sound.words):
        tokens = Packets.whole(words.astype("<u4").tobytes(), 4)
        bad.append((sound.but(tokens=tokens, name=name), error))
    assert {error for _, error in bad} >= {
        *(Error.CRC, Error.TRUNCATED, Error.OVERRUN, Error.FORMAT, Error.LIMIT),
        *(Error.TOKEN, Error.NO_KEY, Error.LENGTH),
    }
    bad = bad[:: 1 if simulator == "verilator" else 7]
    found = [one for each in bad for one in (each[0], sound)]
    results = played(tmp_path, simulator, LIMITS, found, idle=0.1, stall=0.2)
    for (_, error), ended, after in zip(bad, results[::2], results[1::2]):
        one = ended.result
        assert (one.error, failure(one)) == (error, ""), one.inference.name
        whole = len(one.inference.model.last), len(one.inference.tokens.last)
        assert (one.model_taken, one.tokens_taken) == whole
        right(after.result, program, model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["abort", "reset"])
@pytest.mark.parametrize(("simulator", "moments"), [("icarus", 4), ("verilator", 60)])
def test_interrupted_at_any_moment(
    kind: str, simulator: str, moments: int, small: list[Work], tmp_path: Path
) -> None:
    """After it an inference is right; an abort that comes too late changes nothing."""
    found: list[Work] = []
    for place, after in enumerate(np.sort(np.random.default_rng(6).integers(1, 3000, moments))):
        sound, *whose = small[place % 5]
        event = Event(int(after) - 1, Action.RESET)
        if kind == "abort":
            event = Event(int(after) - 1, address=ADDRESS["control"], data=ABORT)
        found += [(sound.but(events=(event,)), *whose), small[place % 3]]
    given = [one for one, *_ in found]
    results = played(tmp_path, simulator, LIMITS, given, idle=0.1, stall=0.2)
    assert sum(one.interrupted == kind for one in results) >= 2 * moments // 3
    for one, (_, program, model) in zip(results, found):
        code = one.result.error
        if code is Error.NONE and one.result.end == "done":
            right(one.result, program, model)
            continue
        assert one.interrupted == kind
        assert (one.result.end, code) in {("reset", Error.NONE), ("done", Error.ABORTED)}
        begun(one, program, model)
        assert kind == "reset" or not one.result.logits.size
