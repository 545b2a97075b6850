from collections import defaultdict

import numpy as np
import pytest

from golden.encoder import run
from golden.fast import engine
from golden.fast.watching import TracedEngine, WatchedEngine
from golden.model import Model
from tests import zoo
from tests.golden.test_fast import NAMES, products, texts
from tests.tiers import quick

__all__ = ["products"]


@pytest.mark.parametrize("name", NAMES)
def test_operands_are_those_of_the_trace(name: str) -> None:
    """Every layer's, of every token, text by text; the head's as the pooling gives it."""
    model = zoo.model(name, 3)
    seen: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    watched = WatchedEngine(model, lambda key, x: seen[key].append(x.copy()))
    expected: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    for ids, types, _ in texts(model.shape, 5, 3, min(40, model.shape.tokens)):
        watched.run_batch([ids], [types])
        trace: dict[str, np.ndarray] = {}
        run(model, ids, types, trace=trace)
        for key in seen:
            x = np.atleast_2d(trace[key])
            if key == "embedding.x8":  # the projection's and that of Q, K and V
                readers = 1 + (model.projection is not None)
                expected[key] += [x[:, : model.inputs(0)]] * readers
            else:
                expected[key].append(x)
    pre = model.shape.norm == "pre"
    kinds = ("attention.x8", "context", "ffn.x8", "ffn.hidden")
    names = {f"layer.{i}.{kind}" for i in range(model.shape.layers) for kind in kinds}
    if not pre:  # the last norm's goes to the head alone, as pooled
        names = names - {f"layer.{model.shape.layers - 1}.ffn.x8"} | {"embedding.x8"}
    assert seen.keys() == names | {"pooled", *(f"head.{j}" for j in range(len(model.head) - 1))}
    for key, parts in seen.items():
        assert [part.shape for part in parts] == [part.shape for part in expected[key]], key
        np.testing.assert_array_equal(np.vstack(parts), np.vstack(expected[key]), err_msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_of_a_batch_the_operands_are_those_of_its_texts(
    name: str, products: engine.Products
) -> None:
    """Padding is left out; the rows of the texts may come in another order."""
    model = zoo.model(name, 3)
    batch = list(texts(model.shape, 5, 5, min(40, model.shape.tokens)))
    found: list[defaultdict[str, list[np.ndarray]]] = []
    for together in (True, False):
        seen: defaultdict[str, list[np.ndarray]] = defaultdict(list)
        watched = WatchedEngine(model, lambda key, x, s=seen: s[key].append(x.copy()), products)
        for some in [batch] if together else [[text] for text in batch]:
            watched.run_batch([ids for ids, _, _ in some], [types for _, types, _ in some])
        found.append(seen)
    assert found[0].keys() == found[1].keys()
    for key in found[0]:
        rows = [np.vstack(seen[key]) for seen in found]
        assert rows[0].dtype == np.float32
        np.testing.assert_array_equal(*(np.array(sorted(x.tolist())) for x in rows), err_msg=key)


def assert_traces(model: Model, batch: list[tuple], products: engine.Products) -> None:
    """Every name, type, shape and value of golden's traces, in golden's order."""
    traces = TracedEngine(model, products).trace_batch(*zip(*batch, strict=True))
    for found, text in zip(traces, batch, strict=True):
        expected: dict[str, np.ndarray] = {}
        run(model, *text, trace=expected)
        assert found.keys() == expected.keys()
        for key, x in expected.items():
            assert (found[key].dtype, found[key].shape) == (x.dtype, x.shape), key
            np.testing.assert_array_equal(found[key], x, err_msg=key)


@pytest.mark.parametrize("kind", quick(zoo.GOLDEN_KINDS))
@pytest.mark.parametrize("name", NAMES)
def test_traces_are_goldens(name: str, products: engine.Products, kind: str) -> None:
    for seed in range(2):
        model = zoo.model(name, seed, **zoo.GOLDEN_KINDS[kind])
        batch = list(texts(model.shape, seed, 5, min(40, model.shape.tokens)))
        assert_traces(model, batch, products)
        assert_traces(model, batch[1:2], products)


def test_traces_of_texts_of_one_token(products: engine.Products) -> None:
    batch = [(np.array([i]), None, None) for i in range(3)]
    for name in (zoo.REAL, "post-norm-mean", "every-token"):
        assert_traces(zoo.model(name), batch, products)
