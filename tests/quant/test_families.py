"""Every head of every family beside transformers' own class, and what of a folder is refused."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from quant.foreign import layouts, proof
from quant.foreign.checkpoint import Checkpoint, load
from quant.foreign.proof import TOLERANCE, proved
from quant.foreign.tokenizer import InputError, TextTokenizer, encode
from quant.model import float_model
from quant.model.distance import CAUSAL
from quant.model.spec import CLASSIFICATION, EMBEDDING, TEXT_SIDE, CheckpointError, EncoderSpec
from quant.quantize.encoder import stand_in
from quant.quantize.options import REMEDIES, Options
from quant.quantize.quantizers import CalibrationError
from tests.quant import tiny, zoo
from tests.tiers import quick

FIRST = ("ForSequenceClassification", "Model", "decoder", "euro", "yarn", "nomic", "esm", "gte")
FIRST += ("jina", "modern", "modern local", "T5", "T5 1.1", "CLIP projected", "Ernie task")
FIRST += ("Chinese CLIP", "MPNet far", "Albert groups", "BertForMultipleChoice", "modern mean")
SORTED = sorted(zoo.CASES, key=lambda case: not case.endswith(FIRST))
#: Whose weights have the names and shapes of a classifier's, as in transformers.
AS_CLASSES = ("modern words", "modern answer")


def task_of(case: str) -> str | None:
    return TEXT_SIDE if zoo.CASES[case][0].endswith("CLIPModel") else None


@pytest.mark.parametrize("case", quick(SORTED, 50))
def test_a_checkpoint_equals_transformers(case: str, tmp_path: Path) -> None:
    """Alone and several texts at once; whether config.json names the class or the weights do."""
    zoo.saved(tmp_path, case)
    checkpoint = proved(load(tmp_path, task_of(case)))
    spec = checkpoint.spec
    assert checkpoint.difference is not None
    assert checkpoint.difference < 1e-6
    assert EncoderSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert stand_in(checkpoint).shape.vocabulary == 2
    texts = zoo.texts_of(spec, 3, 1)
    ids, types = (np.concatenate([getattr(t, x) for t in texts]) for x in ("ids", "types"))
    together = float_model.run(
        spec, checkpoint.arrays, ids, types, lengths=[len(text.ids) for text in texts]
    )
    alone = [float_model.run(spec, checkpoint.arrays, text.ids, text.types) for text in texts]
    stacked = np.concatenate([np.atleast_2d(one) for one in alone])
    np.testing.assert_allclose(together, stacked, rtol=1e-4, atol=1e-4)
    if not case.endswith("ForMultipleChoice") and case != "modern choice":  # one number, too
        unnamed = load(zoo.change(tmp_path, architectures=None), task_of(case))
        assert any("by its weights" in note for note in unnamed.notes)
        if case in AS_CLASSES:
            assert (unnamed.spec.task, spec.task != CLASSIFICATION) == (CLASSIFICATION, True)
            unnamed = load(tmp_path, spec.task)
        assert unnamed.spec == spec


@pytest.mark.slow
@pytest.mark.parametrize("case", SORTED)
def test_golden_follows_a_checkpoint(case: str, tmp_path: Path) -> None:
    """With all remedies, with none and precisely; nothing saturates before its end."""
    zoo.saved(tmp_path, case, std=0.2)
    checkpoint = load(tmp_path, task_of(case))
    texts, others = (zoo.texts_of(checkpoint.spec, count, count) for count in (30, 12))
    every = REMEDIES
    if case == "Albert groups":  # norms that are centred grow through its eight random layers
        with pytest.raises(CalibrationError, match=r"layer\.7\.norm1: gamma or beta is too large"):
            tiny.quantized(checkpoint, texts, Options(remedies=every))
        every = REMEDIES[1:]
    for remedies, precise in ((every, False), ((), False), ((), True)):
        options = Options(remedies=remedies, precise=precise)
        assert tiny.followed(checkpoint, texts, others, options, 3)[1] > 10


def test_a_checkpoint_read_wrong_is_refused_with_the_number(tmp_path, monkeypatch):
    zoo.saved(tmp_path, "BertModel")
    q, k = layouts.PARTS["q"], layouts.PARTS["k"]
    monkeypatch.setitem(layouts.PARTS, "q", k)
    monkeypatch.setitem(layouts.PARTS, "k", q)
    with pytest.raises(CheckpointError, match=r"transformers' own BertModel by [0-9.]+ of the la"):
        proved(load(tmp_path))
    monkeypatch.undo()
    assert proved(load(tmp_path)).difference is not None


UNKNOWN = {"use_cache": False, "torch_dtype": "float16", "gradient_checkpointing": True}
UNKNOWN |= {"unsloth_version": "2024.9", "auto_map": {"AutoModel": "x.Y"}, "hidden_dropout": 0.3}


def test_an_unknown_option_is_tried_and_without_torch_refused_by_name(tmp_path, monkeypatch):
    zoo.saved(tmp_path, "Bert next")
    plain = load(tmp_path)
    found = proved(load(zoo.change(tmp_path, **UNKNOWN)))
    assert found.spec == plain.spec
    assert re.fullmatch(
        r"equal to transformers' own model: \de-1\d", proof.said(found.difference, found)
    )
    there = importlib.util.find_spec
    monkeypatch.setattr(proof, "find_spec", lambda name: None if name == "torch" else there(name))
    with pytest.raises(CheckpointError, match=r"unsloth_version is '2024\.9': .* install torch"):
        proved(load(tmp_path))
    harmless = {"unsloth_version": None, "gradient_checkpointing": None, "use_cache": None}
    kept = proved(load(zoo.change(tmp_path, **harmless)))
    assert proof.said(kept.difference, kept) == "not compared with transformers: install torch"
    resolved = kept.resolved
    assert load(zoo.change(tmp_path, **UNKNOWN), resolved=resolved).spec == plain.spec


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("BertModel", {"model_type": "llama"}, "'llama' cannot run; albert, bert, "),
    ("BertModel", {"architectures": ["BertForMaskedLM"]}, "--task embedding takes the encoder"),
    ("BertModel", {"architectures": ["BertForQuestionAnswering"]}, "qa_outputs.weight is missing"),
    ("BertForTokenClassification", {"architectures": ["BertModel"]}, "classifier.bias has no pla"),
    ("BertModel", {"is_causal": True}, "is_causal is True"),
    ("BertModel", {"num_attention_heads": 5}, "number of heads is 5"),
    ("BertModel", {"vocab_size": 41}, "embedding.token has shape 40 x 24: the config asks for 41"),
    ("BertModel", {"intermediate_size": 24}, "layer.0.ffn.up.weight has shape 36 x 24"),
    ("BertModel", {"num_hidden_layers": 3}, "layer.2.attention.self.query.weight is missing"),
    ("BertModel", {"num_hidden_layers": 1}, "has no place in this encoder (16 such tensors)"),
    ("BertModel", {"layer_norm_eps": 0.0}, "epsilon is 0.0: it must be above 0"),
    ("nomic", {"rope_parameters": zoo.LINEAR | {"rope_type": "dynamic"}}, "rope_type is 'dynamic'"),
    ("T5", {"d_kv": 7}, "layer.0.q"),
    ("T5", {"relative_attention_num_buckets": 16}, "is 16: it must be 32, as the table"),
    ("T5", {"architectures": ["T5Model"]}, "T5EncoderModel or T5ForTokenClassification"),
    ("CLIP", {"is_causal": True, "eos_token_id": 7}, "eos_token_id is 7: it must be 519, with"),
    ("CLIP", {"architectures": ["CLIPX"]}, "CLIPTextModelWithProjection"),
    ("CLIP whole", {"model_type": "siglip"}, "must be 'siglip_vision_model', as siglip has it"),
    *((case, {name: value}, name) for case, name, value in (
        ("BertModel", "model_type", None), ("BertModel", "architectures", ["MyBert"]),
        ("BertModel", "hidden_size", "24"), ("BertModel", "hidden_act", "xielu"),
        ("ElectraForSequenceClassification", "embedding_size", 25),
        ("AlbertModel", "num_hidden_groups", 3), ("euro bos", "classifier_pooling", "late"),
        ("euro bos", "clf_pooling", "mean"), ("euro", "num_key_value_heads", 3),
        ("euro", "head_dim", 8), ("nomic", "rope_parameters", zoo.LINEAR | {"factor": 0}),
        ("nomic", "rope_parameters", 3), ("nomic", "prenorm", True), ("nomic", "n_embd", 24),
        ("nomic", "activation_function", "geglu"), ("gte", "logn_attention_scale", True),
        ("modern", "layer_types", ["full_attention"]), ("esm", "hidden_act", "relu"),
        ("modern class", "classifier_pooling", "max"), ("esm", "mask_token_id", 40),
        ("esm", "position_embedding_type", "relative_key"),
        ("T5", "feed_forward_proj", "gated-other-gelu"), ("CLIP whole", "vision_config", 3),
        ("T5", "relative_attention_num_buckets", -8),
        ("T5", "relative_attention_max_distance", 8))),
]  # fmt: skip


@pytest.mark.parametrize(("case", "options", "words"), REFUSED)
def test_what_is_refused(case: str, options: dict[str, Any], words: str, tmp_path: Path) -> None:
    zoo.saved(tmp_path, case)
    with pytest.raises(CheckpointError, match=re.escape(words)) as refusal:
        load(zoo.change(tmp_path, **options))
    assert "\n" not in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("encoder.layer.0.attention.self.q_norm.weight", "a norm of Q and K behind"),
        ("encoder.layer.1.mlp.experts.mlp.w1", "experts, of which a router chooses some"),
        ("encoder.layer.0.crossattention.self.key.bias", "(cross-attention)"),
        ("encoder.rel_embeddings.weight", "(disentangled attention)"),
        ("encoder.layer.0.output.dense.lora_A.weight", "LoRA adapters: fold one into its model"),
        ("encoder.layer.0.conv.weight", "a convolution, where a layer has matrices"),
        ("embeddings.adapter.weight", ""),
    ],
)
def test_a_tensor_without_a_place_is_refused_with_its_reason(name, why, tmp_path):
    zoo.saved(tmp_path, "BertModel")
    shape = (2, 3, 4) if "conv" in name else (3,)
    arrays = load_file(tmp_path / "model.safetensors") | {name: np.zeros(shape, np.float32)}
    save_file(arrays, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"{re.escape(name)} has no .*{re.escape(why)}"):
        load(tmp_path)
    if why:  # a family without a row says it by its tensors
        with pytest.raises(CheckpointError, match=f"'roformer' cannot run: .*{re.escape(why)}"):
            load(zoo.change(tmp_path, model_type="roformer"))


MASKED = [f"{family}ForMaskedLM" for family in ("Bert", "Roberta", "DistilBert")]


@pytest.mark.parametrize("name", [*MASKED, "T5ForConditionalGeneration"])
def test_pre_trained_words_make_embeddings_when_asked(name, tmp_path, monkeypatch):
    """T5's decoder is left out as well."""
    options = zoo.CASES.get(name.replace("ForMaskedLM", "Model"), ("", {}))[1]
    monkeypatch.setitem(zoo.CASES, "words", (name, options))
    zoo.saved(tmp_path, "words")
    with pytest.raises(CheckpointError, match="--task embedding takes the encoder without it"):
        load(tmp_path)
    checkpoint = proved(load(tmp_path, EMBEDDING))
    assert any("is left out" in note for note in checkpoint.notes)


NOMIC: dict[str, Any] = {
    "auto_map": {"AutoConfig": "configuration_hf_nomic_bert.NomicBertConfig"},
    **dict.fromkeys(("hidden_act", "hidden_size", "num_attention_heads", "num_hidden_layers")),
    **dict.fromkeys(("intermediate_size", "head_dim", "max_position_embeddings")),
    **dict.fromkeys(("layer_norm_eps", "rope_parameters")),
    "n_embd": 24, "n_head": 4, "n_layer": 2, "n_inner": 36, "n_positions": 24,
    "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
    "activation_function": "swiglu", "prenorm": False, "use_flash_attn": True,
}  # fmt: skip
EURO = {"auto_map": {"AutoConfig": "configuration_eurobert.EuroBertConfig"}, "head_dim": None}
EURO |= {"rope_parameters": None, "num_key_value_heads": 4, "clf_pooling": "late"}
EURO |= {"rope_theta": 500.0, "bos_token": "<|begin_of_text|>"}
GTE = {"auto_map": {"AutoConfig": "x.GteConfig"}, "layer_norm_type": "layer_norm"}
GTE |= {"position_embedding_type": "rope", "logn_attention_scale": False, "unpad_inputs": True}
SCALED = {"type": "linear", "factor": zoo.LINEAR["factor"]}
THETAS = {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0}


@pytest.mark.parametrize(
    ("case", "options", "names"),
    [
        ("nomic", NOMIC, {}),
        ("euro words", EURO | {"rope_scaling": SCALED}, {}),
        ("gte", GTE, {}),
        ("nomic", {"rope_parameters": None, "rope_theta": 1000.0}, {}),
        ("gte words", {"rope_parameters": None, "rope_theta": 500.0, "rope_scaling": SCALED},
         {r"^gte\.": "new."}),
        ("modern", {"rope_parameters": None, "layer_types": None, **THETAS,
                    "global_attn_every_n_layers": 3}, {}),
        ("esm", {}, {r"layer\.\*\.": "layer.0."}),
        ("esm", {}, {r"encoder\.layer\.\*\.attention\.self\.": ""}),
        ("BertModel", {}, {r"Norm\.weight": "Norm.gamma", r"Norm\.bias": "Norm.beta"}),
        ("BertForMultipleChoice", {}, {}),
    ],
)  # fmt: skip
def test_older_files_say_the_same(case, options, names, tmp_path):
    zoo.saved(tmp_path, case)
    before = load(tmp_path)
    arrays = load_file(zoo.change(tmp_path, **options) / "model.safetensors")
    for old, new in names.items():
        arrays = {re.sub(old, new, name): array for name, array in arrays.items()}
    save_file(arrays, tmp_path / "model.safetensors", {"format": "pt"})
    after = load(tmp_path)
    assert ("auto_map" in options) == any("auto_map" in note for note in after.notes)
    assert after.spec == before.spec
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(after.arrays[name], array)


def test_the_frequencies_of_an_esm_are_its_file_s(tmp_path: Path) -> None:
    """In half precision in old files, where transformers keeps them, too."""
    zoo.saved(tmp_path, "esm")
    name = "encoder.layer.*.attention.self.rotary_embeddings.inv_freq"
    arrays = load_file(tmp_path / "model.safetensors")
    found = load(tmp_path)
    assert found.notes[-1] == "contact_head is left out: nothing here computes it"
    arrays[name] = arrays[name] / 2
    save_file(arrays, tmp_path / "model.safetensors")
    half = load(tmp_path).arrays["rotary.0.cos"]
    np.testing.assert_array_equal(half[2::2], found.arrays["rotary.0.cos"][1 : len(half) // 2])
    arrays[name] = arrays[name][1:]
    save_file(arrays, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"inv_freq'\] is \(2,\): it must be \(3,\)"):
        load(tmp_path)


def test_each_side_of_a_whole_clip_is_reached(tmp_path: Path) -> None:
    zoo.saved(tmp_path, "CLIP whole")
    options = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 12}}
    options |= {"crop_size": {"height": 12, "width": 12}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(options))
    image, text = load(tmp_path), load(tmp_path, TEXT_SIDE)
    assert (image.spec.inputs, text.spec.inputs) == ("images", "texts")
    assert (image.spec.outputs, text.spec.outputs) == (10, 10)
    assert text.spec.windows == (CAUSAL, CAUSAL)
    config = tiny.json_of(tmp_path / "config.json")
    wrong = config["text_config"] | {"hidden_act": "relu", "layer_norm_eps": 1.0}
    zoo.change(tmp_path, text_config=wrong, text_config_dict=config["text_config"])
    assert load(tmp_path, TEXT_SIDE).spec == text.spec
    zoo.saved(tmp_path / "bert", "BertModel")
    with pytest.raises(CheckpointError, match="a whole model of images and texts"):
        load(tmp_path / "bert", TEXT_SIDE)


def refuses(checkpoint: Checkpoint, text: str, pair: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        encode(checkpoint.spec, TextTokenizer(checkpoint.resolved), text, pair, 24)


def test_texts_that_a_family_cannot_read_are_refused(tmp_path: Path) -> None:
    """A padding has no position, an end stands at the end, a mask changes every embedding."""
    zoo.saved(tmp_path / "r", "RobertaModel", pad_token_id=0)
    roberta = load(tmp_path / "r")
    refuses(roberta, "good [PAD] film", None, r"'\[PAD\]' has the id 0, it is padding to the")
    refuses(roberta, "good", "[PAD] film", "padding to the model")
    for case in ("CLIP", "CLIP older"):
        zoo.saved(tmp_path / case, case)
        refuses(load(tmp_path / case), f"a {zoo.END} b", None, "which ends a text")
        refuses(load(tmp_path / case), "a", "b", "reads one text: give no pair")
    zoo.saved(tmp_path / "e", "esm")
    refuses(load(tmp_path / "e"), "good [CLS] film", None, "changes every embedding")


@pytest.mark.parametrize(("case", "most"), [("BertModel", 8192), ("XLMRobertaModel", 8190)])
def test_more_positions_than_an_accelerator_has_are_cut(case, most, tmp_path):
    zoo.saved(tmp_path, case, max_position_embeddings=8200)
    checkpoint = load(tmp_path)
    assert checkpoint.spec.max_tokens == most
    assert any(f"texts are cut at {most:,} tokens" in note for note in checkpoint.notes)


def test_a_short_tokenizer_keeps_the_middle_of_the_bias(tmp_path: Path) -> None:
    zoo.saved(tmp_path, "MPNet far")
    whole = load(tmp_path)
    zoo.change(tmp_path, "tokenizer_config.json", model_max_length=150)
    checkpoint = proved(load(tmp_path))
    assert (whole.spec.max_tokens, checkpoint.spec.max_tokens) == (300, 150)
    assert (checkpoint.difference or 0) < TOLERANCE
