"""The quantized model: frozen dataclasses whose constructors prove that the integers fit.

Every constructor raises ValueError with the tensor's name, the bad value and the allowed range, so
that a model which exists satisfies every bound on which the formats of docs/numerics.md rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

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


@dataclass(frozen=True)
class Within:
    """The values of a field: integers low..high, or an array of such with so many dimensions."""

    low: int
    high: int
    dtype: type[np.integer] | None = None
    dimensions: int = 0


MULTIPLIER = Within(MULTIPLIER_MIN, MULTIPLIER_MAX)
SHIFT = Within(SHIFT_MIN, SHIFT_MAX)
RESIDUAL_SHIFT = Within(0, 15)
CODES = Within(-127, 127, np.int8, 2)
POSITION_CODES = Within(-127, 127, np.int8, 3)
TABLE = Within(-128, 127, np.int8, 1)
INT16, INT32 = -(1 << 15), -(1 << 31)  # the least of each
INT32S = Within(INT32, ~INT32, np.int32, 1)
TURNS = Within(-ROTARY_ONE, ROTARY_ONE, np.int16, 2)


_hints = cache(get_type_hints)


def _hold(true: Any, found: str, allowed: object) -> None:
    """UserError of what was found unless it is true."""
    if not true:
        raise UserError(f"{found}; allowed {allowed}")


def _check_fields(value: Any, prefix: str = "") -> None:
    """Each field by its annotation: the range in `Within`, the choices of a Literal, bools."""
    for name, hint in _hints(value.__class__, include_extras=True).items():
        entry, name = getattr(value, name), prefix + name
        if get_origin(hint) is Annotated:
            kind, limits = get_args(hint)
            if entry is not None or NoneType not in get_args(kind):
                _check(name, entry, limits)
        elif hint is bool:
            _hold(isinstance(entry, bool), f"{name} is {entry!r}", "True and False")
        elif get_origin(hint) is Literal:
            *most, last = map(repr, get_args(hint))
            _hold(entry in get_args(hint), f"{name} is {entry!r}", f"{', '.join(most)} and {last}")


def _check(name: str, value: Any, limits: Within) -> None:
    low, high, dtype = limits.low, limits.high, limits.dtype
    if dtype is None:
        whole = isinstance(value, int | np.integer)
        _hold(whole, f"{name} is {value!r}", f"integers {low}..{high}")
        fits = not isinstance(value, bool) and low <= value <= high
        _hold(fits, f"{name} is {value}", f"{low}..{high}")
        return
    found = getattr(value, "dtype", type(value).__name__)
    fits = isinstance(value, np.ndarray) and found == dtype
    _hold(fits, f"{name} is {found}", f"an array of {np.dtype(dtype)}")
    fits, allowed = (
        value.size and value.ndim == limits.dimensions,
        f"{limits.dimensions} dimensions",
    )
    _hold(fits, f"{name} has shape {value.shape}", f"{allowed}, none of them 0")
    for extreme in (value.argmin(), value.argmax()):
        place = ", ".join(map(str, np.unravel_index(extreme, value.shape)))
        found = value.flat[extreme]
        _hold(low <= found <= high, f"{name}[{place}] is {found}", f"{low}..{high}")


def _check_shape(name: str, array: np.ndarray | None, shape: tuple[int, ...]) -> None:
    if array is not None:
        _hold(array.shape == shape, f"{name} has shape {array.shape}", shape)


def _check_both_or_none(value: Any, first: str, second: str) -> None:
    both = (getattr(value, first) is None) == (getattr(value, second) is None)
    _hold(both, f"one of {first} and {second} is None", "both or none")


@dataclass(frozen=True)
class Shape:
    """Sizes and structure of an encoder.

    `positions` counts the rows of the position table; token t reads row t + position_offset.
    `types` is 0 without segment embeddings. `norm` places the LayerNorm after ("post", BERT) or
    before ("pre") each half of a layer; `pooling` feeds the head with the first token, the mean, or
    ("none") every token by itself. `kv_heads` counts the heads of K and V where they are fewer
    than those of Q, else it is None: head h of Q then has head h mod kv_heads of K and V.
    """

    layers: Annotated[int, Within(1, 255)]
    hidden: Annotated[int, Within(1, HIDDEN_MAX)]
    heads: Annotated[int, Within(1, 255)]
    head_size: Annotated[int, Within(1, HIDDEN_MAX)]
    ffn: Annotated[int, Within(1, LENGTH_MAX)]
    labels: Annotated[int, Within(1, 65535)]
    vocabulary: Annotated[int, Within(1, VOCABULARY_MAX)]
    positions: Annotated[int, Within(1, TOKENS_MAX)]
    types: Annotated[int, Within(0, 2)]
    position_offset: int = 0
    norm: NormPlacement = "post"
    embedding_norm: bool = True
    pooling: Pooling = "first"
    kv_heads: int | None = None

    def __post_init__(self) -> None:
        _check_fields(self, "shape.")
        _check("shape.heads * shape.head_size", self.inner, Within(1, LENGTH_MAX))
        _check("shape.position_offset", self.position_offset, Within(0, self.positions - 1))
        if self.kv_heads is not None:
            _check("shape.kv_heads", self.kv_heads, Within(1, self.heads - 1))
            allowed = f"divisors of shape.heads, {self.heads}, and None"
            divides = self.heads % self.kv_heads == 0
            _hold(divides, f"shape.kv_heads is {self.kv_heads}", allowed)
        allowed = "is True where shape.norm is 'post', whose first layer reads its output"
        _hold(self.embedding_norm or self.norm == "pre", "shape.embedding_norm is False", allowed)

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

    weight: Annotated[np.ndarray, CODES]
    bias: Annotated[np.ndarray, INT32S]
    m: Annotated[np.ndarray | None, Within(MULTIPLIER_MIN, MULTIPLIER_MAX, np.int32, 1)] = None
    s: Annotated[np.ndarray | None, Within(SHIFT_MIN, SHIFT_MAX, np.int32, 1)] = None
    table: Annotated[np.ndarray | None, TABLE] = None
    table_low: Annotated[np.ndarray | None, TABLE] = None

    def __post_init__(self) -> None:
        _check_fields(self)
        out, inputs = self.weight.shape
        _hold(inputs <= LENGTH_MAX, f"weight has {inputs} inputs", f"1..{LENGTH_MAX}")
        for name, size in {"bias": out, "m": out, "s": out, "table": 256, "table_low": 256}.items():
            _check_shape(name, getattr(self, name), (size,))
        bound = self.bound(128)
        worst = int(bound.argmax())
        found = f"channel {worst}: 128 * sum |weight| + |bias| is {bound[worst]}"
        _hold(bound[worst] <= ~INT32, found, f"0..{~INT32}, or the accumulator may overflow int32")
        _check_both_or_none(self, "m", "s")
        if self.table_low is not None:
            _hold(self.table is not None, "table_low is an array and table None", "both or none")
            allowed = "0..127 where table is -128, so that both together are an int16"
            for code in np.flatnonzero((self.table == -128) & (self.table_low < 0)):
                _hold(False, f"table_low[{code}] is {self.table_low[code]}", allowed)

    def bound(self, largest: int) -> np.ndarray:
        """largest * sum |weight| + |bias| of each channel, int64 [out]."""
        sums: np.ndarray = np.abs(self.weight.astype(np.int32)).sum(axis=1, dtype=np.int64)
        return largest * sums + np.abs(self.bias.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm: gamma int16 [H] and beta int32 [H] at 2^-shift of the output, and E.

    epsilon is E = max(1, round(eps * H^2 / scale^2)), 1 <= E < 2^50; 1 <= shift <= 31.
    operand_shifts uint8 [H], 1..8, makes the int8 operand of the output; None is 8 everywhere.
    wide: the operand has 16 bits and its readers take two passes; operand_shifts is None then.
    rms: True of an RMSNorm, which takes the mean as 0, of at most 1023 channels; else None.
    """

    gamma: Annotated[np.ndarray, Within(INT16, ~INT16, np.int16, 1)]
    beta: Annotated[np.ndarray, INT32S]
    shift: Annotated[int, Within(1, 31)]
    epsilon: Annotated[int, Within(1, EPSILON_MAX)]
    operand_shifts: Annotated[np.ndarray | None, Within(*OPERAND_SHIFTS, np.uint8, 1)] = None
    wide: bool = False
    rms: bool | None = None

    def __post_init__(self) -> None:
        _check_fields(self)
        _check_shape("beta", self.beta, self.gamma.shape)
        _check_shape("operand_shifts", self.operand_shifts, self.gamma.shape)
        _hold(self.rms is None or self.rms is True, f"rms is {self.rms!r}", "True and None")
        most, why = RMS_HIDDEN_MAX, "where rms is True, so that a normalised value is below 32"
        small = not self.rms or len(self.gamma) <= most
        _hold(small, f"gamma has {len(self.gamma)} channels", f"1..{most} {why}")
        narrow = not self.wide or self.operand_shifts is None
        _hold(narrow, "operand_shifts is an array", "is None where wide is True")


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
    score_m: Annotated[int, MULTIPLIER]
    score_s: Annotated[int, SHIFT]
    context_m: Annotated[int, MULTIPLIER]
    context_s: Annotated[int, SHIFT]
    residual_shift: Annotated[int, RESIDUAL_SHIFT] = 0

    def __post_init__(self) -> None:
        _check_fields(self)


@dataclass(frozen=True, eq=False)
class FeedForward:
    """up (ffn x hidden) with the activation's table, down (hidden x ffn).

    A gated one has gate (ffn x hidden) with the table, and up without: it gives 16 bits, and
    down reads round_shift(gate * up, gate_shift), 1 <= gate_shift <= 31. Both are None otherwise.
    """

    up: Linear
    down: Linear
    residual_shift: Annotated[int, RESIDUAL_SHIFT] = 0
    gate: Linear | None = None
    gate_shift: Annotated[int | None, Within(1, GATE_SHIFT_MAX)] = None

    def __post_init__(self) -> None:
        _check_fields(self)
        _check_both_or_none(self, "gate", "gate_shift")
        alone = self.gate is None or self.up.table is None
        _hold(alone, "up.table is an array", "is None beside a gate, which has it")

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

    cos: Annotated[np.ndarray, TURNS]
    sin: Annotated[np.ndarray, TURNS]

    def __post_init__(self) -> None:
        _check_fields(self)
        _check_shape("sin", self.sin, self.cos.shape)


@dataclass(frozen=True)
class Window:
    """The keys that a query sees: -before <= k - q <= after. None: as far as the sequence goes.

    before and after are 0..8191, one of them may be None. (None, 0) is causal attention.
    """

    before: Annotated[int | None, Within(0, TOKENS_MAX - 1)]
    after: Annotated[int | None, Within(0, TOKENS_MAX - 1)]

    def __post_init__(self) -> None:
        _check_fields(self)
        both = self.before is None and self.after is None
        _hold(not both, "before and after are None", "is one of them, or no window")


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

    token: Annotated[np.ndarray, CODES]
    position: Annotated[np.ndarray, POSITION_CODES]
    token_factor: Annotated[int, Within(1, 255)]
    position_factor: Annotated[int, Within(1, 255)]
    norm: Norm | None = None
    token_low: Annotated[np.ndarray | None, CODES] = None
    position_low: Annotated[np.ndarray | None, POSITION_CODES] = None

    def __post_init__(self) -> None:
        _check_fields(self)
        _check_both_or_none(self, "token_low", "position_low")
        _check_shape("token_low", self.token_low, self.token.shape)
        _check_shape("position_low", self.position_low, self.position.shape)
        total, most = self.token_factor + self.position_factor, 256 if self.wide else 258
        _hold(total <= most, f"token_factor + position_factor is {total}", f"2..{most}")

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
    mean_m: Annotated[int | None, MULTIPLIER]
    mean_s: Annotated[int | None, SHIFT]
    head: tuple[Linear, ...]
    projection: Linear | None = None
    position_bias: Annotated[np.ndarray | None, Within(INT16, ~INT16, np.int16, 2)] = None
    rotary: tuple[Rotary, ...] | None = None
    head_norm: Norm | None = None

    def __post_init__(self) -> None:
        _check_fields(self)
        shape = self.shape
        _hold(len(self.layers) == shape.layers, f"layers counts {len(self.layers)}", shape.layers)
        tables = max(shape.types, 1), shape.positions, shape.hidden
        _check_shape("embedding.token", self.embedding.token, (shape.vocabulary, shape.hidden))
        _check_shape("embedding.position", self.embedding.position, tables)
        for name, norm, wanted in (
            ("embedding.norm", self.embedding.norm, shape.embedding_norm),
            ("final_norm", self.final_norm, shape.norm == "pre"),
        ):
            found, allowed = ("None", "a norm") if norm is None else ("a norm", "None")
            _hold((found == "a norm") == wanted, f"{name} is {found}", f"is {allowed} for {shape}")
        allowed = "is that in layer 0 of norm 'pre' with an embedding norm"
        for i, layer in enumerate(self.layers):
            bare = i == 0 and shape.norm == "pre" and shape.embedding_norm
            _hold(bare or layer.norm1 is not None, f"layer.{i}.norm1 is None", allowed)
        for name, norm in self.norms():
            _check_shape(f"{name}.gamma", norm.gamma, (shape.hidden,))
        if self.projection is not None:
            found = f"projection reads {self.inputs(0)} channels with norm {shape.norm!r}"
            allowed = f"1..{shape.hidden}, those of the embedding's norm, with norm 'post'"
            _hold(shape.norm == "post" and self.inputs(0) <= shape.hidden, found, allowed)
        allowed = "is None: ffn.up, ffn.gate and hidden layers of the head alone have one"
        for name, linear, rows, columns in self._projections():
            _check_shape(f"{name}.weight", linear.weight, (rows, columns))
            _hold(linear.m is not None, f"{name}.m is None", f"is an array of {rows}")
            fits = linear.table is None or name.endswith((".up", ".gate"))
            _hold(fits, f"{name}.table is an array", allowed)
        if self.position_bias is not None:
            _check_shape("position_bias", self.position_bias, (shape.heads, 2 * shape.tokens - 1))
            allowed = f"is None with {shape.kv_heads} heads of K and V for {shape.heads} of Q"
            _hold(shape.kv_heads is None, "position_bias is an array", allowed)
        self._check_rotary()
        self._check_head()
        self._check_context()
        self._check_wide()

    @property
    def precise(self) -> bool:
        """Some operand has 16 bits."""
        norms = any(norm.wide for _, norm in self.norms())
        return norms or any(layer.ffn.wide for layer in self.layers)

    def attention_wide(self, layer: int) -> bool:
        """True where q, k and v of a layer read a wide operand."""
        own = self.layers[layer].norm1
        if self.shape.norm == "pre" and own is not None:
            return own.wide
        before = self.layers[layer - 1].norm2 if layer else self.embedding.norm
        return before is not None and before.wide

    @property
    def pooled_wide(self) -> bool:
        """True where the head reads a wide operand."""
        last = self.layers[-1].norm2 if self.final_norm is None else self.final_norm
        return last.wide and self.shape.pooling != "mean"

    def rotary_of(self, layer: int) -> Rotary | None:
        """The table that turns Q and K of a layer, None where none does."""
        place = self.layers[layer].rotary
        return None if place is None or self.rotary is None else self.rotary[place]

    def norms(self) -> Iterator[tuple[str, Norm]]:
        """Every LayerNorm with its name, in the order of use."""
        every: list[tuple[str, Norm | None]] = [("embedding.norm", self.embedding.norm)]
        for i, layer in enumerate(self.layers):
            every += [(f"layer.{i}.norm1", layer.norm1), (f"layer.{i}.norm2", layer.norm2)]
        every += [("final_norm", self.final_norm), ("head_norm", self.head_norm)]
        return ((name, norm) for name, norm in every if norm is not None)

    def inputs(self, layer: int) -> int:
        """Channels that q, k and v of a layer read: H, or E of a factorised embedding."""
        if layer or self.projection is None:
            return self.shape.hidden
        return self.projection.weight.shape[1]

    def _projections(self) -> Iterator[tuple[str, Linear, int, int]]:
        shape = self.shape
        hidden, inner, keys, ffn = shape.hidden, shape.inner, shape.kv_inner, shape.ffn
        if self.projection is not None:
            yield "projection", self.projection, hidden, self.inputs(0)
        for i, layer in enumerate(self.layers):
            its, name = layer.attention, f"layer.{i}"
            yield f"{name}.attention.q", its.q, inner, self.inputs(i)
            yield f"{name}.attention.k", its.k, keys, self.inputs(i)
            yield f"{name}.attention.v", its.v, keys, self.inputs(i)
            yield f"{name}.attention.o", its.o, hidden, inner
            if layer.ffn.gate is not None:
                yield f"{name}.ffn.gate", layer.ffn.gate, ffn, hidden
            yield f"{name}.ffn.up", layer.ffn.up, ffn, hidden
            yield f"{name}.ffn.down", layer.ffn.down, hidden, ffn

    def _check_rotary(self) -> None:
        shape, count = self.shape, len(self.rotary or ())
        fits = self.rotary is None or 1 <= count <= ROTARY_TABLES_MAX
        _hold(fits, f"rotary counts {count}", f"1..{ROTARY_TABLES_MAX}, or None")
        allowed = "is an even one with rotary positions, which turn pairs of channels"
        for j, table in enumerate(self.rotary or ()):
            _hold(shape.head_size % 2 == 0, f"shape.head_size is {shape.head_size}", allowed)
            _check_shape(f"rotary.{j}.cos", table.cos, (shape.tokens, shape.head_size // 2))
        more = f" and 0..{count - 1}" if count else ", the model has no such table"
        for i, layer in enumerate(self.layers):
            fits = layer.rotary is None or 0 <= layer.rotary < count
            _hold(fits, f"layer.{i}.rotary is {layer.rotary}", f"is None{more}")

    def _check_head(self) -> None:
        _hold(self.head, "head has no layer", "one or more")
        *hidden, logits = self.head
        columns, last = self.shape.hidden, len(hidden)
        for j, linear in enumerate(hidden):
            rows = len(linear.weight)
            _check_shape(f"head.{j}.weight", linear.weight, (rows, columns))
            _hold(linear.m is not None, f"head.{j}.m is None", f"is an array of {rows}")
            columns = rows
        _check_shape(f"head.{last}.weight", logits.weight, (self.shape.labels, columns))
        bare = logits.m is None and logits.table is None
        _hold(bare, f"head.{last} has m, s or a table", "none, it gives the logits")
        before = columns if hidden else 0
        fits = self.head_norm is None or before == self.shape.hidden
        _hold(fits, f"head_norm has {before} channels before it", self.shape.hidden)

    def _check_wide(self) -> None:
        if not self.precise:
            return
        norm = self.embedding.norm
        fits = self.projection is None or norm is None or not norm.wide
        _hold(fits, "embedding.norm.wide is True", "is False before a projection")
        head = [(f"head.{j}", linear) for j, linear in enumerate(self.head)]
        for name, linear in head:
            found = f"{name}.table_low is an array"
            _hold(linear.table_low is None, found, "only for ffn.up and ffn.gate")
        allowed = f"0..{~INT32} where operands have 16 bits, or the accumulator may overflow"
        for name, linear in [(name, x) for name, x, _, _ in self._projections()] + head:
            # The sum of the low halves gives half a weight each, and 1 by its floor.
            bound = int(linear.bound(129).max()) + 1
            found = f"{name}: 129 * sum |weight| + |bias| + 1 is {bound}"
            _hold(bound <= ~INT32, found, allowed)

    def _check_context(self) -> None:
        # The largest row of p sums to 255 a token; s_row = s + 16 + e - 15 must not exceed 47.
        s_max = SHIFT_MAX - 1 - ((255 * self.shape.tokens).bit_length() - 1)
        found, pair = "mean_m or mean_s is", (self.mean_m, self.mean_s)
        if self.shape.pooling == "mean":
            _hold(None not in pair, f"{found} None", "are integers, pooling is 'mean'")
            _check("mean_s", self.mean_s, Within(SHIFT_MIN, s_max))
        else:
            _hold(pair == (None, None), f"{found} given", "is None unless pooling is 'mean'")
        for i, layer in enumerate(self.layers):
            name = f"layer.{i}.attention.context_s"
            _check(name, layer.attention.context_s, Within(SHIFT_MIN, s_max))
