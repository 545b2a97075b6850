"""The operands of every linear layer of a model on some texts, as the engine sees them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from golden.fast.engine import Engine, FastLayer, FastLinear
from golden.fast.exact import FloatProducts
from golden.model import Model

Watch = Callable[[str, NDArray[np.float32]], None]


class WatchedEngine(Engine):
    """An engine that shows the operand of each layer, before the layer, to ``watch(name, x)``.

    x float32 [rows, K] holds the int8 codes of one text, a row a token, of wide operands the high
    halves; the array is used again after the call. The name is that of the trace, docs/numerics.md
    section 9. Every token of the last layer is computed, also where the head reads only the first.
    """

    def __init__(self, model: Model, watch: Watch) -> None:
        super().__init__(model, FloatProducts())
        self._watch = watch
        self._names = {}
        pre = model.shape.norm == "pre"
        before = "embedding"
        for i, layer in enumerate(self.layers):
            name = f"layer.{i}"
            self._names[layer.qkv] = f"{name}.attention.x8" if pre else f"{before}.x8"
            self._names[layer.o] = f"{name}.context"
            self._names[layer.up] = f"{name}.ffn.x8" if pre else f"{name}.attention.x8"
            self._names[layer.down] = f"{name}.ffn.hidden"
            before = f"{name}.ffn"
        if self.projection is not None:
            self._names[self.projection] = "embedding.x8"
        for j, head in enumerate(self.head):
            self._names[head] = f"head.{j - 1}" if j else "pooled"

    def run_text(self, ids: NDArray[np.int32], types: NDArray[np.int32] | None) -> None:
        """Show the operands of one text, without the padding of a batch."""
        self.run_batch([ids], [types])

    def _layer(
        self, x: np.ndarray, x8: np.ndarray, layer: FastLayer, attend: np.ndarray, queries: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return super()._layer(x, x8, layer, attend, attend.shape[1])

    def _head(self, y: np.ndarray) -> np.ndarray:
        return super()._head(y[..., :1, :] if self.model.shape.pooling == "first" else y)

    def _accumulate(self, x8: np.ndarray, layer: FastLinear) -> np.ndarray:
        self._watch(self._names[layer], x8[0] if x8.ndim == 3 else x8)
        return super()._accumulate(x8, layer)
