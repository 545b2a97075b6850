"""Harm from outside: aborts, streams that are no model, odd rows.

Every bad inference must end, with the right code and without logits, and leave the next one right.
The machine adds its own: an offered word stays, rows that were asked for have come at the end,
a packet of logits is whole or there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from golden.encoder import run
from golden.model import Model, Shape
from golden.random import Kind, random_model
from rtl.compile.account import violation
from rtl.compile.edit import Edit
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.control.watchdog import patience
from rtl.interface.command import bank_address
from rtl.interface.config import Config
from rtl.interface.isa import BITS, NO_FLAGS, Flag
from rtl.interface.operation import Error
from sim.design import described
from sim.machine.inference import Inference, Loaded, Packets, abort_after, seed_of
from sim.machine.machine import library
from sim.machine.result import Result
from sim.verdict import failure, verdict
from tb.scenarios import SMALL_LIMITS
from tests import zoo
from tests.configs import CONFIGS
from tests.damage import mutated
from tests.malformed import damaged_streams, refused_streams, refused_tokens
from tests.sim.played import NOT_OPTIMISED, played

pytestmark = pytest.mark.slow

CONFIG = Config(lanes=4, tokens=16, hidden=16, ffn=32, labels=4)
#: Layers, hidden size, heads and theirs, feed-forward, labels.
TINY = Shape(1, 10, 2, 5, 18, 4, vocabulary=30, positions=16, types=2, norm="pre")
SHAPES = {
    "plain": Shape(2, 16, 2, 8, 32, 3, vocabulary=30, positions=16, types=2),
    # Its heads need more of a bank than the hidden size says.
    "wide": Shape(1, 6, 3, 6, 32, 2, vocabulary=30, positions=16, types=2),
}
PATIENCE = 20_000


@dataclass(frozen=True)
class Subject:
    """A random model, compiled."""

    model: Model
    program: Program

    @cached_property
    def loaded(self) -> Loaded:
        return Loaded(self.program, embedding_table(self.model, self.program.config.lanes))

    def one(self, tokens: int, seed: int = 0, **others: Any) -> Inference:
        rng = np.random.default_rng([tokens, seed])
        ids, types = rng.integers(0, 20, tokens), rng.integers(0, 2, tokens)
        return self.loaded.inference(ids, types, patience=PATIENCE, **others)

    def right(self, result: Result) -> bool:
        return not verdict(result, self.program, self.model)


@pytest.fixture(scope="module")
def tiny() -> Subject:
    model = random_model(TINY, 4)
    return Subject(model, compile_model(model, CONFIG, whole_last_layer=True))


def streamed(one: Inference, stream: bytes) -> Inference:
    """The same with another command stream."""
    return one.but(model=Packets.whole(stream, one.model.word_bytes()))


def followed(
    subject: Subject, bad: Sequence[Inference], seed: int | None = None, **others: int
) -> list[Result]:
    """The results of the bad ones; a sound one after each of them must be right."""
    sound = [subject.one(1 + place % 7, place) for place in range(len(bad))]
    both = [one for pair in zip(bad, sound, strict=True) for one in pair]
    seeds = [None if seed is None else seed_of(seed, place) for place in range(len(both))]
    given = [one.but(seed=own, **others) for one, own in zip(both, seeds, strict=True)]
    results = played(subject.program.config, given)
    for place, result in enumerate(results):
        assert failure(result) == ""
        packets = [stream.first() for stream in (given[place].model, given[place].tokens)]
        words = result.model_taken, result.tokens_taken
        drained = [of is None or len(of.last) == taken for of, taken in zip(packets, words)]
        assert all(drained) or given[place].events, f"{words} words were taken of number {place}"
        assert place % 2 == 0 or subject.right(result), f"the inference after number {place - 1}"
    return results[::2]


@pytest.mark.parametrize(
    ("lengths", "seed", "row_latency"),
    [([3], None, 1), ([2, 5, 1], None, 9), ([3], 1, 3), ([1, 3, 4, 1], 2, 20)],
)
def test_abort_from_the_first_cycles_to_the_last(
    tiny: Subject, lengths: list[int], seed: int | None, row_latency: int
) -> None:
    """Rows are asked for, words are offered, logits leave: the next inference never notices."""
    tokens = sum(lengths)
    given = tiny.one(tokens, lengths=lengths, row_latency=row_latency).but(seed=seed)
    (whole,) = played(CONFIG, [given])
    last = whole.cycles + 4
    moments = [*range(1, 120), *range(120, last - 60, 13), *range(last - 60, last)]
    aborted = [given.but(events=(abort_after(moment),)) for moment in moments]
    results = followed(tiny, aborted, seed, row_latency=row_latency)
    for result in results:
        if result.error is Error.NONE:  # it came after the end, or too late
            assert tiny.right(result)
        else:
            assert result.error is Error.ABORTED
    codes = [result.error for result in results]
    assert codes.count(Error.ABORTED) > len(moments) // 2
    if seed is None:
        assert codes == sorted(codes, key=lambda code: code is Error.NONE)
        assert Error.NONE in codes


def changed(program: Program, name: str, flags: Flag = NO_FLAGS, **values: int) -> bytes:
    """The stream with these bits of the flags turned, and these fields, in the step of a name."""
    pieces = Edit(program)
    for flag in flags:
        pieces.named(name).body[1] ^= 1 << BITS[flag]
    for field, value in values.items():
        pieces.named(name)[field] = value
    return bytes(pieces)


def times(program: Program, name: str, count: int) -> bytes:
    """The stream with the step of a name so many times."""
    pieces = Edit(program)
    place = pieces.index(pieces.named(name))
    pieces[place : place + 1] = pieces[place : place + 1] * count
    return bytes(pieces)


def refused(program: Program) -> Iterator[tuple[str, bytes, Error]]:
    """Streams of which most would stop the units for ever, or compute nonsense, if run."""
    p, c, layer = program, program.config, "layer.0"
    first_tiles = "embedding.sum", f"{layer}.attention.sum", f"{layer}.ffn.sum", f"{layer}.ffn.norm"
    for name, flag in (
        *((name, Flag.TABLE) for name in ("embedding.sum", layer)),
        *((name, Flag.FIRST_TILE) for name in first_tiles),
        *((f"{layer}.ffn.sum", flag) for flag in (Flag.RESIDUAL, Flag.BANK)),
        (f"{layer}.attention.norm", Flag.CHAINED),
    ):
        yield f"{flag.name} turned in {name}", changed(p, name, flag), Error.FORMAT
    each = "embedding.norm", f"{layer}.ffn.norm", "final.norm", "embedding.sum"
    for name in (*each, f"{layer}.attention.sum", f"{layer}.ffn.hidden.table", "logits"):
        yield f"{name} missing", times(p, name, 0), Error.FORMAT
    for name in (*each, "logits", "header"):
        yield f"{name} twice", times(p, name, 2), Error.FORMAT
    yield "logits of all tokens", changed(p, "logits", Flag.FIRST_TILE), Error.LIMIT
    for name, values in (
        ("header", {"hidden": 0}),
        ("logits", {"destination": 1}),
        ("embedding.sum", {"offset": 9}),
        (f"{layer}.q", {"source": 1}),
        (f"{layer}.q", {"source_stride": c.hidden + 1}),
        (f"{layer}.q", {"destination": c.bank_words}),
        (f"{layer}.ffn.sum", {"destination": 4}),
        (f"{layer}.ffn.sum", {"destination_stride": c.hidden + 1}),
        (f"{layer}.ffn.norm", {"epsilon": 1 << 50}),
        (layer, {"score_s": 48}),
        (layer, {"stride": c.bank_words + 1}),
        (layer, {"key": bank_address(1, c.bank_words)}),
    ):
        yield f"{name} {values}", changed(p, name, **values), Error.LIMIT


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in ("4 every", "4x16 every") for kind in zoo.KINDS),
        pytest.param("64", "plain", marks=pytest.mark.timeout(5400)),  # with padding in descriptors
    ],
)
def test_damaged_and_refused(name: str, kind: str) -> None:
    """A model with each thing that hardware has an option for, where there is the option."""
    config = CONFIGS[name]
    model = zoo.model("bert-tiny", positions=20, **zoo.KINDS[kind])
    subject = Subject(model, compile_model(model, config))
    streams = [
        *damaged_streams(subject.program, np.random.default_rng(4)),
        *refused_streams(subject.program),
    ]
    cases = [(name, streamed(subject.one(5), data), error) for name, data, error in streams]
    for name, words, error in refused_tokens(model, subject.program, subject.one(5).words):
        packets = Packets.whole(words.astype("<u4").tobytes(), 4)
        cases.append((name, subject.one(5).but(tokens=packets), error))
    assert {error.name for *_, error in cases} == {
        *("CRC", "TRUNCATED", "OVERRUN", "FORMAT", "LIMIT", "TOKEN", "NO_KEY", "LENGTH")
    }
    results = followed(subject, [one for _, one, _ in cases], seed=1)
    ends = [(case, result.error) for (case, *_), result in zip(cases, results, strict=True)]
    assert ends == [(case, error) for case, _, error in cases]


def test_a_source_that_goes_silent_is_ended_by_abort(tiny: Subject) -> None:
    """The stream stops without `last`: in a run, and in the drain after a failure."""
    stream, width = tiny.program.stream(), CONFIG.stream_width
    broken = bytearray(stream)
    broken[40] ^= 1
    whole = len(stream) // width
    cuts = [(stream, cut, Error.ABORTED) for cut in (3, 30, 200, whole - 1)]
    cuts += [(stream, whole, Error.OVERRUN), (broken, 12, Error.ABORTED)]
    cuts += [(broken, cut, Error.CRC) for cut in (30, whole)]
    silent = [Packets(bytes(data[: cut * width]), bytes(cut)) for data, cut, _ in cuts]
    end = (abort_after(2500),)
    results = followed(tiny, [tiny.one(5).but(model=one, events=end) for one in silent])
    assert [result.error for result in results] == [error for *_, error in cuts]


def test_logits_of_more_tokens_than_there_is_room_for() -> None:
    """5 labels of a row tile each in 16 words: three row tiles fit, a batch of four is refused."""
    config = Config(lanes=4, **SMALL_LIMITS)
    model = zoo.model("every-token")
    subject = Subject(model, compile_model(model, config))
    assert (subject.program.tokens, subject.program.row_tiles, config.row_tiles) == (12, 3, 6)
    sound = [subject.one(sum(lengths), lengths=lengths) for lengths in ([3, 5], [1, 2, 3], [12])]
    assert all(map(subject.right, played(config, sound)))
    refused = ([12, 1], [1, 2, 3, 4], [12, 12])
    bad = [subject.one(sum(lengths), lengths=lengths) for lengths in refused]
    assert {result.error for result in followed(subject, bad)} == {Error.LIMIT}


def test_streams_that_cannot_be_run(tiny: Subject) -> None:
    cases = list(refused(tiny.program))
    assert len(cases) > 30
    given = [streamed(tiny.one(9), stream) for _, stream, _ in cases]
    results = followed(tiny, given)
    assert {name: r.error.name for (name, *_), r in zip(cases, results, strict=True)} == {
        name: error.name for name, _, error in cases
    }


@pytest.mark.parametrize("precise", [False, True], ids=["plain", "precise"])
def test_a_chained_norm_does_not_overtake_a_linear(precise: bool) -> None:
    """Its row tiles would be done before the last tile of a LINEAR from X8 asks for its NORM's."""
    config = replace(CONFIG, tokens=24, precise=precise)
    hidden = 16 if precise else 8
    shape = replace(TINY, hidden=hidden, head_size=hidden // 2, positions=24)
    model = random_model(shape, 0, Kind(precise=precise))
    program = compile_model(model, config, whole_last_layer=True)
    subject = Subject(model, program)
    steps = {step.name: step for step in program.steps}
    norm = steps["layer.0.attention.norm"]
    assert norm.flags & Flag.CHAINED
    assert bool(steps["layer.0.q"].flags & Flag.WIDE) == precise
    # Two passes take a LINEAR longer than the NORM takes; one pass does behind an ATTEND.
    moved = ["layer.0.q"] if precise else ["layer.0.k", "layer.0.v", "layer.0", "layer.0.q"]
    first = ["header", "embedding.norm", "embedding.sum", *moved, "layer.0.attention.norm"]
    pieces = Edit(program)
    pieces.sort(key=lambda piece: first.index(piece.name) if piece.name in first else len(first))
    bad = bytes(pieces)
    assert "NORM with CHAINED" in violation(bad)
    given = [
        streamed(subject.one(sum(lengths), lengths=lengths), bad)
        for lengths in ([1], [12], [20], [24], [1] * 6)
    ]
    results = played(config, given)
    assert {result.error for result in results} == {Error.FORMAT}


def test_a_tensor_that_outgrows_its_bank(tiny: Subject) -> None:
    """Addresses are in their bank at first and leave it with the row tiles of a longer sequence."""
    bank = CONFIG.bank_words
    for name, values, code in (
        ("layer.0.q", {"destination_stride": 10}, Error.NONE),
        ("layer.0.q", {"destination_stride": 4 * bank}, Error.LIMIT),
        ("layer.0.k", {"destination": bank_address(1, bank - 2)}, Error.LIMIT),
        ("layer.0.v", {"destination": bank_address(2, bank - 1)}, Error.LIMIT),
        ("layer.0", {"stride": bank}, Error.LIMIT),
        ("layer.0", {"heads": 255}, Error.LIMIT),
        ("layer.0", {"context": bank_address(3, bank - 1)}, Error.LIMIT),
        ("layer.0.ffn.hidden", {"destination_stride": 4 * bank}, Error.LIMIT),
        ("layer.0.ffn.sum", {"source_stride": 4 * bank}, Error.LIMIT),
    ):
        bad = streamed(tiny.one(16), changed(tiny.program, name, **values if code else {}))
        (result,) = followed(tiny, [bad])
        assert result.error is code, (name, values)
    # A short sequence has one row tile: strides do not matter.
    stream = changed(tiny.program, "layer.0.ffn.hidden", destination_stride=4 * bank)
    short = streamed(tiny.one(4), stream)
    (result,) = played(CONFIG, [short])
    assert tiny.right(result)


@pytest.mark.parametrize("shape", ["plain", "wide"])
def test_one_accelerator_runs_what_was_compiled_for_any(shape: str) -> None:
    """Whatever limits a model was compiled for: right where it fits, else LIMIT or LENGTH."""
    model = random_model(SHAPES[shape], 5)
    codes = []
    for limits in (
        {},
        {"tokens": 4},
        {"tokens": 40},
        {"tokens": 1000},
        {"hidden": 70},
        {"ffn": 200},
        {"tokens": 33, "hidden": 64, "ffn": 400, "labels": 9},
        {"hidden": 1000, "ffn": 4000},
    ):
        config = replace(CONFIG, **limits)
        if shape == "wide" and config.tokens < 8:
            continue  # its V does not fit such banks at all
        loaded = Subject(model, compile_model(model, config))
        for tokens in (1, 4, 9, 13, 16):
            (result,) = played(CONFIG, [loaded.one(tokens)])
            codes.append(result.error)
            if result.error is not Error.NONE:
                fits = tokens <= compile_model(model, CONFIG).tokens
                assert result.error is (
                    Error.LENGTH if tokens > loaded.program.tokens else Error.LIMIT
                )
                assert not fits or tokens > loaded.program.tokens
            else:
                assert loaded.right(result)
    assert codes.count(Error.NONE) >= 14
    assert (Error.LIMIT in codes) == (shape == "wide")


@pytest.mark.parametrize("width", [4, 8, 16, 40])
def test_rows_of_another_width(tiny: Subject, width: int) -> None:
    """The table of another model: its rows end early or late."""
    rows = tiny.loaded.table
    table = np.zeros((len(rows), width), np.int8)
    table[:, : rows.shape[1]] = rows[:, :width]
    assert rows.shape[1] != width
    wrong = {"table": table, "row_words": width // CONFIG.lanes}
    given = [tiny.one(tokens).but(**wrong) for tokens in (1, 4, 9)]
    given += [given[-1].but(events=(abort_after(moment),)) for moment in range(20, 60, 3)]
    results = followed(tiny, given, row_latency=5)
    assert {result.error for result in results[:3]} == {Error.ROW}
    assert {result.error for result in results[3:]} <= {Error.ROW, Error.ABORTED}


def test_what_is_told_of_a_batch_that_comes_later_comes_as_much_later() -> None:
    """Sound, or with a token too many: the same cycles after the tokens, whenever they come."""
    model = random_model(replace(TINY, positions=12), 4)
    few = Subject(model, compile_model(model, CONFIG))
    for tokens, error in ((12, Error.NONE), (13, Error.LENGTH)):
        given = [few.one(tokens).but(tokens_delay=delay) for delay in range(400, 404)]
        results = played(CONFIG, given)
        assert {result.error for result in results} == {error}
        took = {result.cycles - one.tokens_delay for one, result in zip(given, results)}
        assert len(took) == 1


def test_a_table_without_wide_has_no_low_halves() -> None:
    """A LINEAR with WIDE reads 0 of its results, not what a table before it has left."""
    config = CONFIGS["4 precise"]
    model = zoo.model("bert-tiny", precise=True)
    low, second = (
        np.where(layer.ffn.up.table == -128, 0, 127).astype(np.int8) for layer in model.layers
    )

    def with_low(*tables: np.ndarray | None) -> Model:
        layers = [
            replace(layer, ffn=replace(layer.ffn, up=replace(layer.ffn.up, table_low=own)))
            for layer, own in zip(model.layers, tables, strict=True)
        ]
        return replace(model, layers=tuple(layers))

    without = with_low(low, None)
    subject = Subject(without, compile_model(without, config))
    stream = changed(subject.program, "layer.1.ffn.sum", Flag.WIDE)
    given = subject.one(5, trace=False)
    (result,) = played(config, [streamed(given, stream)])
    assert result.error is Error.NONE
    ids, types = given.words % (1 << 24), given.words >> 24 & 1
    expected, left = (run(one, ids, types).tolist() for one in (without, with_low(low, second)))
    assert result.logits.tolist() == expected != left


@pytest.mark.parametrize(
    "rule", ["is_[Opcode.NORM] & (waiting | (norm.chained & (~stored | read)))", "of_x8 & ("]
)
def test_what_no_rule_refuses_ends_with_timeout(rule: str, tiny: Subject) -> None:
    """The watchdog catches a second NORM before a sum, and X8 read while its NORM waits."""
    pieces = Edit(tiny.program)
    place = pieces.index(pieces.named("layer.0.ffn.norm"))
    after, again = (1, "layer.0.q") if "of_x8" in rule else (0, "layer.0.ffn.norm")
    pieces.insert(place + after, pieces.named(again))
    bad = streamed(tiny.one(3), bytes(pieces))
    unit = mutated("rules", (rule, f"0 & {rule}"), unit="accelerator", config=CONFIG)
    design = described(unit, "accelerator", CONFIG)
    without = library(design, f"-no-rule-{'of_x8' in rule}", NOT_OPTIMISED)
    for program, error in ((None, Error.FORMAT), (without, Error.TIMEOUT)):
        (result,) = played(CONFIG, [bad], program)
        assert (result.error, result.logits.size, failure(result)) == (error, 0, "")
    assert result.cycles > patience(CONFIG)
