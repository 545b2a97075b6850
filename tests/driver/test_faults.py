"""Deliberate faults in the C driver: the simulated accelerator shows each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtl.control.axi import ADDRESS
from rtl.interface.command import VERSION
from rtl.interface.operation import Error
from sim.cycles.model import predict
from sim.machine.board import StreamBoard
from tests.damage import changed
from tests.driver.device import PLENTY, Driver, failing, header, is_right, lengths
from verify.driver import DRIVER, driver_library
from verify.fuzz.subject import Subject

pytestmark = pytest.mark.verilator

#: What the driver says, and what the fault says.
FAULTS = {
    "any id": ("get(device, B2RTL_ID) != (uint32_t)B2RTL_ID_VALUE", "0"),
    "any version": ("device->version != (uint32_t)B2RTL_VERSION_VALUE", "0"),
    "lanes read as tokens": ("get(device, B2RTL_LANES)", "get(device, B2RTL_TOKENS)"),
    "a start while busy": ("B2RTL_NOT_OPEN || before == B2RTL_BUSY", "B2RTL_NOT_OPEN"),
    "no start": ("set(device, B2RTL_CONTROL, B2RTL_CONTROL_START);", ""),
    "start is abort": ("B2RTL_CONTROL, B2RTL_CONTROL_START", "B2RTL_CONTROL, B2RTL_CONTROL_ABORT"),
    "start at another register": ("B2RTL_CONTROL, B2RTL_CONTROL_START", "B2RTL_STATUS, 1"),
    "busy is not looked at": ("if (status & B2RTL_STATUS_BUSY)", "if (0)"),
    "done is not looked at": ("if (!(status & B2RTL_STATUS_DONE))", "if (0)"),
    "the code shifted by seven": (">> B2RTL_STATUS_ERROR_SHIFT", ">> 7"),
    "two bits of the code": ("status & B2RTL_STATUS_ERROR_MASK", "status & 0x300"),
    "a look too many": ("polls-- > 1", "polls-- > 0"),
    "a wait that looks once": ("polls-- > 1", "polls-- > 1 && 0"),
    "a wait that is busy": ("result == B2RTL_BUSY ? B2RTL_STILL_BUSY : result", "result"),
    "a sleep less": ("if (sleeps-- == 0)", "if (--sleeps == 0)"),
    "the line stays": ("    if (result >= 0)\n        b2rtl_acknowledge(device);", ""),
    "acknowledged by a 0": (
        "B2RTL_INTERRUPT_PENDING, B2RTL_INTERRUPT_PENDING_BIT);",
        "B2RTL_INTERRUPT_PENDING, 0);",
    ),
    "every interrupt is mine": ("get(device, B2RTL_INTERRUPT_PENDING) &", "1 &"),
    "enabled the wrong way": ("enable ? B2RTL_INTERRUPT_ENABLE_BIT : 0", "enable ? 0u : 1u"),
    "no abort": ("set(device, B2RTL_CONTROL, B2RTL_CONTROL_ABORT);", ""),
    "an abort of nothing": ("if (before != B2RTL_BUSY)", "if (before == B2RTL_NOT_OPEN)"),
    "counters while busy": ("B2RTL_NOT_OPEN || state == B2RTL_BUSY", "B2RTL_NOT_OPEN"),
    "norm is softmax": (
        "norm = get(device, B2RTL_STALL_NORM)",
        "norm = get(device, B2RTL_STALL_SOFTMAX)",
    ),
    "fields of a HEADER from the other end": ("at[bytes]", "*at++"),
    "a limit is too much": (">= 1 && needed <= limit;", ">= 1 && needed < limit;"),
}


def play(driver: Driver, board: StreamBoard, subject: Subject) -> None:
    """What every function is for, once; AssertionError when one does something else."""
    run, made = subject.sound(4), subject.config
    assert driver.open() == 0
    assert driver.limits["lanes"] == made.lanes
    assert driver.limits["tokens"] == made.tokens
    assert driver.check(header(subject, "hidden", made.hidden))[0] == 0
    assert driver.check(header(subject, "hidden", made.hidden + 1))[0] == -11
    assert driver.result() == -5

    board.offer(run, subject.table)
    assert driver.start() == 0
    assert driver.start() == -4
    assert driver.counters() == (-4, None)
    reads, slept = board.accesses[0], []
    assert driver.wait(5) == -6
    assert board.accesses[0] == reads + 5
    assert driver.wait_interrupt(lambda: slept.append(board.run(20)), 3) == -6
    assert len(slept) == 3
    assert driver.wait(PLENTY) == 0
    assert is_right(board, run)
    code, found = driver.counters()
    assert code == 0
    assert found is not None
    cycles, active, *stalls = found.values()
    told = predict(subject.program, lengths(run), row_latency=run.row_latency)
    assert (cycles, active) == (told.cycles, told.active)
    assert stalls == list(told.stalls.values())
    assert board.interrupt
    assert driver.acknowledge() == 1
    assert not board.interrupt
    assert driver.acknowledge() == 0

    for error in (Error.TOKEN, Error.NO_KEY):
        board.offer(failing(subject)[error], subject.table)
        assert driver.start() == 0
        assert driver.wait(PLENTY) == error
    board.offer(run, subject.table)
    assert driver.start() == 0
    board.run(300)
    assert driver.abort() == Error.ABORTED
    writes = board.accesses[1]
    assert driver.abort() == Error.ABORTED
    assert board.accesses[1] == writes

    board.offer(run, subject.table)
    assert driver.enable_interrupt(0) == 0
    assert driver.start() == 0
    board.run(5_000)
    assert not board.interrupt
    assert driver.enable_interrupt(1) == 0
    assert board.interrupt
    assert driver.wait_interrupt(slept.clear, 0) == 0
    assert not board.interrupt
    assert is_right(board, run)
    for register, wrong, code in (("version", VERSION + 1, -2), ("id", 5, -1)):
        board.show(ADDRESS[register], wrong)
        assert driver.open() == code
    assert not board.complaint()


@pytest.fixture
def source() -> str:
    return (DRIVER / "bert2rtl.c").read_text()


def test_without_a_fault(
    program: Path, tmp_path: Path, board: StreamBoard, subject: Subject
) -> None:
    play(Driver(driver_library(program, tmp_path)), board, subject)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen(
    name: str, source: str, program: Path, tmp_path: Path, board: StreamBoard, subject: Subject
) -> None:
    right, wrong = FAULTS[name]
    text = changed(source, (right, wrong), of="bert2rtl.c")
    driver = Driver(driver_library(program, tmp_path, text=text))
    with pytest.raises(AssertionError):
        play(driver, board, subject)
    board.complaint()
