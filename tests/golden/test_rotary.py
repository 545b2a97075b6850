"""Rotary positions by hand-made values; tests/golden/reference.py has them in whole encoders."""

import numpy as np
import pytest

from golden.encoder import run
from golden.model import ROTARY_ONE, Rotary
from golden.random import Kind, random_model
from golden.rotary import rotate
from tests import zoo

ONE = ROTARY_ONE


@pytest.mark.parametrize(
    ("x", "y", "cos", "sin", "turned"),
    [
        (128, -256, ONE, 0, (1, -2)),  # not turned
        (128, -256, 0, ONE, (2, 1)),  # by a quarter of a turn
        (128, -256, -ONE, 0, (-1, 2)),
        (128, -256, 0, -ONE, (-2, -1)),
        (63, 64, ONE, 0, (0, 1)),  # half a unit is rounded up
        (-64, -65, ONE, 0, (0, -1)),
        (16319, 16320, ONE, 0, (127, 127)),
        (-16448, -16449, ONE, 0, (-128, -128)),
        (32767, -32768, ONE, 0, (127, -128)),
        (-32768, -32768, ONE, ONE, (0, -128)),
        (-32768, -32768, ONE, -ONE, (-128, 0)),
        (-32768, 32767, -ONE, -ONE, (127, 0)),  # -(x + y) is 1, a 128th of a unit
        (3200, 0, 11585, 11585, (18, 18)),  # 25 by an eighth of a turn, 17.68
    ],
)
def test_a_pair(x: int, y: int, cos: int, sin: int, turned: tuple[int, int]) -> None:
    table = Rotary(np.array([[cos]], np.int16), np.array([[sin]], np.int16))
    found = rotate(np.array([[x, y]], np.int16), table, 2)
    assert found.dtype == np.int8
    assert found.tolist() == [list(turned)]


def test_random_models_turn_and_saturate() -> None:
    """By both tables; they have most codes, and few are the ends."""
    shape = zoo.shape("bert-tiny", layers=6, head_size=6)
    model = random_model(shape, 3, Kind(rotary=True))
    assert {layer.rotary for layer in model.layers} == {None, 0, 1}
    trace: dict[str, np.ndarray] = {}
    run(model, [t % shape.vocabulary for t in range(shape.tokens)], trace=trace)
    turned = [i for i, layer in enumerate(model.layers) if layer.rotary is not None]
    found = np.concatenate([trace[f"layer.{i}.q"] for i in turned])
    assert 0 < ((found == -128) | (found == 127)).mean() < 0.2
    assert len(set(found.ravel().tolist())) > 200
