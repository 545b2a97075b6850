"""An accelerator with DMA from Python; standard library only. bert2rtl_dma.h says the same in C.

device = DmaAccelerator(memory)
device.use(image, address)        # the bytes of the image, which lies at `address` in memory
print(device.infer(ids, types, attend))
print(device.infer_all([ids, ids]))

cores = DmaCores(memory, 2)       # an accelerator that was generated with --cores 2
cores.use(image, address)
print(cores.infer_all([ids, ids]))
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Sequence

from driver import batches, streams
from driver.accelerator import BUSY, Accelerator, DeviceError, InferenceError, Memory

DMA_REGISTERS = {
    "model_address": 0x80,
    "model_address_high": 0x84,
    "model_bytes": 0x88,
    "rows_address": 0x8C,
    "rows_address_high": 0x90,
    "row_bytes": 0x94,
    "token": 0x98,
    "token_last": 0x9C,
    "token_room": 0xA0,
    "logit": 0xA4,
    "logits_waiting": 0xA8,
    "bus_bytes": 0xAC,
}
SPAN = 0x100  # bytes that all registers take; those of the next core follow
MAGIC = b"B2RTIMG\0"
FORMAT = 2
HEADER = struct.Struct("<8sHHI5Q4I")
HEADER_BYTES = 128
MODEL_AT = 88
ALIGNMENT = 64  # of an image's address: right for every bus and every number of lanes


class DmaAccelerator(Accelerator):
    """An accelerator that reads its model from memory.

    Parameters and errors are those of Accelerator.

    Attributes
    ----------
    longest
        Tokens of the longest sequence that the image in use takes; 0: none is in use.
    model
        Which model that image has, as `python -m rtl.compile` prints it: whoever makes tokens for
        it and names its logits compares.
    """

    longest = 0
    model = ""
    _stream = b""

    def _set(self, name: str, value: int) -> None:
        self._memory.write(DMA_REGISTERS[name], value)

    def _get(self, name: str) -> int:
        return self._memory.read(DMA_REGISTERS[name])

    def use(self, image: bytes, address: int) -> int:
        """Point it at an image whose first byte it finds at `address`; the longest sequence.

        Raises
        ------
        DeviceError
            It is no image, it is damaged anywhere, or it cannot run here or there; or an inference
            is under way. Nothing was written then.
        """
        if len(image) < HEADER_BYTES or image[:8] != MAGIC:
            raise DeviceError("this is no image: rtl.compile --image writes one")
        _, version, _, crc, size, *parts = HEADER.unpack_from(image)
        stream, stream_bytes, rows, rows_bytes, row_bytes, _, stream_crc, rows_crc = parts
        header = image[:12] + bytes(4) + image[16:HEADER_BYTES]
        if zlib.crc32(header) != crc or size != len(image):
            raise DeviceError("the image is damaged or cut: write it again")
        if version != FORMAT:
            raise DeviceError(
                f"the image has format {version}, this driver is for {FORMAT}: write it again with "
                "rtl.compile --image"
            )
        whole = memoryview(image)
        if (
            stream != HEADER_BYTES
            or stream + stream_bytes > rows
            or rows + rows_bytes != size
            or zlib.crc32(whole[stream:rows]) != stream_crc
            or zlib.crc32(whole[rows:]) != rows_crc
        ):
            raise DeviceError("the image is damaged: write it again")
        if address % ALIGNMENT:
            raise DeviceError(
                f"the image lies at {address:#x}: it must be a multiple of {ALIGNMENT}"
            )
        commands = bytes(whole[stream : stream + stream_bytes])
        longest = self.check(commands)
        model = whole[MODEL_AT : MODEL_AT + streams.MODEL_BYTES].hex()
        said = commands[streams.ROWS_AT : streams.ROWS_AT + 4]
        if said != rows_crc.to_bytes(4, "little") or streams.model(commands) != model:
            raise DeviceError("the image has stream and rows of two models: write it again")
        self.check_idle()
        for name, value in (("model_address", address + stream), ("rows_address", address + rows)):
            self._set(name, value & 0xFFFFFFFF)
            self._set(f"{name}_high", value >> 32)
        self._set("model_bytes", stream_bytes)
        self._set("row_bytes", row_bytes)
        self.longest, self.model, self._stream = longest, model, commands
        return longest

    def send(
        self,
        ids: Sequence[int],
        types: Sequence[int],
        attend: Sequence[int],
        lengths: Sequence[int] | None = None,
    ) -> None:
        """Write a sequence, or with `lengths` a batch of them; nothing where it does not fit.

        Raises
        ------
        ValueError
            As `streams.tokens`.
        DeviceError
            There is no room for it.
        """
        words = struct.unpack(f"<{len(ids)}I", streams.tokens(ids, types, attend, lengths))
        room = self._get("token_room")
        if len(words) > room:
            what = "the sequence has" if lengths is None else "the batch has"
            raise DeviceError(f"{what} {len(words)} tokens: there is room for {room}")
        for word in words[:-1]:
            self._set("token", word)
        self._set("token_last", words[-1])

    def logits(self) -> list[int]:
        """Take those that wait, sequence by sequence."""
        words = [self._get("logit") for _ in range(self._get("logits_waiting"))]
        return [word - (word >> 31 << 32) for word in words]

    def infer(
        self,
        ids: Sequence[int],
        types: Sequence[int],
        attend: Sequence[int],
        seconds: float = 1.0,
        interrupt: Callable[[float], object] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[int]:
        """The logits, sequence by sequence; parameters and errors as `send`, `start` and `wait`."""
        self.send(ids, types, attend, lengths)
        self.start()
        self.wait(seconds, interrupt)
        return self.logits()

    def infer_all(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        attend: Sequence[Sequence[int]] | None = None,
        seconds: float = 1.0,
        interrupt: Callable[[float], object] | None = None,
        row_tiles: int | None = None,
    ) -> list[list[int]]:
        """The logits of each sequence, in their order; as many share an inference as fit.

        seconds, interrupt
            As `wait`, for each inference.

        Other parameters and errors as `batches.infer_all`.
        """

        self._in_use()
        return batches.infer_all(
            self.limits,
            self.check_sequence,
            lambda i, t, a, lengths: self.infer(i, t, a, seconds, interrupt, lengths),
            self.logits_of,
            ids,
            types,
            attend,
            row_tiles,
        )

    def _in_use(self) -> None:
        if not self.longest:
            raise DeviceError("no image is in use: `use` one first")

    def check_sequence(
        self, ids: Sequence[int], types: Sequence[int], attend: Sequence[int]
    ) -> None:
        """ValueError where the image in use does not take it."""
        streams.tokens(ids, types, attend)
        if len(ids) > self.longest:
            raise ValueError(f"the sequence has {len(ids)} tokens: 1..{self.longest} can be run")

    def check_idle(self) -> None:
        """DeviceError while an inference is under way."""
        if self._read("status") & BUSY:
            raise DeviceError("an inference is under way: wait for it or abort it")

    def logits_of(self, tokens: int) -> int:
        """Logits of a sequence of so many tokens."""
        return streams.logits(self._stream, tokens)


class _Behind:
    """The registers of a core among those of all."""

    def __init__(self, memory: Memory, offset: int) -> None:
        self._memory, self._offset = memory, offset

    def read(self, offset: int) -> int:
        return self._memory.read(self._offset + offset)

    def write(self, offset: int, value: int) -> None:
        self._memory.write(self._offset + offset, value)


class DmaCores:
    """Several accelerators that share a memory, and a queue of sequences that keeps all busy.

    Parameters
    ----------
    memory
        The registers of all.
    count
        How many there are.
    sleep
        As for Accelerator.

    Attributes
    ----------
    cores
        A DmaAccelerator each.

    Raises
    ------
    DeviceError
        As for Accelerator, of one of them.
    """

    def __init__(
        self, memory: Memory, count: int, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        if count < 1:
            raise ValueError(f"count is {count}: there is 1 core at least")
        self._sleep = sleep
        self.cores = [
            DmaAccelerator(_Behind(memory, SPAN * number), sleep) for number in range(count)
        ]

    def use(self, image: bytes, address: int) -> int:
        """Point all of them at one image; result and errors as `DmaAccelerator.use`."""
        for core in self.cores:
            core.check_idle()
        return min(core.use(image, address) for core in self.cores)

    def infer_all(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        attend: Sequence[Sequence[int]] | None = None,
        seconds: float = 1.0,
        interrupt: Callable[[float], object] | None = None,
        row_tiles: int | None = None,
    ) -> list[list[int] | InferenceError]:
        """The logits of each sequence, in their order; as many share an inference as fit.

        Each core takes the next batch as soon as it is free. A sequence that is wrong has its error
        in place of logits, and what shared its inference runs again without it. Where an inference
        has ended badly and the code is of no sequence, all of its sequences have the error.

        seconds
            The bound of each inference.
        interrupt
            Called with the seconds that are left: it returns after the interrupt of any core or
            after these. None: look again every millisecond.

        Raises
        ------
        ValueError
            As `batches.infer_all`.
        DeviceError
            No image is in use, a core is busy, or an inference has not ended in time and goes on.
        """
        first = self.cores[0]
        first._in_use()
        queue = batches.cut(
            first.limits, first.check_sequence, first.logits_of, ids, types, attend, row_tiles
        )
        queue.reverse()
        running: dict[DmaAccelerator, tuple[list[int], batches.Batch, float]] = {}
        found: dict[int, list[int] | InferenceError] = {}
        while queue or running:
            for core in self.cores:
                if queue and core not in running:
                    places, batch = queue.pop()
                    core.send(*batch)
                    core.start()
                    running[core] = places, batch, time.monotonic() + seconds
            ended = []
            for core, (places, batch, _) in running.items():
                try:
                    if not core.ended():
                        continue
                    found.update(batches.parted(places, batch, core.logits(), core.logits_of))
                except InferenceError as error:
                    queue += batches.failed(error, places, batch, found)
                core.acknowledge()
                ended.append(core)
            for core in ended:
                del running[core]
            if not ended:
                left = min(until for _, _, until in running.values()) - time.monotonic()
                if left <= 0:
                    raise DeviceError(
                        f"an inference has not ended in {seconds:g} s: wait longer or abort it"
                    )
                if interrupt is None:
                    self._sleep(min(left, 0.001))
                else:
                    interrupt(left)
        return [found[place] for place in range(len(ids))]
