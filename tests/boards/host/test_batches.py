"""Texts that share inferences: what a board is sent, and what is made of its answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boards.host.batches import Room
from boards.host.board import BoardError
from boards.protocol import Info, Kind, Problem
from rtl.compile.program import compile_model
from rtl.interface.config import Config
from tb.scenarios import SMALL, family
from tests.boards.host.conftest import LABELS, WORDS, Sample, text
from tests.boards.host.pretended import LANES

Make = Callable[..., Any]
FULL = "film " * 12
"""A text of as many tokens as the model has positions, 14."""
BAD = WORDS.index("bad")


def table(path: Path, texts: list[str]) -> Path:
    path.write_text("text\n" + "".join(f"{one}\n" for one in texts))
    return path


def drawn(seed: int) -> list[str]:
    """Texts of any lengths: short ones, some that fill a small memory, one that is cut."""
    rng = random.Random(seed)
    texts = [rng.choice((text(rng), text(rng), FULL)) for _ in range(rng.randint(2, 40))]
    texts.insert(rng.randrange(len(texts)), FULL + "film film")
    return texts


@pytest.mark.parametrize(
    ("tokens", "longest"), [(16, 1028), (40, 1028), (13, 1028), (128, 1028), (64, 92), (64, 44)]
)
@pytest.mark.parametrize("seed", range(4))
def test_texts_share_inferences(
    make_board: Make,
    classify: Make,
    sample: Sample,
    tmp_path: Path,
    seed: int,
    tokens: int,
    longest: int,
) -> None:
    """Answers are golden's of each text alone; no two inferences would have fitted into one."""
    board = make_board(tokens=tokens, longest=longest)
    texts, limit = drawn(seed), min(14, tokens, longest // 4)
    data = table(tmp_path / "texts.csv", texts)
    code, shown, error = classify("--data", str(data), "--json", str(tmp_path / "a.json"))
    assert (code, error) == (0, f"classifying: {len(texts)} texts")
    figures = json.loads((tmp_path / "a.json").read_text())
    right = [sample.right(one, limit) for one in texts]
    assert [list(a["integer_logits"].values()) for a in figures["answers"]] == right
    lengths = [len(sample.tokens(one, limit).ids) for one in texts]
    assert [a["tokens"] for a in figures["answers"]] == lengths
    # What was sent: the stand-in refuses a batch or a frame that is too long.
    assert [[lengths[place] for place in b["places"]] for b in figures["batches"]] == board.batches
    assert sorted(p for b in figures["batches"] for p in b["places"]) == list(range(len(texts)))
    loads = [(sum(-(-n // LANES) for n in b), sum(b)) for b in board.batches]
    room = (-(-tokens // LANES), longest // 4)
    pairs = [(a, b) for i, a in enumerate(loads) for b in loads[:i]]
    assert not [pair for pair in pairs if all(a + b <= m for a, b, m in zip(*pair, room))]
    # 1,000 cycles a token at 80 MHz.
    total = figures["total"]
    assert (total["texts"], total["batches"]) == (len(texts), len(board.batches))
    assert total["cycles"] == 1_000 * sum(lengths)
    assert total["board_milliseconds"] == pytest.approx(sum(lengths) / 80)
    for part, batch in zip(figures["batches"], board.batches):
        assert (part["texts"], part["tokens"]) == (len(batch), sum(batch))
        assert part["cycles_a_text"] == 1_000 * sum(batch) / len(batch)
        assert part["board_milliseconds_a_text"] == pytest.approx(sum(batch) / 80 / len(batch))
    said = f"{len(texts)} texts in {len(board.batches)} inferences: {total['cycles']:,} clock cycle"
    assert shown.splitlines()[-1].startswith(said)


def test_one_by_one(make_board: Make, classify: Make, sample: Sample, tmp_path: Path) -> None:
    texts = drawn(5)
    data, figures = table(tmp_path / "texts.csv", texts), tmp_path / "a.json"
    board = make_board(tokens=64)
    options = ["--data", str(data), "--json", str(figures)]
    assert classify(*options, "--one-by-one")[0] == 0
    assert board.batches == [[len(sample.tokens(one).ids)] for one in texts]
    alone = json.loads(figures.read_text())
    assert classify(*options)[0] == 0
    assert len(board.batches) < 2 * len(texts)
    assert json.loads(figures.read_text())["answers"] == alone["answers"]


@pytest.mark.parametrize("texts", [["the film"], [FULL] * 5, ["!"] * 9])
def test_one_text_full_ones_and_short_ones(
    make_board: Make, classify: Make, sample: Sample, tmp_path: Path, texts: list[str]
) -> None:
    board = make_board()
    data, figures = table(tmp_path / "texts.csv", texts), tmp_path / "a.json"
    code, _, _ = classify("--data", str(data), "--json", str(figures))
    assert code == 0
    answers = json.loads(figures.read_text())["answers"]
    assert [list(a["integer_logits"].values()) for a in answers] == [*map(sample.right, texts)]
    expected = {"the film": [[4]], FULL: [[14]] * 5, "!": [[3] * 4, [3] * 4, [3]]}[texts[0]]
    assert board.batches == expected


def test_an_empty_text(make_board: Make, classify: Make, tmp_path: Path) -> None:
    """Nothing is sent of what is beside it."""
    board = make_board()
    code, shown, error = classify("")
    assert (code, shown, error) == (2, "", "error: the text is empty: give at least one word")
    (tmp_path / "texts.csv").write_text('text\nthe film\n""\ngood\n')
    assert board.batches == []
    code, shown, error = classify("--data", str(tmp_path / "texts.csv"))
    assert code == 0
    assert "2 texts in 1 inferences" in shown


@pytest.mark.parametrize("code", [2, 3, 6, 7, 8, 10, 11])
@pytest.mark.parametrize("one_by_one", [[], ["--one-by-one"]])
def test_a_text_that_the_accelerator_refuses_is_named(
    make_board: Make,
    classify: Make,
    sample: Sample,
    tmp_path: Path,
    code: int,
    one_by_one: list[str],
) -> None:
    """Where the error is of a sequence."""
    board = make_board(
        tokens=64,
        runs=lambda words: code if BAD in [i for i, _, _ in words] else sample.runs(words),
    )
    rng = random.Random(code)
    texts = ["the film was good", FULL, "not", "a film !"] * 5
    place = rng.randrange(len(texts))
    texts[place] = "a bad film"
    data, out = table(tmp_path / "texts.csv", texts), tmp_path / "a.json"
    ended, shown, error = classify("--data", str(data), "--json", str(out), *one_by_one)
    assert (ended, shown, out.exists()) == (2, "", False)
    named = f"text {place + 1}: " if code in (6, 7, 8, 11) else ""
    assert error.startswith(f"error: {named}the accelerator ended with error {code}: ")
    assert any(len(batch) > 1 for batch in board.batches) != bool(one_by_one)


@pytest.mark.parametrize("place", [9, 65_535])
def test_a_sequence_that_was_not_sent_is_not_named(
    make_board: Make, classify: Make, tmp_path: Path, place: int
) -> None:
    make_board(tokens=64, runs=lambda words: 8 | place << 16)
    data = table(tmp_path / "texts.csv", ["the film", "good"])
    assert classify("--data", str(data))[2] == (
        "error: the accelerator ended with error 8: no token may be attended to"
    )


@pytest.mark.parametrize(
    ("fields", "logits"),
    [({"sees_ends": False}, 3), ({"runs": lambda words: [1, 2]}, 4), ({"runs": lambda _: []}, 0)],
)
def test_logits_of_another_number(
    make_board: Make, classify: Make, tmp_path: Path, fields: dict[str, Any], logits: int
) -> None:
    make_board(**fields)
    data = table(tmp_path / "texts.csv", ["the film", "good"])
    code, shown, error = classify("--data", str(data))
    assert shown == ""
    if logits:
        assert code == 2
        assert error == (
            f"error: the board answers with {logits} logits to a batch of 2, this model has "
            f"{len(LABELS)} classes: load its image, or name the other model with --quantized"
        )
    else:
        assert (code, error) == (3, "error: the board's answer has 4 bytes: no cycles and logits")


def test_a_model_that_the_board_cannot_run(make_board: Make, classify: Make) -> None:
    board = make_board(hidden=9)
    code, shown, error = classify("the film")
    assert (code, shown, board.heard) == (2, "", [Kind.INFO])
    assert error.startswith(
        "error: this model does not run on the board: hidden size is 10, the configuration's "
        "hidden takes 9: "
    )


def test_the_bar_counts_texts(
    make_board: Make, classify: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def bar(items: Any, total: int, unit: str, **_: Any) -> Any:
        assert unit == " texts"
        for item in items:
            counted.append(total)
            yield item

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("tqdm.tqdm", bar)
    make_board(tokens=40)
    texts = drawn(8)
    assert classify("--data", str(table(tmp_path / "texts.csv", texts)))[0] == 0
    assert counted == [len(texts)] * len(texts)


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("name", SMALL)
def test_a_batch_has_the_room_that_the_compiler_says(name: str, lanes: int) -> None:
    """On configurations by seed, those that do not take the model among them."""
    model, rng, taken = family(name, SMALL[name]), random.Random(lanes), 0
    for _ in range(20):
        limits = {
            "tokens": rng.randint(1, 60),
            "hidden": rng.randint(6, 40),
            "ffn": rng.randint(8, 60),
            "labels": rng.randint(1, 8),
            "columns": lanes * rng.choice((1, 2, 4, 8)),
        }
        info = Info(
            problem=Problem.NONE,
            memory_bytes=1,
            kilohertz=1,
            stream_version=6,
            lanes=lanes,
            longest=rng.choice((36, 1028)),
            **limits,
        )
        why = ""
        try:
            program = compile_model(model, Config(lanes=lanes, **limits))
        except ValueError as error:
            why = str(error)
        if why:
            with pytest.raises(BoardError) as caught:
                Room.of(model, info)
            assert str(caught.value) == f"this model does not run on the board: {why}"
            continue
        taken += 1
        words = info.longest // 4
        assert Room.of(model, info) == Room(
            lanes, program.row_tiles, min(program.tokens, words), words
        )
    assert 0 < taken < 20
