"""Many inferences on the machine: right, in order, exactly timed, and never hanging."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.encoder import run as golden
from golden.encoder import run_batch
from golden.model import Model, Shape
from golden.random import random_model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.command import Opcode
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.cycles.model import predict
from sim.machine import volume
from sim.machine.volume import Job, Result
from tests import zoo
from tests.damage import any_damage

#: As in test_cycles.py and test_cycle_counts.py, so that one build serves all.
CONFIG = Config(lanes=4)
PLAIN = zoo.shape("bert-tiny", positions=16)
ODD = zoo.shape("pre-norm-embedding-norm", labels=3, positions=16, vocabulary=30)


class Loaded:
    """A random model, compiled."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.model: Model = random_model(shape, seed)
        self.program: Program = compile_model(self.model, CONFIG)
        self.table = embedding_table(self.model, CONFIG.lanes)

    def job(self, tokens: int, seed: int = 0, **options: bool | int) -> Job:
        """A random sequence with both types and holes in the mask."""
        rng = np.random.default_rng([tokens, seed])
        attend = rng.integers(0, 4, tokens) > 0
        attend[0] = True
        ids = rng.integers(0, self.model.shape.vocabulary, tokens)
        types = rng.integers(0, self.model.shape.types, tokens)
        return Job(self.program, self.table, ids, types, attend, **options)

    def golden(self, job: Job, trace: dict[str, np.ndarray] | None = None) -> np.ndarray:
        return golden(self.model, job.ids, job.types, job.attend, trace)


@pytest.fixture(scope="module")
def plain() -> Loaded:
    return Loaded(PLAIN, 1)


@pytest.fixture(scope="module")
def odd() -> Loaded:
    return Loaded(ODD, 2)


def compared(loaded: Loaded, job: Job, result: Result, program: Program | None = None) -> int:
    """How many values of all intermediates were equal; fails on a difference."""
    trace: dict[str, np.ndarray] = {}
    assert result.error is Error.NONE
    assert result.logits.tolist() == loaded.golden(job, trace).tolist()
    found = volume.compare(program or loaded.program, trace, len(job.ids), result)
    assert not found.problem
    assert not found.message()
    assert set(found.compared) >= {n for n in trace if n.endswith((".p", ".sum", ".x8", ".q"))}
    return found.compared.total()


@pytest.mark.parametrize("seed", [None, 3])
def test_inferences_back_to_back_with_model_switches(
    plain: Loaded, odd: Loaded, seed: int | None
) -> None:
    order = [plain, odd, odd, plain, odd, plain]
    jobs = [one.job(n, trace=True) for one, n in zip(order, (16, 7, 1, 3, 16, 16), strict=True)]
    results = volume.simulate(CONFIG, jobs, seed=seed)
    assert [result.index for result in results] == list(range(6))
    for one, job, result in zip(order, jobs, results, strict=True):
        assert compared(one, job, result) > 100 * len(job.ids)
    if seed is None:
        assert results[0].cycles == results[5].cycles


def test_stalls_depend_on_the_seed_alone(plain: Loaded) -> None:
    jobs = [plain.job(9), plain.job(16)]
    undisturbed, once, again, other = (
        [result.cycles for result in volume.simulate(CONFIG, jobs, seed=seed)]
        for seed in (None, 5, 5, 6)
    )
    assert once == again
    assert len({*undisturbed, *once, *other}) == 6


@pytest.mark.parametrize(
    ("stream_bytes", "stream_ahead", "row_latency"),
    [
        (None, 1, 20),
        (1, 1, 20),
        (2, 1, 1),
        (3, 1, 77),
        (4, 1, 400),
        (1, 2, 20),
        (2, 9, 1),
        (1, 300, 20),
        (3, 1_000_000, 77),
        (None, 5, 20),
    ],
)
def test_timing_is_that_of_the_cycle_model(
    plain: Loaded, odd: Loaded, stream_bytes: int | None, stream_ahead: int, row_latency: int
) -> None:
    cases = [(one, n) for one in (plain, odd) for n in (1, 5, 16)]
    memory: dict[str, Any] = {
        "stream_bytes": stream_bytes,
        "stream_ahead": stream_ahead,
        "row_latency": row_latency,
    }
    results = volume.simulate(CONFIG, [one.job(n) for one, n in cases], **memory)
    for (one, n), result in zip(cases, results, strict=True):
        expected = predict(one.program, n, **memory)
        assert (result.cycles, result.active) == (expected.cycles, expected.active)
        assert result.stalls == expected.stalls


def test_operations_cover_the_counters(plain: Loaded) -> None:
    (result,) = volume.simulate(CONFIG, [plain.job(16)])
    assert sum(one.active for one in result.operations) == result.active
    assert result.cycles == result.active + sum(result.stalls.values())
    assert result.span <= result.cycles
    kinds = [plain.program.steps[one.number].opcode for one in result.operations]
    assert kinds == [
        step.opcode
        for step in plain.program.steps
        if step.opcode in (Opcode.EMBED, Opcode.LINEAR, Opcode.ATTEND)
    ]
    for one in result.operations:
        assert 0 <= one.first <= one.last < result.cycles
        assert one.active <= one.last - one.first + 1


def test_a_wrong_weight_is_found_and_named(plain: Loaded) -> None:
    steps = list(plain.program.steps)
    place = next(i for i, step in enumerate(steps) if step.name == "layer.1.k")
    payload = bytearray(steps[place].payload)
    payload[0] ^= 0x40
    steps[place] = replace(steps[place], payload=bytes(payload))
    wrong = replace(plain.program, steps=tuple(steps))
    job = replace(plain.job(8), program=wrong)
    (result,) = volume.simulate(CONFIG, [job], trace=True)
    trace: dict[str, np.ndarray] = {}
    plain.golden(job, trace)
    found = volume.compare(plain.program, trace, 8, result)
    assert found.first is not None
    assert found.first.tensor == "layer.1.k"
    assert found.mismatches["layer.0.ffn.sum"] == 0
    assert found.mismatches["layer.1.q"] == 0
    assert "layer.1.k[" in found.message()
    assert "golden says" in found.message()


def test_errors_end_their_inference_alone(plain: Loaded) -> None:
    good = plain.job(6, trace=True)
    stream = bytearray(plain.program.stream())
    stream[len(stream) // 2] ^= 1
    jobs = [
        good,
        replace(good, ids=[1, 2, 30], types=None, attend=None),
        good,
        replace(good, program=bytes(stream)),
        good,
        replace(good, program=plain.program.stream()[:-64]),
        replace(good, program=plain.program.stream() + bytes(64)),
        replace(good, attend=[0] * 6),
        replace(good, abort=700),
        good,
    ]
    results = volume.simulate(CONFIG, jobs)
    assert [result.error for result in results] == [
        Error.NONE,
        Error.TOKEN,
        Error.NONE,
        Error.CRC,
        Error.NONE,
        Error.TRUNCATED,
        Error.OVERRUN,
        Error.NO_KEY,
        Error.ABORTED,
        Error.NONE,
    ]
    for result in results:
        if result.error is Error.NONE:
            compared(plain, good, result)
        else:
            assert result.logits.size == 0


def test_a_hang_is_an_error_that_says_where(plain: Loaded) -> None:
    with pytest.raises(
        volume.MachineError,
        match=r"inference 0 \(5 tokens\): no progress for 50 cycles since cycle \d+: "
        r"the array says weights; command stream word \d+ of \d+, token 5 of 5, "
        r"\d+ rows asked for and not taken",
    ):
        volume.simulate(CONFIG, [plain.job(5)], row_latency=5000, patience=50)


def test_an_inference_may_be_bounded(plain: Loaded) -> None:
    job = plain.job(5)
    (result,) = volume.simulate(CONFIG, [job])
    (bounded,) = volume.simulate(CONFIG, [job], longest=result.cycles)
    assert bounded.cycles == result.cycles
    with pytest.raises(volume.MachineError, match="still at it after 1000 cycles"):
        volume.simulate(CONFIG, [job], longest=1000)


def test_a_row_beyond_the_table_is_an_error(plain: Loaded) -> None:
    job = replace(plain.job(5), program=plain.program.stream(), table=plain.table[:20])
    with pytest.raises(volume.MachineError, match=r"row \d+ was asked for, the table has 20"):
        volume.simulate(CONFIG, [job])


def test_no_damage_of_stream_or_rows_gives_logits(plain: Loaded) -> None:
    """Any byte changed, cut or added: of the stream the accelerator's error, of the rows ours."""
    job, lanes, sound = plain.job(5), CONFIG.lanes, plain.program.stream()
    streams = [damaged + bytes(-len(damaged) % lanes) for damaged in any_damage(sound, 5, 60)]
    jobs = [replace(job, program=stream) for stream in streams if stream not in (b"", sound)]
    assert len(jobs) > 50
    for result in volume.simulate(CONFIG, jobs):
        assert result.error in (
            Error.FORMAT,
            Error.CRC,
            Error.LIMIT,
            Error.TRUNCATED,
            Error.OVERRUN,
        )
        assert not len(result.logits)
    rows, width = plain.table.tobytes(), plain.table.shape[1]
    tables = [*any_damage(rows, 6, 60), Loaded(PLAIN, 99).table.tobytes()]
    for table in (np.frombuffer(one, np.int8) for one in tables if one and len(one) % width == 0):
        with pytest.raises(ValueError, match="the table is damaged or another model's than"):
            volume.simulate(CONFIG, [replace(job, table=table.reshape(-1, width))])


def test_processes_share_the_jobs_and_end_with_the_iteration(plain: Loaded) -> None:
    jobs = [plain.job(1 + i % 16, i) for i in range(40)]
    results = volume.simulate(CONFIG, jobs, processes=3)
    assert [result.index for result in results] == list(range(40))
    for job, result in zip(jobs, results, strict=True):
        assert result.logits.tolist() == plain.golden(job).tolist()

    many = volume.simulate_each(CONFIG, [plain.job(16)] * 2000, processes=2)
    next(many)
    assert len(children()) == 2
    many.close()
    assert children() == []


def children() -> list[str]:
    """Processes of ours that run the machine."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 :].rsplit(") ", 1)
        if name == "accelerator" and int(rest.split()[1]) == os.getpid():
            found.append(status.parent.name)
    return found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream_bytes": 0}, "stream_bytes is 0: it must be 1 or more"),
        ({"stream_ahead": 0}, "stream_ahead is 0: it must be 1 or more"),
        ({"row_latency": 0}, "row_latency is 0"),
        ({"processes": 0}, "processes is 0"),
        ({"patience": -1}, "patience is -1"),
        ({"longest": -1}, "longest is -1: it must be 0 or more"),
        ({"seed": -1}, "seed is -1: it must lie in 0"),
    ],
)
def test_refused_options(plain: Loaded, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        volume.simulate(CONFIG, [plain.job(3)], **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda job: replace(job, ids=[], types=None, attend=None), "the sequence is empty"),
        (lambda job: replace(job, types=[0]), "types has 1 entries for 3 ids"),
        (lambda job: replace(job, attend=[1]), "attend has 1 entries for 3 ids"),
        (
            lambda job: replace(job, ids=[1, 1 << 24, 2]),
            "ids holds 16777216: it must lie in 0..16777215",
        ),
        (lambda job: replace(job, ids=[1, -1, 2]), "ids holds -1: it must"),
        (lambda job: replace(job, types=[0, 1, 2]), "types holds 2: it must lie in 0..1"),
        (lambda job: replace(job, program=b"123"), "3 bytes is no whole words of 4"),
        (lambda job: replace(job, table=job.table[:, :3]), "must be what embedding_table"),
    ],
)
def test_refused_jobs(plain: Loaded, change: Callable[[Job], Job], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        volume.simulate(CONFIG, [change(plain.job(3))])


@pytest.mark.parametrize(
    ("place", "change", "error", "number"),
    [
        (4, {"id": 30}, Error.TOKEN, 1),
        (9, {"id": 1 << 23}, Error.TOKEN, 2),
        (3, {"attend": 0}, Error.NO_KEY, 0),
        (9, {"attend": 0}, Error.NO_KEY, 2),
    ],
)
def test_an_error_of_one_sequence_fails_the_batch(
    plain: Loaded, place: int, change: dict[str, int], error: Error, number: int
) -> None:
    """The register says of which; the next batch is right, and says 0 again."""
    lengths = (4, 5, 3)
    good = plain.job(12)
    good = replace(good, attend=np.ones(12, int), lengths=lengths)
    ids, attend = np.array(good.ids), np.ones(12, int)
    ids[place] = change.get("id", ids[place])
    if "attend" in change:
        first = sum(lengths[:number])
        attend[first : first + lengths[number]] = 0
    bad = replace(good, ids=ids, attend=attend)
    failed, right = volume.simulate(CONFIG, [bad, good])
    assert (failed.error, failed.sequence, failed.logits.size) == (error, number, 0)
    assert (right.error, right.sequence) == (Error.NONE, 0)
    wanted = run_batch(plain.model, good.ids, good.types, good.attend, lengths)
    assert right.logits.tolist() == wanted.reshape(-1).tolist()


@pytest.mark.parametrize(
    ("lengths", "number"), [((1,) * 40, None), ((CONFIG.tokens + 1, 2), 0), ((4, 4, 4), None)]
)
def test_a_batch_beyond_the_memory(
    plain: Loaded, lengths: tuple[int, ...], number: int | None
) -> None:
    job = plain.job(sum(lengths))
    job = replace(job, attend=np.ones(sum(lengths), int), lengths=lengths)
    (found,) = volume.simulate(CONFIG, [job])
    fits = sum(-(-length // CONFIG.lanes) for length in lengths) <= CONFIG.row_tiles
    assert found.error is (Error.NONE if fits and number is None else Error.LENGTH)
    if number is None and not fits:
        number = CONFIG.row_tiles  # each has a row tile: the first that finds none left
    assert found.sequence == (number or 0)
