"""Damage of both kinds that tests plant: in bytes by seed, and in descriptions of ours by a piece.

A piece is (what stands once in a text, what it becomes); where it does not stand there any more the
test says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from rtl.compile.image import Image
from rtl.interface.config import Config

ROOT = Path(__file__).resolve().parents[1]


def changed(text: str, *pieces: tuple[str, str], of: object = "the text") -> str:
    """The text with its pieces replaced."""
    for old, new in pieces:
        assert text.count(old) == 1, f"{old!r} does not stand once in {of}"
        text = text.replace(old, new)
    return text


def source_of(part: str) -> Path:
    """File of the part of rtl/ whose file is <part>.py, in whatever room, or <folder>/<part>.py."""
    if "/" in part:
        return ROOT / f"{part}.py"
    (path,) = (ROOT / "rtl").rglob(f"{part}.py")
    return path


@contextmanager
def replaced(part: str, *pieces: tuple[str, str]) -> Iterator[ModuleType]:
    """The module of a part with its pieces replaced; in the block rtl/, imported anew, uses it."""
    sound = {name: module for name, module in sys.modules.items() if name.startswith("rtl.")}
    path = source_of(part)
    source = changed(path.read_text(), *pieces, of=path)
    for other in sound:
        del sys.modules[other]
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    try:
        module = sys.modules[name] = ModuleType(name)
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))
        yield module
    finally:
        for other in [other for other in sys.modules if other.startswith("rtl.")]:
            del sys.modules[other]
        sys.modules.update(sound)


def mutated(part: str, *pieces: tuple[str, str], unit: str, config: Config) -> Any:
    """The unit of that name in rtl/units.py, with pieces of a part replaced."""
    with replaced(part, *pieces):
        return import_module("rtl.generate.units").unit(unit).build(config)


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
