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
from quant.model.distance import BIAS, square, within
from quant.model.rotary import rotate
from quant.model.spec import Arrays, EncoderSpec, Floats

Trace = dict[str, Any]
"""Arrays by name; of several texts the scores and probs are lists, an array for each."""


class Doubles(dict[str, Floats]):
    """Arrays that are read as float64, each only while it is used."""

    def __getitem__(self, name: str) -> Floats:
        return super().__getitem__(name).astype(np.float64, copy=False)


def by_text(spec: EncoderSpec, trace: Trace, lengths: Sequence[int]) -> list[Trace]:
    """The trace of several texts as one for each, as `run` gives it of the text alone."""
    traces: list[Trace] = [{} for _ in lengths]
    for name, x in trace.items():
        read_by_head = spec.pooling != "none" and name.startswith(("pooled", "logits", "head."))
        whole = isinstance(x, list) or read_by_head
        parts = x if whole else np.split(x, np.cumsum(lengths)[:-1])
        for one, part in zip(traces, parts, strict=True):
            one[name] = part
    return traces


def softmax(x: Floats) -> Floats:
    """exp(x) / sum exp(x) over the last axis, shifted by the maximum so that nothing overflows."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float, rms: bool = False) -> Any:
    """gamma (x - mean) / sqrt(var + epsilon) + beta over the last axis (Ba et al., 2016).

    rms: gamma x / sqrt(mean(x^2) + epsilon) + beta (Zhang and Sennrich, 2019). Theirs has no beta:
    one that is not zero is a rewriting's.
    """
    x = x if rms else x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * gamma + beta


def attention(
    q: Floats, k: Floats, v: Floats, window: Window | None = None, bias: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """softmax(q k^T / sqrt(d) + bias) v for [heads, L, d]; returns context, scores, probs.

    bias [heads, L, L], where there is one, is a part of the scores. What a query does not see is
    left out; its scores are given as `within` has them.
    """
    scores = q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])  # [heads, L, L]
    if bias is not None:
        scores = scores + bias
    seen = scores
    if window is not None:
        seen = np.where(in_window(window, scores.shape[-1]), scores, np.float32(-np.inf))
    probs = softmax(seen)
    return probs @ v, within(scores, window), probs


def run(
    spec: EncoderSpec,
    arrays: Arrays,
    ids: NDArray[np.int32],
    types: NDArray[np.int32] | None = None,
    trace: Trace | None = None,
    lengths: Sequence[int] | None = None,
) -> Floats:
    """Logits [C] of one sequence, or [L, C]; types default to 0.

    Of several texts, which ids and types hold one after the other, [texts, C] or [L, C].
    """
    trace, pre = {} if trace is None else trace, spec.norm == "pre"
    ends = np.cumsum([len(ids)] if lengths is None else lengths)
    texts = [slice(last - n, last) for n, last in zip(np.diff(ends, prepend=0), ends, strict=True)]
    places = np.concatenate([np.arange(t.stop - t.start) for t in texts])
    relative = arrays[BIAS] if spec.position_bias else None
    biases = [None if relative is None else square(relative, t.stop - t.start) for t in texts]

    def linear(name: str, x: Floats) -> Floats:
        return x @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"]

    def norm(tensor: str, name: str, x: Floats, epsilon: float = spec.epsilon) -> Floats:
        gamma, beta = arrays[f"{name}.gamma"], arrays[f"{name}.beta"]
        y = trace[f"{tensor}.norm"] = layer_norm(x, gamma, beta, epsilon, spec.rms_norm)
        return y

    def split_heads(x: Floats) -> Floats:  # [L, groups * d] to [heads, L, d]
        split = x.reshape(len(x), -1, spec.head_size).swapaxes(0, 1)
        return np.tile(split, (spec.heads // len(split), 1, 1))

    def turned(name: str, x: Floats, table: int | None) -> Floats:
        x = linear(name, x)
        if table is None:
            return x
        trace[f"{name}.linear"] = x
        return rotate(x, *(arrays[f"rotary.{table}.{part}"][places] for part in ("cos", "sin")))

    def attend(i: int, x: Floats) -> Floats:
        layer, window = f"layer.{i}", spec.window(i)
        q, k = (turned(f"{layer}.{name}", x, spec.table(i)) for name in "qk")
        v = linear(f"{layer}.v", x)
        found = [
            attention(split_heads(q[t]), split_heads(k[t]), split_heads(v[t]), window, bias)
            for t, bias in zip(texts, biases, strict=True)
        ]
        contexts, scores, probs = map(list, zip(*found, strict=True))
        context = np.concatenate([x.swapaxes(0, 1).reshape(x.shape[1], -1) for x in contexts])
        trace[f"{layer}.q"], trace[f"{layer}.k"], trace[f"{layer}.v"] = q, k, v
        trace[f"{layer}.scores"] = scores if lengths else scores[0]
        trace[f"{layer}.probs"] = probs if lengths else probs[0]
        trace[f"{layer}.context"] = context
        return linear(f"{layer}.o", context)

    def feed_forward(layer: str, x: Floats) -> Floats:
        hidden = trace[f"{layer}.ffn.up"] = linear(f"{layer}.ffn.up", x)
        function = ACTIVATIONS[spec.activation]
        if spec.gated:
            before = trace[f"{layer}.ffn.gate.linear"] = linear(f"{layer}.ffn.gate", x)
            gate = trace[f"{layer}.ffn.gate"] = function(before)
            hidden = gate * hidden
        else:
            hidden = function(hidden)
        trace[f"{layer}.ffn.hidden"] = hidden
        return linear(f"{layer}.ffn.down", hidden)

    x = arrays["embedding.token"][ids]  # [L, H]
    x = x + arrays["embedding.position"][spec.position_offset :][places]
    if spec.types:
        x = x + arrays["embedding.type"][np.zeros_like(ids) if types is None else types]
    trace["embedding.sum"] = x
    if spec.embedding_norm:
        x = norm("embedding", "embedding.norm", x, spec.embedding_epsilon)
    if spec.embedding_size:
        x = linear("embedding.projection", x[:, : spec.embedding_size])
        trace["projection.sum"] = x
    for i in range(spec.layers):
        name = f"layer.{i}"
        normed = pre and (i > 0 or spec.first_norm)
        y = norm(f"{name}.attention", f"{name}.norm1", x) if normed else x
        x = trace[f"{name}.attention.sum"] = x + attend(i, y)
        if pre:
            y = norm(f"{name}.ffn", f"{name}.norm2", x)
        else:
            x = y = norm(f"{name}.attention", f"{name}.norm1", x)
        x = trace[f"{name}.ffn.sum"] = x + feed_forward(name, y)
        if not pre:
            x = norm(f"{name}.ffn", f"{name}.norm2", x)
    if pre:
        x = norm("final", "final.norm", x)
    if spec.pooling != "none":
        one = {"first": 0, "last": -1}.get(spec.pooling)
        rows = [x[t].mean(axis=0) if one is None else x[t][one] for t in texts]
        x = np.stack(rows) if lengths else rows[0]
    trace["pooled"] = x
    for j, activation in enumerate(spec.head_activations):
        x = trace[f"head.{j}.linear"] = linear(f"head.{j}", x)
        x = trace[f"head.{j}"] = ACTIVATIONS[activation](x)
    if spec.head_norm:
        trace["head.sum"] = x
        x = norm("head", "head.norm", x)
    logits = trace["logits"] = linear(f"head.{spec.head_layers - 1}", x)
    return logits
