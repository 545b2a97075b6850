"""The rules of the command stream in docs/architecture.md: an account apart from the RTL.

`rtl/control/rules.py` is the hardware that refuses; this looks back at a whole stream and says why.
The fuzzer holds the two to each other, and `python -m rtl.compile --dump FILE` asks this one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from golden.model import RMS_HIDDEN_MAX
from rtl.interface.command import (
    BANK_SHIFT,
    BIAS_PLANES,
    DESCRIPTOR_BYTES,
    FIELDS,
    MAGIC,
    NORM_PLANES,
    PARAMETER_PLANES,
    ROTARY_PLANES,
    TABLE_BYTES,
    VERSION,
    Flag,
    Opcode,
    flags_byte,
    flags_of,
    way_bits_of,
)
from rtl.interface.config import Config

FIRST, TABLE, TRANSPOSED, RESIDUAL = Flag.FIRST_TILE, Flag.TABLE, Flag.TRANSPOSED, Flag.RESIDUAL
CHAINED, BANK, LOGITS, SHIFTS = Flag.CHAINED, Flag.BANK, Flag.LOGITS, Flag.SHIFTS
FLAGS = {
    Opcode.NORM: FIRST | RESIDUAL | CHAINED | SHIFTS,
    Opcode.LINEAR: FIRST | TABLE | TRANSPOSED | RESIDUAL | BANK | LOGITS,
    Opcode.ATTEND: FIRST,
}
WIDE_FLAGS = {Opcode.LINEAR: Flag.WIDE, Opcode.TABLE: Flag.WIDE}
"""What hardware with `precise` has beside them."""
BIAS_FLAGS = {Opcode.HEADER: Flag.BIAS, Opcode.ATTEND: Flag.BIAS}
"""What hardware with `bias_heads` has beside them."""
WINDOW_FLAGS = {Opcode.HEADER: Flag.WINDOW, Opcode.ATTEND: Flag.WINDOW}
"""What hardware with `windows` has beside them."""
RMS_FLAGS = {Opcode.NORM: Flag.RMS}
"""What hardware with `rms_norm` has beside them."""
GATED_FLAGS = {Opcode.HEADER: Flag.GATED}
"""What hardware with `gated` has beside them."""
ROTARY_FLAGS = {Opcode.HEADER: Flag.ROTARY, Opcode.LINEAR: Flag.ROTARY}
"""What hardware with `rotary_pairs` has beside them."""


@dataclass(frozen=True)
class Descriptor:
    """One of a stream."""

    offset: int
    opcode: int
    flags: int
    values: Mapping[str, int]
    crc_good: bool

    @property
    def is_sum(self) -> bool:
        """It writes X16 and is no NORM."""
        residual = self.opcode == Opcode.LINEAR and bool(self.flags & RESIDUAL)
        return self.opcode == Opcode.EMBED or residual


def read(data: bytes, offset: int, padding: int) -> Descriptor:
    """The descriptor at `offset`, with so many zeros after it; the whole of it must be there."""
    body = data[offset : offset + DESCRIPTOR_BYTES]
    values, at = {}, 2
    known = body[0] in set(Opcode)
    for field in FIELDS[Opcode(body[0])] if known else ():
        values[field.name] = int.from_bytes(body[at : at + field.bytes], "little")
        at += field.bytes
    good = zlib.crc32(data[: offset + 28]) == int.from_bytes(body[28:], "little")
    good &= not any(data[offset + DESCRIPTOR_BYTES :][:padding])
    flags = flags_of(Opcode(body[0]), body[1]) if known else body[1]
    return Descriptor(offset, body[0], flags, values, good)


def payload_bytes(descriptor: Descriptor, config: Config) -> int:
    """Bytes after it, in whole words."""
    n, width = config.lanes, config.stream_width
    size = 0
    match descriptor.opcode:
        case Opcode.TABLE:
            size = TABLE_BYTES << bool(descriptor.flags & Flag.WIDE)
        case Opcode.NORM:
            planes = NORM_PLANES + bool(descriptor.flags & SHIFTS)
            size = -(-descriptor.values["channels"] // n) * planes * n
        case Opcode.LINEAR:
            tile = n if descriptor.flags & Flag.TRANSPOSED else width
            tiles = -(-descriptor.values["columns"] // tile)
            size = tiles * tile * (descriptor.values["length"] + PARAMETER_PLANES)
        case Opcode.BIAS:
            size = descriptor.values["heads"] * 2 * descriptor.values["row_tiles"] * BIAS_PLANES * n
        case Opcode.ROTARY:
            size = 2 * descriptor.values["pairs"] * descriptor.values["row_tiles"]
            size *= ROTARY_PLANES * n
    return -(-size // width) * width


def misplaced(one: Descriptor, before: Sequence[Descriptor], config: Config) -> str:
    """FORMAT: why it is no descriptor, or none that may follow those before it; "" if it may."""
    if one.opcode not in set(Opcode):
        return f"opcode {one.opcode} is unknown, allowed are 1..9"
    opcode = Opcode(one.opcode)
    known = FLAGS.get(opcode, Flag(0))
    known |= WIDE_FLAGS.get(opcode, Flag(0)) if config.precise else Flag(0)
    known |= BIAS_FLAGS.get(opcode, Flag(0)) if config.bias_heads else Flag(0)
    known |= WINDOW_FLAGS.get(opcode, Flag(0)) if config.windows else Flag(0)
    known |= RMS_FLAGS.get(opcode, Flag(0)) if config.rms_norm else Flag(0)
    known |= GATED_FLAGS.get(opcode, Flag(0)) if config.gated else Flag(0)
    known |= ROTARY_FLAGS.get(opcode, Flag(0)) if config.rotary_pairs else Flag(0)
    if opcode == Opcode.HEADER:
        known |= Flag(config.way_bits)
    if opcode == Opcode.BIAS and not config.bias_heads:
        return "BIAS is known to hardware with bias_heads alone"
    if opcode == Opcode.ROTARY and not config.rotary_pairs:
        return "ROTARY is known to hardware with rotary_pairs alone"
    if one.flags & ~int(known):
        given, has = flags_byte(Flag(one.flags)), flags_byte(known)
        return f"flags {given:#04x}: {opcode.name} has only {has:#04x}"
    if (opcode == Opcode.HEADER) != (not before):
        return "HEADER comes first and once"
    if opcode == Opcode.HEADER:
        right = {"magic": MAGIC, "version": VERSION, "lanes": config.lanes}
        wrong = (name for name, value in right.items() if one.values[name] != value)
        found = next((f"{n} is {one.values[n]}: it must be {right[n]}" for n in wrong), "")
        columns = config.lanes << way_bits_of(flags_byte(Flag(one.flags)))
        if not found and columns != config.tile_columns:
            return f"columns are {columns}: they must be {config.tile_columns}"
        return found
    asked = [of for of in (Opcode.BIAS, Opcode.ROTARY) if before[0].flags & Flag[of.name]]
    due = asked[len(before) - 1 :][:1]
    if due and opcode != due[0]:
        return f"{due[0].name} is missing behind a HEADER with {due[0].name}"
    if any(b.opcode == Opcode.LINEAR and b.flags & LOGITS for b in before):
        return "" if opcode == Opcode.END else "only END follows a LINEAR with LOGITS"
    embedded = any(b.opcode == Opcode.EMBED for b in before)
    waiting = waiting_norms(before)
    first = bool(one.flags & FIRST)
    match opcode:
        case Opcode.NORM:
            norms = [b for b in before if b.opcode == Opcode.NORM]
            if waiting:
                return "a NORM waits for its sum already"
            if one.flags & CHAINED and not (embedded and norms[-1].flags & RESIDUAL):
                return "a NORM with CHAINED follows a NORM with RESIDUAL and its sum"
            since = before[before.index(norms[-1]) :] if one.flags & CHAINED else []
            if any(b.opcode == Opcode.LINEAR and not b.flags & BANK for b in since):
                return (
                    "a NORM with CHAINED stands behind a LINEAR that reads X8 of the NORM before it"
                )
            if first and not embedded:
                return "the NORM of EMBED has no FIRST_TILE"
            return _narrow(before, first)
        case Opcode.EMBED if embedded:
            return "EMBED comes once"
        case Opcode.EMBED if len(waiting) != 1:
            return "EMBED comes after its NORM"
        case Opcode.BIAS if not due:
            return "BIAS comes once, directly behind a HEADER with BIAS"
        case Opcode.ROTARY if not due:
            return "ROTARY comes once, behind a HEADER with ROTARY and the BIAS, if there is one"
        case Opcode.LINEAR if one.flags & Flag.ROTARY and not before[0].flags & Flag.ROTARY:
            return "LINEAR with ROTARY comes after a HEADER with ROTARY"
        case Opcode.ATTEND if one.flags & Flag.BIAS and not before[0].flags & Flag.BIAS:
            return "ATTEND with BIAS comes after a BIAS"
        case Opcode.ATTEND if one.flags & Flag.WINDOW and not before[0].flags & Flag.WINDOW:
            return "ATTEND with WINDOW comes after a HEADER with WINDOW"
        case Opcode.ATTEND | Opcode.LINEAR if not embedded:
            return f"{opcode.name} comes after EMBED"
        case Opcode.LINEAR:
            return _misplaced_linear(one, before, waiting)
        case Opcode.END:
            return "END comes after a LINEAR with LOGITS"
    return ""


def gate_of(one: Descriptor, before: Sequence[Descriptor]) -> int:
    """The shift of a LINEAR's product, 0 where it has no gate or none is read."""
    of_linear = one.opcode == Opcode.LINEAR and any(b.flags & Flag.GATED for b in before[:1])
    return one.values["gate"] if of_linear else 0


def waiting_norms(before: Sequence[Descriptor]) -> list[Descriptor]:
    """The NORMs without CHAINED since the latest sum."""
    since = before[max((n for n, b in enumerate(before) if b.is_sum), default=-1) + 1 :]
    return [b for b in since if b.opcode == Opcode.NORM and not b.flags & CHAINED]


def _narrow(before: Sequence[Descriptor], first: bool) -> str:
    """From the first sum or chained NORM of row tile 0 alone on, the others hold nothing new."""
    narrow = any(
        b.flags & FIRST and (b.is_sum or (b.opcode == Opcode.NORM and b.flags & CHAINED))
        for b in before
    )
    wanted = "FIRST_TILE is missing: a sum or a NORM with CHAINED before it has it"
    return wanted if narrow and not first else ""


def _misplaced_linear(
    one: Descriptor, before: Sequence[Descriptor], waiting: Sequence[Descriptor]
) -> str:
    flags, tables = one.flags, [b for b in before if b.opcode == Opcode.TABLE]
    if gate_of(one, before) and flags & ~(FIRST | Flag.WIDE):
        return "LINEAR with a gate has no flags but FIRST_TILE and WIDE"
    if flags & Flag.ROTARY and flags & (TABLE | TRANSPOSED | RESIDUAL | LOGITS):
        return "LINEAR with ROTARY has no TABLE, TRANSPOSED, RESIDUAL or LOGITS"
    if flags & TABLE and not tables:
        return "LINEAR with TABLE comes after a TABLE"
    if not flags & BANK:
        if waiting:
            return "LINEAR without BANK reads X8 while a NORM waits for its sum"
        if _narrow(before, bool(flags & FIRST)):
            return _narrow(before, bool(flags & FIRST))
        norms = [b for b in before if b.opcode == Opcode.NORM]
        if flags & Flag.WIDE and norms[-1].flags & SHIFTS:
            return "LINEAR with WIDE reads X8 of a NORM with SHIFTS: wide operands have none"
    if flags & RESIDUAL:
        if not flags & BANK or flags & (TABLE | TRANSPOSED | LOGITS):
            return "LINEAR with RESIDUAL has BANK, and no TABLE, TRANSPOSED or LOGITS"
        if len(waiting) != 1:
            return "LINEAR with RESIDUAL comes after its NORM"
        if (waiting[0].flags ^ flags) & FIRST:
            return "both a LINEAR with RESIDUAL and its NORM have FIRST_TILE, or none has"
    elif flags & LOGITS and flags & (TABLE | TRANSPOSED):
        return "LINEAR with LOGITS has no TABLE and no TRANSPOSED"
    return ""


def exceeds(one: Descriptor, before: Sequence[Descriptor], config: Config) -> Iterator[str]:
    """LIMIT: the fields that this configuration does not take."""
    v, hidden, bank = one.values, config.hidden, config.bank_words

    def within(low: int, high: int, *names: str) -> Iterator[str]:
        for name in names:
            if not low <= v[name] <= high:
                yield f"{name} is {v[name]}: it must lie in {low}..{high}"

    def inside(*names: str) -> Iterator[str]:
        for name in names:
            offset = v[name] & (1 << BANK_SHIFT) - 1
            if offset >= bank:
                yield f"{name} has the offset {offset}: a bank has {bank} words"

    match one.opcode:
        case Opcode.HEADER:
            yield from within(1, 65535, "tokens")
            for name in ("hidden", "ffn", "labels"):
                yield from within(1, getattr(config, name), name)
        case Opcode.NORM:
            most = min(hidden, RMS_HIDDEN_MAX) if one.flags & Flag.RMS else hidden
            yield from within(1, most, "channels")
            yield from within(1, 31, "shift")
            yield from within(1, (1 << 50) - 1, "epsilon")
        case Opcode.EMBED:
            yield from within(1, hidden, "channels")
            yield from within(1, (1 << 24) - 1, "token_rows")
            tokens = before[0].values["tokens"] if before else 0
            if v["offset"] + tokens > v["position_rows"]:
                yield (
                    f"offset {v['offset']} and the HEADER's {tokens} tokens are more than "
                    f"position_rows {v['position_rows']}"
                )
            yield from within(0, 1, "wide")
        case Opcode.ATTEND:
            yield from within(1, 255, "heads")
            yield from within(1, hidden, "head_size")
            yield from within(0, bank, "stride")
            yield from inside("query", "key", "value", "context")
            yield from within(1, 47, "score_s", "context_s")
            if one.flags & Flag.BIAS:
                yield from within(1, config.bias_heads, "heads")
        case Opcode.BIAS:
            yield from within(1, config.bias_heads, "heads")
            yield from within(1, config.row_tiles, "row_tiles")
        case Opcode.ROTARY:
            yield from within(1, config.rotary_pairs, "pairs")
            yield from within(1, config.row_tiles, "row_tiles")
        case Opcode.LINEAR:
            yield from within(1, max(hidden, config.ffn), "length")
            yield from within(1, 65535, "columns")
            yield from within(0, 15, "shift")
            if gate_of(one, before):
                yield from within(0, 31, "gate")
            if one.flags & Flag.ROTARY:
                pairs, odd = divmod(v["head_size"], 2)
                if odd or not pairs:
                    yield f"head_size is {v['head_size']}: with ROTARY it must be even, 2 or more"
                if v["rotary"] + pairs > config.rotary_pairs:
                    yield (
                        f"rotary {v['rotary']} and the {pairs} pairs of a head are more than "
                        f"rotary_pairs {config.rotary_pairs}"
                    )
            if one.flags & BANK:
                yield from inside("source")
                yield from within(0, 4 * bank, "source_stride")
            else:
                yield from within(0, hidden, "length", "source_stride")
                yield from within(0, 0, "source")
            if one.flags & RESIDUAL:
                yield from within(0, hidden, "columns", "destination_stride")
            if one.flags & LOGITS:
                yield from within(0, config.labels, "columns", "destination_stride")
            if one.flags & (RESIDUAL | LOGITS):
                yield from within(0, 0, "destination")
            else:
                yield from inside("destination")
                yield from within(0, 4 * bank, "destination_stride")
