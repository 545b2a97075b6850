"""The link to a board, on lines of all kinds: what is lost is sent again, what is wrong refused."""

from __future__ import annotations

import os
import random
import tty
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from boards import protocol
from boards.host.board import Board
from boards.host.link import Link, LinkError
from boards.protocol import Decoder, Frame, Kind
from tests.boards.host.conftest import LABELS, Sample, text
from tests.boards.host.pretended import Line
from tests.tiers import quick

Make = Callable[..., Any]


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """The far end of a line at which no board is, and the port at this one."""
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    os.close(master)
    os.close(slave)


LINES = {
    "noise before replies": {"garbage": 0.5},
    "noise with flags": {"noise": b"\x7e~~\x7e\x7d\x7e hello \x7e"},
    "bytes lost, doubled, changed": {"broken": 0.25},
    "requests not heard": {"silent": 0.2},
    "all of it": {"garbage": 0.3, "broken": 0.1, "silent": 0.1},
}


@pytest.mark.parametrize("seed", quick([1, 2]))
@pytest.mark.parametrize("kind", LINES)
def test_a_bad_line_costs_time_and_nothing_else(
    make_board: Make, link: Make, sample: Sample, kind: str, seed: int
) -> None:
    board = make_board(Line(seed=seed, **LINES[kind]), tokens=32)
    asked = Board(link())
    assert asked.load(sample.image.read_bytes()) == 1
    assert sample.is_in(board)
    rng = random.Random(seed)
    for _ in range(6):
        two = [text(rng), text(rng)]
        tokens = [sample.tokens(words) for words in two]
        answer = asked.run([(t.ids.tolist(), t.types.tolist()) for t in tokens], len(LABELS))
        assert [one.tolist() for one in answer.logits] == [sample.right(words) for words in two]
    if kind in ("bytes lost, doubled, changed", "requests not heard"):
        assert asked.link.resends > 0


def test_without_the_crc_a_bad_line_is_seen(
    make_board: Make, link: Make, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that takes any frame believes what the line has made of it."""

    def believed(self: Decoder) -> Frame:
        body = bytes(self._body).ljust(8, b"\0")
        return Frame(body[0], body[1], body[4:-4])

    monkeypatch.setattr(Decoder, "_ended", believed)
    make_board(Line(seed=3, broken=0.6))
    asked = link()
    assert len({asked.ask(Kind.INFO) for _ in range(20)}) > 1


@pytest.mark.parametrize("seed", range(6))
def test_a_port_that_says_anything_is_no_board(seed: int, terminal: tuple[int, str]) -> None:
    """Random bytes, and sound frames that answer something else: an error, and soon."""
    rng = random.Random(seed)
    far_end, port = terminal
    babble = rng.randbytes(rng.randrange(2_000))
    for _ in range(rng.randrange(40)):
        kind, number = rng.randrange(256), 200 + rng.randrange(50)
        babble += protocol.encode(kind, number, rng.randbytes(rng.randrange(20)))
    os.write(far_end, babble[:3_000])
    with Link(port, 115_200, seconds=0.1, tries=2) as link:
        with pytest.raises(LinkError, match=r"no answer from .* in 2 tries") as error:
            Board(link).info()
    assert "\n" not in str(error.value)


def test_a_port_that_takes_no_bytes(terminal: tuple[int, str]) -> None:
    """Nobody reads at the other end, and more is sent than the terminal holds."""
    with Link(terminal[1], 115_200, seconds=0.1, tries=2) as link:
        writes = [(Kind.WRITE, bytes(1_028))] * 40
        with pytest.raises(LinkError, match=r"no answer from .* in 2 tries"):
            list(link.ask_all(writes, window=40))


def test_a_reply_may_be_longer_than_a_request(make_board: Make, link: Make, sample: Sample) -> None:
    """The logits of many sequences."""
    logits = [37 * i - 5_000 for i in range(150)]
    make_board(runs=lambda words: logits)
    board = Board(link())
    board.load(sample.image.read_bytes())
    sequences = [([2, 5, 3], [0, 0, 0]), ([2], [1])]
    assert [one.tolist() for one in board.run(sequences, 150).logits] == [logits, logits]
