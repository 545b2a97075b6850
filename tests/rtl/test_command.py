"""The command stream: what encode and decode refuse, and that they are inverse."""

import dataclasses
import itertools
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.model import Window
from rtl.compile.__main__ import listing
from rtl.compile.program import compile_model
from rtl.interface.command import (
    DESCRIPTOR_BYTES,
    FIELD_BYTES,
    MAGIC,
    VERSION,
    decode,
    encode,
    sealed,
    walked_keys,
    window_field,
)
from rtl.interface.config import LANES, Config
from rtl.interface.isa import FIELDS, FLAGS, Flag, Opcode, flag_table, flags_byte, flags_of
from tb.scenarios import SMALL_LIMITS, kinds_of
from tests.zoo import SMALL, family

ROOT = Path(__file__).resolve().parents[2]
HEADER: dict[str, Any] = {
    "magic": MAGIC,
    "version": VERSION,
    "lanes": 4,
    "tokens": 9,
    "hidden": 8,
    "ffn": 8,
    "labels": 2,
    "rows": 0x12345678,
    "model": 0xF1E2D3C4B5A69788,
}


def short(lanes: int = 4, **changes: int) -> bytearray:
    """HEADER and END."""
    header = encode(lanes, Opcode.HEADER, **HEADER | {"lanes": lanes} | changes)
    return bytearray(sealed(lanes, [(header, b""), (encode(lanes, Opcode.END), b"")]))


def with_lanes(lanes: int) -> bytearray:
    """A stream whose HEADER says that many."""
    stream = short()
    stream[7] = lanes
    return stream


@pytest.mark.parametrize("opcode", Opcode)
def test_fields_fit_the_descriptor(opcode: Opcode) -> None:
    assert sum(field.bytes for field in FIELDS[opcode]) <= FIELD_BYTES
    rng = np.random.default_rng(opcode)
    values = {
        f.name: int(rng.integers(256, size=f.bytes) @ 256 ** np.arange(f.bytes))
        for f in FIELDS[opcode]
    }
    values |= {"lanes": 4} if opcode is Opcode.HEADER else {}
    body = encode(4, opcode, **values)
    assert len(body) == DESCRIPTOR_BYTES - 4
    assert body[:2] == bytes([opcode, 0])
    at = 2
    for field in FIELDS[opcode]:
        assert int.from_bytes(body[at : at + field.bytes], "little") == values[field.name]
        at += field.bytes
    assert not any(body[at:])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tokens": 1 << 16}, "HEADER.tokens is 65536: it must lie in 0..65535"),
        ({"labels": -1}, "HEADER.labels is -1: it must lie in 0..65535"),
        ({"heads": 1}, "HEADER takes the fields"),
    ],
)
def test_encode_refuses(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        encode(4, Opcode.HEADER, **HEADER | values)


@pytest.mark.parametrize("name", ["three-heads", "pre-norm", "post-norm-mean"])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("ways", [1, 4])
def test_a_program_survives(name: str, lanes: int, ways: int) -> None:
    width = lanes * ways
    limits = SMALL_LIMITS | {"tokens": 40, "hidden": max(96, 3 * lanes), "ffn": 64}
    program = compile_model(family(name, SMALL[name]), Config(lanes=lanes, columns=width, **limits))
    stream = program.stream()
    found = list(decode(stream))
    assert [(d.opcode, d.flags, d.values) for d in found] == [
        (step.opcode, step.flags, step.values) for step in program.steps
    ]
    begins = max(DESCRIPTOR_BYTES, width)  # powers of two: whole words
    for descriptor, step in zip(found, program.steps):
        assert not any(stream[descriptor.offset + DESCRIPTOR_BYTES :][: begins - DESCRIPTOR_BYTES])
        start = descriptor.offset + begins
        size = descriptor.payload_bytes(lanes, width)
        assert stream[start : start + size] == step.payload + bytes(size - len(step.payload))
        assert descriptor.crc_good
        assert descriptor.offset % width == 0
    assert len(stream) == found[-1].offset + begins


def test_crc_covers_everything_before() -> None:
    stream = short()
    stream[9] ^= 1
    assert [d.crc_good for d in decode(bytes(stream))] == [False, False]
    # A descriptor that was signed again vouches for itself: what follows was never damaged.
    stream[28:32] = zlib.crc32(stream[:28]).to_bytes(4, "little")
    assert [d.crc_good for d in decode(bytes(stream))] == [True, True]


def test_padding_is_zero_and_below_the_next_crc() -> None:
    """At 64 lanes 32 zeros follow each descriptor."""
    stream = short(64)
    assert len(stream) == 128
    assert [d.offset for d in decode(bytes(stream))] == [0, 64]
    for place in (*range(32, 64), *range(96, 128)):
        broken = bytearray(stream)
        broken[place] ^= 1 << place % 8
        good = [d.crc_good for d in decode(bytes(broken))]
        assert good == ([False, False] if place < 64 else [True, False])
        broken[92:96] = zlib.crc32(broken[:92]).to_bytes(4, "little")
        if place < 64:  # signed anew END vouches for what is there; HEADER's padding is wrong
            assert [d.crc_good for d in decode(bytes(broken))] == [False, True]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"", "the stream ends at byte 0, before END: it is truncated"),
        (bytes(short()[:40]), "the stream ends at byte 40, before END: it is truncated"),
        (bytes(short()) + b"more", "4 bytes follow END: the stream runs on"),
        (bytes([10]) + bytes(short()[1:]), "the stream does not begin with a HEADER"),
        (bytes(short()[32:]), "does not begin with a HEADER: it is no model.bin"),
        (bytes(short(magic=1)), "does not begin with a HEADER: it is no model.bin"),
        (bytes(short(version=9)), "the stream has version 9, not 7"),
        (
            bytes([1, 4]) + bytes(short()[2:]),
            "byte 1 of the stream is 4: it must be 0..3, the binary logarithm of columns a lane, "
            "with BIAS 16, with WINDOW 32, with GATED 64, with ROTARY 128 more",
        ),
        (bytes([1, 20]) + bytes(short()[2:]), "byte 1 of the stream is 20: it must be 0..3"),
        (bytes(short(64)[:96]), "the stream ends at byte 96, before END: it is truncated"),
        (bytes(short(64)) + bytes(64), "64 bytes follow END: the stream runs on"),
        *(
            (bytes(stream), f"the stream is for {stream[7]} lanes, not one of 4, 8, 16, 32, 64")
            for stream in map(with_lanes, (0, 1, 5, 63, 65, 128, 255))
        ),
    ],
)
def test_decode_refuses(stream: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        list(decode(stream))


def test_flags_are_those_of_their_opcode() -> None:
    """No two of one bit; bits of none are left out; the document shows all, and the fields."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert text.count(flag_table()) == 1
    for opcode in Opcode:
        known = sum(flags_byte(opcode, flag) for flag in FLAGS[opcode])
        assert known.bit_count() == len(FLAGS[opcode])
        for byte in range(256):
            assert flags_byte(opcode, flags_of(opcode, byte)) == byte & known
        fields = ", ".join(f"{field.name} {field.bytes}" for field in FIELDS[opcode])
        assert f"\n| {opcode.value} {opcode.name} | {fields} |".replace("|  |", "| |") in text
    with pytest.raises(ValueError, match="ATTEND does not have the flag TABLE"):
        flags_byte(Opcode.ATTEND, Flag.TABLE)


@pytest.mark.parametrize("columns", [4, 16])
def test_a_position_bias_stands_behind_the_header(columns: int) -> None:
    """Of each head and each N keys a plane of low bytes, then one of high bytes."""
    model = family("bert-tiny", SMALL["bert-tiny"], biased=True)
    table = model.position_bias
    assert table is not None
    config = Config(lanes=4, columns=columns, bias_heads=2, **SMALL_LIMITS | {"tokens": 9})
    stream = compile_model(model, config).stream()
    header, bias, *others = decode(stream)
    assert (header.flags, bias.opcode) == (Flag.BIAS, Opcode.BIAS)
    assert bias.values == {"heads": 2, "row_tiles": 3}
    assert bias.payload_bytes(4, columns) == 2 * 6 * 8
    planes = np.frombuffer(stream[bias.offset + 32 :][: 2 * 6 * 8], np.int8)
    low, high = planes.reshape(2, 6, 2, 4).swapaxes(0, 2).swapaxes(1, 2).astype(np.int16)
    # [heads, 24]: of k - q from -11 to 11, and one that no two tokens have. The model takes 40.
    entries = (high * 256 + (low & 255)).reshape(2, 24)
    found = {int(k - q): entries[:, k - q + 11].tolist() for k in range(9) for q in range(9)}
    assert found == {d: table[:, d + 39].tolist() for d in range(-8, 9)}
    assert {d.flags for d in others if d.opcode is Opcode.ATTEND} == {
        Flag.BIAS,
        Flag.BIAS | Flag.FIRST_TILE,
    }


@pytest.mark.parametrize("columns", [4, 32])
@pytest.mark.parametrize("name", ["bert-tiny", "pre-norm-embedding-norm", "shared-keys"])
def test_a_listing_names_what_was_compiled(name: str, columns: int) -> None:
    """Not log2 of the columns a lane, which lies where others have flags."""
    every: dict[str, Any] = {"precise": True, "bias_heads": 4, "gated": True, "rotary_pairs": 8}
    config = Config(lanes=4, columns=columns, **every, **SMALL_LIMITS)
    model = family(name, SMALL[name], **kinds_of(SMALL[name], config))
    program = compile_model(model, config)
    for line, step in zip(listing(program.stream()), program.steps, strict=True):
        _, opcode, *words = line.split()
        flags = "|".join(str(flag.name) for flag in step.flags)
        assert opcode == step.opcode.name
        assert "".join(word for word in words if word.isupper()) == flags
        assert [word.split("=")[0] for word in words if "=" in word] == [
            f.name for f in FIELDS[step.opcode]
        ]
        size = -(-len(step.payload) // columns) * columns
        assert line.endswith(f" + {size} bytes") == bool(size)


def test_the_stream_of_a_plain_model_is_the_same_for_hardware_with_a_choice() -> None:
    model = family("bert-tiny", SMALL["bert-tiny"])
    choices: list[dict[str, Any]] = [{}, {"bias_heads": 2}, {"precise": True}]
    choices += [{"gated": True}, {"rotary_pairs": 8}]
    made = [Config(lanes=4, **SMALL_LIMITS, **choice) for choice in choices]
    assert len({compile_model(model, config).stream() for config in made}) == 1


@pytest.mark.parametrize("columns", [4, 16])
def test_windows_are_in_the_descriptors_of_their_layers(columns: int) -> None:
    """HEADER says that there are some; a side is 12 bits, and all ones where it has no limit."""
    windows = (Window(None, 0), None, Window(3, 5), Window(4094, None))
    shape = dataclasses.replace(SMALL["post-norm-mean"], layers=4)
    model = family("post-norm-mean", shape)
    layers = [dataclasses.replace(x, window=w) for x, w in zip(model.layers, windows, strict=True)]
    model = dataclasses.replace(model, layers=tuple(layers))
    config = Config(lanes=4, columns=columns, **SMALL_LIMITS)
    header, *others = decode(compile_model(model, config).stream())
    assert header.flags == Flag.WINDOW
    attends = [d for d in others if d.opcode is Opcode.ATTEND]
    assert [(d.flags, d.values["window"]) for d in attends] == [
        (Flag.WINDOW, 0x000FFF),
        (Flag(0), 0),
        (Flag.WINDOW, 0x005003),
        (Flag.WINDOW, 0xFFFFFE),
        (Flag.FIRST_TILE, 0),  # mean pooling
    ]
    lines = [*listing(compile_model(model, config).stream())]
    assert any(line.endswith("window=3 before, 5 after") for line in lines)


@pytest.mark.parametrize("lanes", [4, 8])
def test_keys_that_are_walked(lanes: int) -> None:
    """Every row tile in which some query sees some key, and no other; or to the last one."""
    tokens, kinds = 21, (Flag.WINDOW, Flag.WINDOW | Flag.FIRST_TILE)
    for before, after in itertools.product((0, 1, 3, 4, 5, 8, 20, None), repeat=2):
        window = window_field(before, after)
        rows = range(0, tokens, lanes)
        for flags, (row, first) in itertools.product(kinds, enumerate(rows)):
            if row and Flag.FIRST_TILE in flags:
                continue
            seen = [
                key
                for start in rows
                for key in range(start, min(start + lanes, tokens))
                if any(
                    (before is None or q - k <= before) and (after is None or k - q <= after)
                    for q in range(first, first + lanes)
                    for k in range(start, start + lanes)
                )
            ]
            if Flag.FIRST_TILE in flags:
                seen = [*range(tokens)]
            assert [*walked_keys(flags, window, row, tokens, lanes)] == seen
            assert [*walked_keys(flags & ~Flag.WINDOW, window, row, tokens, lanes)] == [
                *range(tokens)
            ]
