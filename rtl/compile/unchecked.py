"""A stream held to the whole specification: the rules of hardware, and what it does not check.

docs/architecture.md lists both. The hardware refuses a stream that breaks one of its rules; one
that breaks the others ends with NONE and logits that are not those of the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cli.errors import UserError

import numpy as np

from golden.model import ROTARY_ONE
from golden.requantize import MULTIPLIER_MAX, MULTIPLIER_MIN, SHIFT_MAX, SHIFT_MIN
from rtl.compile.account import (
    Descriptor,
    exceeds,
    gate_of,
    misplaced,
    payload_bytes,
    waiting_norms,
)
from rtl.compile.tensors import Area, areas
from rtl.interface.command import (
    PARAMETER_PLANES,
    TABLE_BYTES,
    Flag,
    Opcode,
    decode,
    descriptor_bytes,
    flags_byte,
    way_bits_of,
    word_address,
)
from rtl.interface.config import Config, ceil_div

GATHERS = Flag.FIRST_TILE | Flag.RESIDUAL
EVERY = 64
"""Batches of every number of row tiles up to this one are looked at."""


def config_for(stream: bytes, config: Config) -> Config:
    """`config` with the stream's array, and as large as its HEADER, heads and pairs ask for.

    Raises
    ------
    ValueError
        There is no such configuration; or as `decode`.
    """
    header, *others = decode(stream)
    values, n = header.values, header.values["lanes"]
    columns = n << way_bits_of(flags_byte(header.flags))
    wide = any(d.opcode in (Opcode.LINEAR, Opcode.TABLE) and d.flags & Flag.WIDE for d in others)
    limits = {
        name: max(getattr(config, name), values[name])
        for name in ("tokens", "hidden", "ffn", "labels")
    }
    for one in others:
        if one.opcode is Opcode.ATTEND:  # V's heads are padded
            width = one.values["heads"] * ceil_div(one.values["head_size"], n) * n
            limits["hidden"] = max(limits["hidden"], width)
    heads = [one.values["heads"] for one in others if one.opcode is Opcode.BIAS]
    pairs = [one.values["pairs"] for one in others if one.opcode is Opcode.ROTARY]
    try:
        return replace(
            config,
            lanes=n,
            columns=None if columns == n else columns,
            precise=config.precise or wide,
            bias_heads=max([config.bias_heads, *heads]),
            gated=config.gated or bool(header.flags & Flag.GATED),
            rotary_pairs=max([config.rotary_pairs, *pairs]),
            **limits,
        )
    except ValueError as error:
        raise UserError(f"no hardware takes the stream: {error}") from None


def violations(stream: bytes, config: Config) -> Iterator[str]:
    """The faults of a stream on this hardware, one per line: descriptor and rule.

    Raises
    ------
    ValueError
        The stream is not one; see `rtl.interface.command.decode`.
    """
    found: list[Descriptor] = []
    held = Held(config)
    for number, item in enumerate(decode(stream)):
        one = Descriptor(item.offset, item.opcode, item.flags, item.values, item.crc_good)
        begin = one.offset + descriptor_bytes(config.stream_width)
        payload = stream[begin : begin + payload_bytes(one, config)]
        place = f"descriptor {number}, {item.opcode.name} at byte {one.offset}"
        if not item.crc_good:
            yield f"{place}: the CRC is wrong"
            return
        broken = [*filter(None, [misplaced(one, found, config)]), *exceeds(one, found, config)]
        if broken:
            yield from (f"{place}: {why}" for why in broken)
            return  # what follows has no meaning
        yield from (f"{place}: {why}" for why in held.takes(one, found, payload))
        found.append(one)


@dataclass
class Batch:
    """Sequences, and which words of the banks the descriptors so far have written of them."""

    lengths: list[int]
    written: np.ndarray


class Held:
    """Rules that the hardware does not check, descriptor by descriptor."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.channels = 0  # of X16 and X8
        self.tokens = 0
        self.bias_heads = 0
        self.rotary_pairs = 0
        self.gathered = False
        self.batches: list[Batch] = []

    def takes(self, one: Descriptor, before: Sequence[Descriptor], payload: bytes) -> Iterator[str]:
        """Why its result is not that of the formulas; it may follow those before it."""
        match one.opcode:
            case Opcode.HEADER:
                self.tokens = one.values["tokens"]
                self._begin()
            case Opcode.TABLE:
                yield from _of_table(payload[: TABLE_BYTES << bool(one.flags & Flag.WIDE)])
            case Opcode.NORM:
                yield from self._of_norm(one)
            case Opcode.EMBED:
                self.channels = one.values["channels"]
                yield from self._of_embed(one, before)
            case Opcode.BIAS:
                self.bias_heads = one.values["heads"]
                yield from self._row_tiles(one)
            case Opcode.ROTARY:
                self.rotary_pairs = one.values["pairs"]
                yield from self._row_tiles(one)
                yield from _of_tables(payload, self.config.lanes)
            case Opcode.LINEAR:
                yield from self._of_linear(one, payload)
            case Opcode.ATTEND:
                yield from self._of_attend(one)
        gated = bool(gate_of(one, before))
        found = [why for batch in self.batches for why in self._of_banks(one, batch, gated)]
        yield from found[:1]  # of one batch, as of the others
        self.gathered |= one.opcode == Opcode.LINEAR and one.flags & GATHERS == GATHERS

    def _begin(self) -> None:
        """Batches that show what depends on lengths: one token, all, many, a row tile between.

        With several ways the words of a tensor depend on the row tiles modulo the ways, too. Beyond
        `EVERY` they grow evenly, and the largest batches show what fits.
        """
        n, most = self.config.lanes, self.config.row_tiles
        longest = min(self.tokens, self.config.tokens)
        many = [[longest], [1], [1] * min(n + 1, most)]
        if longest > n and most > 2:
            many.append([n + 1, 1])
        ways = self.config.ways
        for rows in range(2, most + 1) if ways > 1 else ():
            if rows <= EVERY or rows > most - ways:
                many += [[min(n, longest)] * rows, [min(rows * n, longest)]]
        self.batches = [
            Batch(lengths, np.zeros((self.config.ways, 4 * self.config.bank_words), bool))
            for lengths in many
        ]

    def _of_norm(self, one: Descriptor) -> Iterator[str]:
        if self.channels:
            yield from self._same(one, "channels")
        if one.flags & Flag.CHAINED and one.flags & Flag.FIRST_TILE and not self.gathered:
            yield (
                "a NORM with CHAINED has FIRST_TILE before a sum has gathered the first tokens: "
                "of a batch it takes its first row tiles instead"
            )

    def _of_embed(self, one: Descriptor, before: Sequence[Descriptor]) -> Iterator[str]:
        v = one.values
        norm = waiting_norms(before)[0].values["channels"]
        if norm != v["channels"]:
            yield f"channels is {v['channels']}: its NORM has {norm}"
        most = 256 if v["wide"] else 258
        factors = v["token_factor"], v["position_factor"]
        if min(factors) < 1 or sum(factors) > most:
            yield (
                f"token_factor and position_factor are {factors[0]} and {factors[1]}: they must be "
                f"1 or more, and at most {most} together"
            )

    def _of_linear(self, one: Descriptor, payload: bytes) -> Iterator[str]:
        v, flags = one.values, one.flags
        if not flags & Flag.BANK:
            yield from self._same(one, "source_stride")
            if v["length"] > self.channels:
                yield f"length is {v['length']}: X8 has {self.channels} channels"
        if flags & Flag.RESIDUAL:
            yield from self._same(one, "columns", "destination_stride")
        elif not flags & Flag.TRANSPOSED and v["destination_stride"] < v["columns"]:
            yield (
                f"destination_stride is {v['destination_stride']}: row tiles of {v['columns']} "
                "columns overlap"
            )
        if flags & Flag.ROTARY:
            yield from self._of_rotary(v)
        length = v["length"]
        tile = self.config.lanes if flags & Flag.TRANSPOSED else self.config.tile_columns
        whole = tile * (length + PARAMETER_PLANES)
        size = ceil_div(v["columns"], tile) * whole  # zeros follow to a whole word of the stream
        tiles = [payload[at : at + whole] for at in range(0, size, whole)]
        words = np.concatenate(
            [np.frombuffer(one, np.int8).reshape(length + PARAMETER_PLANES, -1).T for one in tiles]
        )[: v["columns"]]
        yield from _of_weights(words, length, bool(flags & Flag.WIDE), bool(flags & Flag.LOGITS))

    def _of_rotary(self, v: Mapping[str, int]) -> Iterator[str]:
        size, first = v["head_size"], v["rotary"]
        if first + size // 2 > self.rotary_pairs:
            yield (
                f"rotary {first} and the {size // 2} pairs of a head are more than the ROTARY's "
                f"{self.rotary_pairs}"
            )
        if v["columns"] % size:
            yield f"columns is {v['columns']}: with ROTARY a multiple of head_size {size}"
        if self.gathered:
            yield "a LINEAR with ROTARY comes after a sum has gathered the first tokens"

    def _row_tiles(self, one: Descriptor) -> Iterator[str]:
        found, least = one.values["row_tiles"], ceil_div(self.tokens, self.config.lanes)
        if found < least:
            yield f"row_tiles is {found}: the HEADER's {self.tokens} tokens take {least}"

    def _of_attend(self, one: Descriptor) -> Iterator[str]:
        v = one.values
        if one.flags & Flag.BIAS and v["heads"] > self.bias_heads:
            yield f"heads is {v['heads']}: the BIAS has {self.bias_heads}"
        yield from _outside("score_m", v["score_m"], MULTIPLIER_MIN, MULTIPLIER_MAX)
        yield from _outside("context_m", v["context_m"], MULTIPLIER_MIN, MULTIPLIER_MAX)
        # s of a row is at most s + 1 + e, and e that of the longest row's sum.
        most = SHIFT_MAX - (255 * self.tokens).bit_length()
        yield from _outside(f"context_s of {self.tokens} tokens", v["context_s"], SHIFT_MIN, most)
        query, key = (area for area in self._areas(one, [1]) if area.field in ("query", "key"))
        if query.bank == key.bank:
            yield f"query and key are both in bank {key.bank}: they are read in the same cycle"
        inner = v["heads"] * v["head_size"]
        if v["stride"] < inner:
            yield f"stride is {v['stride']}: row tiles of {inner} channels overlap"

    def _of_banks(self, one: Descriptor, batch: Batch, gated: bool) -> Iterator[str]:
        """Words that are read and were not written, or are written while they may be read.

        With a gate the words of the destination are read before they are written.
        """
        found = list(self._areas(one, batch.lengths))
        tokens = f"for sequences of {', '.join(map(str, batch.lengths))} tokens"
        for area in found:
            if area.leaves(self.config.bank_words):
                yield f"{area.field} leaves its bank {tokens}"
        used = {area.field: self._words(area) for area in found}
        for area in found:
            read = gated or not area.written
            if read and not batch.written[used[area.field]].all():
                if one.opcode == Opcode.ATTEND and _ignores(one, area.field):
                    continue
                yield f"{area.field} has words that nothing has written, {tokens}"
        for target in (area for area in found if area.written):
            for area in found:
                same = (area.field, area.address) == ("query", target.address)
                if area.written or same or not (used[area.field] & used[target.field]).any():
                    continue
                yield f"{target.field} overlaps {area.field}, {tokens}"
            batch.written |= used[target.field]

    def _areas(self, one: Descriptor, lengths: list[int]) -> Iterator[Area]:
        return areas(one.opcode, one.flags, one.values, lengths, self.gathered, self.config)

    def _words(self, area: Area) -> np.ndarray:
        """A bit for each word of the banks: the area has it."""
        used = np.zeros((self.config.ways, 4 * self.config.bank_words), bool)
        begin = word_address(area.address, self.config.bank_words)
        for way, offset, words in area.parts:
            used[way, begin + offset : begin + offset + words] = True
        return used

    def _same(self, one: Descriptor, *names: str) -> Iterator[str]:
        for name in names:
            if one.values[name] != self.channels:
                yield f"{name} is {one.values[name]}: X16 and X8 have {self.channels} channels"


def _ignores(one: Descriptor, field: str) -> bool:
    """Scores that are all 0, whatever is read: mean pooling."""
    v = one.values
    # |q . k| <= head_size * 2^14
    largest = (v["head_size"] << 14) * v["score_m"]
    return field in ("query", "key") and 2 * largest < 1 << v["score_s"]


def _outside(name: str, value: int, low: int, high: int) -> Iterator[str]:
    if not low <= value <= high:
        yield f"{name} is {value}: it must lie in {low}..{high}"


def _of_table(payload: bytes) -> Iterator[str]:
    table = np.frombuffer(payload, np.int8)
    high, low = table[:TABLE_BYTES], table[TABLE_BYTES:]
    if low.size and ((high == -128) & (low < 0)).any():
        place = int(np.flatnonzero((high == -128) & (low < 0))[0])
        yield f"entry {place} is -128 and its low half {low[place]}: it must be 0 or more"


def _of_tables(payload: bytes, lanes: int) -> Iterator[str]:
    planes = np.frombuffer(payload, np.uint8)
    words = planes[: len(planes) // (2 * lanes) * 2 * lanes].reshape(-1, 2, lanes)
    values = np.ascontiguousarray(words.swapaxes(1, 2)).view("<i2")
    wrong = values[abs(values.astype(int)) > ROTARY_ONE]
    if wrong.size:
        yield f"a value is {wrong[0]}: cos and sin must lie in {-ROTARY_ONE}..{ROTARY_ONE}"


def _of_weights(words: np.ndarray, length: int, wide: bool, logits: bool) -> Iterator[str]:
    """Of each column its weights, bias, m and s."""
    weights = words[:, :length].astype(np.int64)
    planes = np.ascontiguousarray(words[:, length:]).view(np.uint8)
    bias = planes[:, :4].copy().view("<i4")[:, 0].astype(np.int64)
    m = planes[:, 4:6].copy().view("<u2")[:, 0]
    for name, values, low, high in (
        ("weight", weights.min(axis=1), -127, 127),
        *(() if logits else (("m", m, MULTIPLIER_MIN, MULTIPLIER_MAX),)),
        *(() if logits else (("s", planes[:, 6], SHIFT_MIN, SHIFT_MAX),)),
    ):
        wrong = np.flatnonzero((values < low) | (values > high))
        if wrong.size:
            yield f"{name} of column {wrong[0]} is {values[wrong[0]]}: it must lie in {low}..{high}"
    sums = (129 if wide else 128) * np.abs(weights).sum(axis=1) + np.abs(bias) + wide
    if sums.max() >= 1 << 31:
        yield (f"the sum of column {sums.argmax()} may reach {sums.max()}: it must stay below 2^31")
