"""The engine that shows what it computes: the operands of its linear layers, or whole traces."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from golden.encoder import Integers, check_input
from golden.fast.engine import Engine, FastLayer, FastLinear, FastNorm, Inputs, Products
from golden.fast.exact import FloatProducts
from golden.linear import LOW_BITS
from golden.model import Model
from golden.position_bias import add_position_bias
from golden.softmax import row_scale
from golden.window import in_window

Watch = Callable[[str, NDArray[np.float32]], None]


class ShowingEngine(Engine):
    """Every token of the last layer is computed, also where the head reads only the first."""

    def __init__(self, model: Model, products: Products | None = None) -> None:
        super().__init__(model, products or FloatProducts())

    def _run(self, inputs: list[Inputs]) -> np.ndarray:
        self._lengths = [len(ids) for ids, _, _ in inputs]
        return super()._run(inputs)

    def _layer(
        self, x: np.ndarray, x8: np.ndarray, layer: FastLayer, attend: np.ndarray, queries: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return super()._layer(x, x8, layer, attend, attend.shape[1])

    def _head(self, y: np.ndarray) -> np.ndarray:
        if self.model.shape.pooling == "first":
            y = np.ascontiguousarray(y[..., :: max(self._lengths), :])
        self._pooled(y)
        return super()._head(y)

    def _pooled(self, y: np.ndarray) -> None:
        """For engines that show it: what the head reads."""


class WatchedEngine(ShowingEngine):
    """An engine that shows the operand of each layer, before the layer, to ``watch(name, x)``.

    x float32 [rows, K] holds the int8 codes of some texts, a row a token, of wide operands the high
    halves; the array is used again after the call. The name is that of the trace, docs/numerics.md
    section 9.
    """

    def __init__(self, model: Model, watch: Watch, products: Products | None = None) -> None:
        super().__init__(model, products)
        self._watch = watch
        self._names = {}
        pre = model.shape.norm == "pre"
        before = "embedding"
        for i, layer in enumerate(self.layers):
            name = f"layer.{i}"
            own = pre and layer.norm1 is not None
            self._names[layer.qkv] = f"{name}.attention.x8" if own else f"{before}.x8"
            self._names[layer.o] = f"{name}.context"
            self._names[layer.gate or layer.up] = (
                f"{name}.ffn.x8" if pre else f"{name}.attention.x8"
            )
            self._names[layer.down] = f"{name}.ffn.hidden"
            before = f"{name}.ffn"
        if self.projection is not None:
            self._names[self.projection] = "embedding.x8"
        for j, head in enumerate(self.head):
            self._names[head] = f"head.{j - 1}" if j else "pooled"
        if self.head_norm is not None:
            self._names[self.in_stream] = f"head.{len(self.head) - 2}"
            self._names[self.head[-1]] = "head.x8"

    def _accumulate(self, x8: np.ndarray, layer: FastLinear) -> np.ndarray:
        name = self._names.get(layer)
        if name is None:  # up of a gate: it reads what the gate read
            return super()._accumulate(x8, layer)
        high = x8[0] if x8.ndim == 3 else x8
        if len(high) > len(self._lengths):
            longest = max(self._lengths)
            kept = np.arange(longest) < np.array(self._lengths)[:, None]
            high = high[kept.ravel()]
        codes = high.astype(np.float32, copy=False)
        self._watch(name, codes - self.products.zero if self.products.zero else codes)
        return super()._accumulate(x8, layer)


class TracedEngine(ShowingEngine):
    """An engine that gives the traces of golden.encoder.run: all names, values and types."""

    def __init__(self, model: Model, products: Products | None = None) -> None:
        super().__init__(model, products)
        self._norms = {self.embedding_norm: "embedding", self.final_norm: "final"}
        self._norms[self.head_norm] = "head"
        self._results = {self.projection: "projection.sum", self.in_stream: "head.sum"}
        self._names = {}
        for i, layer in enumerate(self.layers):
            name = self._names[layer] = f"layer.{i}"
            self._norms |= {layer.norm1: f"{name}.attention", layer.norm2: f"{name}.ffn"}
            self._results |= {layer.o: f"{name}.attention.sum", layer.up: f"{name}.ffn.hidden"}
            self._results[layer.gate] = f"{name}.ffn.gate"
            self._results[layer.down] = f"{name}.ffn.sum"
        self._results |= {layer: f"head.{j}" for j, layer in enumerate(self.head)}

    def trace_batch(
        self,
        ids: Sequence[Integers],
        types: Sequence[Integers | None] | None = None,
        attend: Sequence[Integers | None] | None = None,
    ) -> list[dict[str, np.ndarray]]:
        """The trace of each text; arguments as those of `run_batch`, all texts in one batch."""
        none = [None] * len(ids)
        self._traces: list[dict[str, np.ndarray]] = [{} for _ in ids]
        self._run([check_input(self.model, *x) for x in zip(ids, types or none, attend or none)])
        return self._traces

    def _tokens(self, name: str, rows: np.ndarray) -> None:
        """Record rows of a batch, a row a token, without the padding."""
        by_text = rows.reshape(len(self._traces), -1, rows.shape[-1])
        for trace, x, n in zip(self._traces, by_text, self._lengths, strict=True):
            trace[name] = x[:n].copy()

    def _read_by_head(self, name: str, rows: np.ndarray) -> None:
        """Record what is pooled: a row a text, or without pooling a row a token."""
        if self.model.shape.pooling == "none":
            return self._tokens(name, rows)
        for trace, x in zip(self._traces, rows, strict=True):
            trace[name] = x.copy()

    def _codes(self, x8: np.ndarray) -> np.ndarray:
        """An operand [rows, K] as golden has it: int8, or int16 where it is wide."""
        codes = x8.astype(np.int16) - self.products.zero
        return codes.astype(np.int8) if x8.ndim == 2 else (codes[0] << LOW_BITS) + codes[1]

    def _embed(self, ids: np.ndarray, types: np.ndarray) -> np.ndarray:
        x = super()._embed(ids, types)
        self._tokens("embedding.sum", x)
        return x

    def _normalize(self, z: np.ndarray, norm: FastNorm, x: np.ndarray | None) -> np.ndarray:
        x = self._array("normalised", z.shape, np.int16) if x is None else x
        x8 = super()._normalize(z, norm, x)
        name = self._norms[norm]
        record = self._read_by_head if name == "head" else self._tokens
        record(f"{name}.norm", x)
        record(f"{name}.x8", self._codes(x8))
        return x8

    def _layer(
        self, x: np.ndarray, x8: np.ndarray, layer: FastLayer, attend: np.ndarray, queries: int
    ) -> tuple[np.ndarray, np.ndarray]:
        self._attend = attend
        return super()._layer(x, x8, layer, attend, queries)

    def _attention(
        self, x8: np.ndarray, layer: FastLayer, attend: np.ndarray, queries: int
    ) -> np.ndarray:
        context = super()._attention(x8, layer, attend, queries)
        self._tokens(f"{self._names[layer]}.context", self._codes(context))
        return context

    def _attended(self, layer: FastLayer, qkv: np.ndarray, acc: np.ndarray, p: np.ndarray) -> None:
        name = self._names[layer]
        for key, codes in zip("qkv", np.split(qkv.astype(np.int8), self._of_q_k_v, 1), strict=True):
            self._tokens(f"{name}.{key}", codes)
        for i, (trace, n) in enumerate(zip(self._traces, self._lengths, strict=True)):
            products = acc[i, :, :n, :n].astype(np.float64)
            scores = np.floor(products * layer.score_factor + 0.5).clip(-32768, 32767)
            scores = scores.astype(np.int16)
            if self.position_bias.size:
                scores = add_position_bias(scores, self.position_bias)
            trace[f"{name}.scores"] = scores
            valid = self._attend[i, :n] & in_window(layer.window, n)
            trace[f"{name}.max"] = np.max(scores, axis=-1, where=valid, initial=-32768)
            trace[f"{name}.p"] = weights = p[i, :, :n, :n].astype(np.uint8)
            trace[f"{name}.sum"] = total = weights.sum(axis=-1, dtype=np.int32)
            trace[f"{name}.row_m"], trace[f"{name}.row_s"] = row_scale(total, *layer.context)

    def _linear(self, x8: np.ndarray, layer: FastLinear, name: str) -> np.ndarray:
        y = super()._linear(x8, layer, name)
        result = self._results[layer]
        record = self._read_by_head if result.startswith("head.") else self._tokens
        record(result, self._codes(y))
        return y

    def _gate(self, middle: np.ndarray, x8: np.ndarray, layer: FastLayer) -> None:
        super()._gate(middle, x8, layer)
        self._tokens(self._results[layer.up], self._codes(middle))

    def _residual(self, x8: np.ndarray, layer: FastLinear, x: np.ndarray, shift: int) -> None:
        super()._residual(x8, layer, x, shift)
        name = self._results[layer]
        record = self._read_by_head if name == "head.sum" else self._tokens
        record(name, x)

    def _pooled(self, y: np.ndarray) -> None:
        self._read_by_head("pooled", self._codes(y))

    def _head(self, y: np.ndarray) -> np.ndarray:
        logits = super()._head(y)
        self._read_by_head("logits", logits)
        return logits
