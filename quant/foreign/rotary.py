"""The encoders with rotary positions, as quant.foreign.families has the others."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from golden.model import Window
from quant.foreign.rope import Rope, rope
from quant.foreign.tensors import (
    Config,
    Encoder,
    Tensors,
    bert_fields,
    boolean,
    integer,
    number,
)
from quant.model.rotary import neighbours, shared, tables
from quant.model.spec import Arrays, CheckpointError

GLOBAL, LOCAL = "full_attention", "sliding_attention"
"""What ModernBERT's layer_types has."""

ESM_KEPT = 1 - 0.15 * 0.8
"""Of a token's embedding where token_dropout stands: the share that training did not mask."""


def nomic(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Nussbaum et al., 2024: BERT with rotary positions and gated feed-forwards, no biases."""
    source = f"{prefix}embeddings"
    arrays = {
        "embedding.token": tensors.take(f"{source}.word_embeddings.weight"),
        "embedding.type": tensors.take(f"{source}.token_type_embeddings.weight"),
    } | tensors.norm(f"{prefix}emb_ln", "embedding.norm")
    fields = bert_fields(config)
    for i in range(fields["layers"]):
        source, target = f"{prefix}encoder.layers.{i}", f"layer.{i}"
        inputs = [f"{target}.{name}" for name in "qkv"]
        arrays |= tensors.linear(f"{source}.attn.Wqkv", *inputs, bias=False)
        arrays |= tensors.linear(f"{source}.attn.out_proj", f"{target}.o", bias=False)
        for name, part in (("fc11", "up"), ("fc12", "gate"), ("fc2", "down")):
            arrays |= tensors.linear(f"{source}.mlp.{name}", f"{target}.ffn.{part}", bias=False)
        for name in ("norm1", "norm2"):
            arrays |= tensors.norm(f"{source}.{name}", f"{target}.{name}")
    arrays, fields = _everywhere(config, arrays, fields)
    return arrays, fields | {"gated": True}


def gte(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Zhang et al., 2024 (mGTE): BERT with rotary positions and gated feed-forwards.

    With or without segments; no bias before the product of the gate.
    """
    arrays, fields = _without_positions(config, tensors, prefix)
    arrays |= tensors.norm(f"{prefix}embeddings.LayerNorm", "embedding.norm")
    for i in range(fields["layers"]):
        source, target = f"{prefix}encoder.layer.{i}", f"layer.{i}"
        inputs = [f"{target}.{name}" for name in "qkv"]
        arrays |= tensors.linear(f"{source}.attention.qkv_proj", *inputs)
        arrays |= tensors.linear(f"{source}.attention.o_proj", f"{target}.o")
        parts = [f"{target}.ffn.{name}" for name in ("up", "gate")]
        arrays |= tensors.linear(f"{source}.mlp.up_gate_proj", *parts, bias=False)
        arrays |= tensors.linear(f"{source}.mlp.down_proj", f"{target}.ffn.down")
        for name, norm in (("attn_ln", "norm1"), ("mlp_ln", "norm2")):
            arrays |= tensors.norm(f"{source}.{name}", f"{target}.{norm}")
    arrays, fields = _everywhere(config, arrays, fields)
    return arrays, fields | {"gated": True}


def jina(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Sturua et al., 2024 (jina-embeddings-v3): XLM-RoBERTa with rotary positions, no adapters."""
    arrays, fields = _without_positions(config, tensors, prefix)
    arrays |= tensors.norm(f"{prefix}emb_ln", "embedding.norm")
    for i in range(fields["layers"]):
        source, target = f"{prefix}encoder.layers.{i}", f"layer.{i}"
        inputs = [f"{target}.{name}" for name in "qkv"]
        arrays |= tensors.linear(f"{source}.mixer.Wqkv", *inputs)
        arrays |= tensors.linear(f"{source}.mixer.out_proj", f"{target}.o")
        arrays |= tensors.linear(f"{source}.mlp.fc1", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{source}.mlp.fc2", f"{target}.ffn.down")
        for name in ("norm1", "norm2"):
            arrays |= tensors.norm(f"{source}.{name}", f"{target}.{name}")
    return _everywhere(config, arrays, fields)


def _without_positions(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """The tables of tokens and segments."""
    fields = bert_fields(config)
    source = f"{prefix}embeddings"
    arrays = {"embedding.token": tensors.take(f"{source}.word_embeddings.weight")}
    if fields["types"]:
        arrays["embedding.type"] = tensors.take(f"{source}.token_type_embeddings.weight")
    return arrays, fields


def eurobert(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Boizard et al., 2025: the layers of Llama, of which every token sees every other.

    Pre-norm RMSNorms, rotary positions, heads that share K and V, a gated feed-forward.
    """
    arrays = {"embedding.token": tensors.take(f"{prefix}embed_tokens.weight")}
    fields = bert_fields(
        dict(config) | {"type_vocab_size": 0, "layer_norm_eps": number(config, "rms_norm_eps")}
    )
    biases = [boolean(config, name) for name in ("attention_bias", "mlp_bias")]
    for i in range(fields["layers"]):
        source, target = f"{prefix}layers.{i}", f"layer.{i}"
        for name in "qkvo":
            layer = f"{source}.self_attn.{name}_proj"
            arrays |= tensors.linear(layer, f"{target}.{name}", bias=biases[0])
        for name in ("gate", "up", "down"):
            layer = f"{source}.mlp.{name}_proj"
            arrays |= tensors.linear(layer, f"{target}.ffn.{name}", bias=biases[1])
        for name, norm in (("input", "norm1"), ("post_attention", "norm2")):
            arrays |= tensors.norm(f"{source}.{name}_layernorm", f"{target}.{norm}", bias=False)
    arrays |= tensors.norm(f"{prefix}norm", "final.norm", bias=False)
    arrays, fields = _everywhere(config, arrays, fields)
    fields |= {"gated": True, "rms_norm": True, "norm": "pre", "embedding_norm": False}
    heads, groups = fields["heads"], config.get("num_key_value_heads") or fields["heads"]
    if groups != heads:
        if not isinstance(groups, int) or not 1 <= groups < heads or heads % groups:
            raise CheckpointError(
                f"config.json: num_key_value_heads is {groups!r}: it must be a divisor of "
                f"num_attention_heads, {heads}"
            )
        for i in range(fields["layers"]):
            arrays = shared(arrays, f"layer.{i}", heads, groups)
        fields["kv_heads"] = groups
    return arrays, fields


def eurobert_pooling(config: Config) -> str:
    """What the head of a classifier reads, by classifier_pooling."""
    poolings = {"bos": "first", "mean": "mean"}
    found = config.get("classifier_pooling")
    if found not in poolings:
        raise CheckpointError(
            f"head.0: classifier_pooling is {found!r}: it must be bos or mean, since a head that "
            "runs on every token before their mean ('late') has no operation"
        )
    return poolings[found]


def esm(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Lin et al., 2023 (ESM-2) and Rives et al., 2021 (ESM-1b): proteins, pre-norm layers.

    Rotary positions, or absolute ones from pad_token_id + 1 on. With token_dropout an embedding has
    the factor 0.88 and that of a mask is zero; a text with a mask, whose factor would be another
    one, is refused (`unread`).
    """
    fields = bert_fields(dict(config) | {"type_vocab_size": 0})
    source = f"{prefix}embeddings"
    arrays = {"embedding.token": tensors.take(f"{source}.word_embeddings.weight")}
    fields |= {"norm": "pre", "embedding_norm": bool(config.get("emb_layer_norm_before"))}
    if config.get("token_dropout"):
        mask = integer(config, "mask_token_id")
        if not 0 <= mask < len(arrays["embedding.token"]):
            raise CheckpointError(
                f"config.json: mask_token_id is {mask}: it must be a row of the embedding, 0 to "
                f"{len(arrays['embedding.token']) - 1}"
            )
        arrays["embedding.token"] = (arrays["embedding.token"] * ESM_KEPT).astype(np.float32)
        arrays["embedding.token"][mask] = 0
        fields["unread"] = mask
    if fields["embedding_norm"]:
        arrays |= tensors.norm(f"{source}.layer_norm", "embedding.norm")
    for i in range(fields["layers"]):
        source, target = f"{prefix}encoder.layer.{i}", f"layer.{i}"
        for name in ("query", "key", "value"):
            arrays |= tensors.linear(f"{source}.attention.self.{name}", f"{target}.{name[0]}")
        arrays |= tensors.linear(f"{source}.attention.output.dense", f"{target}.o")
        arrays |= tensors.linear(f"{source}.intermediate.dense", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{source}.output.dense", f"{target}.ffn.down")
        for name, norm in (("attention.LayerNorm", "norm1"), ("LayerNorm", "norm2")):
            arrays |= tensors.norm(f"{source}.{name}", f"{target}.{norm}")
    arrays |= tensors.norm(f"{prefix}encoder.emb_layer_norm_after", "final.norm")
    kind = config.get("position_embedding_type")
    if kind == "absolute":
        name = f"{prefix}embeddings.position_embeddings.weight"
        arrays["embedding.position"] = tensors.take(name)
        return arrays, fields | {"position_offset": integer(config, "pad_token_id") + 1}
    if kind != "rotary":
        raise CheckpointError(
            f"config.json: position_embedding_type is {kind!r}: it must be rotary or absolute"
        )
    tensors.drop(f"{prefix}embeddings.position_embeddings.")
    found = _esm_frequencies(config, tensors, prefix, fields["head_size"])
    return _rotary(config, arrays, fields, [found], [0] * fields["layers"])


def _esm_frequencies(config: Config, tensors: Tensors, prefix: str, size: int) -> Rope:
    """Those of the checkpoint where it has them, in half precision if training had.

    In old files each layer has them; the first counts.
    """
    end = "rotary_embeddings.inv_freq"
    names = [name for name in tensors.names if name.startswith(prefix) and name.endswith(end)]
    names.sort(key=lambda name: (name != f"{prefix}{end}", name))
    given = [tensors.take(name) for name in names]
    if not given:
        return rope({"rope_theta": number(config, "rope_theta")}, size)
    if given[0].shape != (size // 2,):
        raise CheckpointError(
            f"{names[0]} has shape {given[0].shape}: a head of {size} channels needs {size // 2}"
        )
    return Rope(given[0].astype(np.float32))


def modernbert(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Warner et al., 2024: pre-norm layers with gated feed-forwards, most of them with a window.

    Layer 0 has no norm before its attention. Layers with a window have rotary positions of another
    theta than those without.
    """
    fields = bert_fields(
        dict(config)
        | {
            "type_vocab_size": 0,
            "hidden_act": config.get("hidden_activation"),
            "layer_norm_eps": number(config, "norm_eps"),
        }
    )
    of_norm, of_attention, of_ffn = (
        boolean(config, f"{name}_bias") for name in ("norm", "attention", "mlp")
    )
    arrays = {"embedding.token": tensors.take(f"{prefix}embeddings.tok_embeddings.weight")}
    arrays |= tensors.norm(f"{prefix}embeddings.norm", "embedding.norm", bias=of_norm)
    for i in range(fields["layers"]):
        source, target = f"{prefix}layers.{i}", f"layer.{i}"
        inputs = [f"{target}.{name}" for name in "qkv"]
        arrays |= tensors.linear(f"{source}.attn.Wqkv", *inputs, bias=of_attention)
        arrays |= tensors.linear(f"{source}.attn.Wo", f"{target}.o", bias=of_attention)
        parts = [f"{target}.ffn.{name}" for name in ("gate", "up")]
        arrays |= tensors.linear(f"{source}.mlp.Wi", *parts, bias=of_ffn)
        arrays |= tensors.linear(f"{source}.mlp.Wo", f"{target}.ffn.down", bias=of_ffn)
        if i:
            arrays |= tensors.norm(f"{source}.attn_norm", f"{target}.norm1", bias=of_norm)
        arrays |= tensors.norm(f"{source}.mlp_norm", f"{target}.norm2", bias=of_norm)
    arrays |= tensors.norm(f"{prefix}final_norm", "final.norm", bias=of_norm)
    kinds = _layer_types(config, fields["layers"])
    used = list(dict.fromkeys(kinds))
    parameters = config.get("rope_parameters")
    if not isinstance(parameters, dict):
        raise CheckpointError(
            f"config.json: rope_parameters is {parameters!r}: it must have an entry for each of "
            f"{', '.join(used)}"
        )
    ropes = [rope(parameters.get(kind), fields["head_size"]) for kind in used]
    arrays, fields = _rotary(config, arrays, fields, ropes, [used.index(kind) for kind in kinds])
    if LOCAL in used:
        reach = integer(config, "local_attention") // 2
        local = Window(reach, reach)
        fields["windows"] = tuple(local if kind == LOCAL else None for kind in kinds)
    return arrays, fields | {"gated": True, "norm": "pre", "first_norm": False}


def modernbert_pooling(config: Config) -> str:
    """What the head of a classifier reads, by classifier_pooling."""
    poolings = {"cls": "first", "mean": "mean"}
    found = config.get("classifier_pooling")
    if found not in poolings:
        raise CheckpointError(
            f"config.json: classifier_pooling is {found!r}: it must be cls or mean"
        )
    return poolings[found]


def _layer_types(config: Config, layers: int) -> list[str]:
    """Whether each layer has a window, by layer_types."""
    found = config.get("layer_types")
    named = isinstance(found, list) and all(kind in (GLOBAL, LOCAL) for kind in found)
    if not isinstance(found, list) or not named or len(found) != layers:
        raise CheckpointError(
            f"config.json: layer_types is {found!r}: it must be {GLOBAL} or {LOCAL} for each of "
            f"the {layers} layers"
        )
    return found


def _everywhere(config: Config, arrays: Arrays, fields: dict[str, Any]) -> Encoder:
    """With the rotary positions of rope_parameters in every layer."""
    found = rope(config.get("rope_parameters"), fields["head_size"])
    return _rotary(config, arrays, fields, [found], [0] * fields["layers"])


def _rotary(
    config: Config,
    arrays: Arrays,
    fields: dict[str, Any],
    ropes: Sequence[Rope],
    of: Sequence[int],
) -> Encoder:
    """With rotary positions, for layer i those of ropes[of[i]], and none in the embedding."""
    size, tokens = fields["head_size"], fields["positions"]
    if config.get("head_dim") not in (None, size):
        raise CheckpointError(
            f"config.json: head_dim is {config['head_dim']!r}: it must be {size}, the hidden size "
            "over the heads"
        )
    if size % 2:
        raise CheckpointError(
            f"layer.0.q: a head of {size} channels cannot be turned pair by pair: the size must be "
            "even"
        )
    arrays["embedding.position"] = np.zeros((tokens, fields["hidden"]), np.float32)
    for j, one in enumerate(ropes):
        found = tables(one.frequencies, tokens, size)
        arrays |= dict(zip((f"rotary.{j}.cos", f"rotary.{j}.sin"), found, strict=True))
    for i, j in enumerate(of):
        for name in ("q", "k"):  # what turns is at most 1: Q and K take the factor
            for part in ("weight", "bias"):
                key = f"layer.{i}.{name}.{part}"
                arrays[key] = arrays[key] * np.float32(ropes[j].factor)
        arrays = neighbours(arrays, f"layer.{i}", size, size)
    return arrays, fields | {"rotary": tuple(of)}
