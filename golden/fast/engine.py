"""The encoder on batches: the functions of golden/encoder.py by BLAS and compiled loops."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary, proxy

import numpy as np

from golden.encoder import PROJECTION_SHIFT, Integers, check_input
from golden.errors import UserError
from golden.fast import integer, kernels
from golden.fast.exact import CODE, P_MAX, FloatProducts, sum_type
from golden.linear import LOW_BITS, in_stream
from golden.model import TOKENS_MAX, Layer, Linear, Model, Norm, Rotary
from golden.rotary import SHIFT
from golden.window import sides

# Tokens that go through the encoder together: their activations stay in the second-level cache,
# and matrix products of this height already run at full speed.
TOKENS_TOGETHER = 2048

# Products of tokens and weights, a tenth of a second of BLAS, after which it is worth the half
# second that loading the integer instructions takes.
WORTH_LOADING = 1 << 32

Products = FloatProducts | integer.IntegerProducts
Inputs = tuple[np.ndarray, np.ndarray, np.ndarray]


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
    model: Model,
    ids: Sequence[Integers],
    types: Sequence[Integers | None] | None = None,
    attend: Sequence[Integers | None] | None = None,
) -> np.ndarray:
    """Logits of many texts of any lengths, int32 [texts, labels], each as golden.encoder.run's.

    Without pooling those of all tokens, text by text: int32 [tokens, labels].
    types and attend hold one entry a text (None: all 0, all 1). Texts of similar length share a
    batch, padded with masked tokens, which change no other token's integers. The model is prepared
    once and kept as long as it lives; its arrays must not change after that.
    """
    if model not in _prepared:
        _prepared[model] = Engine(proxy(model))  # which a model itself would keep alive
    return _prepared[model].run_batch(ids, types, attend)


class FastLinear:
    """A Linear prepared for the kernels; several with one operand may be stacked."""

    def __init__(self, products: Products, *layers: Linear) -> None:
        weight = np.concatenate([x.weight for x in layers])
        self.weight: Any = products.prepare(weight)
        self.out, self.size = len(weight), weight.size
        self.bias = np.concatenate([x.bias for x in layers]).astype(np.float64)
        scales = [np.ldexp(x.m, -x.s) for x in layers if x.m is not None and x.s is not None]
        self.factor = np.concatenate(scales) if scales else np.zeros(0)
        self.table, self.table_low = (
            None
            if table is None
            # entry c + 128 for the code c
            else (np.roll(table, 128).astype(np.int16) + products.zero).astype(products.operand)
            for table in (layers[0].table, layers[0].table_low)
        )


class FastNorm:
    """A Norm prepared for the kernels."""

    def __init__(self, norm: Norm) -> None:
        self.gamma, self.beta = norm.gamma.astype(np.float64), norm.beta.astype(np.float64)
        self.shift, self.epsilon, self.rms = norm.shift, norm.epsilon, bool(norm.rms)
        shifts = norm.operand_shifts
        self.operand_scale = np.ldexp(
            1.0, -np.full(len(norm.gamma), 8) if shifts is None else -shifts.astype(int)
        )
        self.wide = norm.wide


class FastLayer:
    """A Layer prepared for the kernels."""

    def __init__(self, products: Products, layer: Layer, rotary: Rotary | None) -> None:
        attention, ffn = layer.attention, layer.ffn
        self.qkv = FastLinear(products, attention.q, attention.k, attention.v)
        self.o = FastLinear(products, attention.o)
        self.up, self.down = FastLinear(products, ffn.up), FastLinear(products, ffn.down)
        self.gate = None if ffn.gate is None else FastLinear(products, ffn.gate)
        self.gate_scale = 2.0 ** -(ffn.gate_shift or 0)
        self.rotary = None
        if rotary is not None:
            cos, sin = (np.ldexp(table, -SHIFT) for table in (rotary.cos, rotary.sin))
            self.rotary = cos, sin
        self.norm1 = None if layer.norm1 is None else FastNorm(layer.norm1)
        self.norm2 = FastNorm(layer.norm2)
        self.score_factor = attention.score_m * 2.0**-attention.score_s
        self.context = attention.context_m, attention.context_s
        self.window = layer.window
        self.seen = sides(layer.window, TOKENS_MAX)
        self.attention_shift = attention.residual_shift
        self.ffn_shift = ffn.residual_shift


class Engine:
    """A model prepared for batches. Not for use by several threads at a time.

    Operands are arrays of codes [rows, K]; wide ones [2, rows, K], the high halves first.

    It computes by `products`, by default BLAS, which is there at once; where that is the default,
    integer instructions take over after WORTH_LOADING products, if there are any.
    """

    def __init__(self, model: Model, products: Products | None = None) -> None:
        self.model = model
        self._until_loading = None if products else WORTH_LOADING
        inner, keys = model.shape.inner, model.shape.kv_inner
        self._of_q_k_v = [inner, inner + keys]  # where the columns of K and V begin
        if products:
            self._prepare(products)
        norm, final = model.embedding.norm, model.final_norm
        self.embedding_norm = None if norm is None else FastNorm(norm)
        self.final_norm = None if final is None else FastNorm(final)
        self.head_norm = None if model.head_norm is None else FastNorm(model.head_norm)
        low = model.embedding.token_low, model.embedding.position_low
        none = np.empty((0, 0), np.int8), np.empty((0, 0, 0), np.int8)
        self.low = [empty if table is None else table for table, empty in zip(low, none)]
        bias = model.position_bias
        self.position_bias = np.empty((0, 0), np.int16) if bias is None else bias

    def _prepare(self, products: Products) -> None:
        self.products = products
        model = self.model
        self.layers = [
            FastLayer(products, layer, model.rotary_of(i)) for i, layer in enumerate(model.layers)
        ]
        self.head = [FastLinear(products, layer) for layer in self.model.head]
        self.in_stream = FastLinear(products, in_stream(self.model.shape.hidden))
        projection = self.model.projection
        self.projection = None if projection is None else FastLinear(products, projection)
        self._memory: dict[str, np.ndarray] = {}

    def _count(self, tokens: int) -> None:
        """Take the integer instructions once so much is computed that they are worth it."""
        if self._until_loading is None:
            return
        self._until_loading -= tokens * self._products_of_a_token()
        found = None
        if self._until_loading < 0:
            self._until_loading, found = None, integer.load()
        if found or not hasattr(self, "products"):
            self._prepare(found or FloatProducts())

    def _products_of_a_token(self) -> int:
        layers = [(layer.attention, layer.ffn) for layer in self.model.layers]
        return sum(
            x.weight.size
            for a, ffn in layers
            for x in (a.q, a.k, a.v, a.o, ffn.up, ffn.gate, ffn.down)
            if x is not None
        )

    def run_batch(
        self,
        ids: Sequence[Integers],
        types: Sequence[Integers | None] | None = None,
        attend: Sequence[Integers | None] | None = None,
    ) -> np.ndarray:
        """As the function of this name."""
        for name, given in (("types", types), ("attend", attend)):
            if given is not None and len(given) != len(ids):
                raise UserError(f"{name} holds {len(given)} texts; allowed {len(ids)}, as ids")
        none = [None] * len(ids)
        inputs = [
            check_input(self.model, *text) for text in zip(ids, types or none, attend or none)
        ]
        self._count(sum(len(text) for text, _, _ in inputs))
        logits = [np.empty(0, np.int32)] * len(inputs)
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i][0]))
        while order:
            count = max(1, TOKENS_TOGETHER // len(inputs[order[-1]][0]))
            together, order = order[-count:], order[:-count]
            for i, found in zip(together, self._run([inputs[i] for i in together])):
                logits[i] = found[: len(inputs[i][0])] if found.ndim > 1 else found
        return np.vstack([np.empty((0, self.model.shape.labels), np.int32), *logits])

    def _run(self, inputs: list[Inputs]) -> np.ndarray:
        """Logits of texts that are padded to one length; without pooling [texts, L, labels]."""
        shape = self.model.shape
        batch, length = len(inputs), max(len(ids) for ids, _, _ in inputs)
        ids, types = np.zeros((2, batch, length), np.int64)
        attend = np.zeros((batch, length), np.bool_)
        for i, text in enumerate(inputs):
            for padded, values in zip((ids, types, attend), text):
                padded[i, : len(values)] = values

        x = self._embed(ids, types)
        x8 = np.empty((0, 0), self.products.operand)
        if self.embedding_norm is not None:
            x8 = self._normalize(x, self.embedding_norm, x)
        if self.projection is not None:
            x8 = np.ascontiguousarray(x8[:, : self.model.inputs(0)])
            self._residual(x8, self.projection, x, PROJECTION_SHIFT)
        for i, layer in enumerate(self.layers):
            # What the head does not read need not be computed: the last layer of a classifier on
            # the first token has one query a text.
            last = i == len(self.layers) - 1 and shape.pooling == "first"
            x, x8 = self._layer(x, x8, layer, attend, 1 if last else length)
        if self.final_norm is not None:
            x8 = self._normalize(x, self.final_norm, None)
        self._stream = x
        if shape.pooling == "mean":
            high = x8[0] if x8.ndim == 3 else x8
            return self._head(self._mean(high.reshape(batch, length, -1), attend))
        logits = self._head(x8)
        return logits.reshape(batch, length, -1) if shape.pooling == "none" else logits

    def _embed(self, ids: np.ndarray, types: np.ndarray) -> np.ndarray:
        """golden.embedding.embed of ids and types [batch, L], int16 [batch * L, H]."""
        shape, embedding = self.model.shape, self.model.embedding
        x = self._array("x", (ids.size, shape.hidden), np.int16)
        kernels.embed(
            ids,
            types,
            embedding.token,
            embedding.position,
            embedding.token_factor,
            embedding.position_factor,
            *self.low,
            shape.position_offset,
            x.reshape(*ids.shape, -1),
        )
        return x

    def _layer(
        self, x: np.ndarray, x8: np.ndarray, layer: FastLayer, attend: np.ndarray, queries: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """One layer; x and x8 of the first `queries` tokens of each text."""
        pre = self.model.shape.norm == "pre"
        (batch, length), hidden = attend.shape, x.shape[1]
        if pre and layer.norm1 is not None:
            x8 = self._normalize(x, layer.norm1, None)
        context = self._attention(x8, layer, attend, queries)
        if queries < length:
            x = np.ascontiguousarray(x.reshape(batch, length, -1)[:, :queries].reshape(-1, hidden))
        self._residual(context, layer.o, x, layer.attention_shift)
        if pre or layer.norm1 is None:
            x8 = self._normalize(x, layer.norm2, None)
        else:
            x8 = self._normalize(x, layer.norm1, x)

        middle = self._linear(x8, layer.gate or layer.up, "ffn.hidden")
        if layer.gate is not None:
            self._gate(middle, x8, layer)
        self._residual(middle, layer.down, x, layer.ffn_shift)
        return x, x8 if pre else self._normalize(x, layer.norm2, x)

    def _gate(self, middle: np.ndarray, x8: np.ndarray, layer: FastLayer) -> None:
        """middle = golden.linear.gated(middle, up(x8)), an operand."""
        acc = self._accumulate(x8, layer.up)
        wide = middle.ndim == 3
        high, low = middle if wide else (middle, np.empty((0, 0), middle.dtype))
        up, zero = layer.up, self.products.zero
        kernels.gate_in_place(acc, up.bias, up.factor, layer.gate_scale, zero, high, low)

    def _attention(
        self, x8: np.ndarray, layer: FastLayer, attend: np.ndarray, queries: int
    ) -> np.ndarray:
        """The context of the first `queries` tokens of each text, [batch * queries, inner]."""
        shape = self.model.shape
        batch, length = attend.shape
        heads, size, groups = shape.heads, shape.head_size, shape.kv_heads or shape.heads
        acc = self._accumulate(x8, layer.qkv)
        codes = self._array("qkv", acc.shape, np.float32)
        kernels.requantize_to_codes(acc, layer.qkv.bias, layer.qkv.factor, 0, codes)
        if layer.rotary is not None:
            of_q_and_k = codes[:, : shape.inner + shape.kv_inner]
            kernels.rotate_to_codes(
                acc, layer.qkv.bias, layer.qkv.factor, length, size, *layer.rotary, of_q_and_k
            )
        # [batch, heads of one K and V, heads of K and V, length, size]
        q, k, v = (
            x.reshape(batch, length, -1, groups, size).transpose(0, 2, 3, 1, 4)
            for x in np.split(codes, self._of_q_k_v, axis=1)
        )

        acc = self._array("scores", (batch, heads, queries, length), sum_type(size * CODE * CODE))
        by_group = acc.reshape(batch, -1, groups, queries, length)
        np.matmul(q[..., :queries, :], k.swapaxes(3, 4), out=by_group)

        kind = sum_type(length * P_MAX * CODE)
        p = self._array("p", acc.shape, kind)
        row_factor = self._array("row_factor", acc.shape[:3], np.float64)
        kernels.softmax(
            acc,
            attend,
            layer.score_factor,
            self.position_bias,
            *layer.seen,
            *layer.context,
            p,
            row_factor,
        )
        self._attended(layer, codes, acc, p)

        acc = self._array("context.acc", (batch, heads, queries, size), kind)
        np.matmul(
            p.reshape(by_group.shape),
            v.astype(kind, copy=False),
            out=acc.reshape(*by_group.shape[:-1], size),
        )
        products = self.products
        context = self._array("context", (batch, queries, heads, size), products.operand)
        kernels.scale_context(acc, row_factor, products.zero, context)
        return context.reshape(batch * queries, heads * size)

    def _attended(self, layer: FastLayer, qkv: np.ndarray, acc: np.ndarray, p: np.ndarray) -> None:
        """For engines that show it: codes of q, k and v side by side, the products of q and k, and
        the weights [batch, heads, queries, keys]."""

    def _mean(self, x8: np.ndarray, attend: np.ndarray) -> np.ndarray:
        """golden.encoder.pool of every text, codes [batch, H]."""
        model, products = self.model, self.products
        if model.mean_m is None or model.mean_s is None:
            raise UserError("the model has no mean_m and mean_s; its pooling is 'mean'")
        kind = sum_type(x8.shape[1] * P_MAX * CODE)
        p = np.where(attend, P_MAX, 0).astype(kind)[:, None, None]
        codes = x8.astype(kind) - products.zero
        acc = np.matmul(p, codes[:, None])  # [batch, 1, 1, H]
        row_factor = np.array(
            [kernels.row_scale(P_MAX * int(n), model.mean_m, model.mean_s) for n in attend.sum(1)]
        )
        pooled = np.empty((len(x8), 1, 1, x8.shape[2]), products.operand)
        kernels.scale_context(acc, row_factor[:, None, None], products.zero, pooled)
        return pooled.reshape(len(x8), -1)

    def _head(self, y: np.ndarray) -> np.ndarray:
        for layer in self.head[:-1]:
            y = self._linear(y, layer, f"head.{layer.out}")
        if self.head_norm is not None:
            stream = self._stream.reshape(len(y), -1, self.model.shape.hidden)
            z = np.ascontiguousarray(stream[:, 0])  # of the token that is read, or of each
            self._residual(y, self.in_stream, z, PROJECTION_SHIFT)
            y = self._normalize(z, self.head_norm, None)
        last = self.head[-1]
        acc = self._accumulate(y, last)
        return (acc.astype(np.int64) + last.bias.astype(np.int64)).astype(np.int32)

    def _linear(self, x8: np.ndarray, layer: FastLinear, name: str) -> np.ndarray:
        """golden.linear.linear: an operand."""
        acc = self._accumulate(x8, layer)
        if layer.table_low is not None:
            halves = self._array(name, (2, *acc.shape), self.products.operand)
            for half, table in zip(halves, (layer.table, layer.table_low)):
                kernels.requantize_by_table(acc, layer.bias, layer.factor, table, half)
            return halves
        out = self._array(name, acc.shape, self.products.operand)
        if layer.table is None:
            kernels.requantize_to_codes(acc, layer.bias, layer.factor, self.products.zero, out)
        else:
            kernels.requantize_by_table(acc, layer.bias, layer.factor, layer.table, out)
        return out

    def _residual(self, x8: np.ndarray, layer: FastLinear, x: np.ndarray, shift: int) -> None:
        """x = golden.linear.residual(x, x8)."""
        acc = self._accumulate(x8, layer)
        kernels.add_residual(acc, layer.bias, layer.factor, x, shift)

    def _accumulate(self, x8: np.ndarray, layer: FastLinear) -> np.ndarray:
        products, shape = self.products, (x8.shape[-2], layer.out)
        acc = self._array("acc", shape, products.sums)
        if x8.ndim == 2:
            return products.multiply(x8, layer.weight, acc)
        # float64, since a sum of both passes may need a bit more than one of them.
        low = products.multiply(x8[1], layer.weight, acc).astype(np.float64)
        low = np.floor(low / (1 << LOW_BITS))
        return products.multiply(x8[0], layer.weight, acc) + low

    def _normalize(self, z: np.ndarray, norm: FastNorm, x: np.ndarray | None) -> np.ndarray:
        """x = layernorm(z), and its operand; x may be z, or None where only that is wanted."""
        if x is None:
            x = self._array("normalised", z.shape, np.int16)
        halves = self._array("x8", (1 + norm.wide, *z.shape), self.products.operand)
        kernels.layernorm(
            z,
            norm.gamma,
            norm.beta,
            norm.shift,
            norm.epsilon,
            norm.rms,
            norm.operand_scale,
            x,
            self.products.zero,
            halves[0],
        )
        if not norm.wide:
            return halves[0]
        kernels.low_halves(x, halves[0], self.products.zero, halves[1])
        return halves

    def _array(self, name: str, shape: tuple[int, ...], kind: type[np.generic]) -> np.ndarray:
        """Memory for an intermediate, used again by the next batch: first touches are dear."""
        size = int(np.prod(shape))
        kept = self._memory.get(name)
        if kept is None or kept.dtype != kind or kept.size < size:
            kept = self._memory[name] = np.empty(size, kind)
        return kept[:size].reshape(shape)


_prepared: WeakKeyDictionary[Model, Engine] = WeakKeyDictionary()
