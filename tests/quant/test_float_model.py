from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quant.embed import packaged
from quant.foreign.checkpoint import Checkpoint, load
from quant.measure.metrics import unit
from quant.model import activation, float_model
from quant.model.float_model import Doubles
from quant.texts.corpora import rotten_tomatoes
from tests.quant import tiny
from tests.quant.test_quantize import checkpoint, inputs


def theirs(kind: str, directory: Path, ids: list[int], types: list[int]) -> Any:
    """What a class of Hugging Face gives for a text, in float32."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, kind).from_pretrained(directory).float().eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types]))


def test_equals_hugging_face_on_real_reviews(shipped: Checkpoint, texts: list) -> None:
    by_length = sorted(texts, key=lambda tokens: len(tokens.ids))
    chosen = [by_length[i] for i in (0, 40, 90, 130, 160, -1)]
    assert len(chosen[0].ids) < 100
    assert len(chosen[-1].ids) == 512
    for tokens in chosen:
        ours = float_model.run(shipped.spec, shipped.arrays, tokens.ids, tokens.types)
        text = tokens.ids.tolist(), tokens.types.tolist()
        found = theirs("AutoModelForSequenceClassification", shipped.directory, *text)
        np.testing.assert_allclose(ours, found.logits[0].numpy(), rtol=0, atol=1e-5)


def test_minilm_equals_hugging_face_on_real_sentences() -> None:
    """Its embeddings are the mean, and not of length 1."""
    directory = packaged()
    checkpoint, tokenizer = load(directory), tiny.tokenizer(directory)
    for review in rotten_tomatoes("test")[:4]:
        tokens = tokenizer.encode(review.text, limit=checkpoint.spec.max_tokens)
        ours = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)
        found = theirs("AutoModel", directory, tokens.ids.tolist(), tokens.types.tolist())
        mean = found.last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(unit(ours), unit(mean), rtol=0, atol=1e-5)


def test_activations_against_their_formulas() -> None:
    x = np.linspace(-9, 9, 301)
    exact = [value / 2 * (1 + erf(value / sqrt(2))) for value in x]
    np.testing.assert_allclose(activation.gelu(x), exact, atol=1e-15)
    # Hendrycks and Gimpel's approximation stays within 5e-4 of the exact function.
    assert 1e-4 < np.abs(activation.gelu_tanh(x) - exact).max() < 5e-4
    assert activation.relu(np.array([-2.0, 3.0])).tolist() == [0, 3]


def test_softmax_survives_large_scores() -> None:
    p = float_model.softmax(np.array([[1e4, 1e4 - np.log(3)], [-1e4, 0]]))
    np.testing.assert_allclose(p, [[0.75, 0.25], [0, 1]], atol=1e-12)


@pytest.mark.parametrize("pooling", ["first", "mean", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_texts_that_go_together_are_as_alone(norm: str, pooling: str) -> None:
    """Every tensor of every text, in float64 but for the last bits; segments included."""
    task = "token-classification" if pooling == "none" else "classification"
    source = checkpoint(norm=norm, pooling=pooling, task=task)
    arrays = Doubles(source.arrays)
    texts = inputs(5, 3, source.spec)
    lengths = [len(text.ids) for text in texts]
    together: dict[str, Any] = {}
    ids, types = (np.concatenate([getattr(t, x) for t in texts]) for x in ("ids", "types"))
    logits = float_model.run(source.spec, arrays, ids, types, together, lengths)
    assert logits is together["logits"]
    found = float_model.by_text(source.spec, together, lengths)
    for text, trace in zip(texts, found, strict=True):
        alone: dict[str, Any] = {}
        float_model.run(source.spec, arrays, text.ids, text.types, alone)
        assert trace.keys() == alone.keys()
        for name, x in alone.items():
            assert x.dtype == np.float64
            assert trace[name].shape == x.shape, name
            np.testing.assert_allclose(trace[name], x, rtol=1e-11, atol=1e-12, err_msg=name)
