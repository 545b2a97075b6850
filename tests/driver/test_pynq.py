"""The driver for PYNQ on the simulated accelerator; PYNQ itself is stood in for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driver import pynq_dma, streams
from driver.accelerator import DeviceError, InferenceError
from golden.identity import identity_of
from rtl.compile.batches import pack
from sim.machine.board import StreamBoard
from tests.damage import any_damage
from tests.driver.conftest import LANES
from tests.driver.device import header
from tests.driver.fake_pynq import FakePynq
from tests.ending import refusal
from verify.fuzz.subject import Sequence, Subject

pytestmark = pytest.mark.verilator

WRITES = 2  # of registers an inference: start, and the interrupt acknowledged


def overlay(board: StreamBoard, subject: Subject) -> pynq_dma.Overlay:
    fake = FakePynq(board, subject.table.shape[1] // LANES)
    return pynq_dma.Overlay(
        fake, "x.bit", subject.stream, subject.table.tobytes(), lambda seconds: board.run(200)
    )


def parts(sequence: Sequence) -> tuple[list[int], list[int], list[int]]:
    return sequence.ids.tolist(), sequence.types.tolist(), sequence.attend.tolist()


def plain(subject: Subject, tokens: int) -> Sequence:
    """Of the first type alone, every token attended."""
    sequence = subject.sequence(tokens, np.random.default_rng(tokens))
    sequence.types[:], sequence.attend[:] = 0, 1
    return sequence


def test_pynq(board: StreamBoard, any_subject: Subject) -> None:
    """Rows come by themselves, in the order that `streams.rows` foretells."""
    made, rng = overlay(board, any_subject), np.random.default_rng(1)
    for tokens in (1, 5, made.longest, 2):
        sequence = any_subject.sequence(tokens, rng)
        assert tuple(made.infer(*parts(sequence))) == any_subject.logits(sequence)
    fake = made._pynq
    assert fake.made - fake.freed == 1  # the model's stays


def test_a_batch_on_pynq(board: StreamBoard, any_subject: Subject) -> None:
    """A transfer for each packet of logits; all in one inference."""
    made, rng = overlay(board, any_subject), np.random.default_rng(3)
    for lengths in ([1], [2, 5], [4, 1, 3, 1]):
        batch, writes = any_subject.batch(lengths, rng), board.accesses[1]
        found = made.infer(*parts(batch), lengths=lengths)
        assert tuple(found) == any_subject.logits(batch)
        assert board.accesses[1] - writes == WRITES
    assert made._pynq.made - made._pynq.freed == 1


def test_all_on_pynq(board: StreamBoard, any_subject: Subject) -> None:
    """As many an inference as fit; the logits in the order of the sequences."""
    made, rng = overlay(board, any_subject), np.random.default_rng(4)
    lengths = [3, 1, 9, 4, 5, 2, made.longest, 8, 1, 1]
    every = [any_subject.sequence(tokens, rng) for tokens in lengths]
    ids, types, attend = zip(*map(parts, every))
    batches = len(pack(any_subject.program, lengths))
    assert batches < len(lengths)
    for row_tiles in (None, any_subject.program.row_tiles):
        writes = board.accesses[1]
        found = made.infer_all(ids, types, attend, row_tiles=row_tiles)
        assert [tuple(logits) for logits in found] == [any_subject.logits(one) for one in every]
        assert board.accesses[1] - writes == batches * WRITES
    assert made.infer_all([]) == []
    assert made._pynq.made - made._pynq.freed == 1


def test_pynq_with_what_is_left_out(board: StreamBoard, subject: Subject) -> None:
    sequence = plain(subject, 4)
    made, ids, logits = (
        overlay(board, subject),
        sequence.ids.tolist(),
        list(subject.logits(sequence)),
    )
    assert made.infer(ids) == logits
    assert made.infer_all([ids, ids]) == [logits, logits]


@pytest.mark.parametrize(
    ("ids", "types", "attend", "message"),
    [
        ([], None, None, "the sequence is empty"),
        ([1] * 25, None, None, r"the sequence has 25 tokens: 1\.\.24 can be run"),
        ([1, 20], None, None, r"ids has 20: it must lie in 0\.\.19"),
        ([-1], None, None, "ids has -1"),
        ([1], [2], None, r"types has 2: it must lie in 0\.\.1"),
        ([1], None, [3], r"attend has 3: it must lie in 0\.\.1"),
        ([1, 2], [0], None, "1 types for 2 ids"),
        ([1, 2], None, [1, 1, 1], "3 attend for 2 ids"),
    ],
)
def test_a_sequence_that_pynq_refuses(
    ids: Any, types: Any, attend: Any, message: str, board: StreamBoard, subject: Subject
) -> None:
    made = overlay(board, subject)
    with pytest.raises(ValueError, match=message):
        made.infer(ids, types, attend)
    assert board.accesses[1] == 0
    assert board.left == (0, 0, 0)


@pytest.mark.parametrize(
    ("ids", "types", "attend", "message"),
    [
        ([[1], []], None, None, "^sequence 1: the sequence is empty"),
        ([[1], [2], [1] * 25], None, None, r"^sequence 2: the sequence has 25 tokens: 1\.\.24"),
        ([[1, 20]], None, None, r"^sequence 0: ids has 20: it must lie in 0\.\.19"),
        ([[1], [1]], [[0], [0, 0]], None, "^sequence 1: 2 types for 1 ids"),
        ([[1], [1]], None, [[1]], "^attend has 1 sequences, ids has 2"),
    ],
)
def test_sequences_that_pynq_refuses(
    ids: Any, types: Any, attend: Any, message: str, board: StreamBoard, subject: Subject
) -> None:
    """Before any of them is run."""
    made = overlay(board, subject)
    with pytest.raises(ValueError, match=message):
        made.infer_all(ids, types, attend)
    assert board.accesses[1] == 0
    assert board.left == (0, 0, 0)


@pytest.mark.parametrize("lengths", [[], [0, 3], [1, 1], [4, -1]])
def test_lengths_that_pynq_refuses(
    lengths: list[int], board: StreamBoard, subject: Subject
) -> None:
    with pytest.raises(ValueError, match="each needs one at least, and all together 3"):
        overlay(board, subject).infer([1, 2, 3], lengths=lengths)
    assert board.accesses[1] == 0


def test_the_longest_is_of_a_sequence_not_of_a_batch(board: StreamBoard, subject: Subject) -> None:
    made = overlay(board, subject)
    made.longest = 4
    assert len(made.infer([1] * 8, lengths=[4, 4])) == 2 * subject.model.shape.labels
    with pytest.raises(ValueError, match=r"the sequence has 5 tokens: 1\.\.4 can be run"):
        made.infer([1] * 8, lengths=[3, 5])


def test_a_failure_on_pynq(board: StreamBoard, subject: Subject) -> None:
    with pytest.raises(InferenceError, match="NO_KEY"):
        overlay(board, subject).infer([1, 2, 3], None, [0, 0, 0])


@pytest.mark.parametrize("place", range(4))
def test_a_failure_of_many_on_pynq(place: int, board: StreamBoard, subject: Subject) -> None:
    """It is named by its place among all, wherever the batches put it."""
    ids = [[1] * tokens for tokens in (2, 24, 5, 20)]
    attend = [[int(place != number)] * len(one) for number, one in enumerate(ids)]
    with pytest.raises(InferenceError, match=rf"NO_KEY.*\(sequence {place}\)$") as caught:
        overlay(board, subject).infer_all(ids, None, attend)
    assert caught.value.sequence == place


def test_what_pynq_refuses_of_an_overlay(board: StreamBoard, subject: Subject) -> None:
    fake = FakePynq(board, 2)
    with pytest.raises(DeviceError, match="hidden of the model is 99"):
        pynq_dma.Overlay(fake, "x.bit", header(subject, "hidden", 99), b"")
    del fake.ip_dict["rows_dma"]
    with pytest.raises(DeviceError, match=r"x\.bit has no rows_dma: --help says what it needs"):
        pynq_dma.Overlay(fake, "x.bit", subject.stream, b"")


def test_rows_that_are_not_those_of_the_stream(board: StreamBoard, any_subject: Subject) -> None:
    """Damaged, or another model's of the same sizes: refused before a buffer is made of them."""
    stream, table = any_subject.stream, any_subject.table.tobytes()
    fake = FakePynq(board, any_subject.table.shape[1] // LANES)
    other = bytes(reversed(table))
    for wrong in (*any_damage(table, any_subject.lanes, 60), other):
        with pytest.raises(ValueError, match=r"^the rows are damaged, or those of another model"):
            pynq_dma.Overlay(fake, "x.bit", stream, wrong)
        with pytest.raises(ValueError, match=r"^the (rows are damaged|table has \d+ bytes)"):
            streams.rows(stream, wrong, [1], [0])
        with pytest.raises(ValueError, match=r"^the rows are damaged"):
            streams.check_rows(stream, bytearray(wrong))
    assert fake.made == 0
    streams.check_rows(stream, bytearray(table))
    assert streams.model(stream) == identity_of(any_subject.model).hex()
    for function in (streams.model, lambda stream: streams.check_rows(stream, table)):
        with pytest.raises(ValueError, match=r"^this is no command stream"):
            function(stream[:31])


def test_the_pynq_command(
    board: StreamBoard, subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    model, rows = tmp_path / "model.bin", tmp_path / "model.rows.bin"
    model.write_bytes(subject.stream)
    rows.write_bytes(subject.table.tobytes())
    sequence = plain(subject, 3)
    fake: Any = FakePynq(board, subject.table.shape[1] // LANES)
    monkeypatch.setitem(sys.modules, "pynq", fake)
    monkeypatch.setattr(
        pynq_dma.Overlay.__init__, "__defaults__", (lambda seconds: board.run(200),)
    )
    ids = [str(i) for i in sequence.ids]
    assert pynq_dma.main(["x.bit", str(model), str(rows), *ids]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert tuple(map(int, first.split())) == subject.logits(sequence)
    assert second.endswith(" cycles")

    def refused(arguments: list[str], message: str, code: int = 2) -> None:
        assert message in refusal(pynq_dma.main, arguments, capsys, code)

    refused([], "0 arguments are too few; usage: ")
    refused(["x.bit", str(model), str(rows), "many"], "'many' is no token id")
    refused(["x.bit", str(tmp_path / "no"), str(rows), "1"], "no: No such file or directory")
    refused(["x.bit", str(rows), str(rows), "1"], "this is no command stream")
    refused(["x.bit", str(model), str(model), "1"], "use the model.rows.bin that was")
    monkeypatch.setitem(sys.modules, "pynq", None)
    refused(["x.bit", str(model), str(rows), "1"], "the package pynq is missing", 3)
    assert pynq_dma.main(["--help"]) == 0
    assert "model_dma" in capsys.readouterr().out
