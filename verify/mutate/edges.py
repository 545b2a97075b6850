"""Cases at the edges: of banks, every bit of every field, sources that are late."""

from __future__ import annotations

import functools
from bisect import bisect_left
from itertools import pairwise

from rtl.interface.command import BANK_SHIFT, FIELDS, Flag, Opcode
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.machine.job import Packets
from verify.fuzz.account import account
from verify.fuzz.job import Case, Run
from verify.fuzz.streams import field_of, joined, parts, set_field
from verify.fuzz.subject import POOL, Subject, subjects

ADDRESSES = {
    Opcode.LINEAR: ("source", "destination"),
    Opcode.ATTEND: ("query", "key", "value", "context"),
}


LATE = 2_000
"""Cycles that no watchdog of these models waits for without a reason, and fewer than a hang's."""


def _with(subject: Subject, run: Run, place: int, values: dict[str, int]) -> Run:
    """`run` with other values in descriptor `place`; the logits are any."""
    pieces = parts(subject)
    for name, value in values.items():
        set_field(pieces[place][0], name, value)
    stream = joined(pieces, subject.width)
    return run.but(model=Packets.whole(stream, subject.width), logits=None)


def _moved(subject: Subject, run: Run, place: int, name: str, address: int) -> Run:
    """`run` with another address in descriptor `place`."""
    return _with(subject, run, place, {name: address})


def _elsewhere(subject: Subject, run: Run, bank: int) -> Run:
    """`run` with its feed-forward buffers in the bank of the keys or of the values: same logits."""
    pieces = parts(subject)
    linear = [body for body, _ in pieces if body[0] == Opcode.LINEAR]
    for first, second in pairwise(linear):
        if second[1] & Flag.BANK and field_of(second, "source") == 0:
            set_field(first, "destination", bank << BANK_SHIFT)
            set_field(second, "source", bank << BANK_SHIFT)
    return run.but(model=Packets.whole(joined(pieces, subject.width), subject.width))


def _longest(subject: Subject) -> Run:
    """Its sound inference of the most tokens."""
    return max(map(subject.sound, range(POOL)), key=lambda run: len(run.tokens.last))


def _refused(run: Run, subject: Subject) -> bool:
    codes = account(run.model, run.tokens, run.row_words, subject.config).codes
    return Error.NONE not in codes


def _bits_outside(subject: Subject) -> range:
    """Bits of an offset that no word of a bank has."""
    return range((subject.config.bank_words - 1).bit_length(), BANK_SHIFT)


@functools.cache
def edges(limits: Config) -> tuple[tuple[Case, tuple[Subject, ...]], ...]:
    """Every address of every model: the last that fits its longest batch, and the one after it.

    Of each kind of address the offsets that a single bit puts outside, too, and each model with
    feed-forward buffers in either bank that is free by then.
    """
    found: list[tuple[Case, tuple[Subject, ...]]] = []
    far = set()
    for subject in subjects(limits):
        run = _longest(subject)
        for bank in (1, 2):
            case = Case(len(found), f"buffer in bank {bank}", (_elsewhere(subject, run, bank),))
            found.append((case, (subject,)))
        for place, (body, _) in enumerate(parts(subject)):
            for name in ADDRESSES.get(Opcode(body[0]), ()):
                begin = field_of(body, name)
                offsets = range(begin, (begin >> BANK_SHIFT << BANK_SHIFT) + (1 << BANK_SHIFT))
                runs = functools.partial(_moved, subject, run, place, name)
                first = bisect_left(offsets, True, key=lambda a: _refused(runs(a), subject))
                addresses = [*offsets[max(first - 1, 0) : first + 1]]
                outside = [begin | 1 << bit for bit in _bits_outside(subject)]
                if name not in far and _refused(runs(outside[-1]), subject):
                    far.add(name)
                    addresses += outside
                for address in addresses:
                    case = Case(len(found), name, (runs(address),))
                    found.append((case, (subject,)))
    return tuple(found)


@functools.cache
def fields(limits: Config) -> tuple[tuple[Case, tuple[Subject, ...]], ...]:
    """Every bit of every field the other way, in the first descriptor of each opcode, and 0.

    Of the rows of positions 2^k - 1 from row 2^k on, too, and each source late.
    """
    subject = subjects(limits)[0]
    run = _longest(subject)
    late = ("model_delay", "tokens_delay", "row_latency")
    changed = [(name, run.but(**{name: LATE})) for name in late]
    seen = set()
    for place, (body, _) in enumerate(parts(subject)):
        opcode = Opcode(body[0])
        if opcode in seen:
            continue
        seen.add(opcode)
        for field in FIELDS[opcode]:
            value, bits = field_of(body, field.name), range(8 * field.bytes)
            others = {0, *(value ^ 1 << bit for bit in bits)} - {value}
            runs = functools.partial(_moved, subject, run, place, field.name)
            changed += [(field.name, runs(other)) for other in sorted(others)]
        if opcode == Opcode.EMBED:
            few = [{"offset": 1 << bit, "position_rows": (1 << bit) - 1} for bit in range(1, 16)]
            changed += [("too few rows", _with(subject, run, place, values)) for values in few]
    return tuple((Case(k, name, (one,)), (subject,)) for k, (name, one) in enumerate(changed))
