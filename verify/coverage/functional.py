"""Functional coverage: opcode x flag x lane remainder x stall cause x error code.

An inference covers a bin when its stream holds a good descriptor of that opcode and flag that was
taken, a sequence of its batch has L tokens with L mod N left over, the array waited for that cause,
and it ended with that code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rtl.compile.account import FLAGS
from rtl.interface.command import Flag, Opcode, descriptor_bytes
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.machine.result import Result
from tb.trace import CAUSES
from verify.fuzz.account import sequences, stream_codes
from verify.fuzz.job import Run


@dataclass(frozen=True, order=True)
class Bin:
    """One of them; `what` is an opcode, alone or with a flag."""

    what: str
    remainder: int
    cause: str
    code: Error

    def __str__(self) -> str:
        return f"{self.what}, L mod N = {self.remainder}, {self.cause}, {self.code.name}"


@dataclass(frozen=True, kw_only=True)
class Excluded:
    """Bins that no inference can show, and why: all with one of these names, causes and codes.

    Where there are no names or no causes, any.
    """

    reason: str
    codes: tuple[Error, ...]
    causes: tuple[str, ...] = ()
    what: tuple[str, ...] = ()

    def covers(self, one: Bin) -> bool:
        """Whether the bin is one of them."""
        return (
            one.code in self.codes
            and (not self.causes or one.cause in self.causes)
            and (not self.what or one.what in self.what)
        )

    def __str__(self) -> str:
        names = ", ".join(code.name for code in self.codes)
        return " x ".join(", ".join(part) for part in (self.what, self.causes, (names,)) if part)


EXCLUDED = (
    Excluded(
        codes=(Error.TIMEOUT,),
        reason="no stream is known that comes to it",
    ),
    Excluded(
        codes=(Error.BUS, Error.ADDRESS),
        reason="codes of a top that fetches its streams itself",
    ),
    Excluded(
        codes=(Error.LENGTH, Error.NO_KEY),
        causes=tuple(cause for cause in CAUSES if cause != "idle"),
        reason="the sequencer has no tile before the sequence was found good",
    ),
    Excluded(
        codes=(Error.TOKEN,),
        causes=("norm", "softmax", "drain"),
        reason="an id is looked at before its rows are asked for, and EMBED waits for rows alone",
    ),
    Excluded(
        codes=(Error.ROW,),
        causes=("softmax", "drain"),
        reason="it comes with a row of EMBED or just behind the last, when a NORM is next",
    ),
    Excluded(
        codes=(Error.FORMAT, Error.CRC, Error.TRUNCATED, Error.OVERRUN),
        what=(Opcode.END.name,),
        reason="a good END is the last word of a good stream",
    ),
)


def why_not(one: Bin) -> str:
    """Why no inference shows the bin; empty when one may."""
    return next((excluded.reason for excluded in EXCLUDED if excluded.covers(one)), "")


def kinds_of(opcode: int, flags: int) -> Iterator[str]:
    """The opcode, alone where no flag is set, else once for each."""
    name = Opcode(opcode).name
    named = [flag.name for flag in Flag if flags & flag]
    yield from (f"{name} {flag}" for flag in named) if named else (name,)


def everything(lanes: int) -> list[Bin]:
    """All bins but those that are excluded."""
    what = []
    for opcode in Opcode:
        allowed = FLAGS.get(opcode, Flag(0))
        what += [opcode.name, *(f"{opcode.name} {flag.name}" for flag in Flag if flag & allowed)]
    every = (
        Bin(name, remainder, cause, code)
        for name in what
        for remainder in range(lanes)
        for cause in CAUSES
        for code in Error
    )
    return [one for one in every if not why_not(one)]


def covered(run: Run, seen: Result, config: Config) -> Iterator[Bin]:
    """The bins of a run of the fuzzer that took its own streams and ended.

    seen
        What it showed.
    """
    rests = seen.model_rest or seen.tokens_rest
    if seen.end not in ("done", "rescued") or seen.status < 0 or rests:
        return
    code = seen.error
    packet = run.tokens.first()
    data = run.tokens.data[: 4 * seen.tokens_taken] if packet is None else packet.data
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    remainders = {len(one) % config.lanes for one in sequences(words)} or {0}
    causes = [cause for cause, cycles in seen.stalls.items() if cycles]
    taken = seen.model_taken * config.stream_width
    for one in stream_codes(run.model, config)[1]:
        if one.offset + descriptor_bytes(config.stream_width) <= taken:
            for what in kinds_of(one.opcode, one.flags):
                yield from (Bin(what, left, cause, code) for left in remainders for cause in causes)


def missing(bins: Iterable[Bin], found: Iterable[Bin]) -> list[str]:
    """The bins that were not found, those that differ in the remainder alone together."""
    left = sorted(set(bins) - set(found), key=lambda b: (b.code, b.what, b.cause, b.remainder))
    together: dict[tuple[Error, str, str], list[str]] = {}
    for one in left:
        together.setdefault((one.code, one.what, one.cause), []).append(str(one.remainder))
    return [
        f"{code.name}: {what}, {cause}, L mod N = {', '.join(remainders)}"
        for (code, what, cause), remainders in together.items()
    ]
