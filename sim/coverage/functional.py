"""Functional coverage: opcode x flag x lane remainder x stall cause x error code.

An inference covers a bin when its stream holds a good descriptor of that opcode and flag that was
taken, its sequence of L tokens has L mod N left over, the array waited for that cause in it, and it
ended with that code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rtl.interface.command import Flag, Opcode, descriptor_bytes
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.fuzz.account import FLAGS, stream_codes
from sim.fuzz.job import Run
from tb.trace import CAUSES

#: What no inference can show: a cause and a code that exclude each other, and why.
BEFORE_A_TILE = "the code comes before the array has had a tile"
BEFORE_ATTENTION = "the code comes while rows are embedded, before the first scores"
OF_DMA = "the code of a top that fetches its streams itself"
EXCLUDED: dict[tuple[str, Error], str] = {
    **{(cause, Error.TIMEOUT): "no stream is known that comes to it" for cause in CAUSES},
    **{(cause, code): OF_DMA for cause in CAUSES for code in (Error.BUS, Error.ADDRESS)},
    **{
        (cause, code): BEFORE_A_TILE
        for cause in ("norm", "softmax", "drain")
        for code in (Error.LENGTH, Error.NO_KEY)
    },
    **{("softmax", code): BEFORE_ATTENTION for code in (Error.TOKEN, Error.ROW)},
}


@dataclass(frozen=True, order=True)
class Bin:
    """One of them; `what` is an opcode, alone or with a flag."""

    what: str
    remainder: int
    cause: str
    code: Error

    def __str__(self) -> str:
        return f"{self.what}, L mod N = {self.remainder}, {self.cause}, {self.code.name}"


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
    return [
        Bin(name, remainder, cause, code)
        for name in what
        for remainder in range(lanes)
        for cause in CAUSES
        for code in Error
        if (cause, code) not in EXCLUDED
    ]


def covered(run: Run, seen: dict[str, Any], config: Config) -> Iterator[Bin]:
    """The bins of a run of the fuzzer that took its own streams and ended.

    seen
        What sim/fuzz/main.cpp printed of it.
    """
    rests = seen.get("model_rest") or seen.get("tokens_rest")
    if seen["end"] not in ("done", "rescued") or seen["status"] < 0 or rests:
        return
    code = Error(seen["status"] >> 8 & 15)
    packet = run.tokens.first()
    tokens = seen["tokens_taken"] if packet is None else len(packet.last)
    causes = [cause for cause, cycles in zip(CAUSES, seen["stalls"], strict=True) if cycles]
    taken = seen["model_taken"] * config.lanes
    for one in stream_codes(run.model, config)[1]:
        if one.offset + descriptor_bytes(config.lanes) <= taken:
            for what in kinds_of(one.opcode, one.flags):
                for cause in causes:
                    yield Bin(what, tokens % config.lanes, cause, code)


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
