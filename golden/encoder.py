"""The whole encoder: token ids to logits."""

from collections.abc import Sequence

import numpy as np

from golden.attention import attention
from golden.embedding import embed
from golden.errors import UserError
from golden.layernorm import layernorm
from golden.linear import (
    accumulate,
    gated,
    high_half,
    in_stream,
    linear,
    linear16,
    operand,
    residual,
    wide_operand,
)
from golden.matmul import matmul
from golden.model import FeedForward, Linear, Model, Norm
from golden.requantize import requantize
from golden.softmax import row_scale
from golden.trace import Show, Trace, unseen

Integers = np.ndarray | Sequence[int]

PROJECTION_SHIFT = 15
"""Of X16 before what takes its place is added, a projection or the head's codes: of the stream
before it remains -1, 0 or 1."""


def run(
    model: Model,
    ids: Integers,
    types: Integers | None = None,
    attend: Integers | None = None,
    trace: Trace = None,
) -> np.ndarray:
    """Logits of one text, int32 [labels]; without pooling those of every token, [L, labels].

    ids [L] token ids, types [L] segment ids (default all 0), attend [L] 1 for tokens that serve as
    keys and 0 for masked ones (default all 1; holes are allowed). A dict given as trace receives
    every named intermediate. ValueError names a bad length, id, type or mask.
    """
    ids, types, attend = check_input(model, ids, types, attend)
    show = unseen if trace is None else trace.__setitem__
    return walk(Ops(), model, ids, types, attend, show)


def run_batch(
    model: Model,
    ids: Integers,
    types: Integers | None,
    attend: Integers | None,
    lengths: Sequence[int],
    traces: list[dict[str, np.ndarray]] | None = None,
) -> np.ndarray:
    """Logits of several texts that share one inference, int32 [texts, labels].

    Without pooling they are those of all tokens, text by text: int32 [tokens, labels].

    A batch is its texts one by one, bit for bit: ids, types and attend hold them one after the
    other, `lengths` the tokens of each. A list given as traces receives the intermediates of each.
    ValueError: as `run`; or the lengths are not those of the texts.
    """
    ids = np.asarray(ids)
    types = np.zeros_like(ids) if types is None else np.asarray(types)
    attend = np.ones_like(ids) if attend is None else np.asarray(attend)
    sizes = len(ids), len(types), len(attend)
    if min(lengths, default=0) < 1 or {sum(lengths)} != set(sizes):
        raise UserError(
            f"lengths are {list(lengths)}; allowed 1 and more each, as many together as ids, types "
            f"and attend have: {sizes[0]}, {sizes[1]} and {sizes[2]}"
        )
    logits, first = [], 0
    for length in lengths:
        part = slice(first, first + length)
        first += length
        trace: dict[str, np.ndarray] = {}
        logits.append(run(model, ids[part], types[part], attend[part], trace))
        if traces is not None:
            traces.append(trace)
    return np.vstack(logits)


class Ops:
    """The operations of the walk by the plain functions, on one text: the specification.

    Arrays are those of one text, [L, H], or have axes before these: the walk indexes none of them.
    """

    def embed(self, ids: np.ndarray, types: np.ndarray, model: Model) -> np.ndarray:
        """The stream x, int16 [L, H]."""
        return embed(ids, types, model.embedding, model.shape.position_offset)

    def norm(self, z: np.ndarray, norm: Norm) -> tuple[np.ndarray, np.ndarray]:
        """LayerNorm of z, int16 [L, H], and the operand x8 made of it."""
        x = layernorm(z, norm)
        return x, wide_operand(x) if norm.wide else operand(x, norm.operand_shifts)

    def linear(self, x8: np.ndarray, layer: Linear) -> np.ndarray:
        """An operand."""
        return linear(x8, layer)

    def gate(self, gate: np.ndarray, x8: np.ndarray, ffn: FeedForward) -> np.ndarray:
        """The hidden operand of a gated network, by the gate's codes; these may be overwritten."""
        assert ffn.gate_shift is not None
        return gated(gate, linear16(x8, ffn.up), ffn.gate_shift)

    def residual(self, x: np.ndarray, x8: np.ndarray, layer: Linear, shift: int) -> np.ndarray:
        """The sum, int16 [L, H]; x may be overwritten."""
        return residual(x, x8, layer, shift)

    def attention(
        self, x8: np.ndarray, model: Model, i: int, attend: np.ndarray, queries: int, show: Show
    ) -> np.ndarray:
        """The context of the first queries, an operand; what leads to it is shown."""
        return attention(x8, model, i, attend, show)[:queries]

    def pool(self, x8: np.ndarray, attend: np.ndarray, model: Model) -> np.ndarray:
        """The operand of the head, by the model's pooling.

        "first": token 0, int8 [H]. "none": every token, masked ones too, int8 [L, H]. "mean": the
        mean over the valid tokens, which is attention of one query with equal scores, int8 [H]; of
        a wide operand that of the high halves.
        """
        if model.shape.pooling != "mean":
            return x8[..., 0, :] if model.shape.pooling == "first" else x8
        if model.mean_m is None or model.mean_s is None:
            raise UserError("the model has no mean_m and mean_s; its pooling is 'mean'")
        p = np.where(attend, 255, 0).astype(np.uint8)
        row_m, row_s = row_scale(p.sum(dtype=np.int32), model.mean_m, model.mean_s)
        return requantize(matmul(p[None], high_half(x8))[0], row_m, row_s)

    def logits(self, y: np.ndarray, layer: Linear) -> np.ndarray:
        """The accumulators, int32 [labels]."""
        return accumulate(y, layer)


def walk(
    ops: Ops,
    model: Model,
    ids: np.ndarray,
    types: np.ndarray,
    attend: np.ndarray,
    show: Show = unseen,
    whole: bool = True,
) -> np.ndarray:
    """Logits by these operations; every named intermediate goes to show when it is there.

    whole: every token of the last layer is computed, also where the head reads only the first.
    """
    shape = model.shape

    def norm(z: np.ndarray, norm: Norm, name: str) -> tuple[np.ndarray, np.ndarray]:
        x, x8 = ops.norm(z, norm)
        show(f"{name}.norm", x)
        show(f"{name}.x8", x8)
        return x, x8

    def add(x: np.ndarray, x8: np.ndarray, layer: Linear, shift: int, name: str) -> np.ndarray:
        x = ops.residual(x, x8, layer, shift)
        show(f"{name}.sum", x)
        return x

    x = ops.embed(ids, types, model)
    show("embedding.sum", x)
    x8 = x  # which nothing reads without a norm
    if model.embedding.norm is not None:
        x, x8 = norm(x, model.embedding.norm, "embedding")
    if model.projection is not None:
        x8 = x8[..., : model.inputs(0)]
        x = add(x, x8, model.projection, PROJECTION_SHIFT, "projection")

    for i, layer in enumerate(model.layers):
        name, own, ffn = f"layer.{i}", layer.attention, layer.ffn
        # Post-norm, the layer of BERT: x = norm1(x + O(attention(x8))), x = norm2(x + FFN(x8)).
        # Pre-norm: x = x + O(attention(norm1(x))), x = x + FFN(norm2(x)); without norm1 the
        # attention reads x8, the operand of the norm that gave x.
        pre = shape.norm == "pre"
        if pre and layer.norm1 is not None:
            _, x8 = norm(x, layer.norm1, f"{name}.attention")
        queries = ids.shape[-1]
        if not whole and i == shape.layers - 1 and shape.pooling == "first":
            queries, x = 1, x[..., :1, :]
        context = ops.attention(x8, model, i, attend, queries, show)
        show(f"{name}.context", context)
        x = add(x, context, own.o, own.residual_shift, f"{name}.attention")
        if pre:
            _, x8 = norm(x, layer.norm2, f"{name}.ffn")
        elif layer.norm1 is not None:
            x, x8 = norm(x, layer.norm1, f"{name}.attention")

        # down(table(up(x8))), gated down(table(gate(x8)) * up(x8))
        hidden = ops.linear(x8, ffn.activated)
        if ffn.gate is not None:
            show(f"{name}.ffn.gate", hidden)
            hidden = ops.gate(hidden, x8, ffn)
        show(f"{name}.ffn.hidden", hidden)
        x = add(x, hidden, ffn.down, ffn.residual_shift, f"{name}.ffn")
        if not pre:
            x, x8 = norm(x, layer.norm2, f"{name}.ffn")
    if model.final_norm is not None:
        _, x8 = norm(x, model.final_norm, "final")

    y = ops.pool(x8, attend, model)
    show("pooled", y)
    for j, hidden_layer in enumerate(model.head[:-1]):
        y = ops.linear(y, hidden_layer)
        show(f"head.{j}", y)
    if model.head_norm is not None:
        row = x if shape.pooling == "none" else x[..., 0, :]
        z = add(row, y, in_stream(shape.hidden), PROJECTION_SHIFT, "head")
        _, y = norm(z, model.head_norm, "head")
    logits = ops.logits(y, model.head[-1])
    show("logits", logits)
    return logits


def check_input(
    model: Model, ids: Integers, types: Integers | None, attend: Integers | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ids and types as int64 [L], attend as bool [L]; ValueError where one is not allowed."""
    shape = model.shape
    ids = _integers("ids", ids, None, shape.vocabulary - 1)
    if len(ids) > shape.tokens:
        raise UserError(f"ids has {len(ids)} tokens; allowed 1..{shape.tokens} for this model")
    types = _integers("types", types, len(ids), max(shape.types, 1) - 1)
    attend = _integers("attend", np.ones_like(ids) if attend is None else attend, len(ids), 1)
    if not attend.any():
        raise UserError("attend is 0 for every token; allowed is a mask with one 1 or more")
    return ids, types, attend.astype(bool)


def _integers(name: str, values: Integers | None, length: int | None, high: int) -> np.ndarray:
    if isinstance(values, list | tuple) and all(isinstance(value, int) for value in values):
        # Before NumPy sees them: it makes floats of 2^63 and 1.
        for place, value in enumerate(values):
            if not 0 <= value <= high:
                raise UserError(f"{name}[{place}] is {value}; allowed 0..{high}")
    array = np.zeros(length or 0, np.int64) if values is None else np.asarray(values)
    if array.ndim != 1 or array.size == 0 or (length is not None and len(array) != length):
        allowed = "one or more integers" if length is None else f"{length}, one a token"
        raise UserError(f"{name} has shape {array.shape}; allowed {allowed}")
    if array.dtype.kind not in "iub":
        raise UserError(f"{name} has dtype {array.dtype}; allowed integers")
    bad = np.flatnonzero((array < 0) | (array > high))
    if bad.size:
        raise UserError(f"{name}[{bad[0]}] is {array[bad[0]]}; allowed 0..{high}")
    return array.astype(np.int64)
