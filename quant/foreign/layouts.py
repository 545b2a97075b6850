"""The families of `transformers`: where the arrays of an encoder and its head stand.

A family is one row of FAMILIES (docs/extending.md): names of tensors, names of options, heads. What
the row does not say shows when `quant.foreign.proof` runs transformers' own model beside this one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from golden.model import Window
from quant.foreign.config import Options
from quant.foreign.rope import rope
from quant.foreign.sentence import Layout
from quant.foreign.tensors import (
    Tensors,
    activation,
    answers_of,
    head_size,
    identity,
    integer,
    labels_of,
    number,
)
from quant.model.position_bias import BIAS
from quant.model.rotary import neighbours, shared, tables
from quant.model.spec import (
    CLASSIFICATION,
    EMBEDDING,
    EVERY_TOKEN,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    SIGMOID,
    TOKEN_CLASSIFICATION,
    Arrays,
    CheckpointError,
    EncoderSpec,
    Floats,
)
from quant.model.window import CAUSAL

POOLER = "pooler"
"""Stands for the layer on the first token that belongs to the encoder."""
MOST = {"layers": 1000, "positions": 1 << 20}
"""Far beyond every model; more would fill the memory before a tensor is missed."""
TYPES, LOCAL = "layer_types", "sliding_attention"


@dataclass(frozen=True)
class Head:
    """A head: its task and its linear layers, by the names of their tensors.

    between: the activation after each but the last; "" for the one that classifier_activation
    names. norm: of the LayerNorm before the last layer. labels: names that config.json does not
    have; the last layer then has as many outputs.
    """

    task: str
    layers: tuple[str, ...] = ()
    between: str = ""
    norm: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A family: the names of its classes, tensors and options.

    name: what the names of its classes begin with. prefixes: what the names of the encoder's
    tensors begin with, unless it was saved alone. heads: by the end of the class's name, in the
    order in which they are tried where config.json names none.
    tables, layer, parts: our names to its own, outside of the layers, of layer {}, below it; two of
    ours share one tensor as "q k". "a|b" are two names of one table. pooler: its layer on the first
    token.
    config: fields of EncoderSpec and their options, or functions of all options. fixed: fields that
    every model has. poolings: what classifier_pooling may be. buckets: options or numbers of the
    table of relative positions. stack: names of the layers where each is not a tensor's own.
    adapt: a last change of arrays and fields.
    beside: beginnings of names of tensors that are left out, with a note. renamed: older names of
    options. must: options of older code, which nothing follows, by the only value they may have.
    """

    name: str
    prefixes: tuple[str, ...]
    heads: Mapping[str, Head]
    tables: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    pooler: str = "pooler.dense"
    config: Mapping[str, str | Callable[[Options], Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    poolings: Mapping[str, str] = field(default_factory=dict)
    buckets: tuple[str | int, str | int] = (0, 0)
    stack: Callable[[Options, str], list[str]] | None = None
    adapt: Callable[[Options, Arrays, dict[str, Any]], None] | None = None
    beside: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    must: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own(self) -> set[str]:
        """What the names of an encoder's tensors begin with where it was saved alone."""
        names = "|".join([*self.tables.values(), self.layer, self.pooler, *self.also])
        return {name.split(".")[0] for name in names.split("|")}


_CONFIG: dict[str, str | Callable[[Options], Any]] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
    "types": "type_vocab_size",
    "activation": "hidden_act",
    "epsilon": "layer_norm_eps",
}


def _causal(config: Options) -> tuple[Window, ...]:
    """All layers of a decoder are causal, unless is_causal takes that back."""
    decoder, causal = config.said("is_decoder"), config.said("is_causal")
    causal = decoder if causal is None else causal
    if causal and not decoder:
        raise CheckpointError(
            "config.json: layer.0.attention: whether the mask is causal depends, in transformers' "
            "own class, on padding and on the implementation of attention: take is_causal out, or "
            "set is_decoder where all layers are causal"
        )
    return (CAUSAL,) * integer(config, "num_hidden_layers") if causal else ()


def _factorised(config: Options) -> int:
    size, hidden = integer(config, "embedding_size"), integer(config, "hidden_size")
    if size > hidden:
        raise CheckpointError(
            f"embedding.projection: an embedding of {size} channels does not fit the residual "
            f"stream, whose place it takes until it is projected: at most the hidden size, {hidden}"
        )
    return size


def _groups(config: Options) -> int:
    groups = config["num_key_value_heads"] or config["num_attention_heads"]
    return 0 if groups == config["num_attention_heads"] else groups


def _after_padding(config: Options) -> int:
    return integer(config, "pad_token_id") + 1


def _albert_layers(config: Options, layer: str) -> list[str]:
    """The layers of a group share weights."""
    layers, groups, inner = (
        integer(config, name)
        for name in ("num_hidden_layers", "num_hidden_groups", "inner_group_num")
    )
    if not 1 <= groups <= layers or inner < 1:
        raise CheckpointError(
            f"config.json: num_hidden_groups is {groups} and inner_group_num {inner}: they must be "
            f"1 to num_hidden_layers, {layers}, and 1 or more"
        )
    names = (layer.format(int(i / (layers / groups))) for i in range(layers))
    return [f"{name}.albert_layers.{j}" for name in names for j in range(inner)]


def _windows(config: Options) -> tuple[Window | None, ...]:
    reach, kinds = integer(config, "local_attention") // 2, config[TYPES]
    local = Window(reach, reach)
    found = tuple(local if kind == LOCAL else None for kind in kinds)
    return found if any(found) else ()


def _masked(config: Options, arrays: Arrays, fields: dict[str, Any]) -> None:
    """ESM's token_dropout: training masked 0.15 * 0.8 of the embeddings, and a mask is zero."""
    if config["token_dropout"]:
        mask, table = integer(config, "mask_token_id"), arrays["embedding.token"]
        if not 0 <= mask < len(table):
            raise CheckpointError(
                f"config.json: mask_token_id is {mask}: it must be a row of the embedding, 0 to "
                f"{len(table) - 1}"
            )
        arrays["embedding.token"] = (table * (1 - 0.15 * 0.8)).astype(np.float32)
        arrays["embedding.token"][mask] = 0
        fields["unread"] = mask


def _undivided(config: Options, arrays: Arrays, fields: dict[str, Any]) -> None:
    """T5's scores are not divided by sqrt(d): Q takes that factor."""
    for i in range(fields["layers"]):
        name = f"layer.{i}.q.weight"
        arrays[name] = arrays[name] * np.float32(sqrt(fields["head_size"]))


def _task_added(config: Options, arrays: Arrays, fields: dict[str, Any]) -> None:
    """ERNIE adds the embedding of the task 0 to every token."""
    task = arrays.pop("embedding.task", None)
    if task is not None:
        arrays["embedding.type"] = arrays["embedding.type"] + task[0]


def _heads(sequence: Head, choice: tuple[str, ...] = (), words: str = "classifier",
           answer: bool = True) -> dict[str, Head]:  # fmt: skip
    """The heads that families have for texts, tokens, questions and choices, and none at all."""
    asked = Head(QUESTION_ANSWERING, ("qa_outputs",), labels=("start", "end"))
    chosen = Head(REGRESSION, choice, sequence.between, labels=("score",))
    return {
        "ForSequenceClassification": sequence,
        "ForTokenClassification": Head(TOKEN_CLASSIFICATION, (words,)),
        **({"ForQuestionAnswering": asked} if answer else {}),
        **({"ForMultipleChoice": chosen} if choice else {}),
        "Model": Head(EMBEDDING),
    }


def _parts(q: str, o: str, up: str, down: str, norm1: str, norm2: str, **more: str
           ) -> dict[str, str]:  # fmt: skip
    """q: a template with {} for q, k, v; without one a fused projection."""
    qkv = {n: q.format(n) for n in "qkv"} if "{}" in q else {"q k v": q}
    rest = {"o": o, "ffn.up": up, "ffn.down": down, "norm1": norm1, "norm2": norm2}
    return qkv | rest | {f"ffn.{name}": part for name, part in more.items()}


def _bert_parts(norm1: str, norm2: str) -> dict[str, str]:
    names = ("attention.output.dense", "intermediate.dense", "output.dense", norm1, norm2)
    inputs = {n[0]: f"attention.self.{n}" for n in ("query", "key", "value")}
    return _parts("{}", *names) | inputs


_ON_POOLER, _ON_FIRST = (POOLER, "classifier"), ("classifier.dense", "classifier.out_proj")
_POOLED = Head(CLASSIFICATION, _ON_POOLER, "tanh")
_FIRST = Head(CLASSIFICATION, _ON_FIRST, "tanh")
_TABLES = {
    "embedding.token": "embeddings.word_embeddings",
    "embedding.position": "embeddings.position_embeddings",
    "embedding.type": "embeddings.token_type_embeddings",
    "embedding.norm": "embeddings.LayerNorm",
}
_PARTS = _bert_parts("attention.output.LayerNorm", "output.LayerNorm")
_NEXT = Head(
    CLASSIFICATION, (POOLER, "cls.seq_relationship"), "tanh", labels=("is next", "is not next")
)
_LAYERS = "encoder.layer.{}"
_BERT: dict[str, Any] = {
    "tables": _TABLES, "layer": _LAYERS, "parts": _PARTS, "config": {"windows": _causal},
}  # fmt: skip
_ROBERTA: dict[str, Any] = _BERT | {
    "heads": _heads(_FIRST, _ON_POOLER),
    "config": {"windows": _causal, "position_offset": _after_padding},
}
_WITHOUT_TYPES = {name: there for name, there in _TABLES.items() if name != "embedding.type"}
_ROTARY_TABLES = {
    "embedding.token": "embeddings.word_embeddings",
    "embedding.type": "embeddings.token_type_embeddings",
    "embedding.norm": "emb_ln",
}
_DISTIL = ("pre_classifier", "classifier")
_CLIP_PARTS = _parts("self_attn.{}_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2",
                     "layer_norm1", "layer_norm2")  # fmt: skip
_WI = "layer.1.DenseReluDense.wi"
_T5: dict[str, Any] = {
    "prefixes": ("transformer",),
    "heads": {
        "EncoderModel": Head(EMBEDDING),
        "ForTokenClassification": Head(TOKEN_CLASSIFICATION, ("classifier",)),
    },
    "tables": {
        "embedding.token": "shared|encoder.embed_tokens",
        "final.norm": "encoder.final_layer_norm",
        BIAS: "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    },
    "layer": "encoder.block.{}",
    "parts": {n: f"layer.0.SelfAttention.{n}" for n in "qkvo"}
    | {"ffn.gate": f"{_WI}_0", "ffn.up": f"{_WI}_1|{_WI}", "ffn.down": "layer.1.DenseReluDense.wo"}
    | {"norm1": "layer.0.layer_norm", "norm2": "layer.1.layer_norm"},
    "config": {
        "layers": "num_layers",
        "hidden": "d_model",
        "heads": "num_heads",
        "ffn": "d_ff",
        "head_size": "d_kv",
        "epsilon": "layer_norm_epsilon",
        "activation": "dense_act_fn",
        "gated": lambda config: bool(config["is_gated_act"]),
    },
    # The length that it was trained on.
    "fixed": {"positions": 512, "types": 0, "norm": "pre", "embedding_norm": False}
    | {"rms_norm": True},
    "buckets": ("relative_attention_num_buckets", "relative_attention_max_distance"),
    "adapt": _undivided,
    "beside": ("decoder.",),
}
_MODERN: dict[str, Any] = {
    "layers": ("head.dense", "classifier"), "between": "", "norm": "head.norm",
}  # fmt: skip

FAMILIES: dict[str, Family] = {
    "albert": Family(
        "Albert", ("albert",), _heads(_POOLED, _ON_POOLER),
        _TABLES | {"embedding.projection": "encoder.embedding_hidden_mapping_in"},
        "encoder.albert_layer_groups.{}",
        {n[0]: f"attention.{n}" for n in ("query", "key", "value")}
        | {"o": "attention.dense", "ffn.up": "ffn", "ffn.down": "ffn_output",
           "norm1": "attention.LayerNorm", "norm2": "full_layer_layer_norm"},
        "pooler", {"embedding_size": _factorised}, stack=_albert_layers,
    ),
    "bert": Family(
        "Bert", ("bert",),
        _heads(_POOLED, _ON_POOLER) | {"ForNextSentencePrediction": _NEXT}, **_BERT
    ),
    "bert2rtl-fused": Family(
        "bert2rtl-fused", (), {"": Head(CLASSIFICATION, ("classifier",))},
        {"embedding.token": "embeddings.word", "embedding.position": "embeddings.position",
         "embedding.type": "embeddings.segment", "embedding.norm": "embeddings.norm"},
        "layers.{}",
        _parts("qkv", "attention", "intermediate", "output", "attention_norm", "output_norm"),
        beside=("mlm.",),
    ),
    "camembert": Family("Camembert", ("roberta",), **_ROBERTA),
    "chinese_clip_text_model": Family(
        "ChineseCLIP", ("text_model",),
        {"TextModel": Head(EMBEDDING), "Model": Head(EMBEDDING, ("text_projection",))},
        fixed={"pooling": "first"}, beside=("vision_model.", "visual_projection.", "logit_scale"),
        **_BERT,
    ),
    "clip_text_model": Family(
        "CLIP", ("text_model",),
        {
            "TextModel": Head(EMBEDDING),
            "TextModelWithProjection": Head(EMBEDDING, ("text_projection",)),
            "Model": Head(EMBEDDING, ("text_projection",)),
        },
        {
            "embedding.token": "embeddings.token_embedding",
            "embedding.position": "embeddings.position_embedding",
            "final.norm": "final_layer_norm",
        },
        "encoder.layers.{}", _CLIP_PARTS,
        # Older files say 2, and mean the largest id of a text.
        config={"end": lambda c: None if c["eos_token_id"] == 2 else integer(c, "eos_token_id"),
                "windows": lambda c: (CAUSAL,) * integer(c, "num_hidden_layers")},
        fixed={"types": 0, "norm": "pre", "embedding_norm": False, "pooling": "last"},
        beside=("vision_model.", "visual_projection.", "logit_scale"),
    ),
    "data2vec-text": Family("Data2VecText", ("data2vec_text",), **_ROBERTA),
    "distilbert": Family(
        "DistilBert", ("distilbert",),
        _heads(Head(CLASSIFICATION, _DISTIL, "relu"), _DISTIL),
        _WITHOUT_TYPES, "transformer.layer.{}",
        _parts("attention.{}_lin", "attention.out_lin", "ffn.lin1", "ffn.lin2", "sa_layer_norm",
               "output_layer_norm"),
        config={"layers": "n_layers", "hidden": "dim", "heads": "n_heads", "ffn": "hidden_dim",
                "activation": "activation"},
        fixed={"types": 0, "epsilon": 1e-12},
    ),
    "electra": Family(
        "Electra", ("electra",), _heads(Head(CLASSIFICATION, _ON_FIRST, "gelu")),
        _TABLES | {"embedding.projection": "embeddings_project"}, _LAYERS, _PARTS,
        config={
            "windows": _causal,
            "embedding_size": lambda c: _factorised(c) % integer(c, "hidden_size"),
        },
    ),
    "ernie": Family(
        "Ernie", ("ernie",), _heads(_POOLED, _ON_POOLER) | {"ForNextSentencePrediction": _NEXT},
        **_BERT | {"tables": _TABLES | {"embedding.task": "embeddings.task_type_embeddings"}},
        adapt=_task_added,
    ),
    "esm": Family(
        "Esm", ("esm",), _heads(_FIRST, answer=False),
        {
            "embedding.token": "embeddings.word_embeddings",
            "embedding.position": "embeddings.position_embeddings",
            "embedding.norm": "embeddings.layer_norm",
            "final.norm": "encoder.emb_layer_norm_after",
        },
        _LAYERS, _bert_parts("attention.LayerNorm", "LayerNorm"),
        config={
            "embedding_norm": lambda c: bool(c["emb_layer_norm_before"]),
            "rotary": lambda c: c["position_embedding_type"] == "rotary",
            "position_offset": lambda c: (
                0 if c["position_embedding_type"] == "rotary" else _after_padding(c)
            ),
        },
        fixed={"types": 0, "norm": "pre", "activation": "gelu"},
        adapt=_masked, beside=("contact_head.",), also=("contact_head", "rotary_embeddings"),
        must={"hidden_act": "gelu", "position_embedding_type": ("rotary", "absolute")},
    ),
    "eurobert": Family(
        "EuroBert", ("model",),
        _heads(Head(CLASSIFICATION, ("dense", "classifier"), "gelu"), answer=False),
        {"embedding.token": "embed_tokens", "final.norm": "norm"}, "layers.{}",
        _parts("self_attn.{}_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj",
               "input_layernorm", "post_attention_layernorm", gate="mlp.gate_proj"),
        config={"epsilon": "rms_norm_eps", "kv_heads": _groups},
        fixed={"types": 0, "rotary": True, "gated": True, "rms_norm": True, "norm": "pre",
               "embedding_norm": False},
        poolings={"bos": "first", "mean": "mean"},
        must={"clf_pooling": "late"},  # of its remote code, which calls classifier_pooling so
    ),
    "gte": Family(
        "Gte", ("gte", "new"), _heads(_POOLED, answer=False),
        _ROTARY_TABLES | {"embedding.norm": "embeddings.LayerNorm"}, _LAYERS,
        {"q k v": "attention.qkv_proj", "o": "attention.o_proj", "ffn.up ffn.gate":
         "mlp.up_gate_proj", "ffn.down": "mlp.down_proj", "norm1": "attn_ln", "norm2": "mlp_ln"},
        fixed={"rotary": True, "gated": True},
        must={"position_embedding_type": "rope", "layer_norm_type": "layer_norm",
              "logn_attention_scale": False},
    ),
    "jina_embeddings_v3": Family(
        "JinaEmbeddingsV3", ("roberta",), _heads(_FIRST), _ROTARY_TABLES, "encoder.layers.{}",
        _parts("mixer.Wqkv", "mixer.out_proj", "mlp.fc1", "mlp.fc2", "norm1", "norm2"),
        fixed={"rotary": True},
    ),
    "megatron-bert": Family(
        "MegatronBert", ("bert",),
        _heads(_POOLED, _ON_POOLER) | {"ForNextSentencePrediction": _NEXT},
        {n: t for n, t in _TABLES.items() if n != "embedding.norm"} | {"final.norm": "encoder.ln"},
        _LAYERS, _bert_parts("attention.ln", "ln"),
        config={"windows": _causal}, fixed={"norm": "pre", "embedding_norm": False},
    ),
    "modernbert": Family(
        "ModernBert", ("model",),
        {
            "Model": Head(EMBEDDING),
            "ForSequenceClassification": Head(CLASSIFICATION, **_MODERN),
            "ForTokenClassification": Head(TOKEN_CLASSIFICATION, **_MODERN),
            "ForQuestionAnswering":
                Head(QUESTION_ANSWERING, labels=("start", "end"), **_MODERN),
            "ForMultipleChoice": Head(REGRESSION, labels=("score",), **_MODERN),
        },
        {"embedding.token": "embeddings.tok_embeddings", "embedding.norm": "embeddings.norm",
         "final.norm": "final_norm"},
        "layers.{}",
        {"q k v": "attn.Wqkv", "o": "attn.Wo", "ffn.gate ffn.up": "mlp.Wi", "ffn.down": "mlp.Wo",
         "norm1": "attn_norm", "norm2": "mlp_norm"},
        config={"activation": "hidden_activation", "epsilon": "norm_eps", "windows": _windows},
        fixed={"types": 0, "rotary": True, "gated": True, "norm": "pre", "first_norm": False},
        poolings={"cls": "first", "mean": "mean"},
    ),
    "mpnet": Family(
        "MPNet", ("mpnet",), _heads(_FIRST, _ON_POOLER),
        _WITHOUT_TYPES | {BIAS: "encoder.relative_attention_bias"}, _LAYERS,
        _parts("attention.attn.{}", "attention.attn.o", "intermediate.dense", "output.dense",
               "attention.LayerNorm", "output.LayerNorm"),
        # In its code, whatever config.json says: padding is 1, and these are the buckets.
        fixed={"types": 0, "position_offset": 2}, buckets=(32, 128),
    ),
    "mt5": Family("MT5", **_T5),
    "nomic_bert": Family(
        "NomicBert", ("nomic_bert",), _heads(_POOLED, answer=False), _ROTARY_TABLES,
        "encoder.layers.{}",
        _parts("attn.Wqkv", "attn.out_proj", "mlp.fc11", "mlp.fc2", "norm1", "norm2",
               gate="mlp.fc12"),
        fixed={"rotary": True, "gated": True},
        renamed={"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer":
                 "num_hidden_layers", "n_inner": "intermediate_size", "n_positions":
                 "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps",
                 "rotary_emb_base": "rope_theta"},
        must={"activation_function": "swiglu", "rotary_emb_fraction": 1.0, "prenorm": False,
              "scale_attn_weights": True, "parallel_block": False, "use_rms_norm": False,
              "causal": False, "rotary_emb_interleaved": False, "rotary_scaling_factor": None},
    ),
    "roberta": Family("Roberta", ("roberta",), **_ROBERTA),
    "t5": Family("T5", **_T5),
    "xlm-roberta": Family("XLMRoberta", ("roberta",), **_ROBERTA),
}  # fmt: skip
"""By model_type."""


def load(
    family: Family, config: Options, tensors: Tensors, layout: Layout, task: str | None
) -> tuple[EncoderSpec, Arrays, list[str], str]:
    """The spec and arrays of a checkpoint, notes on it, and its class in `transformers`.

    task: the one that is asked for, None for the checkpoint's own. Raises CheckpointError for a
    tensor that is missing, an option that no row follows, and a head that nothing here computes.
    """
    for name, value in family.must.items():
        allowed = value if isinstance(value, tuple) else (None, value)
        if (said := config.said(name)) not in allowed:
            raise CheckpointError(
                f"config.json: {name} is {said!r}, which nothing here follows: it must be "
                f"{' or '.join(repr(one) for one in allowed if one is not None)}"
            )
    found = [name for name in map(tensors.prefix, family.prefixes) if name]
    reading = _Reading(family, found[0] if found else "", config, tensors, layout)
    kind, notes = reading.choose(task or layout.task)
    arrays, fields = reading.encoder()
    behind, choices = reading.head(family.heads[kind], len(arrays.get("layer.0.o.bias", ())))
    if layout.task:  # a pooling of sentence-transformers takes the place of the family's own
        fields = {name: value for name, value in fields.items() if name not in ("pooling", "end")}
    if config.said("auto_map"):
        notes.append("the code that auto_map names is not run: transformers' own class counts")
    twin = f"{family.name}{kind}" if family.prefixes else ""
    return EncoderSpec(**choices | fields), arrays | behind, notes, twin


@dataclass(frozen=True)
class _Reading:
    """A checkpoint as a row reads it. prefix: how the names of its encoder's tensors begin."""

    family: Family
    prefix: str
    config: Options
    tensors: Tensors
    layout: Layout

    def choose(self, asked: str | None) -> tuple[str, list[str]]:
        """The kind of the head, and notes on the choice.

        asked: a task. Without one config.json names the kind (architectures), or without that name
        the tensors behind the encoder do.
        """
        family, tensors = self.family, self.tensors
        left = {f"{self.prefix}{name}" for name in family.beside} | set(family.beside)
        dropped = {n.removeprefix(self.prefix).split(".")[0] for n in tensors.drop(*left)}
        out = f"{' and '.join(sorted(dropped))} is left out: nothing here computes it"
        notes = [out] if dropped else []
        behind = [name for name in sorted(tensors.names) if not self._of_encoder(name)]
        fitting = [kind for kind, head in family.heads.items() if self._fits(head, behind)]
        allowed = [kind for kind, head in family.heads.items() if head.task == EMBEDDING]
        if asked == EMBEDDING and allowed:
            tensors.drop(*behind)
            head = [f"its head ({behind[0]} ...) is left out"] if behind else []
            return allowed[0], [*head, *notes]
        names = " or ".join(f"{family.name}{kind}" for kind in family.heads)
        if asked is not None:
            one = CLASSIFICATION if asked in (MULTI_LABEL, REGRESSION) else asked
            for kind in fitting:
                if family.heads[kind].task in (asked, one):
                    return kind, notes
            raise CheckpointError(f"the weights have no head for the task {asked}: {names} have")
        if (classes := self.config["architectures"]) and family.prefixes:
            for name in map(str, classes if isinstance(classes, list) else ()):
                kind = name.removeprefix(family.name)
                if name.startswith(family.name) and kind in family.heads:
                    return kind, notes
            raise CheckpointError(
                f"config.json: architectures is {classes}: nothing here computes its head, which "
                f"must be that of {names}; --task {EMBEDDING} takes the encoder without it"
            )
        if not fitting:
            raise CheckpointError(
                f"config.json names no architectures, and the tensors behind the encoder "
                f"({', '.join(behind) or 'none'}) are not those of {names}; --task {EMBEDDING} "
                "takes the encoder without a head"
            )
        named = f"config.json names no architectures: by its weights {family.name}{fitting[0]}"
        return fitting[0], [named, *notes] if family.prefixes else notes

    def _of_encoder(self, name: str) -> bool:
        if self.prefix:
            return name.startswith(self.prefix)
        return name.split(".")[0] in self.family.own

    def _fits(self, head: Head, behind: Sequence[str]) -> bool:
        """Whether the tensors behind the encoder are those of this head."""
        layers = [name for name in (*head.layers, head.norm) if name and name != POOLER]
        needed = {f"{name}.weight" for name in layers}
        last = self.tensors.width(f"{head.layers[-1]}.weight") if head.layers else 0
        pooled = f"{self.prefix}{self.family.pooler}.weight" in self.tensors
        return (
            needed <= set(behind) <= needed | {f"{name}.bias" for name in layers}
            and (POOLER not in head.layers or pooled)
            and (not head.labels or last == len(head.labels))
        )

    def encoder(self) -> tuple[Arrays, dict[str, Any]]:
        """The arrays in front of the head, and the fields of EncoderSpec."""
        family, tensors, fields = self.family, self.tensors, self._fields()
        arrays: Arrays = {}
        rotary = fields.pop("rotary", False)
        task = f"{self.prefix}{family.tables.get('embedding.task')}.weight"
        absent = {
            "embedding.position": rotary,
            "embedding.type": not fields["types"],
            "embedding.norm": not fields.get("embedding_norm", True),
            "embedding.projection": not fields.get("embedding_size"),
            "embedding.task": task not in tensors,
        }
        for name, there in family.tables.items():
            names, source = self._place("", there)
            if absent.get(name):
                tensors.drop(*(f"{x}." for x in names) if name == "embedding.position" else ())
            elif name.endswith("norm"):
                arrays |= tensors.norm(source, name, not fields.get("rms_norm"))
            elif name.endswith("projection"):
                arrays |= tensors.linear(source, name)
            elif name == BIAS:
                count, far = (x if isinstance(x, int) else integer(self.config, x)
                              for x in family.buckets)  # fmt: skip
                rows = len(arrays.get("embedding.position", ())) or fields["positions"]
                tokens = rows - fields.get("position_offset", 0)
                arrays |= tensors.position_bias(f"{source}.weight", count, far, tokens)
                fields["position_bias"] = True
            else:
                arrays[name] = tensors.take(f"{source}.weight")
                tensors.drop(*(f"{x}.weight" for x in names))  # one table by two names
        layers = [family.layer.format(i) for i in range(fields["layers"])]
        layers = family.stack(self.config, family.layer) if family.stack else layers
        fields["layers"] = len(layers)
        own = {name: self._layer(name, fields) for name in dict.fromkeys(layers)}
        for i, name in enumerate(layers):
            arrays |= {f"layer.{i}.{part}": array for part, array in own[name].items()}
        if family.adapt:
            family.adapt(self.config, arrays, fields)
        if fields.get("embedding_size"):
            _widen(arrays, fields)
        if "embedding.token" in arrays and "embedding.position" not in arrays:
            size = (fields["positions"], arrays["embedding.token"].shape[-1])
            arrays["embedding.position"] = np.zeros(size, np.float32)
        if rotary:
            self._rotate(arrays, fields)
        if groups := fields.get("kv_heads"):
            if not isinstance(groups, int) or fields["heads"] % groups:
                raise CheckpointError(
                    f"config.json: num_key_value_heads is {groups!r}: it must be a divisor of "
                    f"num_attention_heads, {fields['heads']}"
                )
            for i in range(fields["layers"]):
                arrays |= shared(arrays, f"layer.{i}", fields["heads"], groups)
        return arrays, fields

    def _place(self, inside: str, there: str) -> tuple[list[str], str]:
        """The names that a table or layer may have, and the one that it has."""
        names = [f"{self.prefix}{inside}{name}" for name in there.split("|")]
        return names, next((name for name in names if f"{name}.weight" in self.tensors), names[0])

    def _fields(self) -> dict[str, Any]:
        family, config = self.family, self.config
        if family.fixed.get("rotary"):
            config.complete()  # its class makes rope_parameters of older options
        fields: dict[str, Any] = {}
        for name, option in (_CONFIG | dict(family.config)).items():
            if name in family.fixed:
                continue
            if callable(option):
                fields[name] = option(config)
                continue
            read: Any = {"activation": activation, "epsilon": number}.get(name, integer)
            fields[name] = read(config, option)
            if fields[name] > (most := MOST.get(name, fields[name])):
                raise CheckpointError(
                    f"config.json: {option} is {fields[name]}: it must be at most {most:,}"
                )
        fields |= family.fixed
        if "head_size" not in fields:
            fields["head_size"] = head_size(fields["hidden"], fields["heads"])
        return fields

    def _layer(self, layer: str, fields: dict[str, Any]) -> Arrays:
        """The arrays of one layer, by their names below it."""
        arrays: Arrays = {}
        for ours, there in self.family.parts.items():
            if ours == "ffn.gate" and not fields.get("gated"):
                continue
            _, name = self._place(f"{layer}.", there)
            if not ours.startswith("norm"):
                arrays |= self.tensors.linear(name, *ours.split())
            elif fields.get("first_norm", True) or f"{name}.weight" in self.tensors:
                arrays |= self.tensors.norm(name, ours, not fields.get("rms_norm"))
        return arrays

    def _rotate(self, arrays: Arrays, fields: dict[str, Any]) -> None:
        """Rotary positions: a table for each type of layer, and channels of Q and K in pairs."""
        config, size, layers = self.config, fields["head_size"], fields["layers"]
        if size % 2 or config.said("head_dim") not in (None, size):
            raise CheckpointError(
                f"layer.0.q: a head has {size} channels, and head_dim is "
                f"{config.said('head_dim')!r}: it must be the hidden size over the heads, and "
                "even, since they are turned in pairs"
            )
        kinds = config.said(TYPES) or ["full_attention"] * layers
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise CheckpointError(f"config.json: {TYPES} is {kinds!r}: one of each layer is needed")
        used = list(dict.fromkeys(kinds))
        given = config["rope_parameters"] or {"rope_theta": config["rope_theta"]}
        end = "rotary_embeddings.inv_freq"
        kept = sorted((name for name in self.tensors.names if name.endswith(end)), key=len)
        own = [self.tensors.take(name) for name in kept]  # of each layer in old files of ESM
        for j, kind in enumerate(used):
            found = rope(given[kind] if isinstance(given, dict) and kind in given else given, size)
            frequencies = own[0].astype(np.float32) if own else found.frequencies
            if frequencies.shape != (size // 2,):
                raise CheckpointError(
                    f"{kept[0]} has shape {frequencies.shape}: a head of {size} channels needs "
                    f"{size // 2}"
                )
            cos_sin = tables(frequencies, fields["positions"], size)
            arrays |= {f"rotary.{j}.{n}": x for n, x in zip(("cos", "sin"), cos_sin, strict=True)}
            for i in (i for i in range(layers) if kinds[i] == kind):
                for name in (f"layer.{i}.{k}.{part}" for k in "qk" for part in ("weight", "bias")):
                    # what turns is at most 1: Q and K take the factor
                    arrays[name] = arrays[name] * np.float32(found.factor)
                arrays |= neighbours(arrays, f"layer.{i}", size, size)
        fields["rotary"] = tuple(used.index(kind) for kind in kinds)

    def head(self, head: Head, width: int) -> tuple[Arrays, dict[str, Any]]:
        """The arrays of a head, and the fields of EncoderSpec that it decides.

        width: of what the encoder gives. A pooler that the head does not read is left out.
        """
        arrays: Arrays = {}
        config, pooler = self.config, f"{self.prefix}{self.family.pooler}"
        for j, name in enumerate(head.layers):
            arrays |= self.tensors.linear(pooler if name == POOLER else name, f"head.{j}")
        if POOLER not in head.layers:
            self.tensors.drop(f"{pooler}.")
        fields: dict[str, Any] = {"task": head.task, "labels": head.labels}
        if head.task == EMBEDDING:
            fields["pooling"] = self.layout.pooling
            if not head.layers:
                return identity(width), fields
            return arrays, fields | {"width": len(arrays["head.0.weight"])}
        last, between = arrays[f"head.{len(head.layers) - 1}.weight"], head.between
        if head.norm:
            between = activation(config, "classifier_activation")
            arrays |= self.tensors.norm(head.norm, "head.norm")
            fields["head_norm"] = True
        fields["head_activations"] = (between,) * (len(head.layers) - 1)
        if head.labels and len(last) != len(head.labels):
            raise CheckpointError(
                f"{head.layers[-1]} has {len(last)} outputs: it must have {len(head.labels)}, "
                f"{' and '.join(head.labels)}"
            )
        if head.task in EVERY_TOKEN:
            labels = head.labels or labels_of(config, last)
            return arrays, fields | {"labels": labels, "pooling": "none"}
        if poolings := self.family.poolings:
            if (name := config["classifier_pooling"]) not in poolings:
                raise CheckpointError(
                    f"head.0: classifier_pooling is {name!r}: it must be {' or '.join(poolings)}"
                )
            fields["pooling"] = poolings[name]
        return arrays, fields if head.labels else fields | self._answers(last)

    def _answers(self, classifier: Floats) -> dict[str, Any]:
        """The task and the labels; of a CrossEncoder scores, one each or a class of several."""
        answers, function = answers_of(self.config, classifier), self.layout.function
        if function is None:
            return answers
        if len(answers["labels"]) == 1:
            return answers | {"task": REGRESSION, "function": function or SIGMOID}
        return answers | {"task": MULTI_LABEL if function == SIGMOID else CLASSIFICATION}


def _widen(arrays: Arrays, fields: dict[str, Any]) -> None:
    """A factorised embedding in the hidden size, centred: its norm then reads as before."""
    hidden, size = fields["hidden"], fields["embedding_size"]
    for key in [k for k in arrays if k.startswith("embedding.") and "projection" not in k]:
        if arrays[key].shape[-1:] != (size,):
            raise CheckpointError(
                f"{key} has shape {' x '.join(map(str, arrays[key].shape))}: the config asks for "
                f"{size} channels (embedding_size)"
            )
        x = arrays[key].astype(np.float64)
        if key.endswith(("token", "position", "type")):
            x = x - x.mean(axis=-1, keepdims=True)
        elif key.endswith("gamma"):
            x = x * np.sqrt(size / hidden)
        room = [(0, 0)] * (x.ndim - 1) + [(0, hidden - size)]
        arrays[key] = np.pad(x, room).astype(np.float32)
