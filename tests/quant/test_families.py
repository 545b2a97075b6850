"""Every head of every family against transformers' own class, and what of a folder is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from quant.calibrate import main as calibrate
from quant.classify import main as classify
from quant.foreign import config as options
from quant.foreign.checkpoint import Checkpoint, load
from quant.foreign.config import INDIFFERENT
from quant.foreign.tokenizer import InputError, TextTokenizer, encode
from quant.measure.tasks import answer, span
from quant.measure.vectors import unit
from quant.model import float_model
from quant.model.spec import CheckpointError
from quant.quantized_model import QuantizedModel
from tests.quant import tiny

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {
    "albert": "Albert",
    "bert": "Bert",
    "camembert": "Camembert",
    "distilbert": "DistilBert",
    "electra": "Electra",
    "mpnet": "MPNet",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
}
HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "Model",
)
CASES = [
    *((family, head) for family in FAMILIES for head in HEADS),
    ("bert", "ForNextSentencePrediction"),
]
OFFSET = ("roberta", "xlm-roberta", "camembert")


def saved(folder: Path, family: str, head: str, **options: Any) -> Any:
    """A tiny random checkpoint, and the model itself."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    sizes: dict[str, Any] = {"vocab_size": 40, "max_position_embeddings": 24}
    sizes["num_labels"] = 2 if head == "ForQuestionAnswering" else 3
    if family == "distilbert":
        sizes |= {"dim": 24, "n_heads": 3, "n_layers": 2, "hidden_dim": 36}
    else:
        sizes |= {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2}
        sizes |= {"intermediate_size": 36}
        if family != "mpnet":
            sizes["type_vocab_size"] = 1 if family in OFFSET else 2
        sizes |= {"embedding_size": 10} if family in ("albert", "electra") else {}
    config = transformers.AutoConfig.for_model(family, **(sizes | options))
    model = getattr(transformers, f"{FAMILIES[family]}{head}")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tiny.write_tokenizer(folder, 40)
    return model.float().eval()


def of_theirs(model: Any, ids: np.ndarray, types: np.ndarray | None) -> np.ndarray:
    """The outputs of transformers' model, laid out as ours."""
    import torch

    batch = {"input_ids": torch.tensor(ids[None].astype(np.int64))}
    if types is not None:
        batch["token_type_ids"] = torch.tensor(types[None].astype(np.int64))
    if type(model).__name__.endswith("MultipleChoice"):
        batch = {name: tensor[:, None] for name, tensor in batch.items()}
    with torch.no_grad():
        found = model(**batch)
    if "start_logits" in found:
        return torch.stack([found.start_logits[0], found.end_logits[0]], dim=1).numpy()
    if "logits" in found:
        return found.logits[0].numpy()
    return found.last_hidden_state[0].mean(dim=0).numpy()


def same(checkpoint: Checkpoint, model: Any) -> None:
    draw = np.random.default_rng(1)
    for length in (1, 7, 22):
        ids = draw.integers(2, 40, length).astype(np.int32)
        types = draw.integers(0, 2, length).astype(np.int32) if checkpoint.spec.types > 1 else None
        ours = float_model.run(checkpoint.spec, checkpoint.arrays, ids, types)
        np.testing.assert_allclose(ours, of_theirs(model, ids, types), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("family", "head"), CASES)
def test_every_head_equals_transformers(family: str, head: str, tmp_path: Path) -> None:
    if (family, head) == ("electra", "ForMultipleChoice"):
        saved(tmp_path, family, head)
        with pytest.raises(CheckpointError, match=r"architectures is \['ElectraForMultipleChoice"):
            load(tmp_path)
        return
    model = saved(tmp_path, family, head)
    checkpoint = load(tmp_path)
    same(checkpoint, model)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    for nothing in (None, []) if head != "ForMultipleChoice" else ():  # one number, too
        file.write_text(json.dumps(config | {"architectures": nothing}))
        alone = load(tmp_path)
        assert "names no architectures: by its weights" in alone.notes[0]
        assert alone.spec == checkpoint.spec


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_head_of_other_weights_is_refused(family: str, tmp_path: Path) -> None:
    name = FAMILIES[family]
    for head, other in [(HEADS[0], HEADS[2]), (HEADS[2], HEADS[0]), (HEADS[0], "Model")]:
        folder = tmp_path / f"{head}{other}"
        saved(folder, family, head)
        file = folder / "config.json"
        config = json.loads(file.read_text()) | {"architectures": [f"{name}{other}"]}
        file.write_text(json.dumps(config))
        with pytest.raises(CheckpointError, match=f"but the weights are those of {name}{head}"):
            load(folder)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_masked_words_make_embeddings_when_asked(family: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    saved(tmp_path, family, "ForMaskedLM")
    with pytest.raises(CheckpointError, match="--task embedding takes the encoder without it"):
        load(tmp_path)
    checkpoint = load(tmp_path, "embedding")
    assert checkpoint.spec.task == "embedding"
    assert "is left out" in checkpoint.notes[0]
    same(checkpoint, transformers.AutoModel.from_pretrained(tmp_path).float().eval())


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("is_causal", True),
        ("add_cross_attention", True),
        ("pruned_heads", {"0": [1]}),
        ("position_embedding_type", "relative_key"),
        ("auto_map", {"AutoModel": "x.Y"}),
        ("quantization_config", {"bits": 4}),
        ("is_encoder_decoder", True),
        ("use_bias", False),
        ("rope_theta", 10000.0),
    ],
)
def test_an_option_that_is_not_followed_is_refused(
    family: str, option: str, value: object, tmp_path: Path
) -> None:
    saved(tmp_path, family, HEADS[0])
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {option: value}))
    with pytest.raises(CheckpointError, match=f"config.json: .*{option}"):
        load(tmp_path)
    file.write_text(json.dumps(config))
    load(tmp_path)


def test_options_of_training_change_nothing(tmp_path: Path) -> None:
    plain = load(tiny.write(tmp_path / "a"))
    options = {
        "hidden_dropout_prob": 0.3,
        "initializer_range": 1.0,
        "use_cache": False,
        "chunk_size_feed_forward": 8,
        "bos_token_id": 3,
        "gradient_checkpointing": True,
        "torch_dtype": "float16",
        "_name_or_path": "x",
        "pooler_type": "first_token_transform",
    }
    assert options.keys() - {"_name_or_path"} <= INDIFFERENT
    assert load(tiny.write(tmp_path / "b", options)).spec == plain.spec


@pytest.mark.parametrize("family", sorted(set(options.FOLLOWED) - set(options.OWN)))
def test_a_file_that_says_all_is_read_as_its_class_reads_it(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(transformers.AutoConfig.for_model(family).to_dict()))
    found = options.read(file)
    monkeypatch.setattr(options, "_says_all", lambda family, raw: False)
    read = set(options.FOLLOWED[found["model_type"]]) | {"id2label", "label2id", "model_type"}
    wanted = options.read(file)
    assert {name: found.get(name) for name in read} == {name: wanted.get(name) for name in read}


def test_a_file_that_says_all_is_read_without_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from quant.foreign.config import read; "
        "read(Path('models/bert-tiny-imdb/config.json')); sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


ACTIVATIONS = (
    *("quick_gelu", "silu", "mish", "relu2", "gelu_10", "laplace", "leaky_relu", "linear"),
    *("relu6", "sigmoid", "hardswish", "tanh", "gelu_fast", "gelu_accurate", "sqrtsoftplus"),
)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_equals_transformers(activation: str, tmp_path: Path) -> None:
    model = saved(tmp_path, "bert", HEADS[0], hidden_act=activation)
    same(load(tmp_path), model)


IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.mark.parametrize(
    ("config", "function", "labels"),
    [
        ({"sentence_transformers": {"version": "4"}}, "sigmoid", 1),
        (
            {"sentence_transformers": {"activation_fn": IDENTITY}},
            "identity",
            1,
        ),
        (
            {"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"},
            "sigmoid",
            1,
        ),
        (
            {"sentence_transformers": {}, "sbert_ce_default_activation_function": IDENTITY},
            "identity",
            1,
        ),
        ({}, "identity", 1),
    ],
)
def test_scores_of_a_cross_encoder_are_its_own(
    config: dict[str, Any], function: str, labels: int, tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    arrays = tiny.tensors(labels=labels)
    folder = tiny.write(tmp_path, config | {"id2label": {"0": "LABEL_0"}}, arrays)
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    checkpoint = load(folder)
    assert checkpoint.spec.function == function
    tokens = encode(checkpoint.spec, TextTokenizer(checkpoint.resolved), "good film", "a bad", 16)
    logits = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)
    (value,) = answer(checkpoint.spec, tokens, logits)["values"].values()
    if config:
        theirs = library.CrossEncoder(str(folder), device="cpu").predict([("good film", "a bad")])
        assert value == pytest.approx(float(theirs[0]), abs=1e-5)
    else:
        assert value == pytest.approx(float(logits[0]))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_folder_that_sentence_transformers_saves(pooling: str, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    config = {"architectures": ["BertModel"], "id2label": None}
    source = tiny.write(tmp_path / "source", config, tiny.encoder_tensors())
    save_file(tiny.encoder_tensors(), source / "model.safetensors", metadata={"format": "pt"})
    parts = [
        modules.Transformer(str(source)),
        modules.Pooling(12, pooling_mode=pooling),
        modules.Normalize(),
    ]
    theirs = library.SentenceTransformer(modules=parts, device="cpu")
    theirs.max_seq_length = 9
    theirs.save(str(tmp_path / "saved"))
    checkpoint = load(tmp_path / "saved")
    assert checkpoint.spec.max_tokens == 9
    for text in ("good film", "the bad film " * 9):
        tokens = encode(checkpoint.spec, TextTokenizer(checkpoint.resolved), text, None, 512)
        vector = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)
        np.testing.assert_allclose(unit(vector), theirs.encode(text), atol=1e-5)


@pytest.mark.parametrize("kept", ["modules", "config", "nowhere"])
@pytest.mark.parametrize("labels", [1, 3])
def test_a_cross_encoder_that_sentence_transformers_saves(
    labels: int, kept: str, tmp_path: Path
) -> None:
    """Its function stands in config_sentence_transformers.json, else in config.json, else it is
    the sigmoid of one score."""
    library = pytest.importorskip("sentence_transformers")
    config = {"id2label": {str(i): f"LABEL_{i}" for i in range(labels)}}
    source = tiny.write(tmp_path / "source", config, tiny.tensors(labels=labels))
    arrays = tiny.tensors(labels=labels)
    save_file(arrays, source / "model.safetensors", metadata={"format": "pt"})
    theirs = library.CrossEncoder(str(source), device="cpu", max_length=11)
    theirs.save(str(tmp_path / "saved"))
    for name, change in (
        (
            "config_sentence_transformers.json",
            {"activation_fn": IDENTITY if kept == "modules" else None},
        ),
        (
            "config.json",
            {"sbert_ce_default_activation_function": IDENTITY} if kept == "config" else {},
        ),
    ):
        file = tmp_path / "saved" / name
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
    theirs = library.CrossEncoder(str(tmp_path / "saved"), device="cpu")
    checkpoint = load(tmp_path / "saved")
    assert checkpoint.spec.max_tokens == 11
    pair = ("good film " * 5, "a bad film")
    tokens = encode(checkpoint.spec, TextTokenizer(checkpoint.resolved), *pair, 512)
    logits = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)
    found = answer(checkpoint.spec, tokens, logits)
    values = list(found["values" if labels == 1 else "logits"].values())
    np.testing.assert_allclose(values, theirs.predict([pair])[0], atol=1e-5)


def test_another_function_of_a_cross_encoder_is_refused(tmp_path: Path) -> None:
    config = {"sentence_transformers": {"activation_fn": "my.Function"}}
    with pytest.raises(
        CheckpointError, match=r"the scores go through my\.Function: only torch\.nn"
    ):
        load(tiny.write(tmp_path, config))


@pytest.mark.parametrize(
    "name", ["custom_st.Transformer", "Transformer", "x.sentence_transformers"]
)
def test_modules_of_ones_own_are_refused(name: str, tmp_path: Path) -> None:
    folder = tiny.write_embedder(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = name
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(CheckpointError, match="is code of its own, which is never run"):
        load(folder)


def test_the_old_layout_has_the_encoder_in_a_folder_of_its_own(tmp_path: Path) -> None:
    plain = load(tiny.write_embedder(tmp_path / "a"))
    folder = tiny.write_embedder(tmp_path / "b")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "0_Transformer").mkdir()
    for name in ("config.json", "vocab.txt", "model.safetensors"):
        (folder / name).rename(folder / "0_Transformer" / name)
    assert load(folder).spec == plain.spec
    assert TextTokenizer(folder).resolved == plain.resolved


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("._model.safetensors", b"\0\5\26\7", None),
        ("model.fp16.safetensors", b"", None),
        ("stale-00001-of-00002.safetensors", b"x", None),
        ("optimizer.pt", b"\x80", None),
        ("model.safetensors.index.json", b"{", None),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_files_beside_the_weights(
    name: str, content: bytes, message: str | None, tmp_path: Path
) -> None:
    folder = tiny.write(tmp_path)
    before = load(folder)
    (folder / name).write_bytes(content)
    if message:
        with pytest.raises(CheckpointError, match=message):
            load(folder)
    else:
        assert load(folder).sha256 == before.sha256


@pytest.mark.parametrize(("family", "most"), [("bert", 8192), ("xlm-roberta", 8190)])
def test_more_positions_than_an_accelerator_has_are_cut(
    family: str, most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "model", family, "Model", max_position_embeddings=8200)
    checkpoint = load(tmp_path / "model")
    assert checkpoint.spec.max_tokens == most
    data, out = tmp_path / "data.txt", tmp_path / "out"
    data.write_text("good film\nbad film\n")
    options = ["--model", str(tmp_path / "model"), "--data", str(data), "--out", str(out)]
    assert calibrate([*options, "--remedies", "none"]) == 0
    assert f"texts are cut at {most:,} tokens" in capsys.readouterr().err


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "camembert"])
def test_padding_in_a_text_is_refused(family: str, tmp_path: Path) -> None:
    """transformers gives it no position, and those behind it the one before."""
    saved(tmp_path, family, HEADS[0], pad_token_id=0)
    checkpoint = load(tmp_path)
    tokenizer = TextTokenizer(checkpoint.resolved)
    assert len(encode(checkpoint.spec, tokenizer, "good film", None, 16).ids) == 4
    for text, pair in (("good [PAD] film", None), ("good", "[PAD] film")):
        with pytest.raises(InputError, match=r"'\[PAD\]' has the id 0, which is padding to the"):
            encode(checkpoint.spec, tokenizer, text, pair, 16)


def test_an_adapter_is_said_to_be_one(tmp_path: Path) -> None:
    """transformers would load it on top of the model that its config names."""
    folder = tiny.write(tmp_path)
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"adapter_config.json says that the folder holds"):
        load(folder)
    (folder / "adapter_config.json").unlink()
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=r"adapter_model.safetensors is an adapter: fold"):
        load(folder)


def test_a_question_is_answered_from_its_text(tmp_path: Path, capsys) -> None:
    """The likeliest span, by brute force over all; the integers' beside it."""
    saved(tmp_path / "model", "bert", "ForQuestionAnswering")
    data, out = tmp_path / "data.jsonl", tmp_path / "out"
    rows = [{"question": "good film", "context": "the bad film a good !"}] * 3
    data.write_text("\n".join(map(json.dumps, rows)))
    options = ["--model", str(tmp_path / "model")]
    assert calibrate([*options, "--data", str(data), "--out", str(out)]) == 0
    model = QuantizedModel.load(out, None)
    tokens = model.tokens("good film", "the bad film a good !")
    assert model.checkpoint is not None
    logits = float_model.run(model.spec, model.checkpoint.arrays, tokens.ids, tokens.types)
    places = [place for place, _, _ in tokens.context]
    pairs = [(i, j) for i in places for j in places if i <= j]
    best = max(pairs, key=lambda pair: logits[pair[0], 0] + logits[pair[1], 1])
    assert span(tokens, logits) == best
    found = answer(model.spec, tokens, logits)
    assert found["answer"] == "the bad film a good !"[found["begin"] : found["end"]]
    capsys.readouterr()
    line = [*options, "--quantized", str(out)]
    assert classify(["good film", "--pair", "the bad film a good !", *line]) == 0
    assert "of the text, probability" in capsys.readouterr().out
    assert classify(["good film", *line]) == 2
    assert "a question needs the text that answers it" in capsys.readouterr().err
    assert classify(["good film", "--pair", "\x01", *line]) == 2
    assert "holds nothing that the vocabulary knows" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_file_of_a_quantized_model_is_seen(seed: int, tmp_path: Path) -> None:
    model, data, out = tiny.write(tmp_path / "model"), tmp_path / "data.txt", tmp_path / "out"
    data.write_text("good film\nbad film\n")
    assert calibrate(["--model", str(model), "--data", str(data), "--out", str(out)]) == 0
    draw = np.random.default_rng(seed)
    for file in sorted(out.iterdir()):
        content = bytearray(file.read_bytes())
        place = int(draw.integers(len(content)))
        content[place] ^= 1 << int(draw.integers(8))
        whole = file.read_bytes()
        file.write_bytes(content)
        if file.suffix == ".json" and file.stem == "quantized":
            try:
                if json.loads(content) == json.loads(whole):
                    continue
            except ValueError:
                pass
        with pytest.raises(ValueError, match=file.stem):
            QuantizedModel.load(out, None)
        file.write_bytes(whole)
    assert load_file(model / "model.safetensors")
