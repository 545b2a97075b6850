"""The Python drivers on the simulated accelerator."""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from driver import accelerator, streams
from driver.accelerator import Accelerator, DeviceError, InferenceError
from golden.embedding import embed
from golden.random import random_model
from quant.quantize.quantizers import wide_codes
from rtl.compile.fit import fitting_model
from rtl.compile.program import compile_model, embedding_table
from rtl.control.axi import ADDRESS, REGISTERS
from rtl.interface.command import (
    HEADER_BITS,
    MAGIC,
    PARAMETER_PLANES,
    RMS_BIT,
    ROTARY_BIT,
    SHARED_BIT,
    VERSION,
    WINDOW_BIT,
    Flag,
    Opcode,
)
from rtl.interface.operation import Error
from sim.cycles.model import predict
from sim.machine.board import StreamBoard
from tests import zoo
from tests.driver.conftest import LANES
from tests.driver.device import failing, failing_sequence, is_right, lengths
from tests.driver.headers import ANSWERS, account, any_headers
from verify.driver import DRIVER
from verify.fuzz.subject import POOL, Subject, config, subjects

pytestmark = pytest.mark.verilator


@pytest.fixture
def device(board: StreamBoard) -> Accelerator:
    return Accelerator(board, lambda seconds: board.run(100))


def test_the_registers_are_those_of_the_hardware() -> None:
    assert accelerator.REGISTERS == ADDRESS
    assert list(accelerator.REGISTERS) == [register.name for register in REGISTERS]
    assert (accelerator.ID, accelerator.VERSION) == (MAGIC, VERSION)
    assert set(accelerator.ENDS) == {error.value for error in Error}
    for error in set(Error) - {Error.NONE}:
        assert accelerator.ENDS[error].startswith(f"{error.name}: ")


def test_it_stands_alone() -> None:
    """Copied to a board, it needs Python and nothing else (pynq_dma: PYNQ)."""
    known = set(sys.stdlib_module_names) | {"driver"}
    for path in sorted(DRIVER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            allowed = known | ({"pynq"} if path.name == "pynq_dma.py" else set())
            assert {name.partition(".")[0] for name in names} <= allowed, path


def test_every_model_gives_goldens_logits(
    device: Accelerator, board: StreamBoard, any_subject: Subject
) -> None:
    made = config(LANES).as_dict() | {"columns": config(LANES).tile_columns}
    assert device.limits == {name: made[name] for name in accelerator.LIMITS}
    assert device.check(any_subject.stream) == any_subject.program.tokens
    for number in range(POOL):
        run = any_subject.sound(number)
        board.offer(run, any_subject.table)
        device.start()
        device.wait()
        assert not board.interrupt
        assert is_right(board, run)
        told = predict(any_subject.program, lengths(run), row_latency=run.row_latency)
        stalls = {f"stall_{cause}": cycles for cause, cycles in told.stalls.items()}
        assert device.counters() == {"cycles": told.cycles, "active": told.active, **stalls}


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [
        ("id", 0, "no bert2rtl accelerator: its id is 0x00000000, not 0x54523242"),
        ("version", 3, "the accelerator has version 3, this driver is for 7"),
    ],
)
def test_another_device(register: str, value: int, message: str, board: StreamBoard) -> None:
    board.show(ADDRESS[register], value)
    with pytest.raises(DeviceError, match=message):
        Accelerator(board)
    assert board.accesses[1] == 0


@pytest.mark.parametrize("error", failing(subjects(config(LANES))[0]), ids=lambda error: error.name)
def test_every_error_of_a_stream(
    error: Error, device: Accelerator, board: StreamBoard, subject: Subject
) -> None:
    board.offer(failing(subject)[error], subject.table)
    device.start()
    with pytest.raises(InferenceError, match=f"^{error.name}: ") as caught:
        device.wait()
    assert caught.value.code == error
    assert not board.interrupt
    run = subject.sound(1)
    board.offer(run, subject.table)
    device.start()
    device.wait()
    assert is_right(board, run)


@pytest.mark.parametrize("number", range(3))
def test_the_sequence_that_failed(
    number: int, device: Accelerator, board: StreamBoard, subject: Subject
) -> None:
    board.offer(failing_sequence(subject, number), subject.table)
    device.start()
    with pytest.raises(InferenceError, match=rf"^TOKEN: .* \(sequence {number}\)$") as caught:
        device.wait()
    assert caught.value.sequence == number


def test_busy_and_idle(device: Accelerator, board: StreamBoard, subject: Subject) -> None:
    for early in (device.ended, device.wait):
        with pytest.raises(DeviceError, match="no inference has been started since the reset"):
            early()
    with pytest.raises(DeviceError, match="no inference is under way"):
        device.abort()
    device.start()
    for refused in (device.start, device.counters):
        with pytest.raises(DeviceError, match="under way: wait for it or abort it"):
            refused()
    with pytest.raises(DeviceError, match=r"has not ended in 0\.01 s: wait longer or abort it"):
        device.wait(0.01)
    assert device.abort() is False
    run = subject.sound(4)
    board.offer(run, subject.table)
    board.take_logits(False)
    device.start()
    board.run(5_000)
    with pytest.raises(DeviceError, match=r"has not ended in 0\.01 s"):
        device.abort(0.01)
    board.take_logits(True)
    device.wait()
    assert is_right(board, run)
    board.offer(run, subject.table)
    board.take_logits(False)
    device.start()
    board.run(5_000)
    device._sleep = lambda seconds: board.take_logits(True) or board.run(100)
    assert device.abort() is True


def test_any_header(device: Accelerator) -> None:
    """Refused where the C driver refuses."""
    seen = set()
    for stream in any_headers(3, 2000, LANES):
        code, tokens = account(stream, device.limits | {"version": VERSION})
        seen.add(code)
        if code == 0:
            assert device.check(stream) == tokens
        else:
            with pytest.raises(DeviceError, match=r"^[^\n]{20,}$"):
                device.check(stream)
    assert seen == ANSWERS


def test_any_damaged_stream_is_refused_in_one_line() -> None:
    """EMBED and LOGITS are found, or a ValueError says that not; never another error."""
    rng = Random(11)
    for _ in range(3000):
        stream = bytearray(rng.choice(subjects(config(LANES))).stream)
        for _ in range(rng.choice((1, 2, 4))):
            stream[rng.randrange(400)] = rng.randrange(256)
        del stream[rng.choice((len(stream), rng.randrange(400))) :]
        with suppress(ValueError):
            assert streams.embed(bytes(stream))["lanes"] > 0
        with suppress(ValueError):
            assert streams.logits(bytes(stream), 1) < 1 << 16


@pytest.mark.parametrize("lanes", [LANES, 8])
def test_rows_that_are_given_stand_as_in_the_table(lanes: int) -> None:
    """The table of a model that was compiled with them; what fits none is refused."""
    rng = Random(lanes)
    shape = zoo.shape("pre-norm", vocabulary=3, positions=3, types=0)
    rows = [[rng.randint(-32512, 32512) for _ in range(shape.hidden)] for _ in range(3)]
    rows[1][:4] = [-32512, 32512, 127, -128]
    model = random_model(shape, 1)
    high, low = wide_codes(np.array(rows, np.float64), 255, 1.0)
    zeros = np.zeros((1, 3, shape.hidden), np.int8)
    embedding = replace(
        model.embedding,
        token=high, token_low=low, token_factor=255,
        position=zeros, position_low=zeros, position_factor=1,
    )  # fmt: skip
    model = replace(model, embedding=embedding)
    assert (embed(np.arange(3), np.zeros(3, int), embedding) == rows).all()
    stream = compile_model(model, config(lanes)).stream()
    table = embedding_table(model, lanes).tobytes()
    for count in (0, 2, 3):
        found = streams.given(stream, rows[:count])
        assert found == table[: len(table) // 6 * count]
    for bad, message in (
        ([*rows, rows[0]], "rows are 4: the model takes 1..3"),
        ([rows[0], rows[1][1:]], f"row 1 has {shape.hidden - 1} values"),
        ([[32513, *rows[0][1:]]], "row 0 has 32513"),
    ):
        with pytest.raises(ValueError, match=message):
            streams.given(stream, bad)
    with pytest.raises(ValueError, match="a table of its own: it takes none"):
        streams.given(compile_model(random_model(shape, 2), config(lanes)).stream(), rows)


@pytest.mark.parametrize("lanes", [LANES, 64])
def test_the_fields_of_embed(lanes: int, any_subject: Subject) -> None:
    """At 64 lanes the descriptors before it are padded."""
    model = any_subject.model
    shape = model.shape
    stream = compile_model(model, config(lanes)).stream()
    factors = model.embedding.token_factor | model.embedding.position_factor << 8
    assert streams.embed(stream) == {
        "lanes": lanes,
        "channels": shape.hidden,
        "factors": factors if model.embedding.wide else 0,
        "labels": shape.labels,
        "row_words": -(-shape.hidden // lanes) << model.embedding.wide,
        "token_rows": shape.vocabulary,
        "position_rows": shape.positions,
        "offset": shape.position_offset,
        "types": shape.types,
    }
    five = 5 * shape.labels if shape.pooling == "none" else shape.labels
    assert [streams.logits(stream, tokens) for tokens in (1, 5)] == [shape.labels, five]
    with pytest.raises(ValueError, match="computes no logits: it is cut or damaged"):
        streams.logits(stream[: len(stream) // 2], 1)
    with pytest.raises(ValueError, match="the command stream says 0 lanes: it is damaged"):
        streams.embed(stream[:7] + b"\0" + stream[8:])


@pytest.mark.parametrize("columns", [8, 16, 64])
@pytest.mark.parametrize("kind", ["plain", "biased", "windowed", "gated", "rotary"])
def test_the_fields_of_a_stream_for_a_wide_array(columns: int, kind: str) -> None:
    """Its words are longer than lanes, and LINEARs are padded to tiles of so many columns."""
    shape = zoo.shape("three-heads", head_size=4)
    model = random_model(shape, 5, **zoo.KINDS[kind])
    stream = compile_model(model, fitting_model(model, 8, 9, columns=columns)).stream()
    assert streams.embed(stream)["channels"] == shape.hidden
    assert streams.logits(stream, 4) == shape.labels


def test_the_opcodes_of_streams() -> None:
    names = ("HEADER", "TABLE", "NORM", "EMBED", "LINEAR", "BIAS", "ROTARY")
    assert [Opcode[name] for name in names] == [getattr(streams, name) for name in names]
    names = ("SHIFTS", "FIRST_TILE", "TRANSPOSED", "LOGITS")
    assert [Flag[name] for name in names] == [getattr(streams, name) for name in names]
    assert SHARED_BIT == streams.WIDE == streams.BIASED
    header = streams.WINDOWED, streams.GATED, streams.TURNED
    assert header == (WINDOW_BIT, RMS_BIT, ROTARY_BIT)
    assert HEADER_BITS == accelerator.HEADER_FLAGS
    assert PARAMETER_PLANES == streams.PARAMETER_PLANES
