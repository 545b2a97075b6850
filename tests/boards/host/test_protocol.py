"""Frames on the line: what is sent comes, whatever else there is; against a second account."""

from __future__ import annotations

import random
import zlib

import pytest

from boards.protocol import (
    INFO,
    LONGEST,
    Damaged,
    Decoder,
    Frame,
    Info,
    Problem,
    encode,
)
from tests.boards.host.pretended import stuffed, unstuffed

SPECIAL = bytes([0x7E, 0x7D, 0x5E, 0x5D, 0, 0xFF])


def drawn(rng: random.Random) -> Frame:
    length = rng.choice([0, 1, 4, rng.randrange(64), LONGEST])
    alphabet = rng.choice([SPECIAL, bytes(range(256))])
    payload = bytes(rng.choice(alphabet) for _ in range(length))
    return Frame(rng.randrange(256), rng.randrange(256), payload)


def pieces(rng: random.Random, data: bytes) -> list[bytes]:
    """The bytes as they may come: cut anywhere."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(10)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])]


def test_a_frame_byte_by_byte() -> None:
    """Kind 2, number 9, payload 7E 7D 01; the CRC is zlib's."""
    body = bytes.fromhex("02 09 03 00 7e 7d 01")
    crc = zlib.crc32(body).to_bytes(4, "little")
    assert not {0x7E, 0x7D} & set(crc)
    expected = bytes.fromhex("7e 02 09 03 00 7d 5e 7d 5d 01") + crc + b"\x7e"
    assert encode(2, 9, b"\x7e\x7d\x01") == expected


@pytest.mark.parametrize("seed", range(20))
def test_what_is_sent_comes(seed: int) -> None:
    rng = random.Random(seed)
    frames = [drawn(rng) for _ in range(30)]
    line = b"".join(encode(f.kind, f.number, f.payload) for f in frames)
    decoder = Decoder()
    assert [f for piece in pieces(rng, line) for f in decoder.feed(piece)] == frames


@pytest.mark.parametrize("seed", range(20))
def test_both_accounts_agree(seed: int) -> None:
    frame = drawn(random.Random(seed))
    line = encode(frame.kind, frame.number, frame.payload)
    head = bytes([frame.kind, frame.number]) + len(frame.payload).to_bytes(2, "little")
    assert line == stuffed(head + frame.payload)
    assert unstuffed(line[1:-1]) == head + frame.payload


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_between_two_frames(seed: int) -> None:
    """They are no frame, and the frame after them comes; twice the noise is twice the damage."""
    rng = random.Random(seed)
    noise = rng.randbytes(rng.choice([1, 7, 8, 300, 5_000]))
    frame = drawn(rng)
    found = Decoder().feed(noise + encode(frame.kind, frame.number, frame.payload))
    assert found[-1] == frame
    assert all(isinstance(f, Damaged) for f in found[:-1])


@pytest.mark.parametrize("seed", range(60))
def test_a_byte_that_is_lost_doubled_or_changed(seed: int) -> None:
    rng = random.Random(seed)
    frame = drawn(rng)
    line = encode(frame.kind, frame.number, frame.payload)
    at = rng.randrange(1, len(line) - 1)
    kind = seed % 3
    piece = (
        b""
        if kind == 0
        else line[at : at + 1] * 2
        if kind == 1
        else bytes([line[at] ^ 1 << seed % 8])
    )
    found = Decoder().feed(line[:at] + piece + line[at + 1 :] + b"\x7e")
    assert found
    assert all(isinstance(f, Damaged) for f in found)


@pytest.mark.parametrize("cut", range(2, 12))
def test_a_frame_that_is_cut(cut: int) -> None:
    """Nothing comes of it, and the one after it does; its last flag alone may be missing."""
    line = encode(1, 5, b"abcd")
    found = Decoder().feed(line[:-cut] + encode(2, 6, b""))
    assert found[-1] == Frame(2, 6, b"")
    assert all(isinstance(f, Damaged) for f in found[:-1])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\x01" * 7, "7 bytes: shorter than any frame"),
        (b"\x01\x02\x7d", "ends with an escape"),
        (b"\x01\x02\x09\x00" + bytes(8), "12 bytes where its length says 9"),
        (b"\x01\x02\x04\x00" + bytes(8), "its CRC is wrong"),
        (bytes(1037), "longer than 1036 bytes"),
    ],
)
def test_what_is_no_frame_says_why(body: bytes, why: str) -> None:
    assert Decoder().feed(b"\x7e" + body + b"\x7e") == [Damaged(why)]


def test_flags_alone_mean_nothing() -> None:
    assert Decoder().feed(b"\x7e" * 50) == []


def test_info_comes_back_as_it_went() -> None:
    limits = {"lanes": 8, "columns": 32, "tokens": 128, "hidden": 128, "ffn": 512, "labels": 64}
    info = Info(
        problem=Problem.ROWS,
        memory_bytes=1 << 25,
        kilohertz=80_000,
        stream_version=4,
        model=b"abcdefgh",
        digest=bytes(range(32)),
        **limits,
    )
    assert Info.from_bytes(info.to_bytes()) == info
    assert len(info.to_bytes()) == INFO.size == 64


@pytest.mark.parametrize("payload", [b"", bytes(64), b"\x02" + bytes(53), b"\x03" + bytes(61)])
def test_info_of_another_version_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"the board speaks version .* of the protocol"):
        Info.from_bytes(payload)


def test_a_problem_that_is_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="the board says problem 99, which is none"):
        Info.from_bytes(b"\x04\x63" + bytes(62))
