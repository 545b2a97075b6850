"""UIO: registers in a file, interrupts of a thread in place of the kernel."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest

from driver import uio
from driver.bert2rtl import REGISTERS, DmaAccelerator
from sim.machine.board import MemoryBoard
from tests.driver.drivers import Bus
from tests.driver.test_python import use
from tests.sim.dma_subjects import subjects


@pytest.mark.verilator
def test_an_interrupt(board: MemoryBoard) -> None:
    """The kernel raises it when it is unmasked; the wait ends with it."""
    kernel, descriptor = socket.socketpair()
    unmasked = []

    def serve() -> None:
        while word := kernel.recv(4):
            unmasked.append(int.from_bytes(word, sys.byteorder))
            assert board.until_interrupt(10_000)
            kernel.send(len(unmasked).to_bytes(4, sys.byteorder))

    thread = threading.Thread(target=serve)
    thread.start()
    subject, device = subjects(4)[0], DmaAccelerator(Bus(board))
    use(device, board, subject)
    ids, types, attend = (part.tolist() for part in subject.sequence(5))
    try:
        interrupts = uio.Interrupts(descriptor.fileno())
        assert device.infer(ids, types, attend, 20.0, interrupts.wait) == subject.logits(5)
    finally:
        descriptor.close()
        thread.join(20)
        kernel.close()
    assert unmasked == [1]
    assert not board.interrupt


def test_an_interrupt_that_does_not_come() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert uio.Interrupts(ours.fileno()).wait(0.01) is False
        assert uio.Interrupts(ours.fileno()).wait(-1) is False


def test_registers(tmp_path: Path) -> None:
    path = tmp_path / "uio0"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file:
        registers = uio.Registers(file.fileno())
        registers.write(REGISTERS["row_bytes"], 0x12345678)
        assert registers.read(REGISTERS["row_bytes"]) == 0x12345678
        registers.close()
    assert path.read_bytes()[0x94:0x98] == (0x12345678).to_bytes(4, sys.byteorder)
