"""Streams and batches that the attention unit refuses, and those next to them that it takes."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from rtl.interface.command import (
    FIELDS,
    GATE_SHIFT_MAX,
    MAGIC,
    RMS_BIT,
    ROTARY_BIT,
    SHARED_BIT,
    VERSION,
    WINDOW_BIT,
    Flag,
    Opcode,
    bank_address,
    descriptor_bytes,
)
from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import Error
from tb.case import Inference
from tb.layers import inference, layer
from tb.packing import ENDS_BIT, operand_words

Entry = tuple[int, int, dict[str, int], bytes]
"""A descriptor: opcode and flags, which may be any byte, fields and payload."""


def stream(width: int, entries: Sequence[Entry]) -> bytes:
    """The command stream of these descriptors, with right CRCs."""
    data = bytearray()
    for opcode, flags, values, payload in entries:
        data += bytes([opcode, flags])
        known = FIELDS[Opcode(opcode)] if opcode in set(Opcode) else ()
        fields = b"".join(values.get(f.name, 0).to_bytes(f.bytes, "little") for f in known)
        data += fields.ljust(26, b"\0")
        data += zlib.crc32(data).to_bytes(4, "little")
        data += bytes(descriptor_bytes(width) - 32)
        data += payload + bytes(-len(payload) % width)
    return bytes(data)


def header(config: Config) -> dict[str, int]:
    """The fields of a HEADER that asks for all there is."""
    limits = {name: getattr(config, name) for name in ("tokens", "hidden", "ffn", "labels")}
    return {"magic": MAGIC, "version": VERSION, "lanes": config.lanes, **limits}


def header_entry(config: Config, **values: int) -> Entry:
    """A HEADER that asks for all there is, but for `values`."""
    return Opcode.HEADER, config.way_bits, header(config) | values, b""


def bias_entries(config: Config, **values: int) -> list[Entry]:
    """A HEADER with BIAS, and its BIAS of one head and row tile, but for `values`."""
    opcode, flags, fields, _ = header_entry(config)
    found = {"heads": 1, "row_tiles": 1} | values
    size = found["heads"] * found["row_tiles"] * 4 * config.lanes
    return [(opcode, flags | SHARED_BIT, fields, b""), (Opcode.BIAS, 0, found, bytes(size))]


def rotary_entries(config: Config, **values: int) -> list[Entry]:
    """A HEADER with ROTARY, and its ROTARY of one pair and row tile, but for `values`."""
    opcode, flags, fields, _ = header_entry(config)
    found = {"pairs": 1, "row_tiles": 1} | values
    size = found["pairs"] * found["row_tiles"] * 4 * config.lanes
    return [(opcode, flags | ROTARY_BIT, fields, b""), (Opcode.ROTARY, 0, found, bytes(size))]


def linear_entry(config: Config, flags: int, **values: int) -> Entry:
    """A LINEAR of one weight, or of so many as `values` says."""
    small = {"length": 1, "columns": 1, "source_stride": 1, "destination_stride": 1, "shift": 0}
    found = {**small, "source": 0, "destination": 0} | values
    tile = config.lanes if flags & Flag.TRANSPOSED else config.stream_width
    columns = ceil_div(found["columns"], tile) * tile
    return Opcode.LINEAR, flags, found, bytes((found["length"] + 7) * columns)


def attend_entry(**values: int) -> Entry:
    """An ATTEND of one channel."""
    fields = {"heads": 1, "head_size": 1, "stride": 1, "score_m": 1 << 15, "context_m": 1 << 15}
    return Opcode.ATTEND, 0, {**fields, "score_s": 15, "context_s": 15} | values, b""


def _only(config: Config, name: str, entries: Sequence[Entry], error: Error) -> Inference:
    """One token, a stream that is refused, and nothing written."""
    return Inference(
        name=name,
        stream=stream(config.stream_width, entries),
        tokens=np.full(1, 1 << 25, np.uint32),
        writes=(),
        error=error,
    )


def out_of_limits(config: Config) -> Iterator[Inference]:
    """Every field at its least and most, which is taken, and beyond: LIMIT.

    Behind what is taken a second HEADER stands, of which the code is FORMAT.
    """
    first = header_entry(config)
    bank, hidden, widest = config.bank_words, config.hidden, max(config.hidden, config.ffn)
    offset = {"source", "destination", "query", "key", "value", "context"}
    of_linear = {
        "columns": (1, 8),
        "shift": (0, 15),
        "destination": (0, bank - 1),
        "destination_stride": (0, 4 * bank),
    }
    of_x8 = {"length": (1, hidden), "source_stride": (0, hidden), **of_linear}
    of_bank = {"length": (1, widest), "source_stride": (0, 4 * bank), "source": (0, bank - 1)}
    of_attend = {
        "heads": (1, 255),
        "head_size": (1, hidden),
        "stride": (0, bank),
        "score_s": (1, 47),
        "context_s": (1, 47),
        **dict.fromkeys(("query", "key", "value", "context"), (0, bank - 1)),
    }
    of_header = {
        "tokens": (1, 65535),
        **{n: (1, getattr(config, n)) for n in ("hidden", "ffn", "labels")},
    }
    of_bias = {"heads": (1, config.bias_heads), "row_tiles": (1, config.row_tiles)}
    kinds = [
        (Opcode.LINEAR, 0, of_x8),
        (Opcode.LINEAR, Flag.BANK, of_bank | of_linear),
        (Opcode.ATTEND, 0, of_attend),
        (Opcode.HEADER, config.way_bits, of_header),
    ]
    if config.gated:
        kinds.append((Opcode.LINEAR, Flag.FIRST_TILE, {"gate": (0, GATE_SHIFT_MAX)}))
    if config.bias_heads:
        heads = {"heads": (1, config.bias_heads)}
        kinds += [(Opcode.ATTEND, SHARED_BIT, heads), (Opcode.BIAS, 0, of_bias)]
    for opcode, flags, ranges in kinds:
        for field in FIELDS[opcode]:
            if field.name not in ranges:
                continue
            least, most = ranges[field.name]
            top = 1 << (22 if field.name in offset else 8 * field.bytes)
            powers = [1 << bit for bit in range((top - 1).bit_length())]
            tried = {0, least, most, most + 1, top - 1, *powers, *(p - 1 for p in powers)}
            for value in sorted(tried):
                good = least <= value <= most
                if value >= top or (field.name == "columns" and value > most):
                    continue
                entry: Entry
                if opcode is Opcode.LINEAR:
                    if not good and field.name in ("length", "columns"):
                        entry = (opcode, flags, linear_entry(config, flags)[2], b"")
                        entry[2][field.name] = value
                    else:
                        entry = linear_entry(config, flags, **{field.name: value})
                elif opcode is Opcode.ATTEND:
                    entry = (opcode, flags, attend_entry(**{field.name: value})[2], b"")
                elif opcode is Opcode.BIAS:
                    _, entry = bias_entries(config, **{field.name: value if good else 1})
                    entry[2][field.name] = value
                else:
                    entry = header_entry(config, **{field.name: value})
                before = [] if opcode is Opcode.HEADER else [first]
                if field.name == "gate":
                    before = [(*first[:1], first[1] | RMS_BIT, *first[2:])]
                if opcode is Opcode.BIAS or flags & SHARED_BIT:
                    before = bias_entries(config)[: 1 + (opcode is Opcode.ATTEND)]
                yield _only(
                    config,
                    f"{opcode.name}.{field.name} is {value}",
                    [*before, entry, first],
                    Error.FORMAT if good else Error.LIMIT,
                )
    if config.rotary_pairs:
        yield from _out_of_rotary(config)
    wrong = linear_entry(config, 0)
    wrong[2]["source"] = 1
    yield _only(config, "LINEAR of X8 from 1 on", [first, wrong, first], Error.LIMIT)


def _out_of_rotary(config: Config) -> Iterator[Inference]:
    """Of ROTARY and of a LINEAR with it."""
    again, pairs = header_entry(config), config.rotary_pairs
    for field, most in (("pairs", pairs), ("row_tiles", config.row_tiles)):
        for value in (0, 1, most, most + 1, 1 << 8, 1 << 15, (1 << 16) - 1):
            good = 1 <= value <= most
            begin, rotary = rotary_entries(config, **{field: value if good else 1})
            rotary[2][field] = value
            error = Error.FORMAT if good else Error.LIMIT
            yield _only(config, f"ROTARY.{field} is {value}", [begin, rotary, again], error)
    for size in (0, 1, 2, 3, 2 * pairs - 1, 2 * pairs, 2 * pairs + 2, (1 << 16) - 2):
        for first in (0, 1, pairs - 1, pairs, 1 << 15, (1 << 16) - 1):
            good = size >= 2 and size % 2 == 0 and first + size // 2 <= pairs
            turned = linear_entry(config, ROTARY_BIT, head_size=size, rotary=first)
            yield _only(
                config,
                f"heads of {size} from pair {first} on",
                [*rotary_entries(config), turned, again],
                Error.FORMAT if good else Error.LIMIT,
            )


def many_columns(config: Config) -> Iterator[Inference]:
    """LINEARs of many columns, in a bank or all of them.

    Of 2^k, or 2 tiles more, where there is room for less: LIMIT. Of 2^i + 2^j tiles, which fit: the
    second HEADER behind them is refused (FORMAT).
    """
    n, all_banks = config.lanes, 4 * config.bank_words
    first = header_entry(config)
    end: Entry = (Opcode.END, 0, {}, b"")
    tried = [
        (1 << bit | more, start, room, end, Error.LIMIT)
        for start, room in (
            (bank_address(3, config.bank_words - 2 * n), 2 * n),
            (bank_address(0, 1), all_banks - 1),
        )
        for bit in range(room.bit_length(), 14)
        for more in (0, 2 * n)
    ]
    fitting = [n * (1 << i | 1 << j) for i in range(7) for j in range(i)]
    tried += [(c, 0, all_banks, first, Error.FORMAT) for c in fitting if c <= all_banks]
    for columns, start, room, behind, error in tried:
        values = {"destination": start, "columns": columns}
        yield dataclasses.replace(
            _only(
                config,
                f"{columns} columns where there is room for {room}",
                [first, linear_entry(config, Flag.BANK, **values), behind],
                error,
            ),
            writes=None,
            activations=operand_words([np.zeros((n, config.hidden), np.int8)], n, config.precise),
        )


def no_programs(config: Config) -> Iterator[Inference]:
    """Descriptors that are none, or stand where none such may: FORMAT.

    Behind each stands a LINEAR of no columns, of which the code is LIMIT.
    """
    first = header_entry(config)
    beyond: Entry = (Opcode.LINEAR, 0, {"length": 1}, b"")
    norm = {"channels": 1, "shift": 8, "epsilon": 1}
    embed = {"channels": 1, "token_rows": 1, "position_rows": 65535, "types": 1}
    table: Entry = (Opcode.TABLE, 0, {}, bytes(256))
    for name, bits in (("magic", 32), ("version", 8), ("lanes", 8)):
        for bit in range(bits):
            entry: Entry = header_entry(config, **{name: header(config)[name] ^ 1 << bit})
            yield _only(config, f"bit {bit} of {name}", [entry, beyond], Error.FORMAT)
    sound: dict[int, dict[str, int]] = {
        Opcode.HEADER: header(config),
        Opcode.TABLE: {},
        Opcode.NORM: norm,
        Opcode.EMBED: embed,
        Opcode.LINEAR: linear_entry(config, 0)[2],
        Opcode.ATTEND: attend_entry()[2],
        Opcode.END: {},
    }
    wide = SHARED_BIT if config.precise else 0
    ways = config.way_bits
    further = (WINDOW_BIT if config.windows else 0) | (RMS_BIT if config.gated else 0)
    known = {Opcode.LINEAR: 1 | 4 | 32 | wide, Opcode.ATTEND: 1, Opcode.TABLE: wide}
    for opcode in [0, *range(8, 16), *(1 << bit | low for bit in range(4, 8) for low in range(8))]:
        entry = (opcode, 0, {}, b"")
        yield _only(config, f"opcode {opcode}", [first, entry, beyond], Error.FORMAT)
    for opcode, fields in sound.items():
        if opcode != Opcode.HEADER:
            entry = (opcode, 0, fields, b"")
            yield _only(config, f"opcode {opcode} first", [entry, beyond], Error.FORMAT)
        if opcode in (Opcode.HEADER, Opcode.NORM, Opcode.EMBED, Opcode.END):
            again = first if opcode == Opcode.HEADER else (opcode, 0, fields, b"")
            yield _only(config, f"opcode {opcode}", [first, again, beyond], Error.FORMAT)
        for bit in range(8):
            flag = 1 << bit
            taken = known.get(Opcode(opcode), 0) & flag
            if opcode == Opcode.HEADER:  # the shape of the array; WINDOW, GATED
                taken = flag == ways or (flag & further and not ways)
            before = [] if opcode == Opcode.HEADER else [first]
            payload = {Opcode.LINEAR: linear_entry(config, flag)[3], Opcode.TABLE: bytes(512)}.get(
                Opcode(opcode), b""
            )
            entry = (opcode, flag, fields, payload)
            yield _only(
                config,
                f"opcode {opcode} with flag {flag}",
                [*before, entry, beyond],
                Error.LIMIT if taken else Error.FORMAT,
            )
    for flags in range(256):
        if flags.bit_count() == 2 or flags == 1 | 2 | 4 | 32:
            taken = not flags & ~(known[Opcode.LINEAR] | Flag.TABLE)
            before = [first, table] if flags & Flag.TABLE and taken else [first]
            entry = linear_entry(config, flags)
            yield _only(
                config,
                f"LINEAR with flags {flags}",
                [*before, entry, beyond],
                Error.LIMIT if taken else Error.FORMAT,
            )
    if config.bias_heads:
        begin, bias = bias_entries(config)
        biased = (Opcode.ATTEND, SHARED_BIT, attend_entry()[2], b"")
        for name, entries, error in (
            ("HEADER with BIAS without one", [begin, beyond], Error.FORMAT),
            ("BIAS without its flag", [first, bias, beyond], Error.FORMAT),
            ("BIAS twice", [begin, bias, bias, beyond], Error.FORMAT),
            ("ATTEND with BIAS", [begin, bias, biased, beyond], Error.LIMIT),
            *(
                (
                    f"BIAS with flag {1 << bit}",
                    [begin, (bias[0], 1 << bit, *bias[2:])],
                    Error.FORMAT,
                )
                for bit in range(8)
            ),
        ):
            yield _only(config, name, entries, error)
    if config.windows:
        opcode, flags, fields, _ = first
        begin = (opcode, flags | WINDOW_BIT, fields, b"")
        windowed = (Opcode.ATTEND, WINDOW_BIT, attend_entry(window=(1 << 24) - 1)[2], b"")
        for name, entries, error in (
            ("ATTEND with WINDOW", [begin, windowed, beyond], Error.LIMIT),
            ("ATTEND without WINDOW", [begin, attend_entry(), beyond], Error.LIMIT),
            ("ATTEND with WINDOW of a HEADER without", [first, windowed, beyond], Error.FORMAT),
        ):
            yield _only(config, name, entries, error)
    if config.gated:
        opcode, flags, fields, _ = first
        begin = (opcode, flags | RMS_BIT, fields, b"")
        for flag in (Flag.TRANSPOSED, Flag.BANK):
            entry = linear_entry(config, flag, gate=1)
            name = f"LINEAR with a gate and {flag.name}"
            yield _only(config, name, [begin, entry, beyond], Error.FORMAT)
            name += " of a HEADER without"
            yield _only(config, name, [first, entry, beyond], Error.LIMIT)
        entry = linear_entry(config, Flag.TABLE, gate=1)
        yield _only(config, "a gate and a table", [begin, table, entry, beyond], Error.FORMAT)
    if config.rotary_pairs:
        begin, rotary = rotary_entries(config)
        of_pair = {"head_size": 2, "columns": 0}
        for name, entries, error in (
            ("HEADER with ROTARY without one", [begin, beyond], Error.FORMAT),
            ("ROTARY without its flag", [first, rotary, beyond], Error.FORMAT),
            ("ROTARY twice", [begin, rotary, rotary, beyond], Error.FORMAT),
            (
                "LINEAR with ROTARY of a HEADER without",
                [first, linear_entry(config, ROTARY_BIT, **of_pair)],
                Error.FORMAT,
            ),
            *(
                (
                    f"ROTARY with flag {1 << bit}",
                    [begin, (rotary[0], 1 << bit, *rotary[2:])],
                    Error.FORMAT,
                )
                for bit in range(8)
            ),
            *(
                (
                    f"LINEAR with ROTARY and flag {1 << bit}",
                    [begin, rotary, table, linear_entry(config, ROTARY_BIT | 1 << bit, **of_pair)],
                    Error.LIMIT
                    if 1 << bit & (Flag.FIRST_TILE | Flag.BANK | wide)
                    else Error.FORMAT,
                )
                for bit in range(7)
            ),
        ):
            yield _only(config, name, entries, error)
        if config.bias_heads:
            (opcode, flags, fields, _), bias = bias_entries(config)
            both = (opcode, flags | ROTARY_BIT, fields, b"")
            for name, entries, error in (
                ("BIAS and ROTARY", [both, bias, rotary, beyond], Error.LIMIT),
                ("ROTARY before BIAS", [both, rotary, bias, beyond], Error.FORMAT),
                ("BIAS and no ROTARY", [both, bias, beyond], Error.FORMAT),
            ):
                yield _only(config, name, entries, error)
    after = [first, linear_entry(config, 0), (Opcode.END, 0, {}, b"")]
    yield _only(config, "END without ATTEND", after, Error.FORMAT)


def longest_of_models(config: Config) -> Iterator[Inference]:
    """Models of few tokens, each with a sequence of so many and with one of a token more."""
    for most in (1, 2, 3, 4, 7, 8, 15, 16):
        if most < config.tokens - config.lanes:
            made = layer(config, 3, short=True, values={"header": {"tokens": most}})
            yield inference(made, [1, most] if most % 2 else [most], most)
            batches = [[most + 1], [1, most + 1], [most + 1, most]]
            if 2 * ceil_div(most + 1, config.lanes) > config.row_tiles:
                del batches[2]
            for lengths in batches:
                sound = inference(layer(config, 3, short=True), lengths, most)
                name = f"{lengths} tokens for a model of {most}"
                yield sound.damaged(name, Error.LENGTH, stream=made.program.stream(), writes=())


def wrong_tokens(config: Config, sound: Inference) -> Iterator[Inference]:
    """The program of `sound` with batches that are none."""
    attend = 1 << 25

    def batch(*lengths: int, but: int = -1) -> np.ndarray:
        words = np.concatenate([np.full(n, attend, np.uint32) for n in lengths])
        words[np.cumsum(lengths) - 1] |= np.uint32(ENDS_BIT)
        if but >= 0:
            first = sum(lengths[:but])
            words[first : first + lengths[but]] &= np.uint32(ENDS_BIT)
        return words

    n, rows = config.lanes, config.row_tiles
    for name, tokens, error in (
        ("a token too many", batch(config.tokens + 1), Error.LENGTH),
        ("a long sequence behind a short one", batch(1, config.tokens + 1), Error.LENGTH),
        ("tokens without end", batch(4 * config.tokens + 3), Error.LENGTH),
        ("a sequence too many", batch(*[1] * (rows + 1)), Error.LENGTH),
        ("a row tile too many", batch(n + 1, *[1] * (rows - 1)), Error.LENGTH),
        ("no key", batch(1, but=0), Error.NO_KEY),
        ("no key in a row tile", batch(n, but=0), Error.NO_KEY),
        *((f"no key in sequence {k} of 3", batch(2, 3, 2, but=k), Error.NO_KEY) for k in range(3)),
    ):
        yield sound.damaged(name, error, tokens=tokens, writes=())
