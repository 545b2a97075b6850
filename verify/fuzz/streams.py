"""Malformed command streams: every CRC is right, unless the damage is to be found by it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rtl.compile.edit import Edit
from rtl.interface.command import (
    FIELDS,
    Opcode,
    descriptor_words,
)
from rtl.interface.operation import Error
from sim.machine.inference import Packets
from verify.fuzz.job import Run
from verify.fuzz.subject import Subject, subjects


def _with(run: Run, stream: bytes, width: int) -> Run:
    return run.but(model=Packets.whole(stream, width), logits=None)


def _played(run: Run, pieces: Edit) -> Run:
    return _with(run, bytes(pieces), pieces.width)


def bit_without_crc(rng: Random, subject: Subject, run: Run) -> Run:
    """A flipped bit, CRCs as they were."""
    stream = bytearray(subject.stream)
    bit = rng.randrange(8 * len(stream))
    stream[bit // 8] ^= 1 << bit % 8
    return _with(run, bytes(stream), subject.width)


def bits_of_a_descriptor(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three flipped bits in one descriptor."""
    pieces = Edit(subject.program)
    body = rng.choice(pieces).body
    for _ in range(rng.randint(1, 3)):
        bit = rng.randrange(8 * len(body))
        body[bit // 8] ^= 1 << bit % 8
    return _played(run, pieces)


def payload(rng: Random, subject: Subject, run: Run) -> Run:
    """Random payloads under sound descriptors."""
    pieces = Edit(subject.program)
    for piece in rng.sample(pieces, rng.randint(1, len(pieces))):
        content = piece.payload
        if rng.random() < 0.5:
            content[:] = rng.randbytes(len(content))
        elif content:
            content[:] = bytes([rng.choice((0, 1, 127, 128, 255))]) * len(content)
    return _played(run, pieces)


def field(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three fields: next to a limit, next to what they were, or anything."""
    pieces, config = Edit(subject.program), subject.config
    edges = (
        0, 1, 2, config.lanes, config.tokens, config.hidden, config.ffn, config.labels,
        config.bank_words, 2 * config.bank_words, 4 * config.bank_words, config.x_words,
        config.weight_words, 255, 256, 65535, (1 << 24) - 1,
    )  # fmt: skip
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        piece = rng.choice([piece for piece in pieces if FIELDS[Opcode(piece.body[0])]])
        name, size = rng.choice(FIELDS[Opcode(piece.body[0])])
        old = piece[name]
        value = rng.choice(
            (
                old + rng.choice((-2, -1, 1, 2, config.lanes, -config.lanes)),
                rng.choice(edges) + rng.choice((-1, 0, 0, 1)),
                rng.randrange(1 << 8 * size),
                old ^ 1 << rng.randrange(8 * size),
            )
        )
        piece[name] = value
    return _played(run, pieces)


def flags(rng: Random, subject: Subject, run: Run) -> Run:
    """Flags set, cleared or random."""
    pieces = Edit(subject.program)
    for _ in range(rng.choice((1, 1, 2))):
        body = rng.choice(pieces).body
        body[1] = rng.randrange(256) if rng.random() < 0.2 else body[1] ^ 1 << rng.randrange(8)
    return _played(run, pieces)


def opcode(rng: Random, subject: Subject, run: Run) -> Run:
    """Another opcode over the same fields."""
    pieces = Edit(subject.program)
    piece = rng.choice(pieces)
    piece.body[0] = rng.choice((0, *Opcode, rng.randrange(256)))
    return _played(run, pieces)


def order(rng: Random, subject: Subject, run: Run) -> Run:
    """Descriptors in another order."""
    pieces = Edit(subject.program)
    if rng.random() < 0.6:
        a = rng.randrange(len(pieces))
        b = min(a + 1, len(pieces) - 1) if rng.random() < 0.5 else rng.randrange(len(pieces))
        pieces[a], pieces[b] = pieces[b], pieces[a]
    else:
        inner = pieces[1:-1]
        rng.shuffle(inner)
        pieces[1:-1] = inner
    return _played(run, pieces)


def missing(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three descriptors left out, or all between HEADER and END."""
    pieces = Edit(subject.program)
    if rng.random() < 0.1:
        del pieces[1:-1]
    for _ in range(min(rng.choice((1, 1, 2, 3)), len(pieces) - 2)):
        del pieces[rng.randrange(len(pieces))]
    return _played(run, pieces)


def doubled(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three descriptors twice, at the same place or elsewhere."""
    pieces = Edit(subject.program)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(pieces))
        to = at if rng.random() < 0.5 else rng.randrange(len(pieces) + 1)
        pieces.insert(to, pieces[at])
    return _played(run, pieces)


def of_two_models(rng: Random, subject: Subject, run: Run) -> Run:
    """Descriptors of another model between its own."""
    pieces, other = Edit(subject.program), Edit(rng.choice(subjects(subject.config)).program)
    for _ in range(rng.randint(1, 3)):
        pieces[rng.randrange(len(pieces))] = rng.choice(other)
    return _played(run, pieces)


def row_width(rng: Random, subject: Subject, run: Run) -> Run:
    """EMBED asks for another width than the memory's rows have."""
    pieces, config = Edit(subject.program), subject.config
    (embed,) = [piece for piece in pieces if piece.body[0] == Opcode.EMBED]
    if rng.random() < 0.5:
        embed["channels"] = rng.randint(1, config.hidden)
        return _played(run, pieces).but(others=frozenset({Error.ROW}))
    words = rng.randint(1, max(2 * config.hidden // config.lanes, 2))
    return run.but(row_words=words, logits=None, others=frozenset({Error.ROW}))


def cut(rng: Random, subject: Subject, run: Run) -> Run:
    """`last` too early, and nothing after it."""
    words = len(subject.stream) // subject.width
    stream = subject.stream[: rng.randint(1, words - 1) * subject.width]
    return _with(run, stream, subject.width)


def overrun(rng: Random, subject: Subject, run: Run) -> Run:
    """Words after END."""
    more = rng.randbytes(rng.choice((1, 2, 40)) * subject.width)
    return _with(run, subject.stream + more, subject.width)


def noise(rng: Random, subject: Subject, run: Run) -> Run:
    """Random words, alone or behind a sound beginning."""
    words = len(subject.stream) // subject.width
    kept = rng.choice((0, 0, descriptor_words(subject.width), rng.randrange(words)))
    more = rng.randbytes(rng.randint(1, 60) * subject.width)
    return _with(run, subject.stream[: kept * subject.width] + more, subject.width)


def header_fields(rng: Random, subject: Subject, run: Run) -> Run:
    """A field of the HEADER."""
    pieces = Edit(subject.program)
    header = pieces[0]
    name, size = rng.choice(FIELDS[Opcode.HEADER])
    limit = getattr(subject.config, name, 1)
    value = rng.choice((0, limit, limit + 1, header[name] + 1, rng.randrange(1 << 8 * size)))
    header[name] = value
    return _played(run, pieces)


Variation = Callable[[Random, Subject, Run], Run]

STREAMS: dict[str, Variation] = {
    "bit, CRC as it was": bit_without_crc,
    "bits of a descriptor": bits_of_a_descriptor,
    "payload": payload,
    "field": field,
    "header field": header_fields,
    "flags": flags,
    "opcode": opcode,
    "order": order,
    "missing descriptor": missing,
    "doubled descriptor": doubled,
    "two models mixed": of_two_models,
    "row width": row_width,
    "cut short": cut,
    "overrun": overrun,
    "noise": noise,
}
