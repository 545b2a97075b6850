"""Several accelerators on one memory: each as if it were alone, whatever becomes of the others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from rtl.dma.share import CORE_ADDRESS_BITS, DECERR
from rtl.interface.operation import Error
from sim.cycles.dma import predict_dma
from sim.design import described
from sim.machine.board import ABORT, MemoryBoard
from sim.machine.machine import SLVERR
from tests.damage import replaced, with_pieces
from tests.sim.dma_subjects import BUS, Subject, board_of, limits, subjects
from tests.tiers import quick

pytestmark = pytest.mark.slow

NEVER = 1 << 62


@pytest.fixture(scope="module", params=quick([2, 3]))
def shared(request: pytest.FixtureRequest) -> Iterator[MemoryBoard]:
    board = board_of(4, replace(BUS, cores=request.param), variant=f"-{request.param}")
    yield board
    board.close()


@pytest.fixture
def board(shared: MemoryBoard) -> Iterator[MemoryBoard]:
    shared.pace(5)
    shared.bad_beat(NEVER)
    shared.reset(2)
    yield shared
    assert shared.complaint() == ""


def begin(core: MemoryBoard, subject: Subject, tokens: int) -> None:
    core.point(subject.image, subject.address)
    core.send(subject.words(tokens))
    core.start()


def cores_of(board: MemoryBoard) -> list[MemoryBoard]:
    return [board.core(number) for number in range(board.bus.cores)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_all_at_once(seed: int, board: MemoryBoard) -> None:
    """Each core's logits are its own, in any order of the beats, and its line alone is raised."""
    draw = random.Random(seed)
    cores = cores_of(board)
    board.pace(draw.choice((1, 20, 100)), seed)
    for _ in range(6):
        given = [(draw.choice(subjects(4)), draw.randint(1, 12)) for _ in cores]
        for core, (subject, tokens) in zip(cores, given):
            begin(core, subject, tokens)
        for core, (subject, tokens) in draw.sample(list(zip(cores, given)), len(cores)):
            assert core.ended() == (Error.NONE, subject.logits(tokens))
            core.write("interrupt_pending", 1)
            assert not core.interrupt


@pytest.mark.slow
def test_cycles_of_one_alone(board: MemoryBoard) -> None:
    """As on a memory whose beats come a cycle later; the other cores are silent."""
    for number, core in enumerate(cores_of(board)):
        for latency in (1, 20):
            board.pace(latency)
            subject = subjects(4)[number % 2]
            begin(core, subject, 7)
            assert core.ended() == (Error.NONE, subject.logits(7))
            ids, types, _ = subject.sequence(7)
            said = predict_dma(
                subject.program, ids, types, bus=BUS, latency=latency + 1, address=subject.address
            )
            assert core.read("cycles") == said.cycles


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_failing_one_does_not_stop_the_others(seed: int, board: MemoryBoard) -> None:
    """A bad beat, registers that cannot be used, a damaged stream, an abort, by seed."""
    draw = random.Random(seed)
    cores = cores_of(board)
    board.pace(draw.choice((1, 20)), seed)
    for kind in ("bus", "address", "crc", "abort"):
        number = draw.randrange(len(cores))
        bad, sound = cores[number], [core for core in cores if core is not cores[number]]
        subject = draw.choice(subjects(4))
        work = [(draw.choice(subjects(4)), draw.randint(1, 12)) for _ in sound]
        if kind == "bus":  # the first beat of all is the bad core's: the others begin behind it
            board.bad_beat(board.beats + board.waiting, draw.choice((SLVERR, DECERR)))
        begin(bad, subject, 12)
        if kind in ("address", "crc"):
            assert bad.ended() == (Error.NONE, subject.logits(12))
            bad.write("interrupt_pending", 1)
            bad.write("model_address", 3 if kind == "address" else subjects(4)[0].address + 64)
            bad.send(subject.words(12))
            bad.start()
        board.step(draw.randrange(40))
        for core, (one, tokens) in zip(sound, work):
            begin(core, one, tokens)
        if kind == "abort":
            board.step(draw.randrange(300))
            bad.write("control", ABORT)
        code, logits = bad.ended()
        assert Error(code).name == ("ABORTED" if kind == "abort" else kind.upper())
        assert logits == []
        for core, (one, tokens) in zip(sound, work):
            assert core.ended() == (Error.NONE, one.logits(tokens)), kind
        board.bad_beat(NEVER)
        for core in cores:
            core.write("control", ABORT)  # what is left of a failed one's tokens goes
            core.write("interrupt_pending", 1)
        begin(bad, subject, 5)
        assert bad.ended() == (Error.NONE, subject.logits(5)), kind


@pytest.mark.slow
def test_registers_are_apart_and_end_with_the_last_core(board: MemoryBoard) -> None:
    cores = cores_of(board)
    values = np.random.default_rng(1).integers(0, 1 << 32, len(cores)).tolist()
    for core, value in zip(cores, values):
        assert core.write("model_address", value)
    assert [core.read("model_address") for core in cores] == values
    assert not cores[-1].write("id", 1)  # as a core alone refuses it
    assert cores[-1].write("interrupt_enable", 0)
    assert [core.read("interrupt_enable") for core in cores] == [1] * (len(cores) - 1) + [0]
    beyond = len(cores) << CORE_ADDRESS_BITS
    if len(cores) & len(cores) - 1:  # there are addresses beyond the last core
        for offset in (0, 0x98, 0xFC):
            assert board._call("write", beyond + offset, 1, 15) == DECERR
            assert board.read(beyond + offset) == 0
            assert "a bus fault: the read" in board.complaint()
        assert board.write("model_address", 64)
        assert board.read("model_address") == 64


#: Part of rtl/, what it says, what the fault says.
FAULTS = {
    "beats go to core 0": ("share", "axi.rid == number", "number == 0"),
    "every burst has id 0": ("share", "axi.arid.eq(chosen)", "axi.arid.eq(0)"),
    "an address changes while it waits": ("share", "with m.If(free & (chosen == number))",
                                          "with m.If(chosen == number)"),
    "lines are crossed": ("accelerator_dma", "self.interrupt[number].eq(core.interrupt)",
                          "self.interrupt[number ^ 1].eq(core.interrupt)"),
    "registers of core 0 alone": ("share", "with m.If(busy), m.Switch(number)",
                                  "with m.If(busy), m.Switch(number & 0)"),
}  # fmt: skip


def test_every_fault_has_its_place() -> None:
    for part, old, new in FAULTS.values():
        with_pieces(part, (old, new))


def everything(board: MemoryBoard) -> None:
    for test in (test_all_at_once, test_a_failing_one_does_not_stop_the_others):
        for seed in range(3):
            board.reset(2)
            test(seed, board)
    board.reset(2)
    test_registers_are_apart_and_end_with_the_last_core(board)
    assert board.complaint() == ""


@pytest.fixture(scope="module")
def sound() -> None:
    """What finds the faults passes without one."""
    board = board_of(4, replace(BUS, cores=2), variant="-2")
    everything(board)
    board.close()


@pytest.mark.slow
@pytest.mark.usefixtures("sound")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.machine.board.MOST", 100_000)
    part, old, new = FAULTS[fault]
    bus = replace(BUS, cores=2)
    with replaced(part, (old, new)):
        made = import_module("rtl.accelerator_dma")
        design = described(made.AcceleratorsDma(limits(4), bus), made.NAME, limits(4))
    board = board_of(4, bus, design, variant=f"-fault-{list(FAULTS).index(fault)}")

    with pytest.raises((AssertionError, TimeoutError, ValueError)):
        everything(board)
    board.close()
