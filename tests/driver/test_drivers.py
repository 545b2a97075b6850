"""What both drivers promise, in C and in Python, on the simulated accelerator with DMA."""

from __future__ import annotations

import zlib
from random import Random

import numpy as np
import pytest

from golden.identity import identity_of
from rtl.compile.image import image_bytes
from rtl.interface.command import MAGIC, VERSION
from rtl.interface.operation import Error
from rtl.interface.registers import ADDRESS
from sim.cycles.dma import predict_dma
from sim.machine.board import MemoryBoard
from tb.packing import lengths_of
from tests.damage import any_damage, sections
from tests.driver.conftest import CONFIG
from tests.driver.drivers import (
    BUSY,
    DAMAGED,
    FAILURES,
    IDLE,
    LIMITS,
    NO_IMAGE,
    NO_ROOM,
    NO_STREAM,
    NO_TOKENS,
    OTHER_ROWS,
    PLACE,
    PLACED,
    PLENTY,
    STILL_BUSY,
    TOKEN,
    Driver,
    fail,
    header,
    image_of,
    infers,
    is_right,
    load,
    pool,
    rests,
    words_of,
)
from tests.driver.headers import ANSWERS, account, any_headers
from tests.sim.dma_subjects import BUS
from verify.fuzz.subject import Subject, subjects


@pytest.mark.parametrize(
    ("register", "value", "code"),
    [
        ("id", 0, -1),
        ("id", MAGIC ^ 1, -1),
        ("id", 0xFFFFFFFF, -1),
        ("version", VERSION - 1, -2),
        ("version", VERSION + 256, -2),
    ],
)
def test_another_device_is_left_alone(
    register: str, value: int, code: int, closed: Driver, board: MemoryBoard
) -> None:
    board.show(ADDRESS[register], value)
    assert closed.open() == code
    assert board.accesses[1] == 0


def test_every_model_gives_goldens_logits(
    driver: Driver, board: MemoryBoard, any_subject: Subject
) -> None:
    """Limits are the configuration's, counters those that the cycle model predicts."""
    made = CONFIG.as_dict() | {"columns": CONFIG.tile_columns, "version": VERSION}
    assert driver.limits == {name: made[name] for name in LIMITS}
    board.pace(9)
    for run in pool(any_subject):
        infers(driver, board, any_subject, run)
        assert driver.model == identity_of(any_subject.model).hex()
        words = np.array(words_of(run), np.uint32)
        ids, types = (words >> at & mask for at, mask in TOKEN[:2])
        memory = {"bus": BUS, "latency": 9, "address": PLACE}
        told = predict_dma(any_subject.program, ids, types, lengths=lengths_of(words), **memory)
        expected = {"cycles": told.cycles, "active": told.active, **told.stalls}
        assert driver.counters() == (0, expected)


@pytest.mark.parametrize("seed", range(1, 5))
def test_any_pace(seed: int, driver: Driver, board: MemoryBoard) -> None:
    """Memories that pause, tokens before or after the start; models in turn."""
    rng = Random(seed)
    for _ in range(6):
        subject = rng.choice(subjects(CONFIG))
        run = rng.choice(pool(subject))
        board.pace(rng.choice((1, 20, 200)), rng.randrange(1, 99), gap=60)
        load(driver, board, subject)
        early = rng.random() < 0.5
        if early:
            assert driver.send(words_of(run)) == 0
        assert driver.start() == 0
        if not early:
            board.step(rng.randrange(300))
            assert driver.send(words_of(run)) == 0
        if rng.random() < 0.5:
            assert driver.wait() == 0
        else:
            assert driver.wait_interrupt(lambda: board.step(rng.randrange(200))) == 0
        assert is_right(driver, board, run)


def test_before_the_first_start(driver: Driver, board: MemoryBoard) -> None:
    assert driver.result() == driver.wait() == driver.abort() == IDLE
    assert driver.wait_interrupt(board.complaint, 3) == IDLE
    assert board.accesses[1] == 0
    assert set(driver.counters()[1].values()) == {0}


def test_nothing_is_written_while_busy(
    driver: Driver, board: MemoryBoard, subject: Subject
) -> None:
    """The bus would answer with a fault. The inference goes on."""
    run, image = subject.sound(4), image_bytes(image_of(subject))
    load(driver, board, subject)
    assert driver.send(words_of(run)) == driver.start() == 0
    writes = board.accesses[1]
    for _ in range(5):
        assert driver.result() == driver.start() == driver.use(image) == BUSY
        assert driver.counters()[0] == BUSY
        assert set(driver.counters()[1].values()) == {0xDEAD}
        board.step(50)
    assert board.accesses[1] == writes
    assert driver.wait() == 0
    assert is_right(driver, board, run)


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: error.name)
def test_every_error(error: Error, driver: Driver, board: MemoryBoard, subject: Subject) -> None:
    """Its code, no logit, no interrupt left by a wait for it; the next inference is sound."""
    fail(error, driver, board, subject)
    assert driver.wait() == error
    fail(error, driver, board, subject)
    assert driver.wait_interrupt(lambda: board.step(50)) == error
    assert not board.interrupt
    assert driver.result() == error
    assert driver.logits() == []
    board.bad_beat(1 << 62)
    board.reset()
    infers(driver, board, subject, subject.sound(1))


def test_an_abort_at_any_time(driver: Driver, board: MemoryBoard, subject: Subject) -> None:
    """ABORTED and no logit, or too late and all of them; the next inference is right."""
    run, seen = subject.sound(4), set()
    infers(driver, board, subject, run)
    cycles = driver.counters()[1]["cycles"]
    for moment in [*range(0, cycles, 101), *range(cycles - 40, cycles + 10, 5)]:
        assert driver.send(words_of(run)) == driver.start() == 0
        board.step(moment)
        code = driver.abort()
        seen.add(code)
        assert driver.result() == code
        assert driver.logits() == ([] if code == Error.ABORTED else list(run.logits or ()))
        assert rests(board)
    assert seen == {0, Error.ABORTED}
    writes = board.accesses[1]
    assert driver.abort() == code
    assert board.accesses[1] == writes
    infers(driver, board, subject, run)


def test_an_abort_that_must_wait_for_the_memory(
    driver: Driver, board: MemoryBoard, subject: Subject
) -> None:
    load(driver, board, subject)
    board.pace(20_000)
    assert driver.send(words_of(subject.sound(4))) == driver.start() == 0
    board.step(500)
    assert driver.wait(10) == STILL_BUSY
    assert driver.abort(10) == STILL_BUSY
    assert driver.start() == BUSY
    assert driver.wait() == Error.ABORTED


@pytest.mark.parametrize("moment", [0, 1, 30, 500, 1500])
def test_a_reset_in_between(
    moment: int, driver: Driver, board: MemoryBoard, subject: Subject
) -> None:
    load(driver, board, subject)
    driver.enable_interrupt(0)
    assert driver.send(words_of(subject.sound(4))) == driver.start() == 0
    board.step(moment)
    board.reset()
    assert driver.result() == IDLE
    assert driver.open() == 0
    infers(driver, board, subject, subject.sound(1))
    assert driver.start() == 0
    board.step(50)
    assert driver.abort() == Error.ABORTED


def test_the_interrupt(driver: Driver, board: MemoryBoard, subject: Subject) -> None:
    """A sleep ends with the line, once an inference; the end of the wait clears it."""
    load(driver, board, subject)
    slept: list[bool] = []
    for number in range(3):
        run = subject.sound(number)
        assert driver.send(words_of(run)) == driver.start() == 0
        assert not board.interrupt
        assert driver.wait_interrupt(lambda: slept.append(board.until_interrupt(PLENTY))) == 0
        assert slept == [True] * (number + 1)
        assert not board.interrupt
        assert driver.acknowledge() == 0
        assert is_right(driver, board, run)
    driver.enable_interrupt(0)
    assert driver.send(words_of(run)) == driver.start() == 0
    assert not board.until_interrupt(10_000)
    driver.enable_interrupt(7)  # any number but 0; it was pending all the time
    board.step(3)
    assert board.interrupt
    driver.enable_interrupt(0)
    assert not board.interrupt
    assert driver.acknowledge() == 1
    driver.enable_interrupt(1)
    board.step(10)
    assert not board.interrupt


def test_a_handler_that_acknowledges(driver: Driver, board: MemoryBoard, subject: Subject) -> None:
    """As an operating system has it: the handler clears the line, then wakes who sleeps."""
    handled: list[int] = []

    def sleep() -> None:
        board.until_interrupt(100)
        handled.append(driver.acknowledge())  # 0: the line is shared, and it was another's
        assert not board.interrupt

    load(driver, board, subject)
    assert driver.send(words_of(subject.sound(4))) == driver.start() == 0
    assert driver.wait_interrupt(sleep) == 0
    assert handled == [0] * (len(handled) - 1) + [1] != [1]


def test_any_header(driver: Driver) -> None:
    seen = set()
    for stream in any_headers(7, 2000, CONFIG):
        expected = account(stream, driver.limits)
        assert driver.check(stream) == expected, stream.hex()
        seen.add(expected[0])
    assert seen == ANSWERS


@pytest.mark.parametrize(
    ("field", "value"),
    [("magic", MAGIC - 1), ("version", VERSION + 1), ("lanes", 8), ("tokens", 0), ("hidden", 0),
     ("hidden", 17), ("ffn", 0), ("ffn", 17), ("labels", 0), ("labels", 5), ("tokens", 30),
     ("hidden", 16), ("ffn", 16)],
)  # fmt: skip
def test_the_accelerator_says_the_same_of_a_header(
    field: str, value: int, driver: Driver, board: MemoryBoard, subject: Subject
) -> None:
    image = image_of(subject, header(subject, field, value))
    code, tokens = driver.check(image.stream)
    board.hold({image.stream_offset: image.stream, image.rows_offset: image.rows})
    board.point(image, 0)
    assert driver.send(words_of(subject.sound(4))) == driver.start() == 0
    refused = driver.wait()
    assert (refused != 0) == (code != 0)
    assert refused in (Error.NONE, Error.FORMAT, Error.LIMIT)
    assert (tokens > 0) == (code == 0)
    driver.logits()


def test_rows_are_those_of_the_stream(driver: Driver, any_subject: Subject) -> None:
    """Damaged anywhere, or another model's."""
    stream, rows = any_subject.stream, any_subject.table.tobytes()
    assert driver.check_rows(stream, rows) == driver.check_rows(stream[:32], rows) == 0
    for damaged in any_damage(rows, 9, 50):
        assert driver.check_rows(stream, damaged) == OTHER_ROWS
    for subject in subjects(CONFIG):
        other = subject.table.tobytes()
        assert driver.check_rows(stream, other) == (0 if other == rows else OTHER_ROWS)
    assert driver.check_rows(stream[:31], rows) == driver.check_rows(rows, rows) == NO_STREAM


def signed(image: bytes, at: int, value: int) -> bytes:
    """With another byte in its header, under a right CRC."""
    header = bytearray(image[:128])
    header[at] = value
    header[12:16] = bytes(4)
    header[12:16] = zlib.crc32(header).to_bytes(4, "little")
    return bytes(header) + image[128:]


def test_no_damage_of_an_image_is_used(
    driver: Driver, board: MemoryBoard, subject: Subject
) -> None:
    """Any byte changed, cut or added: nothing of it reaches a register."""
    made = image_of(subject)
    data = image_bytes(made)
    flips = (*range(128), *range(128, len(data), 61))
    changed = (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in flips)
    for damaged in (*any_damage(data, 36, 300, sections(made)), *changed):
        assert driver.use(damaged) in (DAMAGED, NO_IMAGE)
    for bad, place, code in (
        (b"", PLACE, NO_IMAGE),
        (b"x" * 500, PLACE, NO_IMAGE),
        (data[:-1], PLACE, DAMAGED),
        (signed(data, 8, 1), PLACE, NO_IMAGE),
        (signed(data, 90, data[90] ^ 1), PLACE, OTHER_ROWS),
        (data, PLACE + 32, PLACED),
    ):
        assert driver.use(bad, place) == code
    assert (board.accesses[1], driver.model) == (0, "")


def test_an_image_beyond_32_bits(driver: Driver, board: MemoryBoard, subject: Subject) -> None:
    made = image_of(subject)
    assert driver.use(image_bytes(made), (5 << 32) + PLACE) == 0
    for section, offset in (("model", made.stream_offset), ("rows", made.rows_offset)):
        halves = board.read(f"{section}_address"), board.read(f"{section}_address_high")
        assert halves == (PLACE + offset, 5)


def test_tokens_that_are_not_sent(driver: Driver, board: MemoryBoard) -> None:
    assert driver.send([]) == NO_TOKENS
    assert driver.send([1] * 513) == NO_ROOM
    assert board.accesses[1] == 0
