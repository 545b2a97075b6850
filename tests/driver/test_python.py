"""The Python drivers on the simulated accelerator."""

from __future__ import annotations

import ast
import socket
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest

from driver import accelerator, streams, uio
from driver.accelerator import Accelerator, DeviceError, InferenceError
from rtl.compile.program import compile_model
from rtl.control.axi import ADDRESS, REGISTERS
from rtl.interface.command import MAGIC, VERSION, Opcode
from rtl.interface.operation import Error
from sim.cycles.model import predict
from sim.driver.board import DRIVER, Board
from sim.fuzz.subject import POOL, Subject, config, subjects
from tests.driver.conftest import LANES
from tests.driver.device import failing, failing_sequence, is_right, lengths

pytestmark = pytest.mark.verilator


@pytest.fixture
def device(board: Board) -> Accelerator:
    return Accelerator(board, lambda seconds: board.run(100))


def test_the_registers_are_those_of_the_hardware() -> None:
    assert accelerator.REGISTERS == ADDRESS
    assert list(accelerator.REGISTERS) == [register.name for register in REGISTERS]
    assert (accelerator.ID, accelerator.VERSION) == (MAGIC, VERSION)
    assert set(accelerator.ENDS) == {error.value for error in Error}
    for error in set(Error) - {Error.NONE}:
        assert accelerator.ENDS[error].startswith(f"{error.name}: ")


def test_it_stands_alone() -> None:
    """Copied to a board, it needs Python and nothing else (pynq_dma: PYNQ)."""
    known = set(sys.stdlib_module_names) | {"driver"}
    for path in sorted(DRIVER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            allowed = known | ({"pynq"} if path.name == "pynq_dma.py" else set())
            assert {name.partition(".")[0] for name in names} <= allowed, path


def test_every_model_gives_goldens_logits(
    device: Accelerator, board: Board, any_subject: Subject
) -> None:
    made = config(LANES)
    assert device.limits == {name: getattr(made, name) for name in accelerator.LIMITS}
    assert device.check(any_subject.stream) == any_subject.program.tokens
    for number in range(POOL):
        run = any_subject.sound(number)
        board.offer(run, any_subject.table)
        device.start()
        device.wait()
        assert not board.interrupt
        assert is_right(board, run)
        told = predict(any_subject.program, lengths(run), row_latency=run.row_latency)
        stalls = {f"stall_{cause}": cycles for cause, cycles in told.stalls.items()}
        assert device.counters() == {"cycles": told.cycles, "active": told.active, **stalls}


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [("id", 0, "no bert2rtl accelerator: its id is 0x00000000, not 0x54523242"),
     ("version", 3, "the accelerator has version 3, this driver is for 6")],
)  # fmt: skip
def test_another_device(register: str, value: int, message: str, board: Board) -> None:
    board.show(ADDRESS[register], value)
    with pytest.raises(DeviceError, match=message):
        Accelerator(board)
    assert board.accesses[1] == 0


@pytest.mark.parametrize("error", failing(subjects(LANES)[0]), ids=lambda error: error.name)
def test_every_error_of_a_stream(
    error: Error, device: Accelerator, board: Board, subject: Subject
) -> None:
    board.offer(failing(subject)[error], subject.table)
    device.start()
    with pytest.raises(InferenceError, match=f"^{error.name}: ") as caught:
        device.wait()
    assert caught.value.code == error
    assert not board.interrupt
    run = subject.sound(1)
    board.offer(run, subject.table)
    device.start()
    device.wait()
    assert is_right(board, run)


@pytest.mark.parametrize("number", range(3))
def test_the_sequence_that_failed(
    number: int, device: Accelerator, board: Board, subject: Subject
) -> None:
    board.offer(failing_sequence(subject, number), subject.table)
    device.start()
    with pytest.raises(InferenceError, match=rf"^TOKEN: .* \(sequence {number}\)$") as caught:
        device.wait()
    assert caught.value.sequence == number


def test_busy_and_idle(device: Accelerator, board: Board, subject: Subject) -> None:
    for early in (device.ended, device.wait):
        with pytest.raises(DeviceError, match="no inference has been started since the reset"):
            early()
    with pytest.raises(DeviceError, match="no inference is under way"):
        device.abort()
    device.start()
    for refused in (device.start, device.counters):
        with pytest.raises(DeviceError, match="under way: wait for it or abort it"):
            refused()
    with pytest.raises(DeviceError, match=r"has not ended in 0\.01 s: wait longer or abort it"):
        device.wait(0.01)
    assert device.abort() is False
    run = subject.sound(4)
    board.offer(run, subject.table)
    board.take_logits(False)
    device.start()
    board.run(5_000)
    with pytest.raises(DeviceError, match=r"has not ended in 0\.01 s"):
        device.abort(0.01)
    board.take_logits(True)
    device.wait()
    assert is_right(board, run)
    board.offer(run, subject.table)
    board.take_logits(False)
    device.start()
    board.run(5_000)
    device._sleep = lambda seconds: board.take_logits(True) or board.run(100)
    assert device.abort() is True


def test_any_header(device: Accelerator, subject: Subject) -> None:
    """Refused where the C driver refuses: tests/driver/test_c.py has the rules."""
    from tests.driver.test_c import account

    rng, seen = Random(3), set()
    limits = device.limits | {"version": VERSION}
    for _ in range(2000):
        stream = bytearray(rng.choice(subjects(LANES)).stream[:64])
        for _ in range(rng.choice((0, 1, 1, 2))):
            stream[rng.choice((0, 2, 6, 7, *range(8, 16)))] = rng.choice((0, 1, 4, 16, 24, 255))
        del stream[rng.choice((64, 64, 64, rng.randrange(64))) :]
        code, tokens = account(bytes(stream), limits)
        seen.add(code)
        if code == 0:
            assert device.check(bytes(stream)) == tokens
        else:
            with pytest.raises(DeviceError, match=r"^[^\n]{20,}$"):
                device.check(bytes(stream))
    assert seen == {0, *range(-13, -6)}


def test_uio(board: Board, subject: Subject, capsys: pytest.CaptureFixture[str]) -> None:
    """The command's body; the kernel is a thread that raises the interrupt when it is unmasked."""
    kernel, descriptor = socket.socketpair()
    run = subject.sound(4)
    board.offer(run, subject.table)
    unmasked = []

    def serve() -> None:
        while word := kernel.recv(4):
            unmasked.append(int.from_bytes(word, sys.byteorder))
            assert board.until_interrupt(10_000)
            kernel.send(len(unmasked).to_bytes(4, sys.byteorder))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        options = Namespace(model=None, start=True, seconds=20.0)
        uio.run(Accelerator(board), options, uio.Interrupts(descriptor.fileno()))
    finally:
        descriptor.close()
        thread.join(20)
        kernel.close()
    assert unmasked == [1]
    assert not board.interrupt
    assert is_right(board, run)
    shown = capsys.readouterr().out.split()
    told = predict(subject.program, lengths(run), row_latency=run.row_latency)
    assert shown[shown.index("cycles") + 1] == f"{told.cycles:,}"


def test_an_interrupt_that_does_not_come() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert uio.Interrupts(ours.fileno()).wait(0.01) is False
        assert uio.Interrupts(ours.fileno()).wait(-1) is False


def registers_file(path: Path, **values: int) -> Path:
    words = np.zeros(1024, "<u4")
    for name, value in (
        {"id": MAGIC, "version": VERSION, "lanes": 4, "tokens": 12} | values
    ).items():
        words[ADDRESS[name] // 4] = value
    path.write_bytes(words.tobytes())
    return path


def test_the_uio_command(tmp_path: Path, subject: Subject, capsys) -> None:
    """On a file in place of the device: its registers stand still."""
    limits = {name: getattr(config(LANES), name) for name in accelerator.LIMITS}
    path = registers_file(tmp_path / "uio0", status=2, cycles=1234, **limits)
    model = tmp_path / "model.bin"
    model.write_bytes(subject.stream)
    assert uio.main(["--device", str(path), "--model", str(model), "--start"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert ", ".join(f"{name} {value}" for name, value in limits.items()) in out
    assert f"takes up to {subject.program.tokens} tokens" in out
    assert "1,234" in out
    written = np.frombuffer(path.read_bytes(), "<u4")
    assert written[ADDRESS["control"] // 4] == 1
    assert written[ADDRESS["interrupt_enable"] // 4] == 1


@pytest.mark.parametrize(
    ("values", "arguments", "code", "message"),
    [
        ({"id": 7}, [], 2, "no bert2rtl accelerator: its id is 0x00000007"),
        ({"version": 9}, [], 2, "has version 9"),
        ({"status": 1}, ["--start"], 2, "an inference is under way"),
        ({"status": 0x702}, ["--start"], 1, "the inference has failed: TOKEN: a token id"),
        ({"status": 0xF02}, ["--start"], 1, "the inference has failed: unknown error code 15"),
        ({}, ["--model", "nowhere.bin"], 2, "nowhere.bin: No such file or directory"),
        ({}, ["--model", __file__], 2, "this is no command stream"),
        ({}, ["--seconds", "0"], 2, "'0' is no time: give seconds above 0, up to 86400"),
        ({}, ["--seconds", "nan"], 2, "'nan' is no time"),
        ({}, ["--stop"], 2, "unrecognized arguments: --stop"),
    ],
)
def test_what_the_uio_command_refuses(
    values: dict[str, int], arguments: list[str], code: int, message: str, tmp_path: Path, capsys
) -> None:
    device = registers_file(tmp_path / "uio0", **values)
    try:
        ended = uio.main(["--device", str(device), *arguments])
    except SystemExit as stop:
        ended = stop.code
    error = capsys.readouterr().err
    assert (ended, error.count("\n")) == (code, 1)
    assert error.startswith("error: ")
    assert message in error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"short"), "is no UIO device"),
        (lambda path: path.write_bytes(b""), "is no UIO device"),
    ],
)
def test_what_is_no_uio_device(
    make: Callable[[Path], object], message: str, tmp_path: Path, capsys
) -> None:
    path = tmp_path / "uio7"
    make(path)
    assert uio.main(["--device", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("error: ")
    assert message in error
    assert str(path) in error


def test_any_damaged_stream_is_refused_in_one_line() -> None:
    """EMBED is found, or a ValueError says that it is not; never another error."""
    rng = Random(11)
    for _ in range(3000):
        stream = bytearray(rng.choice(subjects(LANES)).stream)
        for _ in range(rng.choice((1, 2, 4))):
            stream[rng.randrange(400)] = rng.randrange(256)
        del stream[rng.choice((len(stream), rng.randrange(400))) :]
        with suppress(ValueError):
            assert streams.embed(bytes(stream))["lanes"] > 0


@pytest.mark.parametrize("lanes", [LANES, 64])
def test_the_fields_of_embed(lanes: int, any_subject: Subject) -> None:
    """At 64 lanes the descriptors before it are padded."""
    model = any_subject.model
    shape = model.shape
    stream = compile_model(model, config(lanes)).stream()
    assert streams.embed(stream) == {
        "lanes": lanes,
        "labels": shape.labels,
        "row_words": -(-shape.hidden // lanes) << model.embedding.wide,
        "token_rows": shape.vocabulary,
        "position_rows": shape.positions,
        "offset": shape.position_offset,
        "types": shape.types,
    }
    with pytest.raises(ValueError, match="the command stream says 0 lanes: it is damaged"):
        streams.embed(stream[:7] + b"\0" + stream[8:])


def test_the_opcodes_of_streams() -> None:
    assert [Opcode.HEADER, Opcode.TABLE, Opcode.NORM, Opcode.EMBED] == [
        streams.HEADER, streams.TABLE, streams.NORM, streams.EMBED
    ]  # fmt: skip
