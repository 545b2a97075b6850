"""The nonlinear units on what real reviews send through them, against float."""

from collections.abc import Iterator

import numpy as np
import pytest

from golden.attention import split_heads
from golden.encoder import run
from golden.matmul import matmul
from golden.model import Model, Norm

Calibrated = tuple[Model, list[np.ndarray]]


@pytest.fixture(scope="module")
def traces(calibrated: Calibrated) -> list[dict[str, np.ndarray]]:
    model, texts = calibrated
    traces: list[dict[str, np.ndarray]] = []
    for ids in texts[:12]:
        traces.append({})
        run(model, ids[:256], trace=traces[-1])
    return traces


@pytest.mark.slow
def test_softmax(calibrated: Calibrated, traces: list[dict[str, np.ndarray]]) -> None:
    """Mean total variation of the rows from the softmax of the unrounded scores: at most 2 %."""
    model, _ = calibrated
    variations = []
    for trace in traces:
        for i, layer in enumerate(model.layers):
            q, k = (split_heads(trace[f"layer.{i}.{x}"], model.shape.heads) for x in "qk")
            octaves = matmul(q, k.swapaxes(1, 2)) * (
                layer.attention.score_m / 2**layer.attention.score_s / 256
            )
            exact = 2 ** (octaves - octaves.max(axis=-1, keepdims=True))
            exact /= exact.sum(axis=-1, keepdims=True)
            p = trace[f"layer.{i}.p"] / trace[f"layer.{i}.sum"][..., None]
            variations.append(np.abs(p - exact).sum(axis=-1).reshape(-1) / 2)
    assert len(np.concatenate(variations)) > 5000
    assert np.concatenate(variations).mean() <= 0.02


def norms(model: Model) -> Iterator[tuple[str, Norm]]:
    assert model.embedding.norm is not None
    yield "embedding", model.embedding.norm
    for i, layer in enumerate(model.layers):
        yield f"layer.{i}.attention", layer.norm1
        yield f"layer.{i}.ffn", layer.norm2


def test_layernorm(calibrated: Calibrated, traces: list[dict[str, np.ndarray]]) -> None:
    """Every output within 2.5 of its int16 steps of the same formula in float."""
    model, _ = calibrated
    for name, norm in norms(model):
        for trace in traces:
            z = trace[f"{name}.sum"].astype(np.float64)
            centred = z - z.mean(axis=1, keepdims=True)
            # E stands for eps at the scale of H^2 * variance
            variance = (centred**2).mean(axis=1, keepdims=True) + norm.epsilon / z.shape[1] ** 2
            exact = (centred / np.sqrt(variance) * 4096 * norm.gamma + norm.beta) / 2**norm.shift
            error = np.abs(trace[f"{name}.norm"] - np.clip(exact, -32768, 32767))
            assert error.max() <= 2.5, name
