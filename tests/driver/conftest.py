"""Boards for the drivers; what a board complains of fails the test that used it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sim.design import Design, generated
from sim.machine.board import StreamBoard, library
from verify.fuzz.subject import Subject, config, subjects

LANES = 4
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


@pytest.fixture(scope="session")
def design() -> Design:
    return generated("accelerator", config(LANES))


@pytest.fixture(scope="session")
def program(design: Design) -> Path:
    return library(design)


@pytest.fixture
def make_board(design: Design, program: Path) -> Iterator[Callable[..., StreamBoard]]:
    """make_board(seed=0, gap=0): a board out of its reset."""
    made: list[StreamBoard] = []

    def make(seed: int = 0, gap: int = 0) -> StreamBoard:
        made.append(StreamBoard(program, LANES, seed, gap))
        return made[-1]

    yield make
    complaints = [board.complaint() for board in made]
    for board in made:
        board.close()
    assert not any(complaints), complaints


@pytest.fixture
def board(make_board: Callable[..., StreamBoard]) -> StreamBoard:
    return make_board()


@pytest.fixture(params=range(len(subjects(config(LANES)))))
def any_subject(request: pytest.FixtureRequest) -> Subject:
    """Each of the small models."""
    return subjects(config(LANES))[request.param]


@pytest.fixture
def subject() -> Subject:
    """Post-norm, two heads, two labels."""
    return subjects(config(LANES))[0]
