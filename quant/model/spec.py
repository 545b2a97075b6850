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
from collections.abc import Iterator, Mapping, Sequence
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
    EMBEDDING: "makes embeddings and has no classes: use python -m quant.embed or "
    "quant.similarity, or fine-tune it first (python -m train.finetune)",
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
        for name, right, allowed in self._rules():
            if not right:
                raise UserError(f"{name} is {getattr(self, name)!r}: it must be {allowed}")
        if same := same_names(self.labels):
            raise UserError(
                f"the labels {same[0]!r} and {same[1]!r} are one name (surrounding space does not "
                "count): rename one in id2label"
            )

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """A field, whether its value is allowed, and what is; later rules rely on earlier ones."""
        for name in ("layers", "hidden", "heads", "head_size", "ffn", "vocabulary", "positions"):
            value = getattr(self, name)
            yield name, type(value) is int and value >= 1, "an integer of at least 1"
        choices = {"task": TASKS, "norm": NORMS, "pooling": POOLINGS, "function": FUNCTIONS}
        for name, allowed in (choices | {"activation": tuple(ACTIVATIONS)}).items():
            yield name, getattr(self, name) in allowed, f"one of {', '.join(allowed)}"
        least = {CLASSIFICATION: 2, TOKEN_CLASSIFICATION: 2, MULTI_LABEL: 1, REGRESSION: 1}
        count = len(self.labels)
        exact = {QUESTION_ANSWERING: 2, EMBEDDING: 0}.get(
            self.task, max(count, least.get(self.task, 0))
        )
        wanted = f"{exact} for {self.task}" + " or more" * (self.task in least)
        yield "labels", count == exact, wanted
        yield "types", self.types >= 0, "0 (no segment embedding) or more"
        rows = f"from 0 to below the {self.positions} rows of the position table"
        yield "position_offset", 0 <= self.position_offset < self.positions, rows
        yield "epsilon", self.epsilon > 0, "above 0"
        size = f"from 0 (no projection) to the hidden size, {self.hidden}"
        yield "embedding_size", 0 <= self.embedding_size <= self.hidden, size
        others = self.types or self.position_offset or self.embedding_size
        whole = "False beside types, position_offset or embedding_size: rows have all in them"
        yield "given", not (self.given and others), whole
        yield "rows", self.given or not self.rows, "False where rows are not given"
        post = "0 with the norm 'pre' or rms_norm: a projection reads a LayerNorm's output"
        plain = self.norm == "post" and not self.rms_norm
        yield "embedding_size", plain or not self.embedding_size, post
        every = f"'none' for {' and '.join(EVERY_TOKEN)}, and for no other task"
        yield "pooling", (self.pooling == "none") == (self.task in EVERY_TOKEN), every
        last = self.pooling == "last"
        yield "pooling", not last or self.task == EMBEDDING, f"'last' for {EMBEDDING} alone"
        yield "end", last or self.end is None, "None unless the pooling is 'last'"
        width = f"0, or of an {EMBEDDING} 1 or more"
        yield "width", not self.width or (self.task == EMBEDDING and self.width > 0), width
        each = f"one for each of the {self.layers} layers, or () where no layer has one"
        windows = len(self.windows) in (0, self.layers) and set(self.windows) != {None}
        yield "windows", windows, each
        tables = set(self.rotary) - {None} in ({0}, {0, 1}) and len(self.rotary) == self.layers
        two = f"None or the number of one of at most {ROTARY_TABLES_MAX} tables, {each}"
        yield "rotary", not self.rotary or tables, two
        even = "even with rotary positions, which turn pairs of channels"
        yield "head_size", not self.rotary or self.head_size % 2 == 0, even
        divisor = self.kv_heads < self.heads and self.heads % (self.kv_heads or 1) == 0
        groups = f"a divisor of the {self.heads} heads and below them, or 0 for as many"
        yield "kv_heads", self.kv_heads >= 0 and divisor, groups
        biased = "0 beside a position_bias: heads that share K and V have no bias"
        yield "kv_heads", not (self.kv_heads and self.position_bias), biased
        first = "True unless the norm is 'pre' and the embedding has one"
        read = self.norm == "pre" and self.embedding_norm
        yield "first_norm", self.first_norm or read, first
        hidden = "False for a head of one layer: it stands behind a hidden layer"
        yield "head_norm", not self.head_norm or bool(self.head_activations), hidden
        through = f"identity unless the task is {REGRESSION}"
        yield "function", self.function == IDENTITY or self.task == REGRESSION, through
        known = set(self.head_activations) <= set(ACTIVATIONS)
        yield "head_activations", known, f"of {', '.join(ACTIVATIONS)}"

    def window(self, layer: int) -> Window | None:
        """Which keys a query of this layer sees; None: all."""
        return self.windows[layer] if self.windows else None

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


def same_names(names: Sequence[str]) -> tuple[str, str] | None:
    """Two of the names that are the same one but for surrounding space, if there are."""
    seen: dict[str, str] = {}
    for name in names:
        key = name.strip()
        if key in seen:
            return seen[key], name
        seen[key] = name
    return None
