"""The accelerator with DMA on a memory: golden's logits, exact cycles, and an end to everything."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from golden.encoder import run as golden
from golden.encoder import run_batch
from golden.store import load
from quant.calibrate import ensure
from rtl.accelerator_dma import MOST_OWED
from rtl.compile.fit import fitting
from rtl.compile.image import image_bytes
from rtl.compile.program import Program, compile_model, image_of
from rtl.dma.bus import Bus
from rtl.dma.registers import KEPT
from rtl.interface.operation import Error
from rtl.interface.registers import DMA_REGISTERS
from rtl.registers import registers
from sim.cycles.dma import predict_dma
from sim.design import described
from sim.machine.board import MemoryBoard, design_of
from sim.machine.inference import ABORT
from sim.machine.machine import library
from tb.packing import token_words
from tests.damage import replaced
from tests.sim.dma_subjects import BUS, Subject, board_of, limits, subjects, tagger
from tests.sim.played import NOT_OPTIMISED
from tests.tiers import quick

NEVER = 1 << 62  # a beat that no board comes to


@pytest.fixture(scope="module")
def shared() -> Iterator[MemoryBoard]:
    board = board_of(4, BUS)
    yield board
    board.close()


@pytest.fixture
def board(shared: MemoryBoard) -> Iterator[MemoryBoard]:
    shared.pace(5)
    shared.bad_beat(NEVER)
    shared.reset(2)
    yield shared
    assert shared.complaint() == ""


def right(board: MemoryBoard, subject: Subject, tokens: int, *, point: bool = True) -> None:
    """An inference, compared."""
    if point:
        board.point(subject.image, subject.address)
    assert board.infer(subject.words(tokens)) == (Error.NONE, subject.logits(tokens))
    assert board.waiting == 0


def counted(board: MemoryBoard, program: Program, ids: Any, types: Any, **memory: Any) -> None:
    """The counters of the latest inference are those that are predicted of it."""
    said = predict_dma(program, ids, types, bus=board.bus, **memory)
    shown = {f"stall_{cause}": count for cause, count in said.stalls.items()}
    shown |= {"cycles": said.cycles, "active": said.active}
    assert {name: board.read(name) for name in shown} == shown, (memory, len(ids))


def exact(board: MemoryBoard, latencies: Sequence[int], found: Sequence[Subject]) -> None:
    """Logits and counters of all subjects on memories of these latencies."""
    for subject in found:
        for latency in latencies:
            for tokens in (1, 7, min(12, subject.program.tokens)):
                board.pace(latency)
                right(board, subject, tokens)
                ids, types, _ = subject.sequence(tokens)
                memory = {"latency": latency, "address": subject.address}
                counted(board, subject.program, ids, types, **memory)


def test_logits_and_cycles(board: MemoryBoard) -> None:
    exact(board, (1, 20, 100), (*subjects(4), tagger(4)))


@pytest.mark.parametrize(
    ("number", "lengths"),
    [*((number, of) for number in (0, 1) for of in ((1, 5), (1, 2, 4), (5, 4))),
     *((2, of) for of in ((1, 4), (4, 4), (3, 2)))],
)  # fmt: skip
def test_a_batch(number: int, lengths: tuple[int, ...], board: MemoryBoard) -> None:
    """Logits of each sequence, in order; every cycle."""
    board.pace(20)
    subject = (*subjects(4), tagger(4))[number]
    ids, types, attend = subject.sequence(sum(lengths))
    attend[np.cumsum(lengths) - 1] = 1
    wanted = run_batch(subject.model, ids, types, attend, lengths).reshape(-1)
    board.point(subject.image, subject.address)
    words = token_words(ids, types, attend, lengths).tolist()
    assert board.infer(words) == (Error.NONE, wanted.tolist())
    memory = {"latency": 20, "address": subject.address}
    counted(board, subject.program, ids, types, lengths=lengths, **memory)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lanes", "bus", "options"),
    [
        (4, Bus(data_bits=32), {}),
        (4, Bus(data_bits=128, burst=1, outstanding=2), {}),
        (4, Bus(data_bits=512, burst=64, outstanding=2, address_bits=40), {"columns": 16}),
        (4, BUS, {"bias_heads": 2, "gated": True, "rotary_pairs": 4}),
        (4, BUS, {"columns": 8, "precise": True}),
        (8, Bus(data_bits=32, burst=4, outstanding=16), {"bias_heads": 2}),
        (8, Bus(data_bits=256), {"rotary_pairs": 4}),
        (16, Bus(data_bits=32), {"gated": True}),
        (16, Bus(data_bits=64, address_bits=64), {"rotary_pairs": 4}),
        (16, Bus(data_bits=128), {}),
    ],
    ids=str,
)
def test_other_hardware(lanes: int, bus: Bus, options: dict[str, Any]) -> None:
    """Every width of the bus, number of lanes and option: what comes over the bus for an option
    comes behind the HEADER."""
    board, found = board_of(lanes, bus, **options), subjects(lanes, **options)
    exact(board, (1, 33, 100), found)
    for seed in range(1, 20):
        board.pace(1 + seed, seed)
        right(board, found[seed % 2], 1 + seed % 12)
    bad_beats(board, found, range(0, 10_000, 29))
    aborts(board, found, range(1, 4000, 131))
    assert board.complaint() == ""
    board.close()


@pytest.mark.slow
def test_the_shipped_model() -> None:
    """128 tokens on 8 lanes: golden's logits in the cycles that are predicted."""
    model, bus = load(ensure())[0], Bus()
    config = fitting(model.shape, 8, 128)
    program = compile_model(model, config)
    image = image_of(model, program)
    board = MemoryBoard(library(design_of(config, bus)), bus)
    board.hold({64: image_bytes(image)})
    board.point(image, 64)
    ids = np.random.default_rng(1).integers(0, model.shape.vocabulary, 128)
    none, all_ = np.zeros(128, int), np.ones(128, int)
    for latency in (20, 100):
        board.pace(latency)
        code, logits = board.infer((ids | 1 << 25).tolist())
        assert (code, logits) == (Error.NONE, golden(model, ids, none, all_).tolist())
        counted(board, program, ids.tolist(), none.tolist(), latency=latency, address=64)
    assert board.complaint() == ""
    board.close()


def test_memories_that_rest(board: MemoryBoard) -> None:
    for seed in range(1, 16):
        board.pace(1 + 3 * seed, seed, gap=seed % 3)
        right(board, subjects(4)[seed % 2], 1 + seed * 5 % 12)


def bad_beats(board: MemoryBoard, found: Sequence[Subject], beats: Sequence[int]) -> int:
    """Inferences of which one beat is bad; how many of the beats they had."""
    played = 0
    for beat in beats:
        subject, other = found[:: 1 if beat % 2 else -1]
        board.pace(1 + beat % 40, beat % 3)
        board.point(subject.image, subject.address)
        before = board.beats
        board.bad_beat(before + beat, 2 + beat % 2)
        ended = board.infer(subject.words(5))
        if before + beat >= board.beats:  # it has no such beat
            assert ended == (Error.NONE, subject.logits(5))
            board.bad_beat(NEVER)
            break
        assert ended == (Error.BUS, []), beat
        assert board.waiting == 0
        right(board, other, 3)
        played += 1
    return played


@pytest.mark.parametrize(
    ("beats", "least"), quick([([*range(12), *range(12, 400, 17)], 20), (range(10_000), 150)])
)
def test_a_bad_beat(beats: Sequence[int], least: int, board: MemoryBoard) -> None:
    """A beat of the stream or of rows ends the inference, and the next is right."""
    assert bad_beats(board, subjects(4), beats) > least


def aborts(board: MemoryBoard, found: Sequence[Subject], cycles: Sequence[int]) -> int:
    """Aborts so many cycles after the start; how many came in time."""
    early = 0
    for cycle in cycles:
        subject, other = found[:: 1 if cycle % 2 else -1]
        board.pace(1 + cycle % 60, cycle % 4)
        board.point(subject.image, subject.address)
        board.send(subject.words(6))
        board.start()
        board.step(cycle)
        assert board.write("control", ABORT)
        code, logits = board.ended()
        assert (code, logits) in [(Error.ABORTED, []), (Error.NONE, subject.logits(6))], cycle
        assert board.waiting == 0, "memory is still being read"
        assert board.read("status") & 1 == 0
        early += code == Error.ABORTED
        right(board, other, 4)
    return early


@pytest.mark.parametrize(
    ("cycles", "least"), quick([([*range(16), *range(16, 2500, 97)], 20), (range(3000), 1000)])
)
def test_aborts(cycles: Sequence[int], least: int, board: MemoryBoard) -> None:
    assert aborts(board, subjects(4), cycles) > least


@pytest.mark.parametrize(
    ("register", "value"),
    [
        *((name, odd) for name in ("model_address", "rows_address") for odd in (1, 2, 0x1003)),
        *((name, 1) for name in ("model_address_high", "rows_address_high")),
        *(("model_bytes", size) for size in (0, 28, 130)),
        *(("row_bytes", size) for size in (0, 2, 7, 36, 1 << 16, 1 << 31)),
    ],
)
def test_what_cannot_be_an_address_or_a_size(register: str, value: int, board: MemoryBoard) -> None:
    subject = subjects(4)[0]
    board.point(subject.image, subject.address)
    good = board.read(register)
    before = board.bursts
    assert board.write(register, value)
    assert board.infer(subject.words(5)) == (Error.ADDRESS, [])
    begin = board.now
    board.start()
    assert board.ended() == (Error.ADDRESS, [])
    assert board.now < begin + 40, "it waits for tokens"
    assert board.bursts == before, "something was read"
    board.send(subject.words(4))  # those of the failed inference
    assert board.write(register, good)
    right(board, subject, 5, point=False)


def test_tokens_before_and_after_the_start(board: MemoryBoard) -> None:
    subject = subjects(4)[0]
    board.point(subject.image, subject.address)
    board.start()
    board.step(700)
    board.send(subject.words(7))
    board.step(200)
    board.send(subject.words(4))  # of the next inference
    assert board.ended() == (Error.NONE, subject.logits(7))
    board.start()
    assert board.ended() == (Error.NONE, subject.logits(4))
    # A failure takes its own tokens alone; an abort empties the FIFO.
    board.send([0] * 3)  # no attend bit
    board.send(subject.words(4))
    board.start()
    assert board.ended() == (Error.NO_KEY, [])
    board.start()
    assert board.ended() == (Error.NONE, subject.logits(4))
    board.send([0] * 3)
    board.write("control", ABORT)
    right(board, subject, 9)


@pytest.mark.parametrize("seed", quick(range(8), 3))
def test_each_start_takes_one_packet(seed: int, board: MemoryBoard) -> None:
    """Failed or not, whatever of its packet is there when it ends and whenever the rest comes."""
    draw, subject = random.Random(seed), subjects(4)[0]
    board.pace(1 + 9 * seed, seed, gap=seed % 3)
    board.point(subject.image, subject.address)
    rows, stream = (board.read(name) for name in ("row_bytes", "model_address"))
    queue: list[tuple[str, int]] = []

    def write(most: int) -> None:
        for _ in range(min(most, len(queue))):
            assert board.write(*queue.pop(0))

    for _ in range(24):
        tokens = draw.randint(1, 12)
        kind = draw.choice((Error.NONE, Error.ADDRESS, Error.FORMAT, Error.NO_KEY))
        words = [0] * tokens if kind == Error.NO_KEY else subject.words(tokens)
        queue += [("token", int(word)) for word in words[:-1]] + [("token_last", int(words[-1]))]
        board.write("row_bytes", rows + (kind == Error.ADDRESS))
        board.write("model_address", stream + 4 * (kind == Error.FORMAT))
        write(draw.choice((0, draw.randint(0, len(queue)), len(queue))))
        board.start()
        if kind in (Error.NONE, Error.NO_KEY):
            board.step(draw.choice((0, 300)))
            write(len(queue))
        wanted = subject.logits(tokens) if kind == Error.NONE else []
        code, logits = board.ended()
        # At another place there is no descriptor: that its CRC is wrong is said as well.
        assert (Error.FORMAT if code == Error.CRC else code) == kind
        assert logits == wanted


def test_packets_that_never_come(board: MemoryBoard) -> None:
    """Packets up to the most; then a start is refused, and an abort forgets them."""
    subject = subjects(4)[0]
    for kept in (MOST_OWED, MOST_OWED - 1):
        board.point(subject.image, subject.address)
        board.write("row_bytes", 0)
        for _ in range(MOST_OWED):
            assert board.write("control", 1)
            assert board.ended() == (Error.ADDRESS, [])
        assert not board.write("control", 1)
        for _ in range(MOST_OWED - kept):
            board.send(subject.words(1))
        if kept == MOST_OWED:
            board.write("control", ABORT)
        else:
            board.point(subject.image, subject.address)
            for _ in range(kept):
                board.send(subject.words(2))
        right(board, subject, 3)


def test_the_fifos(board: MemoryBoard) -> None:
    subject = subjects(4)[0]
    assert board.read("logit") == 0
    for count in range(512):
        assert board.read("token_room") == 512 - count
        assert board.write("token", count)
    assert not board.write("token", 1)
    assert not board.write("token_last", 1)
    board.write("control", ABORT)
    assert board.read("token_room") == 512
    right(board, subject, 3)
    board.infer(subject.words(3))
    assert board.read("logits_waiting") == 0
    board.send(subject.words(4))
    board.start()
    assert board.until_interrupt()
    labels = subject.logits(4)
    assert board.read("logits_waiting") == len(labels)
    assert board.read("logit") == labels[0] % (1 << 32)
    right(board, subject, 6)  # what was not read is gone


def test_every_register_is_what_the_map_says(board: MemoryBoard) -> None:
    known = {r.name: r for r in registers(limits(4), bus=BUS)}
    draw = random.Random(1)
    state = {}
    for register in DMA_REGISTERS:
        (field,) = known[register.name].fields
        if field.access != "wo":
            assert board.read(register.name) == field.reset, register.name
        state[register.name] = field.reset
    for _ in range(150):
        name = draw.choice(KEPT)
        value, strobe = draw.getrandbits(32), draw.choice((15, 15, draw.randrange(16)))
        assert board.write(name, value, strobe) == (strobe == 15)
        if strobe == 15:
            state[name] = value
        read = draw.choice(KEPT)
        assert board.read(read) == state[read]
    for name in ("token_room", "logit", "logits_waiting", "bus_bytes"):
        assert not board.write(name, 1)
    for strobe in range(15):
        assert not board.write("token", 1, strobe)
    assert board.read("token_room") == 512
    assert board.read("token") == board.read("token_last") == 0
    assert board.read(0xB0) == 0
    assert not board.write(0xB0, 1)
    subject = subjects(4)[0]
    board.point(subject.image, subject.address)
    kept = {name: board.read(name) for name in KEPT}
    board.start()
    assert not any(board.write(name, 0) for name in KEPT), "it was changed while busy"
    board.send(subject.words(5))
    assert board.ended() == (Error.NONE, subject.logits(5))
    assert {name: board.read(name) for name in KEPT} == kept


HANGS = "^no interrupt in 100000 cycles$"
#: The check that sees a fault and how it fails, the part of rtl/, what it says and what the fault
#: says.
FAULTS: dict[str, tuple[Callable[[MemoryBoard], object], str, str, str, str]] = {
    "the address of a row": (
        test_logits_and_cycles, r"^assert \(0, .* == \(<Error.NONE",
        "row_addresses", "once << 2", "once << 1",
    ),
    "bursts for which there is no room": (
        test_memories_that_rest, r"^assert \(2, \[\]\) == \(<Error.NONE",
        "fetch", "words.free >= bursts.o.payload.length", "words.free > 0",
    ),
    "a bad beat is ignored": (
        partial(test_a_bad_beat, range(40), 0), r"^0\nassert \(0, .* == \(<Error.BUS",
        "accelerator_dma", "m.Elif(fetch.error)", "m.Elif(fetch.error & 0)",
    ),
    "an end does not wait": (
        partial(test_aborts, [*range(16), *range(16, 2500, 97)], 20), "memory is still being read",
        "accelerator_dma", "inner.pending.eq(fetch.pending)", "inner.pending.eq(0)",
    ),
    "a bad address is no error": (
        partial(test_what_cannot_be_an_address_or_a_size, "row_bytes", 7), HANGS,
        "accelerator_dma", "m.If(control.begin & behind.wrong)",
        "m.If(control.begin & behind.wrong & 0)",
    ),
    "no word ends the stream": (
        test_tokens_before_and_after_the_start, HANGS,
        "accelerator_dma", "control.reset, control.drain_model,", "control.reset, 0,",
    ),
    "a packet is dropped for good": (
        partial(test_each_start_takes_one_packet, 2), HANGS, "accelerator_dma",
        "owed + control.drain_tokens - dropped", "owed + control.drain_tokens",
    ),
    "an abort forgets no packet": (
        test_packets_that_never_come, HANGS,
        "accelerator_dma", "m.If(registers.abort)", "m.If(registers.abort & 0)",
    ),
    "logits stay after a start": (
        test_the_fifos, r"At index 1 diff: \[(-?\d+, ){4}-?\d+\] !=",
        "accelerator_dma", "clear_logits.eq(registers.start)", "clear_logits.eq(0)",
    ),
    "addresses change while busy": (
        test_every_register_is_what_the_map_says, HANGS,
        "rtl/dma/registers", "self.writes, name) & ~self.busy", "self.writes, name)",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.machine.board.MOST", 100_000)
    check, says, part, *piece = FAULTS[fault]
    with replaced(part, tuple(piece)):
        made = import_module("rtl.accelerator_dma")
        design = described(made.AcceleratorDma(limits(4), BUS), made.NAME, limits(4))
    variant = f"-fault-{list(FAULTS).index(fault)}"
    board = board_of(4, BUS, library(design, variant, NOT_OPTIMISED))
    board.pace(5)
    board.reset(2)
    with pytest.raises((AssertionError, TimeoutError), match=says):
        check(board)
    board.close()
