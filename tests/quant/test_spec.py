import numpy as np
import pytest

from quant.model.distance import CAUSAL
from quant.model.spec import CheckpointError, EncoderSpec, check_arrays

FIELDS = {"layers": 1, "hidden": 4, "heads": 2, "head_size": 2, "ffn": 6}
FIELDS |= {"labels": ("no", "yes"), "vocabulary": 9, "positions": 5}


WORDS = {"task": "token-classification", "pooling": "none"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers is 0: it must be an integer of at least 1"),
        ({"hidden": "4"}, "hidden is '4': it must be an integer"),
        ({"labels": ("one",)}, r"labels is \('one',\): it must be 2 names for a class"),
        (WORDS | {"labels": ("one",)}, "it must be 2 names for a class"),
        ({"labels": ("Yes", " Yes ")}, "2 labels are 'Yes'"),
        ({"task": "ranking"}, "task is 'ranking': it must be one of classification, embedding"),
        ({"types": -1}, r"types is -1: it must be 0 \(no segment embedding\) or more"),
        ({"position_offset": 5}, "position_offset is 5: it must be from 0 to below the 5 rows"),
        ({"epsilon": 0.0}, "epsilon is 0.0: it must be above 0"),
        ({"norm": "none"}, "norm is 'none': it must be one of post, pre"),
        ({"pooling": "max"}, "pooling is 'max': it must be one of first, mean, last, none"),
        ({"pooling": "none"}, "pooling is 'none': it must be 'none' for question-answering and"),
        (WORDS | {"pooling": "first"}, "pooling is 'first': it must be 'none' for question-answe"),
        ({"pooling": "last"}, "it must be 'last' for an embedding alone"),
        ({"windows": (CAUSAL, CAUSAL)}, "windows is .*one for each of the 1 layers"),
        ({"rotary": (1,)}, r"rotary is \(1,\): it must be None or the number of one of at most 2"),
        ({"rotary": (0,), "head_size": 3}, "head_size is 3: it must be even with rotary"),
        ({"kv_heads": 2}, "kv_heads is 2: it must be a divisor of the 2 heads and below them"),
        ({"kv_heads": 1, "position_bias": True}, "kv_heads is 1: it must be 0 beside a position_b"),
        ({"embedding_size": 5}, r"it must be from 0 \(no projection\) to the hidden size, 4"),
        ({"activation": "xielu"}, "activation is 'xielu': it must be one of gelu, gelu-10"),
        ({"head_activations": ("x",)}, r"head_activations is \('x',\): it must be of gelu"),
    ],
)
def test_refuses(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EncoderSpec(**FIELDS | change)


def test_shapes_follow_the_choices() -> None:
    plain = EncoderSpec(**FIELDS)
    assert "embedding.type" not in plain.shapes()
    assert "final.norm.gamma" not in plain.shapes()
    assert plain.shapes()["head.0.weight"] == (2, 4)
    other = EncoderSpec(
        **FIELDS, types=2, norm="pre", embedding_norm=False, head_activations=("relu",)
    )
    assert other.shapes()["embedding.type"] == (2, 4)
    assert "embedding.norm.gamma" not in other.shapes()
    assert "final.norm.gamma" in other.shapes()
    assert other.shapes()["head.1.weight"] == (2, -1)
    assert EncoderSpec(**FIELDS, position_offset=2).max_tokens == 3
    embedding = EncoderSpec(**FIELDS | {"labels": (), "task": "embedding"})
    assert embedding.shapes()["head.0.weight"] == (4, 4)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("layer.0.q.bias", None, "is missing"),
        ("layer.0.ffn.up.weight", np.zeros((6, 5)), "has shape 6 x 5: the config asks for 6 x 4"),
        ("embedding.token", np.full((9, 4), np.nan), "holds a value that is not a finite number"),
        ("layer.1.q.bias", np.zeros(4), "belongs to no layer"),
        ("head.1.weight", np.zeros((2, 7)), "has 7 inputs: head.0 gives 3"),
    ],
)
def test_arrays_are_checked_by_name(name: str, array: np.ndarray | None, message: str) -> None:
    spec = EncoderSpec(**FIELDS, head_activations=("tanh",))
    sizes = {name: [3 if x < 0 else x for x in shape] for name, shape in spec.shapes().items()}
    good = {name: np.zeros(shape, np.float32) for name, shape in sizes.items()}
    check_arrays(spec, good)
    bad = {name: x for name, x in (good | {name: array}).items() if x is not None}
    with pytest.raises(CheckpointError, match=f"{name} {message}"):
        check_arrays(spec, bad)
