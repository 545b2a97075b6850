"""What driver.pynq_dma needs of PYNQ, on the simulated accelerator."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

from sim.machine.board import BASE, StreamBoard


class FakePynq:
    """What pynq_dma needs of PYNQ, on a board: DMAs put their buffers on the board's streams."""

    def __init__(self, board: StreamBoard, row_words: int) -> None:
        self.board, self.freed, self.made = board, 0, 0
        dmas = ("model_dma", "tokens_dma", "rows_dma", "logits_dma")
        self.ip_dict: dict[str, Any] = {name: {} for name in dmas}
        self.ip_dict["bert2rtl_0"] = {"phys_addr": BASE}
        for name in ("model", "tokens"):
            setattr(self, f"{name}_dma", self._sender(name))
        self.rows_dma = self._sender("push_rows", row_words)
        self.received = Received(board)
        self.logits_dma = Namespace(recvchannel=self.received)

    def Overlay(self, bitfile: str) -> FakePynq:
        return self

    def MMIO(self, address: int, length: int) -> StreamBoard:
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
                self[:] = pynq.received.memory.pop(id(self))

            def freebuffer(self) -> None:
                pynq.freed += 1

        return np.full(shape, 99, dtype).view(Buffer)


class Received:
    """The write channel of an AXI DMA: a transfer takes one packet, no more, no less."""

    def __init__(self, board: StreamBoard) -> None:
        self.board, self.memory = board, dict[int, list[int]]()
        self._buffer: Any = None

    @property
    def idle(self) -> bool:
        if self._buffer is not None:
            logits, lasts = self.board.logits()
            self._taken += logits
            if lasts:
                assert (len(self._taken), lasts) == (self._buffer.size, 1)
                self.memory[id(self._buffer)], self._buffer = self._taken, None
        return self._buffer is None

    def transfer(self, buffer: Any) -> None:
        assert self._buffer is None, "DMA channel not idle"
        assert buffer.dtype == np.int32
        self._buffer, self._taken = buffer, []
        self.board.take_packet()

    def wait(self) -> None:
        assert self.idle
        assert self.board.left == (0, 0, 0)
