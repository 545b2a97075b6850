"""The C driver on the simulated accelerator."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rtl.control.axi import ADDRESS, REGISTERS
from rtl.interface.command import DESCRIPTOR_BYTES, MAGIC, VERSION
from rtl.interface.operation import Error
from rtl.registers.map import registers
from sim.cycles.model import predict
from sim.driver.board import DRIVER, STRICT, Board, driver_library
from sim.fuzz.subject import POOL, Subject, config, subjects
from tests.driver.conftest import LANES
from tests.driver.device import (
    LIMITS,
    PLENTY,
    Driver,
    failing,
    failing_sequence,
    header,
    is_right,
    lengths,
)

pytestmark = pytest.mark.verilator

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
BUSY, IDLE, STILL_BUSY, NOT_OPEN = -4, -5, -6, -3


@pytest.fixture(scope="session", params=COMPILERS)
def compiled(request: pytest.FixtureRequest, program: Path, tmp_path_factory) -> Driver:
    """The driver as each compiler makes it, without a warning."""
    return Driver(driver_library(program, tmp_path_factory.mktemp("driver"), request.param))


@pytest.fixture
def driver(compiled: Driver, board: Board) -> Driver:
    """An open one, on `board`."""
    assert compiled.open() == 0
    return compiled


def test_the_header_is_c_and_cpp(tmp_path: Path) -> None:
    """Alone, and beside that of the C export of a model, which has the same name."""
    both = f'#include "{DRIVER}/bert2rtl.h"\n#include "{DRIVER}/../quant/export/bert2rtl.h"\n'
    for name in ("bert2rtl_shape.h",):
        (tmp_path / name).write_text(
            "".join(f"#define BERT2RTL_{n} 4\n" for n in ("TOKENS", "HIDDEN", "INNER", "FFN"))
            + "#define BERT2RTL_HEAD_WIDTH 4\n"
        )
    (tmp_path / "both.c").write_text(
        both + "int used(void);\nint used(void) { return B2RTL_OK; }\n"
    )
    (tmp_path / "one.cpp").write_text(f'#include "{DRIVER}/bert2rtl.h"\n')
    for command in (["gcc", *STRICT, f"-I{tmp_path}", "both.c"], ["g++", *STRICT[1:], "one.cpp"]):
        done = subprocess.run([*command, "-fsyntax-only"], cwd=tmp_path, capture_output=True)
        assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_driver_compiles_as_it_stands(compiler: str, tmp_path: Path) -> None:
    """With its own access to memory, at every level of optimisation."""
    for level in ("-O0", "-Os", "-O3"):
        command = [compiler, *STRICT, level, "-ffreestanding", "-c", str(DRIVER / "bert2rtl.c")]
        done = subprocess.run([*command, "-o", str(tmp_path / "o")], capture_output=True)
        assert (done.returncode, done.stderr.decode()) == (0, "")


def test_the_limits_are_the_configuration(driver: Driver) -> None:
    made = config(LANES).as_dict()
    assert driver.limits == {"version": VERSION} | {name: made[name] for name in LIMITS[1:]}


@pytest.mark.parametrize(
    ("register", "value", "code"),
    [("id", 0, -1), ("id", MAGIC ^ 1, -1), ("id", 0xFFFFFFFF, -1), ("version", VERSION - 1, -2),
     ("version", VERSION + 1, -2), ("version", VERSION + 256, -2)],
)  # fmt: skip
def test_another_device_is_left_alone(
    register: str, value: int, code: int, compiled: Driver, board: Board
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
    assert compiled.check(subjects(LANES)[0].stream) == (NOT_OPEN, 0)
    assert board.accesses == accesses


def test_every_model_gives_goldens_logits(
    driver: Driver, board: Board, any_subject: Subject
) -> None:
    """Back to back on one board; the counters are those that the cycle model predicts."""
    for number in range(POOL):
        run = any_subject.sound(number)
        board.offer(run, any_subject.table)
        assert driver.start() == 0
        assert driver.wait() == 0
        assert is_right(board, run)
        tokens = lengths(run)
        told = predict(any_subject.program, tokens, row_latency=run.row_latency)
        expected = {"cycles": told.cycles, "active": told.active, **told.stalls}
        assert driver.counters() == (0, expected)


@pytest.mark.parametrize("seed", range(1, 9))
def test_any_pace(seed: int, make_board: Callable[..., Board], compiled: Driver) -> None:
    """Streams that pause, begin before or after the start; accesses at any time; models in turn."""
    rng, board = Random(seed), make_board(seed, gap=60)
    assert compiled.open() == 0
    for _ in range(6):
        subject = rng.choice(subjects(LANES))
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


def test_before_the_first_start(driver: Driver, board: Board) -> None:
    writes = board.accesses[1]
    assert driver.result() == driver.wait() == driver.abort() == IDLE
    assert driver.wait_interrupt(board.complaint, 3) == IDLE
    assert board.accesses[1] == writes
    assert driver.counters() == (0, dict.fromkeys(driver.counters()[1] or {}, 0))


def test_a_start_while_busy(driver: Driver, board: Board, subject: Subject) -> None:
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


@pytest.mark.parametrize("error", failing(subjects(LANES)[0]), ids=lambda error: error.name)
def test_every_error_of_a_stream(
    error: Error, driver: Driver, board: Board, subject: Subject
) -> None:
    """Its code, no logit, nothing left of the streams, and the next inference as if nothing was."""
    for wait in (driver.wait, lambda: driver.wait_interrupt(lambda: board.run(50), 10_000)):
        board.offer(failing(subject)[error], subject.table)
        assert driver.start() == 0
        assert wait() == error
        assert board.logits() == ([], 0)
        assert board.left == (0, 0, 0)
        assert driver.result() == error
        run = subject.sound(1)
        board.offer(run, subject.table)
        assert driver.start() == 0
        assert driver.wait() == 0
        assert is_right(board, run)


def test_the_sequence_that_failed(driver: Driver, board: Board, subject: Subject) -> None:
    for number in range(3):
        board.offer(failing_sequence(subject, number), subject.table)
        assert driver.start() == 0
        assert driver.failed_sequence() == driver.result() == -4  # it is under way
        assert driver.wait() == Error.TOKEN
        assert driver.failed_sequence() == number
    run = subject.sound(1)
    board.offer(run, subject.table)
    assert (driver.start(), driver.wait(), driver.failed_sequence()) == (0, 0, 0)


def test_the_errors_of_streams_are_all_but_those_of_none() -> None:
    found = set(failing(subjects(LANES)[0])) | {Error.NONE, Error.ABORTED}
    # None is known that comes to TIMEOUT; BUS and ADDRESS are those of the accelerator with DMA.
    assert set(Error) - found == {Error.TIMEOUT, Error.BUS, Error.ADDRESS}


def test_an_abort_at_any_time(driver: Driver, board: Board, subject: Subject) -> None:
    """ABORTED and no logit, or too late and all of them; the next inference is right."""
    run = subject.sound(4)
    board.offer(run, subject.table)
    assert driver.start() == 0
    began = board.cycle
    assert driver.wait() == 0
    cycles = board.cycle - began
    assert is_right(board, run)
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
    board.offer(run, subject.table)
    assert driver.start() == 0
    assert driver.wait() == 0
    assert is_right(board, run)


def test_an_abort_that_must_wait_for_rows(driver: Driver, board: Board, subject: Subject) -> None:
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


def test_an_abort_when_logits_are_leaving(driver: Driver, board: Board, subject: Subject) -> None:
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


def test_an_abort_of_nothing_writes_nothing(driver: Driver, board: Board, subject: Subject) -> None:
    board.offer(failing(subject)[Error.CRC], subject.table)
    assert driver.start() == 0
    assert driver.wait() == Error.CRC
    writes = board.accesses[1]
    assert driver.abort() == Error.CRC
    assert board.accesses[1] == writes


@pytest.mark.parametrize("moment", [0, 1, 30, 500, 1500])
def test_a_reset_in_between(moment: int, driver: Driver, board: Board, subject: Subject) -> None:
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
    polls: int, reads: int, driver: Driver, board: Board, subject: Subject
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


def test_the_interrupt(driver: Driver, board: Board, subject: Subject) -> None:
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


def test_a_handler_that_acknowledges(driver: Driver, board: Board, subject: Subject) -> None:
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


def test_an_interrupt_that_is_disabled(driver: Driver, board: Board, subject: Subject) -> None:
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


def account(stream: bytes, limits: dict[str, int]) -> tuple[int, int]:
    """What b2rtl_check shall answer, from the table of fields of docs/architecture.md."""
    if len(stream) < DESCRIPTOR_BYTES or stream[0] != 1 or stream[2:6] != b"B2RT":
        return -7, 0
    version, lanes = stream[6], stream[7]
    tokens, hidden, ffn, labels = (stream[at] + 256 * stream[at + 1] for at in (8, 10, 12, 14))
    rules = (
        (-8, version == limits["version"]),
        (-9, lanes == limits["lanes"]),
        (-10, tokens > 0),
        (-11, 0 < hidden <= limits["hidden"]),
        (-12, 0 < ffn <= limits["ffn"]),
        (-13, 0 < labels <= limits["labels"]),
    )
    wrong = [code for code, held in rules if not held]
    return (wrong[0], 0) if wrong else (0, min(tokens, limits["tokens"]))


def test_any_header(driver: Driver, subject: Subject) -> None:
    """Sound ones, those of other sizes, damaged ones, cut ones, noise."""
    rng, seen = Random(7), set()
    for _ in range(4000):
        stream = bytearray(rng.choice(subjects(LANES)).stream[:64])
        for _ in range(rng.choice((0, 1, 1, 2))):
            at = rng.choice((0, 2, 5, 6, 7, rng.randrange(8, 16), rng.randrange(8, 16)))
            stream[at] = rng.choice((0, 1, 4, 16, 24, stream[at] ^ 1 << rng.randrange(8)))
        if rng.random() < 0.05:
            stream = bytearray(rng.randbytes(64))
        if rng.random() < 0.05:
            del stream[rng.randrange(64) :]
        expected = account(bytes(stream), driver.limits)
        assert driver.check(bytes(stream)) == expected, stream.hex()
        seen.add(expected[0])
    assert seen == {0, *range(-13, -6)}


@pytest.mark.parametrize(
    ("field", "value"),
    [("magic", MAGIC - 1), ("version", VERSION + 1), ("lanes", 8), ("tokens", 0), ("hidden", 0),
     ("hidden", 17), ("ffn", 0), ("ffn", 25), ("labels", 0), ("labels", 5), ("tokens", 30),
     ("hidden", 16), ("ffn", 24)],
)  # fmt: skip
def test_the_accelerator_says_the_same_of_a_header(
    field: str, value: int, driver: Driver, board: Board, subject: Subject
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


def test_every_code_has_a_sentence(compiled: Driver) -> None:
    codes = [*range(-18, 0), *Error]
    texts = {code: compiled.text(code) for code in codes}
    assert len(set(texts.values())) == len(codes)
    assert compiled.text(max(Error) + 1) == compiled.text(-19) == "unknown code"
    assert "unknown code" not in texts.values()
    for code in (*range(max(Error) + 1, 16), 1 << 31 - 1, -(1 << 31)):
        assert compiled.text(code) == "unknown code"


def constants(tmp_path: Path) -> dict[str, int]:
    """The constants of the header, as a compiler has them."""
    text = (DRIVER / "bert2rtl.h").read_text()
    names = [
        line.split()[0]
        for line in text.splitlines()
        if line.startswith("    B2RTL_") and " = " in line
    ]
    lines = "".join(f'    printf("{name} %d\\n", {name});\n' for name in names)
    source = tmp_path / "constants.c"
    source.write_text(
        f'#include <stdio.h>\n#include "bert2rtl.h"\nint main(void)\n{{\n{lines}    return 0;\n}}\n'
    )
    program = tmp_path / "constants"
    subprocess.run(["gcc", *STRICT, f"-I{DRIVER}", str(source), "-o", str(program)], check=True)
    answer = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in map(str.split, answer.splitlines())}


def test_the_header_is_the_register_map(tmp_path: Path) -> None:
    found = constants(tmp_path)
    assert {r.name: found[f"B2RTL_{r.name.upper()}"] for r in REGISTERS} == ADDRESS
    assert found["B2RTL_ID_VALUE"] == MAGIC
    assert found["B2RTL_VERSION_VALUE"] == VERSION
    shared = {"NONE": "OK"}
    errors = {e.name: found[f"B2RTL_{shared.get(e.name, e.name)}"] for e in Error}
    assert errors == {error.name: error.value for error in Error}
    driver_codes = [value for value in found.values() if value < 0]
    assert sorted(driver_codes) == list(range(-18, 0))


def test_the_header_has_every_field_of_the_systemrdl(tmp_path: Path) -> None:
    """One bit: its mask; more bits: mask and shift; a whole register: its offset alone."""
    found = constants(tmp_path)
    made = registers(config(LANES))
    expected = {f"B2RTL_{r.name.upper()}": r.address for r in made}
    single = {"interrupt_enable": "_BIT", "interrupt_pending": "_BIT"}
    for register in made:
        for field in register.fields:
            if field.high - field.low == 31:
                continue
            name = f"B2RTL_{register.name.upper()}" + single.get(
                register.name, f"_{field.name.upper()}"
            )
            mask = (1 << field.high + 1) - (1 << field.low)
            if field.high == field.low:
                expected[name] = mask
            else:
                expected |= {f"{name}_MASK": mask, f"{name}_SHIFT": field.low}
    about = ("B2RTL_CONTROL", "B2RTL_STATUS", "B2RTL_INTERRUPT", *expected)
    assert {n: v for n, v in found.items() if n.startswith(about[:3]) or n in about} == expected
    assert len(expected) == 19 + 2 + 4 + 2 + 2
