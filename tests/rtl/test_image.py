"""The image: what its bytes are, and that no damage of it is taken for a model."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from golden.identity import identity_of
from golden.random import random_model
from golden.store import save
from rtl.compile.__main__ import main
from rtl.compile.edit import Edit
from rtl.compile.image import Image, ImageError, image_bytes, read_image
from rtl.compile.program import compile_model, image_of
from rtl.interface.config import Config
from tests import zoo
from tests.damage import any_damage, sections
from tests.ending import exit_code, refusal

SHAPE = zoo.shape("no-pooler", positions=9, position_offset=0)


def made(lanes: int = 4, seed: int = 3, columns: int | None = None) -> Image:
    model = random_model(SHAPE, seed)
    return image_of(model, compile_model(model, Config(lanes=lanes, columns=columns)))


def number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


@pytest.mark.parametrize(("lanes", "columns"), [(4, 4), (4, 32), (32, 64), (64, 512)])
def test_the_bytes_are_those_of_the_documented_places(lanes: int, columns: int) -> None:
    image = made(lanes, columns=columns)
    data = image_bytes(image)
    assert data[:8] == b"B2RTIMG\0"
    assert (number(data, 8, 2), number(data, 10, 2)) == (2, 128)
    assert number(data, 12, 4) == zlib.crc32(data[:12] + bytes(4) + data[16:128])
    assert number(data, 16, 8) == len(data)
    stream, rows = (data[number(data, at, 8) :][: number(data, at + 8, 8)] for at in (24, 40))
    assert stream == image.stream
    assert rows == image.rows
    assert number(data, 24, 8) == 128
    assert number(data, 40, 8) == 128 + len(stream) + -(128 + len(stream)) % 4096
    assert number(data, 56, 4) * number(data, 60, 4) == len(rows)
    assert number(data, 60, 4) == 20 + 2 * 9
    padded = stream + bytes(number(data, 40, 8) - 128 - len(stream))
    assert (number(data, 64, 4), number(data, 68, 4)) == (zlib.crc32(padded), zlib.crc32(rows))
    assert stream[16:20] == data[68:72]
    assert data[72] == lanes
    assert data[73] == stream[6]
    assert data[74:82] == stream[8:16]
    assert number(data, 82, 2) == lanes << stream[1] == image.columns == columns
    assert not any(data[84:88])
    assert data[88:96] == stream[20:28] == identity_of(random_model(SHAPE, seed=3)) == image.model
    assert data[96:128] == hashlib.sha256(data[128:]).digest()
    assert read_image(data) == image
    assert image_bytes(made(lanes, columns=columns)) == data


def test_any_damage_is_one_clear_error() -> None:
    data = image_bytes(made())
    draw = random.Random(14)
    places = [*range(128), *(draw.randrange(len(data)) for _ in range(200)), len(data) - 1]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << draw.randrange(8)
        with pytest.raises(ImageError, match=r"^the image .*(again|one)$|^the image's .*again$"):
            read_image(bytes(damaged))
    for other in any_damage(data, 14, 100, sections(made())):
        with pytest.raises(ImageError):
            read_image(other)
    for size in [*range(130), *(draw.randrange(len(data)) for _ in range(50)), len(data) - 1]:
        with pytest.raises(ImageError, match=f"{size}"):
            read_image(data[:size])
    with pytest.raises(ImageError, match="something follows it"):
        read_image(data + b"\0")


def test_a_header_that_lies_with_right_sums_is_refused() -> None:
    """Numbers that contradict each other, under a CRC that was made anew."""
    data = image_bytes(made())
    draw = random.Random(5)
    for place in [*range(10, 12), *range(24, 96)]:
        header = bytearray(data[:128])
        header[place] ^= 1 << draw.randrange(8)
        header[12:16] = bytes(4)
        header[12:16] = zlib.crc32(header).to_bytes(4, "little")
        with pytest.raises(ImageError, match="header"):
            read_image(bytes(header) + data[128:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_bytes": 0}, "no whole rows of 0"),
        ({"row_bytes": 7}, "no whole rows of 7"),
        ({"rows": b""}, "the rows have 0 bytes"),
        ({"row_bytes": 6, "rows": bytes(12)}, "no whole words of 4 and 4 bytes"),
        ({"rows": made().rows[:-12] + bytes(12)}, "the rows are damaged, or those of another mod"),
        ({"rows": made().rows[:-12]}, "the rows are damaged, or those of another model"),
    ],
)
def test_what_makes_no_image(change: dict[str, Any], message: str) -> None:
    image = dataclasses.replace(made(), **change)
    with pytest.raises(ImageError, match=message):
        image_bytes(image)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(random_model(SHAPE, seed=3), tmp_path / "model", {})
    path = tmp_path / "out.bin"
    options = ["--quantized", str(tmp_path / "model"), "--lanes", "4", "--image", str(path)]
    assert exit_code(main, options) == 0
    written = capsys.readouterr().out
    assert path.read_bytes() == image_bytes(made())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "out.bin"]
    assert exit_code(main, ["--check", str(path)]) == 0
    assert capsys.readouterr().out == written
    assert re.search(r"rows: 38 of 12 bytes at 4,096$", written, re.MULTILINE)
    assert f"model: {made().model.hex()}\n" in written
    path.write_bytes(path.read_bytes()[:-1])
    assert exit_code(main, ["--check", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}: the image has ")
    assert error.count("\n") == 1


def remade(image: Image) -> bytes:
    """Its bytes with right sums, whether stream and rows belong together or not."""
    header, at = bytearray(image_bytes(made())[:128]), image.rows_offset
    padded = image.stream + bytes(at - 128 - len(image.stream))
    body = padded + image.rows
    header[16:24] = (128 + len(body)).to_bytes(8, "little")
    sizes = (128, len(image.stream), at, len(image.rows))
    header[24:56] = b"".join(size.to_bytes(8, "little") for size in sizes)
    crcs = zlib.crc32(padded), zlib.crc32(image.rows)
    header[64:72] = b"".join(crc.to_bytes(4, "little") for crc in crcs)
    header[88:128] = image.stream[20:28] + hashlib.sha256(body).digest()
    header[12:16] = bytes(4)
    header[12:16] = zlib.crc32(header).to_bytes(4, "little")
    return bytes(header) + body


def test_stream_and_rows_of_two_models_are_no_image() -> None:
    """Of one shape, with right sums: the stream's HEADER names its rows and its model."""
    one = made()
    other = made(seed=5)
    assert remade(one) == image_bytes(one)
    assert remade(other) == image_bytes(other)
    mixed = Image(stream=one.stream, rows=other.rows, row_bytes=one.row_bytes)
    with pytest.raises(ImageError, match="the rows are damaged, or those of another model"):
        image_bytes(mixed)
    with pytest.raises(ImageError, match="the image's header does not say what is in it"):
        read_image(remade(mixed))
    foreign = bytearray(image_bytes(other))
    foreign[88:96] = one.model
    foreign[12:16] = bytes(4)
    foreign[12:16] = zlib.crc32(foreign[:128]).to_bytes(4, "little")
    with pytest.raises(ImageError, match="the image's header does not say what is in it"):
        read_image(bytes(foreign))


def test_an_image_of_the_format_before_is_refused() -> None:
    old = bytearray(image_bytes(made()))
    old[8:10] = (1).to_bytes(2, "little")
    old[12:16] = bytes(4)
    old[12:16] = zlib.crc32(old[:128]).to_bytes(4, "little")
    with pytest.raises(ImageError, match="format 1, not 2: write it again, with `python -m rtl"):
        read_image(bytes(old))


def test_a_dump_of_a_damaged_stream_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was done to it: one line and 1 or 2, never 0."""
    path, stream = tmp_path / "model.bin", made().stream
    path.write_bytes(stream)
    assert exit_code(main, ["--dump", str(path)]) == 0
    listed = capsys.readouterr().out
    assert "CRC WRONG" not in listed
    assert f" rows={zlib.crc32(made().rows):08x} model={made().model.hex()}\n" in listed
    codes = []
    for damaged in any_damage(stream, 3, 60):
        path.write_bytes(damaged)
        codes.append(exit_code(main, ["--dump", str(path)]))
        shown, error = capsys.readouterr()
        assert error.startswith(f"error: {path}")
        assert error.count("\n") == 1
        assert codes[-1] == 1 or "CRC WRONG" not in shown
    assert set(codes) == {1, 2}

    path.write_bytes(stream[:-4])
    assert refusal(main, ["--dump", str(path)], capsys, 2, quiet=False) == (
        f"error: {path}: the stream ends at byte {len(stream) - 4}, before END: it is truncated, "
        "write it again\n"
    )
    path.write_bytes(stream + bytes(8))
    error = refusal(main, ["--dump", str(path)], capsys, 2, quiet=False)
    assert error == f"error: {path}: 8 bytes follow END: the stream runs on, write it again\n"
    path.write_bytes(stream[:40] + bytes([stream[40] ^ 1]) + stream[41:])
    error = refusal(main, ["--dump", str(path)], capsys, 1, quiet=False)
    assert error.startswith(f"error: {path}: the CRC of the descriptor at byte 32 is wrong: ")
    path.write_bytes(image_bytes(made()))
    error = refusal(main, ["--dump", str(path)], capsys)
    assert error == f"error: {path} is an image, not a stream: `--check {path}` reads it\n"


def test_a_stream_in_an_image_keeps_the_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under right sums: the first descriptor that hardware would refuse is named."""
    path, one = tmp_path / "model.img", made()
    program = compile_model(random_model(SHAPE, seed=3), Config(lanes=4))
    for name, message in (
        ("shift", "descriptor 1, NORM at byte 32: shift is 0: it must lie in 1..31"),
        ("", "descriptor 1, EMBED at byte 32: EMBED comes after its NORM"),
    ):
        pieces = Edit(program)
        if name:
            pieces[1][name] = 0
        else:
            del pieces[1]
        path.write_bytes(image_bytes(dataclasses.replace(one, stream=bytes(pieces))))
        error = refusal(main, ["--check", str(path)], capsys, 1, quiet=False)
        assert error == f"error: {path} breaks a rule of docs/architecture.md: {message}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--dump -o a", "--out has no meaning beside --dump"),
        ("--dump --image a", "--image has no meaning beside --dump"),
        ("--dump --json a", "--json has no meaning beside --dump"),
        ("--dump README.md --lanes 8", "--lanes has no meaning beside --dump"),
        ("--check README.md --lanes 8", "--lanes has no meaning beside --check"),
        ("--check README.md --gated", "--gated has no meaning beside --check"),
        ("--check README.md --dump", "--dump has no meaning beside --check"),
    ],
)
def test_options_that_would_be_left_unread_are_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(main, words.split(), capsys) == f"error: {message}: leave out one of them\n"
