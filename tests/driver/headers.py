"""HEADERs of all kinds, and what a driver has to say of each."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from rtl.compile import image
from rtl.interface.command import DESCRIPTOR_BYTES
from rtl.interface.config import Config
from rtl.interface.isa import FIELDS, HEADER_WAYS, Opcode
from verify.fuzz.subject import subjects

_FIELDS = [field.name for field in FIELDS[Opcode.HEADER] for _ in range(field.bytes)]
HEADER_AT = {f"{name.upper()}_AT": 2 + _FIELDS.index(name) for name in _FIELDS}
"""The first byte of each field."""
NUMBERS = {"HEADER": Opcode.HEADER, "HEADER_FLAGS": 0xFF & ~HEADER_WAYS}
NUMBERS |= {"IMAGE_FORMAT": image.FORMAT, "IMAGE_MODEL_AT": image.MODEL_AT}
NUMBERS |= {"ROWS_AT": HEADER_AT["ROWS_AT"]}
"""Constants that both drivers have."""
ANSWERS = {0, *range(-13, -6)}
"""The codes of `account`, as the C driver numbers them; 0: sound."""


def account(stream: bytes, limits: dict[str, int]) -> tuple[int, int]:
    """What a driver shall say of a stream, by the table of fields of docs/architecture.md.

    The code and the longest sequence.
    """
    if len(stream) < DESCRIPTOR_BYTES or stream[0] != 1 or stream[2:6] != b"B2RT":
        return -7, 0
    ways, version, lanes = stream[1], stream[6], stream[7]
    tokens, hidden, ffn, labels = (stream[at] + 256 * stream[at + 1] for at in (8, 10, 12, 14))
    # Bits 4 to 7 are flags.
    rules = (
        (-8, version == limits["version"]),
        (-9, (lanes, lanes << (ways & ~240)) == (limits["lanes"], limits["columns"])),
        (-10, tokens > 0),
        (-11, 0 < hidden <= limits["hidden"]),
        (-12, 0 < ffn <= limits["ffn"]),
        (-13, 0 < labels <= limits["labels"]),
    )
    wrong = [code for code, held in rules if not held]
    return (wrong[0], 0) if wrong else (0, min(tokens, limits["tokens"]))


def any_headers(seed: int, count: int, limits: Config) -> Iterator[bytes]:
    """Beginnings of streams: sound ones, those of other sizes, damaged ones, cut ones, noise."""
    rng = Random(seed)
    for _ in range(count):
        stream = bytearray(rng.choice(subjects(limits)).stream[:64])
        for _ in range(rng.choice((0, 1, 1, 2))):
            at = rng.choice((0, 1, 2, 5, 6, 7, rng.randrange(8, 16), rng.randrange(8, 16)))
            stream[at] = rng.choice((0, 1, 4, 16, 24, stream[at] ^ 1 << rng.randrange(8)))
        if rng.random() < 0.05:
            stream = bytearray(rng.randbytes(64))
        if rng.random() < 0.05:
            del stream[rng.randrange(64) :]
        yield bytes(stream)
