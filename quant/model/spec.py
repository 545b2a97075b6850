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
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray

from golden.model import ROTARY_TABLES_MAX, Window
from quant.model.activation import ACTIVATIONS
from quant.model.distance import BIAS, Windows

Floats: TypeAlias = NDArray[np.floating[Any]]  # float32; float64 where calibration observes
Arrays: TypeAlias = dict[str, Floats]

CLASSIFICATION, EMBEDDING, MULTI_LABEL = "classification", "embedding", "multi-label"
QUESTION_ANSWERING, REGRESSION = "question-answering", "regression"
TOKEN_CLASSIFICATION = "token-classification"
TEXT_SIDE = "text-embedding"
"""What is asked for in place of a task where the text side of a whole CLIP is wanted."""

LABELLED = (CLASSIFICATION, MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION)
"""Tasks whose outputs have names and can be held to what a file of texts says of each."""

EVERY_TOKEN = (QUESTION_ANSWERING, TOKEN_CLASSIFICATION)
"""Tasks with outputs for every token."""
TASKS = tuple(sorted({*LABELLED, *EVERY_TOKEN, EMBEDDING}))

TABLE = "embedding.token"
"""The name of the table of tokens."""

TEXTS, IMAGES, FILES = "texts", "images", "files"
"""What a model reads: texts with a table of tokens, images, or files of rows."""

FUNCTIONS = IDENTITY, SIGMOID = ("identity", "sigmoid")
"""What the numbers of a regression go through on the host."""


class CheckpointError(UserError):
    """A checkpoint that cannot be read or mapped; the message names the layer and the reason."""


class InputError(UserError):
    """A text or an image that cannot be read or classified; the message says why."""


@contextmanager
def saying(kind: type[UserError], what: str, advice: str) -> Iterator[None]:
    """Makes one sentence of any error, of a file, of the libraries and of what options make them"""
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise kind(f"{what} ({why}): {advice}") from None


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """The shape and the choices of an encoder with a head. Raises UserError naming a wrong field.

    task: the meaning of the outputs. "classification": a logit for each of the labels, of which the
    largest counts. "multi-label": a logit for each of the labels, which holds above 0.
    "regression": a number for each of the labels, which goes through the function on the host.
    "embedding": a vector of `width` numbers, 0 for the hidden size. "token-classification": a class
    for every token. "question-answering": for every token two logits, whether the answer begins
    there and whether it ends there.
    pooling: what the head reads, the "first" token, the "mean" over the attended tokens, the "last"
    token or ("none") every token by itself. The integer model gives every token's outputs for the
    last one too, and the host keeps the last (`kept`). end: the id that ends a text there and
    nowhere before; None for the largest id in it.
    given: rows that a host computed take the place of the token table (quant.foreign.tokenizer), as
    many for every image. rows: they are those of a front end of the user's, as many as it makes.
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
    position_offset: int = 0  # token t takes row t + position_offset of the position table
    norm: str = "post"  # after each residual addition; "pre": before each branch, and a final one
    embedding_norm: bool = True
    pooling: str = "first"
    activation: str = "gelu"
    head_activations: tuple[str, ...] = ()  # of each layer of the head but the last
    epsilon: float = 1e-12
    task: str = CLASSIFICATION
    embedding_size: int = 0  # channels of a factorised embedding; 0: without a projection
    function: str = IDENTITY
    given: bool = False
    rows: bool = False
    position_bias: bool = False  # of scores, by head and distance (quant.model.distance)
    windows: Windows = ()  # of each layer, None: all keys; () where no layer has one
    end: int | None = None
    width: int = 0
    rotary: tuple[int | None, ...] = ()  # of each layer the table that turns Q and K, or None
    kv_heads: int = 0  # heads of K and V; 0: as many as of Q
    gated: bool = False  # hidden = activation(gate(x)) * up(x)
    rms_norm: bool = False  # x / sqrt(mean(x^2) + epsilon) gamma
    unread: int | None = None  # the id of a token that no text may hold
    first_norm: bool = True  # False: layer 0 of "pre" reads the embedding's
    head_norm: bool = False

    def __post_init__(self) -> None:
        for name, right, allowed in _RULES:
            if not right(self):
                value = getattr(self, name)
                raise UserError(f"{name} is {value!r}: it must be {allowed.format(self)}")
        for label, count in Counter(map(str.strip, self.labels)).items():
            if count > 1:
                same = f"{count} labels are {label!r} (surrounding space does not count)"
                raise UserError(f"{same}: rename all but one in id2label")

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
        return FILES if self.rows else IMAGES if self.given else TEXTS

    @property
    def max_tokens(self) -> int:
        """The longest sequence that the position table covers."""
        return self.positions - self.position_offset

    @property
    def embedding_epsilon(self) -> float:
        """That of the embedding's norm, which runs over all channels of the tables."""
        return self.epsilon * (self.embedding_size or self.hidden) / self.hidden

    def require(self, tasks: Sequence[str], model: object) -> None:
        """Raises UserError, which names the model and what it is for, for a task not of these."""
        if self.task not in tasks:
            uses = {EMBEDDING: "embed", QUESTION_ANSWERING: "classify QUESTION --pair TEXT"}
            use = uses.get(self.task, "classify")
            what = f"{model} is a model of {self.task}, which does not serve here"
            raise UserError(f"{what}: use python -m quant.{use}, or take one of {', '.join(tasks)}")

    @property
    def outputs(self) -> int:
        """How many numbers leave the head."""
        return (self.width or self.hidden) if self.task == EMBEDDING else len(self.labels)

    @property
    def head_layers(self) -> int:
        return len(self.head_activations) + 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of every array the encoder needs; -1 (a width of the head) is free."""
        hidden, attention = self.hidden, self.heads * self.head_size
        shapes: dict[str, tuple[int, ...]] = {
            "embedding.token": (self.vocabulary, hidden),
            "embedding.position": (self.positions, hidden),
        }
        if self.types:
            shapes["embedding.type"] = (self.types, hidden)

        def add(name: str, *shape: int) -> None:
            """The weight and bias of a linear layer, or the gamma and beta of a norm."""
            ends = ("weight", "bias") if len(shape) > 1 else ("gamma", "beta")
            shapes.update({f"{name}.{ends[0]}": shape, f"{name}.{ends[1]}": shape[:1]})

        if self.embedding_norm:
            add("embedding.norm", hidden)
        if self.embedding_size:
            add("embedding.projection", hidden, self.embedding_size)
        if self.position_bias:
            shapes[BIAS] = (self.heads, 2 * self.max_tokens - 1)
        for name in (f"rotary.{j}.{part}" for j in range(self.tables) for part in ("cos", "sin")):
            shapes[name] = (self.max_tokens, self.head_size // 2)
        for layer in (f"layer.{i}" for i in range(self.layers)):
            add(f"{layer}.q", attention, hidden)
            add(f"{layer}.k", self.groups * self.head_size, hidden)
            add(f"{layer}.v", self.groups * self.head_size, hidden)
            add(f"{layer}.o", hidden, attention)
            if self.first_norm or layer != "layer.0":
                add(f"{layer}.norm1", hidden)
            if self.gated:
                add(f"{layer}.ffn.gate", self.ffn, hidden)
            add(f"{layer}.ffn.up", self.ffn, hidden)
            add(f"{layer}.ffn.down", hidden, self.ffn)
            add(f"{layer}.norm2", hidden)
        if self.norm == "pre":
            add("final.norm", hidden)
        last = self.head_layers - 1
        for j in range(self.head_layers):
            free = hidden if self.head_norm and j == last - 1 else -1
            add(f"head.{j}", free if j < last else self.outputs, -1 if j else hidden)
        if self.head_norm:
            add("head.norm", hidden)
        return shapes

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; EncoderSpec.from_json is the inverse."""
        return json.loads(json.dumps(vars(self), default=dataclasses.astuple))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "EncoderSpec":
        fields: dict[str, Any] = dict(values)
        fields |= {name: tuple(x) for name, x in values.items() if isinstance(x, list)}
        fields["windows"] = tuple(pair and Window(*pair) for pair in fields.get("windows", ()))
        return cls(**fields)


_CHOICES = {"task": TASKS, "norm": ("post", "pre"), "pooling": ("first", "mean", "last", "none")}
_CHOICES |= {"function": FUNCTIONS, "activation": tuple(ACTIVATIONS)}
_LEAST = {CLASSIFICATION: 2, TOKEN_CLASSIFICATION: 2, MULTI_LABEL: 1, REGRESSION: 1}
_EACH = "one for each of the {0.layers} layers, or () where no layer has one"


_RULES: tuple[tuple[str, Callable[[EncoderSpec], bool], str], ...] = (
    *((name, lambda s, x=name: type(getattr(s, x)) is int and getattr(s, x) >= 1,
       "an integer of at least 1")
      for name in ("layers", "hidden", "heads", "head_size", "ffn", "vocabulary", "positions")),
    *((name, lambda s, x=name: getattr(s, x) in _CHOICES[x], f"one of {', '.join(allowed)}")
      for name, allowed in _CHOICES.items()),
    ("labels", lambda s: len(s.labels) >= _LEAST.get(s.task, 0),
     "2 names for a class, 1 or more for labels and numbers"),
    ("types", lambda s: s.types >= 0, "0 (no segment embedding) or more"),
    ("position_offset", lambda s: 0 <= s.position_offset < s.positions,
     "from 0 to below the {0.positions} rows of the position table"),
    ("epsilon", lambda s: s.epsilon > 0, "above 0"),
    ("embedding_size", lambda s: 0 <= s.embedding_size <= s.hidden,
     "from 0 (no projection) to the hidden size, {0.hidden}"),
    ("pooling", lambda s: (s.pooling == "none") == (s.task in EVERY_TOKEN),
     f"'none' for {' and '.join(EVERY_TOKEN)}, and for no other task"),
    ("pooling", lambda s: s.pooling != "last" or s.task == EMBEDDING,
     "'last' for an embedding alone"),
    ("windows", lambda s: len(s.windows) in (0, s.layers), _EACH),
    ("rotary", lambda s: not s.rotary or (
        set(s.rotary) - {None} in ({0}, {0, 1}) and len(s.rotary) == s.layers),
     f"None or the number of one of at most {ROTARY_TABLES_MAX} tables, {_EACH}"),
    ("head_size", lambda s: not s.rotary or s.head_size % 2 == 0,
     "even with rotary positions, which turn pairs of channels"),
    ("kv_heads", lambda s: 0 <= s.kv_heads < s.heads and s.heads % (s.kv_heads or 1) == 0,
     "a divisor of the {0.heads} heads and below them, or 0 for as many"),
    ("kv_heads", lambda s: not (s.kv_heads and s.position_bias),
     "0 beside a position_bias: heads that share K and V have no bias"),
    ("head_activations", lambda s: set(s.head_activations) <= set(ACTIVATIONS),
     f"of {', '.join(ACTIVATIONS)}"),
)  # fmt: skip
"""What a checkpoint's files may get wrong: a field, whether it is right, and what it must be; later
rules rely on earlier ones."""


def inputs_of(info: Mapping[str, Any]) -> str:
    """What a quantized model reads, by its description, as EncoderSpec.inputs."""
    spec = info.get("spec") or {}
    return FILES if spec.get("rows") else IMAGES if spec.get("given") else TEXTS


def check_arrays(spec: EncoderSpec, arrays: Mapping[str, Floats]) -> None:
    """Raise CheckpointError unless ``arrays`` holds exactly what ``spec`` needs, all finite."""
    shapes = spec.shapes()
    for name, shape in shapes.items():
        if name not in arrays:
            raise CheckpointError(f"{name} is missing")
        found = arrays[name].shape
        if len(found) != len(shape) or any(s not in (-1, f) for s, f in zip(shape, found)):
            there = " x ".join(map(str, found))
            wanted = " x ".join("any" if size < 0 else str(size) for size in shape)
            raise CheckpointError(f"{name} has shape {there}: the config asks for {wanted}")
        if not np.isfinite(arrays[name]).all():
            raise CheckpointError(f"{name} holds a value that is not a finite number")
    if unknown := sorted(set(arrays) - set(shapes)):
        raise CheckpointError(f"{unknown[0]} belongs to no layer of the encoder")
    for j in range(1, spec.head_layers):
        gives, inputs = len(arrays[f"head.{j - 1}.weight"]), arrays[f"head.{j}.weight"].shape[1]
        if inputs != gives:
            what = f"head.{j}.weight has {inputs} inputs"
            raise CheckpointError(f"{what}: head.{j - 1} gives {gives}")
