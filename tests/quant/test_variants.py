import numpy as np
import pytest

from golden import encoder
from quant.classify import Classifier
from quant.foreign.tokenizer import Tokens
from quant.quantize import variants
from quant.quantize.variants import SOFTMAXES, Variant
from tests import zoo

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [name for name in zoo.SHAPES if name not in zoo.EMBEDDINGS])
@pytest.mark.parametrize("biased", [False, True])
def test_the_default_is_golden(name: str, biased: bool) -> None:
    model = zoo.model(name, 3, biased=biased)
    shape = model.shape
    rng = np.random.default_rng(1)
    for length in (1, 7, 20):
        ids = rng.integers(0, shape.vocabulary, length).astype(np.int32)
        types = rng.integers(0, max(shape.types, 1), length).astype(np.int32)
        ours = variants.run(model, Tokens(ids, types, ()), Variant())
        assert ours.tolist() == encoder.run(model, ids, types).tolist()


@pytest.mark.slow
def test_variants_on_a_real_review(classifier: Classifier, texts: list[Tokens]) -> None:
    tokens = texts[0]
    exact = encoder.run(classifier.model, tokens.ids, tokens.types) * classifier.logit_scale
    assert (
        variants.run(classifier.model, tokens, Variant()).tolist()
        == encoder.run(classifier.model, tokens.ids, tokens.types).tolist()
    )
    for variant in (Variant(residual_bits=8), *(Variant(softmax=s) for s in SOFTMAXES[1:])):
        logits = variants.run(classifier.model, tokens, variant) * classifier.logit_scale
        assert 0 < np.abs(logits - exact).max() < 1.5, variant


def test_refuses_what_it_does_not_simulate() -> None:
    with pytest.raises(ValueError, match=r"residual_bits is 12: it must be 8 or 16"):
        Variant(residual_bits=12)
    with pytest.raises(
        ValueError, match=r"softmax is 'base e': one of unnormalised 8, normalised 8"
    ):
        Variant(softmax="base e")
