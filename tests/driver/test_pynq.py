"""The driver under PYNQ, on the simulated accelerator behind pretended DMAs."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driver import accelerator, pynq_dma
from driver.accelerator import DeviceError, InferenceError
from sim.driver.board import BASE, Board
from sim.fuzz.subject import Sequence, Subject
from tests.driver.conftest import LANES
from tests.driver.device import header
from tests.ending import refusal

pytestmark = pytest.mark.verilator


class FakePynq:
    """What pynq_dma needs of PYNQ, on a board: DMAs put their buffers on the board's streams."""

    def __init__(self, board: Board, row_words: int) -> None:
        self.board, self.row_words, self.freed, self.made = board, row_words, 0, 0
        dmas = ("model_dma", "tokens_dma", "rows_dma", "logits_dma")
        self.ip_dict: dict[str, Any] = {name: {} for name in dmas}
        self.ip_dict["bert2rtl_0"] = {"phys_addr": BASE}
        for name in ("model", "tokens"):
            setattr(self, f"{name}_dma", self._sender(name))
        self.rows_dma = self._sender("push_rows", row_words)
        self.logits_dma = Namespace(recvchannel=self)

    def Overlay(self, bitfile: str) -> FakePynq:
        return self

    def MMIO(self, address: int, length: int) -> Board:
        assert (address, length) == (BASE, 128)
        return self.board

    def _sender(self, stream: str, row_words: int = 0) -> Namespace:
        def transfer(buffer: Any) -> None:
            assert buffer.dtype == np.uint8
            self.board.send(stream, buffer.tobytes(), row_words)

        return Namespace(sendchannel=Namespace(transfer=transfer))

    def allocate(self, shape: tuple[int], dtype: str) -> Any:
        pynq = self
        self.made += 1

        class Buffer(np.ndarray):
            def flush(self) -> None: ...

            def invalidate(self) -> None:
                logits, lasts = pynq.board.logits()
                assert (len(logits), lasts) == (self.size, 1)
                self[:] = logits

            def freebuffer(self) -> None:
                pynq.freed += 1

        return np.full(shape, 99, dtype).view(Buffer)

    def transfer(self, buffer: Any) -> None:
        assert buffer.dtype == np.int32

    def wait(self) -> None:
        assert self.board.left == (0, 0, 0)


def overlay(board: Board, subject: Subject) -> pynq_dma.Overlay:
    fake = FakePynq(board, subject.table.shape[1] // LANES)
    found = pynq_dma.Overlay(fake, "x.bit", subject.stream, subject.table.tobytes())
    found.device._sleep = lambda seconds: board.run(200)
    return found


def plain(subject: Subject, tokens: int) -> Sequence:
    """Of the first type alone, every token attended."""
    sequence = subject.sequence(tokens, np.random.default_rng(tokens))
    sequence.types[:], sequence.attend[:] = 0, 1
    return sequence


def test_pynq(board: Board, any_subject: Subject) -> None:
    """Rows come by themselves, in the order that `streams.rows` foretells."""
    made, rng = overlay(board, any_subject), np.random.default_rng(1)
    for tokens in (1, 5, made.longest, 2):
        sequence = any_subject.sequence(tokens, rng)
        ids, types, attend = (x.tolist() for x in (sequence.ids, sequence.types, sequence.attend))
        assert tuple(made.infer(ids, types, attend)) == any_subject.logits(sequence)
    fake = made._pynq
    assert fake.made - fake.freed == 1  # the model's stays


def test_pynq_with_what_is_left_out(board: Board, subject: Subject) -> None:
    sequence = plain(subject, 4)
    assert tuple(overlay(board, subject).infer(sequence.ids.tolist())) == subject.logits(sequence)


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
    ids: Any, types: Any, attend: Any, message: str, board: Board, subject: Subject
) -> None:
    made = overlay(board, subject)
    with pytest.raises(ValueError, match=message):
        made.infer(ids, types, attend)
    assert board.accesses[1] == 0
    assert board.left == (0, 0, 0)


def test_a_failure_on_pynq(board: Board, subject: Subject) -> None:
    with pytest.raises(InferenceError, match="NO_KEY"):
        overlay(board, subject).infer([1, 2, 3], None, [0, 0, 0])


def test_what_pynq_refuses_of_an_overlay(board: Board, subject: Subject) -> None:
    fake = FakePynq(board, 2)
    with pytest.raises(DeviceError, match="hidden of the model is 99"):
        pynq_dma.Overlay(fake, "x.bit", header(subject, "hidden", 99), b"")
    del fake.ip_dict["rows_dma"]
    with pytest.raises(DeviceError, match=r"x\.bit has no rows_dma: --help says what it needs"):
        pynq_dma.Overlay(fake, "x.bit", subject.stream, b"")


def test_the_pynq_command(
    board: Board, subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    model, rows = tmp_path / "model.bin", tmp_path / "model.rows.bin"
    model.write_bytes(subject.stream)
    rows.write_bytes(subject.table.tobytes())
    sequence = plain(subject, 3)
    fake: Any = FakePynq(board, subject.table.shape[1] // LANES)
    monkeypatch.setitem(sys.modules, "pynq", fake)
    monkeypatch.setattr(
        accelerator.Accelerator.__init__, "__defaults__", (lambda seconds: board.run(200),)
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
    refused(["x.bit", str(model), str(model), "1"], "use the model.rows.bin that was written")
    monkeypatch.setitem(sys.modules, "pynq", None)
    refused(["x.bit", str(model), str(rows), "1"], "the package pynq is missing", 3)
    assert pynq_dma.main(["--help"]) == 0
    assert "model_dma" in capsys.readouterr().out
