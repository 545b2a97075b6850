"""Malformed command streams: every CRC is right, unless the damage is to be found by it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rtl.compile.edit import Edit
from rtl.interface.command import descriptor_words
from rtl.interface.isa import FIELDS, Opcode
from rtl.interface.operation import Error
from sim.machine.inference import Packets
from verify.fuzz.subject import Run, Subject, subjects

Variation = Callable[[Random, Subject, Run], Run]

STREAMS: dict[str, Variation] = {}
"""By the name of the kind, in the order of the cases."""


def kind(name: str) -> Callable[[Variation], Variation]:
    """A function that makes such a run of a sound one."""
    return lambda vary: STREAMS.setdefault(name, vary)


def edits(name: str) -> Callable[[Callable[[Random, Subject, Edit], None]], Variation]:
    """A function that changes the pieces of a sound stream."""

    def variation(change: Callable[[Random, Subject, Edit], None]) -> Variation:
        def vary(rng: Random, subject: Subject, run: Run) -> Run:
            pieces = Edit(subject.program)
            change(rng, subject, pieces)
            return _with(run, bytes(pieces), subject.width)

        return STREAMS.setdefault(name, vary)

    return variation


def _with(run: Run, stream: bytes, width: int) -> Run:
    return run.but(model=Packets.whole(stream, width), logits=None)


@kind("bit, CRC as it was")
def bit_without_crc(rng: Random, subject: Subject, run: Run) -> Run:
    """A flipped bit, CRCs as they were."""
    stream = bytearray(subject.stream)
    bit = rng.randrange(8 * len(stream))
    stream[bit // 8] ^= 1 << bit % 8
    return _with(run, bytes(stream), subject.width)


@edits("bits of a descriptor")
def bits_of_a_descriptor(rng: Random, subject: Subject, pieces: Edit) -> None:
    """One to three flipped bits in one descriptor."""
    body = rng.choice(pieces).body
    for _ in range(rng.randint(1, 3)):
        bit = rng.randrange(8 * len(body))
        body[bit // 8] ^= 1 << bit % 8


@edits("payload")
def payload(rng: Random, subject: Subject, pieces: Edit) -> None:
    """Random payloads under sound descriptors."""
    for piece in rng.sample(pieces, rng.randint(1, len(pieces))):
        content = piece.payload
        if rng.random() < 0.5:
            content[:] = rng.randbytes(len(content))
        elif content:
            content[:] = bytes([rng.choice((0, 1, 127, 128, 255))]) * len(content)


@edits("field")
def field(rng: Random, subject: Subject, pieces: Edit) -> None:
    """One to three fields: next to a limit, next to what they were, or anything."""
    config = subject.config
    edges = (
        0, 1, 2, config.lanes, config.tokens, config.hidden, config.ffn, config.labels,
        config.bank_words, 2 * config.bank_words, 4 * config.bank_words, config.x_words,
        config.weight_words, 255, 256, 65535, (1 << 24) - 1,
    )  # fmt: skip
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        piece = rng.choice([piece for piece in pieces if FIELDS[Opcode(piece.body[0])]])
        name, size, *_ = rng.choice(FIELDS[Opcode(piece.body[0])])
        old = piece[name]
        near = old + rng.choice((-2, -1, 1, 2, config.lanes, -config.lanes))
        edge = rng.choice(edges) + rng.choice((-1, 0, 0, 1))
        any_value, one_bit = rng.randrange(1 << 8 * size), old ^ 1 << rng.randrange(8 * size)
        piece[name] = rng.choice((near, edge, any_value, one_bit))


@edits("header field")
def header_fields(rng: Random, subject: Subject, pieces: Edit) -> None:
    """A field of the HEADER."""
    header = pieces[0]
    name, size, *_ = rng.choice(FIELDS[Opcode.HEADER])
    limit = getattr(subject.config, name, 1)
    header[name] = rng.choice((0, limit, limit + 1, header[name] + 1, rng.randrange(1 << 8 * size)))


@edits("flags")
def flags(rng: Random, subject: Subject, pieces: Edit) -> None:
    """Flags set, cleared or random."""
    for _ in range(rng.choice((1, 1, 2))):
        body = rng.choice(pieces).body
        body[1] = rng.randrange(256) if rng.random() < 0.2 else body[1] ^ 1 << rng.randrange(8)


@edits("opcode")
def opcode(rng: Random, subject: Subject, pieces: Edit) -> None:
    """Another opcode over the same fields."""
    piece = rng.choice(pieces)
    piece.body[0] = rng.choice((0, *Opcode, rng.randrange(256)))


@edits("order")
def order(rng: Random, subject: Subject, pieces: Edit) -> None:
    """Descriptors in another order."""
    if rng.random() < 0.6:
        a = rng.randrange(len(pieces))
        b = min(a + 1, len(pieces) - 1) if rng.random() < 0.5 else rng.randrange(len(pieces))
        pieces[a], pieces[b] = pieces[b], pieces[a]
    else:
        inner = pieces[1:-1]
        rng.shuffle(inner)
        pieces[1:-1] = inner


@edits("missing descriptor")
def missing(rng: Random, subject: Subject, pieces: Edit) -> None:
    """One to three descriptors left out, or all between HEADER and END."""
    if rng.random() < 0.1:
        del pieces[1:-1]
    for _ in range(min(rng.choice((1, 1, 2, 3)), len(pieces) - 2)):
        del pieces[rng.randrange(len(pieces))]


@edits("doubled descriptor")
def doubled(rng: Random, subject: Subject, pieces: Edit) -> None:
    """One to three descriptors twice, at the same place or elsewhere."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(pieces))
        to = at if rng.random() < 0.5 else rng.randrange(len(pieces) + 1)
        pieces.insert(to, pieces[at])


@edits("two models mixed")
def of_two_models(rng: Random, subject: Subject, pieces: Edit) -> None:
    """Descriptors of another model between its own."""
    other = Edit(rng.choice(subjects(subject.config)).program)
    for _ in range(rng.randint(1, 3)):
        pieces[rng.randrange(len(pieces))] = rng.choice(other)


@kind("row width")
def row_width(rng: Random, subject: Subject, run: Run) -> Run:
    """EMBED asks for another width than the memory's rows have."""
    pieces, config = Edit(subject.program), subject.config
    (embed,) = [piece for piece in pieces if piece.body[0] == Opcode.EMBED]
    if rng.random() < 0.5:
        embed["channels"] = rng.randint(1, config.hidden)
        return _with(run, bytes(pieces), subject.width).but(others=frozenset({Error.ROW}))
    words = rng.randint(1, max(2 * config.hidden // config.lanes, 2))
    return run.but(row_words=words, logits=None, others=frozenset({Error.ROW}))


@kind("cut short")
def cut(rng: Random, subject: Subject, run: Run) -> Run:
    """`last` too early, and nothing after it."""
    words = len(subject.stream) // subject.width
    stream = subject.stream[: rng.randint(1, words - 1) * subject.width]
    return _with(run, stream, subject.width)


@kind("overrun")
def overrun(rng: Random, subject: Subject, run: Run) -> Run:
    """Words after END."""
    more = rng.randbytes(rng.choice((1, 2, 40)) * subject.width)
    return _with(run, subject.stream + more, subject.width)


@kind("noise")
def noise(rng: Random, subject: Subject, run: Run) -> Run:
    """Random words, alone or behind a sound beginning."""
    words = len(subject.stream) // subject.width
    kept = rng.choice((0, 0, descriptor_words(subject.width), rng.randrange(words)))
    more = rng.randbytes(rng.randint(1, 60) * subject.width)
    return _with(run, subject.stream[: kept * subject.width] + more, subject.width)
