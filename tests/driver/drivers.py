"""Both drivers with the same functions and codes, and what is played with either."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driver import bert2rtl
from driver.bert2rtl import DeviceError, DmaAccelerator, InferenceError
from rtl.compile.edit import Edit
from rtl.compile.image import Image, image_bytes
from rtl.interface.operation import Error
from sim.machine.board import BASE, MemoryBoard
from tb.packing import lengths_of
from verify.fuzz.subject import POOL, Run, Subject

BUSY, IDLE, STILL_BUSY, NOT_OPEN = -4, -5, -6, -3
NO_STREAM, NO_IMAGE, DAMAGED, PLACED, NO_TOKENS, NO_ROOM, OTHER_ROWS = -7, *range(-14, -20, -1)
LIMITS = ("version", "lanes", "columns", "tokens", "hidden", "ffn", "labels")
COUNTERS = ("cycles", "active", "idle", "weights", "norm", "softmax", "drain")
PLENTY = 100_000  # reads of `status`, each some cycles: longer than any inference here
PLACE = 0x4000  # of the image

#: How messages of the Python driver begin, by the code of the C driver.
MESSAGES = {
    -1: "no bert2rtl accelerator: its id is 0x",
    -2: "the accelerator has version ",
    -4: "an inference is under way: wait for it or abort it",
    -5: ("no inference has been started since the reset", "no inference is under way"),
    -6: "the inference has not ended in ",
    -7: "this is no command stream: ",
    -8: "the command stream has version ",
    -9: "the command stream is for ",
    -10: "the command stream allows no token: ",
    -11: "hidden of the model is ",
    -12: "ffn of the model is ",
    -13: "labels of the model is ",
    -14: ("this is no image: ", "the image has format "),
    -15: "the image is damaged",
    -16: "the image lies at ",
    -17: "the sequence is empty: ",
    -18: ("the sequence has ", "the batch has "),
    -19: ("the rows are damaged, or ", "the image has stream and rows of two models: "),
}


def _numbers(kind: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names]


class Device(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_size_t),
        ("open", ctypes.c_int),
        *_numbers(ctypes.c_uint32, LIMITS),
    ]


class Parts(ctypes.Structure):
    _fields_ = [
        *_numbers(ctypes.c_uint64, ("stream", "rows")),
        *_numbers(ctypes.c_uint32, ("stream_bytes", "row_bytes", "row_count", "tokens")),
        ("model", ctypes.c_uint8 * 8),
    ]


class Counters(ctypes.Structure):
    _fields_ = _numbers(ctypes.c_uint32, COUNTERS)


class CDriver:
    """The compiled driver on the latest board."""

    def __init__(self, compiled: ctypes.CDLL) -> None:
        self.library = compiled
        compiled.b2rtl_text.restype = ctypes.c_char_p
        compiled.b2rtl_crc.restype = ctypes.c_uint32
        self.device, self.parts = Device(), Parts()

    def call(self, name: str, *arguments: Any) -> int:
        """A function of a device; numbers that are no ctypes have 32 bits."""
        of = [ctypes.c_uint32(one) if isinstance(one, int) else one for one in arguments]
        return int(getattr(self.library, f"b2rtl_{name}")(ctypes.byref(self.device), *of))

    def open(self) -> int:
        self.parts = Parts()
        return self.call("open", ctypes.c_size_t(BASE))

    @property
    def limits(self) -> dict[str, int]:
        return {name: getattr(self.device, name) for name in LIMITS}

    @property
    def model(self) -> str:
        return bytes(self.parts.model).hex() if any(self.parts.model) else ""

    def check(self, stream: bytes) -> tuple[int, int]:
        tokens, size = ctypes.c_uint32(99), ctypes.c_size_t(len(stream))
        code = self.call("check", stream, size, ctypes.byref(tokens))
        assert code == self.call("check", stream, size, None)
        return code, tokens.value

    def check_rows(self, stream: bytes, rows: bytes) -> int:
        """The rows come in two pieces."""
        crc = 0
        for piece in (rows[:13], rows[13:]):
            size = ctypes.c_size_t(len(piece))
            crc = self.library.b2rtl_crc(ctypes.c_uint32(crc), piece, size)
        size = ctypes.c_size_t(len(stream))
        return int(self.library.b2rtl_check_rows(stream, size, ctypes.c_uint32(crc)))

    def write_row(self, lanes: int, values: Sequence[int]) -> bytes:
        """A row of given values, with 99 in each byte that nothing is written to."""
        size = -(-len(values) // lanes) * lanes * 2 + 4
        row = (ctypes.c_uint8 * size)(*[99] * size)
        given = (ctypes.c_int16 * len(values))(*values)
        self.library.b2rtl_write_row(row, ctypes.c_uint32(lanes), given, len(values))
        return bytes(row)

    def use(self, image: bytes, address: int = PLACE) -> int:
        numbers = ctypes.c_uint64(len(image)), ctypes.c_uint64(address)
        code = self.call("read_image", image, *numbers, ctypes.byref(self.parts))
        return code or self.call("use_image", ctypes.byref(self.parts))

    def send(self, words: Sequence[int]) -> int:
        return self.call("send_tokens", (ctypes.c_uint32 * len(words))(*words), len(words))

    def start(self) -> int:
        return self.call("start")

    def result(self) -> int:
        return self.call("result")

    def wait(self, polls: int = PLENTY) -> int:
        return self.call("wait", polls)

    def wait_interrupt(self, sleep: Callable[[], object], sleeps: int = PLENTY) -> int:
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda context: sleep() and None)
        return self.call("wait_interrupt", function, None, sleeps)

    def abort(self, polls: int = PLENTY) -> int:
        return self.call("abort", polls)

    def logits(self) -> list[int]:
        found, count = (ctypes.c_int32 * 512)(), ctypes.c_uint32()
        assert self.call("read_logits", found, 512, ctypes.byref(count)) == 0
        return list(found[: count.value])

    def counters(self) -> tuple[int, dict[str, int]]:
        """The counters are 0xDEAD where nothing was written."""
        found = Counters(*[0xDEAD] * len(COUNTERS))
        code = self.call("read_counters", ctypes.byref(found))
        return code, {name: getattr(found, name) for name in COUNTERS}

    def enable_interrupt(self, enable: int) -> None:
        assert self.call("enable_interrupt", enable) == 0

    def acknowledge(self) -> int:
        return self.call("acknowledge")


class Bus:
    """A board as a CPU reaches it: a refused write is a fault."""

    def __init__(self, board: MemoryBoard) -> None:
        self.board = board

    def read(self, offset: int) -> int:
        return self.board.read(offset)

    def write(self, offset: int, value: int) -> None:
        assert self.board.write(offset, value), f"the write of {value} to {offset:#x} is refused"


class PythonDriver:
    """The Python driver, with the codes of the other in place of its exceptions."""

    def __init__(self, board: MemoryBoard) -> None:
        self.board, self.device = board, None

    def _code(self, function: Callable[[], object]) -> int:
        said: Exception | None = None
        try:
            function()
        except (DeviceError, ValueError) as error:
            said = error
        if said is None:
            return 0
        assert "\n" not in str(said)
        if isinstance(said, InferenceError):
            of_a_sequence = said.code in bert2rtl.OF_A_SEQUENCE
            assert str(said).startswith(f"{Error(said.code).name}: ")
            assert str(said).endswith(f" (sequence {said.sequence})") == of_a_sequence
            return said.code
        (code,) = (code for code, begin in MESSAGES.items() if str(said).startswith(begin))
        return code

    def open(self) -> int:
        def make() -> None:
            self.device = DmaAccelerator(Bus(self.board), lambda seconds: self.board.step(100))

        return self._code(make)

    @property
    def limits(self) -> dict[str, int]:
        return {"version": bert2rtl.VERSION, **self.device.limits}

    @property
    def model(self) -> str:
        return self.device.model

    def check(self, stream: bytes) -> tuple[int, int]:
        code = self._code(lambda: self.device.check(stream))
        return code, 0 if code else self.device.check(stream)

    def check_rows(self, stream: bytes, rows: bytes) -> int:
        return self._code(lambda: bert2rtl.check_rows(stream, rows))

    def use(self, image: bytes, address: int = PLACE) -> int:
        return self._code(lambda: self.device.use(image, address))

    def send(self, words: Sequence[int]) -> int:
        given = [[word >> at & mask for word in words] for at, mask in TOKEN]
        lengths = lengths_of(np.array(words, "<u4")) if any(word >> 26 for word in words) else None
        return self._code(lambda: self.device.send(*given, lengths))

    def start(self) -> int:
        return self._code(self.device.start)

    def result(self) -> int:
        code = self._code(self.device.ended)
        return code or (0 if self.device.ended() else BUSY)

    def wait(self, polls: int = PLENTY) -> int:
        return self._code(lambda: self.device.wait(polls * 1e-4))

    def wait_interrupt(self, sleep: Callable[[], object], sleeps: int = PLENTY) -> int:
        return self._code(lambda: self.device.wait(sleeps * 1e-4, lambda left: sleep()))

    def abort(self, polls: int = PLENTY) -> int:
        """Its result is that of the inference, as that of the C driver."""
        code = self._code(lambda: self.device.abort(polls * 1e-4))
        return self.result() if code in (0, IDLE) else code

    def logits(self) -> list[int]:
        return self.device.logits()

    def counters(self) -> tuple[int, dict[str, int]]:
        code = self._code(self.device.counters)
        if code:
            return code, dict.fromkeys(COUNTERS, 0xDEAD)
        return code, dict(zip(COUNTERS, self.device.counters().values(), strict=True))

    def enable_interrupt(self, enable: int) -> None:
        self.device.enable_interrupt(bool(enable))

    def acknowledge(self) -> int:
        return int(self.device.acknowledge())


Driver = CDriver | PythonDriver
"""Each method is b2rtl_<its name> and returns its code, before what else it finds."""

TOKEN = ((0, (1 << 24) - 1), (24, 1), (25, 1))
"""Place and mask of id, type and attend bit in a word of the tokens stream."""


def image_of(subject: Subject, stream: bytes = b"", row_bytes: int = 0) -> Image:
    """The model's image, with another stream or size of its rows."""
    return Image(
        stream=stream or subject.stream,
        rows=subject.table.tobytes(),
        row_bytes=row_bytes or subject.table.shape[1],
    )


def words_of(run: Run) -> list[int]:
    return np.frombuffer(run.tokens.data, "<u4").tolist()


def pool(subject: Subject) -> list[Run]:
    """Sound inferences whose logits fit the FIFO."""
    runs = [subject.sound(number) for number in range(POOL)]
    most = 2 if subject.model.shape.pooling == "none" else subject.program.row_tiles
    tiles = [sum(-(-n // subject.lanes) for n in lengths_of(np.array(words_of(r)))) for r in runs]
    return [run for run, needed in zip(runs, tiles, strict=True) if needed <= most]


def load(driver: Driver, board: MemoryBoard, subject: Subject) -> None:
    """Put the model's image into memory and use it."""
    data = image_bytes(image_of(subject))
    board.hold({PLACE: data})
    assert driver.use(data) == 0


def infers(driver: Driver, board: MemoryBoard, subject: Subject, run: Run) -> None:
    """A sound inference, from its image to golden's logits."""
    load(driver, board, subject)
    assert driver.send(words_of(run)) == 0
    assert driver.start() == 0
    assert driver.wait() == 0
    assert is_right(driver, board, run)


def is_right(driver: Driver, board: MemoryBoard, run: Run) -> bool:
    """Whether an inference gave golden's logits and left nothing."""
    return driver.logits() == list(run.logits or ()) and rests(board)


def rests(board: MemoryBoard) -> bool:
    """Whether no word and no logit is left."""
    return (board.read("token_room"), board.read("logits_waiting"), board.waiting) == (512, 0, 0)


def header(subject: Subject, field: str, value: int) -> bytes:
    """The stream of a model with another HEADER, all CRCs right."""
    pieces = Edit(subject.program)
    pieces[0][field] = value
    return bytes(pieces)


def fail(error: Error, driver: Driver, board: MemoryBoard, subject: Subject) -> None:
    """Start an inference that ends with this error."""
    stream, width = subject.stream, subject.table.shape[1]
    words = np.array(words_of(subject.sound(4)), np.uint32)
    damaged = bytearray(stream)
    damaged[len(stream) // 2] ^= 16
    streams = {
        Error.FORMAT: header(subject, "version", 9),
        Error.CRC: bytes(damaged),
        Error.LIMIT: header(subject, "labels", 5),
        Error.TRUNCATED: stream[: len(stream) // 8 * 4],
        Error.OVERRUN: stream + bytes(12),
    }
    tokens = {
        Error.LENGTH: np.resize(words, subject.config.tokens + 1),
        Error.TOKEN: words | np.uint32(subject.model.shape.vocabulary),
        Error.NO_KEY: words & ~np.uint32(1 << 25),
    }
    image = image_of(subject, streams.get(error, b""), width + 4 * (error == Error.ROW))
    place = PLACE + 2 * (error == Error.ADDRESS)
    board.hold({place + image.stream_offset: image.stream, place + image.rows_offset: image.rows})
    board.point(image, place)
    if error == Error.BUS:
        board.bad_beat(board.beats + 30)
    assert driver.send(tokens.get(error, words).tolist()) == 0
    assert driver.start() == 0


FAILURES = sorted(set(Error) - {Error.NONE, Error.ABORTED, Error.TIMEOUT})
"""The errors that an inference can be made to end with; none is known that comes to TIMEOUT."""
