"""The float reference: the encoder classifier from scratch in NumPy, reading like the papers.

Vaswani et al., "Attention is all you need" (2017); Devlin et al., "BERT" (2019). One sequence at a
time: ids [L] to logits [C], without pooling to those of every token [L, C]. ``trace``, where given,
receives every intermediate under the name that docs/numerics.md section 9 gives its integer twin,
and some that only exist in float: ``layer.i.ffn.up`` (gated ``layer.i.ffn.gate.linear``) and
``head.j.linear`` before the activation, ``layer.i.probs`` after the softmax, ``layer.i.q.linear``
and ``.k.linear`` before they are turned.

Several texts may come one after the other, with their ``lengths``: matrix products of many rows are
many times faster than those of few. Without padding, each text's numbers are its own.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.model import Window
from golden.window import in_window
from quant.model.activation import ACTIVATIONS
from quant.model.position_bias import BIAS, square
from quant.model.rotary import rotate
from quant.model.spec import Arrays, EncoderSpec, Floats
from quant.model.window import within

Trace = dict[str, Any]
"""Arrays by name; of several texts the scores and probs are lists, an array for each."""


class Doubles(dict[str, Floats]):
    """Arrays that are read as float64, each only while it is used."""

    def __getitem__(self, name: str) -> Floats:
        return super().__getitem__(name).astype(np.float64, copy=False)


def by_text(spec: EncoderSpec, trace: Trace, lengths: Sequence[int]) -> list[Trace]:
    """The trace of several texts as one for each, as `run` gives it of the text alone."""
    ends = np.cumsum(lengths)
    traces: list[Trace] = []
    for i, (n, last) in enumerate(zip(lengths, ends, strict=True)):
        one = {}
        for name, x in trace.items():
            read_by_head = name == "pooled" or name == "logits" or name.startswith("head.")
            whole = isinstance(x, list) or (read_by_head and spec.pooling != "none")
            one[name] = x[i] if whole else x[last - n : last]
        traces.append(one)
    return traces


def softmax(x: Floats) -> Floats:
    """exp(x) / sum exp(x) over the last axis, shifted by the maximum so that nothing overflows."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """gamma (x - mean) / sqrt(var + epsilon) + beta over the last axis (Ba et al., 2016)."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * gamma + beta


def rms_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """gamma x / sqrt(mean(x^2) + epsilon) + beta over the last axis (Zhang and Sennrich, 2019).

    Theirs has no beta: one that is not zero is a rewriting's.
    """
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * gamma + beta


def attention(
    q: Floats, k: Floats, v: Floats, mask: Floats, bias: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """softmax(q k^T / sqrt(d) + bias + mask) v for [heads, L, d]; returns context, scores, probs.

    mask [L], or [L, L] with a row for each query. bias [heads, L, L], where there is one, is a part
    of the scores.
    """
    scores = q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])  # [heads, L, L]
    if bias is not None:
        scores = scores + bias
    probs = softmax(scores + mask)
    return probs @ v, scores, probs


def run(
    spec: EncoderSpec,
    arrays: Arrays,
    ids: NDArray[np.int32],
    types: NDArray[np.int32] | None = None,
    attend: NDArray[np.bool_] | None = None,
    trace: Trace | None = None,
    lengths: Sequence[int] | None = None,
) -> Floats:
    """Logits [C] of one sequence, or [L, C]; types default to 0, every token is attended to.

    Of several texts, which ids, types and attend hold one after the other, [texts, C] or [L, C].
    """
    trace = {} if trace is None else trace
    length = len(ids)
    ends = np.cumsum([length] if lengths is None else lengths)
    texts = [slice(last - n, last) for n, last in zip(np.diff(ends, prepend=0), ends, strict=True)]
    if attend is None:
        attend = np.ones(length, np.bool_)
    mask = np.where(attend, np.float32(0), np.float32(-np.inf))  # [L], added to each row of scores
    masks = {
        window: [
            np.where(in_window(window, len(mask[t])), mask[t], np.float32(-np.inf)) for t in texts
        ]
        for window in set(spec.windows)
    }
    masks[None] = [mask[t] for t in texts]

    relative = arrays[BIAS] if spec.position_bias else None
    biases = [None if relative is None else square(relative, t.stop - t.start) for t in texts]

    def linear(name: str, x: Floats) -> Floats:
        return x @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"]

    normalise = rms_norm if spec.rms_norm else layer_norm

    def norm(name: str, x: Floats, epsilon: float = spec.epsilon) -> Floats:
        return normalise(x, arrays[f"{name}.gamma"], arrays[f"{name}.beta"], epsilon)

    def split_heads(x: Floats) -> Floats:  # [L, groups * d] to [heads, L, d]
        split = x.reshape(len(x), -1, spec.head_size).swapaxes(0, 1)
        return np.tile(split, (spec.heads // len(split), 1, 1))

    places = np.concatenate([np.arange(t.stop - t.start) for t in texts])

    def turned(name: str, x: Floats, table: int | None) -> Floats:
        x = linear(name, x)
        if table is None:
            return x
        trace[f"{name}.linear"] = x
        return rotate(x, *(arrays[f"rotary.{table}.{part}"][places] for part in ("cos", "sin")))

    def attend_to(layer: str, x: Floats, window: Window | None) -> Floats:
        table = spec.table(int(layer.split(".")[1]))
        q, k = (turned(f"{layer}.{name}", x, table) for name in "qk")
        v = linear(f"{layer}.v", x)
        found = [
            attention(split_heads(q[t]), split_heads(k[t]), split_heads(v[t]), mask, bias)
            for t, mask, bias in zip(texts, masks[window], biases, strict=True)
        ]
        contexts, scores, probs = zip(*found, strict=True)
        scores = tuple(within(one, window) for one in scores)
        joined = [x.swapaxes(0, 1).reshape(x.shape[1], -1) for x in contexts]
        context = np.concatenate(joined) if lengths else joined[0]
        trace[f"{layer}.q"], trace[f"{layer}.k"], trace[f"{layer}.v"] = q, k, v
        trace[f"{layer}.scores"] = list(scores) if lengths else scores[0]
        trace[f"{layer}.probs"] = list(probs) if lengths else probs[0]
        trace[f"{layer}.context"] = context
        return linear(f"{layer}.o", context)

    def feed_forward(layer: str, x: Floats) -> Floats:
        up = trace[f"{layer}.ffn.up"] = linear(f"{layer}.ffn.up", x)
        function = ACTIVATIONS[spec.activation].function
        if spec.gated:
            before = trace[f"{layer}.ffn.gate.linear"] = linear(f"{layer}.ffn.gate", x)
            gate = trace[f"{layer}.ffn.gate"] = function(before)
            hidden = gate * up
        else:
            hidden = function(up)
        trace[f"{layer}.ffn.hidden"] = hidden
        return linear(f"{layer}.ffn.down", hidden)

    def post_norm_layer(layer: str, x: Floats, window: Window | None) -> Floats:
        z = trace[f"{layer}.attention.sum"] = x + attend_to(layer, x, window)
        x = trace[f"{layer}.attention.norm"] = norm(f"{layer}.norm1", z)
        z = trace[f"{layer}.ffn.sum"] = x + feed_forward(layer, x)
        x = trace[f"{layer}.ffn.norm"] = norm(f"{layer}.norm2", z)
        return x

    def pre_norm_layer(layer: str, x: Floats, window: Window | None) -> Floats:
        y = x
        if spec.first_norm or layer != "layer.0":
            y = trace[f"{layer}.attention.norm"] = norm(f"{layer}.norm1", x)
        x = trace[f"{layer}.attention.sum"] = x + attend_to(layer, y, window)
        y = trace[f"{layer}.ffn.norm"] = norm(f"{layer}.norm2", x)
        x = trace[f"{layer}.ffn.sum"] = x + feed_forward(layer, y)
        return x

    x = arrays["embedding.token"][ids]  # [L, H]
    x = x + arrays["embedding.position"][spec.position_offset :][places]
    if spec.types:
        x = x + arrays["embedding.type"][np.zeros(length, np.int32) if types is None else types]
    trace["embedding.sum"] = x
    if spec.embedding_norm:
        x = trace["embedding.norm"] = norm("embedding.norm", x, spec.embedding_epsilon)
    if spec.embedding_size:
        x = linear("embedding.projection", x[:, : spec.embedding_size])
        trace["projection.sum"] = x
    for i in range(spec.layers):
        layer = post_norm_layer if spec.norm == "post" else pre_norm_layer
        x = layer(f"layer.{i}", x, spec.window(i))
    if spec.norm == "pre":
        x = trace["final.norm"] = norm("final.norm", x)
    if spec.pooling != "none":
        one = {"first": 0, "last": -1}.get(spec.pooling)
        rows = [x[t][attend[t]].mean(axis=0) if one is None else x[t][one] for t in texts]
        x = np.stack(rows) if lengths else rows[0]
    trace["pooled"] = x
    for j, activation in enumerate(spec.head_activations):
        x = trace[f"head.{j}.linear"] = linear(f"head.{j}", x)
        x = trace[f"head.{j}"] = ACTIVATIONS[activation].function(x)
    if spec.head_norm:
        trace["head.sum"] = x
        x = trace["head.norm"] = norm("head.norm", x)
    logits = linear(f"head.{spec.head_layers - 1}", x)
    trace["logits"] = logits
    return logits
