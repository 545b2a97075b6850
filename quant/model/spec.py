"""One description of an encoder and its task, whatever family its checkpoint came from.

A loader (quant.foreign.checkpoint) turns a checkpoint into an EncoderSpec and named float32 arrays;
every later stage reads only those. Names and shapes of the arrays, with H hidden, D = heads *
head_size, F feed-forward, V vocabulary, P rows of the position table, T segment types:

    embedding.token [V, H]   embedding.position [P, H]   embedding.type [T, H] where types > 0
    embedding.norm.gamma, .beta [H]                      where embedding_norm
    embedding.projection     .weight [H, E]  .bias [H]   where E = embedding_size > 0
    attention.bias [heads, 2 L - 1]                      where position_bias, L = max_tokens
    rotary.j.cos, .sin [L, head_size / 2]                where a layer names table j
    layer.i.q, .k, .v        .weight [D, H]  .bias [D]   K and V: kv_heads * head_size rows
    layer.i.o                .weight [H, D]  .bias [H]
    layer.i.norm1, .norm2    .gamma, .beta [H]           no layer.0.norm1 without first_norm
    layer.i.ffn.up, .gate    .weight [F, H]  .bias [F]   gate where gated
    layer.i.ffn.down         .weight [H, F]  .bias [H]
    final.norm.gamma, .beta [H]                          where norm is "pre"
    head.j                   .weight [out, in]  .bias [out]
    head.norm.gamma, .beta [H]                           where head_norm

A linear layer is y = x W^T + b. Where the checkpoint has no bias, the array holds zeros. The last
layer of the head gives the outputs: a logit or a number for each label, or the H numbers of an
embedding, whose head is the identity.

Channels 2i and 2i + 1 of a head of Q and K are the pair that column i of a rotary table turns. Head
h of Q has head h mod kv_heads of K and V. `quant.model.rotary` gives both orders to a checkpoint's.
The beta of an RMSNorm holds zeros.

A factorised embedding has E <= H channels, which are projected to H behind its norm. Its tables
have H channels all the same: E whose sum is 0 in every row, then zeros. So LayerNorm over H
channels is the one over E but for a factor, which gamma takes up:

    (u - mean) / sqrt(var + epsilon) over E  =  sqrt(E / H) u' / sqrt(var' + epsilon E / H) over H
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray

from golden.model import ROTARY_TABLES_MAX, Window
from quant.model.activation import ACTIVATIONS
from quant.model.position_bias import BIAS
from quant.model.window import Windows

Floats: TypeAlias = NDArray[np.floating[Any]]  # float32; float64 where calibration observes
Arrays: TypeAlias = dict[str, Floats]

NORMS = ("post", "pre")
POOLINGS = ("first", "mean", "last", "none")
CLASSIFICATION, EMBEDDING, MULTI_LABEL, QUESTION_ANSWERING, REGRESSION, TOKEN_CLASSIFICATION = (
    TASKS
) = (
    "classification",
    "embedding",
    "multi-label",
    "question-answering",
    "regression",
    "token-classification",
)
TEXT_SIDE = "text-embedding"
"""What is asked for in place of a task where the text side of a whole CLIP is wanted."""

LABELLED = (CLASSIFICATION, MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION)
"""Tasks whose outputs have names and can be held to what a file of texts says of each."""

EVERY_TOKEN = (QUESTION_ANSWERING, TOKEN_CLASSIFICATION)
"""Tasks with outputs for every token."""

TEXTS, IMAGES, FILES = "texts", "images", "files"
"""What a model reads: texts with a table of tokens, images, or files of rows."""

FUNCTIONS = IDENTITY, SIGMOID = ("identity", "sigmoid")
"""What the numbers of a regression go through on the host."""

_CLASSIFY = "use python -m quant.classify or quant.evaluate"
_USES = {
    CLASSIFICATION: f"is a classifier and makes no embeddings: {_CLASSIFY}",
    MULTI_LABEL: f"gives several labels at once, not one class or an embedding: {_CLASSIFY}",
    REGRESSION: f"gives numbers, not a class or an embedding: {_CLASSIFY}",
    QUESTION_ANSWERING: "answers a question from a text, by the words where the answer begins and "
    "ends: use python -m quant.classify QUESTION --pair TEXT",
    TOKEN_CLASSIFICATION: f"gives every token a class, not one to a text: {_CLASSIFY}",
    EMBEDDING: "makes embeddings and has no classes: use python -m quant.embed, "
    "or fine-tune it first (python -m train.finetune)",
}
"""What a model of each task is for, said where another one is needed."""


class CheckpointError(UserError):
    """A checkpoint that cannot be read or mapped; the message names the layer and the reason."""


class InputError(UserError):
    """A text or an image that cannot be read or classified; the message says why."""


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """The shape and the choices of an encoder with a head.

    task: what the outputs are. "classification": a logit for each of the labels, the largest is the
    class. "multi-label": a logit for each of the labels, which holds where its own is above 0, a
    probability above one half. "regression": a number for each of the labels. "embedding": a vector
    of the hidden size, whose direction is the meaning; no labels. "token-classification": a class
    for every token. "question-answering": for every token of a question and a text two logits,
    whether the answer begins there and whether it ends there. Only these two have the pooling
    "none".
    function: what the numbers of a regression go through, "identity" or "sigmoid".

    norm: "post" normalises after each residual addition (BERT); "pre" before each branch, with a
    final norm after the last layer. first_norm: False where layer 0 of "pre" has no norm before its
    attention, which reads the embedding's. windows: of each layer, None where a query sees every
    key; () where no layer has one. pooling: what the head reads, the "first" token, the "mean" over
    the attended tokens, the "last" token or ("none") every token by itself. The integer model has
    no pooling for the last one: it gives the outputs of every token, and the host keeps the last
    (`kept`). end: the id with which a text ends there and nowhere before; None for the largest id
    in it. rotary: of each layer the number of the table that turns Q and K, or None; () where no
    layer has one. kv_heads: heads of K and V, a divisor of heads; 0 for as many. gated: hidden =
    activation(gate(x)) * up(x). rms_norm: x / sqrt(mean(x^2) + epsilon) gamma. unread: id of a
    token that no text may hold, since the embeddings would depend on how often it does. width:
    numbers of an embedding, 0 for the hidden size. head_activations: one for each hidden layer of
    the head, so the head has one linear layer more than that. Token t takes row t + position_offset
    of the position table. embedding_size: channels of a factorised embedding, 0 where there is no
    projection. position_bias: scores have a bias for each head and difference of two positions
    (quant.model.position_bias). given: rows that a host computed take the place of the token table,
    and ids are their numbers (quant.quantize.given); the table of positions is zero. Every image
    has as many rows as that. rows: they are those of a front end that the user has, as many as it
    makes of an input. No two labels are one name. Raises ValueError naming the field, its value and
    what is allowed.
    """

    layers: int
    hidden: int
    heads: int
    head_size: int
    ffn: int
    labels: tuple[str, ...]
    vocabulary: int
    positions: int
    types: int = 0
    position_offset: int = 0
    norm: str = "post"
    embedding_norm: bool = True
    pooling: str = "first"
    activation: str = "gelu"
    head_activations: tuple[str, ...] = ()
    epsilon: float = 1e-12
    task: str = CLASSIFICATION
    embedding_size: int = 0
    function: str = IDENTITY
    given: bool = False
    rows: bool = False
    position_bias: bool = False
    windows: Windows = ()
    end: int | None = None
    width: int = 0
    rotary: tuple[int | None, ...] = ()
    kv_heads: int = 0
    gated: bool = False
    rms_norm: bool = False
    unread: int | None = None
    first_norm: bool = True
    head_norm: bool = False

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "head_size", "ffn", "vocabulary"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
        _one_of("task", self.task, TASKS)
        if self.task in (CLASSIFICATION, TOKEN_CLASSIFICATION) and len(self.labels) < 2:
            raise UserError(f"labels are {self.labels}: a classifier needs at least 2")
        if self.task == QUESTION_ANSWERING and len(self.labels) != 2:
            raise UserError(f"labels are {self.labels}: an answer's start and end are 2")
        if self.task in LABELLED and not self.labels:
            raise UserError(f"labels are (): {self.task} needs at least 1")
        if self.task == EMBEDDING and self.labels:
            raise UserError(f"labels are {self.labels}: an embedding has none")
        if same := same_names(self.labels):
            raise UserError(
                f"the labels {same[0]!r} and {same[1]!r} are one name (surrounding space does not "
                "count): rename one in id2label"
            )
        if self.types < 0:
            raise UserError(f"types is {self.types}: it must be 0 (no segment embedding) or more")
        if not 0 <= self.position_offset < self.positions:
            raise UserError(
                f"position_offset is {self.position_offset}: it must be from 0 to below the "
                f"{self.positions} rows of the position table"
            )
        if not self.epsilon > 0:
            raise UserError(f"epsilon is {self.epsilon}: LayerNorm needs it above 0")
        _one_of("norm", self.norm, NORMS)
        _one_of("pooling", self.pooling, POOLINGS)
        if not 0 <= self.embedding_size <= self.hidden:
            raise UserError(
                f"embedding_size is {self.embedding_size}: it must be from 0 (no projection) to "
                f"the hidden size, {self.hidden}"
            )
        if self.given and (self.types or self.position_offset or self.embedding_size):
            raise UserError(
                f"given is True with types {self.types}, position_offset {self.position_offset} "
                f"and embedding_size {self.embedding_size}: rows that are given have everything in "
                "them, so these must be 0"
            )
        if self.rows and not self.given:
            raise UserError("rows is True and given False: rows of a front end are given")
        if self.embedding_size and self.norm == "pre":
            raise UserError(
                f"embedding_size is {self.embedding_size} and norm 'pre': a projection reads the "
                "output of the embedding's norm, so the norm must be 'post'"
            )
        if (self.pooling == "none") != (self.task in EVERY_TOKEN):
            raise UserError(
                f"pooling is {self.pooling!r} and task {self.task!r}: without pooling the task is "
                f"{' or '.join(EVERY_TOKEN)}, and with one it is another"
            )
        if self.pooling == "last" and self.task != EMBEDDING:
            raise UserError(
                f"pooling is 'last' and task {self.task!r}: only an {EMBEDDING} is read from the "
                "last token"
            )
        if self.end is not None and self.pooling != "last":
            raise UserError(f"end is {self.end} and pooling {self.pooling!r}: it must be 'last'")
        if self.width and (self.task != EMBEDDING or self.width < 1):
            raise UserError(
                f"width is {self.width} and task {self.task!r}: only {EMBEDDING} has one, 0 or more"
            )
        if len(self.windows) not in (0, self.layers) or set(self.windows) == {None}:
            raise UserError(
                f"windows are {self.windows}: there must be one for each of the {self.layers} "
                "layers, or () where no layer has one"
            )
        self._check_rotary()
        if self.kv_heads and (self.kv_heads >= self.heads or self.heads % self.kv_heads):
            raise UserError(
                f"kv_heads is {self.kv_heads}: it must be a divisor of the {self.heads} heads and "
                "below them, or 0 for as many"
            )
        if self.kv_heads and self.position_bias:
            raise UserError(
                f"kv_heads is {self.kv_heads} and position_bias True: heads that share K and V "
                "have no bias"
            )
        if not self.first_norm and not (self.norm == "pre" and self.embedding_norm):
            raise UserError(
                f"first_norm is False with norm {self.norm!r} and embedding_norm "
                f"{self.embedding_norm}: a layer 0 without norm1 needs 'pre' and an embedding norm"
            )
        if self.rms_norm and self.embedding_size:
            raise UserError(
                f"rms_norm is True and embedding_size {self.embedding_size}: a factorised "
                "embedding has a LayerNorm"
            )
        if self.head_norm and not self.head_activations:
            raise UserError(
                "head_norm is True with one layer of the head: it stands behind a hidden layer"
            )
        _one_of("function", self.function, FUNCTIONS)
        if self.function != IDENTITY and self.task != REGRESSION:
            raise UserError(f"function is {self.function!r}: only {REGRESSION} has one")
        _one_of("activation", self.activation, tuple(ACTIVATIONS))
        for activation in self.head_activations:
            _one_of("head_activations", activation, tuple(ACTIVATIONS))

    def window(self, layer: int) -> Window | None:
        """Which keys a query of this layer sees; None: all."""
        return self.windows[layer] if self.windows else None

    def _check_rotary(self) -> None:
        tables = set(self.rotary) - {None}
        if not self.rotary:
            return
        if len(self.rotary) != self.layers or tables not in ({0}, {0, 1}):
            raise UserError(
                f"rotary is {self.rotary}: there must be None or the number of one of at most "
                f"{ROTARY_TABLES_MAX} tables for each of the {self.layers} layers, or () where no "
                "layer has one"
            )
        if self.head_size % 2:
            raise UserError(
                f"head_size is {self.head_size}: it must be even with rotary positions, which "
                "turn pairs of channels"
            )

    def table(self, layer: int) -> int | None:
        """The number of the rotary table that turns Q and K of this layer; None: none does."""
        return self.rotary[layer] if self.rotary else None

    @property
    def tables(self) -> int:
        """How many rotary tables there are."""
        return len(set(self.rotary) - {None})

    @property
    def groups(self) -> int:
        """Heads of K, and of V."""
        return self.kv_heads or self.heads

    @property
    def every_token(self) -> bool:
        """The integer model gives the outputs of every token."""
        return self.pooling in ("last", "none")

    def kept(self, outputs: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Of the integer model's outputs, of texts one after the other, those of the answers.

        outputs [n, C] as golden gives them: of each text, or with `every_token` of each token.
        Where the last token is read these are its own, [texts, C].
        """
        return outputs[np.cumsum(lengths) - 1] if self.pooling == "last" else outputs

    @property
    def inputs(self) -> str:
        """What it reads, as commands call several of them."""
        return _inputs(self.given, self.rows)

    @property
    def max_tokens(self) -> int:
        """The longest sequence that the position table covers."""
        return self.positions - self.position_offset

    @property
    def embedding_epsilon(self) -> float:
        """That of the embedding's norm, which runs over all channels of the tables."""
        return self.epsilon * (self.embedding_size or self.hidden) / self.hidden

    def require(self, tasks: Sequence[str], model: object) -> None:
        """Raises ValueError, which names the model and what it is for, for a task not of these."""
        if self.task not in tasks:
            raise UserError(f"{model} {_USES[self.task]}")

    @property
    def outputs(self) -> int:
        """How many numbers leave the head."""
        return (self.width or self.hidden) if self.task == EMBEDDING else len(self.labels)

    @property
    def head_layers(self) -> int:
        return len(self.head_activations) + 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of every array the encoder needs; -1 (a width of the head) is free."""
        attention = self.heads * self.head_size
        shapes: dict[str, tuple[int, ...]] = {
            "embedding.token": (self.vocabulary, self.hidden),
            "embedding.position": (self.positions, self.hidden),
        }
        if self.types:
            shapes["embedding.type"] = (self.types, self.hidden)

        def linear(name: str, outputs: int, inputs: int) -> None:
            shapes[f"{name}.weight"] = (outputs, inputs)
            shapes[f"{name}.bias"] = (outputs,)

        def norm(name: str) -> None:
            shapes[f"{name}.gamma"] = shapes[f"{name}.beta"] = (self.hidden,)

        if self.embedding_norm:
            norm("embedding.norm")
        if self.embedding_size:
            linear("embedding.projection", self.hidden, self.embedding_size)
        if self.position_bias:
            shapes[BIAS] = (self.heads, 2 * self.max_tokens - 1)
        for j in range(self.tables):
            for part in ("cos", "sin"):
                shapes[f"rotary.{j}.{part}"] = (self.max_tokens, self.head_size // 2)
        for i in range(self.layers):
            linear(f"layer.{i}.q", attention, self.hidden)
            for name in "kv":
                linear(f"layer.{i}.{name}", self.groups * self.head_size, self.hidden)
            linear(f"layer.{i}.o", self.hidden, attention)
            if i or self.first_norm:
                norm(f"layer.{i}.norm1")
            if self.gated:
                linear(f"layer.{i}.ffn.gate", self.ffn, self.hidden)
            linear(f"layer.{i}.ffn.up", self.ffn, self.hidden)
            linear(f"layer.{i}.ffn.down", self.hidden, self.ffn)
            norm(f"layer.{i}.norm2")
        if self.norm == "pre":
            norm("final.norm")
        for j in range(self.head_layers):
            last = j == self.head_layers - 1
            free = self.hidden if self.head_norm and j == self.head_layers - 2 else -1
            linear(f"head.{j}", self.outputs if last else free, -1 if j else self.hidden)
        if self.head_norm:
            norm("head.norm")
        return shapes

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; EncoderSpec.from_json is the inverse."""
        return {
            field.name: _listed(getattr(self, field.name)) for field in dataclasses.fields(self)
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "EncoderSpec":
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        fields["windows"] = tuple(
            None if pair is None else Window(*pair) for pair in fields.get("windows", ())
        )
        return cls(**fields)


def _listed(value: Any) -> Any:
    if isinstance(value, Window):
        return [value.before, value.after]
    return list(map(_listed, value)) if isinstance(value, tuple) else value


def inputs_of(info: Mapping[str, Any]) -> str:
    """What a quantized model reads, by its description, as EncoderSpec.inputs."""
    spec = info.get("spec")
    found = spec if isinstance(spec, dict) else {}
    return _inputs(found.get("given") is True, found.get("rows") is True)


def is_given(info: Mapping[str, Any]) -> bool:
    """Whether a quantized model's rows come with each input, by its description."""
    return inputs_of(info) != TEXTS


def _inputs(given: bool, rows: bool) -> str:
    return FILES if rows else IMAGES if given else TEXTS


def check_arrays(spec: EncoderSpec, arrays: Mapping[str, Floats]) -> None:
    """Raise CheckpointError unless ``arrays`` holds exactly what ``spec`` needs, all finite."""
    shapes = spec.shapes()
    for name, shape in shapes.items():
        if name not in arrays:
            raise CheckpointError(f"{name} is missing")
        found = arrays[name].shape
        if len(found) != len(shape) or any(s not in (-1, f) for s, f in zip(shape, found)):
            wanted = " x ".join("any" if size < 0 else str(size) for size in shape)
            raise CheckpointError(f"{name} has shape {_times(found)}: the config asks for {wanted}")
        if not np.isfinite(arrays[name]).all():
            raise CheckpointError(f"{name} holds a value that is not a finite number")
    if unknown := sorted(set(arrays) - set(shapes)):
        raise CheckpointError(f"{unknown[0]} belongs to no layer of the encoder")
    for j in range(1, spec.head_layers):
        inner, outer = arrays[f"head.{j - 1}.weight"], arrays[f"head.{j}.weight"]
        if outer.shape[1] != inner.shape[0]:
            raise CheckpointError(
                f"head.{j}.weight has {outer.shape[1]} inputs: head.{j - 1} gives {inner.shape[0]}"
            )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UserError(f"{name} is {value!r}: it must be one of {', '.join(allowed)}")


def same_names(names: Sequence[str]) -> tuple[str, str] | None:
    """Two of the names that are the same one but for surrounding space, if there are."""
    seen: dict[str, str] = {}
    for name in names:
        key = name.strip()
        if key in seen:
            return seen[key], name
        seen[key] = name
    return None
