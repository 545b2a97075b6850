"""What the hardware does not check, and what docs/architecture.md says of it: both sides.

Streams with right CRCs, each with one change, on the verilated accelerator and held to the
specification by `rtl.compile.unchecked`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rtl.compile import unchecked
from rtl.compile.__main__ import main
from rtl.compile.edit import Edit
from rtl.compile.fit import fitting_model, has_gates
from rtl.compile.image import Image, image_bytes
from rtl.compile.program import compile_model
from rtl.compile.unchecked import Held, config_for, violations
from rtl.interface.command import ROTARY_BIT, Flag, Opcode, bank_address
from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import Error
from sim.machine.inference import Packets
from sim.machine.machine import Machine
from tb.scenarios import FAMILIES, SMALL, family
from tests import zoo
from tests.tiers import quick
from verify.fuzz.play import program, shown
from verify.fuzz.streams import (
    bits_of_a_descriptor,
    doubled,
    field,
    flags,
    missing,
    of_two_models,
    order,
)
from verify.fuzz.subject import POOL, Case, Run, Subject, config, subjects

N = 4
ALL, BATCH = 4, 6  # sound token packets of a subject: as many tokens as it takes; two sequences
POST, CUT = 8, 7  # subjects: logits of every token; CHAINED, its last layer cut
Change = Callable[[Edit], object]


def fields(name: str, **values: int) -> Change:
    """Set fields of the descriptor that computes `name`."""

    def change(pieces: Edit) -> None:
        for key, value in values.items():
            pieces.named(name)[key] = value

    return change


def both(*changes: Change) -> Change:
    return lambda pieces: [change(pieces) for change in changes]


def of_column(name: str, plane: int, value: int, column: int = 0) -> Change:
    """Set a byte of a column's parameters, or with a plane below 0 of its last weights."""

    def change(pieces: Edit) -> None:
        piece = pieces.named(name)
        piece.payload[(piece["length"] + plane) * N + column] = value

    return change


def parameter_s(name: str, value: int) -> Change:
    """s of every column of the first column tile."""
    return both(*(of_column(name, 6, value, column) for column in range(N)))


def flagged(name: str, flags: int) -> Change:
    """Turn flags of the descriptor that computes `name`."""

    def change(pieces: Edit) -> None:
        pieces.named(name).body[1] ^= flags

    return change


def edited(subject: Subject, change: Change | None) -> bytes:
    """The stream of a subject after the change."""
    pieces = Edit(subject.program)
    if change is not None:
        change(pieces)
    return bytes(pieces)


def changed(number: int, change: Change | None) -> tuple[Subject, bytes]:
    """A subject, and its stream after the change."""
    subject = subjects(config(N))[number]
    return subject, edited(subject, change)


def played(limits: Config, *runs: Run) -> list[tuple[Error, list[int]]]:
    """How runs end, one after another, and their logits."""
    with Machine(program(limits), limits, odd=True) as machine:
        facts = shown(machine, Case(0, "", runs))
    return [(seen.error, seen.logits.tolist()) for _, seen in facts]


def rtl_logits(subject: Subject, stream: bytes, packet: int = ALL) -> tuple[Error, list[int]]:
    run = subject.sound(packet).but(model=Packets.whole(stream, N), logits=None)
    (found,) = played(subject.config, run)
    return found


def sound(subject: Subject, packet: int = ALL) -> list[int]:
    return list(subject.sound(packet).logits or ())


#: Name, subject, change, and what the specification says of it; the hardware says NONE.
UNCHECKED: list[tuple[str, int, Change, str]] = [
    ("s 0", POST, parameter_s("layer.0.q", 0), "s of column 0 is 0: it must lie in 1..47"),
    ("s 48", POST, parameter_s("layer.0.v", 48), "s of column 0 is 48: it must lie in 1..47"),
    ("m", POST, of_column("layer.0.v", 5, 1), "m of column 0 is"),
    ("score_m", POST, fields("layer.0", score_m=9), "score_m is 9: it must lie in 32768..65535"),
    ("context_m", POST, fields("layer.0", context_m=9), "context_m is 9: it must lie in 32768.."),
    ("context_s", POST, fields("layer.0", context_s=36), "context_s of 16 tokens is 36: it must"),
    ("weight", POST, of_column("layer.0.q", -1, 128), "weight of column 0 is -128: it must lie in"),
    ("bias", POST, both(*(of_column("layer.0.q", plane, 127 | 128 * (plane < 3))
                          for plane in range(4))), "the sum of column 0 may reach 21"),
    ("query and key in one bank", POST,
     both(fields("layer.0.k", destination=bank_address(0, 64)),
          fields("layer.0", key=bank_address(0, 64))), "query and key are both in bank 0: they"),
    ("context over key", POST,
     both(fields("layer.0", context=bank_address(1)),
          fields("layer.0.attention.sum", source=bank_address(1))), "context overlaps key, for"),
    ("context over value", POST,
     both(fields("layer.0", context=bank_address(2)),
          fields("layer.0.attention.sum", source=bank_address(2))), "context overlaps value, for"),
    ("into its own source", POST,
     both(flagged("layer.0.ffn.hidden", Flag.BANK),
          fields("layer.0.ffn.hidden", source=bank_address(0))), "destination overlaps source, f"),
    ("read and not written", POST, fields("layer.0.attention.sum", source=bank_address(3, 1)),
     "source has words that nothing has written, for sequences of 16 tokens"),
    ("fewer columns than are read", POST, fields("layer.0", stride=9), "query has words that noth"),
    ("stride of X8", POST, fields("layer.0.q", source_stride=7), "source_stride is 7: X16 and X8"),
    ("length of X8", POST, both(fields("embedding.norm", channels=7),
                                fields("embedding.sum", channels=7)), "length is 8: X8 has 7"),
    ("stride of a sum", POST, fields("layer.0.attention.sum", destination_stride=7),
     "destination_stride is 7: X16 and X8 have 8 channels"),
    ("channels of a NORM", POST, fields("layer.0.ffn.norm", channels=7), "channels is 7: X16"),
    ("stride of a destination", POST, fields("layer.0.q", destination_stride=7),
     "destination_stride is 7: row tiles of 8 columns overlap"),
    ("factors", POST, fields("embedding.sum", token_factor=255, position_factor=255),
     "token_factor and position_factor are 255 and 255: they must be 1 or more, and at most 25"),
    ("CHAINED with FIRST_TILE", CUT,
     both(*(flagged(name, Flag.FIRST_TILE)
            for name in ("layer.0.attention.norm", "layer.0.k", "layer.0.v"))),
     "a NORM with CHAINED has FIRST_TILE before a sum has gathered the first tokens"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "change", "said"), [pytest.param(*c[1:], id=c[0]) for c in UNCHECKED]
)
def test_what_the_hardware_does_not_check(number: int, change: Change, said: str) -> None:
    subject, stream = changed(number, change)
    found = list(violations(stream, config(N)))
    assert any(said in line for line in found), found
    shown_by = [packet for packet in (ALL, BATCH) if others(subject, stream, packet)]
    assert shown_by


def others(subject: Subject, stream: bytes, packet: int) -> bool:
    """The hardware ends well, with other logits than those of the sound stream."""
    error, logits = rtl_logits(subject, stream, packet)
    assert error is Error.NONE
    return logits != sound(subject, packet)


#: Name, subject, change: as docs/architecture.md says, they change nothing.
SAME: list[tuple[str, int, Change]] = [
    ("hidden of the HEADER", POST, fields("header", hidden=1)),
    ("ffn of the HEADER", POST, fields("header", ffn=1)),
    ("labels of the HEADER", POST, fields("header", labels=4)),
    ("another bank", POST, both(fields("layer.0.k", destination=bank_address(3, 64)),
                                fields("layer.0", key=bank_address(3, 64)))),
    ("value in key's bank", POST, both(fields("layer.0.v", destination=bank_address(1, 64)),
                                       fields("layer.0", value=bank_address(1, 64)))),
    ("context in place of query", POST,
     both(fields("layer.0", context=bank_address(0)),
          fields("layer.0.attention.sum", source=bank_address(0)))),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("number", "change"), [pytest.param(*c[1:], id=c[0]) for c in SAME])
def test_what_changes_nothing(number: int, change: Change) -> None:
    subject, stream = changed(number, change)
    assert stream != subject.stream
    assert list(violations(stream, config(N))) == []
    for packet in (ALL, BATCH):
        assert rtl_logits(subject, stream, packet) == (Error.NONE, sound(subject, packet))


@pytest.mark.slow
def test_the_number_of_logits_is_columns() -> None:
    """Not labels of the HEADER; the columns that pad the last tile are not written."""
    subject, stream = changed(POST, fields("logits", columns=1))
    assert rtl_logits(subject, stream) == (Error.NONE, sound(subject)[::2])


@pytest.mark.slow
@pytest.mark.parametrize("s", [1, 17, 46, 63])
def test_six_bits_of_s_count(s: int) -> None:
    subject, stream = changed(POST, parameter_s("layer.0.q", s))
    _, more = changed(POST, parameter_s("layer.0.q", s + 64 * (1 + s % 3)))
    assert rtl_logits(subject, stream) == rtl_logits(subject, more)
    assert stream != more


BIASED, WINDOWED = config(N, bias_heads=2), config(N)
GATED, ROTARY = config(N, gated=True), config(N, rotary_pairs=8)
LIMITS = [(1, config(N)), (2, config(N)), (3, BIASED), (4, WINDOWED), (5, GATED), (6, ROTARY)]
LIMITS += [(7, config(N, 16))]


@pytest.mark.slow
def test_a_position_bias_that_is_too_short() -> None:
    """Of fewer heads than an ATTEND, or fewer tokens than the HEADER: not what hardware checks."""
    found = [s for s in subjects(BIASED) if s.model.position_bias is not None]
    one, two = (next(s for s in found if s.model.shape.heads == heads) for heads in (1, 2))
    cases = (
        (one, "heads", 2, "layer.0", "heads is 2: the BIAS has 1"),
        (two, "tokens", 25, "header", "row_tiles is 6: the HEADER's 25 tokens take 7"),
    )
    for subject, name, value, step, wrong in cases:
        assert list(violations(subject.stream, BIASED)) == []
        said = list(violations(edited(subject, fields(step, **{name: value})), BIASED))
        assert any(line.endswith(wrong) for line in said), said


@pytest.mark.slow
def test_a_gate_that_nothing_has_written() -> None:
    """Of its LINEAR; and a field that is none, since the HEADER has no GATED."""
    plain = next(s for s in subjects(GATED) if not has_gates(s.model))
    gated = next(s for s in subjects(GATED) if has_gates(s.model))
    assert list(violations(gated.stream, GATED)) == list(violations(plain.stream, GATED)) == []
    linears = [step.name for step in plain.program.steps if step.opcode is Opcode.LINEAR]
    stream = edited(plain, both(*(fields(name, gate=255) for name in linears)))
    assert list(violations(stream, GATED)) == []
    assert rtl_logits(plain, stream) == (Error.NONE, sound(plain))
    gate = next(step.name for step in gated.program.steps if step.name.endswith(".gate"))
    stream = edited(gated, lambda pieces: pieces.remove(pieces.named(gate)))
    (said,) = violations(stream, GATED)
    assert "destination has words that nothing has written, for sequences of" in said
    error, logits = rtl_logits(gated, stream)
    assert error is Error.NONE
    assert logits != sound(gated)


@pytest.mark.slow
def test_what_hardware_does_not_check_of_rotary_positions() -> None:
    subject = next(s for s in subjects(ROTARY) if s.model.rotary)
    q, tables = (Edit(subject.program).named(name) for name in ("layer.0.q", "rotary"))
    assert (q["columns"], q["head_size"], tables["pairs"]) == (8, 4, 4)
    hidden = "layer.0.ffn.hidden"  # of the first tokens, once they are gathered

    def of_cos(value: int) -> Change:
        """Set cos of the second lane's first pair."""

        def change(pieces: Edit) -> None:
            payload = pieces.named("rotary").payload
            payload[1], payload[1 + N] = value.to_bytes(2, "little", signed=True)

        return change

    for change, wrong in (
        (of_cos(16384), ""),
        (of_cos(16385), "a value is 16385: cos and sin must lie in -16384..16384"),
        (of_cos(-16384), ""),
        (of_cos(-16385), "a value is -16385: cos and sin must lie in -16384..16384"),
        (fields("header", tokens=25), "row_tiles is 6: the HEADER's 25 tokens take 7"),
        (
            fields("layer.0.q", rotary=3),
            "rotary 3 and the 2 pairs of a head are more than the ROTARY's 4",
        ),
        (
            fields("layer.0.q", rotary=0, head_size=6),
            "columns is 8: with ROTARY a multiple of head_size 6",
        ),
        (
            both(flagged(hidden, Flag.TABLE | ROTARY_BIT), fields(hidden, head_size=2)),
            "a LINEAR with ROTARY comes after a sum has gathered the first tokens",
        ),
        (
            both(flagged(hidden, Flag.TABLE | ROTARY_BIT), fields(hidden, head_size=3)),
            "head_size is 3: with ROTARY it must be even, 2 or more",
        ),
    ):
        said = list(violations(edited(subject, change), ROTARY))
        assert [line.partition(": ")[2] for line in said] == [wrong] * bool(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "limits"), quick(LIMITS))
def test_what_is_allowed_depends_on_nothing_else(seed: int, limits: Config) -> None:
    """Streams changed at random in which nothing is wrong.

    Their logits are the same behind another model and with sources that pause; a rule that is
    missing shows as a difference.
    """
    rng, cases = Random(seed), []
    while len(cases) < 120:
        subject = rng.choice(subjects(limits))
        number = rng.randrange(POOL)
        run = rng.choice(CHANGES)(rng, subject, subject.sound(number))
        if run.model.data == subject.stream or not allowed(run.model.data, limits):
            continue
        foreign = rng.choice(subjects(limits)).sound(rng.randrange(POOL))
        later = run.but(
            seed=rng.randrange(1, 1 << 32),
            row_latency=rng.randrange(1, 9),
            row_silence=rng.choice((0, 30)),
        )
        cases.append((run, foreign, later))
    codes = []
    for case in cases:
        first, _, again = played(limits, *case)
        codes.append(first[0])
        assert again == first, case[0].model.data.hex()
    assert codes.count(Error.NONE) > 100


class Other(Held):
    """Of other batches: any number of row tiles, cut anywhere."""

    def _begin(self) -> None:
        super()._begin()
        rng, blank = Random(1), self.batches[0]
        found = [[5, 1, 2]]
        while len(found) < 60:
            one = [rng.randint(1, 24) for _ in range(rng.randint(1, 6))]
            if sum(ceil_div(tokens, N) for tokens in one) <= self.config.row_tiles:
                found.append(one)
        self.batches = [replace(blank, lengths=one, written=blank.written.copy()) for one in found]


@pytest.mark.parametrize("columns", [8, 16, 32])
def test_what_any_batch_shows_is_named(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With c ways what is written depends on every number of row tiles; V is read elsewhere."""
    limits = Config(lanes=N, columns=columns, tokens=24, hidden=16, ffn=20, labels=3)
    shape = replace(SMALL["shared-keys"], heads=3, kv_heads=1, head_size=4)
    made = compile_model(family("shared-keys", shape), limits, whole_last_layer=True)
    steps = list(made.steps)
    last = max(n for n, step in enumerate(steps) if step.opcode is Opcode.ATTEND)
    wrong = []
    for offset in range(0, 64, 4):
        values = steps[last].values | {"value": bank_address(offset % 3, offset)}
        changed_step = replace(steps[last], values=values)
        stream = replace(made, steps=(*steps[:last], changed_step, *steps[last + 1 :])).stream()
        named = any(violations(stream, limits))
        with monkeypatch.context() as patch:
            patch.setattr(unchecked, "Held", Other)
            shown_by = list(violations(stream, limits))
        wrong += [(offset, line) for line in shown_by if not named]
    assert wrong == []


CHANGES = (field, field, flags, order, missing, doubled, of_two_models, bits_of_a_descriptor)


def allowed(stream: bytes, limits: Config) -> bool:
    try:
        return not any(violations(stream, limits))
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("lanes", "columns"), quick([(4, 8), (4, None), (4, 32), (16, None), (16, 64), (64, None)])
)
@pytest.mark.parametrize("kind", quick(zoo.KINDS))
def test_compiled_streams_are_allowed(lanes: int, columns: int | None, kind: str) -> None:
    for name, shape in (
        SMALL | {name: FAMILIES[name] for name in ("bert-tiny", "pre-norm")}
    ).items():
        model = family(name, shape, **zoo.KINDS[kind])
        for whole in (False, True):
            limits = fitting_model(model, lanes, 64, columns=columns)
            stream = compile_model(model, limits, whole_last_layer=whole).stream()
            assert list(violations(stream, limits)) == []
            assert list(violations(stream, config_for(stream, Config()))) == []


def test_the_command_holds_a_stream_to_the_specification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.bin"
    rules = (
        (None, ""),
        (UNCHECKED[0][2], "LINEAR at byte 152: s of column 0 is 0: it must lie in 1..47"),
        (fields("layer.0.q", source=1), "LINEAR at byte 152: source is 1: it must lie in 0..0"),
        (flagged("logits", Flag.TABLE), "LINEAR with LOGITS has no TABLE and no TRANSPOSED"),
    )
    for change, said in rules:
        subject, stream = changed(POST, change)
        file.write_bytes(stream)
        assert main(["--dump", str(file)]) == bool(said)
        wrong = [line for line in capsys.readouterr().out.splitlines() if line[:6] == "wrong:"]
        assert len(wrong) == bool(said)
        assert all(line.endswith(said) for line in wrong)
        made = Image(stream=stream, rows=subject.table.tobytes(), row_bytes=subject.table.shape[1])
        file.write_bytes(image_bytes(made))
        assert main(["--check", str(file)]) == bool(said)
        captured = capsys.readouterr()
        assert captured.out.count("wrong:") == bool(said)
        if said:
            (line,) = captured.err.splitlines()
            assert f"{file} breaks 1 rule of docs/architecture.md; the first: " in line
            assert line.endswith(said)


def test_a_stream_that_no_hardware_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(changed(POST, fields("header", hidden=1025))[1])
    assert main(["--dump", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        f"{file}: no hardware takes the stream: hidden is 1025: it must lie in 1..1024"
    )
