"""The rules of the command stream in docs/architecture.md: an account apart from the RTL.

`rtl/control/rules.py` is the hardware that refuses; this says why. The fuzzer holds the two to each
other, and `python -m rtl.compile --check IMAGE` asks this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cli.errors import UserError

from golden.model import GATE_SHIFT_MAX, RMS_HIDDEN_MAX
from rtl.interface.command import BANK_SHIFT, MAGIC, VERSION, Descriptor, decode
from rtl.interface.config import Config, ceil_div
from rtl.interface.isa import (
    ADDRESS,
    FIELDS,
    NO_FLAGS,
    OPCODE_NEEDS,
    Flag,
    Opcode,
    known_bits,
)
from rtl.interface.mechanisms import MECHANISMS


@dataclass
class State:
    """The state that the descriptors so far have left.

    asked, tokens
        Flags of the HEADER, the model's longest sequence.
    due
        What the HEADER has announced and must come next.
    embedded, tabled, computed
        EMBED, a TABLE, a LINEAR with LOGITS was there.
    norm, waiting
        Flags of the latest NORM, and of the one that waits for its sum.
    narrow
        The latest sum is one of row tile 0 alone.
    read
        A LINEAR has read X8 since the latest NORM.
    """

    config: Config
    begun: bool = False
    asked: Flag = NO_FLAGS
    tokens: int = 0
    due: list[Opcode] = field(default_factory=list)
    embedded: bool = False
    tabled: bool = False
    computed: bool = False
    norm: Flag = NO_FLAGS
    waiting: Flag | None = None
    narrow: bool = False
    read: bool = False

    def accept(self, one: Descriptor) -> None:
        """The descriptor acts."""
        flags, first = one.flags, Flag.FIRST_TILE in one.flags
        match one.opcode:
            case Opcode.HEADER:
                self.begun, self.asked, self.tokens = True, flags, one.values["tokens"]
                self.due = [of for of in (Opcode.BIAS, Opcode.ROTARY) if Flag[of.name] in flags]
            case Opcode.BIAS | Opcode.ROTARY:
                del self.due[0]
            case Opcode.TABLE:
                self.tabled = True
            case Opcode.NORM:
                chained = Flag.CHAINED in flags
                self.norm, self.waiting, self.read = flags, None if chained else flags, False
                self.narrow |= chained and first
            case Opcode.EMBED:
                self.embedded, self.waiting = True, None
            case Opcode.LINEAR:
                self.read |= Flag.BANK not in flags
                self.computed |= Flag.LOGITS in flags
                if Flag.RESIDUAL in flags:
                    self.waiting, self.narrow = None, first

    def misplaced(self, one: Descriptor) -> str:
        """FORMAT: why it is no descriptor, or none that may come next; "" if it may."""
        if one.opcode not in set(Opcode):
            return f"opcode {one.opcode} is unknown, allowed are {min(Opcode)}..{max(Opcode)}"
        opcode, flags, known = Opcode(one.opcode), one.flags, known_bits(self.config)
        if opcode not in known:
            option = f"--{OPCODE_NEEDS[opcode].replace('_', '-')}"
            return f"the hardware does not know {opcode.name}: generate it with {option}"
        if one.byte & ~known[opcode]:
            return f"flags {one.byte:#04x}: {opcode.name} has only {known[opcode]:#04x}"
        if (opcode == Opcode.HEADER) == self.begun:
            return "HEADER comes first and once"
        if self.due and opcode != self.due[0]:
            return f"{self.due[0].name} is missing behind a HEADER with {self.due[0].name}"
        if self.computed:
            return "" if opcode == Opcode.END else "only END follows a LINEAR with LOGITS"
        match opcode:
            case Opcode.HEADER:
                return self._header(one)
            case Opcode.NORM:
                return self._norm(flags)
            case Opcode.EMBED if self.embedded:
                return "EMBED comes once"
            case Opcode.EMBED if self.waiting is None:
                return "EMBED comes after its NORM"
            case Opcode.BIAS if not self.due:
                return "BIAS comes once, directly behind a HEADER with BIAS"
            case Opcode.ROTARY if not self.due:
                return (
                    "ROTARY comes once, behind a HEADER with ROTARY and the BIAS, if there is one"
                )
            case Opcode.LINEAR if Flag.ROTARY in flags and Flag.ROTARY not in self.asked:
                return "LINEAR with ROTARY comes after a HEADER with ROTARY"
            case Opcode.ATTEND if Flag.BIAS in flags and Flag.BIAS not in self.asked:
                return "ATTEND with BIAS comes after a BIAS"
            case Opcode.ATTEND if Flag.WINDOW in flags and Flag.WINDOW not in self.asked:
                return "ATTEND with WINDOW comes after a HEADER with WINDOW"
            case Opcode.ATTEND | Opcode.LINEAR if not self.embedded:
                return f"{opcode.name} comes after EMBED"
            case Opcode.LINEAR:
                return self._linear(one)
            case Opcode.END:
                return "END comes after a LINEAR with LOGITS"
        return ""

    def _header(self, one: Descriptor) -> str:
        right = {"magic": MAGIC, "version": VERSION, "lanes": self.config.lanes}
        for name, value in right.items():
            if one.values[name] != value:
                return f"{name} is {one.values[name]}: it must be {value}"
        if one.columns != self.config.tile_columns:
            return f"columns are {one.columns}: they must be {self.config.tile_columns}"
        return ""

    def _norm(self, flags: Flag) -> str:
        if self.waiting is not None:
            return "a NORM waits for its sum already"
        if Flag.CHAINED in flags:
            if not self.embedded or Flag.RESIDUAL not in self.norm:
                return "a NORM with CHAINED follows a NORM with RESIDUAL and its sum"
            if self.read:
                return (
                    "a NORM with CHAINED stands behind a LINEAR that reads X8 of the NORM before it"
                )
        if Flag.FIRST_TILE in flags and not self.embedded:
            return "the NORM of EMBED has no FIRST_TILE"
        return self._narrow(flags)

    def _narrow(self, flags: Flag) -> str:
        """From the first sum or chained NORM of row tile 0 on, the others hold nothing new."""
        if self.narrow and Flag.FIRST_TILE not in flags:
            return "FIRST_TILE is missing: a sum or a NORM with CHAINED before it has it"
        return ""

    def _linear(self, one: Descriptor) -> str:
        flags, shaped = one.flags, Flag.TABLE | Flag.TRANSPOSED
        if self._gate(one) and flags & ~(Flag.FIRST_TILE | Flag.WIDE):
            return "LINEAR with a gate has no flags but FIRST_TILE and WIDE"
        if Flag.ROTARY in flags and flags & (shaped | Flag.RESIDUAL | Flag.LOGITS):
            return "LINEAR with ROTARY has no TABLE, TRANSPOSED, RESIDUAL or LOGITS"
        if Flag.TABLE in flags and not self.tabled:
            return "LINEAR with TABLE comes after a TABLE"
        if Flag.BANK not in flags:
            if self.waiting is not None:
                return "LINEAR without BANK reads X8 while a NORM waits for its sum"
            if wrong := self._narrow(flags):
                return wrong
            if Flag.WIDE in flags and Flag.SHIFTS in self.norm:
                return "LINEAR with WIDE reads X8 of a NORM with SHIFTS: wide operands have none"
        if Flag.RESIDUAL in flags:
            if Flag.BANK not in flags or flags & (shaped | Flag.LOGITS):
                return "LINEAR with RESIDUAL has BANK, and no TABLE, TRANSPOSED or LOGITS"
            if self.waiting is None:
                return "LINEAR with RESIDUAL comes after its NORM"
            if (self.waiting ^ flags) & Flag.FIRST_TILE:
                return "both a LINEAR with RESIDUAL and its NORM have FIRST_TILE, or none has"
        elif Flag.LOGITS in flags and flags & shaped:
            return "LINEAR with LOGITS has no TABLE and no TRANSPOSED"
        return ""

    def _gate(self, one: Descriptor) -> int:
        """The shift of a LINEAR's product, 0 where it has no gate or none is read."""
        return one.values["gate"] if Flag.GATED in self.asked else 0

    def exceeds(self, one: Descriptor) -> Iterator[str]:
        """LIMIT: the fields that this configuration does not take."""
        v, flags, config = one.values, one.flags, self.config
        hidden, bank = config.hidden, config.bank_words

        def within(low: int, high: int, *names: str) -> Iterator[str]:
            for name in names:
                if not low <= v[name] <= high:
                    yield f"{name} is {v[name]}: it must lie in {low}..{high}"

        def inside(name: str) -> Iterator[str]:
            offset = v[name] & (1 << BANK_SHIFT) - 1
            if offset >= bank:
                yield f"{name} has the offset {offset}: a bank has {bank} words"

        for known in FIELDS[Opcode(one.opcode)] if one.opcode in set(Opcode) else ():
            if known.high == ADDRESS:
                yield from inside(known.name)
            else:
                yield from within(known.low, known.highest(config), known.name)
        match one.opcode:
            case Opcode.NORM if Flag.RMS in flags:
                yield from within(0, RMS_HIDDEN_MAX, "channels")
            case Opcode.EMBED if v["offset"] + self.tokens > v["position_rows"]:
                yield (
                    f"offset {v['offset']} and the HEADER's {self.tokens} tokens are more than "
                    f"position_rows {v['position_rows']}"
                )
            case Opcode.ATTEND if Flag.BIAS in flags:
                yield from within(0, config.bias_heads, "heads")
            case Opcode.LINEAR:
                if self._gate(one):
                    yield from within(0, GATE_SHIFT_MAX, "gate")
                if Flag.ROTARY in flags:
                    pairs, odd = divmod(v["head_size"], 2)
                    if odd or not pairs:
                        size = v["head_size"]
                        yield f"head_size is {size}: with ROTARY it must be even, 2 or more"
                    if v["rotary"] + pairs > config.rotary_pairs:
                        yield (
                            f"rotary {v['rotary']} and the {pairs} pairs of a head are more than "
                            f"rotary_pairs {config.rotary_pairs}"
                        )
                if Flag.BANK in flags:
                    yield from inside("source")
                    yield from within(0, 4 * bank, "source_stride")
                else:
                    yield from within(0, hidden, "length", "source_stride")
                    yield from within(0, 0, "source")
                if Flag.RESIDUAL in flags:
                    yield from within(0, hidden, "columns", "destination_stride")
                if Flag.LOGITS in flags:
                    yield from within(0, config.labels, "columns", "destination_stride")
                if flags & (Flag.RESIDUAL | Flag.LOGITS):
                    yield from within(0, 0, "destination")
                else:
                    yield from inside("destination")
                    yield from within(0, 4 * bank, "destination_stride")


def violation(stream: bytes) -> str:
    """The first fault of a stream on hardware that is as large as it asks for; "" if it has none.

    Raises
    ------
    ValueError
        There is no such hardware; or as `decode`.
    """
    header, *others = decode(stream)
    needed = {name: header.values[name] for name in ("tokens", "hidden", "ffn", "labels")}
    for one in others:
        if one.opcode == Opcode.ATTEND:  # V's heads are padded
            width = ceil_div(one.values["head_size"], header.values["lanes"])
            width *= one.values["heads"] * header.values["lanes"]
            needed["hidden"] = max(needed["hidden"], width)
    least = {name: max(value, getattr(Config, name)) for name, value in needed.items()}
    given = {"lanes": header.values["lanes"], "columns": header.columns, **least}
    most: dict[str, Any] = {one.name: one.most or True for one in MECHANISMS}
    try:
        state = State(Config(**given, **most))
    except ValueError as error:
        raise UserError(f"no hardware takes the stream: {error}") from None
    for number, one in enumerate([header, *others]):
        wrong = "" if one.crc_good else "the CRC is wrong"
        if wrong := wrong or state.misplaced(one) or next(state.exceeds(one), ""):
            return f"descriptor {number}, {Opcode(one.opcode).name} at byte {one.offset}: {wrong}"
        state.accept(one)
    return ""
