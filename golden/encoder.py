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
from golden.model import Layer, Model, Norm
from golden.requantize import requantize
from golden.softmax import row_scale
from golden.trace import Trace, record

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
    shape = model.shape

    x = embed(ids, types, model.embedding, shape.position_offset)
    record(trace, "embedding.sum", x)
    x8 = np.zeros(x.shape, np.int8)
    if model.embedding.norm is not None:
        x, x8 = normalize(x, model.embedding.norm, trace, "embedding")
    if model.projection is not None:
        x8 = x8[:, : model.inputs(0)]
        x = record(trace, "projection.sum", residual(x, x8, model.projection, PROJECTION_SHIFT))

    encoder_layer = post_norm_layer if shape.norm == "post" else pre_norm_layer
    for i in range(shape.layers):
        x, x8 = encoder_layer(x, x8, model, i, attend, trace)
    if model.final_norm is not None:
        _, x8 = normalize(x, model.final_norm, trace, "final")

    y = record(trace, "pooled", pool(x8, attend, model))
    for j, hidden in enumerate(model.head[:-1]):
        y = record(trace, f"head.{j}", linear(y, hidden))
    if model.head_norm is not None:
        row = x if shape.pooling == "none" else x[0]
        z = residual(row, y, in_stream(shape.hidden), PROJECTION_SHIFT)
        _, y = normalize(record(trace, "head.sum", z), model.head_norm, trace, "head")
    return record(trace, "logits", accumulate(y, model.head[-1]))


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
        trace: Trace = None if traces is None else {}
        logits.append(run(model, ids[part], types[part], attend[part], trace))
        if traces is not None and trace is not None:
            traces.append(trace)
    return np.vstack(logits)


def normalize(z: np.ndarray, norm: Norm, trace: Trace, name: str) -> tuple[np.ndarray, np.ndarray]:
    """LayerNorm and the operand made of it, recorded as name.norm and name.x8."""
    x = record(trace, f"{name}.norm", layernorm(z, norm))
    x8 = wide_operand(x) if norm.wide else operand(x, norm.operand_shifts)
    return x, record(trace, f"{name}.x8", x8)


def post_norm_layer(
    x: np.ndarray, x8: np.ndarray, model: Model, i: int, attend: np.ndarray, trace: Trace
) -> tuple[np.ndarray, np.ndarray]:
    """x = norm1(x + O(attention(x8))), x = norm2(x + FFN(x8)): the layer of BERT."""
    layer, name = model.layers[i], f"layer.{i}"
    assert layer.norm1 is not None
    context = layer_attention(x8, model, i, attend, trace)
    z = residual(x, context, layer.attention.o, layer.attention.residual_shift)
    record(trace, f"{name}.attention.sum", z)
    x, x8 = normalize(z, layer.norm1, trace, f"{name}.attention")

    z = feed_forward(x, x8, layer, trace, name)
    return normalize(z, layer.norm2, trace, f"{name}.ffn")


def pre_norm_layer(
    x: np.ndarray, x8: np.ndarray, model: Model, i: int, attend: np.ndarray, trace: Trace
) -> tuple[np.ndarray, np.ndarray]:
    """x = x + O(attention(norm1(x))), x = x + FFN(norm2(x)); the norms leave x as it is.

    Without norm1 the attention reads x8, the operand of the norm that gave x.
    """
    layer, name = model.layers[i], f"layer.{i}"
    if layer.norm1 is not None:
        _, x8 = normalize(x, layer.norm1, trace, f"{name}.attention")
    context = layer_attention(x8, model, i, attend, trace)
    x = residual(x, context, layer.attention.o, layer.attention.residual_shift)
    record(trace, f"{name}.attention.sum", x)

    _, x8 = normalize(x, layer.norm2, trace, f"{name}.ffn")
    return feed_forward(x, x8, layer, trace, name), x8


def layer_attention(
    x8: np.ndarray, model: Model, i: int, attend: np.ndarray, trace: Trace
) -> np.ndarray:
    """The context of layer i, int8 [L, heads * d], see `golden.attention`."""
    layer, shape = model.layers[i], model.shape
    return attention(
        x8,
        layer.attention,
        shape.heads,
        attend,
        trace,
        f"layer.{i}",
        model.position_bias,
        layer.window,
        model.rotary_of(i),
        shape.kv_heads,
    )


def feed_forward(
    x: np.ndarray, x8: np.ndarray, layer: Layer, trace: Trace, name: str
) -> np.ndarray:
    """z = x + down(table(up(x8))), gated z = x + down(table(gate(x8)) * up(x8)), int16 [L, H]."""
    ffn = layer.ffn
    hidden = linear(x8, ffn.activated)
    if ffn.gate_shift is not None:
        record(trace, f"{name}.ffn.gate", hidden)
        hidden = gated(hidden, linear16(x8, ffn.up), ffn.gate_shift)
    record(trace, f"{name}.ffn.hidden", hidden)
    z = residual(x, hidden, layer.ffn.down, layer.ffn.residual_shift)
    return record(trace, f"{name}.ffn.sum", z)


def pool(x8: np.ndarray, attend: np.ndarray, model: Model) -> np.ndarray:
    """What the head reads, by the model's pooling.

    "first": token 0, int8 [H]. "none": every token, masked ones too, int8 [L, H]. "mean": the mean
    over the valid tokens, which is attention of one query with equal scores, int8 [H]; of a wide
    operand that of the high halves.
    """
    if model.shape.pooling != "mean":
        return x8[0] if model.shape.pooling == "first" else x8
    if model.mean_m is None or model.mean_s is None:
        raise UserError("the model has no mean_m and mean_s; its pooling is 'mean'")
    p = np.where(attend, 255, 0).astype(np.uint8)
    row_m, row_s = row_scale(p.sum(dtype=np.int32), model.mean_m, model.mean_s)
    return requantize(matmul(p[None], high_half(x8))[0], row_m, row_s)


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
