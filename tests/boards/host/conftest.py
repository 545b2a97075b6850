"""A small model with its image, and a board that answers what golden says of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boards.host.classify
from boards.host.link import Link
from golden.encoder import run
from golden.model import Model
from golden.random import random_model
from golden.store import save
from quant.foreign.tokenizer import TextTokenizer, Tokens
from quant.model.spec import EncoderSpec
from rtl.compile.image import image_bytes
from rtl.compile.program import compile_model, image_of
from rtl.interface.config import Config
from tests import zoo
from tests.boards.host.pretended import LANES, Board, Line
from tests.ending import exit_code
from tests.quant.tiny import write_resolved

Make = Callable[..., Any]
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad", "not", "a", "!")
LABELS = ("negative", "positive", "undecided")
SHAPE = zoo.shape(
    "no-pooler", labels=len(LABELS), vocabulary=len(WORDS), positions=14, position_offset=0
)
SPEC = EncoderSpec(
    layers=1,
    hidden=10,
    heads=2,
    head_size=5,
    ffn=12,
    labels=LABELS,
    vocabulary=len(WORDS),
    positions=14,
    types=2,
)
SCALE = 0.0078125


@dataclass(frozen=True)
class Sample:
    """A model, the folder that calibration would have written, and its image."""

    model: Model
    quantized: Path
    image: Path

    def tokens(self, words: str, limit: int = SHAPE.positions) -> Tokens:
        return TextTokenizer(self.quantized).encode(words, limit=limit)

    def right(self, words: str, limit: int = SHAPE.positions) -> list[int]:
        """golden's logits of a text."""
        tokens = self.tokens(words, limit)
        return [int(x) for x in run(self.model, tokens.ids, tokens.types)]

    def is_in(self, board: Board) -> bool:
        """Whether the board's memory holds the image."""
        image = self.image.read_bytes()
        return board.memory[: len(image)] == image

    def runs(self, words: list[tuple[int, int, int]]) -> list[int] | int:
        """What the accelerator says: golden's logits, or a code."""
        if len(words) > SHAPE.positions:
            return 6
        if not all(attend for _, _, attend in words):
            return 8
        ids, types = ([w[place] for w in words] for place in (0, 1))
        return [int(x) for x in run(self.model, np.array(ids), np.array(types))]


def text(rng: random.Random) -> str:
    """Some words that the tokenizer knows."""
    return " ".join(rng.choice(WORDS[4:]) for _ in range(rng.randint(1, 9)))


def image_for(model: Model, lanes: int = LANES) -> bytes:
    """The image of a model for an array of so many lanes."""
    return image_bytes(image_of(model, compile_model(model, Config(lanes=lanes))))


def info_of(spec: EncoderSpec, folder: Path) -> dict[str, Any]:
    """What calibration says of a model, with the tokenizer of WORDS written into its folder."""
    tokenizer = write_resolved(folder, WORDS)
    logits = {"logits": {"scale": SCALE}}
    return {"spec": spec.to_json(), "tensors": logits, "tokenizer": tokenizer}


def sample_in(folder: Path) -> Sample:
    """The model with what belongs to it, written into a folder."""
    model = random_model(SHAPE, seed=5)
    save(model, folder / "model", info_of(SPEC, folder / "model"))
    (folder / "model.img").write_bytes(image_for(model))
    return Sample(model, folder / "model", folder / "model.img")


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return sample_in(tmp_path_factory.mktemp("sample"))


@pytest.fixture
def make_board(sample: Sample, tmp_path: Path) -> Iterator[Callable[..., Board]]:
    """make_board(Line(...), **fields): a board at its terminal, tmp_path/ttyUSB0."""
    with ExitStack() as stack:

        def make(line: Line | None = None, **fields: Any) -> Board:
            fields = {"runs": sample.runs} | fields
            board = Board(tmp_path / "ttyUSB0", line=line or Line(), **fields)
            return stack.enter_context(board)

        yield make


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Callable[..., Link]]:
    """link(**options): a link to the board of make_board."""
    made: list[Link] = []

    def make(**options: Any) -> Link:
        defaults: dict[str, Any] = {"seconds": 0.3, "tries": 30, "patience": 5}
        made.append(Link(str(tmp_path / "ttyUSB0"), 115_200, **(defaults | options)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def command(tmp_path: Path, sample: Sample, capsys: Any) -> Make:
    """command(module, *arguments): exit code, output and the line on stderr that ended it."""

    def call(module: Any, *arguments: str) -> tuple[int, str, str]:
        line = ["--port", str(tmp_path / "ttyUSB0"), "--baud", "115200"]
        code = exit_code(module.main, [*line, *arguments])
        shown, error = capsys.readouterr()
        return code, shown, (error.splitlines() or [""])[-1]

    return call


@pytest.fixture
def classify(command: Make, sample: Sample) -> Make:
    """classify(*arguments): as command(boards.host.classify, ...), with the image loaded before."""
    options = ["--load", str(sample.image), "--quantized", str(sample.quantized)]
    return lambda *arguments: command(boards.host.classify, *arguments, *options)
