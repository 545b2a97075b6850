"""Stimuli and golden words as text for $readmemh; parts.sv says what a line holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.errors import UserError

import numpy as np

from rtl.dma.bus import Bus
from rtl.interface.config import ceil_div
from tb.compare import AXES
from tb.expected import Writes
from tb.packing import pack

NAME_BYTES, AXIS_BYTES, AXES_MOST = 64, 12, 3
END = 0xFFFF  # inference behind the last word


@dataclass(frozen=True)
class Format:
    """Elements of a port's word: `length` of them, `width` bits each."""

    length: int
    width: int
    signed: bool


def format_of(facts: Mapping[str, Any]) -> Format:
    """The elements of a port of a data sheet."""
    element = facts.get("element", facts)
    return Format(facts.get("length", 1), element["width"], element.get("signed", False))


@dataclass
class Expected:
    """What one port must show, in order.

    enable
        Verilog expression: the port is written in this cycle.
    address
        Port that holds the address; "" where it is not compared.
    writes
        With the inference that each belongs to, and whether each word must come.
    """

    port: str
    format: Format
    enable: str
    address: str = ""
    writes: list[tuple[int, Writes, np.ndarray, tuple[str, ...]]] = field(default_factory=list)

    def add(
        self,
        inference: int,
        writes: Writes,
        required: np.ndarray | None = None,
        axes: tuple[str, ...] | None = None,
    ) -> None:
        """Expect `writes` next; `axes` names the axes of their index where the port does not."""
        required = np.ones(len(writes.address), bool) if required is None else required
        axes = AXES.get(writes.port, ("token", "channel")) if axes is None else axes
        if len(axes) != writes.index.shape[-1]:
            raise UserError(f"{writes.tensor}: {writes.index.shape[-1]} indices for {axes}")
        self.writes.append((inference, writes, required, axes))

    @property
    def words(self) -> int:
        return sum(len(writes.address) for _, writes, _, _ in self.writes)


def hexadecimal(words: Iterable[int], bits: int) -> str:
    """A line per word, with leading zeros."""
    digits = -(-bits // 4)
    return "".join(f"{word:0{digits}x}\n" for word in words)


class Memory:
    """What lies in the memory of an accelerator with DMA: whole beats, whose further bytes are
    noise.

    base
        Address of the first beat: high up, so that all bits of an address matter.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus, self.base = bus, 3 << bus.address_bits - 2
        self._end = 0
        self._beats: dict[int, bytearray] = {}
        self._placed: dict[bytes, int] = {}
        self._noise = np.random.default_rng(1)

    def _room(self, content: bytes, align: int) -> tuple[int, bool]:
        """Offset from `base` of that content, and whether it is new there.

        It is a multiple of `align` and, where that is less than a beat, none of a beat.
        """
        if content in self._placed:
            return self._placed[content], False
        offset = ceil_div(self._end, align) * align
        if offset % self.bus.data_bytes == 0:
            offset += align
        self._placed[content], self._end = offset, offset + len(content)
        return offset, True

    def _write(self, offset: int, content: bytes) -> None:
        size = self.bus.data_bytes
        for place, byte in enumerate(content, offset):
            if place // size not in self._beats:
                self._beats[place // size] = bytearray(self._noise.bytes(size))
            self._beats[place // size][place % size] = byte

    def place(self, content: bytes, align: int) -> int:
        """Put `content` somewhere, once; its address."""
        offset, new = self._room(content, align)
        if new:
            self._write(offset, content)
        return self.base + offset

    def place_rows(self, rows: np.ndarray, asked: np.ndarray, align: int) -> int:
        """Find room for the rows uint8 [rows, bytes] and put those of the numbers `asked` there;
        the address of the first."""
        offset, _ = self._room(rows.tobytes(), align)
        for number in np.unique(asked).tolist():
            self._write(offset + number * rows.shape[1], rows[number].tobytes())
        return self.base + offset

    @property
    def beats(self) -> int:
        """From `base` to the last that something lies in."""
        return max(self._beats) + 1

    def text(self) -> str:
        """The file of `bench_memory`: an address wherever beats are left out."""
        lines, following = [], 0
        for place in sorted(self._beats):
            if place != following:
                lines.append(f"@{place:x}\n")
            lines.append(f"a5{self._beats[place][::-1].hex()}\n")
            following = place + 1
        return "".join([*lines, "ff" + "f" * (self.bus.data_bits // 4) + "\n"])


class Names:
    """Names of tensors and axes, numbered as they are first asked for."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, tuple[str, ...]], int] = {}

    def number(self, tensor: str, axes: Sequence[str]) -> int:
        return self._numbers.setdefault((tensor, tuple(axes)), len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    def text(self) -> str:
        """The file of `bench_check`'s NAMES."""
        words = []
        for tensor, axes in self._numbers:
            content = bytes([len(axes)])
            texts = tensor, *axes, *[""] * (AXES_MOST - len(axes))
            for text, size in zip(texts, (NAME_BYTES, *[AXIS_BYTES] * AXES_MOST)):
                if len(text.encode()) > size:
                    raise UserError(f"{text!r} is longer than {size} bytes")
                content += text.encode().rjust(size, b"\0")
            words.append(int.from_bytes(content, "big"))
        bits = 8 * (1 + NAME_BYTES + AXES_MOST * AXIS_BYTES)
        return hexadecimal([*words, (1 << bits) - 1], bits)


def expected_text(expected: Expected, names: Names) -> str:
    """The file of a `bench_check`.

    Raises ValueError: A value does not fit the port, or the index of the lanes is not one that runs
    by one and stops at the last lane's.
    """
    length, width = expected.format.length, expected.format.width
    bits = length * width + length + 32 + 2 * 16 * AXES_MOST + 16 + 8 + 16
    low, high = 0, (1 << width) - 1
    if expected.format.signed:
        low, high = -(1 << width - 1), (1 << width - 1) - 1
    words: list[int] = []
    for inference, writes, required, axes in expected.writes:
        tensor = names.number(writes.tensor, axes)
        seen = writes.values[writes.valid]
        if seen.size and not low <= seen.min() <= seen.max() <= high:
            raise UserError(f"{writes.tensor}: {seen.min()}..{seen.max()} is beyond {low}..{high}")
        first, last = writes.index[:, 0], writes.index[:, -1]
        lane = np.arange(writes.index.shape[1])[:, None]
        runs = np.minimum(first[:, None] + lane, np.maximum(first, last)[:, None])
        if not (runs == writes.index).all() or writes.index.max(initial=0) > END:
            raise UserError(f"{writes.tensor}: the lanes' index does not run by one")
        values = np.where(writes.valid, writes.values, 0)
        columns = required, last, first, writes.address, writes.valid, values
        for must, to, since, address, valid, lanes in zip(*(x.tolist() for x in columns)):
            word = (inference << 8 | must) << 16 | tensor
            for index in (to, since):
                word = word << 48 | pack((*index, *[0] * (AXES_MOST - len(index))), 16)
            word = (word << 32 | address) << length | pack(map(int, valid), 1)
            words.append(word << length * width | pack(lanes, width))
    return hexadecimal([*words, END << bits - 16 | (1 << bits - 16) - 1], bits)


def packets_text(packets: Iterable[Sequence[int]], width: int) -> tuple[str, int]:
    """The file of a `bench_source` and its number of words: `last` ends each packet."""
    words = [
        word | (place == len(packet) - 1) << width
        for packet in packets
        for place, word in enumerate(packet)
    ]
    bits = width + 9
    return hexadecimal([*words, (1 << bits) - 1], bits), len(words)
