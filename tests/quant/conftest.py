"""The shipped checkpoint, real reviews, and its quantized model, each made once a session."""

from pathlib import Path

import pytest

from quant.calibrate import DEFAULT_DATA, calibrate, encode, save
from quant.foreign.checkpoint import DEFAULT_MODEL, Checkpoint, load
from quant.foreign.tokenizer import TextTokenizer, Tokens
from quant.quantize.options import Options
from quant.quantized_model import QuantizedModel
from quant.texts.corpora import imdb
from quant.texts.data_file import Review
from tests.quant import tiny


@pytest.fixture(scope="session")
def shipped() -> Checkpoint:
    return load(DEFAULT_MODEL)


@pytest.fixture(scope="session")
def tokenizer() -> TextTokenizer:
    return tiny.tokenizer(DEFAULT_MODEL)


@pytest.fixture(scope="session")
def reviews() -> list[Review]:
    """Reviews that calibration never sees."""
    return imdb("validation")[:200]


@pytest.fixture(scope="session")
def texts(reviews: list[Review], shipped: Checkpoint) -> list[Tokens]:
    return encode(reviews, shipped, 512)


@pytest.fixture(scope="session")
def quantized_directory(tmp_path_factory: pytest.TempPathFactory, shipped: Checkpoint) -> Path:
    """The shipped checkpoint, calibrated on 24 training reviews."""
    samples = encode(imdb("train")[:24], shipped, 512)
    quantized, _ = calibrate(shipped, samples, Options(remedies=()), {"data": DEFAULT_DATA})
    directory = tmp_path_factory.mktemp("quantized")
    save(quantized, shipped, directory)
    return directory


@pytest.fixture(scope="session")
def classifier(quantized_directory: Path) -> QuantizedModel:
    return QuantizedModel.load(quantized_directory, DEFAULT_MODEL)
