"""The quantized model: frozen dataclasses whose constructors prove that the integers fit.

Every constructor raises ValueError with the tensor's name, the bad value and the allowed range, so
that a model which exists satisfies every bound on which the formats of docs/numerics.md rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from typing import Literal, get_args

import numpy as np

from golden.errors import UserError
from golden.requantize import MULTIPLIER_MAX, MULTIPLIER_MIN, SHIFT_MAX, SHIFT_MIN

HIDDEN_MAX = 1024  # LayerNorm's sums: V = H*S2 - S1^2 + E < 2^52
RMS_HIDDEN_MAX = 1023  # RMSNorm: |n| <= sqrt(H) < 32, where LayerNorm has sqrt(H - 1)
TOKENS_MAX = 8192  # the sum of a row of p is below 2^21
VOCABULARY_MAX = (1 << 24) - 1  # the command stream counts the rows of the table in 24 bits
LENGTH_MAX = 65535  # K of a sum: matmul takes 65,793, the command stream 16 bits
OPERAND_SHIFTS = (1, 8)  # of a channel's int16 to its int8 operand; at 8 all of int16 fits
EPSILON_MAX = (1 << 50) - 1
GATE_SHIFT_MAX = 31
ROTARY_ONE = 1 << 14  # 1.0 in a table of rotary positions
ROTARY_TABLES_MAX = 2

NormPlacement = Literal["post", "pre"]
Pooling = Literal["first", "mean", "none"]


def _check_integer(name: str, value: int, low: int, high: int) -> None:
    try:
        index(value)
    except TypeError:
        raise UserError(f"{name} is {value!r}; allowed integers {low}..{high}") from None
    if isinstance(value, bool) or not low <= value <= high:
        raise UserError(f"{name} is {value}; allowed {low}..{high}")


def _check_array(
    name: str, array: np.ndarray, dtype: type, dimensions: int, low: int, high: int
) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        found = getattr(array, "dtype", type(array).__name__)
        raise UserError(f"{name} is {found}; allowed an array of {np.dtype(dtype)}")
    if array.ndim != dimensions or array.size == 0:
        raise UserError(
            f"{name} has shape {array.shape}; allowed {dimensions} dimensions, none of them 0"
        )
    for extreme in (array.argmin(), array.argmax()):
        if not low <= array.flat[extreme] <= high:
            place = ", ".join(str(i) for i in np.unravel_index(extreme, array.shape))
            raise UserError(f"{name}[{place}] is {array.flat[extreme]}; allowed {low}..{high}")


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise UserError(f"{name} has shape {array.shape}; allowed {shape}")


def _check_multiplier(name: str, m: int, s: int, s_max: int = SHIFT_MAX) -> None:
    _check_integer(f"{name}_m", m, MULTIPLIER_MIN, MULTIPLIER_MAX)
    _check_integer(f"{name}_s", s, SHIFT_MIN, s_max)


@dataclass(frozen=True)
class Shape:
    """Sizes and structure of an encoder.

    `positions` counts the rows of the position table; token t reads row t + position_offset.
    `types` is 0 without segment embeddings. `norm` places the LayerNorm after ("post", BERT) or
    before ("pre") each half of a layer; `pooling` feeds the head with the first token, the mean, or
    ("none") every token by itself. `kv_heads` counts the heads of K and V where they are fewer
    than those of Q, else it is None: head h of Q then has head h mod kv_heads of K and V.
    """

    layers: int
    hidden: int
    heads: int
    head_size: int
    ffn: int
    labels: int
    vocabulary: int
    positions: int
    types: int
    position_offset: int = 0
    norm: NormPlacement = "post"
    embedding_norm: bool = True
    pooling: Pooling = "first"
    kv_heads: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            ("layers", 1, 255),
            ("hidden", 1, HIDDEN_MAX),
            ("heads", 1, 255),
            ("head_size", 1, HIDDEN_MAX),
            ("ffn", 1, LENGTH_MAX),
            ("labels", 1, 65535),
            ("vocabulary", 1, VOCABULARY_MAX),
            ("positions", 1, TOKENS_MAX),
            ("types", 0, 2),
        ):
            _check_integer(f"shape.{name}", getattr(self, name), low, high)
        _check_integer("shape.heads * shape.head_size", self.inner, 1, LENGTH_MAX)
        _check_integer("shape.position_offset", self.position_offset, 0, self.positions - 1)
        if self.kv_heads is not None:
            _check_integer("shape.kv_heads", self.kv_heads, 1, self.heads - 1)
            if self.heads % self.kv_heads:
                raise UserError(
                    f"shape.kv_heads is {self.kv_heads}; allowed are divisors of shape.heads, "
                    f"{self.heads}, and None"
                )
        for name, allowed in (("norm", NormPlacement), ("pooling", Pooling)):
            value = getattr(self, name)
            if value not in get_args(allowed):
                *most, last = map(repr, get_args(allowed))
                choices = f"{', '.join(most)} and {last}"
                raise UserError(f"shape.{name} is {value!r}; allowed {choices}")
        if not isinstance(self.embedding_norm, bool):
            raise UserError(
                f"shape.embedding_norm is {self.embedding_norm!r}; allowed True and False"
            )
        if self.norm == "post" and not self.embedding_norm:
            raise UserError(
                "shape.embedding_norm is False; allowed is True where shape.norm is 'post', since "
                "the first layer reads the norm's output"
            )

    @property
    def inner(self) -> int:
        """Channels of all heads together: heads * head_size."""
        return self.heads * self.head_size

    @property
    def kv_inner(self) -> int:
        """Channels of all heads of K, and of V."""
        return (self.kv_heads or self.heads) * self.head_size

    @property
    def tokens(self) -> int:
        """The longest input in tokens: positions - position_offset."""
        return self.positions - self.position_offset


@dataclass(frozen=True, eq=False)
class Linear:
    """acc = x @ weight.T + bias, then requantize by (m, s) a channel, then the table.

    weight int8 [out, in], -127..127, in <= 65535; bias int32 [out] at the product scale; m and s
    int32 [out], None for the last layer, whose result are the accumulators; table int8 [256] or
    None; table_low int8 [256] or None, the low halves of a wide result, with a table alone.
    128 * sum |weight| + |bias| < 2^31 holds for every channel, so no partial sum overflows int32.
    """

    weight: np.ndarray
    bias: np.ndarray
    m: np.ndarray | None = None
    s: np.ndarray | None = None
    table: np.ndarray | None = None
    table_low: np.ndarray | None = None

    def __post_init__(self) -> None:
        _check_array("weight", self.weight, np.int8, 2, -127, 127)
        if self.weight.shape[1] > LENGTH_MAX:
            raise UserError(f"weight has {self.weight.shape[1]} inputs; allowed 1..{LENGTH_MAX}")
        out = (self.weight.shape[0],)
        _check_array("bias", self.bias, np.int32, 1, -(1 << 31), (1 << 31) - 1)
        _check_shape("bias", self.bias, out)
        sums = np.abs(self.weight.astype(np.int32)).sum(axis=1, dtype=np.int64)
        bound = 128 * sums + np.abs(self.bias.astype(np.int64))
        worst = int(bound.argmax())
        if bound[worst] >= 1 << 31:
            raise UserError(
                f"channel {worst}: 128 * sum |weight| + |bias| is {bound[worst]}; "
                f"allowed 0..{(1 << 31) - 1}, or the accumulator may overflow int32"
            )
        if (self.m is None) != (self.s is None):
            raise UserError("one of m and s is None; allowed both or none")
        if self.m is not None and self.s is not None:
            _check_array("m", self.m, np.int32, 1, MULTIPLIER_MIN, MULTIPLIER_MAX)
            _check_shape("m", self.m, out)
            _check_array("s", self.s, np.int32, 1, SHIFT_MIN, SHIFT_MAX)
            _check_shape("s", self.s, out)
        if self.table is not None:
            _check_array("table", self.table, np.int8, 1, -128, 127)
            _check_shape("table", self.table, (256,))
        if self.table_low is not None:
            _check_array("table_low", self.table_low, np.int8, 1, -128, 127)
            _check_shape("table_low", self.table_low, (256,))
            if self.table is None:
                raise UserError("table_low is an array and table None; allowed both or none")
            below = np.flatnonzero((self.table == -128) & (self.table_low < 0))
            if below.size:
                raise UserError(
                    f"table_low[{below[0]}] is {self.table_low[below[0]]}; allowed 0..127 where "
                    "table is -128, so that both together are an int16"
                )


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm: gamma int16 [H] and beta int32 [H] at 2^-shift of the output, and E.

    epsilon is E = max(1, round(eps * H^2 / scale^2)), 1 <= E < 2^50; 1 <= shift <= 31.
    operand_shifts uint8 [H], 1..8, makes the int8 operand of the output; None is 8 everywhere.
    wide: the operand has 16 bits and its readers take two passes; operand_shifts is None then.
    rms: True of an RMSNorm, which takes the mean as 0, of at most 1023 channels; else None.
    """

    gamma: np.ndarray
    beta: np.ndarray
    shift: int
    epsilon: int
    operand_shifts: np.ndarray | None = None
    wide: bool = False
    rms: bool | None = None

    def __post_init__(self) -> None:
        _check_array("gamma", self.gamma, np.int16, 1, -(1 << 15), (1 << 15) - 1)
        _check_array("beta", self.beta, np.int32, 1, -(1 << 31), (1 << 31) - 1)
        _check_shape("beta", self.beta, self.gamma.shape)
        _check_integer("shift", self.shift, 1, 31)
        _check_integer("epsilon", self.epsilon, 1, EPSILON_MAX)
        if self.operand_shifts is not None:
            low, high = OPERAND_SHIFTS
            _check_array("operand_shifts", self.operand_shifts, np.uint8, 1, low, high)
            _check_shape("operand_shifts", self.operand_shifts, self.gamma.shape)
        if not isinstance(self.wide, bool):
            raise UserError(f"wide is {self.wide!r}; allowed True and False")
        if self.rms is not None and self.rms is not True:
            raise UserError(f"rms is {self.rms!r}; allowed True and None")
        if self.rms and len(self.gamma) > RMS_HIDDEN_MAX:
            raise UserError(
                f"gamma has {len(self.gamma)} channels; allowed 1..{RMS_HIDDEN_MAX} where rms is "
                "True, so that a normalised value is below 32"
            )
        if self.wide and self.operand_shifts is not None:
            raise UserError("operand_shifts is an array; allowed is None where wide is True")


@dataclass(frozen=True, eq=False)
class Attention:
    """Projections q, k, v (inner x hidden) and o (hidden x inner) with the tensors' multipliers.

    k and v are kv_inner x hidden where their heads are fewer. With rotary positions q and k give
    16 bits at 2^-7 of the scale of the result, see `Rotary`.

    (score_m, score_s) brings q . k to 1/256 octaves; (context_m, context_s) brings the weighted
    mean of v to the context's scale; residual_shift belongs to the addition after o.
    """

    q: Linear
    k: Linear
    v: Linear
    o: Linear
    score_m: int
    score_s: int
    context_m: int
    context_s: int
    residual_shift: int = 0

    def __post_init__(self) -> None:
        _check_multiplier("score", self.score_m, self.score_s)
        _check_multiplier("context", self.context_m, self.context_s)
        _check_integer("residual_shift", self.residual_shift, 0, 15)


@dataclass(frozen=True, eq=False)
class FeedForward:
    """up (ffn x hidden) with the activation's table, down (hidden x ffn).

    A gated one has gate (ffn x hidden) with the table, and up without: it gives 16 bits, and
    down reads round_shift(gate * up, gate_shift), 1 <= gate_shift <= 31. Both are None otherwise.
    """

    up: Linear
    down: Linear
    residual_shift: int = 0
    gate: Linear | None = None
    gate_shift: int | None = None

    def __post_init__(self) -> None:
        _check_integer("residual_shift", self.residual_shift, 0, 15)
        if (self.gate is None) != (self.gate_shift is None):
            raise UserError("one of gate and gate_shift is None; allowed both or none")
        if self.gate_shift is not None:
            _check_integer("gate_shift", self.gate_shift, 1, GATE_SHIFT_MAX)
            if self.up.table is not None:
                raise UserError("up.table is an array; allowed is None beside a gate, which has it")

    @property
    def activated(self) -> Linear:
        """The layer that has the activation's table: gate, or up without one."""
        return self.up if self.gate is None else self.gate

    @property
    def wide(self) -> bool:
        """The hidden activations have 16 bits."""
        return self.activated.table_low is not None


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotary positions: cos and sin, int16 [T, d / 2], unit 2^-14, -2^14..2^14.

    Row t turns channels 2i and 2i + 1 of every head of Q and K of token t by the angle of column i.
    """

    cos: np.ndarray
    sin: np.ndarray

    def __post_init__(self) -> None:
        for name, table in (("cos", self.cos), ("sin", self.sin)):
            _check_array(name, table, np.int16, 2, -ROTARY_ONE, ROTARY_ONE)
        _check_shape("sin", self.sin, self.cos.shape)


@dataclass(frozen=True)
class Window:
    """The keys that a query sees: -before <= k - q <= after. None: as far as the sequence goes.

    before and after are 0..8191, one of them may be None. (None, 0) is causal attention.
    """

    before: int | None
    after: int | None

    def __post_init__(self) -> None:
        for name, value in (("before", self.before), ("after", self.after)):
            if value is not None:
                _check_integer(name, value, 0, TOKENS_MAX - 1)
        if self.before is None and self.after is None:
            raise UserError("before and after are None; allowed is one of them, or no window")


@dataclass(frozen=True, eq=False)
class Layer:
    """One encoder layer; norm1 belongs to the attention, norm2 to the feed-forward network.

    norm1 is None in layer 0 alone, of a pre-norm model whose embedding has a norm: q, k and v read
    that one's operand.
    window limits the keys that a query sees by their distance; without one it sees all that are
    valid. rotary is the number of the table that turns Q and K, None where none does.
    """

    attention: Attention
    ffn: FeedForward
    norm1: Norm | None
    norm2: Norm
    window: Window | None = None
    rotary: int | None = None


@dataclass(frozen=True, eq=False)
class Embedding:
    """token int8 [V, H], position int8 [types or 1, P, H], codes -127..127, and their factors.

    token_low and position_low, of the same shapes, are added as they are and give each value 16
    bits; both are None where the tables have 8.
    1 <= token_factor, position_factor <= 255, and their sum is at most 258, with the low tables
    256, so that the sum of all is an int16.
    """

    token: np.ndarray
    position: np.ndarray
    token_factor: int
    position_factor: int
    norm: Norm | None = None
    token_low: np.ndarray | None = None
    position_low: np.ndarray | None = None

    def __post_init__(self) -> None:
        _check_array("token", self.token, np.int8, 2, -127, 127)
        _check_array("position", self.position, np.int8, 3, -127, 127)
        _check_integer("token_factor", self.token_factor, 1, 255)
        _check_integer("position_factor", self.position_factor, 1, 255)
        if (self.token_low is None) != (self.position_low is None):
            raise UserError("one of token_low and position_low is None; allowed both or none")
        if self.token_low is not None and self.position_low is not None:
            _check_array("token_low", self.token_low, np.int8, 2, -127, 127)
            _check_shape("token_low", self.token_low, self.token.shape)
            _check_array("position_low", self.position_low, np.int8, 3, -127, 127)
            _check_shape("position_low", self.position_low, self.position.shape)
        total, most = self.token_factor + self.position_factor, 256 if self.wide else 258
        if total > most:
            raise UserError(f"token_factor + position_factor is {total}; allowed 2..{most}")

    @property
    def wide(self) -> bool:
        """The tables have 16 bits a value."""
        return self.token_low is not None


@dataclass(frozen=True, eq=False)
class Model:
    """A whole quantized encoder. mean_m and mean_s are None unless the pooling is the mean.

    head is a chain of linear layers: each but the last gives int8, the last the logits. head_norm,
    where there is one, stands before the last, which reads its operand: the layer before that gives
    H channels.

    projection, [H, E], where the embedding is factorised: it reads the first E channels of x8, as
    do q, k and v of layer 0, and its result takes the place of the embedding in the stream.

    position_bias, int16 [heads, 2 * T - 1] with T = shape.tokens, where scores have one: column
    k - q + T - 1 is added to the score of query q and key k of the head, in every layer. Its unit
    is the scores', 1/256 octaves: round(256 log2(e) * bias).

    rotary: the one or two tables of rotary positions that layers name, None where there are none.
    """

    shape: Shape
    embedding: Embedding
    layers: tuple[Layer, ...]
    final_norm: Norm | None
    mean_m: int | None
    mean_s: int | None
    head: tuple[Linear, ...]
    projection: Linear | None = None
    position_bias: np.ndarray | None = None
    rotary: tuple[Rotary, ...] | None = None
    head_norm: Norm | None = None

    def __post_init__(self) -> None:
        shape = self.shape
        if len(self.layers) != shape.layers:
            raise UserError(f"layers counts {len(self.layers)}; allowed {shape.layers}")
        tables = max(shape.types, 1), shape.positions, shape.hidden
        _check_shape("embedding.token", self.embedding.token, (shape.vocabulary, shape.hidden))
        _check_shape("embedding.position", self.embedding.position, tables)
        for name, norm, wanted in (
            ("embedding.norm", self.embedding.norm, shape.embedding_norm),
            ("final_norm", self.final_norm, shape.norm == "pre"),
        ):
            if (norm is not None) != wanted:
                found, allowed = ("a norm", "None") if norm is not None else ("None", "a norm")
                raise UserError(f"{name} is {found}; allowed is {allowed} for {shape}")
        for i, layer in enumerate(self.layers):
            if layer.norm1 is None and (i or not (shape.norm == "pre" and shape.embedding_norm)):
                raise UserError(
                    f"layer.{i}.norm1 is None; allowed is that in layer 0 of norm 'pre' with an "
                    "embedding norm"
                )
        for name, norm in self.norms():
            _check_shape(f"{name}.gamma", norm.gamma, (shape.hidden,))
        if self.projection is not None and (shape.norm == "pre" or self.inputs(0) > shape.hidden):
            raise UserError(
                f"projection reads {self.inputs(0)} channels with norm {shape.norm!r}; allowed "
                f"1..{shape.hidden}, those of the embedding's norm, with norm 'post'"
            )
        for name, linear, rows, columns in self._projections():
            _check_shape(f"{name}.weight", linear.weight, (rows, columns))
            if linear.m is None:
                raise UserError(f"{name}.m is None; allowed is an array of {rows}")
            if linear.table is not None and not name.endswith((".up", ".gate")):
                raise UserError(
                    f"{name}.table is an array; allowed is None: only ffn.up, ffn.gate and the "
                    "hidden layers of the head have an activation"
                )
        if self.position_bias is not None:
            columns = 2 * shape.tokens - 1
            _check_array("position_bias", self.position_bias, np.int16, 2, -(1 << 15), 2**15 - 1)
            _check_shape("position_bias", self.position_bias, (shape.heads, columns))
            if shape.kv_heads is not None:
                raise UserError(
                    f"position_bias is an array; allowed is None with {shape.kv_heads} heads of K "
                    f"and V for {shape.heads} of Q"
                )
        self._check_rotary()
        self._check_head()
        self._check_context()
        self._check_wide()

    @property
    def precise(self) -> bool:
        """Some operand has 16 bits."""
        return any(layer.ffn.wide for layer in self.layers) or any(
            norm.wide for _, norm in self.norms()
        )

    def attention_wide(self, layer: int) -> bool:
        """Whether q, k and v of a layer read a wide operand."""
        own = self.layers[layer].norm1
        if self.shape.norm == "pre" and own is not None:
            return own.wide
        before = self.layers[layer - 1].norm2 if layer else self.embedding.norm
        return before is not None and before.wide

    @property
    def pooled_wide(self) -> bool:
        """Whether the head reads a wide operand."""
        last = self.layers[-1].norm2 if self.final_norm is None else self.final_norm
        return last.wide and self.shape.pooling != "mean"

    def rotary_of(self, layer: int) -> Rotary | None:
        """The table that turns Q and K of a layer, None where none does."""
        place = self.layers[layer].rotary
        return None if place is None or self.rotary is None else self.rotary[place]

    def norms(self) -> Iterator[tuple[str, Norm]]:
        """Every LayerNorm with its name, in the order of use."""
        if self.embedding.norm is not None:
            yield "embedding.norm", self.embedding.norm
        for i, layer in enumerate(self.layers):
            if layer.norm1 is not None:
                yield f"layer.{i}.norm1", layer.norm1
            yield f"layer.{i}.norm2", layer.norm2
        if self.final_norm is not None:
            yield "final_norm", self.final_norm
        if self.head_norm is not None:
            yield "head_norm", self.head_norm

    def inputs(self, layer: int) -> int:
        """Channels that q, k and v of a layer read: H, or E of a factorised embedding."""
        if layer or self.projection is None:
            return self.shape.hidden
        return self.projection.weight.shape[1]

    def _projections(self) -> Iterator[tuple[str, Linear, int, int]]:
        hidden, inner, ffn = self.shape.hidden, self.shape.inner, self.shape.ffn
        keys = self.shape.kv_inner
        if self.projection is not None:
            yield "projection", self.projection, hidden, self.inputs(0)
        for i, layer in enumerate(self.layers):
            attention = layer.attention
            yield f"layer.{i}.attention.q", attention.q, inner, self.inputs(i)
            yield f"layer.{i}.attention.k", attention.k, keys, self.inputs(i)
            yield f"layer.{i}.attention.v", attention.v, keys, self.inputs(i)
            yield f"layer.{i}.attention.o", attention.o, hidden, inner
            if layer.ffn.gate is not None:
                yield f"layer.{i}.ffn.gate", layer.ffn.gate, ffn, hidden
            yield f"layer.{i}.ffn.up", layer.ffn.up, ffn, hidden
            yield f"layer.{i}.ffn.down", layer.ffn.down, hidden, ffn

    def _check_rotary(self) -> None:
        shape, count = self.shape, len(self.rotary or ())
        if self.rotary is not None and not 1 <= count <= ROTARY_TABLES_MAX:
            raise UserError(f"rotary counts {count}; allowed 1..{ROTARY_TABLES_MAX}, or None")
        for j, table in enumerate(self.rotary or ()):
            if shape.head_size % 2:
                raise UserError(
                    f"shape.head_size is {shape.head_size}; allowed is an even one with rotary "
                    "positions, which turn pairs of channels"
                )
            _check_shape(f"rotary.{j}.cos", table.cos, (shape.tokens, shape.head_size // 2))
        for i, layer in enumerate(self.layers):
            if layer.rotary is not None and not 0 <= layer.rotary < count:
                raise UserError(
                    f"layer.{i}.rotary is {layer.rotary}; allowed is None"
                    + (f" and 0..{count - 1}" if count else ", the model has no such table")
                )

    def _check_head(self) -> None:
        if not self.head:
            raise UserError("head has no layer; allowed one or more")
        columns = self.shape.hidden
        for j, linear in enumerate(self.head):
            last = j == len(self.head) - 1
            rows = self.shape.labels if last else linear.weight.shape[0]
            _check_shape(f"head.{j}.weight", linear.weight, (rows, columns))
            if last and not (linear.m is None and linear.table is None):
                raise UserError(f"head.{j} has m, s or a table; allowed none, it gives the logits")
            if not last and linear.m is None:
                raise UserError(f"head.{j}.m is None; allowed is an array of {rows}")
            columns = rows
        before, hidden = self.head[-2].weight.shape[0] if self.head[1:] else 0, self.shape.hidden
        if self.head_norm is not None and before != hidden:
            raise UserError(f"head_norm has {before} channels before it; allowed {hidden}")

    def _check_wide(self) -> None:
        if not self.precise:
            return
        if self.projection is not None and self.embedding.norm and self.embedding.norm.wide:
            raise UserError("embedding.norm.wide is True; allowed is False before a projection")
        heads = [(f"head.{j}", linear) for j, linear in enumerate(self.head)]
        for name, linear in heads:
            if linear.table_low is not None:
                raise UserError(
                    f"{name}.table_low is an array; allowed only for ffn.up and ffn.gate"
                )
        for name, linear in [(name, x) for name, x, _, _ in self._projections()] + heads:
            # The sum of the low halves gives half a weight each, and 1 by its floor.
            sums = np.abs(linear.weight.astype(np.int32)).sum(axis=1, dtype=np.int64)
            bound = int((129 * sums + np.abs(linear.bias.astype(np.int64)) + 1).max())
            if bound >= 1 << 31:
                raise UserError(
                    f"{name}: 129 * sum |weight| + |bias| + 1 is {bound}; allowed 0.."
                    f"{(1 << 31) - 1} where operands have 16 bits, or the accumulator may overflow"
                )

    def _check_context(self) -> None:
        # The largest row of p sums to 255 a token; s_row = s + 16 + e - 15 must not exceed 47.
        s_max = SHIFT_MAX - 1 - ((255 * self.shape.tokens).bit_length() - 1)
        for i, layer in enumerate(self.layers):
            name = f"layer.{i}.attention.context"
            _check_multiplier(name, layer.attention.context_m, layer.attention.context_s, s_max)
        if self.shape.pooling == "mean":
            if self.mean_m is None or self.mean_s is None:
                raise UserError("mean_m or mean_s is None; allowed are integers, pooling is 'mean'")
            _check_multiplier("mean", self.mean_m, self.mean_s, s_max)
        elif self.mean_m is not None or self.mean_s is not None:
            raise UserError("mean_m or mean_s is given; allowed is None unless pooling is 'mean'")
