"""The C driver on the simulated accelerator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rtl.control.axi import ADDRESS
from rtl.interface.command import MAGIC, VERSION
from rtl.interface.operation import Error
from sim.cycles.model import predict
from sim.machine.board import StreamBoard
from tests.damage import any_damage
from tests.driver.conftest import COMPILERS, LANES
from tests.driver.device import (
    LIMITS,
    PLENTY,
    Driver,
    failing,
    failing_sequence,
    header,
    infers,
    is_right,
    lengths,
)
from tests.driver.headers import ANSWERS, account, any_headers
from verify.driver import driver_library
from verify.fuzz.subject import POOL, Subject, config, subjects

pytestmark = pytest.mark.verilator

BUSY, IDLE, STILL_BUSY, NOT_OPEN = -4, -5, -6, -3
NO_STREAM, OTHER_ROWS = -7, -19


@pytest.fixture(scope="session", params=COMPILERS)
def compiled(request: pytest.FixtureRequest, program: Path, tmp_path_factory) -> Driver:
    """The driver as each compiler makes it, without a warning."""
    return Driver(driver_library(program, tmp_path_factory.mktemp("driver"), request.param))


@pytest.fixture
def driver(compiled: Driver, board: StreamBoard) -> Driver:
    """An open one, on `board`."""
    assert compiled.open() == 0
    return compiled


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_a_row_that_is_given_is_written_as_the_table_has_it(compiled: Driver, lanes: int) -> None:
    """Every value of 16 bits, limited; a row of any width, with zeros behind its last channel."""
    values = range(-32768, 32768)
    written = compiled.write_row(lanes, values)
    assert written[-4:] == bytes([99] * 4)
    words = memoryview(written[:-4]).cast("b", (65536 // lanes, 2, lanes)).tolist()
    found = [255 * h + low for high, lows in words for h, low in zip(high, lows, strict=True)]
    assert found == [max(-32512, min(x, 32512)) for x in values]
    assert not any(half == -128 for word in words for halves in word for half in halves)
    odd = compiled.write_row(lanes, [300] * (lanes + 1))[2 * lanes : -4]
    assert odd == bytes([1, *[0] * (lanes - 1), 45, *[0] * (lanes - 1)])


def test_the_limits_are_the_configuration(driver: Driver) -> None:
    made = config(LANES).as_dict() | {"columns": config(LANES).tile_columns}
    assert driver.limits == {"version": VERSION} | {name: made[name] for name in LIMITS[1:]}


@pytest.mark.parametrize(
    ("register", "value", "code"),
    [
        ("id", 0, -1),
        ("id", MAGIC ^ 1, -1),
        ("id", 0xFFFFFFFF, -1),
        ("version", VERSION - 1, -2),
        ("version", VERSION + 1, -2),
        ("version", VERSION + 256, -2),
    ],
)
def test_another_device_is_left_alone(
    register: str, value: int, code: int, compiled: Driver, board: StreamBoard
) -> None:
    board.show(ADDRESS[register], value)
    assert compiled.open() == code
    assert compiled.limits["version"] == (0 if register == "id" else value)
    accesses = board.accesses
    assert compiled.start() == compiled.result() == compiled.wait() == NOT_OPEN
    assert compiled.abort() == compiled.enable_interrupt(1) == NOT_OPEN
    assert compiled.wait_interrupt(board.complaint, 3) == NOT_OPEN
    assert compiled.counters() == (NOT_OPEN, None)
    assert compiled.acknowledge() == 0
    assert compiled.check(subjects(config(LANES))[0].stream) == (NOT_OPEN, 0)
    assert board.accesses == accesses


def test_every_model_gives_goldens_logits(
    driver: Driver, board: StreamBoard, any_subject: Subject
) -> None:
    """Back to back on one board; the counters are those that the cycle model predicts."""
    for number in range(POOL):
        run = any_subject.sound(number)
        infers(driver, board, any_subject, run)
        told = predict(any_subject.program, lengths(run), row_latency=run.row_latency)
        expected = {"cycles": told.cycles, "active": told.active, **told.stalls}
        assert driver.counters() == (0, expected)


@pytest.mark.parametrize("seed", range(1, 9))
def test_any_pace(seed: int, make_board: Callable[..., StreamBoard], compiled: Driver) -> None:
    """Streams that pause, begin before or after the start; accesses at any time; models in turn."""
    rng, board = Random(seed), make_board(seed, gap=60)
    assert compiled.open() == 0
    for _ in range(6):
        subject = rng.choice(subjects(config(LANES)))
        run = subject.sound(rng.randrange(POOL)).but(row_latency=rng.choice((1, 20, 200)))
        early = rng.random() < 0.5
        if early:
            board.offer(run, subject.table)
        assert compiled.start() == 0
        if not early:
            board.run(rng.randrange(300))
            board.offer(run, subject.table)
        if rng.random() < 0.5:
            assert compiled.wait() == 0
        else:
            assert compiled.wait_interrupt(lambda: board.run(rng.randrange(200)), 10_000) == 0
        assert is_right(board, run)


def test_before_the_first_start(driver: Driver, board: StreamBoard) -> None:
    writes = board.accesses[1]
    assert driver.result() == driver.wait() == driver.abort() == IDLE
    assert driver.wait_interrupt(board.complaint, 3) == IDLE
    assert board.accesses[1] == writes
    assert driver.counters() == (0, dict.fromkeys(driver.counters()[1] or {}, 0))


def test_a_start_while_busy(driver: Driver, board: StreamBoard, subject: Subject) -> None:
    """Is not written: the bus would answer with a fault. The inference goes on."""
    run = subject.sound(4)
    board.offer(run, subject.table)
    assert driver.start() == 0
    writes, refused = board.accesses[1], 0
    while driver.result() == BUSY:
        code = driver.start()
        if code == 0:  # it ended in between
            pytest.fail("started twice")
        assert code == BUSY
        assert driver.counters() in ((BUSY, None), (0, driver.counters()[1]))
        refused += 1
        board.run(150)
    assert refused > 5
    assert board.accesses[1] == writes
    assert driver.result() == 0
    assert is_right(board, run)


@pytest.mark.parametrize("error", failing(subjects(config(LANES))[0]), ids=lambda error: error.name)
def test_every_error_of_a_stream(
    error: Error, driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    """Its code, no logit, nothing left of the streams, and the next inference as if nothing was."""
    for wait in (driver.wait, lambda: driver.wait_interrupt(lambda: board.run(50), 10_000)):
        board.offer(failing(subject)[error], subject.table)
        assert driver.start() == 0
        assert wait() == error
        assert board.logits() == ([], 0)
        assert board.left == (0, 0, 0)
        assert driver.result() == error
        infers(driver, board, subject, subject.sound(1))


def test_the_sequence_that_failed(driver: Driver, board: StreamBoard, subject: Subject) -> None:
    for number in range(3):
        board.offer(failing_sequence(subject, number), subject.table)
        assert driver.start() == 0
        assert driver.failed_sequence() == driver.result() == -4  # it is under way
        assert driver.wait() == Error.TOKEN
        assert driver.failed_sequence() == number
    infers(driver, board, subject, subject.sound(1))
    assert driver.failed_sequence() == 0


def test_the_errors_of_streams_are_all_but_those_of_none() -> None:
    found = set(failing(subjects(config(LANES))[0])) | {Error.NONE, Error.ABORTED}
    # None is known that comes to TIMEOUT; BUS and ADDRESS are those of the accelerator with DMA.
    assert set(Error) - found == {Error.TIMEOUT, Error.BUS, Error.ADDRESS}


def test_an_abort_at_any_time(driver: Driver, board: StreamBoard, subject: Subject) -> None:
    """ABORTED and no logit, or too late and all of them; the next inference is right."""
    run, began = subject.sound(4), board.now
    infers(driver, board, subject, run)
    cycles = board.now - began
    seen = set()
    moments = [*range(0, 40, 3), *range(40, cycles - 40, 61), *range(cycles - 40, cycles + 10)]
    for moment in moments:
        board.offer(run, subject.table)
        assert driver.start() == 0
        board.run(moment)
        code = driver.abort()
        seen.add(code)
        if code == Error.ABORTED:
            assert board.logits() == ([], 0)
        else:
            assert code == 0
            assert is_right(board, run)
        assert driver.result() == code
    assert seen == {0, Error.ABORTED}
    infers(driver, board, subject, run)


def test_an_abort_that_must_wait_for_rows(
    driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    run = subject.sound(4)
    board.offer(run, subject.table)
    board.silence_rows(20_000)
    assert driver.start() == 0
    board.run(500)
    assert driver.wait(10) == STILL_BUSY
    assert driver.abort(10) == STILL_BUSY
    assert driver.start() == BUSY
    board.silence_rows(0)
    assert driver.wait() == Error.ABORTED


def test_an_abort_when_logits_are_leaving(
    driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    run = subject.sound(4)
    board.offer(run, subject.table)
    board.take_logits(False)
    assert driver.start() == 0
    board.run(5_000)
    assert board.left == (0, 0, 0)
    assert driver.abort(10) == STILL_BUSY
    board.take_logits(True)
    assert driver.wait() == 0
    assert is_right(board, run)


def test_an_abort_of_nothing_writes_nothing(
    driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    board.offer(failing(subject)[Error.CRC], subject.table)
    assert driver.start() == 0
    assert driver.wait() == Error.CRC
    writes = board.accesses[1]
    assert driver.abort() == Error.CRC
    assert board.accesses[1] == writes


@pytest.mark.parametrize("moment", [0, 1, 30, 500, 1500])
def test_a_reset_in_between(
    moment: int, driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    run = subject.sound(4)
    board.offer(run, subject.table)
    assert driver.enable_interrupt(0) == 0
    assert driver.start() == 0
    board.run(moment)
    board.reset()
    assert driver.result() == IDLE
    board.logits()
    assert driver.open() == 0
    board.offer(run, subject.table)
    assert driver.start() == 0
    assert board.until_interrupt(PLENTY)  # enabled by the reset
    assert driver.wait(1) == 0
    assert is_right(board, run)


@pytest.mark.parametrize(("polls", "reads"), [(0, 1), (1, 1), (2, 2), (77, 77)])
def test_the_bound_of_a_wait(
    polls: int, reads: int, driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    assert driver.start() == 0
    before = board.accesses[0]
    assert driver.wait(polls) == STILL_BUSY
    assert board.accesses[0] - before == reads
    before, slept = board.accesses[0], []
    assert driver.wait_interrupt(lambda: slept.append(1), polls) == STILL_BUSY
    assert (len(slept), board.accesses[0] - before) == (polls, polls + 1)
    run = subject.sound(1)
    board.offer(run, subject.table)
    assert driver.wait() == 0
    assert is_right(board, run)


def test_the_interrupt(driver: Driver, board: StreamBoard, subject: Subject) -> None:
    """A sleep ends with the line, once an inference; the end of the wait clears it."""
    slept: list[bool] = []
    for number in range(3):
        run = subject.sound(number)
        board.offer(run, subject.table)
        assert driver.start() == 0
        assert not board.interrupt
        slept.clear()
        assert driver.wait_interrupt(lambda: slept.append(board.until_interrupt(PLENTY)), 5) == 0
        assert slept == [True]
        assert not board.interrupt
        assert driver.acknowledge() == 0
        assert is_right(board, run)


def test_a_handler_that_acknowledges(driver: Driver, board: StreamBoard, subject: Subject) -> None:
    """As an operating system has it: the handler clears the line, then wakes who sleeps."""
    handled: list[int] = []

    def sleep() -> None:
        if board.until_interrupt(100):
            handled.append(driver.acknowledge())
            assert not board.interrupt
        else:
            handled.append(driver.acknowledge())  # the line is shared: it was another's

    board.offer(subject.sound(4), subject.table)
    assert driver.start() == 0
    assert driver.wait_interrupt(sleep, PLENTY) == 0
    assert handled[-1] == 1
    assert handled[:-1] == [0] * (len(handled) - 1) != []


def test_an_interrupt_that_is_disabled(
    driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    assert driver.enable_interrupt(0) == 0
    board.offer(subject.sound(4), subject.table)
    assert driver.start() == 0
    assert not board.until_interrupt(10_000)
    assert driver.enable_interrupt(7) == 0  # any number but 0; it was pending all the time
    board.run(3)
    assert board.interrupt
    assert driver.enable_interrupt(0) == 0
    assert not board.interrupt
    assert driver.acknowledge() == 1
    assert driver.enable_interrupt(1) == 0
    board.run(10)
    assert not board.interrupt
    assert driver.acknowledge() == 0


def test_any_header(driver: Driver) -> None:
    seen = set()
    for stream in any_headers(7, 4000, LANES):
        expected = account(stream, driver.limits)
        assert driver.check(stream) == expected, stream.hex()
        seen.add(expected[0])
    assert seen == ANSWERS


@pytest.mark.parametrize(
    ("field", "value"),
    [("magic", MAGIC - 1), ("version", VERSION + 1), ("lanes", 8), ("tokens", 0), ("hidden", 0),
     ("hidden", 17), ("ffn", 0), ("ffn", 25), ("labels", 0), ("labels", 5), ("tokens", 30),
     ("hidden", 16), ("ffn", 24)],
)  # fmt: skip
def test_the_accelerator_says_the_same_of_a_header(
    field: str, value: int, driver: Driver, board: StreamBoard, subject: Subject
) -> None:
    stream = header(subject, field, value)
    code, tokens = driver.check(stream)
    board.offer(subject.sound(4), subject.table)
    board.send("model", stream)
    assert driver.start() == 0
    refused = driver.wait()
    assert (refused != 0) == (code != 0)
    assert refused in (Error.NONE, Error.FORMAT, Error.LIMIT)
    assert (tokens > 0) == (code == 0)


def test_rows_are_those_of_the_stream(driver: Driver, any_subject: Subject) -> None:
    """Whole, or in pieces; damaged anywhere, or another model's."""
    stream, rows = any_subject.stream, any_subject.table.tobytes()
    assert driver.check_rows(stream, rows) == driver.check_rows(stream[:32], rows) == 0
    assert driver.check_rows(stream, rows[:13], rows[13:14], b"", rows[14:]) == 0
    for damaged in any_damage(rows, 9, 200):
        assert driver.check_rows(stream, damaged) == OTHER_ROWS
    for subject in subjects(config(LANES)):
        other = subject.table.tobytes()
        assert driver.check_rows(stream, other) == (0 if other == rows else OTHER_ROWS)
    assert driver.check_rows(stream[:31], rows) == driver.check_rows(rows, rows) == NO_STREAM


def test_no_damage_of_a_stream_gives_logits(
    driver: Driver, board: StreamBoard, any_subject: Subject
) -> None:
    """Any byte changed, cut or added: the accelerator itself ends it with an error."""
    run = any_subject.sound(4)
    for damaged in any_damage(any_subject.stream, 8, 40):
        words = damaged + bytes(-len(damaged) % LANES)
        if words in (b"", any_subject.stream):
            continue  # nothing comes, or the padding of a bus is what was cut off
        board.offer(run, any_subject.table)
        board.send("model", words)
        assert driver.start() == 0
        code = driver.wait()
        assert code in (Error.FORMAT, Error.CRC, Error.LIMIT, Error.TRUNCATED, Error.OVERRUN)
        assert board.logits() == ([], 0)
    infers(driver, board, any_subject, run)


def test_every_code_has_a_sentence(compiled: Driver) -> None:
    codes = [*range(-19, 0), *Error]
    texts = {code: compiled.text(code) for code in codes}
    assert len(set(texts.values())) == len(codes)
    assert compiled.text(max(Error) + 1) == compiled.text(-20) == "unknown code"
    assert "unknown code" not in texts.values()
    for code in (*range(max(Error) + 1, 16), 1 << 31 - 1, -(1 << 31)):
        assert compiled.text(code) == "unknown code"
