"""A board at a pseudo-terminal that knows the protocol, and a line that can be made bad.

The frames are taken apart here a second time, by a regular expression and `binascii`, so that the
host is not tested against its own idea of them.
"""

from __future__ import annotations

import binascii
import os
import random
import re
import select
import threading
import tty
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rtl.compile.image import ImageError, read_image

LANES, TOKENS, MEMORY = 4, 16, 1 << 20
INFO, WRITE, USE, RUN = 1, 2, 3, 4

Runs = Callable[[list[tuple[int, int, int]]], list[int] | int]


def stuffed(body: bytes) -> bytes:
    body += binascii.crc32(body).to_bytes(4, "little")
    escaped = re.sub(b"[\x7d\x7e]", lambda m: bytes([0x7D, m[0][0] ^ 0x20]), body)
    return b"\x7e" + escaped + b"\x7e"


def unstuffed(body: bytes) -> bytes | None:
    """What was between two flags, without its CRC; None where it is no frame."""
    if body.endswith(b"\x7d"):
        return None
    plain = re.sub(b"\x7d(.)", lambda m: bytes([m[1][0] ^ 0x20]), body, flags=re.DOTALL)
    if len(plain) < 8 or len(plain) > 1036 or binascii.crc32(plain) != 0x2144DF1C:
        return None  # the CRC of anything that ends with its own
    if int.from_bytes(plain[2:4], "little") != len(plain) - 8:
        return None
    return plain[:-4]


@dataclass
class Line:
    """What happens to the bytes of a board, and to the board, by the number of its frame.

    garbage
        How often bytes of noise come before a reply.
    broken
        How often a frame loses, doubles or flips a byte, in both directions.
    silent
        How often a request is not heard at all.
    unplug, reset
        Frames received before the terminal is closed; before the board forgets everything.
    away
        Seconds until the terminal is back.
    """

    seed: int = 0
    garbage: float = 0.0
    broken: float = 0.0
    silent: float = 0.0
    unplug: tuple[int, ...] = ()
    reset: tuple[int, ...] = ()
    away: float = 0.2
    noise: bytes = b""


@dataclass
class Board:
    """At `path`, a link to the terminal; a context.

    runs
        The logits of a sequence's (id, type, attend) words, or the code of an error.
    hidden, tokens, longest
        Its widest hidden state; of its token memory; bytes of the longest request.
    sees_ends
        Whether it knows that a sequence may end before the last token of all.

    Attributes
    ----------
    batches
        The lengths of each inference's sequences.
    """

    path: Path
    runs: Runs = lambda words: [sum(i for i, _, _ in words), -len(words)]
    line: Line = field(default_factory=Line)
    memory_bytes: int = MEMORY
    version: int = 4
    hidden: int = 64
    tokens: int = TOKENS
    longest: int = 1028
    sees_ends: bool = True
    damage: Callable[[bytearray], None] = lambda memory: None

    def __enter__(self) -> Board:
        self._random = random.Random(self.line.seed)
        self._forget()
        self.heard: list[int] = []
        self.batches: list[list[int]] = []
        self._stop = threading.Event()
        self._plug()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._unplug()

    def _forget(self) -> None:
        self.memory = bytearray(os.urandom(64)) + bytearray(self.memory_bytes - 64)
        self.problem, self.model, self.digest = 1, bytes(8), bytes(32)

    def _plug(self) -> None:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self._slave = slave
        temporary = self.path.with_name("new")
        temporary.symlink_to(os.ttyname(slave))
        temporary.replace(self.path)

    def _unplug(self) -> None:
        os.close(self._slave)
        os.close(self._master)
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        buffer = bytearray()
        while not self._stop.is_set():
            if not select.select([self._master], [], [], 0.01)[0]:
                continue
            buffer += os.read(self._master, 4096)
            while (end := buffer.find(0x7E)) >= 0:
                body = bytes(buffer[:end])
                del buffer[: end + 1]
                if body and self._frame(body):
                    buffer.clear()

    def _frame(self, body: bytes) -> bool:
        """Answer a frame; whether the line was cut meanwhile."""
        number = len(self.heard)
        self.heard.append(body[0])
        line, chance = self.line, self._random.random
        if number in line.reset:
            self._forget()
            return False
        if number in line.unplug:
            self._unplug()
            self._stop.wait(line.away)
            self._plug()
            return True
        if chance() < line.silent:
            return False
        if chance() < line.broken:
            body = self._spoiled(body)
        frame = unstuffed(body)
        if frame is None:
            reply = stuffed(bytes([0xFF, 0, 5, 0, 1, 0, 0, 0, 0]))
        else:
            kind, payload = self._answer(frame[0], frame[4:])
            reply = stuffed(bytes([kind, frame[1]]) + len(payload).to_bytes(2, "little") + payload)
        if chance() < line.broken:
            reply = self._spoiled(reply)
        noise = line.noise
        if chance() < line.garbage:
            noise += self._random.randbytes(self._random.randint(1, 200))
        os.write(self._master, noise + reply)
        return False

    def _spoiled(self, data: bytes) -> bytes:
        at = self._random.randrange(len(data))
        piece = self._random.choice(
            [b"", data[at : at + 1] * 2, bytes([data[at] ^ 1 << self._random.randrange(8)])]
        )
        return data[:at] + piece + data[at + 1 :]

    def _answer(self, kind: int, payload: bytes) -> tuple[int, bytes]:
        def error(code: int, detail: int) -> tuple[int, bytes]:
            return 0xFF, bytes([code]) + detail.to_bytes(4, "little")

        if kind == INFO and not payload:
            words = (LANES, LANES, self.tokens, self.hidden, 128, 8)
            widths = (1, 2, 2, 2, 2, 2)
            registers = b"".join(w.to_bytes(n, "little") for w, n in zip(words, widths))
            return 0x81, (
                bytes([self.version, self.problem])
                + self.longest.to_bytes(2, "little")
                + self.memory_bytes.to_bytes(4, "little")
                + (80_000).to_bytes(4, "little")
                + b"\x04"
                + registers
                + self.model
                + self.digest
            )
        if len(payload) > self.longest:
            return error(1, 0)  # longer than any frame
        if kind == WRITE and len(payload) > 4 and len(payload) % 8 == 4:
            at = int.from_bytes(payload[:4], "little")
            if at % 8 or at + len(payload) - 4 > self.memory_bytes:
                return error(4, at)
            self.memory[at : at + len(payload) - 4] = payload[4:]
            self.problem, self.model, self.digest = 1, bytes(8), bytes(32)
            return 0x82, b""
        if kind == USE and not payload:
            self.damage(self.memory)
            return self._use() or error(5, self.problem)
        if kind == RUN and payload and len(payload) % 4 == 0:
            if self.problem:
                return error(5, self.problem)
            got = self._infer(payload)
            if isinstance(got, int):
                return error(6, got)
            cycles = (1_000 * (len(payload) // 4)).to_bytes(4, "little")
            return 0x84, cycles + b"".join(x.to_bytes(4, "little", signed=True) for x in got)
        return error(2, kind) if kind not in (INFO, WRITE, USE, RUN) else error(3, len(payload))

    def _infer(self, payload: bytes) -> list[int] | int:
        """The logits of all sequences, or the detail of an error."""
        sequences: list[list[tuple[int, int, int]]] = [[]]
        for at in range(0, len(payload), 4):
            number, flags = int.from_bytes(payload[at : at + 3], "little"), payload[at + 3]
            sequences[-1].append((number, flags & 1, flags >> 1 & 1))
            if flags & 4 and self.sees_ends and at + 4 < len(payload):
                sequences.append([])
        self.batches.append([len(sequence) for sequence in sequences])
        logits, tiles = [], 0
        for place, sequence in enumerate(sequences):
            tiles += -(-len(sequence) // LANES)
            got = 6 if tiles > -(-self.tokens // LANES) else self.runs(sequence)
            if isinstance(got, int):
                return got | (place << 16 if got in (6, 7, 8, 11) else 0)
            logits += got
        return logits

    def _use(self) -> tuple[int, bytes] | None:
        """The reply where the memory begins with an image; else `problem` says why not."""
        size = int.from_bytes(self.memory[16:24], "little")
        self.model, self.digest = bytes(8), bytes(32)
        try:
            image = read_image(bytes(self.memory[: size if size < self.memory_bytes else 128]))
        except ImageError as error:
            self.problem = 5 if "SHA-256" in str(error) else 2
            return None
        if image.lanes != LANES:
            self.problem = 3
            return None
        self.problem = 0
        self.model, self.digest = image.stream[20:28], bytes(self.memory[96:128])
        return 0x83, b""
