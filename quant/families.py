"""How the checkpoints of each model family map to an EncoderSpec and its arrays.

One function a family, found by the config's model_type: it checks what the config asks for, takes
the tensors it knows, and leaves the rest, which the loader refuses by name.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from quant.spec import (
    CLASSIFICATION,
    EMBEDDING,
    TOKEN_CLASSIFICATION,
    Arrays,
    CheckpointError,
    EncoderSpec,
)
from quant.tensors import (
    Config,
    Tensors,
    activation,
    answers_of,
    head_size,
    integer,
    labels_of,
    number,
)
from quant.transformer import transformer


def _task(config: Config, family: str) -> str:
    """What the checkpoint is for, by its class; CheckpointError for what no encoder here has."""
    architectures = config.get("architectures") or []
    classes = {
        f"{family}ForSequenceClassification": CLASSIFICATION,
        f"{family}ForTokenClassification": TOKEN_CLASSIFICATION,
        f"{family}Model": EMBEDDING,
    }
    known = architectures if isinstance(architectures, list) else []
    tasks = [task for name, task in classes.items() if name in known]
    if not tasks:
        *most, last = classes
        raise CheckpointError(
            f"config.json: architectures is {architectures}: only {', '.join(most)} and {last} "
            "map, classifiers of texts and of tokens and an encoder that makes embeddings "
            "(fine-tune another head first)"
        )
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise CheckpointError(
            f"embedding.position: {config['position_embedding_type']!r} positions are not "
            "supported: they must be absolute"
        )
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise CheckpointError(
            "layer.0.attention: a decoder (causal or cross-attention) is not "
            "supported: only encoders are"
        )
    if config.get("pruned_heads"):
        raise CheckpointError("layer.0.attention: pruned heads are not supported")
    return tasks[0]


def bert(config: Config, tensors: Tensors) -> tuple[EncoderSpec, Arrays]:
    """BertForSequenceClassification (Devlin et al., 2019): pooler with tanh, then classifier."""
    task = _task(config, "Bert")
    arrays = _bert_encoder(config, tensors, "bert")
    if task == EMBEDDING:
        return _bert_embedder(config, tensors, arrays)
    if task == TOKEN_CLASSIFICATION:
        return _bert_token_classifier(config, tensors, arrays)
    arrays |= tensors.linear("bert.pooler.dense", "head.0")
    arrays |= tensors.linear("classifier", "head.1")
    answers = answers_of(config, arrays["head.1.weight"])
    return _bert_spec(config, arrays, head_activations=("tanh",), **answers), arrays


def roberta(config: Config, tensors: Tensors) -> tuple[EncoderSpec, Arrays]:
    """RobertaForSequenceClassification (Liu et al., 2019): positions from pad_token_id + 1 on."""
    task = _task(config, "Roberta")
    arrays = _bert_encoder(config, tensors, "roberta")
    offset = integer(config, "pad_token_id") + 1
    if task == EMBEDDING:
        return _bert_embedder(config, tensors, arrays, position_offset=offset)
    if task == TOKEN_CLASSIFICATION:
        return _bert_token_classifier(config, tensors, arrays, position_offset=offset)
    arrays |= tensors.linear("classifier.dense", "head.0")
    arrays |= tensors.linear("classifier.out_proj", "head.1")
    answers = answers_of(config, arrays["head.1.weight"])
    choices = answers | {"head_activations": ("tanh",), "position_offset": offset}
    return _bert_spec(config, arrays, **choices), arrays


def _bert_embedder(
    config: Config, tensors: Tensors, arrays: Arrays, **choices: Any
) -> tuple[EncoderSpec, Arrays]:
    """The encoder alone; its pooler, which only pre-training reads, is left out."""
    tensors.drop("pooler.", f"{config['model_type']}.pooler.")
    arrays = arrays | _identity(arrays, integer(config, "hidden_size"))
    choices |= {"labels": (), "task": EMBEDDING, "pooling": "mean"}
    return _bert_spec(config, arrays, **choices), arrays


def _bert_token_classifier(
    config: Config, tensors: Tensors, arrays: Arrays, **choices: Any
) -> tuple[EncoderSpec, Arrays]:
    """One linear layer on every token; a pooler, which it does not read, is left out."""
    tensors.drop("pooler.", f"{config['model_type']}.pooler.")
    arrays = arrays | tensors.linear("classifier", "head.0")
    choices |= _token_answers(config, arrays)
    return _bert_spec(config, arrays, **choices), arrays


def _token_answers(config: Config, arrays: Arrays) -> dict[str, Any]:
    labels = labels_of(config, arrays["head.0.weight"])
    return {"labels": labels, "task": TOKEN_CLASSIFICATION, "pooling": "none"}


def _identity(arrays: Arrays, hidden: int) -> Arrays:
    """The head of an embedding; an empty one beside a table of another width, which is refused."""
    size = hidden if arrays["embedding.token"].shape[1:] == (hidden,) else 0
    return {
        "head.0.weight": np.eye(size, dtype=np.float32),
        "head.0.bias": np.zeros(size, np.float32),
    }


def _embeddings(tensors: Tensors, source: str) -> Arrays:
    return {
        "embedding.token": tensors.take(f"{source}.word_embeddings.weight"),
        "embedding.position": tensors.take(f"{source}.position_embeddings.weight"),
        "embedding.type": tensors.take(f"{source}.token_type_embeddings.weight"),
    } | tensors.norm(f"{source}.LayerNorm", "embedding.norm")


def _bert_encoder(config: Config, tensors: Tensors, family: str) -> Arrays:
    prefix = tensors.prefix(family)
    arrays = _embeddings(tensors, f"{prefix}embeddings")
    for i in range(integer(config, "num_hidden_layers")):
        source, target = f"{prefix}encoder.layer.{i}", f"layer.{i}"
        for name in ("query", "key", "value"):
            arrays |= tensors.linear(f"{source}.attention.self.{name}", f"{target}.{name[0]}")
        arrays |= tensors.linear(f"{source}.attention.output.dense", f"{target}.o")
        arrays |= tensors.norm(f"{source}.attention.output.LayerNorm", f"{target}.norm1")
        arrays |= tensors.linear(f"{source}.intermediate.dense", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{source}.output.dense", f"{target}.ffn.down")
        arrays |= tensors.norm(f"{source}.output.LayerNorm", f"{target}.norm2")
    return arrays


def _bert_spec(config: Config, arrays: Arrays, **choices: Any) -> EncoderSpec:
    hidden, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    return EncoderSpec(
        layers=choices.pop("layers", None) or integer(config, "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        head_size=head_size(hidden, heads),
        ffn=integer(config, "intermediate_size"),
        vocabulary=arrays["embedding.token"].shape[0],
        positions=integer(config, "max_position_embeddings"),
        types=integer(config, "type_vocab_size"),
        activation=activation(config, "hidden_act"),
        epsilon=number(config, "layer_norm_eps", 1e-12),
        **choices,
    )


def distilbert(config: Config, tensors: Tensors) -> tuple[EncoderSpec, Arrays]:
    """DistilBertForSequenceClassification (Sanh et al., 2019): no segments, a head with ReLU."""
    task = _task(config, "DistilBert")
    prefix = tensors.prefix("distilbert")
    embeddings = f"{prefix}embeddings"
    arrays = {
        "embedding.token": tensors.take(f"{embeddings}.word_embeddings.weight"),
        "embedding.position": tensors.take(f"{embeddings}.position_embeddings.weight"),
    } | tensors.norm(f"{embeddings}.LayerNorm", "embedding.norm")
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
    choices: dict[str, Any]
    if task == EMBEDDING:
        arrays |= _identity(arrays, integer(config, "dim"))
        choices = {"labels": (), "task": EMBEDDING, "pooling": "mean"}
    elif task == TOKEN_CLASSIFICATION:
        arrays |= tensors.linear("classifier", "head.0")
        choices = _token_answers(config, arrays)
    else:
        arrays |= tensors.linear("pre_classifier", "head.0")
        arrays |= tensors.linear("classifier", "head.1")
        answers = answers_of(config, arrays["head.1.weight"])
        choices = answers | {"head_activations": ("relu",)}
    hidden, heads = integer(config, "dim"), integer(config, "n_heads")
    spec = EncoderSpec(
        layers=layers,
        hidden=hidden,
        heads=heads,
        head_size=head_size(hidden, heads),
        ffn=integer(config, "hidden_dim"),
        vocabulary=arrays["embedding.token"].shape[0],
        positions=integer(config, "max_position_embeddings"),
        activation=activation(config, "activation"),
        **choices,
    )
    return spec, arrays


def electra(config: Config, tensors: Tensors) -> tuple[EncoderSpec, Arrays]:
    """ElectraForSequenceClassification (Clark et al., 2020): a head with GELU."""
    task = _task(config, "Electra")
    size, hidden = _embedding_size(config)
    prefix = tensors.prefix("electra")
    arrays = _bert_encoder(config, tensors, "electra")
    choices: dict[str, Any] = {}
    if size != hidden:
        project = f"{prefix}embeddings_project"
        arrays |= _factorised(tensors, project, arrays, size, hidden)
        choices = {"embedding_size": size}
    if task == EMBEDDING:
        return _bert_embedder(config, tensors, arrays, **choices)
    if task == TOKEN_CLASSIFICATION:
        return _bert_token_classifier(config, tensors, arrays, **choices)
    arrays |= tensors.linear("classifier.dense", "head.0")
    arrays |= tensors.linear("classifier.out_proj", "head.1")
    choices |= answers_of(config, arrays["head.1.weight"])
    return _bert_spec(config, arrays, head_activations=("gelu",), **choices), arrays


def albert(config: Config, tensors: Tensors) -> tuple[EncoderSpec, Arrays]:
    """AlbertForSequenceClassification (Lan et al., 2020): the layers of a group share weights."""
    task = _task(config, "Albert")
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
    prefix = tensors.prefix("albert")
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
    choices: dict[str, Any] = {"embedding_size": size, "layers": len(encoder)}
    if task == EMBEDDING:
        return _bert_embedder(config, tensors, arrays, **choices)
    if task == TOKEN_CLASSIFICATION:
        return _bert_token_classifier(config, tensors, arrays, **choices)
    arrays |= tensors.linear(f"{prefix}pooler", "head.0")
    arrays |= tensors.linear("classifier", "head.1")
    choices |= answers_of(config, arrays["head.1.weight"])
    return _bert_spec(config, arrays, head_activations=("tanh",), **choices), arrays


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


def fused(config: Config, tensors: Tensors) -> tuple[EncoderSpec, Arrays]:
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
    return _bert_spec(config, arrays, **answers_of(config, arrays["head.0.weight"])), arrays


FAMILIES: dict[str, Callable[[Config, Tensors], tuple[EncoderSpec, Arrays]]] = {
    "bert": bert,
    "roberta": roberta,
    "distilbert": distilbert,
    "electra": electra,
    "albert": albert,
    "bert2rtl-fused": fused,
    "bert2rtl-transformer": transformer,
}

_RELATIVE = "layer.0.scores: relative positions would need a bias for each query and key"
_ROTARY = "layer.0.q: rotary positions would turn Q and K after their projection"
_CAUSAL = "layer.0.attention: a decoder, whose mask differs from query to query"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("deberta", "deberta-v2", "mpnet", "t5", "mt5", "longt5"), _RELATIVE),
    **dict.fromkeys(("modernbert", "nomic_bert", "roformer"), _ROTARY),
    **dict.fromkeys(("gpt2", "gpt_neo", "gpt_neox", "llama", "mistral", "opt", "qwen2"), _CAUSAL),
    **dict.fromkeys(("longformer", "big_bird"), "layer.0.attention: only some keys of each query"),
    "funnel": "layer.0: its sequences get shorter from layer to layer",
    "xlnet": _RELATIVE,
}
"""What families that the hardware cannot express need, by their model_type (docs/models.md)."""
