"""The options of a config.json: those that are followed, that do not matter, and the others.

What the file leaves out has the default of the class of `transformers` that its model_type names.
Every other option has to have the default, or the outputs would be those of another function.
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from quant.foreign.tensors import CROSS, EXPERTS, QK_NORM
from quant.model.spec import CheckpointError

CONFIG = "config.json"

OWN = ("bert2rtl-fused", "bert2rtl-transformer")
"""Layouts that `transformers` does not have (docs/models.md); they need all their fields."""

IMAGES = (
    *("clip_vision_model", "deit", "dinov2", "dinov2_with_registers", "siglip_vision_model"),
    "vit",
)
"""Encoders of images (quant.foreign.vision)."""

IMAGE_SIDE, TEXT_SIDE = "vision", "text"
WHOLE = {
    "clip": {IMAGE_SIDE: "clip_vision_model", TEXT_SIDE: "clip_text_model"},
    "siglip": {IMAGE_SIDE: "siglip_vision_model", TEXT_SIDE: "siglip_text_model"},
}
"""Models of images and texts, by what each side, `vision_config` and `text_config`, is alone."""

TEXTS = (
    *("albert", "bert", "camembert", "clip_text_model", "distilbert", "electra", "mpnet"),
    *("esm", "eurobert", "gte", "jina_embeddings_v3", "modernbert", "nomic_bert", "roberta"),
    *("t5", "mt5", "xlm-roberta", *OWN),
)
FAMILIES = (*TEXTS, *WHOLE, *IMAGES)

_HEAD = ("architectures", "id2label", "model_type", "num_labels", "problem_type")
_BERT = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act"),
    *("intermediate_size", "type_vocab_size", "layer_norm_eps", "max_position_embeddings"),
)
_DISTILBERT = (
    *("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "activation"),
    "max_position_embeddings",
)
_DECODER = (*_BERT, "is_decoder", "is_causal")
_ROBERTA = (*_DECODER, "pad_token_id")
ROPE = ("rope_parameters", "rope_theta", "rope_scaling")
"""What says how rotary positions turn; `transformers` makes rope_parameters of the older two."""
_MODERN = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")
"""What older files of ModernBERT have for layer_types and rope_parameters."""
_TRANSFORMER = (
    *("norm_first", "final_norm", "embedding_norm", "scale_embedding", "pooling", "sinusoids"),
    *("position_bias", "relative_attention_num_buckets", "relative_attention_max_distance"),
    *("window", "rope_theta", "gated", "rms_norm", "num_key_value_heads", "rows"),
    *(name for name in _BERT if name != "type_vocab_size"),
)
_IMAGE = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act", "layer_norm_eps"),
    *("image_size", "patch_size", "num_channels"),
)
_VIT = (*_IMAGE, "intermediate_size", "qkv_bias")
_DINO = (*_IMAGE, "mlp_ratio", "qkv_bias")
_SIDES = ("vision_config", "vision_config_dict", "text_config", "text_config_dict")
FOLLOWED: dict[str, tuple[str, ...]] = {
    "albert": (*_BERT, "embedding_size", "num_hidden_groups", "inner_group_num"),
    "bert": _DECODER,
    "bert2rtl-fused": _BERT,
    "bert2rtl-transformer": _TRANSFORMER,
    "camembert": _ROBERTA,
    "clip": (*_SIDES, "projection_dim", "logit_scale_init_value"),
    "clip_text_model": (
        *(name for name in _BERT if name != "type_vocab_size"),
        *("eos_token_id", "projection_dim"),
    ),
    "clip_vision_model": (*_IMAGE, "intermediate_size"),
    "deit": _VIT,
    "dinov2": _DINO,
    "dinov2_with_registers": (*_DINO, "num_register_tokens"),
    "distilbert": _DISTILBERT,
    "electra": (*_DECODER, "embedding_size"),
    "esm": (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
        *("intermediate_size", "layer_norm_eps", "max_position_embeddings", "pad_token_id"),
        *("mask_token_id", "position_embedding_type", "rope_theta", "emb_layer_norm_before"),
        "token_dropout",
    ),
    "eurobert": (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act"),
        *("intermediate_size", "max_position_embeddings", "num_key_value_heads", "head_dim"),
        *("rms_norm_eps", "attention_bias", "mlp_bias", "classifier_pooling", *ROPE),
        # of its remote code: the tokenizer's own count
        *("bos_token", "eos_token", "mask_token", "pad_token", "hidden_dropout"),
    ),
    "gte": (*_BERT, *ROPE, "unpad_inputs", "use_memory_efficient_attention"),
    "jina_embeddings_v3": (*_BERT, *ROPE),
    "modernbert": (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", *ROPE),
        *("intermediate_size", "max_position_embeddings", "hidden_activation", "norm_eps"),
        *("norm_bias", "attention_bias", "mlp_bias", "layer_types", "local_attention", *_MODERN),
        # of heads; and what its class does not read
        *("classifier_pooling", "classifier_bias", "classifier_activation", "decoder_bias"),
        *("sparse_prediction", "sparse_pred_ignore_index", "layer_norm_eps", "embedding_dropout"),
        *("mlp_dropout", "initializer_cutoff_factor", "deterministic_flash_attn"),
        *("reference_compile", "repad_logits_with_grad", "position_embedding_type"),
    ),
    "mpnet": tuple(name for name in _BERT if name != "type_vocab_size"),
    "nomic_bert": (
        *(*_BERT, *ROPE, "head_dim"),
        # of its remote code, which do not change what comes out
        *("attn_pdrop", "embd_pdrop", "resid_pdrop", "dense_seq_output", "pad_vocab_size_multiple"),
        *("fused_bias_fc", "fused_dropout_add_ln", "use_flash_attn", "use_xentropy"),
        *("reorder_and_upcast_attn", "summary_first_dropout", "summary_proj_to_labels"),
        "max_trained_positions",
    ),
    "roberta": _ROBERTA,
    "siglip": _SIDES,
    "siglip_vision_model": (*_IMAGE, "intermediate_size", "vision_use_head"),
    **dict.fromkeys(
        ("t5", "mt5"),
        (
            *("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads"),
            *("relative_attention_num_buckets", "relative_attention_max_distance"),
            *("feed_forward_proj", "is_gated_act", "dense_act_fn", "layer_norm_epsilon"),
            # of the decoder beside the encoder, of training, and what its class does not read
            *("is_encoder_decoder", "num_decoder_layers", "scale_decoder_outputs", "n_positions"),
            "dropout_rate",
        ),
    ),
    "vit": _VIT,
    "xlm-roberta": _ROBERTA,
}
"""Options that decide what is computed, by model_type; those of _HEAD beside them."""

INDIFFERENT = frozenset(
    [
        # of training
        *("attention_dropout", "attention_probs_dropout_prob", "classifier_dropout"),
        *("classifier_dropout_prob", "dropout", "hidden_dropout_prob", "initializer_factor"),
        *("initializer_range", "qa_dropout", "seq_classif_dropout", "summary_last_dropout"),
        *("gradient_checkpointing", "label_smoothing", "layerdrop", "generator_size"),
        # how the library runs, loads and saves it, not what comes out
        *("attn_implementation", "chunk_size_feed_forward", "dtype", "output_attentions"),
        *("output_hidden_states", "output_past", "return_dict", "tie_weights_", "torch_dtype"),
        *(
            "tie_word_embeddings",
            "torchscript",
            "pretraining_tp",
            "transformers_version",
            "use_bfloat16",
        ),
        *("use_cache", "use_return_dict", "transformers.js_config", "name_or_path"),
        # the names of classes the other way round, special tokens (the tokenizer's own count)
        *("label2id", "bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id"),
        *("mask_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "tokenizer_class"),
        # of heads that no loader here takes, of generation, of older libraries
        *("summary_activation", "summary_type", "summary_use_proj", "directionality", "max_length"),
        *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_type"),
        *("pooler_size_per_head", "sinusoidal_pos_embds", "down_scale_factor", "gap_size"),
        *("net_structure_type", "num_memory_blocks", "finetuning_task", "task_specific_params"),
        *("prefix", "early_stopping", "keys_to_ignore_at_inference", "language", "name"),
        *("emb_size", "return_all_scores", "total_flos", "use_fast_tokenizer"),
        *(
            "sentence_transformers",
            "sbert_ce_default_activation_function",
        ),  # quant.foreign.sentence
    ]
)
"""Options that do not change what an encoder computes from tokens, of any family."""

_SIDES_INDIFFERENT = frozenset(
    [
        # of pre-training, of backbones, and of a pooler or projection that no loader here takes
        *("encoder_stride", "use_mask_token", "drop_path_rate", "layerscale_value"),
        *("apply_layernorm", "reshape_hidden_states", "out_features", "out_indices", "stage_names"),
        *("pooler_act", "pooler_output_size", "projection_dim", "logit_scale_init_value"),
        # of generating texts, which old files of CLIP and SigLIP list beside both sides
        *("bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample"),
        *("encoder_no_repeat_ngram_size", "exponential_decay_length_penalty"),
        *("forced_bos_token_id", "suppress_tokens", "temperature", "tie_encoder_decoder"),
        *("forced_eos_token_id", "length_penalty", "min_length", "no_repeat_ngram_size"),
        *("num_beam_groups", "num_beams", "num_return_sequences", "output_scores"),
        *("remove_invalid_values", "repetition_penalty", "return_dict_in_generate"),
        *("tf_legacy_loss", "top_k", "top_p", "typical_p"),
    ]
)
"""Options that do not change what an encoder of images computes, nor CLIP's of texts."""

_ABSENT: dict[str, Any] = {
    "is_causal": False,
    "pruned_heads": {},
    "cross_attention_hidden_size": None,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    **dict.fromkeys(("num_experts", "num_local_experts", "moe_every_n_layers"), 0),
    **dict.fromkeys(("use_qk_norm", "qk_layernorm", "qk_norm"), False),
}
"""What options that a class may leave out of its own list stand at."""

_OTHERWISE: dict[str, dict[str, Any]] = {
    "clip_text_model": {"is_causal": True},
    "esm": {"hidden_act": "gelu"},
    "eurobert": {"clf_pooling": "late"},
    "gte": {
        "position_embedding_type": "rope",
        "layer_norm_type": "layer_norm",
        "pack_qkv": True,
        **dict.fromkeys(("logn_attention_scale", "logn_attention_clip1"), False),
    },
    "nomic_bert": {
        "activation_function": "swiglu",
        "rotary_emb_fraction": 1.0,
        "scale_attn_weights": True,
        **dict.fromkeys(("prenorm", "parallel_block", "parallel_block_tied_norm"), False),
        **dict.fromkeys(("use_rms_norm", "causal", "rotary_emb_interleaved"), False),
        **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), False),
        "scale_attn_by_inverse_layer_idx": False,
    },
}
"""Those of a family at which they stand elsewhere, of the code that its class replaced too."""

_REPLACED = {
    "eurobert": "configuration_eurobert.EuroBertConfig",
    "gte": "configuration_hf_alibaba_nlp_gte.GteConfig",
    "nomic_bert": "configuration_hf_nomic_bert.NomicBertConfig",
}
"""What auto_map names in files from before `transformers` had the family's class."""

_RENAMED = {
    "nomic_bert": {
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_inner": "intermediate_size",
        "n_layer": "num_hidden_layers",
        "n_positions": "max_position_embeddings",
        "layer_norm_epsilon": "layer_norm_eps",
        "rotary_emb_base": "rope_theta",
    },
}
"""How these files call options."""

_OF_OTHERS = frozenset(["head_dim", "num_key_value_heads"])
"""Options whose default follows other options: the class's own is that of its other defaults."""

_FIRST = ("feed_forward_type", "moe_every_n_layers", "num_experts", "lora_adaptations")
"""Options that say more of a model than the others of its file, which are looked at after them."""

IS_CAUSAL = (
    "layer.0.attention: whether the mask is causal then depends, in transformers' own class, on "
    "padding and on the implementation of attention: take it out"
)
_WHY = {
    "position_embedding_type": "embedding.position: only absolute positions are supported",
    "is_causal": IS_CAUSAL,
    "add_cross_attention": f"layer.0.attention: {CROSS}",
    **dict.fromkeys(("num_experts", "num_local_experts"), f"layer.0.ffn: {EXPERTS}"),
    "moe_every_n_layers": f"layer.0.ffn: {EXPERTS}",
    **dict.fromkeys(("use_qk_norm", "qk_layernorm", "qk_norm"), f"layer.0.q: {QK_NORM}"),
    **dict.fromkeys(
        ("dilation", "dilations", "attention_dilation"),
        "layer.0.attention: a window with gaps (dilation), where a window has every key of its "
        "reach",
    ),
    "is_encoder_decoder": "layer.0.attention: a decoder beside the encoder",
    "pruned_heads": "layer.0.attention: pruned heads are not supported",
    "auto_map": "code of its own, which is never run",
    "clf_pooling": "head.0: what remote code calls classifier_pooling: rename it",
    "rotary_scaling_factor": "layer.0.q: the frequencies follow the length of the text",
    "quantization_config": "weights of another quantizer: give the float checkpoint",
    "feed_forward_type": "layer.0.ffn.up: a gated feed-forward beside ALiBi in a layout "
    "without a loader (JinaBERT-v2)",
    "lora_adaptations": "layer.0: LoRA adapters that remote code chooses (jina-embeddings-v3): "
    "take the files for transformers' own class, jina_embeddings_v3, or fold one adapter in",
    "use_swiglu_ffn": "layer.0.ffn.up: a gated feed-forward (SwiGLU) in a layout without a loader",
}
"""Reasons by option, where more can be said than that it is not followed."""


_FOLD = "(merge_and_unload in peft), save that, and give its folder"
_ORIGINAL = "give the checkpoint that it was made from, with its *.safetensors"
_INSTEAD = {
    "adapter*.safetensors": f"an adapter: fold it into its model {_FOLD}",
    "*.gguf": f"GGUF, the weights of llama.cpp: {_ORIGINAL}",
    "*.onnx": f"ONNX, a graph with its weights: {_ORIGINAL}",
    "onnx/*.onnx": f"ONNX, a graph with its weights: {_ORIGINAL}",
    "*.h5": f"the weights of TensorFlow: {_ORIGINAL}",
    "*.ckpt*": f"the weights of TensorFlow or Lightning: {_ORIGINAL}",
    "*.msgpack": f"the weights of Flax: {_ORIGINAL}",
    "*.tflite": f"a TensorFlow Lite model: {_ORIGINAL}",
}
"""What a folder may hold in place of weights that are read, by patterns of files."""
_PICKLES = ("*.bin", "*.pt", "*.pth")


def instead(folder: Path) -> str:
    """What lies there in place of a checkpoint, and what to do; "" for nothing that is known."""
    if (file := folder / "adapter_config.json").is_file():
        base = json_object(file).get("base_model_name_or_path")
        model = f"its model, {base}," if isinstance(base, str) and base else "its model"
        return f"{file.name} says that the folder holds an adapter: fold it into {model} {_FOLD}"
    for pattern, what in _INSTEAD.items():
        if files := sorted(folder.glob(pattern)):
            return f"{files[0].name} is {what}"
    if pickles := sorted(file for pattern in _PICKLES for file in folder.glob(pattern)):
        return (
            f"it has weights only as a pickle ({pickles[0].name}), which can run code when loaded "
            f"and is never read: save the model with safe_serialization=True"
        )
    return ""


def read(file: Path, side: str = IMAGE_SIDE) -> dict[str, Any]:
    """The options in `file`, those that it leaves out at their class's defaults.

    side: which one of a whole model of images and texts.

    CheckpointError names the file, the option, its value and what to do: for a file that is no JSON
    object, a family that does not map, and every option that differs from its default though
    nothing here follows it.
    """
    if not file.is_file():
        there = instead(file.parent) or "is it a Hugging Face checkpoint?"
        raise CheckpointError(f"{file.parent} has no {CONFIG}: {there}")
    raw = json_object(file)
    family = raw.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise CheckpointError(f"{file}: {_no_family(family)}")
    if family in WHOLE:
        if (own := WHOLE[family][side]) not in FAMILIES:
            raise CheckpointError(f"{file}: {_no_family(own)}")
        for name, value in raw.items():
            _check(file, family, name, value, _defaults(family)[0])
        raw, family = _side(file, raw, family, side), own
    elif side == TEXT_SIDE:
        raise CheckpointError(
            f"{file}: model_type {family!r} is no whole model of images and texts, of which one "
            "side could be asked for: leave that out"
        )
    defaults, theirs = ({}, {}) if _says_all(family, raw) else _defaults(family)
    theirs |= _RENAMED.get(family, {})
    given = {theirs.get(name, name): value for name, value in raw.items()}
    if len(given) < len(raw):
        twice = sorted(name for name in theirs if name in raw and theirs[name] in raw)
        raise CheckpointError(
            f"{file}: {twice[0]} and {theirs[twice[0]]} are one option: leave one of them out"
        )
    for name in sorted(given, key=lambda name: name not in _FIRST):
        value = given[name]
        _check(file, family, name, value, defaults)
    if "id2label" not in given:  # the class's default is of two, whatever the classifier has
        count = given.get("num_labels")
        names = {str(i): f"LABEL_{i}" for i in range(count)} if type(count) is int else None
        given["id2label"] = names
    given.setdefault("label2id", None)  # of two, likewise
    for name in _OF_OTHERS & set(defaults):
        given.setdefault(name, None)
    return defaults | given | _rotary(family, given)


def _rotary(family: str, given: dict[str, Any]) -> dict[str, Any]:
    """rope_parameters, and layer_types, as the family's class makes them of older options.

    What the class does not take stays as it is, for the loader to refuse by name.
    """
    if "rope_parameters" not in FOLLOWED[family]:
        return {}
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    names = {*ROPE, *_MODERN, "layer_types", "num_hidden_layers", "max_position_embeddings"}
    names |= {"hidden_size", "num_attention_heads"}
    try:
        kept = deepcopy({name: given[name] for name in names & set(given)})
        made = CONFIG_MAPPING[family](**kept).to_dict()
    except Exception:  # whatever the class has against the values
        return {}
    return {name: made[name] for name in ("rope_parameters", "layer_types") if name in made}


def _side(file: Path, raw: dict[str, Any], family: str, side: str) -> dict[str, Any]:
    """The options of one side of a whole model, with those of its head.

    Old files of CLIP have `vision_config_dict` and `text_config_dict` as well, which count, as in
    transformers.
    """
    name, wanted = f"{side}_config", WHOLE[family][side]
    sides = [raw.get(key) or {} for key in (name, f"{name}_dict")]
    if not all(isinstance(found, dict) for found in sides):
        what = "image" if side == IMAGE_SIDE else side
        raise CheckpointError(f"{file}: {name} must hold the options of the {what} side")
    found, older = sides
    if older:
        found = found | _defaults(wanted)[0] | older
    if found.get("model_type", wanted) != wanted:
        raise CheckpointError(
            f"{file}: model_type in {name} is {found['model_type']!r}: it must be {wanted!r}, as "
            f"{family} has it"
        )
    heads = {name: raw[name] for name in (*_HEAD, "label2id") if name in raw}
    sided = {name: value for name, value in found.items() if name not in (*_HEAD, "label2id")}
    return sided | heads | {"model_type": wanted}


def json_value(file: Path) -> Any:
    """What a JSON file holds; CheckpointError where it cannot be read or holds something else."""
    try:
        return json.loads(file.read_bytes().decode())
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not JSON: {error}") from None


def json_object(file: Path) -> dict[str, Any]:
    """The object that a JSON file holds; CheckpointError as json_value."""
    value = json_value(file)
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return value


def _says_all(family: str, raw: dict[str, Any]) -> bool:
    """Whether the file leaves nothing to its class, whose import takes seconds and brings torch."""
    if family in _OTHERWISE:
        return False
    usual = [*_HEAD, *INDIFFERENT, *FOLLOWED[family]]
    left = set(FOLLOWED[family]) - set(raw) - set(_ABSENT)
    return not left and all(
        name in usual or value == _ABSENT.get(name) for name, value in raw.items()
    )


def _defaults(family: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What an option is without the file, and other names of options."""
    if family in OWN:
        return {}, {}
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[family]
    return kind().to_dict(), dict(kind.attribute_map)


def replaced(family: str, auto_map: Any) -> bool:
    """Whether auto_map names the code that the family's class in `transformers` replaced."""
    named = auto_map.get("AutoConfig") if isinstance(auto_map, dict) else None
    return isinstance(named, str) and named.rpartition("--")[2] == _REPLACED.get(family)


def _check(file: Path, family: str, name: str, value: Any, defaults: dict[str, Any]) -> None:
    """Raise CheckpointError where the option changes the outputs and nothing follows it."""
    if name in FOLLOWED[family] or name in _HEAD or name in INDIFFERENT or name.startswith("_"):
        return
    if family in (*IMAGES, "clip_text_model") and name in _SIDES_INDIFFERENT:
        return
    if name == "auto_map" and replaced(family, value):
        return
    known = _ABSENT | _OTHERWISE.get(family, {}) | defaults
    if value in (None, "", [], {}) or (name in known and value == known[name]):
        return
    if name in _WHY:
        raise CheckpointError(f"{file}: {_WHY[name]} ({name} is {value!r})")
    if name in known:
        raise CheckpointError(
            f"{file}: {name} is {value!r}, which is not supported: it must be {known[name]!r}, the "
            f"default of {family}"
        )
    raise CheckpointError(
        f"{file}: {name} is {value!r}, an option that {family} does not have: if the outputs do "
        f"not depend on it, take it out of {CONFIG}"
    )


_RELATIVE = (
    "layer.0.scores: relative positions that depend on the words would need products of Q or K "
    "with each distance, where scores have a bias by the distance alone"
)
_PLANE = (
    "layer.0.scores: a bias by rows and columns of patches, of each layer its own, where scores "
    "have one by the distance of tokens that all layers share"
)
_OF_EACH = "layer.0.scores: a bias of each layer's own, where all layers share one"
_ROTARY = "layer.0.q: rotary positions in a layout without a loader"
_CAUSAL = "layer.0: a decoder, whose head predicts the next word, in a layout without a loader"
_PADDED = "embedding: every text is padded to one length, and the padding is read as words are"
_SOME_KEYS = "layer.0.attention: keys that are chosen by more than their distance from the query"
_PATCHES = "embedding: it reads patches of an image beside a text, or of a film"
_RECONSTRUCTS = "embedding: it drops patches at random, and its decoder paints what is missing"
_WINDOWS = "layer.0: its layers differ in size, or attend to windows, or are convolutions"
_SOUND = (
    "embedding: it reads sound by convolutions, which nothing here computes: run them yourself, "
    "and its layers as a bert2rtl-transformer with rows (Sound, and other front ends, in "
    "docs/models.md)"
)
_PLACES = "embedding: it adds the places of words on a page, which the embedding has no table for"
_PRE_NORM = "final.norm: its layers have the norm before each half, in a layout without a loader"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("deberta", "deberta-v2", "xlnet", "nezha", "wavlm"), _RELATIVE),
    **dict.fromkeys(("esmc", "neomme"), f"layer.0.q: {QK_NORM}"),
    "dinat": "layer.0.attention: windows of patches with gaps between them (dilation)",
    "umt5": _OF_EACH,
    "roformer": _ROTARY,
    "modernvbert": _ROTARY,
    **dict.fromkeys(("gpt2", "gpt_neo", "gpt_neox", "llama", "mistral", "opt", "qwen2"), _CAUSAL),
    **dict.fromkeys(("qwen3", "gemma", "gemma2", "gemma3", "gemma3_text", "phi3"), _CAUSAL),
    **dict.fromkeys(("bert-generation", "bart", "mbart", "marian", "xglm", "bloom"), _CAUSAL),
    "siglip_text_model": _PADDED,
    **dict.fromkeys(
        ("longformer", "big_bird", "led", "longt5", "nystromformer", "yoso", "mra"), _SOME_KEYS
    ),
    "reformer": _SOME_KEYS,
    **dict.fromkeys(("beit", "data2vec-vision"), _PLANE),
    **dict.fromkeys(("dinov3_vit", "eomt_dinov3", "aimv2", "aimv2_vision_model"), _ROTARY),
    **dict.fromkeys(
        ("swin", "swinv2", "pvt", "pvt_v2", "levit", "convnext", "convnextv2"), _WINDOWS
    ),
    **dict.fromkeys(("resnet", "mobilevit", "mobilevitv2", "cvt", "hiera", "vit_hybrid"), _WINDOWS),
    **dict.fromkeys(("vilt", "visual_bert", "flava", "blip", "vivit", "timesformer"), _PATCHES),
    **dict.fromkeys(("vit_mae", "videomae"), _RECONSTRUCTS),
    **dict.fromkeys(
        ("siglip2", "siglip2_vision_model"),
        "embedding: each image has another number "
        "of patches and positions of its own; those of one size have the model_type 'siglip'",
    ),
    **dict.fromkeys(("wav2vec2", "hubert", "whisper", "sew"), _SOUND),
    **dict.fromkeys(("layoutlm", "layoutlmv2", "layoutlmv3", "lilt", "markuplm"), _PLACES),
    **dict.fromkeys(("roberta-prelayernorm", "megatron-bert", "xlm-roberta-xl"), _PRE_NORM),
    "funnel": "layer.0: its sequences get shorter from layer to layer",
    "new": "remote code (GTE), which is never run: take the same model's files for transformers' "
    "own class, model_type 'gte'",
    "mobilebert": "layer.0: its layers have bottlenecks, and a scale in place of LayerNorm",
    "squeezebert": "layer.0: its linear layers are convolutions in groups",
    "convbert": "layer.0.attention: half of its heads are convolutions",
    "ibert": "layer.0: it is quantized already, by formulas of its own: give the RoBERTa before it",
    "rembert": "embedding.projection: its embedding is factorised under names of its own, and the "
    "hidden size of the released one, 1152, is beyond an accelerator's 1024",
    "fnet": "layer.0: a Fourier transform in place of attention",
    "dpr": "its encoder is a BERT under another name: save model.question_encoder.bert_model or "
    "ctx_encoder.bert_model by save_pretrained, and give that",
    "luke": "embedding: entities stand beside the words, with attention of their own",
    "ernie": "embedding: it adds an embedding of the task",
    "splinter": "head: questions are answered by attention between tokens",
    "xlm": "embedding: it adds an embedding of the language, and its norms differ",
    "flaubert": "embedding: it adds an embedding of the language, and its norms differ",
    "canine": "embedding: it reads characters by hashes, and makes sequences shorter",
    "tapas": "embedding: it adds seven embeddings of a table's rows and columns",
}
"""What families that the hardware cannot express need, by their model_type (docs/models.md)."""


def _no_family(family: object) -> str:
    if not isinstance(family, str):
        return f"model_type is {family!r}: it must be one of {', '.join(FAMILIES)}"
    if family in REFUSED:
        return f"model_type {family!r} cannot run: {REFUSED[family]}"
    return (
        f"model_type {family!r} cannot run: no loader knows how its layers differ from BERT's; "
        f"those that map are {', '.join(FAMILIES)}. A model that computes what one of these does "
        "runs once it is saved under that model_type, with the names of its tensors"
    )
