"""The head of a `transformers` checkpoint: its kind and its arrays.

The weights say it by the names of their tensors, config.json by `architectures`, and both have to
say the same. Where config.json says nothing, the weights decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quant.foreign.sentence import Layout
from quant.foreign.tensors import Config, Tensors, activation, answers_of, identity, labels_of
from quant.model.spec import (
    CLASSIFICATION,
    EMBEDDING,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    SIGMOID,
    TOKEN_CLASSIFICATION,
    Arrays,
    CheckpointError,
)

POOLER = "pooler"
"""Stands for the layer on the first token that belongs to the encoder."""

_PARTS = ("weight", "bias")
_DECODES = "reads what a decoder writes, which nothing here computes"
_SENTENCES = ("is next", "is not next")
_ANSWER = ("start", "end")
_CHOICE = ("score",)


@dataclass(frozen=True)
class Head:
    """A head of a family.

    kind: what its class is called behind the family's name. layers: its linear layers, by the names
    of their tensors; activations: between them. outputs: how many it must have, 0 for any.
    task: what it is for; "" for a head that nothing here computes, which only its `marks`, the
    beginnings of its tensors' names, tell; `why` says what it does. note: what is to be said where
    it is taken. parts: of a linear layer, without "bias" where it is zero. norm: before the
    last layer. free: tensors that may be missing, which are zero then. With marks, too, a head
    of layers stands among tensors of other names.
    """

    kind: str
    task: str
    layers: tuple[str, ...] = ()
    activations: tuple[str, ...] = ()
    outputs: int = 0
    marks: tuple[str, ...] = ()
    why: str = "predicts words for pre-training, which nothing here computes"
    note: str = ""
    parts: tuple[str, ...] = _PARTS
    norm: str = ""
    free: tuple[str, ...] = ()

    def fits(self, found: Sequence[str], tensors: Tensors, pooler: str) -> bool:
        """Whether the tensors behind the encoder are those of this head."""
        if self.marks:
            return bool(found) and all(name.startswith(self.marks) for name in found)
        own = {f"{name}.{part}" for name in self.layers if name != POOLER for part in self.parts}
        own |= {f"{self.norm}.{part}" for part in self.parts if self.norm}
        pooled = POOLER not in self.layers or f"{pooler}.weight" in tensors
        last = tensors.width(f"{self.layers[-1]}.weight") if self.layers else 0
        same = set(found) <= own and own - set(found) <= set(self.free)
        return same and pooled and self.outputs in (0, last)


@dataclass(frozen=True)
class Base:
    """An encoder's family: what its classes' names and its tensors' names begin with, its heads.

    The heads stand in the order in which they are taken where config.json names none.
    pooler: the name of the layer on the first token, without the prefix. older: a prefix of older
    files. beside: what stands beside the layers and is left out, with a note.
    """

    name: str
    prefix: str
    heads: tuple[Head, ...]
    pooler: str = "pooler.dense"
    older: str = ""
    beside: str = ""


def _common(pooled: tuple[str, ...], activation: str, choice: tuple[str, ...]) -> tuple[Head, ...]:
    """The heads that every family has, for texts, for tokens, for questions; none."""
    return (
        Head("ForSequenceClassification", CLASSIFICATION, pooled, (activation,)),
        Head("ForTokenClassification", TOKEN_CLASSIFICATION, ("classifier",)),
        Head("ForQuestionAnswering", QUESTION_ANSWERING, ("qa_outputs",), outputs=2),
        *([Head("ForMultipleChoice", REGRESSION, choice, (activation,), 1)] if choice else []),
        Head("Model", EMBEDDING),
    )


CLIP_BESIDE = ("text_projection.", "vision_model.", "visual_projection.", "logit_scale")
"""What stands in a whole CLIP beside the layers of its text side."""
_MODERN: dict[str, Any] = {
    "layers": ("head.dense", "classifier"),
    "activations": ("",),  # by classifier_activation
    "norm": "head.norm",
    "free": ("head.dense.bias", "head.norm.bias"),
}
_T5 = (
    Head("EncoderModel", EMBEDDING),
    Head("ForTokenClassification", TOKEN_CLASSIFICATION, ("classifier",)),
    *(
        Head(kind, "", marks=("decoder.", "lm_head.", *mark), why=_DECODES)
        for kind, *mark in (
            ("Model",),
            ("ForConditionalGeneration",),
            ("ForQuestionAnswering", "qa_outputs."),
            ("ForSequenceClassification", "classification_head."),
        )
    ),
)
_ON_POOLER, _ON_FIRST = (POOLER, "classifier"), ("classifier.dense", "classifier.out_proj")
_ROBERTA = (
    *_common(_ON_FIRST, "tanh", _ON_POOLER),
    Head("ForMaskedLM", "", marks=("lm_head.",)),
    Head("ForCausalLM", "", marks=("lm_head.",)),
)
BASES = {
    "albert": Base("Albert", "albert", (
        *_common(_ON_POOLER, "tanh", _ON_POOLER),
        Head("ForMaskedLM", "", marks=("predictions.",)),
        Head("ForPreTraining", "", marks=("predictions.", "sop_classifier.")),
    ), "pooler"),
    "bert": Base("Bert", "bert", (
        *_common(_ON_POOLER, "tanh", _ON_POOLER),
        Head("ForNextSentencePrediction", CLASSIFICATION, (POOLER, "cls.seq_relationship"),
             ("tanh",), 2),
        Head("ForMaskedLM", "", marks=("cls.",)),
        Head("ForPreTraining", "", marks=("cls.",)),
        Head("LMHeadModel", "", marks=("cls.",)),
    )),
    "camembert": Base("Camembert", "roberta", _ROBERTA),
    "clip_text_model": Base("CLIP", "text_model", (
        Head("TextModel", EMBEDDING),
        Head("TextModelWithProjection", EMBEDDING, ("text_projection",), parts=("weight",)),
        Head("Model", EMBEDDING, ("text_projection",), parts=("weight",), marks=CLIP_BESIDE,
             note="the text side alone is taken"),
    )),
    "distilbert": Base("DistilBert", "distilbert", (
        *_common(("pre_classifier", "classifier"), "relu", ("pre_classifier", "classifier")),
        Head("ForMaskedLM", "", marks=("vocab_",)),
    )),
    "electra": Base("Electra", "electra", (
        *_common(_ON_FIRST, "gelu", ()),
        Head("ForPreTraining", "", marks=("discriminator_predictions.",)),
        Head("ForMaskedLM", "", marks=("generator_",)),
        Head("ForCausalLM", "", marks=("generator_",)),
    )),
    "esm": Base("Esm", "esm", (
        Head("ForSequenceClassification", CLASSIFICATION, _ON_FIRST, ("tanh",)),
        Head("ForTokenClassification", TOKEN_CLASSIFICATION, ("classifier",)),
        Head("Model", EMBEDDING),
        Head("ForMaskedLM", "", marks=("lm_head.",)),
        Head("ForProteinFolding", "", marks=("trunk.", "esm_s_mlp.", "embedding.", "esm_s_combine",
             "distogram_head.", "ptm_head.", "lm_head.", "lddt_head."),
             why="folds a protein by layers on pairs of tokens, which nothing here computes"),
    ), beside="contact_head"),
    "eurobert": Base("EuroBert", "model", (
        Head("ForSequenceClassification", CLASSIFICATION, ("dense", "classifier"), ("gelu",)),
        Head("ForTokenClassification", TOKEN_CLASSIFICATION, ("classifier",)),
        Head("Model", EMBEDDING),
        Head("ForMaskedLM", "", marks=("lm_head.",)),
    )),
    "gte": Base("Gte", "gte", (
        Head("ForSequenceClassification", CLASSIFICATION, _ON_POOLER, ("tanh",)),
        Head("ForTokenClassification", TOKEN_CLASSIFICATION, ("classifier",)),
        Head("Model", EMBEDDING),
        Head("ForMaskedLM", "", marks=("lm_head.",)),
    ), older="new"),
    "jina_embeddings_v3": Base("JinaEmbeddingsV3", "roberta", (
        *_common(_ON_FIRST, "tanh", ()),
        Head("ForMaskedLM", "", marks=("lm_head.",)),
    )),
    "modernbert": Base("ModernBert", "model", (
        Head("Model", EMBEDDING),
        Head("ForSequenceClassification", CLASSIFICATION, **_MODERN),
        Head("ForTokenClassification", TOKEN_CLASSIFICATION, **_MODERN),
        Head("ForQuestionAnswering", QUESTION_ANSWERING, outputs=2, **_MODERN),
        Head("ForMultipleChoice", REGRESSION, outputs=1, **_MODERN),
        Head("ForMaskedLM", "", marks=("head.", "decoder.")),
    )),
    "mpnet": Base("MPNet", "mpnet", (
        *_common(_ON_FIRST, "tanh", _ON_POOLER),
        Head("ForMaskedLM", "", marks=("lm_head.",)),
    )),
    "nomic_bert": Base("NomicBert", "nomic_bert", (
        Head("ForSequenceClassification", CLASSIFICATION, _ON_POOLER, ("tanh",)),
        Head("ForTokenClassification", TOKEN_CLASSIFICATION, ("classifier",)),
        Head("Model", EMBEDDING),
        Head("ForMaskedLM", "", marks=("cls.",)),
    )),
    "mt5": Base("MT5", "transformer", _T5, beside="decoder"),
    "roberta": Base("Roberta", "roberta", _ROBERTA),
    "t5": Base("T5", "transformer", _T5, beside="decoder"),
    "xlm-roberta": Base("XLMRoberta", "roberta", _ROBERTA),
}  # fmt: skip
"""The families of `transformers` by their model_type."""

_ENCODER = (
    *("embeddings", "encoder", "transformer", "pooler", "embeddings_project"),
    *("layers", "layernorm", "pre_layrnorm", "post_layernorm", "head"),  # of images
    "final_layer_norm",  # of CLIP's texts
    *("embed_tokens", "norm", "emb_ln"),  # of EuroBERT, of Nomic and Jina
    "final_norm",  # of ModernBERT
    "shared",  # of T5
    *("contact_head", "rotary_embeddings"),  # of ESM
)
"""What the names of an encoder's tensors begin with where it was saved alone."""


def choose(
    base: Base, prefix: str, config: Config, tensors: Tensors, layout: Layout, task: str | None
) -> tuple[Head, list[str]]:
    """The head of a checkpoint, and what is to be said about the choice.

    prefix: what the names of the encoder's tensors begin with. task: the one that is asked for,
    None for the checkpoint's own. Raises CheckpointError where weights and config.json say
    different things, where nothing here computes the head, and where the weights have none for the
    task.
    """
    found = _behind(tensors, prefix)
    fitting = [h for h in base.heads if h.fits(found, tensors, f"{prefix}{base.pooler}")]
    asked = task or layout.task
    if asked == EMBEDDING:
        head = next(head for head in base.heads if head.task == EMBEDDING)
        return head, [f"its head ({found[0]} ...) is left out"] if found else []
    if task is not None:
        return _of_task(base, fitting, task), []
    named = config.get("architectures")
    if not named:
        return _by_weights(base, fitting, found)
    kinds = {f"{base.name}{head.kind}": head for head in base.heads}
    texts = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    known = [kinds[name] for name in texts if name in kinds]
    if not known:
        raise CheckpointError(
            f"config.json: architectures is {named}: those that map are {_names(base)}"
            f"{_perhaps(base, fitting)}"
        )
    head = known[0]
    if not head.task:
        raise CheckpointError(_uncomputed(base, head))
    if fitting and head not in fitting:
        raise CheckpointError(
            f"config.json: architectures is {named}, but the weights are those of "
            f"{_names(base, fitting)}: one of the two is of another checkpoint"
        )
    pooled = any(POOLER in other.layers for other in fitting)
    if head.task == TOKEN_CLASSIFICATION and pooled and not _tags(config):
        raise CheckpointError(
            f"config.json: architectures is {named}, but the weights have a pooler, as those of "
            f"{_names(base, [h for h in fitting if h is not head])}, and id2label names no tags: "
            f"say what it is with --task {TOKEN_CLASSIFICATION} or --task {CLASSIFICATION}"
        )
    return head, [head.note] if head.note else []


def take(
    base: Base,
    prefix: str,
    head: Head,
    config: Config,
    tensors: Tensors,
    layout: Layout,
    width: int,
) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a head, and the fields of the EncoderSpec that it decides.

    prefix: as of choose. width: of what the encoder gives, and so of an embedding. A
    pooler that the head does not read, which only pre-training does, is left out.
    """
    arrays: Arrays = {}
    fields: dict[str, Any]
    pooler = f"{prefix}{base.pooler}"
    for j, name in enumerate(head.layers):
        there = f"{name}.bias" not in head.free or f"{name}.bias" in tensors
        whole = "bias" in head.parts and there
        arrays |= tensors.linear(pooler if name == POOLER else name, f"head.{j}", bias=whole)
    if POOLER not in head.layers:
        tensors.drop(f"{pooler}.")
    if head.task == EMBEDDING:
        tensors.drop(*_behind(tensors, prefix))
        fields = {"labels": (), "task": EMBEDDING, "pooling": layout.pooling}
        if head.layers:
            return arrays, fields | {"width": len(arrays["head.0.weight"])}
        return identity(width), fields
    last = arrays[f"head.{len(head.layers) - 1}.weight"]
    fields = {"head_activations": head.activations}
    if head.norm:
        fields = {"head_activations": (activation(config, "classifier_activation"),)}
        bias = f"{head.norm}.bias" in tensors
        arrays |= tensors.norm(head.norm, "head.norm", bias=bias)
        fields["head_norm"] = True
    if head.task == QUESTION_ANSWERING:
        return arrays, fields | {"labels": _ANSWER, "task": head.task, "pooling": "none"}
    if head.task == TOKEN_CLASSIFICATION:
        labels = labels_of(config, last)
        return arrays, fields | {"labels": labels, "task": head.task, "pooling": "none"}
    if head.kind == "ForNextSentencePrediction":
        return arrays, fields | {"labels": _SENTENCES, "task": CLASSIFICATION}
    if head.kind == "ForMultipleChoice":
        return arrays, fields | {"labels": _CHOICE, "task": REGRESSION}
    return arrays, fields | _scores(answers_of(config, last), layout.function)


def _scores(answers: dict[str, Any], function: str | None) -> dict[str, Any]:
    """Of a CrossEncoder, whose outputs are scores: one each, or a class of several."""
    if function is None:
        return answers
    single = len(answers["labels"]) == 1
    if single:
        return answers | {"task": REGRESSION, "function": function or SIGMOID}
    return answers | {"task": MULTI_LABEL if function == SIGMOID else CLASSIFICATION}


def _behind(tensors: Tensors, prefix: str) -> list[str]:
    """The names of the tensors that do not belong to the encoder."""
    if prefix:
        return sorted(name for name in tensors.names if not name.startswith(prefix))
    return sorted(name for name in tensors.names if name.split(".")[0] not in _ENCODER)


def _of_task(base: Base, fitting: Sequence[Head], task: str) -> Head:
    for head in fitting:
        if head.task == task or (head.task == CLASSIFICATION and task in (MULTI_LABEL, REGRESSION)):
            return head
    raise CheckpointError(
        f"the weights have no head for the task {task}"
        + (f": they are those of {_names(base, fitting)}" if fitting else "")
    )


def _by_weights(
    base: Base, fitting: Sequence[Head], found: Sequence[str]
) -> tuple[Head, list[str]]:
    if not fitting:
        raise CheckpointError(
            f"config.json names no architectures, and the tensor {found[0]} belongs to none of "
            f"{_names(base)}"
        )
    head = fitting[0]
    if not head.task:
        raise CheckpointError(_uncomputed(base, head))
    said = [f"config.json names no architectures: by its weights {base.name}{head.kind}"]
    return head, [*said, head.note] if head.note else said


def _uncomputed(base: Base, head: Head) -> str:
    instead = (
        ""
        if head.why != Head.why
        else (", and python -m train.finetune --model DIR puts a classifier in its place")
    )
    return (
        f"the head of {base.name}{head.kind} {head.why}: --task {EMBEDDING} takes the encoder "
        f"without it{instead}"
    )


def _names(base: Base, heads: Sequence[Head] | None = None) -> str:
    chosen = [head for head in base.heads if head.task] if heads is None else heads
    *most, last = (f"{base.name}{head.kind}" for head in chosen)
    return f"{', '.join(most)} or {last}" if most else last


def _perhaps(base: Base, fitting: Sequence[Head]) -> str:
    if not fitting:
        return ""
    return (
        f". Its weights have the names of {_names(base, fitting)}: if it computes the same, name "
        "that"
    )


def _tags(config: Config) -> bool:
    """Whether the classes are called as tags of words usually are: O, B-PER, I-PER."""
    names = config.get("id2label")
    values = map(str, names.values()) if isinstance(names, dict) else ()
    return any(name == "O" or name[:2] in ("B-", "I-") for name in values)
