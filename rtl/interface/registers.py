"""The register map: addresses, fields, access, resets and meaning, for gateware and software alike.

Words of 32 bits behind AXI4-Lite. A write that has no effect is answered with SLVERR: to a register
that takes none, without the strobe of byte 0, or a start while an inference is under way; from 0x80
on also one without all four strobes, and one to an address or a size while busy. Reads are always
OKAY; what is not listed reads as 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtl.interface.command import MAGIC, VERSION
from rtl.interface.operation import Error


@dataclass(frozen=True)
class Field:
    """Bits of a register.

    Attributes
    ----------
    high, low
        Its place, both included.
    access
        ro, rw, wo (reads as 0; a written 1 acts once), or w1c (a written 1 clears).
    text
        What it says.
    reset
        Its value after `rst`, or the name of the limit that it shows.
    """

    name: str
    high: int
    low: int
    access: str
    text: str
    reset: int | str = 0

    @property
    def bits(self) -> str:
        """`3`, or `11:8`."""
        return str(self.low) if self.high == self.low else f"{self.high}:{self.low}"


@dataclass(frozen=True)
class Register:
    """A word of the map, at a byte address."""

    address: int
    name: str
    fields: tuple[Field, ...]

    @property
    def writable(self) -> bool:
        """Some field takes writes."""
        return any(field.access != "ro" for field in self.fields)

    @property
    def readable(self) -> bool:
        """Some field shows something."""
        return any(field.access != "wo" for field in self.fields)


def _register(address: int, name: str, *fields: Field) -> Register:
    return Register(address, name, fields)


def _word(
    address: int, name: str, text: str, *, access: str = "ro", reset: int | str = 0
) -> Register:
    return Register(address, name, (Field(name, 31, 0, access, text, reset),))


def _limit(address: int, name: str, text: str) -> Register:
    return _word(address, name, text, reset=name)


def _kept(address: int, name: str, text: str) -> Register:
    return _word(address, name, text, access="rw")


REGISTERS = (
    _word(0x00, "id", f"{MAGIC:#x}", reset=MAGIC),
    _word(0x04, "version", "a stream of another version is refused with FORMAT", reset=VERSION),
    _limit(0x08, "lanes", "N: rows of the array, tokens of a word; a word of the rows has N bytes"),
    _limit(0x0C, "tokens", "longest sequence"),
    _limit(0x10, "hidden", "widest hidden state"),
    _limit(0x14, "ffn", "widest feed-forward layer"),
    _limit(0x18, "labels", "most logits"),
    _register(
        *(0x1C, "control"),
        Field("start", 0, 0, "wo", "write 1: begin an inference; SLVERR while one is under way"),
        Field("abort", 1, 1, "wo", "write 1: end the inference under way with ABORTED"),
    ),
    _register(
        *(0x20, "status"),
        Field("busy", 0, 0, "ro", "an inference is under way"),
        Field("done", 1, 1, "ro", "one has ended since the last start"),
        Field("error", 11, 8, "ro", "how the latest one ended; kept until the next start"),
    ),
    _word(0x24, "cycles", "clock cycles in which busy was set"),
    _word(0x28, "active", "cycles in which operands entered the array"),
    _word(0x2C, "stall_idle", "cycles without a tile: before, after, and at fences"),
    _word(0x30, "stall_weights", "cycles waiting for weights or embedding rows"),
    _word(0x34, "stall_norm", "cycles waiting for LayerNorm"),
    _word(0x38, "stall_softmax", "cycles waiting for the softmax"),
    _word(0x3C, "stall_drain", "cycles waiting for the array to drain"),
    _register(
        *(0x40, "interrupt_enable"),
        Field("enable", 0, 0, "rw", "0 hides it and clears nothing", reset=1),
    ),
    _register(
        *(0x44, "interrupt_pending"),
        Field("pending", 0, 0, "w1c", "until a 1 is written or the next start is accepted"),
    ),
    _register(
        *(0x48, "failed_sequence"),
        Field("failed", 15, 0, "ro", "of the batch, from 0: with LENGTH, TOKEN, NO_KEY, ROW"),
    ),
    _limit(
        *(0x4C, "columns"),
        "M: columns of the array, which has N x M MACs; a word of the command stream has M bytes",
    ),
)
DMA_REGISTERS = (
    _kept(
        *(0x80, "model_address"),
        "bits 31:0 of its address, a multiple of M, or of 64 where M is more",
    ),
    _kept(0x84, "model_address_high", "bits 63:32; 0 beyond the width of the bus"),
    _kept(0x88, "model_bytes", "bytes of the command stream, a multiple of M"),
    _kept(0x8C, "rows_address", "bits 31:0 of row 0's address, a multiple of N"),
    _kept(0x90, "rows_address_high", "bits 63:32; 0 beyond the width of the bus"),
    _kept(0x94, "row_bytes", "bytes of a row, a multiple of N: whole words"),
    _word(0x98, "token", "a token word; SLVERR while there is no room", access="wo"),
    _word(0x9C, "token_last", "the last token word; SLVERR while there is no room", access="wo"),
    _limit(0xA0, "token_room", "token words that there is room for"),
    _word(0xA4, "logit", "int32; a read takes it; 0 where none waits"),
    _word(0xA8, "logits_waiting", "logits that wait to be read"),
    _limit(0xAC, "bus_bytes", "bytes of a beat"),
)
"""What the memory side adds. An abort empties `token_room`, a start drops logits not read."""

ADDRESS = {register.name: register.address for register in REGISTERS}

ERRORS = {
    Error.NONE: "the logits are complete",
    Error.FORMAT: "wrong magic, version, lanes or columns, unknown opcode, a flag or an operation "
    "that may not stand there",
    Error.CRC: "a damaged descriptor or payload",
    Error.LIMIT: "the model, a field or a tensor of this batch exceeds the configuration",
    Error.TRUNCATED: "`last` before END",
    Error.OVERRUN: "the stream goes on after END",
    Error.LENGTH: "more tokens in a sequence than model or configuration take, or more row tiles "
    "in all",
    Error.TOKEN: "an id or a type beyond its table",
    Error.NO_KEY: "no token of a sequence has its attend bit set",
    Error.ABORTED: "`abort` was written",
    Error.TIMEOUT: "nothing moved for `patience` cycles, although no source was silent and no sink "
    "refused",
    Error.ROW: "a row of the embedding table ended early or late",
    Error.BUS: "with DMA: the memory answered a read with SLVERR or DECERR",
    Error.ADDRESS: "with DMA: an address or a size in the registers cannot be used; nothing was "
    "read",
}
"""The values of the field `error`, and what happened."""
