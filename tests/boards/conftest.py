"""The simulated ULX3S with a stand-in for the accelerator, and images for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from boards.gateware.system import Choices
from boards.gateware.uart import SHORTEST
from boards.gateware.ulx3s import NAME
from boards.host.board import Board
from boards.host.link import Link
from boards.simulation.top import SOURCES, made
from boards.simulation.ulx3s import Simulated, choices
from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.design import Design, kept
from tests.boards import stand_in

CHOICES = choices(Config(lanes=4, tokens=16, hidden=16, ffn=16, labels=4), bit=SHORTEST)
#: A simulation that is built sooner, and runs slower.
FLAGS = ("--output-split", "0", "-MAKEFLAGS", "OPT_FAST=-Og")


def stand_in_design() -> Design:
    facts = f"{SOURCES} {CHOICES} {Path(stand_in.__file__).read_text()}"
    return kept(
        f"{NAME}-stand-in", facts, lambda: made(CHOICES, "stand-in", stand_in.StandIn, PLAIN)
    )


def with_stand_in(of: Choices, port: Path, **options: Any) -> Simulated:
    return Simulated(of, port, design=stand_in_design(), flags=FLAGS, **options)


@pytest.fixture
def ulx3s(tmp_path: Path) -> Iterator[Callable[..., Simulated]]:
    """ulx3s(flash=FILE): a simulated board at tmp_path/tty in place of the one before.

    At the end of each its chips are asked for what they complain of.
    """
    with ExitStack() as stack:

        def ended(board: Simulated) -> None:
            assert board.state["violations"] == []

        def make(**options: Any) -> Simulated:
            stack.close()
            kind = Simulated if "design" in options else with_stand_in
            board = stack.enter_context(kind(CHOICES, tmp_path / "tty", **options))
            stack.callback(ended, board)
            return board

        yield make


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Callable[..., Board]]:
    """talk(): boards.host.board.Board at the terminal of `ulx3s`."""
    with ExitStack() as stack:

        def make(**options: Any) -> Board:
            defaults: dict[str, Any] = {"seconds": 3.0, "tries": 20, "patience": 20}
            link = Link(str(tmp_path / "tty"), 1_000_000, **(defaults | options))
            return Board(stack.enter_context(link))

        yield make
