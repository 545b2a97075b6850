"""Driver of the accelerator in Python, for everything that reads and writes its registers.

    device = DmaAccelerator(memory)         # memory.read(offset) and memory.write(offset, value)
    device.use(image, address)              # the bytes of the image, which lies at `address`
    print(device.infer(ids, types, attend))
    print(device.infer_all([ids, ids]))     # many sequences, as many per inference as fit
    print(device.counters())

`memory` is any object that reaches the 32-bit registers: `pynq.MMIO`, `uio.Registers`, a LiteX
bridge, a simulated board. `DmaAccelerator` drives hardware that was generated with `--dma`.
`Accelerator` drives the registers alone, for hardware whose streams something else moves; `tokens`
makes the words of its tokens stream. bert2rtl.h is the same in C.

Python 3.8 or newer and its standard library are enough.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol

REGISTERS = {
    "id": 0x00,
    "version": 0x04,
    "lanes": 0x08,
    "tokens": 0x0C,
    "hidden": 0x10,
    "ffn": 0x14,
    "labels": 0x18,
    "control": 0x1C,
    "status": 0x20,
    "cycles": 0x24,
    "active": 0x28,
    "stall_idle": 0x2C,
    "stall_weights": 0x30,
    "stall_norm": 0x34,
    "stall_softmax": 0x38,
    "stall_drain": 0x3C,
    "interrupt_enable": 0x40,
    "interrupt_pending": 0x44,
    "failed_sequence": 0x48,
    "columns": 0x4C,
    # With DMA.
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
SPAN = 0x100  # bytes of all registers; without DMA the first half
ID = 0x54523242  # the bytes "B2RT"
VERSION = 7  # of the registers and of the command stream
LIMITS = ("lanes", "columns", "tokens", "hidden", "ffn", "labels")
COUNTERS = (
    "cycles",
    "active",
    "stall_idle",
    "stall_weights",
    "stall_norm",
    "stall_softmax",
    "stall_drain",
)
START, ABORT = 1, 2  # bits of control
BUSY, DONE = 1, 2  # bits of status

#: How an inference ended, by the error code of `status`.
ENDS = {
    0: "good: the logits are complete",
    1: "FORMAT: the command stream has a wrong magic, version or number of lanes or columns, or an "
    "operation or flag that may not stand there: compile it for this accelerator",
    2: "CRC: the command stream was damaged on its way, or in memory",
    3: "LIMIT: the model, a field or a tensor of this batch exceeds the accelerator's limits",
    4: "TRUNCATED: the command stream ended before its END",
    5: "OVERRUN: the command stream went on after its END",
    6: "LENGTH: more tokens in a sequence, or in all, than the model or the accelerator takes",
    7: "TOKEN: a token id or a type is beyond its table",
    8: "NO_KEY: no token of a sequence has its attend bit set",
    9: "ABORTED: aborted",
    10: "TIMEOUT: nothing moved for long inside the accelerator, although nothing outside was "
    "awaited",
    11: "ROW: a row of the embedding table is shorter or longer than the model says: use the rows "
    "that belong to the command stream",
    12: "BUS: the memory answered a read with an error: the image does not lie where the registers "
    "say, or cannot be reached from the accelerator",
    13: "ADDRESS: an address or a size of the memory side is no whole number of words, beyond the "
    "bus or 0: point it at an image first",
}
OF_A_SEQUENCE = (6, 7, 8, 11)  # codes for which `failed_sequence` is valid

# The command stream (docs/architecture.md).
DESCRIPTOR_BYTES = 32
HEADER, TABLE, NORM, EMBED, LINEAR, BIAS, ROTARY = 1, 2, 3, 4, 5, 8, 9  # opcodes
HEADER_FLAGS = 240  # of HEADER's second byte, whose other bits are log2 of columns / lanes
WIDE = 16  # flag of TABLE: entries of 16 bits
SHIFTS = 128  # flag of NORM: one more plane
FIRST_TILE, TRANSPOSED, LOGITS = 1, 4, 64  # flags of LINEAR
PARAMETER_PLANES = 7
ROWS_AT, MODEL_AT, MODEL_BYTES = 16, 20, 8  # of HEADER: CRC-32 of the rows, hash of the model
GIVEN = b"\xff\x01"  # factors of EMBED for rows that the host computes

# The image (rtl/compile/image.py).
IMAGE_MAGIC = b"B2RTIMG\0"
IMAGE_FORMAT = 2
IMAGE_HEADER = struct.Struct("<8sHHI5Q4I")
IMAGE_HEADER_BYTES = 128
IMAGE_MODEL_AT = 88
IMAGE_ALIGNMENT = 64  # of its address: suits every bus and every number of lanes


class Memory(Protocol):
    """32-bit registers by their offset in bytes."""

    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...


class DeviceError(Exception):
    """The device cannot do it; one line says why and what to do."""


class InferenceError(DeviceError):
    """An inference has ended without logits.

    Attributes
    ----------
    code
        The accelerator's, a key of `ENDS`.
    sequence
        Number of the sequence that failed, from 0; None if the code is not about one sequence.
    """

    def __init__(self, code: int, sequence: int | None = None) -> None:
        self.code, self.sequence = code, sequence
        text = ENDS.get(code, f"unknown error code {code}")
        super().__init__(text if sequence is None else f"{text} (sequence {sequence})")


class Accelerator:
    """The registers that every accelerator has.

    Parameters
    ----------
    memory
        Its registers.
    sleep
        Called with a number of seconds between two reads of `status`; time.sleep by default.

    Attributes
    ----------
    limits
        lanes, columns, tokens, hidden, ffn and labels that the hardware was generated for.

    Raises
    ------
    DeviceError
        Another device is there, or one of another version. Nothing was written to it.
    """

    def __init__(self, memory: Memory, sleep: Callable[[float], object] = time.sleep) -> None:
        self._memory, self._sleep = memory, sleep
        found = self._read("id")
        if found != ID:
            raise DeviceError(f"no bert2rtl accelerator: its id is {found:#010x}, not {ID:#010x}")
        version = self._read("version")
        if version != VERSION:
            raise DeviceError(
                f"the accelerator has version {version}, this driver is for {VERSION}"
            )
        self.limits = {name: self._read(name) for name in LIMITS}

    def _read(self, name: str) -> int:
        return self._memory.read(REGISTERS[name])

    def _write(self, name: str, value: int) -> None:
        self._memory.write(REGISTERS[name], value)

    def _check_idle(self) -> None:
        if self._read("status") & BUSY:
            raise DeviceError("an inference is under way: wait for it or abort it")

    def check(self, stream: bytes) -> int:
        """Return the longest sequence that the model of a command stream takes here.

        Raises
        ------
        DeviceError
            It is no command stream, or its model exceeds a limit.
        """
        _check_stream(stream)
        if stream[6] != VERSION:
            raise DeviceError(
                f"the command stream has version {stream[6]}, the accelerator {VERSION}: compile "
                "it anew"
            )
        lanes, columns = self.limits["lanes"], self.limits["columns"]
        asked = stream[7] << (stream[1] & ~HEADER_FLAGS)
        if (stream[7], asked) != (lanes, columns):
            raise DeviceError(
                f"the command stream is for {stream[7]} lanes and {asked} columns, the accelerator "
                f"has {lanes} and {columns}: compile it for this accelerator"
            )
        longest, *sizes = struct.unpack_from("<4H", stream, 8)
        if longest == 0:
            raise DeviceError("the command stream allows no token: compile it anew")
        for name, size in zip(LIMITS[3:], sizes):
            if not 1 <= size <= self.limits[name]:
                raise DeviceError(
                    f"{name} of the model is {size}: the accelerator takes 1..{self.limits[name]}"
                )
        return min(longest, self.limits["tokens"])

    def start(self) -> None:
        """Start an inference.

        Raises
        ------
        DeviceError
            One is under way; nothing was written.
        """
        self._check_idle()
        self._write("control", START)

    def ended(self) -> bool:
        """Return whether the latest inference has ended well.

        Raises
        ------
        InferenceError
            It has failed.
        DeviceError
            None was started since the reset.
        """
        status = self._read("status")
        if status & BUSY:
            return False
        if not status & DONE:
            raise DeviceError("no inference has been started since the reset")
        if code := status >> 8 & 15:
            raise InferenceError(
                code, self._read("failed_sequence") if code in OF_A_SEQUENCE else None
            )
        return True

    def wait(
        self, seconds: float = 1.0, interrupt: Callable[[float], object] | None = None
    ) -> None:
        """Wait until the inference has ended well, and acknowledge its interrupt.

        Parameters
        ----------
        seconds
            Longest time to wait.
        interrupt
            Called with the seconds that are left; it returns after an interrupt or after that time.
            None: read `status` every millisecond.

        Raises
        ------
        InferenceError
            It has failed.
        DeviceError
            It has not ended in time and goes on; or none was started.
        """
        until = time.monotonic() + seconds
        try:
            while not self.ended():
                left = until - time.monotonic()
                if left <= 0:
                    raise DeviceError(
                        f"the inference has not ended in {seconds:g} s: wait longer or abort it"
                    )
                if interrupt is None:
                    self._sleep(min(left, 0.001))
                else:
                    interrupt(left)
        except InferenceError:
            self.acknowledge()
            raise
        self.acknowledge()

    def abort(self, seconds: float = 1.0) -> bool:
        """End the inference under way; return whether it had ended well before.

        Streams begin anew with the next start: withdraw or finish what was being sent.

        Raises
        ------
        DeviceError
            It still waits for a row or for its logits to be taken; or nothing is under way.
        """
        if not self._read("status") & BUSY:
            raise DeviceError("no inference is under way")
        self._write("control", ABORT)
        try:
            self.wait(seconds)
        except InferenceError:
            return False
        return True

    def counters(self) -> dict[str, int]:
        """Return clock cycles of the latest inference, and its stalls by cause.

        Raises
        ------
        DeviceError
            It is under way.
        """
        self._check_idle()
        return {name: self._read(name) for name in COUNTERS}

    def enable_interrupt(self, enable: bool) -> None:
        """Let the end of an inference raise the line, or not. It does after a reset."""
        self._write("interrupt_enable", int(enable))

    def acknowledge(self) -> bool:
        """Clear the interrupt; return whether it was pending."""
        pending = bool(self._read("interrupt_pending") & 1)
        if pending:
            self._write("interrupt_pending", 1)
        return pending


class DmaAccelerator(Accelerator):
    """An accelerator that reads its model from memory (`rtl.generate accelerator --dma`).

    Parameters and errors are those of Accelerator.

    Attributes
    ----------
    longest
        Tokens of the longest sequence that the image in use takes; 0: none is in use.
    model
        Hash of that image's model, as `python -m rtl.compile` prints it. Compare it before you
        make tokens for the model and name its logits.
    """

    longest = 0
    model = ""
    _labels = 0
    _every_token = False  # logits per token, not per sequence

    def use(self, image: bytes, address: int) -> int:
        """Use an image whose first byte lies at `address`; return the longest sequence it takes.

        `image` holds its bytes: those written to that address, or read back from there.

        Raises
        ------
        DeviceError
            It is no image, it is damaged anywhere, it cannot run here or there, or an inference is
            under way. Nothing was written.
        """
        if len(image) < IMAGE_HEADER_BYTES or image[:8] != IMAGE_MAGIC:
            raise DeviceError("this is no image: rtl.compile --image writes one")
        _, version, _, crc, size, *parts = IMAGE_HEADER.unpack_from(image)
        stream, stream_bytes, rows, rows_bytes, row_bytes, _, stream_crc, rows_crc = parts
        header = image[:12] + bytes(4) + image[16:IMAGE_HEADER_BYTES]
        if zlib.crc32(header) != crc or size != len(image):
            raise DeviceError("the image is damaged or cut: write it again")
        if version != IMAGE_FORMAT:
            raise DeviceError(
                f"the image has format {version}, this driver is for {IMAGE_FORMAT}: write it "
                "again with rtl.compile --image"
            )
        whole = memoryview(image)
        if (
            stream != IMAGE_HEADER_BYTES
            or stream + stream_bytes > rows
            or rows + rows_bytes != size
            or zlib.crc32(whole[stream:rows]) != stream_crc
            or zlib.crc32(whole[rows:]) != rows_crc
        ):
            raise DeviceError("the image is damaged: write it again")
        if address % IMAGE_ALIGNMENT:
            raise DeviceError(
                f"the image lies at {address:#x}: it must be a multiple of {IMAGE_ALIGNMENT}"
            )
        commands = bytes(whole[stream : stream + stream_bytes])
        longest = self.check(commands)
        model = whole[IMAGE_MODEL_AT : IMAGE_MODEL_AT + MODEL_BYTES].hex()
        if _rows_crc(commands) != rows_crc or model_hash(commands) != model:
            raise DeviceError("the image has stream and rows of two models: write it again")
        labels, every_token = _labels(commands)
        self._check_idle()
        for name, value in (("model_address", address + stream), ("rows_address", address + rows)):
            self._write(name, value & 0xFFFFFFFF)
            self._write(f"{name}_high", value >> 32)
        self._write("model_bytes", stream_bytes)
        self._write("row_bytes", row_bytes)
        self.longest, self.model = longest, model
        self._labels, self._every_token = labels, every_token
        return longest

    def send(
        self,
        ids: Sequence[int],
        types: Sequence[int] | None = None,
        attend: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        """Write the tokens of an inference; parameters as `tokens`.

        Raises
        ------
        ValueError
            As `tokens`.
        DeviceError
            There is no room for them; nothing was written.
        """
        words = tokens(ids, types, attend, lengths)
        room = self._read("token_room")
        if len(words) > room:
            subject = "the sequence has" if lengths is None else "the batch has"
            raise DeviceError(f"{subject} {len(words)} tokens: there is room for {room}")
        for word in words[:-1]:
            self._write("token", word)
        self._write("token_last", words[-1])

    def logits(self) -> list[int]:
        """Take the logits that wait, sequence by sequence."""
        words = [self._read("logit") for _ in range(self._read("logits_waiting"))]
        return [word - (word >> 31 << 32) for word in words]

    def infer(
        self,
        ids: Sequence[int],
        types: Sequence[int] | None = None,
        attend: Sequence[int] | None = None,
        seconds: float = 1.0,
        interrupt: Callable[[float], object] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[int]:
        """Return the logits, sequence by sequence; otherwise as `send`, `start` and `wait`."""
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
        """Return the logits of each sequence, in their order; as many share an inference as fit.

        Parameters
        ----------
        types, attend
            Of each sequence. None: type 0, and every token attends.
        seconds, interrupt
            As `wait`, for each inference.
        row_tiles
            Row tiles of an inference, as `python -m rtl.compile` prints them for the model. None:
            those of the longest sequence of the hardware, or fewer if logits of every token would
            not fit.

        Raises
        ------
        ValueError
            A sequence cannot be run. The message names it; none was run.
        DeviceError
            As `infer`. An InferenceError has the number of the sequence in `ids`.
        """
        if not self.longest:
            raise DeviceError("no image is in use: `use` one first")
        types = [[0] * len(one) for one in ids] if types is None else types
        attend = [[1] * len(one) for one in ids] if attend is None else attend
        for name, values in (("types", types), ("attend", attend)):
            if len(values) != len(ids):
                raise ValueError(f"{name} has {len(values)} sequences, ids has {len(ids)}")
        for number, sequence in enumerate(zip(ids, types, attend)):
            try:
                tokens(*sequence)
            except ValueError as error:
                raise ValueError(f"sequence {number}: {error}") from None
            if len(sequence[0]) > self.longest:
                raise ValueError(
                    f"sequence {number}: the sequence has {len(sequence[0])} tokens: "
                    f"1..{self.longest} can be run"
                )
        lengths = [len(one) for one in ids]
        room = self._row_tiles() if row_tiles is None else row_tiles
        found: dict[int, list[int]] = {}
        for batch in pack(lengths, self.limits["lanes"], room):
            i, t, a = (
                [x for number in batch for x in part[number]] for part in (ids, types, attend)
            )
            try:
                logits = self.infer(i, t, a, seconds, interrupt, [lengths[n] for n in batch])
            except InferenceError as error:
                if error.sequence is None:
                    raise
                raise InferenceError(error.code, batch[error.sequence]) from None
            for number in batch:
                count = self._labels * (lengths[number] if self._every_token else 1)
                found[number], logits = logits[:count], logits[count:]
        return [found[number] for number in range(len(ids))]

    def _row_tiles(self) -> int:
        """Row tiles of the longest sequence, as far as the FIFO holds their logits."""
        room = -(-self.limits["tokens"] // self.limits["lanes"])
        if not self._every_token:
            return room
        return min(room, self.limits["labels"] * -(-room // self.limits["lanes"]) // self._labels)


def tokens(
    ids: Sequence[int],
    types: Sequence[int] | None = None,
    attend: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
) -> list[int]:
    """Return the words of the tokens stream: id[23:0], type[24], attend[25], ends[26].

    Parameters
    ----------
    types, attend
        None: type 0, and every token attends.
    lengths
        The tokens are those of several sequences, one after the other; `ends` marks the last token
        of each.

    Raises
    ------
    ValueError
        There is no token, the lengths differ, or a value does not fit.
    """
    if not ids:
        raise ValueError("the sequence is empty: an inference needs at least one token")
    types = [0] * len(ids) if types is None else types
    attend = [1] * len(ids) if attend is None else attend
    for name, values, most in (
        ("ids", ids, (1 << 24) - 1),
        ("types", types, 1),
        ("attend", attend, 1),
    ):
        if len(values) != len(ids):
            raise ValueError(f"{len(values)} {name} for {len(ids)} ids: give one for each")
        for value in values:
            if not 0 <= value <= most:
                raise ValueError(f"{name} has {value}: it must lie in 0..{most}")
    words = [i | t << 24 | a << 25 for i, t, a in zip(ids, types, attend)]
    if lengths is None:
        return words
    if min(lengths, default=0) < 1 or sum(lengths) != len(ids):
        raise ValueError(
            f"the sequences have {list(lengths)} tokens: each needs one at least, and all together "
            f"{len(ids)}"
        )
    at = 0
    for length in lengths:
        at += length
        words[at - 1] |= 1 << 26
    return words


def pack(lengths: Sequence[int], lanes: int, row_tiles: int) -> list[list[int]]:
    """Return which sequences share an inference: their numbers in `lengths`, by batch.

    First fit, the longest first: each sequence takes whole row tiles of `lanes` tokens, and goes
    into the first batch that has enough of its `row_tiles` left.

    Raises
    ------
    ValueError
        A sequence is empty, or takes more row tiles than there are.
    """
    tiles = [-(-length // lanes) for length in lengths]
    for length, needed in zip(lengths, tiles):
        if not 1 <= needed <= row_tiles:
            raise ValueError(f"a sequence has {length} tokens: it must have 1..{row_tiles * lanes}")
    batches: list[list[int]] = []
    left: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -tiles[number]):
        fits = (batch for batch, room in enumerate(left) if tiles[number] <= room)
        chosen = next(fits, len(batches))
        if chosen == len(batches):
            batches.append([])
            left.append(row_tiles)
        batches[chosen].append(number)
        left[chosen] -= tiles[number]
    return sorted(map(sorted, batches))


def _check_stream(stream: bytes) -> None:
    magic = ID.to_bytes(4, "little")
    if len(stream) < DESCRIPTOR_BYTES or stream[0] != HEADER or stream[2:6] != magic:
        raise DeviceError("this is no command stream: rtl.compile writes one (model.bin)")


def model_hash(stream: bytes) -> str:
    """Return the hash of a command stream's model, as `python -m rtl.compile` prints it.

    Raises
    ------
    DeviceError
        It is no command stream.
    """
    _check_stream(stream)
    return bytes(stream[MODEL_AT : MODEL_AT + MODEL_BYTES]).hex()


def _labels(stream: bytes) -> tuple[int, bool]:
    """Logits of a sequence or of every token, and which of the two."""
    flags, fields = _descriptor(stream, LINEAR, LOGITS)
    return int.from_bytes(fields[2:4], "little"), not flags & FIRST_TILE


def check_rows(stream: bytes, table: bytes) -> None:
    """Check that the rows of the embedding table are whole and belong to a command stream.

    The accelerator cannot tell. Whoever puts rows where it reads them checks them.

    Raises
    ------
    DeviceError
        They are damaged or another model's, or the stream is none.
    """
    _check_stream(stream)
    if _crc(bytes(table)) != _rows_crc(stream):
        raise DeviceError(
            "the rows are damaged, or those of another model than the command stream: use the "
            "model.rows.bin that was written with it"
        )


def _rows_crc(stream: bytes) -> int:
    return int.from_bytes(stream[ROWS_AT : ROWS_AT + 4], "little")


@lru_cache(maxsize=1)
def _crc(table: bytes) -> int:
    """Computed once for a table that is used again."""
    return zlib.crc32(table)


def embedding_rows(stream: bytes, sums: Sequence[Sequence[int]]) -> bytes:
    """Return rows that the host computed, as they stand in the table from its first row on.

    Parameters
    ----------
    sums
        embedding.sum of docs/numerics.md: the model's channels for each token. The token ids are
        the numbers of these rows.

    Raises
    ------
    DeviceError
        The model has a table of its own, or the stream is none.
    ValueError
        The rows are too many, have a wrong size, or a value is beyond -32512..32512.
    """
    _, fields = _descriptor(stream, EMBED)
    channels, low, high = struct.unpack_from("<HHB", fields, 2)
    if fields[:2] != GIVEN or not fields[12] & 1:
        raise DeviceError("the command stream is of a model with a table of its own: it takes none")
    if len(sums) > low | high << 16:
        raise ValueError(f"rows are {len(sums)}: the model takes 1..{low | high << 16}")
    lanes, words = stream[7], []
    for number, row in enumerate(sums):
        if len(row) != channels:
            raise ValueError(f"row {number} has {len(row)} values: it must have {channels}")
        for x in row:
            if not -32512 <= x <= 32512:
                raise ValueError(f"row {number} has {x}: it must lie in -32512..32512")
        high_parts = [(x + 127) // 255 for x in row]
        low_parts = [x - 255 * h for x, h in zip(row, high_parts)]
        for first in range(0, channels, lanes):
            for part in (high_parts, low_parts):
                word = part[first : first + lanes]
                words.append(struct.pack(f"{len(word)}b", *word).ljust(lanes, b"\0"))
    return b"".join(words)


def _descriptor(stream: bytes, opcode: int, flag: int = 0) -> tuple[int, bytes]:
    """Flags and fields of the first descriptor with that opcode and flag."""
    for found, flags, fields in _descriptors(stream):
        if found == opcode and flags & flag == flag:
            return flags, fields
    raise DeviceError(f"the command stream has no operation {opcode}: it is cut or damaged")


def _descriptors(stream: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Opcode, flags and fields (26 bytes) of each after HEADER, as far as the stream goes."""
    _check_stream(stream)
    lanes = stream[7]
    if not lanes:
        raise DeviceError("the command stream says 0 lanes: it is damaged")
    width = lanes << min(stream[1] & ~HEADER_FLAGS, 3)
    size = -(-DESCRIPTOR_BYTES // width) * width  # whole words
    at = size
    while at + DESCRIPTOR_BYTES <= len(stream):
        opcode, flags, fields = stream[at], stream[at + 1], stream[at + 2 : at + 28]
        yield opcode, flags, fields
        first, second = struct.unpack_from("<HH", fields)
        tile = lanes if flags & TRANSPOSED else width
        payload = {
            TABLE: 512 if flags & WIDE else 256,
            NORM: -(-first // lanes) * lanes * (7 if flags & SHIFTS else 6),
            LINEAR: -(-second // tile) * tile * (first + PARAMETER_PLANES),
            BIAS: fields[0] * struct.unpack_from("<H", fields, 1)[0] * 4 * lanes,
            ROTARY: first * second * 4 * lanes,
        }
        at += size + -(-payload.get(opcode, 0) // width) * width
