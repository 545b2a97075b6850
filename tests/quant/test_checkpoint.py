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


def test_half_precision_and_bfloat16_are_widened_exactly(tmp_path: Path) -> None:
    """Beside a buffer of old checkpoints."""
    values = tiny.tensors()
    name = "classifier.weight"
    halves = values | {name: values[name].astype(np.float16)}
    halves["bert.embeddings.position_ids"] = np.arange(16)[None]
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
    with pytest.raises(CheckpointError, match=r"index.json must say which of first.*second.safe"):
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"id2label": names}, "id2label is .* 3 outputs of classifier") for names in (
            {"0": "a"}, {"0": "a", "1": "b", "3": "c"}, dict.fromkeys("0312", "a"),
            {"0": "a", "1": None, "2": "b"}, {"0": "a", "1": "b", "2": " "})),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "2 labels are 'a'"),
        ({"id2label": {"0": "US", "1": "b", "2": " US"}}, "2 labels are 'US'"),
        ({"label2id": {"bad": 1, "good": 1}}, "'bad' in label2id is 1"),
        ({"label2id": {"mixed": "2"}}, "'mixed' in label2id is '2'"),
        ({"num_labels": 2}, "num_labels is 2"),
    ],
)  # fmt: skip
def test_refuses_a_config(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(tiny.write(tmp_path, change))


def test_refuses_integers(tmp_path: Path) -> None:
    arrays = tiny.tensors() | {"classifier.bias": np.zeros(3, np.int8)}
    with pytest.raises(CheckpointError, match=r"classifier.bias has type I8: weights"):
        load(tiny.write(tmp_path, arrays=arrays))


@pytest.mark.parametrize("file", ["adapter_config.json", "model.gguf", "pytorch_model.bin"])
def test_a_folder_with_something_else_says_what_is_read(file: str, tmp_path: Path) -> None:
    tiny.write(tmp_path)
    (tmp_path / file).write_text('{"base_model_name_or_path": "bert-base-uncased"}')
    if not file.startswith("adapter"):
        (tmp_path / "model.safetensors").unlink()
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"no other format is read .*: fold it into its"):
            load(tmp_path)
        (tmp_path / "config.json").unlink(missing_ok=True)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "base_model.model."])
def test_a_wrapper_about_the_model_is_said(prefix: str, tmp_path: Path) -> None:
    wrapped = {f"{prefix}{name}": tensor for name, tensor in tiny.tensors().items()}
    with pytest.raises(CheckpointError, match=r"is missing: .* a wrapper about the model: save"):
        load(tiny.write(tmp_path, arrays=wrapped))


def test_refuses_files(tmp_path: Path) -> None:
    def refused(words: str, folder: Path) -> None:
        with pytest.raises(CheckpointError, match=words):
            load(folder)

    refused(r"no checkpoint directory .*nowhere: it must exist", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    refused("has no config.json", tmp_path / "empty")
    directory = tiny.write(tmp_path / "model")
    weights = directory / "model.safetensors"
    for content in (weights.read_bytes()[:-50], b"nonsense"):
        weights.write_bytes(content)
        refused(r"is not a valid safetensors file .*: copy it again", directory)
    weights.unlink()
    refused(r"has no \*.safetensors file", directory)
    (directory / "config.json").write_text("{")
    refused("config.json is not JSON", directory)
    (directory / "config.json").write_text("[]")
    refused("config.json must hold a JSON object", directory)


def test_labels_without_names_are_numbered(tmp_path: Path) -> None:
    checkpoint = load(tiny.write(tmp_path, {"id2label": None}))
    assert checkpoint.spec.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


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
    with pytest.raises(CheckpointError, match=r"classifier.weight is missing"):
        load(tiny.write(tmp_path / "pretrained", config, arrays))


@pytest.mark.parametrize(("labels", "least"), [(3, 3), (2, 5)])
def test_no_room_for_a_word_is_refused_at_the_door(labels: int, least: int, tmp_path: Path) -> None:
    """Beside [CLS] and [SEP]; of a question and its text beside three special tokens."""
    arrays, config = tiny.tensors(labels=labels), dict[str, Any]()
    if least == 5:
        config = {"architectures": ["BertForQuestionAnswering"], "id2label": None}
        arrays = {name.replace("classifier", "qa_outputs"): x for name, x in arrays.items()}
    directory = tiny.write(tmp_path, config, arrays)
    for tokens in (1, least - 1, least):
        (directory / "tokenizer_config.json").write_text(f'{{"model_max_length": {tokens}}}')
        if tokens == least:
            assert load(directory).spec.max_tokens == tokens
            continue
        with pytest.raises(CheckpointError, match=rf"text is {tokens}: it must be {least} or"):
            load(directory)
    name = "bert.embeddings.position_embeddings.weight"
    short = arrays | {name: arrays[name][:2].copy()}
    with pytest.raises(CheckpointError, match=rf"text is 2: it must be {least} or"):
        load(tiny.write(tmp_path / "short", config | {"max_position_embeddings": 2}, short))


@pytest.mark.slow
def test_a_calibration_needs_no_torch_of_its_own(tmp_path: Path) -> None:
    """The proof has a process; transformers says nothing of a torch that is not there."""
    model = str(tiny.write(tmp_path / "tiny", {"layer_norm_eps": None}))
    code = "import sys; from pathlib import Path; from quant.foreign import checkpoint, proof\n"
    code += "with proof.without_torch(): checkpoint.load(Path(sys.argv[1]))\n"
    code += "assert {'transformers'} == {'torch', 'transformers'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code, model], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
