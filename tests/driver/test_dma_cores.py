"""Drivers of several accelerators that share a memory: a queue, answers in order, errors apart."""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from driver.accelerator import DeviceError, InferenceError
from driver.dma import SPAN, DmaCores
from rtl.compile.batches import pack
from rtl.compile.image import image_bytes
from rtl.dma.share import CORE_ADDRESS_BITS
from rtl.interface.operation import Error
from sim.machine.board import BASE, MemoryBoard, design_of, library
from tests.driver.device import Device
from tests.driver.test_dma import LANES, PLACE, Parts, Registers
from tests.sim.dma_subjects import BUS, board_of, limits, subjects
from verify.driver import DRIVER, driver_library

pytestmark = [pytest.mark.verilator, pytest.mark.thorough]
CORES = 2
SHARED = replace(BUS, cores=CORES)
SUBJECT = subjects(LANES)[0]
IMAGE = image_bytes(SUBJECT.image)
NEVER = 1 << 62


@pytest.fixture(scope="module")
def made() -> Iterator[MemoryBoard]:
    board = board_of(LANES, SHARED)
    board.hold({PLACE: IMAGE})
    yield board
    board.close()


@pytest.fixture
def memory(made: MemoryBoard) -> Iterator[Registers]:
    made.reset(2)
    made.pace(9, 3)
    made.bad_beat(NEVER)
    yield Registers(made)
    assert made.complaint() == ""


@pytest.fixture
def cores(memory: Registers) -> DmaCores:
    return DmaCores(memory, CORES, lambda seconds: memory.board.run(100))


def drawn(seed: int, count: int) -> tuple[list[int], list[list[int]], ...]:
    """Lengths, ids, types and attend of so many sequences."""
    draw = random.Random(seed)
    lengths = [draw.randint(1, 12) for _ in range(count)]
    parts = [[part.tolist() for part in SUBJECT.sequence(tokens)] for tokens in lengths]
    return lengths, *([one[k] for one in parts] for k in range(3))


@pytest.mark.parametrize("seed", range(3))
def test_answers_in_order_and_all_busy(seed: int, cores: DmaCores, memory: Registers) -> None:
    with pytest.raises(DeviceError, match="no image is in use"):
        cores.infer_all([[1]])
    assert cores.use(IMAGE, PLACE) == 12
    lengths, ids, types, attend = drawn(seed, 15)
    before = memory.board.now
    found = cores.infer_all(ids, types, attend)
    took = memory.board.now - before
    assert found == [SUBJECT.logits(tokens) for tokens in lengths]
    assert cores.infer_all([]) == []
    before = memory.board.now
    alone = cores.cores[1].infer_all(ids, types, attend)
    assert alone == found
    assert took < 0.75 * (memory.board.now - before), "they did not run side by side"


def test_what_fails_has_its_error_and_the_rest_goes_on(cores: DmaCores, memory: Registers) -> None:
    """A sequence without a key; a beat with an error; both of one inference alone."""
    cores.use(IMAGE, PLACE)
    lengths, ids, types, attend = drawn(7, 12)
    batches = pack(SUBJECT.program, lengths)
    for wrong in ({0}, {5, 6}, set(range(12))):
        hidden = [[0] * len(one) if k in wrong else one for k, one in enumerate(attend)]
        for place, logits in enumerate(cores.infer_all(ids, types, hidden)):
            if place in wrong:
                assert isinstance(logits, InferenceError)
                assert (logits.code, logits.sequence) == (Error.NO_KEY, place)
            else:
                assert logits == SUBJECT.logits(lengths[place])
    memory.board.bad_beat(memory.board.beats + 40)
    found = cores.infer_all(ids, types, attend)
    bad = {k for k, logits in enumerate(found) if isinstance(logits, InferenceError)}
    assert bad in [set(batch) for batch in batches]
    for number, logits in enumerate(found):
        if isinstance(logits, InferenceError):
            assert (logits.code, logits.sequence) == (Error.BUS, None)
        else:
            assert logits == SUBJECT.logits(lengths[number])
    memory.board.bad_beat(NEVER)
    assert cores.infer_all(ids, types, attend) == [SUBJECT.logits(n) for n in lengths]


def test_what_is_refused(cores: DmaCores, memory: Registers) -> None:
    cores.use(IMAGE, PLACE)
    for given, message in (
        (([[1], []],), "^sequence 1: the sequence is empty"),
        (([[1], [1] * 13],), r"^sequence 1: the sequence has 13 tokens: 1\.\.12 can be run"),
        (([[1], [1]], [[0]]), "^types has 1 sequences, ids has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            cores.infer_all(*given)
    with pytest.raises(ValueError, match=r"^count is 0: there is 1 core at least"):
        DmaCores(memory, 0)
    with pytest.raises(DeviceError, match=r"has not ended in 0 s"):
        cores.infer_all([[1]], seconds=0)


@pytest.mark.slow
def test_more_cores_than_there_are() -> None:
    """Three behind addresses for four: the fourth answers with an error."""
    bus = replace(BUS, cores=3)
    board = MemoryBoard(library(design_of(limits(LANES), bus), bus), bus)
    with pytest.raises(DeviceError, match="no bert2rtl accelerator: its id is 0x00000000"):
        DmaCores(Registers(board), 4)
    assert "a bus fault" in board.complaint()
    board.close()


def test_the_c_driver_reaches_every_core(memory: Registers, tmp_path: Path) -> None:
    """Each as a device of its own, one image for all, all under way at once."""
    header = (DRIVER / "bert2rtl_dma.h").read_text()
    stride = int(re.findall(r"B2RTL_CORE_BYTES = (\w+),", header)[0], 16)
    assert stride == SPAN == 1 << CORE_ADDRESS_BITS
    program = library(design_of(limits(LANES), SHARED), SHARED)
    compiled = driver_library(program, tmp_path, further=["bert2rtl_dma.c"])
    devices, parts = [Device() for _ in range(CORES)], Parts()
    sizes = ctypes.c_uint64(len(IMAGE)), ctypes.c_uint64(PLACE)
    for number, device in enumerate(devices):
        one = ctypes.byref(device)
        assert compiled.b2rtl_open(one, ctypes.c_size_t(BASE + number * stride)) == 0
        assert compiled.b2rtl_read_image(one, IMAGE, *sizes, ctypes.byref(parts)) == 0
        assert compiled.b2rtl_use_image(one, ctypes.byref(parts)) == 0
        words = SUBJECT.words(4 + number)
        given = (ctypes.c_uint32 * len(words))(*words)
        assert compiled.b2rtl_send_tokens(one, given, len(words)) == 0
    for device in devices:
        assert compiled.b2rtl_start(ctypes.byref(device)) == 0
    logits, count = (ctypes.c_int32 * 8)(), ctypes.c_uint32()
    for number, device in enumerate(devices):
        one = ctypes.byref(device)
        assert compiled.b2rtl_wait(one, ctypes.c_uint32(1 << 20)) == 0
        assert compiled.b2rtl_read_logits(one, logits, 8, ctypes.byref(count)) == 0
        assert list(logits[: count.value]) == SUBJECT.logits(4 + number)
