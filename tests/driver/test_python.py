"""The Python driver alone: its tables, its streams, and many sequences at once."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from driver import bert2rtl
from driver.bert2rtl import DeviceError, DmaAccelerator, InferenceError
from golden.embedding import embed
from golden.encoder import run as golden
from golden.identity import IDENTITY_BYTES, identity_of
from golden.random import Kind, random_model
from quant.quantize.quantizers import table_codes
from rtl.compile import image
from rtl.compile.batches import pack
from rtl.compile.fit import fitting_model
from rtl.compile.image import image_bytes
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.command import DESCRIPTOR_BYTES, MAGIC, PARAMETER_PLANES, VERSION
from rtl.interface.isa import BITS, Flag, Opcode
from rtl.interface.operation import Error
from rtl.interface.registers import DMA_REGISTERS, REGISTERS
from rtl.registers import registers
from sim.machine.board import BASE, MemoryBoard
from tests import zoo
from tests.driver.conftest import CONFIG
from tests.driver.drivers import PLACE, Bus
from tests.driver.headers import HEADER_AT, NUMBERS
from tests.driver.library import DRIVER
from tests.sim.dma_subjects import Subject, subjects, tagger
from verify.fuzz.subject import config
from verify.fuzz.subject import subjects as fuzzed

LANES = CONFIG.lanes


def test_its_numbers_are_those_of_the_hardware() -> None:
    shown = [(r.name, r.address) for r in (*REGISTERS, *DMA_REGISTERS)]
    assert list(bert2rtl.REGISTERS.items()) == shown
    assert 1 << max(bert2rtl.REGISTERS.values()).bit_length() == bert2rtl.SPAN
    assert bert2rtl.ID == MAGIC
    assert set(bert2rtl.ENDS) == {error.value for error in Error}
    for error in set(Error) - {Error.NONE}:
        assert bert2rtl.ENDS[error].startswith(f"{error.name}: ")
    for name in ("HEADER", "TABLE", "NORM", "EMBED", "LINEAR", "BIAS", "ROTARY"):
        assert getattr(bert2rtl, name) == Opcode[name]
    for name in ("SHIFTS", "FIRST_TILE", "TRANSPOSED", "LOGITS", "WIDE"):
        assert getattr(bert2rtl, name) == 1 << BITS[Flag[name]]
    assert {name: getattr(bert2rtl, name) for name in NUMBERS} == NUMBERS
    found = bert2rtl.VERSION, bert2rtl.DESCRIPTOR_BYTES, bert2rtl.PARAMETER_PLANES
    assert found == (VERSION, DESCRIPTOR_BYTES, PARAMETER_PLANES)
    model = bert2rtl.MODEL_AT, bert2rtl.MODEL_BYTES
    assert model == (HEADER_AT["MODEL_AT"], IDENTITY_BYTES)
    bits = {field.name: 1 << field.low for r in registers(CONFIG) for field in r.fields}
    its = {name: getattr(bert2rtl, name.upper()) for name in ("start", "abort", "busy", "done")}
    assert its.items() <= bits.items()
    assert bert2rtl.OF_A_SEQUENCE == (Error.LENGTH, Error.TOKEN, Error.NO_KEY, Error.ROW)
    whole = bert2rtl.IMAGE_MAGIC, bert2rtl.IMAGE_HEADER_BYTES
    assert whole == (image.MAGIC, image.HEADER.size)
    assert image.HEADER.format.startswith(bert2rtl.IMAGE_HEADER.format)


@pytest.mark.parametrize("path", sorted(DRIVER.glob("*.py")), ids=lambda path: path.name)
def test_it_needs_the_standard_library_alone(path: Path) -> None:
    code = f"import runpy; runpy.run_path({str(path)!r})"
    done = subprocess.run([sys.executable, "-S", "-I", "-c", code], capture_output=True)
    assert done.stderr.decode() == ""


def test_any_damaged_stream_is_refused_in_one_line() -> None:
    """EMBED and LOGITS are found, or a DeviceError says that not; never another error."""
    rng = Random(11)
    for _ in range(3000):
        stream = bytearray(rng.choice(fuzzed(CONFIG)).stream)
        for _ in range(rng.choice((1, 2, 4))):
            stream[rng.randrange(400)] = rng.randrange(256)
        del stream[rng.choice((len(stream), rng.randrange(400))) :]
        with suppress(DeviceError):
            assert bert2rtl._labels(bytes(stream))[0] < 1 << 16
        with suppress(DeviceError):
            bert2rtl.embedding_rows(bytes(stream), [])


@pytest.mark.parametrize("columns", [None, 8, 16, 64])
@pytest.mark.parametrize("kind", ["plain", "precise", "biased", "windowed", "gated", "rotary"])
def test_the_logits_of_any_stream(columns: int | None, kind: str) -> None:
    """Behind every kind of payload, for words as long as a tile and longer."""
    for name in ("three-heads", "every-token"):
        shape = zoo.shape(name, head_size=4)
        model = random_model(shape, 5, Kind(**zoo.KINDS[kind]).fitting(shape))
        stream = compile_model(model, fitting_model(model, 8, 9, columns=columns)).stream()
        assert bert2rtl._labels(stream) == (shape.labels, name == "every-token")
        assert bert2rtl.model_hash(stream) == identity_of(model).hex()


@pytest.mark.parametrize("lanes", [LANES, 8])
def test_rows_of_the_host_stand_as_in_the_table(lanes: int) -> None:
    """The table of a model that was compiled with them; what fits none is refused."""
    rng = Random(lanes)
    shape = zoo.shape("pre-norm", vocabulary=3, positions=3, types=0)
    rows = [[rng.randint(-32512, 32512) for _ in range(shape.hidden)] for _ in range(3)]
    rows[1][:4] = [-32512, 32512, 127, -128]
    model = random_model(shape, 1)
    high, low = table_codes(np.array(rows, np.float64), 1.0, 255)
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
        found = bert2rtl.embedding_rows(stream, rows[:count])
        assert found == table[: len(table) // 6 * count]
    for bad, message in (
        ([*rows, rows[0]], "rows are 4: the model takes 1..3"),
        ([rows[0], rows[1][1:]], f"row 1 has {shape.hidden - 1} values"),
        ([[32513, *rows[0][1:]]], "row 0 has 32513"),
    ):
        with pytest.raises(ValueError, match=message):
            bert2rtl.embedding_rows(stream, bad)
    other = compile_model(random_model(shape, 2), config(lanes)).stream()
    with pytest.raises(DeviceError, match="a table of its own: it takes none"):
        bert2rtl.embedding_rows(other, rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([],), "the sequence is empty: an inference needs at least one token"),
        (([1, 2, 3], [0]), "1 types for 3 ids: give one for each"),
        (([1], None, [1, 1]), "2 attend for 1 ids"),
        (([1 << 24],), "ids has 16777216: it must lie in 0..16777215"),
        (([-1],), "ids has -1"),
        (([1], [2]), "types has 2: it must lie in 0..1"),
        (([1], None, [3]), "attend has 3"),
        *((([1, 2, 3], None, None, lengths), "each needs one at least, and all together 3")
          for lengths in ([], [0, 3], [1, 1], [4, -1])),
    ],
)  # fmt: skip
def test_tokens_that_are_refused(given: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bert2rtl.tokens(*given)


@pytest.fixture
def device(board: MemoryBoard) -> DmaAccelerator:
    board.pace(9, 3)
    return DmaAccelerator(Bus(board), lambda seconds: board.step(100))


def use(device: DmaAccelerator, board: MemoryBoard, subject: Subject) -> None:
    data = image_bytes(subject.image)
    board.hold({PLACE: data})
    assert device.use(data, PLACE) == device.longest == subject.program.tokens


def drawn(subject: Subject, lengths: list[int]) -> tuple[list[list[int]], ...]:
    """ids, types and attend of sequences of these lengths."""
    every = [[part.tolist() for part in subject.sequence(tokens)] for tokens in lengths]
    return tuple([one[part] for one in every] for part in range(3))


def test_a_batch_by_hand(device: DmaAccelerator, board: MemoryBoard) -> None:
    """As each of its sequences alone; without types and attend bits as with the usual ones."""
    use(device, board, subjects(LANES)[0])
    parts = list(zip(*drawn(subjects(LANES)[0], [1, 4, 3]), strict=True))
    alone = [logit for part in parts for logit in device.infer(*part)]
    joined = [[x for one in part for x in one] for part in zip(*parts, strict=True)]
    assert device.infer(*joined, lengths=[1, 4, 3]) == alone
    assert device.infer([1, 2]) == device.infer([1, 2], [0, 0], [1, 1])
    with pytest.raises(DeviceError, match="the batch has 600 tokens: there is room for 512"):
        device.send([1] * 600, lengths=[300, 300])


def test_many_sequences(device: DmaAccelerator, board: MemoryBoard) -> None:
    """As many an inference as fit; the logits, and what is refused, by the order of the texts."""
    subject = subjects(LANES)[0]
    with pytest.raises(DeviceError, match="no image is in use"):
        device.infer_all([[1]])
    use(device, board, subject)
    lengths = [3, 12, 1, 4, 5, 1]
    ids, types, attend = drawn(subject, lengths)
    writes = board.accesses[1]
    assert device.infer_all(ids, types, attend) == [subject.logits(tokens) for tokens in lengths]
    batches = len(pack(subject.program, lengths))
    assert board.accesses[1] - writes == sum(lengths) + 2 * batches  # start and acknowledge
    assert batches < len(lengths)
    assert device.infer_all([]) == []
    assert device.infer_all(ids) == [device.infer(one) for one in ids]
    for place in range(len(ids)):
        hidden = [[int(place != number)] * len(one) for number, one in enumerate(ids)]
        with pytest.raises(InferenceError, match=rf"NO_KEY.*\(sequence {place}\)$"):
            device.infer_all(ids, None, hidden)
    writes = board.accesses[1]
    for given, message in (
        (([[1], []],), "^sequence 1: the sequence is empty"),
        (([[1], [1] * 13],), r"^sequence 1: the sequence has 13 tokens: 1\.\.12 can be run"),
        (([[1], [1, 2]], [[0], [0]]), "^sequence 1: 1 types for 2 ids"),
        (([[1], [1]], [[0]]), "^types has 1 sequences, ids has 2"),
        (([[1]], None, [[2]]), "^sequence 0: attend has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            device.infer_all(*given)
    assert board.accesses[1] == writes


def test_many_sequences_with_logits_of_every_token(
    device: DmaAccelerator, board: MemoryBoard
) -> None:
    """No more tokens together than there is room for the logits of."""
    subject = tagger(LANES)
    use(device, board, subject)
    lengths = [3, 8, 1, 4, 5]
    sequences = drawn(subject, lengths)
    found = device.infer_all(*sequences)
    assert found == [subject.logits(tokens) for tokens in lengths]
    assert [len(logits) for logits in found] == [2 * tokens for tokens in lengths]
    with pytest.raises(InferenceError, match="LIMIT"):
        device.infer_all(*sequences, row_tiles=3)


def test_the_example_of_the_readme(
    board: MemoryBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On what it needs of PYNQ: golden's logits."""
    (example,) = re.findall(r"```python\n(.*?)```", (DRIVER / "README.md").read_text(), re.DOTALL)

    class Buffer(np.ndarray):
        physical_address = PLACE

        def flush(self) -> None:
            board.hold({PLACE: self.tobytes()})

    pynq = SimpleNamespace(
        Overlay=lambda file: SimpleNamespace(ip_dict={"bert2rtl_0": {"phys_addr": BASE}}),
        MMIO=lambda address, span: Bus(board),
        allocate=lambda shape, dtype: np.zeros(shape, dtype).view(Buffer),
    )
    monkeypatch.setitem(sys.modules, "pynq", pynq)
    monkeypatch.setitem(sys.modules, "bert2rtl", bert2rtl)
    board.pace(1, gap=200)  # an access takes a CPU as long
    subject = subjects(LANES)[0]
    ids = [1, 2, 3, 4, 5]
    exec(example, {"image": image_bytes(subject.image), "ids": ids})
    expected = golden(subject.model, np.array(ids), np.zeros(5, int)).reshape(-1).tolist()
    assert capsys.readouterr().out == f"{[expected]}\n"
