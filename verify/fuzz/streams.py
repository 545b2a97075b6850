"""Malformed command streams: every CRC is right, unless the damage is to be found by it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

from cli.errors import UserError

from rtl.interface.command import (
    DESCRIPTOR_BYTES,
    FIELDS,
    Opcode,
    descriptor_bytes,
    descriptor_words,
)
from rtl.interface.operation import Error
from sim.machine.inference import Packets
from verify.fuzz.job import Run
from verify.fuzz.subject import Subject, subjects

Part = tuple[bytearray, bytearray]
"""A descriptor without CRC and padding (28 bytes), and its payload."""

BODY = DESCRIPTOR_BYTES - 4


def parts(subject: Subject) -> list[Part]:
    """The program cut into descriptors and payloads."""
    found, at, begins = [], 0, descriptor_bytes(subject.width)
    for step in subject.program.steps:
        size = len(step.payload) + -len(step.payload) % subject.width
        body = subject.stream[at : at + BODY]
        payload = subject.stream[at + begins :][:size]
        found.append((bytearray(body), bytearray(payload)))
        at += begins + size
    return found


def joined(pieces: list[Part], width: int) -> bytes:
    """The stream of these parts, each descriptor with its CRC and padding."""
    stream, crc = bytearray(), 0
    padding = bytes(descriptor_bytes(width) - DESCRIPTOR_BYTES)
    for body, payload in pieces:
        crc = zlib.crc32(body, crc)
        seal = crc.to_bytes(4, "little") + padding
        stream += body + seal + payload
        crc = zlib.crc32(payload, zlib.crc32(seal, crc))
    return bytes(stream)


def set_field(body: bytearray, name: str, value: int) -> None:
    """Write a field of a descriptor, cut to its bytes."""
    at = 2
    for field in FIELDS[Opcode(body[0])]:
        if field.name == name:
            value &= (1 << 8 * field.bytes) - 1
            body[at : at + field.bytes] = value.to_bytes(field.bytes, "little")
            return
        at += field.bytes
    raise UserError(f"{Opcode(body[0]).name} has no field {name}")


def field_of(body: bytearray, name: str) -> int:
    """A field of a descriptor."""
    at = 2
    for field in FIELDS[Opcode(body[0])]:
        if field.name == name:
            return int.from_bytes(body[at : at + field.bytes], "little")
        at += field.bytes
    raise UserError(f"{Opcode(body[0]).name} has no field {name}")


def _with(run: Run, stream: bytes, width: int) -> Run:
    return run.but(model=Packets.whole(stream, width), logits=None)


def _played(run: Run, pieces: list[Part], subject: Subject) -> Run:
    return _with(run, joined(pieces, subject.width), subject.width)


def bit_without_crc(rng: Random, subject: Subject, run: Run) -> Run:
    """A flipped bit, CRCs as they were."""
    stream = bytearray(subject.stream)
    bit = rng.randrange(8 * len(stream))
    stream[bit // 8] ^= 1 << bit % 8
    return _with(run, bytes(stream), subject.width)


def bits_of_a_descriptor(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three flipped bits in one descriptor."""
    pieces = parts(subject)
    body, _ = rng.choice(pieces)
    for _ in range(rng.randint(1, 3)):
        bit = rng.randrange(8 * BODY)
        body[bit // 8] ^= 1 << bit % 8
    return _played(run, pieces, subject)


def payload(rng: Random, subject: Subject, run: Run) -> Run:
    """Random payloads under sound descriptors."""
    pieces = parts(subject)
    for _, content in rng.sample(pieces, rng.randint(1, len(pieces))):
        if rng.random() < 0.5:
            content[:] = rng.randbytes(len(content))
        elif content:
            content[:] = bytes([rng.choice((0, 1, 127, 128, 255))]) * len(content)
    return _played(run, pieces, subject)


def field(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three fields: next to a limit, next to what they were, or anything."""
    pieces, config = parts(subject), subject.config
    edges = (
        0, 1, 2, config.lanes, config.tokens, config.hidden, config.ffn, config.labels,
        config.bank_words, 2 * config.bank_words, 4 * config.bank_words, config.x_words,
        config.weight_words, 255, 256, 65535, (1 << 24) - 1,
    )  # fmt: skip
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        body, _ = rng.choice([piece for piece in pieces if FIELDS[Opcode(piece[0][0])]])
        name, size = rng.choice(FIELDS[Opcode(body[0])])
        old = field_of(body, name)
        value = rng.choice(
            (
                old + rng.choice((-2, -1, 1, 2, config.lanes, -config.lanes)),
                rng.choice(edges) + rng.choice((-1, 0, 0, 1)),
                rng.randrange(1 << 8 * size),
                old ^ 1 << rng.randrange(8 * size),
            )
        )
        set_field(body, name, value)
    return _played(run, pieces, subject)


def flags(rng: Random, subject: Subject, run: Run) -> Run:
    """Flags set, cleared or random."""
    pieces = parts(subject)
    for _ in range(rng.choice((1, 1, 2))):
        body, _ = rng.choice(pieces)
        body[1] = rng.randrange(256) if rng.random() < 0.2 else body[1] ^ 1 << rng.randrange(8)
    return _played(run, pieces, subject)


def opcode(rng: Random, subject: Subject, run: Run) -> Run:
    """Another opcode over the same fields."""
    pieces = parts(subject)
    body, _ = rng.choice(pieces)
    body[0] = rng.choice((0, *Opcode, rng.randrange(256)))
    return _played(run, pieces, subject)


def order(rng: Random, subject: Subject, run: Run) -> Run:
    """Descriptors in another order."""
    pieces = parts(subject)
    if rng.random() < 0.6:
        a = rng.randrange(len(pieces))
        b = min(a + 1, len(pieces) - 1) if rng.random() < 0.5 else rng.randrange(len(pieces))
        pieces[a], pieces[b] = pieces[b], pieces[a]
    else:
        inner = pieces[1:-1]
        rng.shuffle(inner)
        pieces[1:-1] = inner
    return _played(run, pieces, subject)


def missing(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three descriptors left out, or all between HEADER and END."""
    pieces = parts(subject)
    if rng.random() < 0.1:
        pieces = [pieces[0], pieces[-1]]
    for _ in range(min(rng.choice((1, 1, 2, 3)), len(pieces) - 2)):
        del pieces[rng.randrange(len(pieces))]
    return _played(run, pieces, subject)


def doubled(rng: Random, subject: Subject, run: Run) -> Run:
    """One to three descriptors twice, at the same place or elsewhere."""
    pieces = parts(subject)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(pieces))
        to = at if rng.random() < 0.5 else rng.randrange(len(pieces) + 1)
        pieces.insert(to, pieces[at])
    return _played(run, pieces, subject)


def of_two_models(rng: Random, subject: Subject, run: Run) -> Run:
    """Descriptors of another model between its own."""
    pieces, other = parts(subject), parts(rng.choice(subjects(subject.config)))
    for _ in range(rng.randint(1, 3)):
        pieces[rng.randrange(len(pieces))] = rng.choice(other)
    return _played(run, pieces, subject)


def row_width(rng: Random, subject: Subject, run: Run) -> Run:
    """EMBED asks for another width than the memory's rows have."""
    pieces, config = parts(subject), subject.config
    (embed,) = [body for body, _ in pieces if body[0] == Opcode.EMBED]
    if rng.random() < 0.5:
        set_field(embed, "channels", rng.randint(1, config.hidden))
        return _played(run, pieces, subject).but(others=frozenset({Error.ROW}))
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
    pieces = parts(subject)
    body = pieces[0][0]
    name, size = rng.choice(FIELDS[Opcode.HEADER])
    limit = getattr(subject.config, name, 1)
    value = rng.choice(
        (0, limit, limit + 1, field_of(body, name) + 1, rng.randrange(1 << 8 * size))
    )
    set_field(body, name, value)
    return _played(run, pieces, subject)


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
