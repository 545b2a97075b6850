"""Requests and replies over a serial line that may lose bytes, bring others, and go away."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cli.command import ToolError

import serial
from serial.tools import list_ports

from boards.protocol import (
    LONGEST_REPLY,
    REPLY,
    Damaged,
    Decoder,
    Frame,
    Kind,
    Refusal,
    encode,
)

PAUSE = 0.1  # seconds between two looks for a port that has gone
LOOK = 0.02  # seconds that a look for bytes may take
QUIET = 0.1  # seconds after damage, so that what disturbs the line may pass


class LinkError(ToolError):
    """The board does not answer; the message says what was tried and what to do."""


class RefusedError(Exception):
    """The board refused a request."""

    def __init__(self, code: int, detail: int) -> None:
        super().__init__(f"the board refused a request: code {code}, detail {detail}")
        self.code, self.detail = code, detail


def ports() -> list[str]:
    """The serial ports of this computer."""
    return sorted(port.device for port in list_ports.comports())


def only_port() -> str:
    """The serial port on USB where there is one alone.

    Raises
    ------
    ValueError
        There is none, or more than one.
    """
    found = sorted(port.device for port in list_ports.comports() if port.vid is not None)
    if len(found) != 1:
        there = "there is no serial port on USB: connect the board, or name a port with --port"
        if found:
            there = f"there are several serial ports on USB, {', '.join(found)}: name one with "
            there += "--port"
        raise ValueError(there)
    return found[0]


class Link:
    """A board at a serial port.

    A request is sent again, with those after it, when no reply comes in time or one of the two was
    damaged. Replies that nobody waits for are dropped. When the port goes away it is looked for
    under its name and the requests are sent again.

    Parameters
    ----------
    port
        /dev/ttyUSB0, COM3, or a URL of pyserial.
    seconds
        How long a reply may take.
    tries
        How often a request is sent before that ends it.
    patience
        Seconds for which a port that went away is looked for.
    say
        Told in a line that the port has gone or come back.

    Raises
    ------
    LinkError
        The port cannot be opened.
    """

    def __init__(
        self,
        port: str,
        baud: int,
        *,
        seconds: float = 5.0,
        tries: int = 5,
        patience: float = 10.0,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.port, self.baud = port, baud
        self.seconds, self.tries, self.patience = seconds, tries, patience
        self._say = say
        self._number = 0
        self._decoder = Decoder(LONGEST_REPLY)
        self.reconnections = 0
        self.resends = 0
        self._line: Any = self._opened()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def _opened(self) -> Any:
        try:
            return serial.serial_for_url(
                self.port, self.baud, timeout=LOOK, write_timeout=self.seconds, exclusive=True
            )
        except (serial.SerialException, OSError, ValueError) as error:
            raise LinkError(self._why(error)) from None

    def _why(self, error: Exception) -> str:
        number = getattr(error, "errno", None)
        if number == errno.ENOENT:
            there = ", ".join(ports()) or "none"
            return f"there is no port {self.port}: the serial ports here are: {there}"
        if number in (errno.EACCES, errno.EPERM):
            return f"{self.port} may not be opened: join the group that owns it (often dialout)"
        if number in (errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK):
            return f"{self.port} is used by another program: end that first"
        return f"{self.port} cannot be used as a serial port: {error}"

    def ask(self, kind: int, payload: bytes = b"", seconds: float | None = None) -> bytes:
        """The payload of the reply to one request.

        Raises
        ------
        RefusedError
            The board answered with an error.
        LinkError
            It did not answer.
        """
        (answer,) = self.ask_all([(kind, payload)], 1, seconds)
        return answer

    def ask_all(
        self,
        requests: Iterable[tuple[int, bytes]],
        window: int,
        seconds: float | None = None,
    ) -> Iterator[bytes]:
        """The replies in the order of the requests; up to `window` are under way at a time.

        Raises
        ------
        RefusedError, LinkError
            As for `ask`; requests after a refused one may have been carried out.
        """
        coming = iter(requests)
        waiting: list[tuple[int, bytes]] = []  # number and frame, in their order
        answers: dict[int, bytes] = {}
        failed = 0
        exhausted = False
        limit = self.seconds if seconds is None else seconds
        deadline = time.monotonic() + limit
        while True:
            fresh = []
            while len(waiting) < window and not exhausted:
                if (request := next(coming, None)) is None:
                    exhausted = True
                    break
                self._number = self._number % 255 + 1
                fresh.append((self._number, encode(request[0], self._number, request[1])))
                waiting.append(fresh[-1])
            if not waiting:
                return
            if fresh:
                self._send(fresh, waiting)
                deadline = time.monotonic() + limit
            numbers = {number for number, _ in waiting}
            damaged = False
            for frame in self._received(waiting):
                if isinstance(frame, Damaged):
                    damaged = True
                elif frame.kind == Kind.ERROR | REPLY and len(frame.payload) == 5:
                    code, detail = frame.payload[0], int.from_bytes(frame.payload[1:], "little")
                    if code == Refusal.DAMAGED:
                        damaged = True
                    elif frame.number in numbers:
                        raise RefusedError(code, detail)
                elif frame.kind & REPLY and frame.number in numbers:
                    answers[frame.number] = frame.payload
            while waiting and waiting[0][0] in answers:
                yield answers.pop(waiting.pop(0)[0])
                failed, damaged = 0, False
                deadline = time.monotonic() + limit
            if damaged:
                deadline = min(deadline, time.monotonic() + QUIET)
            if waiting and time.monotonic() > deadline:
                failed += 1
                if failed >= self.tries:
                    raise LinkError(
                        f"no answer from {self.port} in {self.tries} tries of {limit:g} s: is the "
                        f"board on, its bitstream loaded, and the line at {self.baud} baud?"
                    )
                self.resends += 1
                open_ones = [frame for frame in waiting if frame[0] not in answers]
                self._send(open_ones, open_ones)
                deadline = time.monotonic() + limit

    def _send(self, frames: list[tuple[int, bytes]], waiting: list[tuple[int, bytes]]) -> None:
        try:
            self._line.write(b"".join(frame for _, frame in frames))
        except serial.SerialTimeoutException:
            pass  # a port that takes no bytes brings no reply either, and that is what counts
        except (serial.SerialException, OSError):
            self._reconnect(waiting)

    def _received(self, waiting: list[tuple[int, bytes]]) -> list[Frame | Damaged]:
        try:
            data = self._line.read(1)
            data += self._line.read(self._line.in_waiting)
        except (serial.SerialException, OSError):
            self._reconnect(waiting)
            return []
        return self._decoder.feed(data)

    def _reconnect(self, waiting: list[tuple[int, bytes]]) -> None:
        """Wait for the port and send again what waits for a reply."""
        self._say(f"{self.port} has gone: waiting {self.patience:g} s for it")
        self._line.close()
        until = time.monotonic() + self.patience
        while True:
            try:
                self._line = self._opened()
                self._line.write(b"".join(frame for _, frame in waiting))
                break
            except (LinkError, serial.SerialException, OSError):
                if time.monotonic() > until:
                    raise LinkError(
                        f"{self.port} has gone and did not come back in {self.patience:g} s: "
                        "connect the board and run this again"
                    ) from None
                time.sleep(PAUSE)
        self._decoder = Decoder(LONGEST_REPLY)
        self.reconnections += 1
        self._say(f"{self.port} is back")
