"""The drivers of the memory side, in C and Python, on the simulated accelerator with DMA."""

from __future__ import annotations

import ctypes
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driver import dma, streams
from driver.accelerator import REGISTERS, START, DeviceError, InferenceError
from driver.dma import DmaAccelerator
from golden.identity import identity_of
from rtl.compile.batches import pack
from rtl.compile.image import image_bytes
from rtl.dma.registers import DMA_REGISTERS
from rtl.interface.operation import Error
from sim.machine.board import BASE, MemoryBoard, design_of, library
from tests.damage import any_damage, sections
from tests.driver.device import Device
from tests.sim.dma_subjects import BUS, board_of, limits, subjects, tagger
from verify.driver import DRIVER, driver_library

pytestmark = pytest.mark.verilator
PLACE = 0x4000
LANES = 4
DAMAGED, NO_IMAGE, PLACED, NO_TOKENS, NO_ROOM, OTHER_ROWS = -15, -14, -16, -17, -18, -19


class Registers:
    """A board as the Python driver reaches it: what is refused is a fault."""

    def __init__(self, board: MemoryBoard) -> None:
        self.board, self.writes, self.starts = board, 0, 0

    def read(self, offset: int) -> int:
        return self.board.read(offset)

    def write(self, offset: int, value: int) -> None:
        self.writes += 1
        self.starts += offset == REGISTERS["control"] and value == START
        assert self.board.write(offset, value), f"the write of {value} to {offset:#x} is refused"


@pytest.fixture(scope="module")
def made() -> Iterator[MemoryBoard]:
    board = board_of(LANES, BUS)
    yield board
    board.close()


@pytest.fixture
def board(made: MemoryBoard) -> Iterator[MemoryBoard]:
    made.reset(2)
    made.pace(9, 3)
    made.hold({PLACE: image_bytes(subjects(LANES)[0].image)})
    yield made
    assert made.complaint() == ""


@pytest.fixture
def memory(board: MemoryBoard) -> Registers:
    return Registers(board)


@pytest.fixture
def device(memory: Registers) -> DmaAccelerator:
    return DmaAccelerator(memory, lambda seconds: memory.board.run(100))


def sequence(tokens: int) -> tuple[list[int], list[int], list[int]]:
    ids, types, attend = subjects(LANES)[0].sequence(tokens)
    return ids.tolist(), types.tolist(), attend.tolist()


def changed(image: bytes, at: int) -> bytes:
    return image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :]


def signed(image: bytes, at: int, value: int) -> bytes:
    """With another byte in its header, under a right CRC."""
    header = bytearray(image[:128])
    header[at] = value
    header[12:16] = bytes(4)
    header[12:16] = zlib.crc32(header).to_bytes(4, "little")
    return bytes(header) + image[128:]


def test_no_damage_of_an_image_is_used(
    device: DmaAccelerator, memory: Registers, compiled: Any
) -> None:
    """Any byte changed, cut or added, by both drivers: nothing of it reaches a register."""
    made = subjects(LANES)[0].image
    data = image_bytes(made)
    one, parts = ctypes.byref(Device()), Parts()
    assert compiled.b2rtl_open(one, ctypes.c_size_t(BASE)) == 0
    rows = range(made.rows_offset, len(data), 7)
    every = [*any_damage(data, 36, 300, sections(made)), *(changed(data, at) for at in rows)]
    for damaged in every:
        with pytest.raises(DeviceError, match=r"^(the image is damaged|this is no image)"):
            device.use(damaged, PLACE)
        numbers = (ctypes.c_uint64(len(damaged)), ctypes.c_uint64(PLACE))
        code = compiled.b2rtl_read_image(one, damaged, *numbers, ctypes.byref(parts))
        assert code in (DAMAGED, NO_IMAGE)
    assert not any(bytes(parts))
    assert (memory.writes, device.model) == (0, "")


def test_the_drivers_tell_which_model_an_image_has(device: DmaAccelerator, compiled: Any) -> None:
    subject = subjects(LANES)[0]
    data, model = image_bytes(subject.image), identity_of(subject.model)
    device.use(data, PLACE)
    assert device.model == model.hex() == streams.model(subject.image.stream)
    one, parts = ctypes.byref(Device()), Parts()
    compiled.b2rtl_open(one, ctypes.c_size_t(BASE))
    for image, code in (
        (data, 0),
        (signed(data, 8, 1), NO_IMAGE),
        (signed(data, 90, data[90] ^ 1), OTHER_ROWS),
    ):
        numbers = (ctypes.c_uint64(len(data)), ctypes.c_uint64(PLACE))
        assert compiled.b2rtl_read_image(one, image, *numbers, ctypes.byref(parts)) == code
    assert bytes(parts.model) == model


def test_python_gives_goldens_logits(device: DmaAccelerator) -> None:
    subject = subjects(LANES)[0]
    assert {r.name: r.address for r in DMA_REGISTERS} == dma.DMA_REGISTERS
    assert device.use(image_bytes(subject.image), PLACE) == 12
    for tokens in (1, 12, 5):
        assert device.infer(*sequence(tokens)) == subject.logits(tokens)
    drawn = np.array(sequence(8))
    drawn[2, [0, 1, 7]] = 1  # attend bits
    parts = np.split(drawn, [1, 5], axis=1)
    alone = [logit for part in parts for logit in device.infer(*part.tolist())]
    assert device.infer(*drawn.tolist(), lengths=[1, 4, 3]) == alone
    with pytest.raises(InferenceError, match="NO_KEY"):
        device.infer([1, 2], [0, 0], [0, 0])
    device._set("model_address", PLACE + 2)
    with pytest.raises(InferenceError, match="ADDRESS: an address or a size"):
        device.infer(*sequence(2))


def test_python_fills_batches(device: DmaAccelerator, memory: Registers) -> None:
    """As many an inference as fit; the logits, and what is refused, by the order of the texts."""
    subject = subjects(LANES)[0]
    with pytest.raises(DeviceError, match="no image is in use"):
        device.infer_all([[1]])
    device.use(image_bytes(subject.image), PLACE)
    lengths = [3, 12, 1, 4, 5, 1]
    drawn = [sequence(tokens) for tokens in lengths]
    ids, types, attend = ([one[part] for one in drawn] for part in range(3))
    starts = memory.starts
    assert device.infer_all(ids, types, attend) == [subject.logits(tokens) for tokens in lengths]
    batches = len(pack(subject.program, lengths))
    assert memory.starts - starts == batches < len(lengths)
    assert device.infer_all([]) == []
    plain = [device.infer(one, [0] * len(one), [1] * len(one)) for one in ids]
    assert device.infer_all(ids) == plain
    for place in range(len(ids)):
        hidden = [[int(place != number)] * len(one) for number, one in enumerate(ids)]
        with pytest.raises(InferenceError, match=rf"NO_KEY.*\(sequence {place}\)$"):
            device.infer_all(ids, None, hidden)
    writes = memory.writes
    for given, message in (
        (([[1], []],), "^sequence 1: the sequence is empty"),
        (([[1], [1] * 13],), r"^sequence 1: the sequence has 13 tokens: 1\.\.12 can be run"),
        (([[1], [1]], [[0]]), "^types has 1 sequences, ids has 2"),
        (([[1]], None, [[2]]), "^sequence 0: attend has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            device.infer_all(*given)
    assert memory.writes == writes


def test_python_gives_every_token_its_logits(device: DmaAccelerator, memory: Registers) -> None:
    """No more tokens together than there is room for the logits of; a packet each."""
    subject = tagger(LANES)
    memory.board.hold({PLACE: image_bytes(subject.image)})
    assert device.use(image_bytes(subject.image), PLACE) == 8
    lengths = [3, 8, 1, 4, 5]
    drawn = [[part.tolist() for part in subject.sequence(tokens)] for tokens in lengths]
    ids, types, attend = ([one[part] for one in drawn] for part in range(3))
    starts = memory.starts
    found = device.infer_all(ids, types, attend)
    assert found == [subject.logits(tokens) for tokens in lengths]
    assert [len(logits) for logits in found] == [2 * tokens for tokens in lengths]
    assert memory.starts - starts == len(pack(subject.program, lengths)) == 4
    with pytest.raises(InferenceError, match="LIMIT"):
        device.infer_all(ids, types, attend, row_tiles=3)


def test_what_python_refuses(device: DmaAccelerator, memory: Registers) -> None:
    image = image_bytes(subjects(LANES)[0].image)
    wrong = (1 << 31).to_bytes(4, "little")
    for data, address, message in (
        (b"", PLACE, "this is no image: rtl.compile --image writes one"),
        (b"x" * 500, PLACE, "this is no image"),
        (image[:-1], PLACE, "damaged or cut"),
        (changed(image, 60), PLACE, "damaged or cut"),
        (image[:12] + wrong + image[16:], PLACE, "damaged or cut"),
        (signed(image, 8, 1), PLACE, "has format 1, this driver is for 2: write it again with rtl"),
        (signed(image, 88, image[88] ^ 1), PLACE, "the image has stream and rows of two models"),
        (image, PLACE + 32, "the image lies at 0x4020: it must be a multiple of 64"),
    ):
        with pytest.raises(DeviceError, match=message):
            device.use(data, address)
    with pytest.raises(ValueError, match="the sequence is empty"):
        device.send([], [], [])
    with pytest.raises(DeviceError, match="the sequence has 513 tokens: there is room for 512"):
        device.send([1] * 513, [0] * 513, [1] * 513)
    with pytest.raises(DeviceError, match="the batch has 600 tokens: there is room for 512"):
        device.send([1] * 600, [0] * 600, [1] * 600, [300, 300])
    assert memory.writes == 0
    device.use(image, PLACE)
    device.start()
    writes = memory.writes
    with pytest.raises(DeviceError, match="an inference is under way"):
        device.use(image, PLACE)
    assert memory.writes == writes
    assert not device.abort()


class Parts(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("stream", "rows")),
        *((name, ctypes.c_uint32) for name in ("stream_bytes", "row_bytes", "row_count", "tokens")),
        ("model", ctypes.c_uint8 * 8),
    )


@pytest.fixture
def compiled(board: MemoryBoard, tmp_path: Path) -> Any:
    program = library(design_of(limits(LANES), BUS), BUS)
    return driver_library(program, tmp_path, further=["bert2rtl_dma.c"])


def test_the_registers_of_the_header() -> None:
    text = (DRIVER / "bert2rtl_dma.h").read_text()
    found = {
        name: int(value, 16) for name, value in re.findall(r"B2RTL_(\w+) = (0x\w\w),?$", text, re.M)
    }
    names = {"token": "token_word"}
    assert found == {names.get(r.name, r.name).upper(): r.address for r in DMA_REGISTERS}


def test_c_gives_goldens_logits(compiled: Any, board: MemoryBoard) -> None:
    subject = subjects(LANES)[0]
    data = image_bytes(subject.image)
    device, parts = Device(), Parts()
    one, image = ctypes.byref(device), ctypes.byref(parts)

    def read(bytes_: bytes, size: int, address: int = PLACE) -> int:
        return int(
            compiled.b2rtl_read_image(
                one, bytes_, ctypes.c_uint64(size), ctypes.c_uint64(address), image
            )
        )

    def send(words: list[int]) -> int:
        given = (ctypes.c_uint32 * len(words))(*words)
        return int(compiled.b2rtl_send_tokens(one, given, ctypes.c_uint32(len(words))))

    assert read(data, len(data)) == compiled.b2rtl_use_image(one, image) == send([1]) == -3
    assert compiled.b2rtl_open(one, ctypes.c_size_t(BASE)) == 0
    assert read(data, 127) == read(b"x" * 200, 200) == NO_IMAGE
    assert read(data, len(data) - 1) == DAMAGED
    for at in range(8, 128):
        code = read(changed(data, at), len(data))
        assert code == DAMAGED, at
    assert read(data, len(data), PLACE + 8) == PLACED
    assert send([]) == NO_TOKENS
    assert send([1] * 513) == NO_ROOM
    assert read(data, len(data)) == 0
    assert (parts.stream, parts.tokens) == (PLACE + 128, 12)
    assert (parts.row_bytes, parts.row_count) == (subject.image.row_bytes, subject.image.row_count)
    assert compiled.b2rtl_use_image(one, image) == 0
    logits, count = (ctypes.c_int32 * 8)(), ctypes.c_uint32()
    for tokens in (4, 11):
        assert send(subject.words(tokens)) == 0
        assert compiled.b2rtl_start(one) == 0
        assert compiled.b2rtl_use_image(one, image) == -4
        assert compiled.b2rtl_wait(one, ctypes.c_uint32(1 << 20)) == 0
        assert compiled.b2rtl_read_logits(one, logits, 8, ctypes.byref(count)) == 0
        assert list(logits[: count.value]) == subject.logits(tokens)
    board.bad_beat(board.beats + 30, 3)
    assert send(subject.words(3)) == 0
    assert compiled.b2rtl_start(one) == 0
    assert compiled.b2rtl_wait(one, ctypes.c_uint32(1 << 20)) == Error.BUS
    board.bad_beat(1 << 62)
