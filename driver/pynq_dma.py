"""The accelerator on a PYNQ board: the overlay's registers, and a DMA for each stream.

    python3 -m driver.pynq_dma bert2rtl.bit model.bin model.rows.bin 101 2023 2001 102

The block design has the accelerator as `bert2rtl_0` and four AXI DMAs without scatter-gather:

    model_dma, tokens_dma    read channels to s_axis_model and s_axis_tokens
    rows_dma                 its read channel to s_axis_rows, through an AXI4-Stream subset
                             converter that makes TLAST every ceil(hidden / lanes) transfers
    logits_dma               its write channel from m_axis_logits; a transfer for each sequence

The length register of model_dma is wide enough for model.bin, that of rows_dma for two rows a
token. The order in which rows are asked for is known beforehand (`streams.rows`), so nobody has to
read m_axis_request: its TREADY is tied to 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from driver import batches, streams
from driver.accelerator import SPAN, Accelerator, DeviceError

USAGE = "usage: python3 -m driver.pynq_dma BITFILE MODEL ROWS ID [ID ...]"


class Overlay:
    """The accelerator of an overlay, ready for inferences.

    Parameters
    ----------
    pynq
        The module of that name.
    bitfile
        Of the overlay described above; the .hwh lies beside it.
    stream, table
        The contents of model.bin and model.rows.bin.
    sleep
        As for Accelerator.

    Raises
    ------
    DeviceError, ValueError
        The overlay has no such accelerator, it cannot run the model, or the table is damaged or
        another model's.
    """

    def __init__(
        self,
        pynq: Any,
        bitfile: str,
        stream: bytes,
        table: bytes,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._pynq, self.stream, self.table, self._sleep = pynq, stream, table, sleep
        overlay = pynq.Overlay(bitfile)
        names = ("bert2rtl_0", "model_dma", "tokens_dma", "rows_dma", "logits_dma")
        missing = [name for name in names if name not in overlay.ip_dict]
        if missing:
            raise DeviceError(f"{bitfile} has no {', '.join(missing)}: --help says what it needs")
        self._dma = {
            name: getattr(overlay, f"{name}_dma") for name in ("model", "tokens", "rows", "logits")
        }
        address = overlay.ip_dict["bert2rtl_0"]["phys_addr"]
        self.device = Accelerator(pynq.MMIO(address, SPAN), sleep)
        self.longest = self.device.check(stream)
        streams.check_rows(stream, table)
        self._model = self._buffer(stream)

    def _buffer(self, data: bytes) -> Any:
        """The bytes where a DMA can read them."""
        buffer = self._pynq.allocate(shape=(len(data),), dtype="u1")
        buffer[:] = memoryview(data)
        buffer.flush()
        return buffer

    def _streams(
        self,
        ids: Sequence[int],
        types: Sequence[int] | None,
        attend: Sequence[int] | None,
        lengths: Sequence[int] | None,
    ) -> dict[str, bytes]:
        """The tokens and the rows that belong to them."""
        types = [0] * len(ids) if types is None else types
        attend = [1] * len(ids) if attend is None else attend
        words = streams.tokens(ids, types, attend, lengths)
        longest = max([len(ids)] if lengths is None else lengths)
        if longest > self.longest:
            raise ValueError(f"the sequence has {longest} tokens: 1..{self.longest} can be run")
        rows = streams.rows(self.stream, self.table, ids, types, lengths)
        return {"tokens": words, "rows": rows}

    def infer(
        self,
        ids: Sequence[int],
        types: Sequence[int] | None = None,
        attend: Sequence[int] | None = None,
        seconds: float = 5.0,
        lengths: Sequence[int] | None = None,
    ) -> list[int]:
        """The logits of a sequence; types are 0 and all tokens attend when left out.

        With `lengths` the tokens are those of several, one after the other, and so are the logits.

        Raises
        ------
        ValueError
            The sequence cannot be run.
        DeviceError
            The inference has failed. DMAs may still hold words: make another `Overlay`.
        """
        found = self._streams(ids, types, attend, lengths)
        channel = self._dma["logits"].recvchannel
        logits = [
            self._pynq.allocate(shape=(streams.logits(self.stream, tokens),), dtype="i4")
            for tokens in ([len(ids)] if lengths is None else lengths)
        ]
        buffers = {name: self._buffer(data) for name, data in found.items()}
        coming = iter(logits)

        def receive(left: float) -> None:
            """A transfer ends with a packet; the accelerator waits until the next one begins."""
            if channel.idle and (buffer := next(coming, None)) is not None:
                channel.transfer(buffer)
            else:
                self._sleep(min(left, 0.001))

        try:
            channel.transfer(next(coming))
            for name, buffer in {"model": self._model, **buffers}.items():
                self._dma[name].sendchannel.transfer(buffer)
            self.device.start()
            self.device.wait(seconds, receive)
            channel.wait()
            for buffer in logits:
                buffer.invalidate()
            return [int(logit) for buffer in logits for logit in buffer]
        finally:
            for buffer in (*logits, *buffers.values()):
                buffer.freebuffer()

    def infer_all(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        attend: Sequence[Sequence[int]] | None = None,
        seconds: float = 5.0,
        row_tiles: int | None = None,
    ) -> list[list[int]]:
        """The logits of each sequence, in their order; as many share an inference as fit.

        seconds
            The bound of each inference.

        Other parameters and errors as `batches.infer_all`.
        """
        return batches.infer_all(
            self.device.limits,
            lambda i, t, a: self._streams(i, t, a, None),
            lambda i, t, a, lengths: self.infer(i, t, a, seconds, lengths),
            lambda tokens: streams.logits(self.stream, tokens),
            ids,
            types,
            attend,
            row_tiles,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--help" in given or "-h" in given:
        print(f"{USAGE}\n\n{__doc__}")
        return 0
    try:
        if len(given) < 4:
            raise ValueError(f"{len(given)} arguments are too few; {USAGE}")
        bitfile, model, rows, *numbers = given
        wrong = [number for number in numbers if not number.isdecimal()]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no token id: give whole numbers")
        stream, table = Path(model).read_bytes(), Path(rows).read_bytes()
        import pynq

        overlay = Overlay(pynq, bitfile, stream, table)
        print(*overlay.infer([int(number) for number in numbers]))
        print(f"{overlay.device.counters()['cycles']:,} cycles")
    except ModuleNotFoundError as error:
        print(f"error: the package {error.name} is missing: run this on the board", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return 2
    except (DeviceError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
