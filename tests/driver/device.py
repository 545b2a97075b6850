"""The C driver's functions for Python, and what is played with any driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rtl.interface.operation import Error
from sim.machine.board import BASE, StreamBoard
from sim.machine.job import Packets
from tb.packing import lengths_of
from verify.fuzz.job import Run
from verify.fuzz.streams import joined, parts, set_field
from verify.fuzz.subject import Subject

LIMITS = ("version", "lanes", "columns", "tokens", "hidden", "ffn", "labels")
COUNTERS = ("cycles", "active", "idle", "weights", "norm", "softmax", "drain")
SLEEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
PLENTY = 100_000  # reads of `status`, each some cycles: longer than any inference here


class Device(ctypes.Structure):
    """struct b2rtl_device."""

    _fields_ = [
        ("base", ctypes.c_size_t),
        ("open", ctypes.c_int),
        *((name, ctypes.c_uint32) for name in LIMITS),
    ]


class _Counters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in COUNTERS]


class Driver:
    """The compiled driver with a device of its own; each method is b2rtl_<its name>."""

    def __init__(self, compiled: ctypes.CDLL) -> None:
        self._lib = compiled
        compiled.b2rtl_text.restype = ctypes.c_char_p
        self._device = Device()
        self._at = ctypes.byref(self._device)

    def open(self, base: int = BASE) -> int:
        return int(self._lib.b2rtl_open(self._at, ctypes.c_size_t(base)))

    @property
    def limits(self) -> dict[str, int]:
        return {name: getattr(self._device, name) for name in LIMITS}

    def check(self, stream: bytes) -> tuple[int, int]:
        """The code and the longest sequence."""
        tokens = ctypes.c_uint32(99)
        at = ctypes.byref(tokens)
        code = self._lib.b2rtl_check(self._at, stream, ctypes.c_size_t(len(stream)), at)
        assert code == self._lib.b2rtl_check(self._at, stream, ctypes.c_size_t(len(stream)), None)
        return int(code), tokens.value

    def check_rows(self, stream: bytes, *rows: bytes) -> int:
        """The code, of rows that come in pieces."""
        crc = 0
        self._lib.b2rtl_crc.restype = ctypes.c_uint32
        for piece in rows:
            size = ctypes.c_size_t(len(piece))
            crc = self._lib.b2rtl_crc(ctypes.c_uint32(crc), piece, size)
        size = ctypes.c_size_t(len(stream))
        return int(self._lib.b2rtl_check_rows(stream, size, ctypes.c_uint32(crc)))

    def write_row(self, lanes: int, values: Sequence[int]) -> bytes:
        """A row that is given, with 99 in each byte that nothing is written to."""
        size = -(-len(values) // lanes) * lanes * 2
        row = (ctypes.c_uint8 * (size + 4))(*[99] * (size + 4))
        given = (ctypes.c_int16 * len(values))(*values)
        self._lib.b2rtl_write_row(row, ctypes.c_uint32(lanes), given, ctypes.c_uint32(len(values)))
        return bytes(row)

    def start(self) -> int:
        return int(self._lib.b2rtl_start(self._at))

    def result(self) -> int:
        return int(self._lib.b2rtl_result(self._at))

    def wait(self, polls: int = PLENTY) -> int:
        return int(self._lib.b2rtl_wait(self._at, ctypes.c_uint32(polls)))

    def wait_interrupt(self, sleep: Callable[[], object], sleeps: int) -> int:
        function = SLEEP(lambda context: sleep() and None)
        count = ctypes.c_uint32(sleeps)
        return int(self._lib.b2rtl_wait_interrupt(self._at, function, None, count))

    def abort(self, polls: int = PLENTY) -> int:
        return int(self._lib.b2rtl_abort(self._at, ctypes.c_uint32(polls)))

    def failed_sequence(self) -> int:
        return int(self._lib.b2rtl_failed_sequence(self._at))

    def counters(self) -> tuple[int, dict[str, int] | None]:
        """The code, and the counters where they were written."""
        found = _Counters(*[0xDEAD] * len(COUNTERS))
        code = int(self._lib.b2rtl_read_counters(self._at, ctypes.byref(found)))
        values = {name: getattr(found, name) for name in COUNTERS}
        return code, None if set(values.values()) == {0xDEAD} else values

    def enable_interrupt(self, enable: int) -> int:
        return int(self._lib.b2rtl_enable_interrupt(self._at, ctypes.c_int(enable)))

    def acknowledge(self) -> int:
        return int(self._lib.b2rtl_acknowledge(self._at))

    def text(self, code: int) -> str:
        text: Any = self._lib.b2rtl_text(ctypes.c_int(code))
        return text.decode()


def _stream(run: Run, stream: bytes, lanes: int) -> Run:
    return run.but(model=Packets.whole(stream, lanes), logits=None)


def _words(run: Run, words: np.ndarray) -> Run:
    return run.but(tokens=Packets.whole(words.astype("<u4").tobytes(), 4), logits=None)


def header(subject: Subject, field: str, value: int) -> bytes:
    """The stream of a model with another HEADER, all CRCs right."""
    pieces = parts(subject)
    set_field(pieces[0][0], field, value)
    return joined(pieces, subject.lanes)


def failing(subject: Subject) -> dict[Error, Run]:
    """For each error that streams can cause, an inference that ends with it."""
    run, lanes, stream = subject.sound(4), subject.lanes, subject.stream
    words = np.frombuffer(run.tokens.data, "<u4")
    damaged = bytearray(stream)
    damaged[len(stream) // 2] ^= 16
    return {
        Error.FORMAT: _stream(run, header(subject, "version", 9), lanes),
        Error.CRC: _stream(run, bytes(damaged), lanes),
        Error.LIMIT: _stream(run, header(subject, "labels", 5), lanes),
        Error.TRUNCATED: _stream(run, stream[: len(stream) // 2], lanes),
        Error.OVERRUN: _stream(run, stream + bytes(3 * lanes), lanes),
        Error.LENGTH: _words(run, np.resize(words, subject.config.tokens + 1)),
        Error.TOKEN: _words(run, words | np.uint32(subject.model.shape.vocabulary)),
        Error.NO_KEY: _words(run, words & ~np.uint32(1 << 25)),
        Error.ROW: run.but(row_words=run.row_words + 1, logits=None),
    }


def failing_sequence(subject: Subject, number: int) -> Run:
    """A batch of three whose sequence `number` has an unknown id."""
    batch = subject.batch([3, 2, 4], np.random.default_rng(number))
    batch.ids[sum([3, 2, 4][: number + 1]) - 1] = subject.model.shape.vocabulary
    return _words(subject.sound(0), batch.words())


def infers(driver: Driver, board: StreamBoard, subject: Subject, run: Run) -> None:
    """A sound inference, from its start to golden's logits."""
    board.offer(run, subject.table)
    assert driver.start() == 0
    assert driver.wait() == 0
    assert is_right(board, run)


def lengths(run: Run) -> list[int]:
    """Tokens of each sequence of a sound inference."""
    return lengths_of(np.frombuffer(run.tokens.data, "<u4"))


def is_right(board: StreamBoard, run: Run) -> bool:
    """Whether an inference has given golden's logits, a packet a sequence, and left nothing."""
    assert run.logits
    return board.logits() == (list(run.logits), len(lengths(run))) and board.left == (0, 0, 0)
