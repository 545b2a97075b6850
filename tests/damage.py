"""Files and memories as they must not be: any byte changed, cut or added, by seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from rtl.compile.image import Image


def any_damage(data: bytes, seed: int, count: int, edges: Sequence[int] = ()) -> Iterator[bytes]:
    """So many bytes that are not `data`, each damaged in one place.

    edges
        Where its sections begin, beside the first: each section is hit as often as the others,
        its first and last byte among the places.
    """
    rng = Random(seed)
    cuts = [0, *edges, len(data)]
    while count:
        section = rng.randrange(len(cuts) - 1)
        begin, end = cuts[section], cuts[section + 1]
        at = rng.choice((begin, end - 1, rng.randrange(begin, end), rng.randrange(begin, end)))
        size = rng.choice((1, 4, 64, rng.randint(1, 300)))
        damaged = bytearray(data)
        part = bytes(data[at : at + size])
        match rng.randrange(8):
            case 0:
                damaged[at : at + size] = rng.randbytes(len(part))
            case 1:
                del damaged[at : at + size]
            case 2:
                damaged[at:at] = part
            case 3:  # moved
                del damaged[at : at + size]
                damaged += part
            case 4:
                del damaged[at:]
            case 5:
                damaged += rng.choice((b"\0", rng.randbytes(size)))
            case _:
                damaged[at] ^= 1 << rng.randrange(8)
        if damaged != data:
            count -= 1
            yield bytes(damaged)


def sections(image: Image) -> tuple[int, int, int]:
    """Where stream, the zeros behind it and rows begin in the bytes of an image."""
    stream = image.stream_offset
    return stream, stream + len(image.stream), image.rows_offset
