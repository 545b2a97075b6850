"""How the checkpoints of each model family map to an EncoderSpec and its arrays.

One function an encoder, found by the config's model_type: it takes the tensors it knows. What
stands behind the encoder is a head (quant.foreign.heads). What is left the loader refuses by name.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any, TypeAlias

import numpy as np

from quant.foreign import config as options
from quant.foreign import heads, rotary
from quant.foreign.sentence import Layout
from quant.foreign.tensors import (
    Config,
    Encoder,
    Tensors,
    activation,
    answers_of,
    bert_fields,
    boolean,
    clip_layers,
    head_size,
    integer,
    number,
)
from quant.foreign.transformer import transformer
from quant.model.spec import Arrays, CheckpointError, EncoderSpec
from quant.model.window import CAUSAL

Loaded: TypeAlias = tuple[EncoderSpec, Arrays, list[str]]
"""What a loader gives: the spec, the arrays, and what is to be said about it."""

LEGACY_END = 2
"""CLIP's eos_token_id in files whose texts end with their largest id."""

MPNET_PADDING = 1
MPNET_BUCKETS, MPNET_FURTHEST = 32, 128
"""In MPNet's code, whatever config.json says."""

T5_POSITIONS = 512


def _embeddings(tensors: Tensors, source: str, types: bool = True) -> Arrays:
    arrays = {
        "embedding.token": tensors.take(f"{source}.word_embeddings.weight"),
        "embedding.position": tensors.take(f"{source}.position_embeddings.weight"),
    }
    if types:
        arrays["embedding.type"] = tensors.take(f"{source}.token_type_embeddings.weight")
    return arrays | tensors.norm(f"{source}.LayerNorm", "embedding.norm")


def _bert_layers(config: Config, tensors: Tensors, prefix: str) -> Arrays:
    arrays: Arrays = {}
    for i in range(integer(config, "num_hidden_layers")):
        source, target = f"{prefix}encoder.layer.{i}", f"layer.{i}"
        for name in ("query", "key", "value"):
            arrays |= tensors.linear(f"{source}.attention.self.{name}", f"{target}.{name[0]}")
        arrays |= tensors.linear(f"{source}.attention.output.dense", f"{target}.o")
        arrays |= tensors.norm(f"{source}.attention.output.LayerNorm", f"{target}.norm1")
        arrays |= _bert_feed_forward(tensors, source, target)
    return arrays


def _bert_feed_forward(tensors: Tensors, source: str, target: str) -> Arrays:
    arrays = tensors.linear(f"{source}.intermediate.dense", f"{target}.ffn.up")
    arrays |= tensors.linear(f"{source}.output.dense", f"{target}.ffn.down")
    return arrays | tensors.norm(f"{source}.output.LayerNorm", f"{target}.norm2")


def _decoder(config: Config) -> dict[str, Any]:
    """The windows of an encoder that is a decoder by its config: all layers are causal.

    `is_causal` takes that back where it is false. Without `is_decoder` it is refused.
    """
    decoder = boolean({"is_decoder": False} | dict(config), "is_decoder")
    causal = config.get("is_causal", decoder)
    if not any(causal is allowed for allowed in ((True, False) if decoder else (False, None))):
        raise CheckpointError(
            f"config.json: {options.IS_CAUSAL}, or set is_decoder where all layers are causal "
            f"(is_causal is {causal!r})"
        )
    return {"windows": (CAUSAL,) * integer(config, "num_hidden_layers")} if causal else {}


def bert(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Devlin et al., 2019."""
    arrays = _embeddings(tensors, f"{prefix}embeddings") | _bert_layers(config, tensors, prefix)
    return arrays, bert_fields(config) | _decoder(config)


def roberta(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Liu et al., 2019, XLM-RoBERTa and CamemBERT: positions from pad_token_id + 1 on."""
    arrays, fields = bert(config, tensors, prefix)
    return arrays, fields | {"position_offset": integer(config, "pad_token_id") + 1}


def distilbert(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Sanh et al., 2019: no segments."""
    arrays = _embeddings(tensors, f"{prefix}embeddings", types=False)
    layers = integer(config, "n_layers")
    for i in range(layers):
        source, target = f"{prefix}transformer.layer.{i}", f"layer.{i}"
        for name in "qkv":
            arrays |= tensors.linear(f"{source}.attention.{name}_lin", f"{target}.{name}")
        arrays |= tensors.linear(f"{source}.attention.out_lin", f"{target}.o")
        arrays |= tensors.norm(f"{source}.sa_layer_norm", f"{target}.norm1")
        arrays |= tensors.linear(f"{source}.ffn.lin1", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{source}.ffn.lin2", f"{target}.ffn.down")
        arrays |= tensors.norm(f"{source}.output_layer_norm", f"{target}.norm2")
    hidden, count = integer(config, "dim"), integer(config, "n_heads")
    return arrays, {
        "layers": layers,
        "hidden": hidden,
        "heads": count,
        "head_size": head_size(hidden, count),
        "ffn": integer(config, "hidden_dim"),
        "vocabulary": integer(config, "vocab_size"),
        "positions": integer(config, "max_position_embeddings"),
        "activation": activation(config, "activation"),
    }


def mpnet(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Song et al., 2020: no segments, scores with T5's bias, positions as RoBERTa's.

    Its code counts positions from a padding of 1, whatever pad_token_id is.
    """
    arrays = _embeddings(tensors, f"{prefix}embeddings", types=False)
    tokens = len(arrays["embedding.position"]) - (MPNET_PADDING + 1)
    name = f"{prefix}encoder.relative_attention_bias.weight"
    arrays |= tensors.position_bias(name, MPNET_BUCKETS, MPNET_FURTHEST, tokens)
    for i in range(integer(config, "num_hidden_layers")):
        source, target = f"{prefix}encoder.layer.{i}", f"layer.{i}"
        for key in "qkvo":
            arrays |= tensors.linear(f"{source}.attention.attn.{key}", f"{target}.{key}")
        arrays |= tensors.norm(f"{source}.attention.LayerNorm", f"{target}.norm1")
        arrays |= _bert_feed_forward(tensors, source, target)
    fields = bert_fields(dict(config) | {"type_vocab_size": 0})
    return arrays, fields | {"position_offset": MPNET_PADDING + 1, "position_bias": True}


def clip_text(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Radford et al., 2021: causal pre-norm layers, of which the token that ends a text is read.

    That is the first of eos_token_id. Files from before the library had it right say 2, and mean
    the largest id of a text.
    """
    end = integer(config, "eos_token_id")
    source = f"{prefix}embeddings"
    arrays = {
        "embedding.token": tensors.take(f"{source}.token_embedding.weight"),
        "embedding.position": tensors.take(f"{source}.position_embedding.weight"),
    }
    layers = integer(config, "num_hidden_layers")
    arrays |= clip_layers(tensors, f"{prefix}encoder.layers", layers)
    arrays |= tensors.norm(f"{prefix}final_layer_norm", "final.norm")
    fields = bert_fields(dict(config) | {"type_vocab_size": 0})
    return arrays, fields | {
        "norm": "pre",
        "embedding_norm": False,
        "windows": (CAUSAL,) * layers,
        "pooling": "last",
        "end": None if end == LEGACY_END else end,
    }


def electra(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Clark et al., 2020: an embedding that may be narrower than the encoder."""
    size, hidden = _embedding_size(config)
    arrays, fields = bert(config, tensors, prefix)
    if size != hidden:
        arrays |= _factorised(tensors, f"{prefix}embeddings_project", arrays, size, hidden)
        fields["embedding_size"] = size
    return arrays, fields


def albert(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Lan et al., 2020: the layers of a group share weights."""
    size, hidden = _embedding_size(config)
    layers, groups, inner = (
        integer(config, name)
        for name in ("num_hidden_layers", "num_hidden_groups", "inner_group_num")
    )
    if not 1 <= groups <= layers or inner < 1:
        raise CheckpointError(
            f"config.json: num_hidden_groups is {groups} and inner_group_num {inner}: they must be "
            f"1 to num_hidden_layers, {layers}, and 1 or more"
        )
    arrays = _embeddings(tensors, f"{prefix}embeddings")
    project = f"{prefix}encoder.embedding_hidden_mapping_in"
    arrays = _factorised(tensors, project, arrays, size, hidden)
    shared: list[list[Arrays]] = [
        [
            _albert_layer(tensors, f"{prefix}encoder.albert_layer_groups.{i}.albert_layers.{j}")
            for j in range(inner)
        ]
        for i in range(groups)
    ]
    encoder = [layer for i in range(layers) for layer in shared[int(i / (layers / groups))]]
    for i, layer in enumerate(encoder):
        arrays |= {f"layer.{i}.{name}": array for name, array in layer.items()}
    fields = {"embedding_size": size, "layers": len(encoder)}
    return arrays, bert_fields(config) | fields


def _albert_layer(tensors: Tensors, source: str) -> Arrays:
    attention = f"{source}.attention"
    arrays: Arrays = {}
    for name in ("query", "key", "value"):
        arrays |= tensors.linear(f"{attention}.{name}", name[0])
    arrays |= tensors.linear(f"{attention}.dense", "o")
    arrays |= tensors.norm(f"{attention}.LayerNorm", "norm1")
    arrays |= tensors.linear(f"{source}.ffn", "ffn.up")
    arrays |= tensors.linear(f"{source}.ffn_output", "ffn.down")
    return arrays | tensors.norm(f"{source}.full_layer_layer_norm", "norm2")


def _embedding_size(config: Config) -> tuple[int, int]:
    """Channels of the embedding and of the encoder."""
    size, hidden = integer(config, "embedding_size"), integer(config, "hidden_size")
    if not 1 <= size <= hidden:
        raise CheckpointError(
            f"embedding.projection: an embedding of {size} channels does not fit the residual "
            f"stream, whose place it takes until it is projected: at most the hidden size, {hidden}"
        )
    return size, hidden


def _factorised(tensors: Tensors, name: str, arrays: Arrays, size: int, hidden: int) -> Arrays:
    """The embedding of `size` channels as EncoderSpec has it, and its projection."""
    found = tensors.linear(name, "embedding.projection")
    for key, array in arrays.items():
        if not key.startswith("embedding."):
            continue
        if array.shape[-1:] != (size,):
            raise CheckpointError(
                f"{key} has shape {' x '.join(map(str, array.shape))}: the config asks for {size} "
                "channels (embedding_size)"
            )
        values = array.astype(np.float64)
        if key.endswith(("token", "position", "type")):
            values = values - values.mean(axis=-1, keepdims=True)
        elif key.endswith("gamma"):
            values = values * np.sqrt(size / hidden)
        room = [(0, 0)] * (array.ndim - 1) + [(0, hidden - size)]
        found[key] = np.pad(values, room).astype(np.float32)
    return found


def fused(config: Config, tensors: Tensors, task: str | None = None) -> tuple[EncoderSpec, Arrays]:
    """The layout of train.heartbert: fused QKV, no pooler, one linear layer on the first token."""
    arrays = {
        "embedding.token": tensors.take("embeddings.word.weight"),
        "embedding.position": tensors.take("embeddings.position.weight"),
        "embedding.type": tensors.take("embeddings.segment.weight"),
    } | tensors.norm("embeddings.norm", "embedding.norm")
    for i in range(integer(config, "num_hidden_layers")):
        source, target = f"layers.{i}", f"layer.{i}"
        arrays |= tensors.linear(f"{source}.qkv", f"{target}.q", f"{target}.k", f"{target}.v")
        arrays |= tensors.linear(f"{source}.attention", f"{target}.o")
        arrays |= tensors.norm(f"{source}.attention_norm", f"{target}.norm1")
        arrays |= tensors.linear(f"{source}.intermediate", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{source}.output", f"{target}.ffn.down")
        arrays |= tensors.norm(f"{source}.output_norm", f"{target}.norm2")
    tensors.drop("mlm.")
    if "classifier.weight" not in tensors:
        raise CheckpointError(
            "classifier is missing: the encoder is only pre-trained, fine-tune it"
        )
    arrays |= tensors.linear("classifier", "head.0")
    answers = answers_of(config, arrays["head.0.weight"])
    return EncoderSpec(**bert_fields(config), **answers), arrays


def t5(config: Config, tensors: Tensors, prefix: str) -> Encoder:
    """Raffel et al., 2020, and T5 1.1 and mT5, whose feed-forward is gated: the encoder alone.

    Pre-norm RMSNorms, no biases, and scores q k^T with a bias of their own, which are not divided
    by sqrt(d): Q takes that factor. A head may have any number of channels. There are no positions
    but the bias's: T5_POSITIONS is the length that it was trained on.
    """
    gated, function = _t5_feed_forward(config)
    hidden, size = integer(config, "d_model"), integer(config, "d_kv")
    fields: dict[str, Any] = {
        "layers": integer(config, "num_layers"),
        "hidden": hidden,
        "heads": integer(config, "num_heads"),
        "head_size": size,
        "ffn": integer(config, "d_ff"),
        "vocabulary": integer(config, "vocab_size"),
        "positions": T5_POSITIONS,
        "types": 0,
        "activation": activation({"dense_act_fn": function}, "dense_act_fn"),
        "epsilon": number(config, "layer_norm_epsilon"),
        "norm": "pre",
        "embedding_norm": False,
        "gated": gated,
        "rms_norm": True,
        "position_bias": True,
    }
    names = [f"{prefix}{name}" for name in ("shared.weight", "encoder.embed_tokens.weight")]
    name = next((name for name in names if name in tensors), names[0])
    arrays = {
        "embedding.token": tensors.take(name),
        "embedding.position": np.zeros((T5_POSITIONS, hidden), np.float32),
    }
    tensors.drop(*names)  # one table by two names
    arrays |= tensors.position_bias(
        f"{prefix}encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        integer(config, "relative_attention_num_buckets"),
        integer(config, "relative_attention_max_distance"),
        T5_POSITIONS,
    )
    parts = (("wi_0", "gate"), ("wi_1", "up")) if gated else (("wi", "up"),)
    for i in range(fields["layers"]):
        source, target = f"{prefix}encoder.block.{i}.layer", f"layer.{i}"
        for key in "qkvo":
            layer = f"{source}.0.SelfAttention.{key}"
            arrays |= tensors.linear(layer, f"{target}.{key}", bias=False)
        arrays[f"{target}.q.weight"] = arrays[f"{target}.q.weight"] * np.float32(sqrt(size))
        for part, ours in (*parts, ("wo", "down")):
            layer = f"{source}.1.DenseReluDense.{part}"
            arrays |= tensors.linear(layer, f"{target}.ffn.{ours}", bias=False)
        for place, norm in ((0, "norm1"), (1, "norm2")):
            arrays |= tensors.norm(f"{source}.{place}.layer_norm", f"{target}.{norm}", bias=False)
    arrays |= tensors.norm(f"{prefix}encoder.final_layer_norm", "final.norm", bias=False)
    return arrays, fields


def _t5_feed_forward(config: Config) -> tuple[bool, str]:
    """Whether it is gated, and its activation, by feed_forward_proj; what else says so must agree.

    "gated-gelu" is GELU's tanh form, as transformers has it.
    """
    said = config.get("feed_forward_proj")
    kind, _, function = said.rpartition("-") if isinstance(said, str) else ("?", "", "")
    if kind not in ("", "gated"):
        raise CheckpointError(
            f"config.json: feed_forward_proj is {said!r}: it must be an activation, or gated- and "
            "an activation, as in gated-gelu"
        )
    gated = kind == "gated"
    function = "gelu_new" if said == "gated-gelu" else function
    for name, wanted in (("is_gated_act", gated), ("dense_act_fn", function)):
        if config.get(name) not in (None, wanted):
            raise CheckpointError(
                f"config.json: {name} is {config[name]!r}: it must be {wanted!r}, by the "
                f"feed_forward_proj {said!r}"
            )
    return gated, function


ENCODERS: dict[str, Callable[[Config, Tensors, str], Encoder]] = {
    "albert": albert,
    "bert": bert,
    "camembert": roberta,
    "clip_text_model": clip_text,
    "distilbert": distilbert,
    "electra": electra,
    "esm": rotary.esm,
    "eurobert": rotary.eurobert,
    "gte": rotary.gte,
    "jina_embeddings_v3": rotary.jina,
    "modernbert": rotary.modernbert,
    "mpnet": mpnet,
    "mt5": t5,
    "nomic_bert": rotary.nomic,
    "roberta": roberta,
    "t5": t5,
    "xlm-roberta": roberta,
}
OWN = {"bert2rtl-fused": fused, "bert2rtl-transformer": transformer}


def load(config: Config, tensors: Tensors, layout: Layout, task: str | None) -> Loaded:
    """The encoder and its head, by the config's model_type; task as in `heads.choose`."""
    family = config["model_type"]
    if family in OWN:
        asked = task or layout.task
        spec, arrays = OWN[family](config, tensors, asked)
        asked = asked or spec.task
        if asked != spec.task:
            raise CheckpointError(f"a {family} of the task {spec.task} cannot be asked for {asked}")
        return spec, arrays, []
    base = heads.BASES[family]
    prefix = tensors.prefix(base.prefix) or (tensors.prefix(base.older) if base.older else "")
    head, notes = heads.choose(base, prefix, config, tensors, layout, task)
    if base.beside and tensors.drop(f"{prefix}{base.beside}."):
        notes = [*notes, f"its {base.beside} is left out: nothing here computes it"]
    if options.replaced(family, config.get("auto_map")):
        notes = [*notes, "the code that auto_map names is not run: transformers' own class counts"]
    arrays, fields = ENCODERS[family](config, tensors, prefix)
    width = len(arrays.get("layer.0.o.bias", ()))
    behind, choices = heads.take(base, prefix, head, config, tensors, layout, width)
    if family == "eurobert" and head.kind == "ForSequenceClassification":
        fields["pooling"] = rotary.eurobert_pooling(config)
    if family == "modernbert" and head.kind in ("ForSequenceClassification", "ForMultipleChoice"):
        fields["pooling"] = rotary.modernbert_pooling(config)
    if layout.task:  # a pooling of sentence-transformers takes the place of the family's own
        fields = {name: value for name, value in fields.items() if name not in ("pooling", "end")}
    return EncoderSpec(**{**choices, **fields}), arrays | behind, notes
