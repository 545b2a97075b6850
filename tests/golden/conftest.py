"""The shipped checkpoint as an integer model, for the tests on real reviews."""

from pathlib import Path

import numpy as np
import pytest

from golden.model import Model


@pytest.fixture(scope="session")
def calibrated() -> tuple[Model, list[np.ndarray]]:
    """The shipped checkpoint, calibrated on a few reviews, with the token ids of test reviews."""
    from quant.calibrate import observe_all
    from quant.foreign.checkpoint import load
    from quant.foreign.tokenizer import TextTokenizer
    from quant.quantize.encoder import quantize
    from quant.quantize.options import Options
    from quant.texts.corpora import imdb

    folder = Path(__file__).parents[2] / "models" / "bert-tiny-imdb"
    checkpoint = load(folder)
    tokenizer = TextTokenizer(checkpoint.resolved)
    sample = [tokenizer.encode(review.text, limit=256) for review in imdb("train")[:8]]
    observed, _ = observe_all(checkpoint, sample)
    quantized = quantize(checkpoint.spec, checkpoint.arrays, observed, Options())
    ids = [tokenizer.encode(review.text, limit=512).ids for review in imdb("test")[:14]]
    return quantized.model, ids
