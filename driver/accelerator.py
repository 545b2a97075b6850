"""The accelerator's registers from Python; standard library only. bert2rtl.h says the same in C.

    device = Accelerator(memory)      # memory.read(offset) and memory.write(offset, value)
    device.check(stream)
    device.start()
    device.wait(seconds=1)
    print(device.counters())

`memory` is whatever reaches the registers: `pynq.MMIO`, or `uio.Registers` on any Linux. Streams
are moved by others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

REGISTERS = {
    "id": 0x00,
    "version": 0x04,
    "lanes": 0x08,
    "tokens": 0x0C,
    "hidden": 0x10,
    "ffn": 0x14,
    "labels": 0x18,
    "control": 0x1C,
    "status": 0x20,
    "cycles": 0x24,
    "active": 0x28,
    "stall_idle": 0x2C,
    "stall_weights": 0x30,
    "stall_norm": 0x34,
    "stall_softmax": 0x38,
    "stall_drain": 0x3C,
    "interrupt_enable": 0x40,
    "interrupt_pending": 0x44,
    "failed_sequence": 0x48,
    "columns": 0x4C,
}
SPAN = 0x80  # bytes that the registers take
ID = 0x54523242  # the bytes "B2RT"
VERSION = 7  # of the registers and of the command stream
LIMITS = ("lanes", "columns", "tokens", "hidden", "ffn", "labels")
COUNTERS = (
    "cycles",
    "active",
    "stall_idle",
    "stall_weights",
    "stall_norm",
    "stall_softmax",
    "stall_drain",
)
START, ABORT = 1, 2  # bits of control
BUSY, DONE = 1, 2  # bits of status
HEADER_FLAGS = 240  # bits of a command stream's second byte, which is log2 of columns a lane

#: How an inference ended, by the error code of `status`.
ENDS = {
    0: "good: the logits are complete",
    1: "FORMAT: the command stream has a wrong magic, version or number of lanes or columns, or an "
    "operation or flag that may not stand there: compile it for this accelerator",
    2: "CRC: the command stream was damaged on its way, or in memory",
    3: "LIMIT: the model, a field or a tensor of this batch exceeds the accelerator's limits",
    4: "TRUNCATED: the command stream ended before its END",
    5: "OVERRUN: the command stream went on after its END",
    6: "LENGTH: more tokens in a sequence, or in all, than the model or the accelerator takes",
    7: "TOKEN: a token id or a type is beyond its table",
    8: "NO_KEY: no token of a sequence has its attend bit set",
    9: "ABORTED: aborted",
    10: "TIMEOUT: nothing moved for long inside the accelerator, although nothing outside was "
    "awaited",
    11: "ROW: a row of the embedding table is shorter or longer than the model says: use the rows "
    "that belong to the command stream",
    12: "BUS: the memory answered a read with an error: the image does not lie where the registers "
    "say, or cannot be reached from the accelerator",
    13: "ADDRESS: an address or a size of the memory side is no whole number of words, beyond the "
    "bus or 0: point it at an image first",
}


OF_A_SEQUENCE = (6, 7, 8, 11)  # the register `failed_sequence` says of which


class Memory(Protocol):
    """Registers of 32 bits by their offset in bytes."""

    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...


class DeviceError(Exception):
    """The device cannot do it; one line says why and what to do."""


class InferenceError(DeviceError):
    """An inference has ended without logits; `code` is the accelerator's.

    `sequence` is the one of the batch that failed, from 0; None where the code is of none.
    """

    def __init__(self, code: int, sequence: int | None = None) -> None:
        self.code, self.sequence = code, sequence
        text = ENDS.get(code, f"unknown error code {code}")
        super().__init__(text if sequence is None else f"{text} (sequence {sequence})")


class Accelerator:
    """An accelerator behind `memory`.

    Parameters
    ----------
    memory
        Its registers.
    sleep
        Called with some seconds between two looks at `status`; time.sleep.

    Attributes
    ----------
    limits
        lanes, columns, tokens, hidden, ffn and labels, as it was made.

    Raises
    ------
    DeviceError
        Another device is there, or one of another version. Nothing was written to it.
    """

    def __init__(self, memory: Memory, sleep: Callable[[float], object] = time.sleep) -> None:
        self._memory, self._sleep = memory, sleep
        found = self._read("id")
        if found != ID:
            raise DeviceError(f"no bert2rtl accelerator: its id is {found:#010x}, not {ID:#010x}")
        version = self._read("version")
        if version != VERSION:
            raise DeviceError(
                f"the accelerator has version {version}, this driver is for {VERSION}"
            )
        self.limits = {name: self._read(name) for name in LIMITS}

    def _read(self, name: str) -> int:
        return self._memory.read(REGISTERS[name])

    def _write(self, name: str, value: int) -> None:
        self._memory.write(REGISTERS[name], value)

    def check(self, stream: bytes) -> int:
        """The longest sequence that the model of a command stream takes here.

        Raises
        ------
        DeviceError
            It cannot run: no command stream, or the model exceeds a limit.
        """
        if len(stream) < 32 or stream[0] != 1 or stream[2:6] != ID.to_bytes(4, "little"):
            raise DeviceError("this is no command stream: rtl.compile writes one (model.bin)")
        if stream[6] != VERSION:
            raise DeviceError(
                f"the command stream has version {stream[6]}, the accelerator {VERSION}: compile "
                "it anew"
            )
        lanes, columns = self.limits["lanes"], self.limits["columns"]
        asked = stream[7] << (stream[1] & ~HEADER_FLAGS)
        if (stream[7], asked) != (lanes, columns):
            raise DeviceError(
                f"the command stream is for {stream[7]} lanes and {asked} columns, the accelerator "
                f"has {lanes} and {columns}: compile it for this accelerator"
            )
        sizes = [int.from_bytes(stream[at : at + 2], "little") for at in range(8, 16, 2)]
        for name, size in zip(LIMITS[3:], sizes[1:]):
            if not 1 <= size <= self.limits[name]:
                raise DeviceError(
                    f"{name} of the model is {size}: the accelerator takes 1..{self.limits[name]}"
                )
        if sizes[0] == 0:
            raise DeviceError("the command stream allows no token: compile it anew")
        return min(sizes[0], self.limits["tokens"])

    def start(self) -> None:
        """Start an inference.

        Raises
        ------
        DeviceError
            One is under way; nothing was written.
        """
        if self._read("status") & BUSY:
            raise DeviceError("an inference is under way: wait for it or abort it")
        self._write("control", START)

    def ended(self) -> bool:
        """Whether the latest inference has ended well.

        Raises
        ------
        InferenceError
            It has ended badly.
        DeviceError
            None was started since the reset.
        """
        status = self._read("status")
        if status & BUSY:
            return False
        if not status & DONE:
            raise DeviceError("no inference has been started since the reset")
        if code := status >> 8 & 15:
            raise InferenceError(
                code, self._read("failed_sequence") if code in OF_A_SEQUENCE else None
            )
        return True

    def wait(
        self, seconds: float = 1.0, interrupt: Callable[[float], object] | None = None
    ) -> None:
        """Wait until the inference has ended well, and acknowledge its interrupt.

        seconds
            The bound.
        interrupt
            Called with the seconds that are left: it returns after an interrupt or after these.
            None: look again every millisecond.

        Raises
        ------
        InferenceError
            It has ended badly.
        DeviceError
            It has not ended in time and goes on; or none was started.
        """
        until = time.monotonic() + seconds
        try:
            while not self.ended():
                left = until - time.monotonic()
                if left <= 0:
                    raise DeviceError(
                        f"the inference has not ended in {seconds:g} s: wait longer or abort it"
                    )
                if interrupt is None:
                    self._sleep(min(left, 0.001))
                else:
                    interrupt(left)
        except InferenceError:
            self.acknowledge()
            raise
        self.acknowledge()

    def abort(self, seconds: float = 1.0) -> bool:
        """End the inference under way; whether it was too late and it has ended well.

        Streams begin anew with the next start: withdraw or finish what was being sent.

        Raises
        ------
        DeviceError
            A row or the taking of the logits is still awaited; or nothing is under way.
        """
        if not self._read("status") & BUSY:
            raise DeviceError("no inference is under way")
        self._write("control", ABORT)
        try:
            self.wait(seconds)
        except InferenceError:
            return False
        return True

    def counters(self) -> dict[str, int]:
        """Clock cycles of the latest inference, and those without an operand by cause.

        Raises
        ------
        DeviceError
            It is under way.
        """
        if self._read("status") & BUSY:
            raise DeviceError("an inference is under way: wait for it or abort it")
        return {name: self._read(name) for name in COUNTERS}

    def enable_interrupt(self, enable: bool) -> None:
        """Let the end of an inference raise the line, or not. It does after a reset."""
        self._write("interrupt_enable", int(enable))

    def acknowledge(self) -> bool:
        """Clear the interrupt; whether it was pending."""
        pending = bool(self._read("interrupt_pending") & 1)
        if pending:
            self._write("interrupt_pending", 1)
        return pending
