"""Tiny random checkpoints of every family with every head, and of the project's own layouts."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from quant.foreign.tokenizer import Tokens
from quant.model.spec import EncoderSpec
from tests.quant import tiny

LINEAR = {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}
_LENGTH = {"original_max_position_embeddings": 6}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 90.0, "factor": 4.0, **_LENGTH}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 90.0, "factor": 4.0, **_LENGTH}
PART = {"rope_type": "proportional", "rope_theta": 9.0, "partial_rotary_factor": 0.5}
_ROPES: dict[str, dict[str, Any]] = {
    "llama3": LLAMA3,
    "llama3-near": LLAMA3 | {"low_freq_factor": 0.5, "high_freq_factor": 1.0},
    "yarn": YARN,
    "yarn-turns": YARN | {"beta_fast": 3.0, "beta_slow": 0.2, "attention_factor": 0.7},
    "yarn-untruncated": YARN | {"beta_fast": 2.0, "truncate": False},
    "yarn-scales": YARN | {"mscale": 0.7, "mscale_all_dim": 0.4},
    "proportional": PART,
    "proportional-scaled": {"rope_type": "proportional", "rope_theta": 9.0, "factor": 3.0},
}
_HEADS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
          "ForMultipleChoice", "Model")  # fmt: skip
_BERTS = {
    "Albert": {"embedding_size": 10},
    **{name: {"type_vocab_size": 2} for name in ("Bert", "Ernie", "MegatronBert")},
    **{name: {"type_vocab_size": 1} for name in ("Camembert", "Data2VecText", "Roberta")},
    "XLMRoberta": {"type_vocab_size": 1},
    "DistilBert": {"dim": 24, "n_heads": 3, "n_layers": 2, "hidden_dim": 36},
    "Electra": {"embedding_size": 10},
    "MPNet": {},
}
_ROTARY = {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 2}
_MODERN = {"cls_token_id": 1, "sep_token_id": 2}
_GROUPS = {"num_hidden_layers": 5, "num_hidden_groups": 3, "inner_group_num": 2}
_GATED = {"feed_forward_proj": "gated-gelu"}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"{name}{head}": (f"{name}{head}", options) for name, options in _BERTS.items()
       for head in _HEADS if (name, head) != ("Electra", "ForMultipleChoice")},
    "Bert next": ("BertForNextSentencePrediction", {}),
    "Ernie task": ("ErnieModel", {"use_task_id": True, "task_type_vocab_size": 3}),
    "Albert groups": ("AlbertForSequenceClassification", {"embedding_size": 7} | _GROUPS),
    "Electra wide": ("ElectraModel", {"embedding_size": 24}),
    "MPNet far": ("MPNetForTokenClassification", {"max_position_embeddings": 302}),
    "MPNet padding": ("MPNetModel", {"pad_token_id": 5}),
    "several labels": ("BertForSequenceClassification",
                       {"problem_type": "multi_label_classification", "num_labels": 4}),
    "numbers": ("RobertaForSequenceClassification", {"problem_type": "regression"}),
    "one number": ("DistilBertForSequenceClassification", _BERTS["DistilBert"] | {"num_labels": 1}),
    "decoder": ("BertForTokenClassification", {"is_decoder": True}),
    "decoder, not causal": ("RobertaModel", {"is_decoder": True, "is_causal": False}),
    **{f"{one}": ("BertForSequenceClassification", {"hidden_act": one}) for one in (
        *("gelu_new", "relu", "quick_gelu", "silu", "mish", "relu2", "gelu_10", "laplace"),
        *("leaky_relu", "linear", "relu6", "sigmoid", "hardswish", "tanh", "sqrtsoftplus"))},
    "euro": ("EuroBertModel", {"num_key_value_heads": 2}),
    "euro one": ("EuroBertModel", {"num_key_value_heads": 1, "attention_bias": True}),
    "euro bias": ("EuroBertModel", {"mlp_bias": True, "hidden_act": "gelu"}),
    "euro mean": ("EuroBertForSequenceClassification",
                  {"num_key_value_heads": 2, "classifier_pooling": "mean"}),
    "euro bos": ("EuroBertForSequenceClassification", {"classifier_pooling": "bos"}),
    "euro words": ("EuroBertForTokenClassification", {"rope_parameters": LINEAR}),
    **{name: ("EuroBertModel", {"rope_parameters": one}) for name, one in _ROPES.items()},
    "nomic": ("NomicBertModel", {}),
    "nomic class": ("NomicBertForSequenceClassification", {"layer_norm_eps": 1e-4}),
    "nomic words": ("NomicBertForTokenClassification", {"rope_parameters": LINEAR}),
    "esm": ("EsmModel", _ROTARY | {"rope_theta": 300.0}),
    "esm class": ("EsmForSequenceClassification", _ROTARY | {"emb_layer_norm_before": True}),
    "esm words": ("EsmForTokenClassification", _ROTARY | {"token_dropout": False}),
    "esm-1b": ("EsmModel",
               {"emb_layer_norm_before": True, "token_dropout": True, "mask_token_id": 2}),
    "gte": ("GteModel", {"type_vocab_size": 0}),
    "gte class": ("GteForSequenceClassification", {"type_vocab_size": 2}),
    "gte words": ("GteForTokenClassification", {"rope_parameters": LINEAR}),
    "jina": ("JinaEmbeddingsV3Model", {}),
    "jina class": ("JinaEmbeddingsV3ForSequenceClassification", {"type_vocab_size": 2}),
    "jina words": ("JinaEmbeddingsV3ForTokenClassification", {"rope_parameters": LINEAR}),
    "jina answer": ("JinaEmbeddingsV3ForQuestionAnswering", {}),
    "modern": ("ModernBertModel", _MODERN | {"local_attention": 6}),
    "modern bias": ("ModernBertModel", _MODERN | {
        "norm_bias": True, "attention_bias": True, "mlp_bias": True, "norm_eps": 1e-3,
        "num_hidden_layers": 5, "local_attention": 4}),
    "modern class": ("ModernBertForSequenceClassification", _MODERN | {"classifier_bias": True}),
    "modern mean": ("ModernBertForSequenceClassification", _MODERN | {
        "classifier_pooling": "mean", "norm_bias": True, "classifier_activation": "silu"}),
    "modern words": ("ModernBertForTokenClassification", _MODERN),
    "modern choice": ("ModernBertForMultipleChoice", _MODERN),
    "modern answer": ("ModernBertForQuestionAnswering", _MODERN),
    "modern local": ("ModernBertModel", _MODERN | {
        "layer_types": ["sliding_attention"] * 2, "local_attention": 9,
        "rope_parameters": {"sliding_attention": YARN, "full_attention": LINEAR},
        "hidden_activation": "silu"}),
    "T5": ("T5EncoderModel", {}),
    "T5 silu": ("T5EncoderModel", {"feed_forward_proj": "silu"}),
    "T5 wide heads": ("T5EncoderModel", {"d_kv": 10}),
    "T5 words": ("T5ForTokenClassification", {}),
    "T5 1.1": ("T5EncoderModel", _GATED),
    "T5 1.1 silu": ("T5EncoderModel", {"feed_forward_proj": "gated-silu", "d_kv": 5}),
    "T5 buckets": ("T5EncoderModel", {"relative_attention_num_buckets": 8,
                                      "relative_attention_max_distance": 20}),
    "mT5": ("MT5EncoderModel", {}),
    "mT5 words": ("MT5ForTokenClassification", {}),
    "CLIP": ("CLIPTextModel", {}),
    "CLIP projected": ("CLIPTextModelWithProjection", {"hidden_act": "gelu"}),
    "CLIP older": ("CLIPTextModelWithProjection", {"eos_token_id": 2, "layer_norm_eps": 1e-3}),
    "CLIP whole": ("CLIPModel", {}),
    "Chinese CLIP": ("ChineseCLIPModel", {}),
}  # fmt: skip
"""The class and the options beside the sizes; a whole CLIP's are those of its text side."""

BEGIN, END = "<|startoftext|>", "<|endoftext|>"
_MERGES = [("f", "i"), ("fi", "l"), ("fil", "m</w>"), ("g", "o"), ("o", "d</w>"), ("go", "od</w>")]
_IMAGE = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1, "image_size": 12}
_IMAGE |= {"num_attention_heads": 2, "patch_size": 4}


def saved(folder: Path, case: str, std: float = 0.3, **options: Any) -> Any:
    """The checkpoint of a case, with more options, and the model itself."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(len(case))
    folder.mkdir(parents=True, exist_ok=True)
    name, given = CASES[case]
    kind = getattr(transformers, name)
    sizes: dict[str, Any] = {"vocab_size": 40, "max_position_embeddings": 24, "num_labels": 3}
    sizes |= {"hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2}
    sizes["num_attention_heads"] = 3 if case in BERTS else 4
    if name.startswith(("T5", "MT5")):
        sizes = {"vocab_size": 40, "d_model": 24, "d_kv": 6, "d_ff": 36, "num_layers": 3}
        sizes |= {"num_heads": 4, "decoder_start_token_id": 0, "num_labels": 3}
        _write_pieces(folder)
    elif name.startswith("CLIP"):
        words = byte_pairs(folder)
        sizes |= {"vocab_size": len(words), "bos_token_id": words[BEGIN], "projection_dim": 10}
        sizes |= {"eos_token_id": words[END], "pad_token_id": words[END]}
    else:
        write = tiny.write_tokenizer_file if name.startswith("Modern") else tiny.write_tokenizer
        write(folder, 40)
        if case not in BERTS:
            sizes |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    if name.endswith("ForQuestionAnswering"):
        sizes["num_labels"] = 2
    if name.startswith("DistilBert"):
        sizes = {n: sizes[n] for n in ("vocab_size", "max_position_embeddings", "num_labels")}
    sizes |= given | options
    if name in ("CLIPModel", "ChineseCLIPModel"):
        sides = {"text_config": sizes, "vision_config": _IMAGE, "projection_dim": 10}
        config = kind.config_class(**sides)
    else:
        config = kind.config_class(**sizes)
    model = kind(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    model.save_pretrained(folder)
    return model.float().eval()


BERTS = [case for case, (name, _) in CASES.items() if name.startswith(tuple(_BERTS))]


def change(folder: Path, file: str = "config.json", **options: Any) -> Path:
    """The folder with other options in that file; None takes one out."""
    config = tiny.json_of(folder / file) | options
    kept = {name: x for name, x in config.items() if x is not None}
    (folder / file).write_text(json.dumps(kept))
    return folder


def byte_pairs(folder: Path, tokens: int = 24) -> dict[str, int]:
    """CLIP's tokenizer with few merges, and its vocabulary."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"{x}</w>" for x in letters), *(a + b for a, b in _MERGES), BEGIN, END]
    vocabulary = {word: i for i, word in enumerate(words)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    merges = "\n".join(f"{a} {b}" for a, b in _MERGES)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": tokens}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return vocabulary


def _write_pieces(folder: Path) -> None:
    """T5's kind, with 40 pieces: the end of a text, and words behind a mark for spaces."""
    pieces = ["<pad>", "</s>", "<unk>", "\u2581", *(f"\u2581w{i}" for i in range(36))]
    made = Tokenizer(models.Unigram([(x, -float(i)) for i, x in enumerate(pieces)], unk_id=2))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    made.save(str(folder / "tokenizer.json"))
    facts = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "additional_special_tokens": []}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))


def texts_of(spec: EncoderSpec, count: int, seed: int) -> list[Tokens]:
    """Random texts, with the end where it is read."""
    draw = np.random.default_rng(seed)
    found = []
    for length in draw.integers(1, min(spec.max_tokens, 130) + 1, count):
        ids = draw.integers(3, spec.vocabulary - 1, length).astype(np.int32)
        if spec.pooling == "last":
            ids[-1] = spec.vocabulary - 1 if spec.end is None else spec.end
        types = draw.integers(0, max(spec.types, 1), length).astype(np.int32)
        found.append(Tokens(ids, types, ()))
    return found


OWN: dict[str, dict[str, Any]] = {
    "plain": {},
    "post-norm": {"norm_first": False, "final_norm": False, "embedding_norm": True},
    "first token": {"pooling": "first", "scale_embedding": False, "hidden_act": "gelu"},
    "every token": {"pooling": "none"},
    "turned": {"rope_theta": 100.0, "sinusoids": False},
    "one layer turned": {"rope_theta": [None, 50]},
    "two bases, one head of K": {"rope_theta": [1000.0, 50.0], "num_key_value_heads": 1},
    "all heads of K": {"num_key_value_heads": 3, "rope_theta": [None, None]},
    "gated": {"gated": True, "hidden_act": "gelu"},
    "RMSNorms": {"rms_norm": True},
    "ALiBi": {"position_bias": "alibi", "sinusoids": False},
    "buckets": {"position_bias": "buckets", "relative_attention_num_buckets": 8,
                "relative_attention_max_distance": 6},
    "causal": {"window": [None, 0]},
    "one window": {"window": [None, [3, 0]], "position_bias": "alibi"},
    "ahead": {"window": [[0, None], [0, 0]]},
    "all": {"rope_theta": [100.0, 20.0], "num_key_value_heads": 1, "gated": True,
            "rms_norm": True, "hidden_act": "gelu", "window": [3, 2]},
}  # fmt: skip
"""Options of the plain encoder beside tiny.TRANSFORMER."""


def own_tensors(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Those of a plain encoder of two layers and three heads of four channels."""
    arrays, draw = tiny.transformer_tensors(tiny.tensors()), np.random.default_rng(5)
    rows = 12 + 8 * config.get("num_key_value_heads", 3)
    for name in [name for name in arrays if "in_proj" in name]:
        arrays[name] = np.ascontiguousarray(arrays[name][:rows])
    if config.get("embedding_norm"):
        arrays |= {f"embedding_norm.{x}": arrays.pop(f"encoder.norm.{x}")
                   for x in ("weight", "bias")}  # fmt: skip
    if config.get("position_bias") == "buckets":
        table = draw.normal(0, 1, (8, 3)).astype(np.float32)
        arrays["relative_attention_bias.weight"] = table
    if config.get("rms_norm"):
        arrays = {name: x for name, x in arrays.items() if not re.search(r"norm\d?\.bias", name)}
    for i in range(2 if config.get("gated") else 0):
        for part, size in (("weight", (20, 12)), ("bias", (20,))):
            drawn = draw.normal(0, 0.3, size).astype(np.float32)
            arrays[f"encoder.layers.{i}.linear_gate.{part}"] = drawn
    return arrays


def own(folder: Path, case: str, **options: Any) -> Path:
    """The checkpoint of a case of OWN."""
    config = OWN[case] | options
    return tiny.write(folder, tiny.TRANSFORMER | config, own_tensors(OWN[case]))
