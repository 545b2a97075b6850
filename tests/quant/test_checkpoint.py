import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from quant.foreign.checkpoint import Checkpoint, load
from quant.model.spec import CheckpointError
from tests.quant import tiny


def test_the_shipped_checkpoint_is_bert_tiny(shipped: Checkpoint) -> None:
    spec = shipped.spec
    assert (spec.layers, spec.hidden, spec.heads, spec.head_size, spec.ffn) == (2, 128, 2, 64, 512)
    assert (spec.vocabulary, spec.max_tokens, spec.types) == (30522, 512, 2)
    assert spec.head_activations == ("tanh",)
    assert len(shipped.sha256) == 64
    count = sum(array.size for array in shipped.arrays.values())
    assert count == 4_386_178  # BERT-Tiny with a classifier of two labels


def test_reads_every_tensor_under_its_place(tmp_path: Path) -> None:
    checkpoint = load(tiny.write(tmp_path))
    source = tiny.tensors()
    assert checkpoint.spec.labels == ("bad", "good", "mixed")
    for target, name in {
        "layer.1.k.weight": "bert.encoder.layer.1.attention.self.key.weight",
        "layer.0.norm1.gamma": "bert.encoder.layer.0.attention.output.LayerNorm.weight",
        "layer.0.norm2.beta": "bert.encoder.layer.0.output.LayerNorm.bias",
        "layer.1.ffn.down.weight": "bert.encoder.layer.1.output.dense.weight",
        "head.0.bias": "bert.pooler.dense.bias",
        "head.1.weight": "classifier.weight",
    }.items():
        np.testing.assert_array_equal(checkpoint.arrays[target], source[name])


def test_half_precision_and_bfloat16_are_widened_exactly(tmp_path: Path) -> None:
    values = tiny.tensors()
    name = "classifier.weight"
    halves = values | {name: values[name].astype(np.float16)}
    loaded = load(tiny.write(tmp_path / "half", arrays=halves)).arrays["head.1.weight"]
    np.testing.assert_array_equal(loaded, halves[name].astype(np.float32))
    assert loaded.dtype == np.float32

    # A bfloat16 is the upper half of a float32; NumPy has no such type, so the header is renamed.
    upper = (values[name].view(np.uint32) >> 16).astype(np.uint16)
    directory = tiny.write(tmp_path / "brain", arrays=values | {name: upper})
    file = directory / "model.safetensors"
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].replace(b'"U16"', b'"BF16"').rstrip(b" ")
    file.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])
    exact = (upper.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(load(directory).arrays["head.1.weight"], exact)


def test_weights_may_be_in_several_files(tmp_path: Path) -> None:
    arrays = tiny.tensors()
    whole = load(tiny.write(tmp_path / "whole", arrays=arrays))
    names = sorted(arrays)
    directory = tiny.write(tmp_path / "parts", arrays={n: arrays[n] for n in names[:9]})
    (directory / "model.safetensors").rename(directory / "first.safetensors")
    save_file({n: arrays[n] for n in names[9:]}, directory / "second.safetensors")
    with pytest.raises(
        CheckpointError, match=r"several weight files \(first.*second.safetensors\)"
    ):
        load(directory)
    files = {n: f"{'first' if n in names[:9] else 'second'}.safetensors" for n in names}
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    parts = load(directory)
    assert parts.spec == whole.spec
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(parts.arrays[name], array)
    save_file({names[0]: arrays[names[0]]}, directory / "third.safetensors")
    assert load(directory).sha256 == parts.sha256  # a file that the index does not list
    index.write_text(json.dumps({"weight_map": files | {"more": "third.safetensors"}}))
    with pytest.raises(CheckpointError, match=f"{names[0]} is also in another weight file"):
        load(directory)


def test_the_hash_is_of_weights_and_config(tmp_path: Path) -> None:
    first = load(tiny.write(tmp_path / "a"))
    assert load(tiny.write(tmp_path / "b")).sha256 == first.sha256
    assert load(tiny.write(tmp_path / "c", {"layer_norm_eps": 1e-6})).sha256 != first.sha256
    assert load(tiny.write(tmp_path / "d", arrays=tiny.tensors(2))).sha256 != first.sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id2label": {"0": "a"}}, "3 outputs, but id2label .* names 1 labels: output 1 has no"),
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "names 3 labels: output 2 has no name"),
        ({"id2label": dict.fromkeys("0312", "a")}, "names 4 labels: there is no output 3"),
        (
            {"id2label": {"0": "a", "1": "b", "2": "a"}},
            "2 labels are 'a' .*: rename all but one in id2label",
        ),
        ({"id2label": {"0": "US", "1": "b", "2": " US"}}, "2 labels are 'US'"),
        ({"id2label": {"0": "a", "1": None, "2": "b"}}, "it calls output 1 None"),
        ({"id2label": {"0": "a", "1": "b", "2": " "}}, "it calls output 2 ' '"),
        ({"label2id": {"bad": 1, "good": 1}}, "'bad' is 1 in label2id and 0 in id2label"),
        ({"label2id": {"mixed": "2"}}, "'mixed' is '2' in label2id and 2 in id2label"),
        ({"num_labels": 2}, "num_labels is 2, but classifier has 3 outputs"),
    ],
)
def test_refuses_a_config(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(tiny.write(tmp_path, change))


def test_refuses_tensors(tmp_path: Path) -> None:
    good = tiny.tensors()
    cases: list[tuple[str, dict, str]] = [
        ("type", {"classifier.bias": np.zeros(3, np.int8)}, "classifier.bias has type I8: weights"),
        ("nan", {"classifier.bias": np.full(3, np.inf, np.float32)}, "head.1.bias holds a value"),
        ("flat", {"classifier.weight": np.zeros(3, np.float32)}, "classifier has shapes .3,. and"),
    ]
    for name, change, message in cases:
        with pytest.raises(CheckpointError, match=message):
            load(tiny.write(tmp_path / name, arrays=good | change))


@pytest.mark.parametrize("config", [True, False])
@pytest.mark.parametrize(
    ("file", "message"),
    [
        (
            "adapter_config.json",
            "adapter_config.json says that .* adapter: fold it into its model, b",
        ),
        ("adapter_model.safetensors", "adapter_model.safetensors is an adapter: fold it into"),
        ("model.gguf", "model.gguf is GGUF, the weights of llama.cpp: give the checkpoint that"),
        ("model.onnx", "model.onnx is ONNX, a graph with its weights: give the checkpoint that"),
        ("onnx/model.onnx", "model.onnx is ONNX, a graph with its weights: give the checkpoint"),
        ("tf_model.h5", "tf_model.h5 is the weights of TensorFlow: give the checkpoint that"),
        ("bert.ckpt.index", "bert.ckpt.index is the weights of TensorFlow or Lightning: give"),
        ("flax_model.msgpack", "flax_model.msgpack is the weights of Flax: give the checkpoint"),
        ("pytorch_model.bin", "only as a pickle .pytorch_model.bin., .*: save the model with safe"),
    ],
)
def test_a_folder_with_something_else_says_what_lies_there(
    file: str, message: str, config: bool, tmp_path: Path
) -> None:
    tiny.write(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    if not config:
        (tmp_path / "config.json").unlink()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text('{"base_model_name_or_path": "bert-base-uncased"}')
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "base_model.model.", "module._orig_mod."]
)
def test_a_wrapper_about_the_model_is_said(prefix: str, tmp_path: Path) -> None:
    wrapped = {f"{prefix}{name}": tensor for name, tensor in tiny.tensors().items()}
    first = next(one for one in ("module.", "_orig_mod.", "base_model.") if prefix.startswith(one))
    with pytest.raises(CheckpointError, match=f"the tensors are called {first}.*: save "):
        load(tiny.write(tmp_path, arrays=wrapped))


def test_refuses_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint directory .*nowhere: it must exist"):
        load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"has no config.json"):
        load(tmp_path / "empty")
    directory = tiny.write(tmp_path / "model")
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    with pytest.raises(CheckpointError, match=r"is not a valid safetensors file .*: copy it again"):
        load(directory)
    weights.write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match=r"is not a valid safetensors file"):
        load(directory)
    weights.unlink()
    with pytest.raises(CheckpointError, match=r"has no \*.safetensors file"):
        load(directory)
    (directory / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(
        CheckpointError, match=r"only as a pickle .pytorch_model.bin., which can run"
    ):
        load(directory)
    (directory / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config.json is not JSON"):
        load(directory)
    (directory / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"config.json must hold a JSON object"):
        load(directory)


def test_labels_without_names_are_numbered(tmp_path: Path) -> None:
    checkpoint = load(tiny.write(tmp_path, {"id2label": None}))
    assert checkpoint.spec.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_names_of_old_checkpoints(tmp_path: Path) -> None:
    """Norms called gamma and beta, and a position_ids buffer."""
    arrays = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): array
        for name, array in tiny.tensors().items()
    }
    arrays["bert.embeddings.position_ids"] = np.arange(16)[None]
    old, new = load(tiny.write(tmp_path / "a", arrays=arrays)), load(tiny.write(tmp_path / "b"))
    for name, array in new.arrays.items():
        np.testing.assert_array_equal(old.arrays[name], array)


def test_the_fused_layout_is_the_same_encoder(tmp_path: Path) -> None:
    bert = load(tiny.write(tmp_path / "bert"))
    config = {"model_type": "bert2rtl-fused", "architectures": None}
    arrays = tiny.fused_tensors(tiny.tensors())
    fused = load(tiny.write(tmp_path / "fused", config, arrays))
    assert fused.spec.head_activations == ()
    for name, array in fused.arrays.items():
        twin = name.replace("head.0", "head.1")
        np.testing.assert_array_equal(array, bert.arrays[twin])
    del arrays["classifier.weight"], arrays["classifier.bias"]
    arrays["mlm.bias"] = np.zeros(12, np.float32)
    with pytest.raises(CheckpointError, match=r"not those of bert2rtl-fused"):
        load(tiny.write(tmp_path / "pretrained", config, arrays))


def test_config_is_json_of_the_family(tmp_path: Path) -> None:
    """The message of an error in the spec names the config file."""
    directory = tiny.write(tmp_path, {"layer_norm_eps": -1.0})
    config = json.loads((directory / "config.json").read_text())
    assert config["layer_norm_eps"] == -1
    with pytest.raises(CheckpointError, match=f"{directory / 'config.json'}: epsilon is -1.0"):
        load(directory)


WITHOUT_TORCH = """
import importlib.util as util
found = util.find_spec
util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
from pathlib import Path
from quant.foreign.checkpoint import load
load(Path("models/bert-tiny-imdb"))
"""


@pytest.mark.slow
def test_nothing_is_said_of_a_torch_that_is_not_there() -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(
        command, cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("task", [None, "question-answering"])
@pytest.mark.parametrize("length", ["positions", "model_max_length"])
def test_no_room_for_a_word_is_refused_at_the_door(
    length: str, task: str | None, tmp_path: Path
) -> None:
    """Beside [CLS] and [SEP]; of a question and its text beside three special tokens."""
    least = 5 if task else 3
    arrays = tiny.tensors(labels=2 if task else 3)
    if task:
        head = {name: arrays.pop(f"classifier.{name}") for name in ("weight", "bias")}
        arrays |= {f"qa_outputs.{name}": array for name, array in head.items()}
    for tokens in (1, least - 1, least):
        config: dict[str, Any] = {"architectures": None, "id2label": None} if task else {}
        if length == "positions":
            config |= {"max_position_embeddings": tokens}
            name = "bert.embeddings.position_embeddings.weight"
            changed = arrays | {name: arrays[name][:tokens].copy()}
        else:
            changed = arrays
        directory = tiny.write(tmp_path / f"{tokens}", config, changed)
        if length != "positions":
            (directory / "tokenizer_config.json").write_text(f'{{"model_max_length": {tokens}}}')
        if tokens == least:
            assert load(directory).spec.max_tokens == tokens
            continue
        with pytest.raises(CheckpointError, match=rf"has {tokens} tokens.*must have {least} or"):
            load(directory)
