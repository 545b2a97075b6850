"""The driver under Linux' UIO, on the simulated accelerator and on files in place of a device."""

from __future__ import annotations

import socket
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from driver import accelerator, uio
from driver.accelerator import Accelerator
from golden.identity import identity_of
from rtl.control.axi import ADDRESS
from rtl.interface.command import MAGIC, VERSION
from sim.cycles.model import predict
from sim.machine.board import StreamBoard
from tests.driver.conftest import LANES
from tests.driver.device import is_right, lengths
from tests.ending import refusal
from verify.fuzz.subject import Subject, config

pytestmark = pytest.mark.verilator


def test_uio(board: StreamBoard, subject: Subject, capsys: pytest.CaptureFixture[str]) -> None:
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
        {"id": MAGIC, "version": VERSION, "lanes": 4, "columns": 4, "tokens": 12} | values
    ).items():
        words[ADDRESS[name] // 4] = value
    path.write_bytes(words.tobytes())
    return path


def test_the_uio_command(tmp_path: Path, subject: Subject, capsys) -> None:
    """On a file in place of the device: its registers stand still."""
    made = config(LANES).as_dict() | {"columns": config(LANES).tile_columns}
    limits = {name: made[name] for name in accelerator.LIMITS}
    path = registers_file(tmp_path / "uio0", status=2, cycles=1234, **limits)
    model = tmp_path / "model.bin"
    model.write_bytes(subject.stream)
    assert uio.main(["--device", str(path), "--model", str(model), "--start"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert ", ".join(f"{name} {value}" for name, value in limits.items()) in out
    model = identity_of(subject.model).hex()
    assert f"model {model}, takes up to {subject.program.tokens} tokens" in out
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
    arguments = ["--device", str(device), *arguments]
    assert message in refusal(uio.main, arguments, capsys, code, quiet=False)


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
    error = refusal(uio.main, ["--device", str(path)], capsys)
    assert message in error
    assert str(path) in error
