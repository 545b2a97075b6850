"""One simulated accelerator with DMA, and both drivers on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim.machine.board import MemoryBoard, design_of
from sim.machine.machine import library
from tests.driver.drivers import CDriver, Driver, PythonDriver
from tests.driver.library import driver_library
from tests.sim.dma_subjects import BUS, limits
from verify.fuzz.subject import Subject, subjects

#: As in tests/sim/test_dma.py, so that one build serves both.
CONFIG = limits(4)
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


@pytest.fixture(scope="session")
def program() -> Path:
    return library(design_of(CONFIG, BUS))


@pytest.fixture
def board(program: Path) -> Iterator[MemoryBoard]:
    """A board out of its reset; a complaint of it fails the test."""
    board = MemoryBoard(program, BUS)
    board.hold({0: b""})
    yield board
    complaint = board.complaint()
    board.close()
    assert complaint == ""


@pytest.fixture(scope="session")
def by_compiler(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CDriver]:
    """The C driver as each compiler makes it, without a warning."""
    folders = {name: tmp_path_factory.mktemp(name) for name in COMPILERS}
    return {name: CDriver(driver_library(program, at, name)) for name, at in folders.items()}


@pytest.fixture(params=COMPILERS)
def c_driver(request: pytest.FixtureRequest, by_compiler: Any, board: MemoryBoard) -> CDriver:
    """The C driver, open."""
    assert by_compiler[request.param].open() == 0
    return by_compiler[request.param]


@pytest.fixture(params=[*COMPILERS, "python"])
def closed(request: pytest.FixtureRequest, by_compiler: Any, board: MemoryBoard) -> Driver:
    """Each driver, not opened yet."""
    return by_compiler.get(request.param) or PythonDriver(board)


@pytest.fixture
def driver(closed: Driver) -> Driver:
    """Each driver, open."""
    assert closed.open() == 0
    return closed


@pytest.fixture(params=range(len(subjects(CONFIG))))
def any_subject(request: pytest.FixtureRequest) -> Subject:
    """Each of the small models."""
    return subjects(CONFIG)[request.param]


@pytest.fixture
def subject() -> Subject:
    """Post-norm, two heads, two labels."""
    return subjects(CONFIG)[0]
