"""Encoders that make embeddings: what their folder says, and what of it is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quant.foreign.checkpoint import load
from quant.model import float_model
from quant.model.spec import CheckpointError
from tests.quant import tiny
from tests.quant.tiny import CONFIG

TRANSFORMER = "sentence_transformers.models.Transformer"
STATE = "last_hidden_state"
CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def test_an_encoder_alone_gives_its_hidden_size(tmp_path: Path) -> None:
    checkpoint = load(tiny.write_embedder(tmp_path))
    spec = checkpoint.spec
    assert (spec.task, spec.labels, spec.outputs, spec.pooling) == ("embedding", (), 12, "mean")
    np.testing.assert_array_equal(checkpoint.arrays["head.0.weight"], np.eye(12))
    assert not checkpoint.arrays["head.0.bias"].any()
    twin = load(tiny.write(tmp_path / "classifier"))
    for name, array in checkpoint.arrays.items():
        if not name.startswith("head."):
            np.testing.assert_array_equal(array, twin.arrays[name])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (CLS, "first"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "cls"}, "first"),
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
def test_the_pooling_is_that_of_the_folder(pooling: dict, expected: str, tmp_path: Path) -> None:
    checkpoint = load(tiny.write_embedder(tmp_path, pooling=pooling))
    assert checkpoint.spec.pooling == expected
    trace: float_model.Trace = {}
    ids = np.array([2, 5, 7, 3], np.int32)
    outputs = float_model.run(checkpoint.spec, checkpoint.arrays, ids, trace=trace)
    last = trace["layer.1.ffn.norm"]
    right = last[0] if expected == "first" else last.mean(axis=0)
    np.testing.assert_allclose(outputs, right, atol=1e-6)


def test_without_modules_it_is_the_mean(tmp_path: Path) -> None:
    directory = tiny.write_embedder(tmp_path, pooling=CLS)
    (directory / "modules.json").unlink()
    assert load(directory).spec.pooling == "mean"


def test_positions_before_the_first_token_are_kept(tmp_path: Path) -> None:
    config = {"architectures": ["RobertaModel"], "model_type": "roberta", "pad_token_id": 1}
    others = {"sentence_bert_config": {"max_seq_length": 9}}
    tiny.write_tokenizer(tmp_path)
    spec = load(tiny.write_embedder(tmp_path, config, **others)).spec
    assert (spec.position_offset, spec.positions, spec.max_tokens) == (2, 11, 9)


FORWARD = {"method": "forward", "method_output_name": STATE}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("modules.json: the list of modules is", {"modules": ["Transformer", "Pooling", "Dense"]}),
    ("modules.json: the list of modules is", {"modules": ["Transformer"]}),
    *(("1_Pooling/config.json: the pooling is", {"pooling": one}) for one in (
        {"pooling_mode_max_tokens": True}, CLS | {"pooling_mode_mean_tokens": True}, {},
        {"pooling_mode": 3})),
    *((f"sentence_bert_config.json: {name} is", {"sentence_bert_config": {name: value}})
      for name, value in (
        ("max_seq_length", "9"), ("max_seq_length", True), ("max_seq_length", 0),
        ("module_output_name", "sentence_embedding"),
        ("modality_config", {"text": FORWARD | {"method_output_name": "pooler_output"}}),
        ("modality_config", {"text": FORWARD | {"method": "get_text_features"}}),
        ("modality_config", {"text": FORWARD | {"method_output_name": ["hidden_states", -2]}}),
        ("modality_config", {"message": FORWARD}),
        ("modality_config", {"text": FORWARD, "x": FORWARD}))),
    *((f"{name} is", {"config_sentence_transformers": {name: value}}) for name, value in (
        ("default_prompt_name", "query"), ("prompts", ["query"]), ("truncate_dim", 4),
        ("similarity_fn_name", "euclidean"))),
    ("hidden_size is 1099511627776", {"config": {"hidden_size": 1 << 40}}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "changes"), REFUSED)
def test_what_is_refused(message: str, changes: dict, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(tiny.write_embedder(tmp_path, **changes))


def test_what_is_normalized(tmp_path: Path) -> None:
    file = tiny.write_embedder(tmp_path) / "2_Normalize" / "config.json"
    plain = load(tmp_path).sha256
    file.parent.mkdir()
    file.write_text('{"module_input_name": "sentence_embedding", "module_output_name": null}')
    assert load(tmp_path).sha256 != plain
    for name, value in (("module_input_name", "token_embeddings"), ("p", 1)):
        file.write_text(json.dumps({name: value}))
        with pytest.raises(CheckpointError, match=f"2_Normalize/config.json: {name} is"):
            load(tmp_path)


def test_a_prompt_is_put_before_no_text(tmp_path: Path) -> None:
    settings = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "document"}
    checkpoint = load(tiny.write_embedder(tmp_path, config_sentence_transformers=settings))
    assert checkpoint.notes == (
        "its prompts (query: 'query: ') are put before no text: do it yourself",
    )
    settings["prompts"]["document"] = "passage: "
    with pytest.raises(CheckpointError, match="default_prompt_name is 'document'"):
        load(tiny.write_embedder(tmp_path, config_sentence_transformers=settings))


@pytest.mark.parametrize("name", ["modules.json", "1_Pooling/config.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[3]", b"7", b"\xff\xfe", b"[" * 100_000, None])
def test_a_damaged_file_is_named(name: str, content: bytes | None, tmp_path: Path) -> None:
    file = tiny.write_embedder(tmp_path) / name
    if content is None:
        file.unlink()
        if name == "modules.json":
            return  # the mean, as above
    else:
        file.write_bytes(content)
    with pytest.raises(CheckpointError, match=file.name) as refusal:
        load(tmp_path)
    assert str(refusal.value).count("\n") == 0


def test_in_a_folder_of_modules_the_encoder_is_taken_whatever_its_head(tmp_path: Path) -> None:
    """sentence-transformers loads the encoder alone, as AutoModel does."""
    plain = load(tiny.write_embedder(tmp_path / "a"))
    arrays, config = tiny.tensors(), {"architectures": ["BertForSequenceClassification"]}
    headed = load(tiny.write_embedder(tmp_path / "b", config, arrays))
    assert headed.spec == plain.spec
    assert headed.notes == ("its head (classifier.bias ...) is left out",)


ODD = [None, True, 0, -1, 1.5, 1e400, "x", "", [], {}, ["x"], [[]], {"x": None}, [{"text": {}}]]
OPTIONS = {
    "config.json": [*CONFIG, "label2id", "num_labels", "problem_type", "sentence_transformers"],
    "tokenizer_config.json": ["do_lower_case", "model_max_length", "truncation_side", "auto_map"],
    "modules.json": ["idx", "name", "path", "type"],
    "sentence_bert_config.json": ["max_seq_length", "do_lower_case", "modality_config", "x"],
    "config_sentence_transformers.json": ["prompts", "default_prompt_name", "model_type"],
    "1_Pooling/config.json": ["pooling_mode", "pooling_mode_cls_token", "include_prompt"],
    "2_Normalize/config.json": ["module_input_name", "module_output_name"],
}


def said(folder: Path) -> str:
    """Why the folder is refused; "" where it is not."""
    try:
        load(folder)
    except CheckpointError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_any_value_is_taken_or_refused_in_one_line(name: str, scores: bool, tmp_path: Path) -> None:
    """Of each option of each file, of an embedder and of a CrossEncoder."""
    folder = tiny.write_embedder(tmp_path)
    if scores:
        settings = {"model_type": "CrossEncoder", "activation_fn": None}
        tiny.write(tmp_path)
        (folder / "modules.json").write_text(json.dumps([{"name": "0", "type": TRANSFORMER}]))
        (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    load(folder)
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    sound = json.loads(file.read_text()) if file.is_file() else {}
    options = [*OPTIONS[name], "activation_fn"] if name.startswith("config_") else OPTIONS[name]
    for option in options:
        for value in ODD:
            changed = json.loads(json.dumps(sound))
            (changed[0] if isinstance(changed, list) else changed)[option] = value
            file.write_text(json.dumps(changed))
            assert "\n" not in said(folder), (option, value)
