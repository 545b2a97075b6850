"""The encoder on batches: the operations of golden/encoder.py by BLAS and compiled loops."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, proxy

import numpy as np

from golden.encoder import Integers, Ops, check_input, walk
from golden.errors import UserError
from golden.fast import kernels
from golden.fast.products import CODE, P_MAX, FloatProducts, load, sum_type
from golden.linear import LOW_BITS
from golden.model import TOKENS_MAX, FeedForward, Linear, Model, Norm
from golden.position_bias import add_position_bias
from golden.requantize import requantize
from golden.rotary import SHIFT
from golden.softmax import row_scale
from golden.trace import Show, unseen
from golden.window import in_window, sides

# Tokens that go through the encoder together: their activations stay in the second-level cache,
# and matrix products of this height already run at full speed.
TOKENS_TOGETHER = 2048

# Products of tokens and weights, a tenth of a second of BLAS, after which it is worth the half
# second that loading the integer instructions takes.
WORTH_LOADING = 1 << 32

Texts = Sequence[Integers]
Options = Sequence[Integers | None] | np.ndarray | None
Watch = Callable[[str, np.ndarray], object]
Prepared = TypeVar("Prepared")


def run(
    model: Model,
    ids: Integers,
    types: Integers | None = None,
    attend: Integers | None = None,
) -> np.ndarray:
    """golden.encoder.run without a trace: logits of one text, int32 [labels] or [L, labels]."""
    logits = run_batch(model, [ids], [types], [attend])
    return logits if model.shape.pooling == "none" else logits[0]


def run_batch(
    model: Model, ids: Texts, types: Options = None, attend: Options = None
) -> np.ndarray:
    """Logits of many texts of any lengths, int32 [texts, labels], each as golden.encoder.run's.

    Without pooling those of all tokens, text by text: int32 [tokens, labels].
    ids, types and attend hold one entry a text (None: all 0, all 1), or are arrays with a row a
    text. Texts of similar length share a batch, padded with masked tokens, which change no other
    token's integers. The model is prepared once and kept as long as it lives; its arrays must not
    change after that.
    """
    return _engine(model).run_batch(ids, types, attend)


def trace_batch(
    model: Model, ids: Texts, types: Options = None, attend: Options = None
) -> list[dict[str, np.ndarray]]:
    """The trace of each text as golden.encoder.run gives it; arguments as those of `run_batch`."""
    return _engine(model).trace_batch(ids, types, attend)


class FastLinear:
    """A Linear prepared for the kernels; several with one operand may be stacked."""

    def __init__(self, products: FloatProducts, *layers: Linear) -> None:
        weight = np.concatenate([x.weight for x in layers])
        self.weight: Any = products.prepare(weight)
        self.out = len(weight)
        self.bias = np.concatenate([x.bias for x in layers]).astype(np.float64)
        scales = [np.ldexp(x.m, -x.s) for x in layers if x.m is not None and x.s is not None]
        self.factor = np.concatenate(scales) if scales else np.zeros(0)
        self.tables = [
            # entry c + 128 for the code c
            (np.roll(table, 128).astype(np.int16) + products.zero).astype(products.operand)
            for table in (layers[0].table, layers[0].table_low)
            if table is not None
        ]


class Engine(Ops):
    """A model prepared for batches. Not for use by several threads at a time.

    Streams are int16 [texts, L, H], operands codes + `zero` [1, texts, L, K]; wide ones
    [2, texts, L, K], the high halves first. Later operations use their memory again.

    It computes by `products`, by default BLAS, which is there at once; where that is the default,
    integer instructions take over after WORTH_LOADING products, if there are any.
    """

    def __init__(self, model: Model, products: FloatProducts | None = None) -> None:
        self.model = model
        self._until_loading = None if products else WORTH_LOADING
        self._take(products or FloatProducts())

    def _take(self, products: FloatProducts) -> None:
        self.products = products
        self._prepared: dict[Any, Any] = {}
        self._memory: dict[str, np.ndarray] = {}

    def _count(self, tokens: int) -> None:
        """Take the integer instructions once so much is computed that they are worth it."""
        if self._until_loading is None:
            return
        layers = [(layer.attention, layer.ffn) for layer in self.model.layers]
        self._until_loading -= tokens * sum(
            x.weight.size
            for a, ffn in layers
            for x in (a.q, a.k, a.v, a.o, ffn.up, ffn.gate, ffn.down)
            if x is not None
        )
        if self._until_loading < 0:
            self._until_loading = None
            if found := load():
                self._take(found)

    def run_batch(self, ids: Texts, types: Options = None, attend: Options = None) -> np.ndarray:
        """Logits, as the function of this name."""
        logits = [np.empty((0, self.model.shape.labels), np.int32)] * (1 + len(ids))
        for place, rows in self._run(ids, types, attend, unseen):
            logits[1 + place] = rows
        return np.vstack(logits)

    def trace_batch(
        self, ids: Texts, types: Options = None, attend: Options = None
    ) -> list[dict[str, np.ndarray]]:
        """Traces, as the function of this name."""
        traces: list[dict[str, np.ndarray]] = [{} for _ in ids]

        def show(name: str, value: np.ndarray | list[np.ndarray]) -> None:
            for place, x in zip(self._places, self._by_text(name, value)):
                traces[place][name] = x

        for _ in self._run(ids, types, attend, show, details=True):
            pass
        return traces

    def watch_batch(self, watch: Watch, ids: Texts, types: Options = None) -> None:
        """Show what linear layers read to ``watch(name, x)``, by the names of the trace.

        x float32 [rows, K] holds the int8 codes of some texts, a row a token, of wide operands the
        high halves.
        """

        def show(name: str, value: np.ndarray) -> None:
            if value.dtype == self.products.operand and not name.endswith(".gate"):
                watch(name, np.vstack(self._by_text(name, value[:1])).astype(np.float32))

        for _ in self._run(ids, types, None, show):
            pass

    def _run(
        self, ids: Texts, types: Options, attend: Options, show: Show, details: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """The place and the logits of each text; details: attention shows what leads to its result.

        Texts of similar length are padded to one; what the head does not read is computed where it
        is shown.
        """
        given = []
        for name, values in (("types", types), ("attend", attend)):
            if values is not None and len(values) != len(ids):
                raise UserError(f"{name} holds {len(values)} texts; allowed {len(ids)}, as ids")
            given.append([None] * len(ids) if values is None else values)
        inputs = [check_input(self.model, *text) for text in zip(ids, *given)]
        self._count(sum(len(text) for text, _, _ in inputs))
        self._details = details
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i][0]))
        while order:
            length = len(inputs[order[-1]][0])
            count = max(1, TOKENS_TOGETHER // length)
            self._places, order = order[-count:], order[:-count]
            self._lengths = [len(inputs[place][0]) for place in self._places]
            padded = np.zeros((3, len(self._places), length), np.int64)
            for row, place in enumerate(self._places):
                padded[:, row, : self._lengths[row]] = inputs[place]
            whole, valid = show is not unseen, padded[2].astype(bool)
            logits = walk(self, self.model, padded[0], padded[1], valid, show, whole)
            yield from zip(self._places, self._by_text("logits", logits))

    def _by_text(self, name: str, value: np.ndarray | list[np.ndarray]) -> list[np.ndarray]:
        """The value of each text as golden has it, without padding."""
        if isinstance(value, list):
            return value
        if value.dtype == self.products.operand:
            codes = value.astype(np.int16) - self.products.zero
            wide = len(codes) == 2
            value = (codes[0] << LOW_BITS) + codes[1] if wide else codes[0].astype(np.int8)
        pooled = name.startswith(("pooled", "head", "logits"))
        if pooled and self.model.shape.pooling != "none":
            return list(value.copy())
        return [x[:n].copy() for x, n in zip(value, self._lengths)]

    def embed(self, ids: np.ndarray, types: np.ndarray, model: Model) -> np.ndarray:
        embedding = model.embedding
        low = embedding.token_low, embedding.position_low
        none = np.empty((0, 0), np.int8), np.empty((0, 0, 0), np.int8)
        x = self._array("x", (*ids.shape, model.shape.hidden), np.int16)
        kernels.embed(
            ids,
            types,
            embedding.token,
            embedding.position,
            embedding.token_factor,
            embedding.position_factor,
            *(empty if table is None else table for table, empty in zip(low, none)),
            model.shape.position_offset,
            x,
        )
        return x

    def norm(self, z: np.ndarray, norm: Norm) -> tuple[np.ndarray, np.ndarray]:
        """In place, but where the stream goes on beside the norm."""
        zero, x = self.products.zero, rows(z)
        if self.model.shape.norm == "pre" and norm is not self.model.embedding.norm:
            x = self._array("normalised", x.shape, np.int16)
        x8 = self._array("x8", (1 + norm.wide, *z.shape), self.products.operand)
        high, *low = map(rows, x8)
        kernels.layernorm(rows(z), *self._kept(norm, parameters, norm), x, zero, high)
        if low:
            kernels.low_halves(x, high, zero, *low)
        return x.reshape(z.shape), x8

    def linear(self, x8: np.ndarray, layer: Linear) -> np.ndarray:
        fast = self._fast(layer)
        acc = self._accumulate(x8, fast)
        shape = max(1, len(fast.tables)), *x8.shape[1:-1], fast.out
        y = self._array("linear", shape, self.products.operand)
        if not fast.tables:
            kernels.requantize_to_codes(acc, fast.bias, fast.factor, self.products.zero, rows(y[0]))
        for half, table in zip(y, fast.tables):
            kernels.requantize_by_table(acc, fast.bias, fast.factor, table, rows(half))
        return y

    def gate(self, gate: np.ndarray, x8: np.ndarray, ffn: FeedForward) -> np.ndarray:
        assert ffn.gate_shift is not None
        up, zero = self._fast(ffn.up), self.products.zero
        high, *low = map(rows, gate)
        halves = high, *(low or [np.empty((0, 0), high.dtype)])
        acc, scale = self._accumulate(x8, up), 2.0**-ffn.gate_shift
        kernels.gate_in_place(acc, up.bias, up.factor, scale, zero, *halves)
        return gate

    def residual(self, x: np.ndarray, x8: np.ndarray, layer: Linear, shift: int) -> np.ndarray:
        fast, z = self._fast(layer), rows(x)
        kernels.add_residual(self._accumulate(x8, fast), fast.bias, fast.factor, z, shift)
        return z.reshape(x.shape)

    def attention(
        self, x8: np.ndarray, model: Model, i: int, attend: np.ndarray, queries: int, show: Show
    ) -> np.ndarray:
        shape, layer, rotary = model.shape, model.layers[i], model.rotary_of(i)
        its, (batch, length), products = layer.attention, attend.shape, self.products
        heads, size, groups = shape.heads, shape.head_size, shape.kv_heads or shape.heads
        fast = self._kept(its, FastLinear, products, its.q, its.k, its.v)
        acc = self._accumulate(x8, fast)
        codes = self._array("qkv", acc.shape, np.float32)
        kernels.requantize_to_codes(acc, fast.bias, fast.factor, 0, codes)
        ends = [shape.inner, shape.inner + shape.kv_inner]  # where K and V begin
        if rotary is not None:
            turns = self._kept(rotary, np.ldexp, (rotary.cos, rotary.sin), -SHIFT)
            of_q_and_k = codes[:, : ends[1]]
            kernels.rotate_to_codes(acc, fast.bias, fast.factor, length, size, *turns, of_q_and_k)
        # [batch, heads of one K and V, heads of K and V, length, size]
        q, k, v = (
            x.reshape(batch, length, -1, groups, size).transpose(0, 2, 3, 1, 4)
            for x in np.split(codes, ends, axis=1)
        )

        acc = self._array("scores", (batch, heads, queries, length), sum_type(size * CODE * CODE))
        by_group = acc.reshape(batch, -1, groups, queries, length)
        np.matmul(q[..., :queries, :], k.swapaxes(3, 4), out=by_group)

        kind = sum_type(length * P_MAX * CODE)
        p = self._array("p", acc.shape, kind)
        row_factor = self._array("row_factor", acc.shape[:3], np.float64)
        bias = model.position_bias
        kernels.softmax(
            acc,
            attend,
            its.score_m * 2.0**-its.score_s,
            np.empty((0, 0), np.int16) if bias is None else bias,
            *sides(layer.window, TOKENS_MAX),
            its.context_m,
            its.context_s,
            p,
            row_factor,
        )
        if self._details:
            self._show_attention(i, attend, codes, acc, p, show)

        acc = self._array("context.acc", (batch, heads, queries, size), kind)
        np.matmul(
            p.reshape(by_group.shape),
            v.astype(kind, copy=False),
            out=acc.reshape(*by_group.shape[:-1], size),
        )
        context = self._array("context", (batch, queries, heads, size), products.operand)
        kernels.scale_context(acc, row_factor, products.zero, context)
        return context.reshape(1, batch, queries, heads * size)

    def _show_attention(
        self,
        i: int,
        attend: np.ndarray,
        qkv: np.ndarray,
        acc: np.ndarray,
        p: np.ndarray,
        show: Show,
    ) -> None:
        """The details: codes of q, k and v side by side, and what is [texts, heads, L, L]."""
        shape, layer, bias = self.model.shape, self.model.layers[i], self.model.position_bias
        its, ends = layer.attention, [shape.inner, shape.inner + shape.kv_inner]
        qkv = qkv.astype(np.int8).reshape(*attend.shape, -1)
        details = []
        for text, n in enumerate(self._lengths):
            scores = acc[text, :, :n, :n].astype(np.int64)
            scores = requantize(scores, its.score_m, its.score_s, 16)
            if bias is not None:
                scores = add_position_bias(scores, bias)
            valid = attend[text, :n] & in_window(layer.window, n)
            weights = p[text, :, :n, :n].astype(np.uint8)
            total = weights.sum(axis=-1, dtype=np.int32)
            row_m, row_s = row_scale(total, its.context_m, its.context_s)
            found: dict[str, Any] = dict(zip("qkv", np.split(qkv[text, :n], ends, axis=1)))
            found |= {"scores": scores, "p": weights, "sum": total, "row_m": row_m, "row_s": row_s}
            details.append(found | {"max": np.max(scores, axis=-1, where=valid, initial=-32768)})
        for name in details[0]:
            show(f"layer.{i}.{name}", [found[name] for found in details])

    def pool(self, x8: np.ndarray, attend: np.ndarray, model: Model) -> np.ndarray:
        if model.shape.pooling != "mean":
            return super().pool(x8, attend, model)
        if model.mean_m is None or model.mean_s is None:
            raise UserError("the model has no mean_m and mean_s; its pooling is 'mean'")
        kind, zero = sum_type(attend.shape[1] * P_MAX * CODE), self.products.zero
        p = np.where(attend, P_MAX, 0).astype(kind)[:, None, None]
        acc = np.matmul(p, (x8[0].astype(kind) - zero)[:, None])  # [texts, 1, 1, H]
        row_factor = np.array(
            [kernels.row_scale(P_MAX * int(n), model.mean_m, model.mean_s) for n in attend.sum(1)]
        )
        pooled = np.empty((len(attend), 1, 1, acc.shape[-1]), self.products.operand)
        kernels.scale_context(acc, row_factor[:, None, None], zero, pooled)
        return pooled.reshape(1, len(attend), -1)

    def logits(self, y: np.ndarray, layer: Linear) -> np.ndarray:
        fast = self._fast(layer)
        acc = self._accumulate(y, fast).astype(np.int64) + fast.bias.astype(np.int64)
        return acc.astype(np.int32).reshape(*y.shape[1:-1], -1)

    def _accumulate(self, x8: np.ndarray, layer: FastLinear) -> np.ndarray:
        """golden.linear.accumulate without the bias, [rows, out]."""
        high, *low = map(rows, x8)
        acc = self._array("acc", (len(high), layer.out), self.products.sums)
        if not low:
            return self.products.multiply(high, layer.weight, acc)
        # float64, since a sum of both passes may need a bit more than one of them.
        of_low = self.products.multiply(low[0], layer.weight, acc).astype(np.float64)
        of_low = np.floor(of_low / (1 << LOW_BITS))
        return self.products.multiply(high, layer.weight, acc) + of_low

    def _fast(self, layer: Linear) -> FastLinear:
        return self._kept(layer, FastLinear, self.products, layer)

    def _kept(self, part: Any, make: Callable[..., Prepared], *arguments: Any) -> Prepared:
        """A part of the model as the kernels take it, made when it is first used."""
        if part not in self._prepared:
            self._prepared[part] = make(*arguments)
        prepared: Prepared = self._prepared[part]
        return prepared

    def _array(self, name: str, shape: tuple[int, ...], kind: type[np.generic]) -> np.ndarray:
        """Memory for an intermediate, used again by the next batch: first touches are dear."""
        size = int(np.prod(shape))
        kept = self._memory.get(name)
        if kept is None or kept.dtype != kind or kept.size < size:
            kept = self._memory[name] = np.empty(size, kind)
        return kept[:size].reshape(shape)


def rows(x: np.ndarray) -> np.ndarray:
    """[..., K] as [rows, K] for the kernels, a copy where memory is not in this order."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1])


def parameters(norm: Norm) -> tuple[Any, ...]:
    """The arguments of kernels.layernorm between z and x16."""
    shifts = np.full(len(norm.gamma), 8) if norm.operand_shifts is None else norm.operand_shifts
    gamma, beta = norm.gamma.astype(np.float64), norm.beta.astype(np.float64)
    scale = np.ldexp(1.0, -shifts.astype(int))
    return gamma, beta, norm.shift, norm.epsilon, bool(norm.rms), scale


def _engine(model: Model) -> Engine:
    if model not in _engines:
        _engines[model] = Engine(proxy(model))  # which a model itself would keep alive
    return _engines[model]


_engines: WeakKeyDictionary[Model, Engine] = WeakKeyDictionary()
