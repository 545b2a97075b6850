"""Vectors of single units, cut out of a golden run: what goes into a unit and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cli.errors import UserError

import numpy as np

from golden.attention import split_heads
from golden.encoder import run
from golden.layernorm import layernorm
from golden.linear import accumulate, high_half, operand
from golden.matmul import matmul
from golden.model import Linear, Model, Norm
from golden.reciprocal import reciprocal
from golden.requantize import requantize
from golden.rsqrt import rsqrt
from rtl.interface.trace import sum_bits


@dataclass(frozen=True)
class Sequence:
    """One input of the encoder: token ids, segment ids, and the mask (1 for valid keys)."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    attend: tuple[int, ...]
    source: str


@dataclass(frozen=True)
class Tensor:
    """Integers of one format: `values` of any shape, `bits` wide, signed or not."""

    values: np.ndarray
    bits: int
    signed: bool

    def __post_init__(self) -> None:
        low, high = self.limits
        if self.values.size and not low <= self.values.min() <= self.values.max() <= high:
            raise UserError(
                f"a tensor of {self.format} spans {self.values.min()}..{self.values.max()}"
            )

    @property
    def format(self) -> str:
        return f"{'int' if self.signed else 'uint'}{self.bits}"

    @property
    def limits(self) -> tuple[int, int]:
        if self.signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


@dataclass(frozen=True)
class Vector:
    """A test vector of a unit: named inputs and the outputs that golden gives for them.

    `name` says where it comes from, in the names of the trace.
    """

    name: str
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


@dataclass(frozen=True)
class Traced:
    """A sequence with its golden run.

    Raises ValueError: The sequence does not suit the model.
    """

    model: Model
    sequence: Sequence
    limit: int = 4096
    trace: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        its = self.sequence
        run(self.model, its.ids, its.types, its.attend, trace=self.trace)

    def attention_operand(self, i: int) -> np.ndarray:
        """x8 that layer i's projections read."""
        if self.model.shape.norm == "pre" and self.model.layers[i].norm1 is not None:
            return self.trace[f"layer.{i}.attention.x8"]
        return self.trace[f"layer.{i - 1}.ffn.x8" if i else "embedding.x8"]

    def normalised(self) -> Iterator[tuple[str, Norm, np.ndarray]]:
        """Every LayerNorm of the run: its name, parameters and input."""
        post = self.model.shape.norm == "post"
        before = "embedding.sum"
        if self.model.embedding.norm is not None:
            yield "embedding", self.model.embedding.norm, self.trace[before]
            before = "embedding.norm"
        for i, layer in enumerate(self.model.layers):
            for half, norm in (("attention", layer.norm1), ("ffn", layer.norm2)):
                z = f"layer.{i}.{half}.sum"
                if norm is not None:
                    yield f"layer.{i}.{half}", norm, self.trace[z if post else before]
                before = z
        if self.model.final_norm is not None:
            yield "final", self.model.final_norm, self.trace[before]
        if self.model.head_norm is not None:
            yield "head", self.model.head_norm, np.atleast_2d(self.trace["head.sum"])

    def spread(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """At most `limit` entries of arrays of equal shape, evenly spaced and flat."""
        flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
        count = min(self.limit, flat[0].size)
        index = np.arange(count) * flat[0].size // count
        return tuple(array[index] for array in flat)

    def rows(self, count: int) -> np.ndarray:
        """The indices of at most `limit` of `count` rows, evenly spaced."""
        kept = min(self.limit, count)
        return np.arange(kept) * count // kept


def signed(values: object, bits: int) -> Tensor:
    return Tensor(np.asarray(values), bits, True)


def unsigned(values: object, bits: int) -> Tensor:
    return Tensor(np.asarray(values), bits, False)


def _requantize(run: Traced) -> Iterator[Vector]:
    def vector(name: str, acc: np.ndarray, m: object, s: object, bits: int) -> Vector:
        acc, m, s = run.spread(acc, *(np.broadcast_to(np.asarray(x), acc.shape) for x in (m, s)))
        inputs = {"acc": signed(acc, 32), "m": unsigned(m, 16), "s": unsigned(s, 6)}
        return Vector(name, inputs, {"y": signed(requantize(acc, m, s, bits), bits)})

    for i, layer in enumerate(run.model.layers):
        x8, name, trace = run.attention_operand(i), f"layer.{i}", run.trace
        first, o = layer.attention.q, layer.attention.o
        yield vector(f"{name}.q", accumulate(x8, first), first.m, first.s, 8)
        q, k, v = (split_heads(trace[f"{name}.{x}"], run.model.shape.heads) for x in "qkv")
        score_m, score_s = layer.attention.score_m, layer.attention.score_s
        yield vector(f"{name}.scores", matmul(q, k.swapaxes(1, 2)), score_m, score_s, 16)
        row_m, row_s = (trace[f"{name}.{x}"][..., None] for x in ("row_m", "row_s"))
        yield vector(f"{name}.context", matmul(trace[f"{name}.p"], v), row_m, row_s, 8)
        yield vector(f"{name}.attention.sum", accumulate(trace[f"{name}.context"], o), o.m, o.s, 16)


def _reciprocal(run: Traced) -> Iterator[Vector]:
    for i in range(len(run.model.layers)):
        (sums,) = run.spread(run.trace[f"layer.{i}.sum"])
        sums = np.where(sums < 1 << 20, sums, sums >> 1)  # as the unit gets them
        r, e = reciprocal(sums)
        outputs = {"r": unsigned(r, 16), "e": unsigned(e, 5)}
        yield Vector(f"layer.{i}.sum", {"s": unsigned(sums, 20)}, outputs)


def _rsqrt(run: Traced) -> Iterator[Vector]:
    for name, norm, z in run.normalised():
        rows = z[run.rows(len(z))].astype(np.int64)
        v = rows.shape[1] * (rows * rows).sum(axis=1) - rows.sum(axis=1) ** 2 + norm.epsilon
        r, e = rsqrt(v)
        outputs = {"r": unsigned(r, 16), "e": unsigned(e, 5)}
        yield Vector(f"{name}.norm", {"v": unsigned(v, 52)}, outputs)


def _activation(run: Traced) -> Iterator[Vector]:
    def vector(name: str, x8: np.ndarray, layer: Linear) -> Iterator[Vector]:
        if layer.table is not None and layer.m is not None and layer.s is not None:
            codes = requantize(accumulate(x8, layer), layer.m, layer.s)
            x, y = run.spread(codes, high_half(run.trace[name]))
            inputs = {"x": signed(x, 8), "table": signed(layer.table, 8)}
            yield Vector(name, inputs, {"y": signed(y, 8)})

    for i, layer in enumerate(run.model.layers):
        half = "ffn" if run.model.shape.norm == "pre" else "attention"
        x8 = run.trace[f"layer.{i}.{half}.x8"]
        yield from vector(f"layer.{i}.ffn.hidden", x8, layer.ffn.up)
    x8 = run.trace["pooled"]
    for j, hidden in enumerate(run.model.head[:-1]):
        yield from vector(f"head.{j}", x8, hidden)
        x8 = run.trace[f"head.{j}"]


def _softmax(run: Traced) -> Iterator[Vector]:
    for i, layer in enumerate(run.model.layers):
        name, trace = f"layer.{i}", run.trace
        keys = trace[f"{name}.p"].shape[-1]
        kept = run.rows(trace[f"{name}.max"].size)
        inputs = {
            "scores": signed(trace[f"{name}.scores"].reshape(-1, keys)[kept], 16),
            "attend": unsigned(run.sequence.attend, 1),
            "m": unsigned(layer.attention.context_m, 16),
            "s": unsigned(layer.attention.context_s, 6),
        }
        outputs = {"p": unsigned(trace[f"{name}.p"].reshape(-1, keys)[kept], 8)}
        bits = {"max": 16, "sum": sum_bits(keys), "row_m": 16, "row_s": 6}
        for x, width in bits.items():
            outputs[x] = Tensor(trace[f"{name}.{x}"].reshape(-1)[kept], width, x == "max")
        yield Vector(f"{name}.p", inputs, outputs)


def _position_bias(run: Traced) -> Iterator[Vector]:
    """Scores before and after, of all heads, for models with a position bias."""
    table = run.model.position_bias
    if table is None:
        return
    for i, layer in enumerate(run.model.layers):
        name, attention = f"layer.{i}", layer.attention
        q, k = (split_heads(run.trace[f"{name}.{x}"], run.model.shape.heads) for x in "qk")
        acc = matmul(q, k.swapaxes(1, 2))
        scores = requantize(acc, attention.score_m, attention.score_s, 16)
        inputs = {"scores": signed(scores, 16), "table": signed(table, 16)}
        yield Vector(f"{name}.scores", inputs, {"y": signed(run.trace[f"{name}.scores"], 16)})


def _layernorm(run: Traced) -> Iterator[Vector]:
    for name, norm, z in run.normalised():
        rows = z[run.rows(len(z))]
        eights = np.full(len(norm.gamma), 8)
        shifts = eights if norm.operand_shifts is None else norm.operand_shifts
        inputs = {
            "z": signed(rows, 16),
            "gamma": signed(norm.gamma, 16),
            "beta": signed(norm.beta, 32),
            "shift": unsigned(norm.shift, 5),
            "epsilon": unsigned(norm.epsilon, 50),
            "operand_shifts": unsigned(shifts, 4),
        }
        y = layernorm(rows, norm)
        x8 = operand(y, norm.operand_shifts)
        yield Vector(f"{name}.norm", inputs, {"y": signed(y, 16), "x8": signed(x8, 8)})


def _matmul(run: Traced) -> Iterator[Vector]:
    """One product of each kind of operand: weights, both activations, and p."""
    for i, layer in enumerate(run.model.layers):
        name = f"layer.{i}"
        q, k, v = (split_heads(run.trace[f"{name}.{x}"], run.model.shape.heads)[0] for x in "qkv")
        products = {
            "q": (signed(high_half(run.attention_operand(i)), 8), layer.attention.q.weight.T),
            "scores": (signed(q, 8), k.T),
            "context": (unsigned(run.trace[f"{name}.p"][0], 8), v),
        }
        for product, (a, b) in products.items():
            acc = signed(matmul(a.values, b), 32)
            yield Vector(f"{name}.{product}", {"a": a, "b": signed(b, 8)}, {"acc": acc})


UNITS: dict[str, Callable[[Traced], Iterator[Vector]]] = {
    cutting.__name__[1:]: cutting
    for cutting in (
        *(_requantize, _reciprocal, _rsqrt, _activation),
        *(_softmax, _position_bias, _layernorm, _matmul),
    )
}


def cut(unit: str, run: Traced) -> Iterator[Vector]:
    """The vectors of a unit in a golden run.

    The run's `limit` bounds the values (requantize, reciprocal, rsqrt, activation) or rows
    (softmax, layernorm) of a vector, taken evenly spaced; matmul and position_bias come whole.

    Raises ValueError: No unit is called so.
    """
    if unit not in UNITS:
        raise UserError(f"no unit is called {unit!r}: choose from {', '.join(UNITS)}")
    return UNITS[unit](run)
