"""Command streams and tokens that the accelerator refuses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from golden.model import Model
from rtl.compile.edit import Edit
from rtl.compile.program import Program
from rtl.interface.command import VERSION, bank_address, descriptor_bytes
from rtl.interface.isa import Opcode
from rtl.interface.operation import Error
from tb.packing import ATTEND_BIT, ENDS_BIT, TYPE_BIT


def damaged_streams(
    program: Program, rng: np.random.Generator
) -> Iterator[tuple[str, bytes, Error]]:
    """Streams with one flipped bit, cut short or too long: name, stream and the error it must give.

    Every descriptor and every payload is hit; where, is random.
    """
    stream, n = program.stream(), program.config.stream_width
    begins, at = descriptor_bytes(n), 0
    for piece in Edit(program):
        parts = [("descriptor", at, begins), ("payload", at + begins, len(piece.payload))]
        at += begins + len(piece.payload)
        for part, first, length in parts if piece.payload else parts[:1]:
            bit = int(rng.integers(8 * length))
            broken = bytearray(stream)
            broken[first + bit // 8] ^= 1 << bit % 8
            yield f"bit {bit} of the {part} of {piece.name} flipped", bytes(broken), Error.CRC
            # Of END's words the last belongs to it.
            most = length // n - (piece.name == "end")
            cut = first + n * int(rng.integers(1, most + 1)) if most else 0
            if 0 < cut < len(stream):
                yield f"cut in the {part} of {piece.name}", stream[:cut], Error.TRUNCATED
            if first + length < len(stream):
                end = stream[: first + length]
                yield f"cut behind the {part} of {piece.name}", end, Error.TRUNCATED
    yield "one word too long", stream + bytes(n), Error.OVERRUN
    more = bytes(rng.integers(0, 256, 9 * n, dtype=np.uint8))
    yield "nine words too long", stream + more, Error.OVERRUN
    yield "nothing but noise", more, Error.CRC if 9 * n >= begins else Error.TRUNCATED


def refused_streams(program: Program) -> Iterator[tuple[str, bytes, Error]]:
    """Whole streams with right CRCs that ask for what the accelerator does not take."""
    c = program.config
    opcodes = [step.opcode for step in program.steps]
    limits: list[tuple[Opcode | int, str, int]] = [
        *((0, name, getattr(c, name) + 1) for name in ("hidden", "ffn", "labels")),
        *((0, name, 0) for name in ("tokens", "labels")),
        *((Opcode.LINEAR, "length", value) for value in (0, max(c.hidden, c.ffn) + 1)),
        (Opcode.LINEAR, "columns", 0),
        *((Opcode.NORM, "channels", value) for value in (0, c.hidden + 1)),
        (Opcode.NORM, "shift", 32),
        (Opcode.EMBED, "channels", c.hidden + 1),
        (Opcode.EMBED, "wide", 2),
        (Opcode.ATTEND, "heads", 0),
        (Opcode.ATTEND, "head_size", 0),
        (Opcode.ATTEND, "key", bank_address(1, 1 << 21)),  # a bank too short
        (-2, "columns", c.labels + 1),
    ]
    others: list[tuple[Opcode | int, Opcode | int]] = [
        (Opcode.EMBED, Opcode.NORM),  # twice
        (Opcode.ATTEND, 10),
        (0, 0),
        (Opcode.ATTEND, Opcode.HEADER),
    ]
    for tables, counted, most in (
        (Opcode.BIAS, "heads", c.bias_heads),
        (Opcode.ROTARY, "pairs", c.rotary_pairs),
    ):
        if tables in opcodes:
            limits += [(tables, counted, 0), (tables, counted, most + 1)]
            limits += [(tables, "row_tiles", 0), (tables, "row_tiles", c.row_tiles + 1)]
            others += [(Opcode.EMBED, tables), (tables, Opcode.TABLE)]  # a second one, none
    if Opcode.BIAS in opcodes:
        limits.append((Opcode.ATTEND, "heads", c.bias_heads + 1))

    def changed(place: Opcode | int, opcode: int | None = None, **values: int) -> bytes:
        """With other values, or another opcode, in the first step of an opcode or that one."""
        pieces = Edit(program)
        piece = pieces[opcodes.index(place) if isinstance(place, Opcode) else place]
        for name, value in values.items():
            piece[name] = value
        piece.body[0] = piece.body[0] if opcode is None else opcode
        return bytes(pieces)

    for name, value in (
        ("magic", 0x54523243), ("version", VERSION + 1), ("lanes", 2 * c.lanes), ("lanes", 0)
    ):  # fmt: skip
        yield f"{name} {value}", changed(0, **{name: value}), Error.FORMAT
    for place, name, value in limits:
        yield f"{place!r}: {name} {value}", changed(place, **{name: value}), Error.LIMIT
    for place, opcode in others:
        yield f"{place!r} as {opcode!r}", changed(place, opcode), Error.FORMAT
    if Opcode.ROTARY in opcodes:  # the first LINEAR is Q
        for size, first in ((0, 0), (3, 0), (2, c.rotary_pairs)):
            wrong = changed(Opcode.LINEAR, head_size=size, rotary=first)
            yield f"heads of {size} from pair {first} on", wrong, Error.LIMIT


def refused_tokens(
    model: Model, program: Program, words: np.ndarray
) -> Iterator[tuple[str, np.ndarray, Error]]:
    """Token words that no inference takes, made of sound ones: name, words and their error."""
    shape, config = model.shape, program.config
    attend, ends = np.uint32(ATTEND_BIT), np.uint32(ENDS_BIT)
    for place in (0, len(words) - 1):
        for beyond in (shape.vocabulary, (1 << 24) - 1):
            broken = words.copy()
            broken[place] = attend | np.uint32(beyond)
            yield f"id {beyond} at {place}", broken, Error.TOKEN
        if shape.types < 2:
            broken = words.copy()
            broken[place] |= np.uint32(TYPE_BIT)
            yield f"type 1 at {place}", broken, Error.TOKEN
    yield "no valid key", words & ~attend, Error.NO_KEY
    short = np.full(config.row_tiles + 1, attend | ends)
    yield "one sequence too many", short, Error.LENGTH
    for place in range(3):
        broken = short[:3].copy()
        broken[place] &= ~attend
        yield f"no valid key in sequence {place} of 3", broken, Error.NO_KEY
    tiles = np.full(config.lanes + config.row_tiles, attend)
    tiles[config.lanes :] |= ends
    yield "a row tile too many", tiles, Error.LENGTH
    behind = np.full(config.tokens + 2, attend)
    behind[0] |= ends
    yield "a long sequence behind a short one", behind, Error.LENGTH
    for count in (config.tokens + 1, 2 * config.tokens + 5, program.tokens + 1):
        yield f"{count} tokens", np.full(count, attend), Error.LENGTH
