"""Models, sequences and damaged inputs for the bench of the accelerator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from golden.model import FeedForward, Model, Shape
from golden.random import random_model
from rtl.compile.edit import Edit
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.command import VERSION, Opcode, bank_address, descriptor_bytes
from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import Error
from tb.case import Case, Inference, accelerator_inference
from tb.packing import ENDS_BIT

#: The families of encoders at their real size; vocabularies are cut, they only lengthen a table.
FAMILIES = {
    "bert-tiny": Shape(
        layers=2, hidden=128, heads=2, head_size=64, ffn=512, labels=2,
        vocabulary=600, positions=512, types=2,
    ),
    "no-pooler": Shape(
        layers=4, hidden=256, heads=4, head_size=64, ffn=1024, labels=3,
        vocabulary=300, positions=130, types=2, position_offset=2,
    ),
    "pre-norm": Shape(
        layers=3, hidden=128, heads=4, head_size=32, ffn=256, labels=2,
        vocabulary=200, positions=128, types=0, norm="pre", embedding_norm=False, pooling="mean",
    ),
    "three-heads": Shape(
        layers=2, hidden=96, heads=3, head_size=32, ffn=200, labels=5,
        vocabulary=150, positions=100, types=1,
    ),
}  # fmt: skip

#: The same structures with odd sizes, small enough for Icarus.
SMALL = {
    "bert-tiny": Shape(
        layers=2, hidden=12, heads=2, head_size=6, ffn=24, labels=2,
        vocabulary=30, positions=40, types=2,
    ),
    "no-pooler": Shape(
        layers=1, hidden=10, heads=2, head_size=5, ffn=14, labels=3,
        vocabulary=20, positions=34, types=2, position_offset=2,
    ),
    "pre-norm": Shape(
        layers=1, hidden=9, heads=1, head_size=4, ffn=7, labels=2,
        vocabulary=20, positions=32, types=0, norm="pre", embedding_norm=False, pooling="mean",
    ),
    "pre-norm-embedding-norm": Shape(
        layers=2, hidden=8, heads=2, head_size=4, ffn=17, labels=1,
        vocabulary=20, positions=32, types=1, norm="pre",
    ),
    "three-heads": Shape(
        layers=1, hidden=12, heads=3, head_size=3, ffn=25, labels=5,
        vocabulary=25, positions=30, types=1,
    ),
    "post-norm-mean": Shape(
        layers=1, hidden=7, heads=1, head_size=9, ffn=5, labels=4,
        vocabulary=20, positions=30, types=2, pooling="mean",
    ),
    "shared-keys": Shape(
        layers=2, hidden=10, heads=4, head_size=2, ffn=9, labels=3,
        vocabulary=20, positions=30, types=1, kv_heads=2,
    ),
    "every-token": Shape(
        layers=1, hidden=10, heads=2, head_size=5, ffn=14, labels=5,
        vocabulary=20, positions=34, types=2, pooling="none",
    ),
    "every-token-pre-norm": Shape(
        layers=2, hidden=8, heads=1, head_size=4, ffn=9, labels=1,
        vocabulary=20, positions=32, types=1, norm="pre", pooling="none",
    ),
    "factorised": Shape(
        layers=2, hidden=11, heads=2, head_size=4, ffn=13, labels=2,
        vocabulary=20, positions=32, types=2,
    ),
    "factorised-one-layer": Shape(
        layers=1, hidden=9, heads=3, head_size=2, ffn=10, labels=3,
        vocabulary=20, positions=32, types=1,
    ),
}  # fmt: skip

#: Channels of the embeddings that are factorised.
FACTORISED = {"factorised": 5, "factorised-one-layer": 9}

#: Holds every model of SMALL.
SMALL_LIMITS: dict[str, Any] = {"tokens": 24, "hidden": 32, "ffn": 32, "labels": 8}

CODES = np.arange(256).astype(np.uint8).view(np.int8)
RELU = np.maximum(CODES, np.int8(0))


def with_table(ffn: FeedForward, table: np.ndarray) -> FeedForward:
    """The network with this table in the place of its own."""
    activated = dataclasses.replace(ffn.activated, table=table)
    if ffn.gate is None:
        return dataclasses.replace(ffn, up=activated)
    return dataclasses.replace(ffn, gate=activated)


def family(name: str, shape: Shape, seed: int = 1, **kinds: bool) -> Model:
    """A random model of this family: ReLU where pre-norm, one layer of head where no pooler.

    kinds: those of `random_model`.
    """
    model = random_model(shape, seed, FACTORISED.get(name, 0), **kinds)
    if name.startswith("pre-norm"):
        layers = [
            dataclasses.replace(layer, ffn=with_table(layer.ffn, RELU)) for layer in model.layers
        ]
        model = dataclasses.replace(model, layers=tuple(layers))
    if name in ("no-pooler", "post-norm-mean", "every-token") and model.head_norm is None:
        model = dataclasses.replace(model, head=model.head[-1:])
    return model


def limits(shapes: Sequence[Shape], lanes: int, tokens: int) -> Config:
    """The smallest configuration that takes all these models with that many tokens."""
    width = max(
        max(s.hidden + -s.hidden % lanes, s.heads * (s.head_size + -s.head_size % lanes))
        for s in shapes
    )
    return Config(
        lanes=lanes,
        tokens=tokens,
        hidden=width,
        ffn=max(s.ffn for s in shapes),
        labels=max(s.labels for s in shapes),
    )


def sequence(model: Model, tokens: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random ids, types and attend bits with holes; at least one token attends."""
    rng = np.random.default_rng([tokens, seed])
    ids = rng.integers(0, model.shape.vocabulary, tokens)
    types = np.sort(rng.integers(0, max(model.shape.types, 1), tokens))
    attend = rng.random(tokens) < 0.8
    attend[rng.integers(tokens)] = True
    return ids, types, attend.astype(int)


def sequences(
    model: Model, lengths: Sequence[int], seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Those of a batch, one after the other: random ids, types and attend bits."""
    parts = [sequence(model, tokens, seed + place) for place, tokens in enumerate(lengths)]
    ids, types, attend = (np.concatenate(part) for part in zip(*parts))
    return ids, types, attend


def batch_lengths(program: Program, seed: int = 1) -> list[int]:
    """Mixed lengths that fill a batch: one token, a row tile and about, whatever is left."""
    rng, n = np.random.default_rng(seed), program.config.lanes
    found, left = [], program.row_tiles
    while left:
        wanted = rng.choice([1, n - 1, n, n + 1, int(rng.integers(1, program.tokens + 1))])
        tokens = int(min(wanted, left * n, program.tokens))
        found.append(tokens)
        left -= ceil_div(tokens, n)
    return found


def batches(
    model: Model, program: Program, count: int, seed: int = 1, name: str = ""
) -> list[Inference]:
    """Inferences of as many batches of random sequences."""
    rows, found = embedding_table(model, program.config.lanes), []
    for number in range(seed, seed + count):
        lengths = batch_lengths(program, number)
        parts = sequences(model, lengths, number)
        found.append(
            accelerator_inference(
                program, model, *parts, lengths=lengths, name=f"{name} {lengths}", rows=rows
            )
        )
    return found


def inferences(
    model: Model, program: Program, lengths: Sequence[int], seed: int = 1, name: str = ""
) -> list[Inference]:
    """One inference of each length with a random sequence."""
    rows = embedding_table(model, program.config.lanes)
    return [
        accelerator_inference(
            program,
            model,
            *sequence(model, tokens, seed + place),
            name=f"{name} {tokens} tokens".strip(),
            rows=rows,
        )
        for place, tokens in enumerate(lengths)
    ]


def kinds_of(shape: Shape, config: Config) -> dict[str, bool]:
    """What a random model of this shape may have on the hardware; arguments of `family`."""
    return {
        "precise": config.precise,
        "biased": shape.heads <= config.bias_heads,
        "windowed": config.windows,
        "rms": config.rms_norm,
        "gated": config.gated,
        "rotary": shape.head_size <= config.rotary_pairs,
    }


def small_case(config: Config, **settings: Any) -> Case:
    """Two small models in turn, L = 1 and odd lengths, within any configuration."""
    shapes = [SMALL["three-heads"], SMALL["pre-norm"]]
    found = []
    for shape, name in zip(shapes, ("three-heads", "pre-norm")):
        model = family(name, shape, **kinds_of(shape, config))
        program = compile_model(model, config)
        lengths = (min(config.lanes + 3, program.tokens), 1)
        found.append(inferences(model, program, lengths, name=name))
    return Case(inferences=tuple(i for pair in zip(*found) for i in pair), **settings)


def rebuilt(program: Program, number: int, opcode: int | None = None, **values: int) -> bytes:
    """The stream with other values (or opcode) in descriptor `number`, and all CRCs right."""
    pieces = Edit(program)
    for name, value in values.items():
        pieces[number][name] = value
    if opcode is not None:
        pieces[number].body[0] = opcode
    return bytes(pieces)


def offsets(program: Program) -> list[tuple[int, int]]:
    """(offset, bytes) of every descriptor with its payload."""
    found, at, width = [], 0, program.config.stream_width
    for step in program.steps:
        size = descriptor_bytes(width) + len(step.payload) + -len(step.payload) % width
        found.append((at, size))
        at += size
    return found


def damaged_streams(
    program: Program, rng: np.random.Generator
) -> Iterator[tuple[str, bytes, Error]]:
    """Streams with one flipped bit, cut short or too long: name, stream and the error it must give.

    Every descriptor and every payload is hit; where, is random.
    """
    stream, n = program.stream(), program.config.stream_width
    begins = descriptor_bytes(n)
    for step, (start, size) in zip(program.steps, offsets(program)):
        parts = [("descriptor", start, begins)]
        if size > begins:
            parts.append(("payload", start + begins, size - begins))
        for part, first, length in parts:
            bit = int(rng.integers(8 * length))
            broken = bytearray(stream)
            broken[first + bit // 8] ^= 1 << bit % 8
            yield f"bit {bit} of the {part} of {step.name} flipped", bytes(broken), Error.CRC
            words = length // n
            most = words - (step.name == "end")  # of END's words the last belongs to it
            cut = first + n * int(rng.integers(1, most + 1)) if most else 0
            if 0 < cut < len(stream):
                yield f"cut in the {part} of {step.name}", stream[:cut], Error.TRUNCATED
            if first + length < len(stream):
                end = stream[: first + length]
                yield f"cut behind the {part} of {step.name}", end, Error.TRUNCATED
    yield "one word too long", stream + bytes(n), Error.OVERRUN
    more = bytes(rng.integers(0, 256, 9 * n, dtype=np.uint8))
    yield "nine words too long", stream + more, Error.OVERRUN
    yield "nothing but noise", more, Error.CRC if 9 * n >= begins else Error.TRUNCATED


def refused_streams(program: Program) -> Iterator[tuple[str, bytes, Error]]:
    """Whole streams with right CRCs that ask for what the accelerator does not take."""
    config = program.config
    names = [step.opcode for step in program.steps]
    linear, norm = names.index(Opcode.LINEAR), names.index(Opcode.NORM)
    embed, attend = names.index(Opcode.EMBED), names.index(Opcode.ATTEND)
    widest = max(config.hidden, config.ffn)
    for field, value, error in (
        ("magic", 0x54523243, Error.FORMAT),
        ("version", VERSION + 1, Error.FORMAT),
        ("lanes", 2 * config.lanes, Error.FORMAT),
        ("lanes", 0, Error.FORMAT),
        ("tokens", 0, Error.LIMIT),
        ("hidden", config.hidden + 1, Error.LIMIT),
        ("ffn", config.ffn + 1, Error.LIMIT),
        ("labels", config.labels + 1, Error.LIMIT),
        ("labels", 0, Error.LIMIT),
    ):
        yield f"{field} {value}", rebuilt(program, 0, **{field: value}), error
    yield "LINEAR of no length", rebuilt(program, linear, length=0), Error.LIMIT
    yield "LINEAR too long", rebuilt(program, linear, length=widest + 1), Error.LIMIT
    yield "LINEAR of no columns", rebuilt(program, linear, columns=0), Error.LIMIT
    yield "NORM too wide", rebuilt(program, norm, channels=config.hidden + 1), Error.LIMIT
    yield "NORM of nothing", rebuilt(program, norm, channels=0), Error.LIMIT
    yield "EMBED too wide", rebuilt(program, embed, channels=config.hidden + 1), Error.LIMIT
    yield "EMBED of 24 bits", rebuilt(program, embed, wide=2), Error.LIMIT
    yield "ATTEND without heads", rebuilt(program, attend, heads=0), Error.LIMIT
    yield "ATTEND of no head size", rebuilt(program, attend, head_size=0), Error.LIMIT
    yield "NORM shifted too far", rebuilt(program, norm, shift=32), Error.LIMIT
    yield "a bank too short", rebuilt(program, attend, key=bank_address(1, 1 << 21)), Error.LIMIT
    yield "too many logits", rebuilt(program, -2, columns=config.labels + 1), Error.LIMIT
    yield "NORM twice", rebuilt(program, embed, opcode=Opcode.NORM), Error.FORMAT
    if Opcode.BIAS in names:
        for field, most in (("heads", config.bias_heads), ("row_tiles", config.row_tiles)):
            for value in (0, most + 1):
                wrong = rebuilt(program, names.index(Opcode.BIAS), **{field: value})
                yield f"BIAS of {value} {field}", wrong, Error.LIMIT
        many = rebuilt(program, attend, heads=config.bias_heads + 1)
        yield "ATTEND of more heads than a bias may have", many, Error.LIMIT
        yield "a second BIAS", rebuilt(program, embed, opcode=Opcode.BIAS), Error.FORMAT
        gone = rebuilt(program, names.index(Opcode.BIAS), opcode=Opcode.TABLE)
        yield "no BIAS", gone, Error.FORMAT
    if Opcode.ROTARY in names:
        tables, turned = names.index(Opcode.ROTARY), linear  # the first LINEAR is Q
        for field, most in (("pairs", config.rotary_pairs), ("row_tiles", config.row_tiles)):
            for value in (0, most + 1):
                wrong = rebuilt(program, tables, **{field: value})
                yield f"ROTARY of {value} {field}", wrong, Error.LIMIT
        for size, first in ((0, 0), (3, 0), (2, config.rotary_pairs)):
            wrong = rebuilt(program, turned, head_size=size, rotary=first)
            yield f"heads of {size} from pair {first} on", wrong, Error.LIMIT
        yield "a second ROTARY", rebuilt(program, embed, opcode=Opcode.ROTARY), Error.FORMAT
        gone = rebuilt(program, tables, opcode=Opcode.TABLE)
        yield "no ROTARY", gone, Error.FORMAT
    yield "unknown opcode", rebuilt(program, attend, opcode=10), Error.FORMAT
    yield "opcode 0 first", rebuilt(program, 0, opcode=0), Error.FORMAT
    yield "a second HEADER", rebuilt(program, attend, opcode=Opcode.HEADER), Error.FORMAT


def refused_tokens(
    model: Model, program: Program, words: np.ndarray
) -> Iterator[tuple[str, np.ndarray, Error]]:
    """Token words that no inference takes, made of sound ones: name, words and their error."""
    shape, config = model.shape, program.config
    attend = np.uint32(1 << 25)
    for place in (0, len(words) - 1):
        for beyond in (shape.vocabulary, (1 << 24) - 1):
            broken = words.copy()
            broken[place] = attend | np.uint32(beyond)
            yield f"id {beyond} at {place}", broken, Error.TOKEN
        if shape.types < 2:
            broken = words.copy()
            broken[place] |= np.uint32(1 << 24)
            yield f"type 1 at {place}", broken, Error.TOKEN
    yield "no valid key", words & ~attend, Error.NO_KEY
    short = np.full(config.row_tiles + 1, attend | np.uint32(ENDS_BIT))
    yield "one sequence too many", short, Error.LENGTH
    tiles = np.full(config.lanes + config.row_tiles, attend, np.uint32)
    tiles[config.lanes :] |= np.uint32(ENDS_BIT)
    yield "a row tile too many", tiles, Error.LENGTH
    behind = np.full(config.tokens + 2, attend, np.uint32)
    behind[0] |= np.uint32(ENDS_BIT)
    yield "a long sequence behind a short one", behind, Error.LENGTH
    for place in range(3):
        broken = short[:3].copy()
        broken[place] &= ~attend
        yield f"no valid key in sequence {place} of 3", broken, Error.NO_KEY
    one = np.full(1, attend, np.uint32)
    yield "one token too many", np.tile(one, config.tokens + 1), Error.LENGTH
    yield "far too many tokens", np.tile(one, 2 * config.tokens + 5), Error.LENGTH
    if program.tokens < config.tokens:
        yield "more than the model takes", np.tile(one, program.tokens + 1), Error.LENGTH
