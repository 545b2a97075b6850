# amaranth: UnusedElaboratable=no
"""The CRC unit against zlib."""

import zlib

import numpy as np
import pytest

from rtl.control.crc import RESIDUE, Crc, after
from tb.amaranth_ports import simulate
from tb.ports import Ports
from tests.tiers import quick


def signed(data: bytes) -> bytes:
    """The message followed by its CRC."""
    return data + zlib.crc32(data).to_bytes(4, "little")


def ref_good(data: bytes, size: int, padding: int = 0) -> list[bool]:
    """Before each word and after the last: do the words so far end with their CRC and zeros?"""
    found = []
    for words in range(0, len(data) + 1, size):
        end = words - padding
        crc = int.from_bytes(data[end - 4 : end], "little")
        signs = end >= 4 and zlib.crc32(data[: end - 4]) == crc
        found.append(signs and not any(data[end:words]))
    return found


def rtl_good(data: bytes, size: int, pauses: float = 0.3, padding: int = 0) -> list[bool]:
    rng = np.random.default_rng(len(data))

    async def exercise(ports: Ports) -> list[bool]:
        found = []
        for start in range(0, len(data), size):
            found.append(bool(ports.get("good")))
            while rng.random() < pauses:
                ports.set("en", 0)
                ports.set("data", int(rng.integers(1 << 8 * min(size, 7))))
                await ports.tick()
            ports.set("en", 1)
            ports.set("data", int.from_bytes(data[start : start + size], "little"))
            await ports.tick()
        return [*found, bool(ports.get("good"))]

    return simulate(Crc(8 * size, 8 * padding), exercise)


@pytest.mark.parametrize("size", [1, 4, 8, 16, 32, 64])
def test_signed_messages(size: int) -> None:
    """Descriptors within a stream: each ends with the CRC of everything before it."""
    rng = np.random.default_rng(size)
    stream = b""
    for _ in range(4):
        stream = signed(stream + bytes(rng.integers(0, 256, 28, np.uint8)))
        stream += bytes(rng.integers(0, 256, 3 * size, np.uint8))
    stream = signed(stream + bytes(-(len(stream) + 4) % size))
    good = ref_good(stream, size)
    assert sum(good) >= 2
    assert rtl_good(stream, size) == good


@pytest.mark.parametrize(("size", "padding"), quick([(8, 1), (4, 3), (64, 32)], 2))
def test_padding_is_zero(size: int, padding: int) -> None:
    """Descriptors shorter than a word; a bit of the padding is as wrong as one of the CRC."""
    rng = np.random.default_rng(size)
    stream = b""
    for _ in range(3):
        more = rng.integers(0, 256, 2 * size - padding - 4, np.uint8)
        stream = signed(stream + bytes(more)) + bytes(padding)
    good = ref_good(stream, size, padding)
    assert good == [False, False, True] + [False, True] * 2
    assert rtl_good(stream, size, padding=padding) == good
    for place in (-padding - 4, -padding - 1, -padding, -1):  # ends of the CRC, of the padding
        broken = bytearray(stream)
        broken[place] ^= 1 << -place % 8
        assert rtl_good(bytes(broken), size, 0.0, padding) == [*good[:-1], False]


def test_after_is_zlib() -> None:
    data = bytes(range(256)) * 3
    state = after(0xFFFFFFFF, int.from_bytes(data, "little"), 8 * len(data))
    assert state ^ 0xFFFFFFFF == zlib.crc32(data)
    state = after(0xFFFFFFFF, int.from_bytes(signed(data), "little"), 8 * len(data) + 32)
    assert state == RESIDUE
