"""Valid models of any shape with random integers, for tests of odd shapes.

The scales are chosen from the sums' expected spread, so that activations stay lively in every
layer: int8 tensors use most of their codes and few values saturate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, cast

import numpy as np

from golden.errors import UserError
from golden.model import (
    OPERAND_SHIFTS,
    RMS_HIDDEN_MAX,
    ROTARY_ONE,
    Attention,
    Embedding,
    FeedForward,
    Layer,
    Linear,
    Model,
    Norm,
    Rotary,
    Shape,
    Window,
)
from golden.requantize import SHIFT_MAX
from golden.rotary import FRACTION

WEIGHT_SPREAD = 73  # standard deviation of a uniform code in -127..127
CODE_SPREAD = 32  # the spread that int8 activations are scaled to; 4 of them reach saturation
SCORE_SPREAD = 320  # 1.25 octaves


@dataclass(frozen=True)
class Kind:
    """The parts of a random model beside its shape.

    embedding_size: channels of a factorised embedding, 0 where it is not. precise: wide operands.
    biased: a position bias. windowed: windows in most layers. rotary: two tables of rotary
    positions. gated: gated feed-forwards, but every fourth. rms: RMSNorms, but every fourth norm.
    first_norm: norm1 in layer 0. head_norm: a norm before the last layer of the head.
    """

    embedding_size: int = 0
    precise: bool = False
    biased: bool = False
    windowed: bool = False
    rotary: bool = False
    gated: bool = False
    rms: bool = False
    first_norm: bool = True
    head_norm: bool = False

    def fitting(self, shape: Shape) -> Kind:
        """This kind without what a model of the shape cannot have."""
        return replace(self, **{name: getattr(Kind, name) for name in self._unfit(shape)})

    def check(self, shape: Shape) -> None:
        """UserError where a model of the shape cannot have all of it."""
        for name, needed in self._unfit(shape).items():
            allowed = f"{getattr(Kind, name)} but for {needed}"
            raise UserError(f"{name} is {getattr(self, name)}; allowed {allowed}")

    def _unfit(self, shape: Shape) -> dict[str, str]:
        """Parts that a model of the shape cannot have, and what each needs."""
        pre = shape.norm == "pre"
        fits = {
            "embedding_size": (not pre, "norm 'post'"),
            "biased": (shape.kv_heads is None, "heads with K and V of their own"),
            "rotary": (shape.head_size % 2 == 0, "an even head_size"),
            "first_norm": (pre and shape.embedding_norm, "norm 'pre' with an embedding norm"),
        }
        return {name: need for name, (fit, need) in fits.items() if not fit and self._has(name)}

    def _has(self, name: str) -> bool:
        return bool(getattr(self, name) != getattr(Kind, name))


def random_model(shape: Shape, seed: int, kind: Kind | None = None) -> Model:
    """A model of this shape and kind; the same seed gives the same model."""
    kind = kind or Kind()
    kind.check(shape)
    rng = np.random.default_rng(seed)
    model = _whole(rng, shape)
    changes: dict[str, Callable[[np.random.Generator, Model], Model]] = {
        "head_norm": lambda rng, of: replace(of, head_norm=_norm(rng, shape.hidden)),
        "gated": with_gates,
        "rms": with_rms_norms,
        "rotary": turned,
        "first_norm": lambda _, of: replace(of, layers=_with_first(of, norm1=None)),
        "embedding_size": lambda rng, of: factorised(rng, of, kind.embedding_size),
        "precise": widened,
        "biased": positioned,
        "windowed": limited,
    }
    for name, change in changes.items():
        if kind._has(name):
            model = change(rng, model)
    return model


def _with_first(model: Model, **change: Any) -> tuple[Layer, ...]:
    """The layers of the model with a changed first one."""
    return replace(model.layers[0], **change), *model.layers[1:]


def positioned(rng: np.random.Generator, model: Model) -> Model:
    """The model with a position bias that reaches as far as its scores.

    Every sixteenth value and one of each head are the least and the largest int16, so that sums
    saturate on both sides; few of the largest, since such a key takes all the weight of its row.
    """
    size = model.shape.heads, 2 * model.shape.tokens - 1
    table = rng.integers(-2 * SCORE_SPREAD, 2 * SCORE_SPREAD + 1, size, dtype=np.int16)
    table[rng.integers(16, size=size) == 0] = -(1 << 15)
    table[np.arange(size[0]), rng.integers(size[1], size=size[0])] = (1 << 15) - 1
    return replace(model, position_bias=table)


def turned(rng: np.random.Generator, model: Model) -> Model:
    """The model with two tables of rotary positions, which its layers take in turn, or none.

    Most angles are any: a test that one entry can fail says more than a smooth function's. Some
    pairs are not turned, and of some entries both numbers are 2^14. Q and K have twice the spread
    of other codes, so that results saturate.
    """
    shape = model.shape
    size = shape.tokens, shape.head_size // 2

    def table() -> Rotary:
        cos = rng.integers(-ROTARY_ONE, ROTARY_ONE + 1, size)
        cos[:, rng.integers(4, size=size[1]) == 0] = ROTARY_ONE
        sin = np.array([isqrt(ROTARY_ONE**2 - x * x) for x in cos.ravel().tolist()])
        sin = sin.reshape(size) * rng.choice((-1, 1), size)
        both = rng.integers(8, size=size) == 0
        cos[both], sin[both] = ROTARY_ONE, -ROTARY_ONE
        return Rotary(cos.astype(np.int16), sin.astype(np.int16))

    def of_16_bits(of: Linear) -> Linear:
        assert of.s is not None
        return replace(of, s=of.s - FRACTION - 1)

    def layer(place: int, of: Layer) -> Layer:
        which = (place + first) % 3
        if which == 2:
            return of
        its = of.attention
        its = replace(its, q=of_16_bits(its.q), k=of_16_bits(its.k), score_s=its.score_s + 2)
        return replace(of, attention=its, rotary=which)

    tables, first = (table(), table()), int(rng.integers(2))
    layers = tuple(layer(place, of) for place, of in enumerate(model.layers))
    return replace(model, layers=layers, rotary=tables)


def with_gates(rng: np.random.Generator, model: Model) -> Model:
    """The model with gated feed-forwards in three layers out of four.

    The table of `gate` has any codes, so products have about the spread of codes where that of
    `up` is CODE_SPREAD * 2^(gate_shift - 6).
    """
    shape = model.shape

    def layer(of: Layer) -> Layer:
        if not rng.integers(4):
            return of
        shift = int(rng.integers(11, 14))
        gate = _linear(rng, shape.ffn, shape.hidden, table=_table(rng))
        up = _linear(rng, shape.ffn, shape.hidden, spread_out=CODE_SPREAD << shift - 6)
        return replace(of, ffn=replace(of.ffn, up=up, gate=gate, gate_shift=shift))

    return replace(model, layers=tuple(map(layer, model.layers)))


def with_rms_norms(rng: np.random.Generator, model: Model) -> Model:
    """The model with RMSNorms in the place of three norms out of four."""

    def norm(of: Norm) -> Norm:
        small = len(of.gamma) <= RMS_HIDDEN_MAX
        return replace(of, rms=True) if small and rng.integers(4) else of

    return _with_norms(model, norm)


def limited(rng: np.random.Generator, model: Model) -> Model:
    """The model with windows in three layers out of four, causal ones and small ones among them."""

    def side() -> int | None:
        reach = int(rng.integers(model.shape.tokens)) >> int(rng.integers(5))
        return reach if rng.integers(3) else None

    def window() -> Window | None:
        before, after = side(), side() if rng.integers(2) else 0
        none = (before is None and after is None) or not rng.integers(4)
        return None if none else Window(before, after)

    return replace(model, layers=tuple(replace(layer, window=window()) for layer in model.layers))


def widened(rng: np.random.Generator, model: Model) -> Model:
    """The model with wide operands, those of three norms and tables out of four.

    Every second of these norms reaches twice as far, so that some of its values saturate.
    """

    def norm(of: Norm) -> Norm:
        if not rng.integers(4):
            return of
        return replace(of, operand_shifts=None, wide=True, shift=of.shift - int(rng.integers(2)))

    def layer(of: Layer) -> Layer:
        active, low = of.ffn.activated, _table(rng) if rng.integers(4) else None
        if low is not None:
            low[(active.table == -128) & (low < 0)] = 0
        its: Any = {"up" if of.ffn.gate is None else "gate": replace(active, table_low=low)}
        return replace(of, ffn=replace(of.ffn, **its))

    return _with_norms(model, norm, layer, embedding=model.projection is None)


def _with_norms(
    model: Model,
    norm: Callable[[Norm], Norm],
    layer: Callable[[Layer], Layer] = lambda of: of,
    embedding: bool = True,
) -> Model:
    """The model with other norms, in the order of use, each layer changed before its own."""

    def other(of: Any, *names: str) -> Any:
        norms = {name: getattr(of, name) for name in names}
        return replace(of, **{name: norm(its) for name, its in norms.items() if its is not None})

    tables = other(model.embedding, "norm") if embedding else model.embedding
    layers = tuple(other(layer(of), "norm1", "norm2") for of in model.layers)
    model = replace(model, embedding=tables, layers=layers)
    return cast(Model, other(model, "final_norm", "head_norm"))


def factorised(rng: np.random.Generator, model: Model, size: int) -> Model:
    """The model with an embedding of this many channels and a projection."""
    first, norm = model.layers[0].attention, model.embedding.norm
    assert norm is not None
    q, k, v = _readers(rng, model.shape, size)
    narrow = np.arange(model.shape.hidden) < size
    names = ("token", "position", "token_low", "position_low")
    tables = {name: getattr(model.embedding, name) for name in names}
    embedding = replace(
        model.embedding,
        **{name: table * narrow for name, table in tables.items() if table is not None},
        norm=replace(norm, gamma=norm.gamma * narrow, beta=norm.beta * narrow),
    )
    return replace(
        model,
        embedding=embedding,
        layers=_with_first(model, attention=replace(first, q=q, k=k, v=v)),
        projection=_linear(rng, model.shape.hidden, size, spread_out=256 * CODE_SPREAD),
    )


def _whole(rng: np.random.Generator, shape: Shape) -> Model:
    embedding, layers = _embedding(rng, shape), [_layer(rng, shape) for _ in range(shape.layers)]
    final_norm = _norm(rng, shape.hidden) if shape.norm == "pre" else None
    # The mean over L independent tokens has 1/sqrt(L) of their spread.
    mean = shape.pooling == "mean"
    m, s = multiplier(isqrt(min(shape.tokens, 16)), 2) if mean else (None, None)
    hidden = _linear(rng, shape.hidden, shape.hidden, table=_table(rng))
    logits = replace(_linear(rng, shape.labels, shape.hidden), m=None, s=None)
    return Model(shape, embedding, tuple(layers), final_norm, m, s, (hidden, logits))


def multiplier(numerator: int, denominator: int) -> tuple[int, int]:
    """(m, s) with m * 2^-s next to numerator / denominator, 2^15 <= m < 2^16 and 1 <= s <= 47."""
    for s in range(1, SHIFT_MAX + 1):
        m = ((numerator << (s + 1)) // denominator + 1) >> 1
        if 1 << 15 <= m < 1 << 16:
            return m, s
    raise UserError(f"{numerator} / {denominator} has no multiplier; allowed 2^-32 to 2^15")


def _codes(rng: np.random.Generator, *size: int) -> np.ndarray:
    return rng.integers(-127, 128, size, dtype=np.int8)


def _table(rng: np.random.Generator) -> np.ndarray:
    """Any 256 codes: a test that one entry can fail says more than a smooth function's."""
    return rng.integers(-128, 128, 256, dtype=np.int8)


def _linear(
    rng: np.random.Generator,
    rows: int,
    columns: int,
    *,
    spread_in: int = CODE_SPREAD,
    spread_out: int = CODE_SPREAD,
    table: np.ndarray | None = None,
) -> Linear:
    """A layer whose output has the spread spread_out, up to 1.5 times less or more by channel."""
    acc = isqrt(columns * (WEIGHT_SPREAD * spread_in) ** 2)
    pairs = [
        multiplier(spread_out * 256, acc * int(jitter)) for jitter in rng.integers(192, 384, rows)
    ]
    m, s = np.array(pairs, dtype=np.int32).T.copy()
    weight, bias = _codes(rng, rows, columns), rng.integers(-acc, acc + 1, rows, dtype=np.int32)
    return Linear(weight, bias, m, s, table)


def _readers(rng: np.random.Generator, shape: Shape, size: int) -> tuple[Linear, Linear, Linear]:
    """q, k and v of an attention that reads so many channels."""
    inner, keys = shape.inner, shape.kv_inner
    return _linear(rng, inner, size), _linear(rng, keys, size), _linear(rng, keys, size)


def _norm(rng: np.random.Generator, hidden: int) -> Norm:
    """n has the spread 2^12; gamma about 2^15 * 3/4 and shift 14 bring it to 1.5 * 2^12..2^13.

    Every second norm has shifts, of which most are 8; the channels of the others reach less far.
    """
    shift = int(rng.integers(12, 15))
    one = 1 << (shift + 1)
    low, high = OPERAND_SHIFTS
    beside = rng.spawn(1)[0]  # so that all other integers are those of norms without shifts
    drawn = np.where(beside.integers(5, size=hidden) > 0, high, beside.integers(low, high, hidden))
    shifts = drawn.astype(np.uint8) if beside.integers(2) else None
    less = np.zeros(hidden, np.int32) if shifts is None else high - shifts.astype(np.int32)
    gamma = rng.integers(one >> 1, one, hidden) * rng.choice((-1, 1), hidden)
    beta = rng.integers(-one * 1024, one * 1024 + 1, hidden, dtype=np.int32)
    epsilon = int(rng.integers(1, 1 << 20))
    return Norm((gamma >> less).astype(np.int16), beta >> less, shift, epsilon, shifts)


def _embedding(rng: np.random.Generator, shape: Shape) -> Embedding:
    """Every second one has tables of 16 bits."""
    tokens = shape.vocabulary, shape.hidden
    positions = max(shape.types, 1), shape.positions, shape.hidden
    beside = rng.spawn(1)[0]  # so that all other integers are those of tables of 8 bits
    token, position = _codes(rng, *tokens), _codes(rng, *positions)
    wide = bool(token[-1, -1] & 1)
    a_t, a_p = int(rng.integers(80, 130)), int(rng.integers(40, 129))
    a_p = min(a_p, 256 - a_t) if wide else a_p
    low = (_codes(beside, *tokens), _codes(beside, *positions)) if wide else (None, None)
    norm = _norm(rng, shape.hidden) if shape.embedding_norm else None
    return Embedding(token, position, a_t, a_p, norm, *low)


def _layer(rng: np.random.Generator, shape: Shape) -> Layer:
    hidden, inner, ffn = shape.hidden, shape.inner, shape.ffn
    branch = 256 * CODE_SPREAD  # the spread of the int16 residual stream after a norm
    attention = Attention(
        *_readers(rng, shape, hidden),
        _linear(rng, hidden, inner, spread_out=branch),
        *multiplier(SCORE_SPREAD, isqrt(shape.head_size * CODE_SPREAD**4)),
        *multiplier(isqrt(16 * min(shape.tokens, 9)), 8),
        residual_shift=int(rng.integers(0, 2)),
    )
    feed_forward = FeedForward(
        _linear(rng, ffn, hidden, table=_table(rng)),
        _linear(rng, hidden, ffn, spread_in=WEIGHT_SPREAD, spread_out=branch),
        residual_shift=int(rng.integers(0, 2)),
    )
    return Layer(attention, feed_forward, _norm(rng, hidden), _norm(rng, hidden))
