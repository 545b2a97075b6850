from collections import defaultdict

import numpy as np
import pytest

from golden.encoder import run
from golden.fast.watching import WatchedEngine
from golden.random import random_model
from tests.golden.test_fast import FACTORISED, SHAPES, texts


@pytest.mark.parametrize("name", SHAPES)
def test_operands_are_those_of_the_trace(name: str) -> None:
    """Every layer's, of every token, text by text; the head's as the pooling gives it."""
    model = random_model(SHAPES[name], 3, FACTORISED.get(name, 0))
    seen: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    engine = WatchedEngine(model, lambda key, x: seen[key].append(x.copy()))
    expected: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    for ids, types, _ in texts(SHAPES[name], 5, 3, SHAPES[name].tokens):
        engine.run_text(ids, types)
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
