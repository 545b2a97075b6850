import json

import numpy as np
import pytest

from quant.model.spec import CheckpointError, EncoderSpec, check_arrays

FIELDS = {
    "layers": 1,
    "hidden": 4,
    "heads": 2,
    "head_size": 2,
    "ffn": 6,
    "labels": ("no", "yes"),
    "vocabulary": 9,
    "positions": 5,
}


def arrays(spec: EncoderSpec, width: int = 3) -> dict[str, np.ndarray]:
    """Zeros of the shapes that the spec asks for, ``width`` where it leaves one free."""
    return {
        name: np.zeros([width if size < 0 else size for size in shape], np.float32)
        for name, shape in spec.shapes().items()
    }


def test_json_brings_back_the_same_spec() -> None:
    spec = EncoderSpec(**FIELDS, types=2, norm="pre", head_activations=("tanh",), epsilon=1e-5)
    assert EncoderSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers is 0: it must be at least 1"),
        ({"labels": ("one",)}, r"labels are \('one',\): a classifier needs at least 2"),
        ({"labels": ("Yes", " Yes ")}, "the labels 'Yes' and ' Yes ' are one name"),
        ({"task": "ranking"}, "task is 'ranking': it must be one of classification, embedding"),
        ({"task": "embedding"}, r"labels are \('no', 'yes'\): an embedding has none"),
        ({"types": -1}, r"types is -1: it must be 0 \(no segment embedding\) or more"),
        ({"position_offset": 5}, "position_offset is 5: it must be from 0 to below the 5 rows"),
        ({"epsilon": 0.0}, "epsilon is 0.0: LayerNorm needs it above 0"),
        ({"norm": "none"}, "norm is 'none': it must be one of post, pre"),
        ({"first_norm": False}, "first_norm is False with norm 'post' and embedding_norm True"),
        (
            {"first_norm": False, "norm": "pre", "embedding_norm": False},
            "first_norm is False with norm 'pre' and embedding_norm False: a layer 0 without",
        ),
        ({"head_norm": True}, "head_norm is True with one layer of the head"),
        ({"pooling": "max"}, "pooling is 'max': it must be one of first, mean, last, none"),
        (
            {"pooling": "none"},
            "pooling is 'none' and task 'classification': without pooling the task is question-",
        ),
        (
            {"task": "token-classification"},
            "pooling is 'first' and task 'token-classification': without",
        ),
        (
            {"task": "token-classification", "pooling": "none", "labels": ("one",)},
            r"labels are \('one',\): a classifier needs at least 2",
        ),
        (
            {"embedding_size": 5},
            r"embedding_size is 5: it must be from 0 \(no projection\) to the hidden size, 4",
        ),
        ({"embedding_size": -1}, "embedding_size is -1"),
        ({"embedding_size": 2, "norm": "pre"}, "embedding_size is 2 and norm 'pre'"),
        ({"activation": "xielu"}, "activation is 'xielu': it must be one of gelu, gelu-10"),
        ({"head_activations": ("x",)}, "head_activations is 'x': it must be one of"),
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


def test_a_spec_of_before_there_were_tasks_is_of_a_classifier() -> None:
    values = EncoderSpec(**FIELDS).to_json()
    del values["task"]
    assert EncoderSpec.from_json(values).task == "classification"


def test_another_task_is_refused_with_what_to_use() -> None:
    classifier = EncoderSpec(**FIELDS)
    embedding = EncoderSpec(**FIELDS | {"labels": (), "task": "embedding"})
    classifier.require(("classification",), "it")
    with pytest.raises(ValueError, match=r"^it is a classifier .*: use python -m quant.classify"):
        classifier.require(("embedding",), "it")
    with pytest.raises(ValueError, match=r"^it makes embeddings .*: use python -m quant.embed"):
        embedding.require(("classification",), "it")


def test_arrays_are_checked_by_name() -> None:
    spec = EncoderSpec(**FIELDS, head_activations=("tanh",))
    good = arrays(spec)
    check_arrays(spec, good)
    cases = [
        ({"layer.0.q.bias": None}, "layer.0.q.bias is missing"),
        (
            {"layer.0.ffn.up.weight": np.zeros((6, 5), np.float32)},
            "layer.0.ffn.up.weight has shape 6 x 5: the config asks for 6 x 4",
        ),
        (
            {"embedding.token": np.full((9, 4), np.nan, np.float32)},
            "embedding.token holds a value that is not a finite number",
        ),
        ({"layer.1.q.bias": np.zeros(4, np.float32)}, "layer.1.q.bias belongs to no layer"),
        (
            {"head.1.weight": np.zeros((2, 7), np.float32)},
            "head.1.weight has 7 inputs: head.0 gives 3",
        ),
    ]
    for change, message in cases:
        bad = {name: value for name, value in (good | change).items() if value is not None}
        with pytest.raises(CheckpointError, match=message):
            check_arrays(spec, bad)
