"""Cases in which a tensor ends with its bank, a word behind it, far behind, or in another bank."""

from __future__ import annotations

import functools
from bisect import bisect_left
from itertools import pairwise

from rtl.interface.command import BANK_SHIFT, Flag, Opcode
from rtl.interface.operation import Error
from sim.fuzz.account import account
from sim.fuzz.job import Case, Packets, Run
from sim.fuzz.streams import field_of, joined, parts, set_field
from sim.fuzz.subject import POOL, Subject, subjects

ADDRESSES = {
    Opcode.LINEAR: ("source", "destination"),
    Opcode.ATTEND: ("query", "key", "value", "context"),
}


def _moved(subject: Subject, run: Run, place: int, name: str, address: int) -> Run:
    """`run` with another address in descriptor `place`."""
    pieces = parts(subject)
    set_field(pieces[place][0], name, address)
    stream = joined(pieces, subject.lanes)
    return run.but(model=Packets.whole(stream, subject.lanes), logits=None)


def _elsewhere(subject: Subject, run: Run, bank: int) -> Run:
    """`run` with its feed-forward buffers in the bank of the keys or of the values: same logits."""
    pieces = parts(subject)
    linear = [body for body, _ in pieces if body[0] == Opcode.LINEAR]
    for first, second in pairwise(linear):
        if second[1] & Flag.BANK and field_of(second, "source") == 0:
            set_field(first, "destination", bank << BANK_SHIFT)
            set_field(second, "source", bank << BANK_SHIFT)
    return run.but(model=Packets.whole(joined(pieces, subject.lanes), subject.lanes))


def _refused(run: Run, subject: Subject) -> bool:
    codes = account(run.model, run.tokens, run.row_words, subject.config).codes
    return Error.NONE not in codes


def _bits_outside(subject: Subject) -> range:
    """Bits of an offset that no word of a bank has."""
    return range((subject.config.bank_words - 1).bit_length(), BANK_SHIFT)


@functools.cache
def edges(lanes: int) -> tuple[tuple[Case, tuple[Subject, ...]], ...]:
    """Every address of every model: the last that fits its longest batch, and the one after it.

    Of each kind of address the offsets that a single bit puts outside, too, and each model with
    feed-forward buffers in either bank that is free by then.
    """
    found: list[tuple[Case, tuple[Subject, ...]]] = []
    far = set()
    for subject in subjects(lanes):
        run = max(map(subject.sound, range(POOL)), key=lambda run: len(run.tokens.last))
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
