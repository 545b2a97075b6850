"""The families of `transformers`: where the arrays of an encoder and its head stand.

A family is one row of FAMILIES (docs/extending.md): names of tensors, names of options, heads. What
the row does not say shows when `quant.foreign.proof` runs transformers' own model beside this one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np

from golden.model import Window
from quant.foreign import transformer
from quant.foreign.config import Options, check
from quant.foreign.rope import rope
from quant.foreign.sentence import Layout
from quant.foreign.tensors import Tensors, activation, answers_of, integer, labels_of, number
from quant.images.front import Front
from quant.model import spec
from quant.model.distance import BIAS, CAUSAL, bucketed
from quant.model.rotary import neighbours, shared, tables
from quant.model.spec import CLASSIFICATION, EMBEDDING, Arrays, CheckpointError, EncoderSpec

POOLER = "pooler.dense|pooler"
"""Stands for the layer on the first token that belongs to the encoder."""
MOST = {"layers": 1000, "positions": 1 << 20}
"""Far beyond every model; more would fill the memory before a tensor is missed."""
TYPES, LOCAL = "layer_types", "sliding_attention"
BUCKETS = ("relative_attention_num_buckets", "relative_attention_max_distance")

TABLES = {
    "embedding.token": "embeddings.word_embeddings|embeddings.token_embedding|embed_tokens|"
                       "embeddings.tok_embeddings|shared|encoder.embed_tokens|embeddings.word|"
                       "embedding",
    "embedding.position": "embeddings.position_embeddings|embeddings.position_embedding|"
                          "embeddings.position",
    "embedding.type": "embeddings.token_type_embeddings|embeddings.segment",
    "embedding.task": "embeddings.task_type_embeddings",
    "embedding.norm": "embeddings.LayerNorm|embeddings.layer_norm|embeddings.norm|emb_ln|"
                      "pre_layrnorm|embedding_norm",
    "embedding.projection": "embeddings_project|encoder.embedding_hidden_mapping_in",
    "final.norm": "final_norm|norm|layernorm|post_layernorm|final_layer_norm|encoder.ln|"
                  "encoder.norm|encoder.final_layer_norm|encoder.emb_layer_norm_after",
    BIAS: "relative_attention_bias|encoder.relative_attention_bias|"
          "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
}  # fmt: skip
"""Our names outside of the layers, and those that tensors have in any family."""
LAYER = ("encoder.layer.{}|encoder.layers.{}|layers.{}|transformer.layer.{}|encoder.block.{}|"
         "encoder.albert_layer_groups.{}.albert_layers.{}")  # fmt: skip
PARTS = {
    "q k v": "attn.Wqkv|mixer.Wqkv|attention.qkv_proj|qkv|self_attn.in_proj_",
    **{n[0]: f"attention.self.{n}|attention.{n}|attention.attention.{n}|attention.{n[0]}_lin|"
             f"attention.{n[0]}_proj|attention.attn.{n[0]}|self_attn.{n[0]}_proj|"
             f"layer.0.SelfAttention.{n[0]}" for n in ("query", "key", "value")},
    "o": "attention.output.dense|attention.dense|attention.out_lin|attention.o_proj|attn.out_proj|"
         "attention.attn.o|self_attn.o_proj|self_attn.out_proj|attn.Wo|mixer.out_proj|"
         "layer.0.SelfAttention.o|attention",
    "ffn.up ffn.gate": "mlp.up_gate_proj",
    "ffn.gate ffn.up": "mlp.Wi",
    "ffn.gate": "mlp.gate_proj|mlp.fc12|layer.1.DenseReluDense.wi_0|linear_gate",
    "ffn.up": "intermediate.dense|ffn|ffn.lin1|mlp.fc1|mlp.fc11|mlp.up_proj|linear1|intermediate|"
              "layer.1.DenseReluDense.wi_1|layer.1.DenseReluDense.wi",
    "ffn.down": "output.dense|ffn_output|ffn.lin2|mlp.fc2|mlp.down_proj|mlp.Wo|linear2|output|"
                "layer.1.DenseReluDense.wo",
    "norm1": "attention.output.LayerNorm|attention.LayerNorm|sa_layer_norm|attention.ln|attn_ln|"
             "attn_norm|input_layernorm|layer_norm1|layernorm_before|norm1|layer.0.layer_norm|"
             "attention_norm",
    "norm2": "output.LayerNorm|LayerNorm|full_layer_layer_norm|output_layer_norm|ln|mlp_ln|"
             "mlp_norm|post_attention_layernorm|layer_norm2|layernorm_after|norm2|"
             "layer.1.layer_norm|output_norm",
}  # fmt: skip
"""The same below a layer; of "q k v" one tensor has all three."""
_ALONE = {name.split(".")[0] for names in (*TABLES.values(), LAYER, POOLER, "contact_head",
          "rotary_embeddings") for name in names.split("|")}  # fmt: skip
"""What the names of an encoder's tensors begin with where it was saved alone."""


@dataclass(frozen=True)
class Head:
    """A head: its task and its linear layers, by the names of their tensors.

    between: the activation after each but the last; "" for the one that classifier_activation
    names. norm: of the LayerNorm before the last layer. labels: names that config.json does not
    have.
    """

    task: str
    layers: tuple[str, ...] = ()
    between: str = ""
    norm: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A family: the names of its classes and options.

    name: what the names of its classes begin with. prefixes: what the names of the encoder's
    tensors begin with, unless it was saved alone; () of a layout of the project's own. heads: by
    the end of the class's name, in the order in which they are tried where config.json names none.
    config: fields of EncoderSpec and their options, or functions of all options. fixed: fields that
    every model has. learned: whether there is a table of positions. poolings: what
    classifier_pooling may be. buckets: options or numbers of the table of relative positions.
    adapt: a last change of arrays and fields. beside: beginnings of names of tensors that are left
    out, with a note. renamed: older names of options. must: options of older code, which nothing
    follows, by the values that they may have.
    """

    name: str
    prefixes: tuple[str, ...]
    heads: Mapping[str, Head]
    config: Mapping[str, str | Callable[[Options], Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    learned: bool = True
    poolings: Mapping[str, str] = field(default_factory=dict)
    buckets: tuple[str | int, ...] = ()
    adapt: Callable[["Reading", Arrays, dict[str, Any]], None] | None = None
    beside: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    must: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


_CONFIG: dict[str, str | Callable[[Options], Any]] = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "ffn": "intermediate_size", "vocabulary": "vocab_size", "positions": "max_position_embeddings",
    "types": "type_vocab_size", "activation": "hidden_act", "epsilon": "layer_norm_eps",
}  # fmt: skip


def _causal(config: Options) -> tuple[Window, ...]:
    """All layers of a decoder are causal, unless is_causal takes that back."""
    decoder, causal = config.said("is_decoder"), config.said("is_causal")
    whole = "left out without is_decoder: the mask then depends on padding and implementation"
    check(decoder or not causal, "is_causal", causal, whole)
    causal = decoder if causal is None else causal
    return (CAUSAL,) * integer(config, "num_hidden_layers") if causal else ()


def _groups(config: Options) -> int:
    """Heads of K and V, 0 for as many as of Q."""
    name, heads = "num_key_value_heads", integer(config, "num_attention_heads")
    groups = heads if config.get(name) is None else integer(config, name)
    right = groups > 0 and heads % groups == 0
    check(right, name, groups, f"a divisor of num_attention_heads, {heads}")
    return 0 if groups == heads else groups


def _shared(config: Options) -> list[tuple[int, int]]:
    """The group, whose layers share weights, and the place in it of each of ALBERT's layers."""
    names = ("num_hidden_layers", "num_hidden_groups", "inner_group_num")
    layers, groups, inner = (integer(config, name) for name in names)
    check(1 <= groups <= layers, names[1], groups, f"1 to num_hidden_layers, {layers}")
    return [(int(i / (layers / groups)), j) for i in range(layers) for j in range(inner)]


def _windows(config: Options) -> tuple[Window | None, ...]:
    reach, kinds = integer(config, "local_attention") // 2, config[TYPES]
    found = tuple(Window(reach, reach) if kind == LOCAL else None for kind in kinds)
    return found if any(found) else ()


def _masked(reading: "Reading", arrays: Arrays, fields: dict[str, Any]) -> None:
    """ESM's token_dropout: training masked 0.15 * 0.8 of the embeddings, and a mask is zero."""
    if reading.config["token_dropout"]:
        mask, table = integer(reading.config, "mask_token_id"), arrays["embedding.token"]
        rows = f"a row of the embedding, 0 to {len(table) - 1}"
        check(0 <= mask < len(table), "mask_token_id", mask, rows)
        arrays["embedding.token"] = (table * (1 - 0.15 * 0.8)).astype(np.float32)
        arrays["embedding.token"][mask] = 0
        fields["unread"] = mask


def _undivided(_: "Reading", arrays: Arrays, fields: dict[str, Any]) -> None:
    """T5's scores are not divided by sqrt(d): Q takes that factor."""
    for i in range(fields["layers"]):
        name = f"layer.{i}.q.weight"
        arrays[name] = arrays[name] * np.float32(sqrt(fields["head_size"]))


def _task_added(_: "Reading", arrays: Arrays, fields: dict[str, Any]) -> None:
    """ERNIE adds the embedding of the task 0 to every token."""
    task = arrays.pop("embedding.task", None)
    if task is not None:
        arrays["embedding.type"] = arrays["embedding.type"] + task[0]


_BARE = Head(EMBEDDING)
_WORDS = Head(spec.TOKEN_CLASSIFICATION, ("classifier",))
_ASKED = Head(spec.QUESTION_ANSWERING, ("qa_outputs",), labels=("start", "end"))


def _heads(sequence: Head, choice: tuple[str, ...] = ()) -> dict[str, Head]:
    """The heads of most families for texts, tokens, questions and choices, and none at all."""
    chosen = replace(sequence, task=spec.REGRESSION, layers=choice, labels=("score",))
    return {
        "ForSequenceClassification": sequence,
        "ForTokenClassification": _WORDS,
        "ForQuestionAnswering": _ASKED,
        **({"ForMultipleChoice": chosen} if choice else {}),
        "Model": _BARE,
    }


_ON_POOLER = (POOLER, "classifier")
_POOLED = Head(CLASSIFICATION, _ON_POOLER, "tanh")
_ON_FIRST = ("classifier.dense", "classifier.out_proj")
_FIRST = Head(CLASSIFICATION, _ON_FIRST, "tanh")
_BERT = _heads(_POOLED, _ON_POOLER) | {"ForNextSentencePrediction": Head(
    CLASSIFICATION, (POOLER, "cls.seq_relationship"), "tanh", labels=("is next", "is not next")
)}  # fmt: skip
_CAUSAL: dict[str, Any] = {"windows": _causal}
_ROBERTA: dict[str, Any] = {
    "heads": _heads(_FIRST, _ON_POOLER),
    "config": _CAUSAL | {"position_offset": lambda config: integer(config, "pad_token_id") + 1},
}
_SIDE = ("vision_model.", "visual_projection.", "logit_scale")
_PROJECTED = Head(EMBEDDING, ("text_projection",))
_PRE = {"norm": "pre", "embedding_norm": False}
_GATED = {"rotary": True, "gated": True}
_T5: dict[str, Any] = {
    "prefixes": ("transformer",), "learned": False, "buckets": BUCKETS, "adapt": _undivided,
    "heads": {"EncoderModel": _BARE, "ForTokenClassification": _WORDS}, "beside": ("decoder.",),
    "config": {"layers": "num_layers", "hidden": "d_model", "heads": "num_heads", "ffn": "d_ff",
               "head_size": "d_kv", "epsilon": "layer_norm_epsilon", "activation": "dense_act_fn",
               "gated": lambda config: bool(config["is_gated_act"])},
    # The length that it was trained on.
    "fixed": _PRE | {"positions": 512, "types": 0, "rms_norm": True},
}  # fmt: skip
_DISTIL = Head(CLASSIFICATION, ("pre_classifier", "classifier"), "relu")
_MODERN = Head(CLASSIFICATION, ("head.dense", "classifier"), norm="head.norm")

FAMILIES: dict[str, Family] = {
    "albert": Family(
        "Albert", ("albert",), _heads(_POOLED, _ON_POOLER),
        {"embedding_size": "embedding_size", "stack": _shared},
    ),
    "bert": Family("Bert", ("bert",), _BERT, _CAUSAL),
    "bert2rtl-fused": Family(
        "bert2rtl-fused", (), {"": Head(CLASSIFICATION, ("classifier",))}, beside=("mlm.",)
    ),
    transformer.OWN: Family(
        transformer.OWN, (), {"": Head(CLASSIFICATION, ("classifier",)), "Model": _BARE},
        transformer.CONFIG | {"kv_heads": _groups}, {"types": 0}, learned=False, buckets=BUCKETS,
        adapt=lambda reading, *found: transformer.finish(reading.config, *found),
    ),
    "camembert": Family("Camembert", ("roberta",), **_ROBERTA),
    "chinese_clip_text_model": Family(
        "ChineseCLIP", ("text_model",), {"TextModel": _BARE, "Model": _PROJECTED}, _CAUSAL,
        {"pooling": "first"}, beside=_SIDE,
    ),
    "clip_text_model": Family(
        "CLIP", ("text_model",),
        {"TextModel": _BARE, "TextModelWithProjection": _PROJECTED, "Model": _PROJECTED},
        # Older files say 2, and mean the largest id of a text.
        {"end": lambda c: None if c["eos_token_id"] == 2 else integer(c, "eos_token_id"),
         "windows": lambda c: (CAUSAL,) * integer(c, "num_hidden_layers")},
        _PRE | {"types": 0, "pooling": "last"}, beside=_SIDE,
    ),
    "data2vec-text": Family("Data2VecText", ("data2vec_text",), **_ROBERTA),
    "distilbert": Family(
        "DistilBert", ("distilbert",), _heads(_DISTIL, _DISTIL.layers),
        {"layers": "n_layers", "hidden": "dim", "heads": "n_heads", "ffn": "hidden_dim",
         "activation": "activation"},
        {"types": 0, "epsilon": 1e-12},
    ),
    "electra": Family(
        "Electra", ("electra",), _heads(Head(CLASSIFICATION, _ON_FIRST, "gelu")),
        _CAUSAL | {"embedding_size": lambda c:
                   0 if c["embedding_size"] == c["hidden_size"] else integer(c, "embedding_size")},
    ),
    "ernie": Family("Ernie", ("ernie",), _BERT, _CAUSAL, adapt=_task_added),
    "esm": Family(
        "Esm", ("esm",), _heads(_FIRST),
        {"embedding_norm": lambda c: bool(c["emb_layer_norm_before"]),
         "rotary": lambda c: c["position_embedding_type"] == "rotary",
         "position_offset": lambda c: (
             0 if c["position_embedding_type"] == "rotary" else integer(c, "pad_token_id") + 1)},
        {"types": 0, "norm": "pre", "activation": "gelu"},
        adapt=_masked, beside=("contact_head.",),
        must={"hidden_act": ("gelu",), "position_embedding_type": ("rotary", "absolute")},
    ),
    "eurobert": Family(
        "EuroBert", ("model",),
        _heads(Head(CLASSIFICATION, ("dense", "classifier"), "gelu")),
        {"epsilon": "rms_norm_eps", "kv_heads": _groups},
        _PRE | _GATED | {"types": 0, "rms_norm": True},
        poolings={"bos": "first", "mean": "mean"},
        must={"clf_pooling": ("late",)},  # of its remote code, which calls classifier_pooling so
    ),
    "gte": Family(
        "Gte", ("gte", "new"), _heads(_POOLED), fixed=_GATED,
        must={"position_embedding_type": ("rope",), "layer_norm_type": ("layer_norm",),
              "logn_attention_scale": (False,)},
    ),
    "jina_embeddings_v3": Family(
        "JinaEmbeddingsV3", ("roberta",), _heads(_FIRST), fixed={"rotary": True}
    ),
    "megatron-bert": Family("MegatronBert", ("bert",), _BERT, _CAUSAL, _PRE),
    "modernbert": Family(
        "ModernBert", ("model",),
        {kind: replace(_MODERN, task=head.task, labels=head.labels) if head.layers else head
         for kind, head in _heads(_MODERN, _MODERN.layers).items()},
        {"activation": "hidden_activation", "epsilon": "norm_eps", "windows": _windows},
        _GATED | {"types": 0, "norm": "pre", "first_norm": False},
        poolings={"cls": "first", "mean": "mean"},
    ),
    # In MPNet's code, whatever config.json says: padding is 1, and these are the buckets.
    "mpnet": Family(
        "MPNet", ("mpnet",), _heads(_FIRST, _ON_POOLER), fixed={"types": 0, "position_offset": 2},
        buckets=(32, 128),
    ),
    "mt5": Family("MT5", **_T5),
    "nomic_bert": Family(
        "NomicBert", ("nomic_bert",), _heads(_POOLED), fixed=_GATED,
        renamed={"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer":
                 "num_hidden_layers", "n_inner": "intermediate_size", "n_positions":
                 "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps",
                 "rotary_emb_base": "rope_theta"},
        must={"activation_function": ("swiglu",), "rotary_emb_fraction": (1.0,),
              "rotary_scaling_factor": (), "scale_attn_weights": (True,),
              **dict.fromkeys(("prenorm", "parallel_block", "use_rms_norm", "causal",
                               "rotary_emb_interleaved"), (False,))},
    ),
    "roberta": Family("Roberta", ("roberta",), **_ROBERTA),
    "t5": Family("T5", **_T5),
    "xlm-roberta": Family("XLMRoberta", ("roberta",), **_ROBERTA),
}  # fmt: skip
"""By model_type."""


def load(
    family: Family, config: Options, tensors: Tensors, layout: Layout, task: str | None
) -> tuple[EncoderSpec, Arrays, list[str], Front | None]:
    """The spec and arrays of a checkpoint, notes on it and its front end.

    config takes the name of its class in `transformers`. task: the one that is asked for, None for
    the checkpoint's own. Raises CheckpointError for a tensor that is missing, an option that no row
    follows, and a head that nothing here computes.
    """
    for name, allowed in family.must.items():
        value = config.said(name)
        one_of = " or ".join(map(repr, allowed)) or "left out"
        check(value is None or value in allowed, name, value, one_of)
    reading = Reading(family, config, tensors, layout, task or layout.task)
    arrays, fields = reading.encoder()
    behind, choices = reading.head(len(arrays.get("layer.0.o.bias", ())))
    if layout.task and not reading.front:  # sentence-transformers' pooling, not the family's own
        fields = {name: value for name, value in fields.items() if name not in ("pooling", "end")}
    if fields.get("pooling") == "none" and choices["task"] != EMBEDDING:
        choices["task"] = spec.TOKEN_CLASSIFICATION
    if config.said("auto_map"):
        reading.notes.append("the code that auto_map names is not run: transformers' class counts")
    found = EncoderSpec(**choices | fields)
    if not family.prefixes and task not in (None, found.task):
        raise CheckpointError(f"its task is {found.task}: it cannot be asked for {task}")
    arrays |= behind
    spec.check_arrays(found, arrays)
    for i in range(found.layers):
        if found.table(i) is not None:
            neighbours(arrays, f"layer.{i}", found.head_size)
        if found.kv_heads:
            shared(arrays, f"layer.{i}", found.heads, found.kv_heads)
    config.twin = f"{family.name}{reading.kind}" if family.prefixes else ""
    return found, arrays, reading.notes, reading.front


class Reading:
    """A checkpoint as a row of the table reads it.

    prefix: how the names of its encoder's tensors begin. layer, parts: LAYER and PARTS as its
    tensors have them. asked: a task, or None. kind: that of its head. notes: on what was chosen.
    front: made by `adapt` for a model of images.
    """

    def __init__(
        self, family: Family, config: Options, tensors: Tensors, layout: Layout, asked: str | None
    ) -> None:
        self.family, self.config, self.tensors, self.layout = family, config, tensors, layout
        prefixes = (f"{name}." for name in family.prefixes)
        self.prefix = next(filter(tensors.begin, prefixes), "")
        self.front: Front | None = None
        self.asked = asked
        left = {f"{self.prefix}{name}" for name in family.beside} | set(family.beside)
        dropped = {n.removeprefix(self.prefix).split(".")[0] for n in tensors.drop(*left)}
        out = f"{' and '.join(sorted(dropped))} is left out: nothing here computes it"
        self.notes = [out] if dropped else []
        self.kind = self._choose()
        layers = [f"{self.prefix}{name}" for name in LAYER.split("|")]
        there = [name for name in layers if tensors.begin(name.split("{")[0])]
        self.layer, self.parts = (there or layers)[0], dict(PARTS)

    def _choose(self) -> str:
        """The kind of the head, by the task that is asked for.

        Without one config.json names the kind (architectures), or without that name the tensors
        behind the encoder do.
        """
        family, tensors, asked = self.family, self.tensors, self.asked
        alone = {*_ALONE, *(["head"] if family.fixed.get("given") else [])}  # of SigLIP's pooling
        encoder = (self.prefix,) if self.prefix else tuple(f"{name}." for name in alone)
        behind = [name for name in sorted(tensors) if not name.startswith(encoder)]
        fitting = [kind for kind, head in family.heads.items() if self._fits(head, behind)]
        bare = [kind for kind, head in family.heads.items() if head.task == EMBEDDING]
        if asked == EMBEDDING and bare and (family.prefixes or self.config.said("rows")):
            tensors.drop(*behind)
            if behind:
                self.notes.insert(0, f"its head ({behind[0]} ...) is left out")
            return bare[0]
        if not family.prefixes:
            return next(iter(family.heads))
        names, classes = [f"{family.name}{x}" for x in family.heads], self.config["architectures"]
        said, found = f"architectures {classes}", fitting
        if asked is not None:
            tasks = [asked, *[CLASSIFICATION] * (asked in (spec.MULTI_LABEL, spec.REGRESSION))]
            said, found = f"the task {asked}", [x for x in found if family.heads[x].task in tasks]
        elif classes:
            classes = map(str, classes if isinstance(classes, list) else [classes])
            found = [name.removeprefix(family.name) for name in classes if name in names]
        elif found:
            named = f"by its weights {family.name}{found[0]}"
            self.notes.insert(0, f"config.json names no architectures: {named}")
        if found:
            return found[0]
        raise CheckpointError(
            f"config.json: {said}, and the weights have {', '.join(behind[:3]) or 'no head'}: "
            f"nothing here computes its head, which must be that of {' or '.join(names)}; "
            f"--task {EMBEDDING} takes the encoder without it"
        )

    def _fits(self, head: Head, behind: Sequence[str]) -> bool:
        """Whether the tensors behind the encoder are those of this head."""
        layers = [name for name in (*head.layers, head.norm) if name and name != POOLER]
        needed = {f"{name}.weight" for name in layers}
        pooled = f"{self.tensors.place(self.prefix, POOLER)}.weight" in self.tensors
        return (pooled or POOLER not in head.layers) and (
            needed <= set(behind) <= needed | {f"{name}.bias" for name in layers}
        )

    def encoder(self) -> tuple[Arrays, dict[str, Any]]:
        """The arrays in front of the head, and the fields of EncoderSpec."""
        family, tensors, fields = self.family, self.tensors, self._fields()
        arrays: Arrays = {}
        rotary = fields.pop("rotary", ())
        there = {
            "embedding.token": not fields.get("given"),
            "embedding.position": family.learned and not rotary,
            "embedding.type": fields["types"],
            "embedding.task": tensors.there(f"{self.prefix}{TABLES['embedding.task']}"),
            "embedding.norm": fields.get("embedding_norm", True),
            "embedding.projection": fields.get("embedding_size"),
            "final.norm": fields.get("norm") == "pre",
            BIAS: family.buckets and fields.get("position_bias", True),
        }
        for name in (name for name in TABLES if there[name]):
            source = tensors.place(self.prefix, TABLES[name])
            if name.endswith("norm"):
                arrays |= tensors.norm(source, name, not fields.get("rms_norm"))
            elif name.endswith("projection"):
                arrays |= tensors.linear(source, name)
            else:
                arrays[name] = tensors.take(f"{source}.weight")
                right, shape = arrays[name].ndim == 2, arrays[name].shape
                check(right, f"the shape of {source}", shape, "a row for each entry")
        if BIAS in arrays:
            of = [x if isinstance(x, int) else integer(self.config, x) for x in family.buckets]
            allowed = f"{len(arrays[BIAS])}, as the table has rows, and 4 or more"
            check(4 <= of[0] == len(arrays[BIAS]), BUCKETS[0], of[0], allowed)
            check(of[1] > of[0] // 4, BUCKETS[1], of[1], f"more than a fourth of {of[0]} buckets")
            rows = len(arrays.get("embedding.position", ())) or fields["positions"]
            arrays[BIAS] = bucketed(arrays[BIAS], rows - fields.get("position_offset", 0), of[1])
            fields["position_bias"] = True
        twice = ("shared", "encoder.embed_tokens", "embeddings.position_embeddings")
        tensors.drop(*(f"{self.prefix}{name}." for name in twice[: 3 if rotary else 2]))
        stack = fields.pop("stack", [(i,) for i in range(fields["layers"])])
        layers = [self.layer.format(*place) for place in stack]
        fields["layers"] = len(layers)
        own = {name: self._layer(name, fields) for name in dict.fromkeys(layers)}
        for i, name in enumerate(layers):
            arrays |= {f"layer.{i}.{part}": array for part, array in own[name].items()}
        if family.adapt:
            family.adapt(self, arrays, fields)
        if fields.get("embedding_size"):
            _widen(arrays, fields)
        if "embedding.position" not in arrays:
            size = (fields["positions"], arrays["embedding.token"].shape[-1])
            arrays["embedding.position"] = np.zeros(size, np.float32)
        if rotary:
            self._rotate(arrays, fields, rotary)
        return arrays, fields

    def _fields(self) -> dict[str, Any]:
        family, config = self.family, self.config
        if family.fixed.get("rotary"):
            config.complete()  # its class makes rope_parameters of older options
        readers: dict[str, Callable[[Options, str], Any]]
        readers = {"activation": activation, "epsilon": number}
        fields = {
            name: option(config) if callable(option) else readers.get(name, integer)(config, option)
            for name, option in (_CONFIG | dict(family.config)).items()
            if name not in family.fixed
        }
        for name, most in MOST.items():
            value = fields.get(name, 0)
            check(value <= most, f"the number of {name}", value, f"at most {most:,}")
        fields |= family.fixed
        if "head_size" not in fields:
            heads, hidden = fields["heads"], fields["hidden"]
            right = heads > 0 and hidden % heads == 0
            check(right, "the number of heads", heads, f"a divisor of the hidden size, {hidden}")
            fields["head_size"] = hidden // heads
        return fields

    def _layer(self, layer: str, fields: dict[str, Any]) -> Arrays:
        """The arrays of one layer, by their names below it."""
        arrays: Arrays = {}
        times = fields["heads"] // fields["kv_heads"] if fields.get("kv_heads") else 1
        free = [ours for ours in PARTS if " " in ours]
        free += [] if fields.get("gated") else ["ffn.gate"]
        free += [] if fields.get("first_norm", True) else ["norm1"]
        for ours, names in self.parts.items():
            name, parts = self.tensors.place(f"{layer}.", names), ours.split()
            if self.tensors.there(name):  # and so it must be called in the other layers
                self.parts[ours] = name.removeprefix(f"{layer}.")
            elif (ours in free and names == PARTS[ours]) or f"{ours}.weight" in arrays:
                continue
            if ours.startswith("norm"):
                arrays |= self.tensors.norm(name, ours, not fields.get("rms_norm"))
            else:
                arrays |= self.tensors.linear(name, *parts, times=times)
        return arrays

    def _rotate(self, arrays: Arrays, fields: dict[str, Any], bases: Any) -> None:
        """The tables of rotary positions, one for each type of layer.

        bases: of each layer, or True, where rope_parameters has them by the types of the layers.
        """
        config, size, layers = self.config, fields["head_size"], fields["layers"]
        own = config.said("head_dim")
        right = size % 2 == 0 and own in (None, size)
        check(right, "head_dim", own or size, f"{size}, the hidden size over the heads, and even")
        if bases is not True:
            kinds, given = bases, {base: {"rope_theta": base} for base in bases}
        else:
            kinds = config.said(TYPES) or ["full_attention"] * layers
            right = isinstance(kinds, list) and len(kinds) == layers
            check(right, TYPES, kinds, f"one for each of the {layers} layers")
            given = config["rope_parameters"] or {"rope_theta": config["rope_theta"]}
        used = [kind for kind in dict.fromkeys(kinds) if kind is not None]
        end = "rotary_embeddings.inv_freq"
        kept = sorted((name for name in self.tensors if name.endswith(end)), key=len)
        saved = [self.tensors.take(name) for name in kept]  # of each layer in old files of ESM
        for j, kind in enumerate(used):
            named = isinstance(given, dict) and kind in given
            frequencies, factor = rope(given[kind] if named else given, size)
            frequencies = saved[0] if saved else frequencies
            right, halves = frequencies.shape == (size // 2,), f"({size // 2},), half of a head"
            check(right, f"the shape of {kept[:1]}", frequencies.shape, halves)
            cos_sin = tables(frequencies, fields["positions"])
            arrays |= {f"rotary.{j}.{n}": x for n, x in zip(("cos", "sin"), cos_sin, strict=True)}
            for i in (i for i in range(layers) if kinds[i] == kind):
                for name in (f"layer.{i}.{k}.{part}" for k in "qk" for part in ("weight", "bias")):
                    # what turns is at most 1: Q and K take the factor
                    arrays[name] = arrays[name] * np.float32(factor)
        fields["rotary"] = tuple(None if x is None else used.index(x) for x in kinds)

    def head(self, width: int) -> tuple[Arrays, dict[str, Any]]:
        """The arrays of the head, and the fields of EncoderSpec that it decides.

        width: of what the encoder gives. A pooler that the head does not read is left out.
        """
        arrays, head, config = Arrays(), self.family.heads[self.kind], self.config
        for j, name in enumerate(head.layers):
            name = self.tensors.place(self.prefix, name) if name == POOLER else name
            arrays |= self.tensors.linear(name, f"head.{j}")
        if POOLER not in head.layers:
            self.tensors.drop(f"{self.prefix}pooler.")
        fields: dict[str, Any] = {"task": head.task, "labels": head.labels}
        if head.task == EMBEDDING:
            fields["pooling"] = self.layout.pooling
            if not head.layers:
                zeros = np.zeros(width, np.float32)
                return {"head.0.weight": np.diag(zeros + 1), "head.0.bias": zeros}, fields
            return arrays, fields | {"width": len(arrays["head.0.weight"])}
        count, between = len(arrays[f"head.{len(head.layers) - 1}.weight"]), head.between
        if head.norm:
            between = activation(config, "classifier_activation")
            arrays |= self.tensors.norm(head.norm, "head.norm")
            fields["head_norm"] = True
        fields["head_activations"] = (between,) * (len(head.layers) - 1)
        if head.task in spec.EVERY_TOKEN:
            labels = head.labels or labels_of(config, count)
            return arrays, fields | {"labels": labels, "pooling": "none"}
        if poolings := self.family.poolings:
            name = config["classifier_pooling"]
            check(name in poolings, "classifier_pooling", name, " or ".join(poolings))
            fields["pooling"] = poolings[name]
        if head.labels:
            return arrays, fields
        fields |= answers_of(config, count)
        function = self.layout.function if self.family.prefixes else None
        if function is not None:  # a CrossEncoder: scores, one each or several
            fields["task"] = spec.MULTI_LABEL if function == spec.SIGMOID else CLASSIFICATION
            if count == 1:
                fields |= {"task": spec.REGRESSION, "function": function or spec.SIGMOID}
        return arrays, fields


def _widen(arrays: Arrays, fields: dict[str, Any]) -> None:
    """A factorised embedding in the hidden size, centred: its norm then reads as before."""
    hidden, size = fields["hidden"], fields["embedding_size"]
    for key in [k for k in arrays if k.startswith("embedding.") and "projection" not in k]:
        right = arrays[key].shape[-1:] == (size,) and size <= hidden
        check(right, "embedding_size", size, f"that of {key}, and at most {hidden}")
        x = arrays[key].astype(np.float64)
        if key.endswith(("token", "position", "type")):
            x = x - x.mean(axis=-1, keepdims=True)
        elif key.endswith("gamma"):
            x = x * np.sqrt(size / hidden)
        room = [(0, 0)] * (x.ndim - 1) + [(0, hidden - size)]
        arrays[key] = np.pad(x, room).astype(np.float32)
