"""From a checkpoint and what calibration observed to the integer model of golden/.

Every choice that docs/numerics.md leaves to calibration is made here: scales, multipliers, tables,
shifts of the residual additions; and every bound that it asks calibration to prove is checked, so a
model that cannot keep one is refused with the tensor's name.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import floor, log2, sqrt
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from golden import model as golden
from golden import rotary
from golden.linear import LOW_BITS
from golden.model import Linear, Model, Norm
from quant.foreign.checkpoint import Checkpoint
from quant.model.distance import BIAS
from quant.model.spec import MULTI_LABEL, REGRESSION, TABLE, EncoderSpec, Floats
from quant.quantize import quantizers, rounding
from quant.quantize.observers import Observer, activation_clipping_point
from quant.quantize.options import Options, idle
from quant.quantize.quantizers import CalibrationError, Tables, named, normalise
from quant.quantize.rewriting import Rewritten
from quant.quantize.rounding import Moments
from quant.quantize.splitting import Split, padded, split

HEADROOM = 1.25  # residual sums may exceed what calibration saw by this much before they saturate


Own: TypeAlias = tuple[Floats, Floats] | None
"""A weight and bias in place of a layer's."""


@dataclass(frozen=True)
class Operand:
    """What a linear layer reads: code * scale is x, whose channels have these means.

    name: of the codes in the trace. factors: channel c of x stands for factors[c] * x, which the
    reader's weights take up.
    """

    name: str
    scale: float
    means: NDArray[np.floating[Any]]
    factors: NDArray[np.floating[Any]] | None = None


@dataclass(frozen=True)
class Quantized:
    """The integer model and its description, or the part of it that quantization knows."""

    model: Model
    info: dict[str, Any]

    @property
    def logit_scale(self) -> quantizers.Values:
        """An output of the float model is about this times the integer one: a number, or [C]."""
        return quantizers.scale(self.info["tensors"]["logits"])


Q = TypeVar("Q", bound=Quantized)


def quantize(
    spec: EncoderSpec,
    arrays: Mapping[str, Floats] | Rewritten,
    observers: Mapping[str, Observer],
    options: Options,
    watch: Callable[[Model], Mapping[str, Moments]] | None = None,
    splits: dict[str, Split] | None = None,
) -> Quantized:
    """The integer twin of a float encoder. Raises CalibrationError naming the tensor that fails.

    ``observers`` saw ``arrays``: where the options ask for centring or balancing, the rewritten
    encoder, which `calibrate` makes first. ``watch``, which `round` needs, gives the moments of the
    operands of a model whose weights are rounded to nearest (quant.quantize.rounding). ``splits``
    keeps what `split` found for each layer: no other remedy changes it.
    """
    rewritten = arrays if isinstance(arrays, Rewritten) else Rewritten(arrays)
    quantizer = _Quantizer(spec, rewritten, observers, options, {} if splits is None else splits)
    quantized = quantizer.quantized({})
    if "round" not in quantizer.remedies:
        return quantized
    assert watch is not None
    moments = dict(watch(quantized.model))
    del quantized  # as much memory as its parameters
    return quantizer.quantized(moments)


def with_tokens(quantized: Q, table: Floats) -> Q:
    """The same model with another table of tokens [V, H].

    What reaches further than its own is cut off: only of rows that are given, which may be any.
    """
    model, format = quantized.model, quantized.info["tensors"]["embedding.token"]
    embedding = model.embedding
    factor = 0 if embedding.token_low is None else embedding.token_factor
    token, low = quantizers.table_codes(table, format["scale"], factor)
    embedding = replace(embedding, token=token, token_low=low)
    shape = replace(model.shape, vocabulary=len(table))
    return replace(quantized, model=replace(model, shape=shape, embedding=embedding))


def correct_logits(
    quantized: Quantized, logits: NDArray[np.integer[Any]], exact: NDArray[np.floating[Any]]
) -> Quantized:
    """The same model without its mean logit error, which moves into the classifier's bias.

    logits: its integer logits [n, C] on some texts; exact: the float model's on the same. Only the
    whole integer model shows this error; other biases follow from the mean of what they read.
    """
    model, wrong = quantized.model, logits - exact / quantized.logit_scale
    error = quantizers.rounded(wrong.mean(axis=0)).astype(np.int32)
    last = model.head[-1]
    name = f"head.{len(model.head) - 1}"
    corrected = named(name, Linear, weight=last.weight, bias=last.bias - error)
    weight = np.abs(last.weight.astype(np.int64)).sum(axis=1)
    bound = int((128 * weight + np.abs(corrected.bias)).max())
    proof = quantized.info["proof"] | {name: {"bound": bound, "limit": 2**31}}
    info = quantized.info | {"proof": proof, "logit_correction": (-error).tolist()}
    return Quantized(replace(model, head=(*model.head[:-1], corrected)), info)


class _Quantizer:
    """Walks the encoder in order, the scale of the running residual stream at hand."""

    def __init__(
        self,
        spec: EncoderSpec,
        rewritten: Rewritten,
        observers: Mapping[str, Observer],
        options: Options,
        splits: dict[str, Split],
    ) -> None:
        self.spec, self.options, self.rewritten = spec, options, rewritten
        self.arrays, self.observers = rewritten.arrays, observers
        self.remedies = options.remedies or ()
        self.factors: dict[str, NDArray[np.floating[Any]]] = {}  # by the operand's norm
        self.last_norm = "final" if spec.norm == "pre" else f"layer.{spec.layers - 1}.ffn"
        self.tensors: dict[str, dict[str, Any]] = {}  # the description, in the order of computation
        self.weights: dict[str, dict[str, Any]] = {}
        self.proof: dict[str, dict[str, Any]] = {}
        self.moments: dict[str, Moments] = {}  # by the name of the operand
        self.narrow: Operand | None = None  # a factorised embedding, before its projection
        split_up = "split" in self.remedies and "split" not in idle(spec)
        names = [f"layer.{i}.ffn" for i in range(spec.layers if split_up else 0)]
        for name in names:
            if name not in splits:
                observer, weight = observers[f"{name}.up"], self.arrays[f"{name}.down.weight"]
                splits[name] = split(observer, weight, spec.activation, options.precise)
        self.splits = {name: splits[name] for name in names}
        # The widest with its copies.
        self.ffn = max((len(codes.sources) for codes in self.splits.values()), default=spec.ffn)

    def quantized(self, moments: dict[str, Moments]) -> Quantized:
        """The model, each layer's weights rounded by the moments of its operand where given.

        Those of a feed-forward layer's hidden codes, the largest, leave ``moments`` after it.
        """
        spec = self.spec
        self.moments = moments
        names = "layers hidden heads head_size vocabulary positions types position_offset norm"
        values = {name: getattr(spec, name) for name in (*names.split(), "embedding_norm")}
        values |= {"ffn": self.ffn, "labels": spec.outputs, "kv_heads": spec.kv_heads or None}
        pooling = "none" if spec.every_token else spec.pooling
        shape = named("shape", golden.Shape, **values, pooling=pooling)
        self._prove("sum of p", 255 * spec.max_tokens, 2**21)
        embedding, stream = self._embedding()
        projection = None
        if spec.embedding_size:
            whole, size = self._operand("embedding.norm", 256 * stream), spec.embedding_size
            factors = None if whole.factors is None else whole.factors[:size]
            self.narrow = replace(whole, means=whole.means[:size], factors=factors)
            stream = HEADROOM * self.observers["projection.sum"].amplitude / 32767
            self._tensor("projection.sum", stream, 16)
            projection = self._linear("embedding.projection", self.narrow, stream)
        layers = []
        for i in range(spec.layers):
            layer, stream = self._layer(i, stream)
            layers.append(layer)
        final = None
        if spec.norm == "pre":
            final, stream = self._norm("final", "final.norm", stream)
        mean: tuple[int | None, int | None] = None, None
        pooled, wide = 256 * stream, self._wide(self.last_norm)
        if spec.pooling == "mean":
            scale = self._point("pooled") / 127
            mean, pooled = self._row_multiplier("pooled", pooled / scale), scale
            self._prove("pooled", 128 * 255 * spec.max_tokens, 2**31)
        self._describe_operand("pooled", pooled, wide)
        if f"{self.last_norm}.norm" in self.factors:
            self.factors["pooled"] = self.factors[f"{self.last_norm}.norm"]
            self._multiply("pooled", self.factors["pooled"])
        head, head_norm = self._head(self._operand("pooled", pooled))
        parts = (shape, embedding, tuple(layers), final, *mean, head, projection)
        bias = None
        if spec.position_bias:
            self.tensors[BIAS] = {"scale": 1 / quantizers.SCORE_UNIT, "bits": 16}
            bias = quantizers.position_bias(self.arrays[BIAS])
        turns = []
        for j in range(spec.tables):
            pair = np.array([self.arrays[f"rotary.{j}.{part}"] for part in ("cos", "sin")])
            codes = quantizers.rounded(pair * golden.ROTARY_ONE).astype(np.int16)
            turns.append(named(f"rotary.{j}", golden.Rotary, *codes))
        model = named("model", Model, *parts, bias, tuple(turns) or None, head_norm)
        info = {"tensors": self.tensors, "weights": self.weights, "proof": self.proof}
        return Quantized(model, info)

    def _prove(self, name: str, bound: int, limit: int) -> None:
        """Record a bound; CalibrationError unless it lies below the limit."""
        if bound >= limit:
            raise CalibrationError(f"{name} may reach {bound}: the contract allows below {limit}")
        self.proof[name] = {"bound": bound, "limit": limit}

    def _tensor(self, name: str, scale: float, bits: int, **more: Any) -> None:
        """The format of a tensor of the trace, which quant.quantize.quantizers reads."""
        values: dict[str, Any] = {"scale": float(scale), "bits": bits}
        if frame := self.rewritten.frames.get(name):
            values |= {"factors": frame.factors.tolist(), "centres": frame.centres.tolist()}
        if name in self.rewritten.row_constants:
            values["row_constant"] = True
        self.tensors[name] = values | more

    def _multiply(self, name: str, factors: Floats) -> None:
        """Channel c of a tensor stands for factors[c] times what was said of it."""
        values = self.tensors[name]
        values["factors"] = (np.array(values.get("factors", 1.0)) * factors).tolist()
        values.setdefault("centres", [0.0] * len(factors))

    def _parameters(self, name: str) -> tuple[Floats, Floats]:
        return self.arrays[f"{name}.weight"], self.arrays[f"{name}.bias"]

    def _point(self, name: str) -> float:
        return self.observers[name].amplitude or 1.0

    def _operand(self, name: str, scale: float) -> Operand:
        """An operand as observed under its name."""
        means = self.observers[name].channel_means
        factors = self.factors.get(name)
        codes = re.sub(r"\.norm$", ".x8", name)
        return Operand(codes, scale, means if factors is None else means / factors, factors)

    def _embedding(self) -> tuple[golden.Embedding, float]:
        """The embedding and the scale of the stream after it (its norm included)."""
        spec = self.spec
        token = self.arrays["embedding.token"]
        position = self.arrays["embedding.position"][None]  # [types or 1, P, H]
        if spec.types:
            position = position + self.arrays["embedding.type"][:, None]
        point, reach = (float(np.abs(table).max()) or 1.0 for table in (token, position))
        wide = "wide" in self.remedies or spec.given
        if spec.given:  # rows of other inputs may reach further; no position reaches anywhere
            point, reach = HEADROOM * point, 0.0
        elif spec.rotary and not position.any():
            reach = 0.0
        a_t, a_p, scale = quantizers.embedding_factors(point, reach, wide)
        norm, stream = None, scale
        self._tensor("embedding.sum", scale, 16)
        tables: dict[str, NDArray[np.int8] | None] = {}
        for name, values, factor in (("token", token, a_t), ("position", position, a_p)):
            step = scale if wide else factor * scale
            codes = quantizers.table_codes(values, step, factor if wide else 0)
            tables |= dict(zip((name, f"{name}_low"), codes, strict=True))
            self.tensors[f"embedding.{name}"] = {"scale": step, "bits": 16 if wide else 8}
        self._prove("embedding.sum", 127 * (a_t + a_p + 2 * wide), 2**15)
        if spec.embedding_norm:
            norm, stream = self._norm("embedding", "embedding.norm", scale)
        factors_of = {"token_factor": a_t, "position_factor": a_p}
        return named("embedding", golden.Embedding, **tables, **factors_of, norm=norm), stream

    def _norm(self, tensor: str, parameters: str, input_scale: float) -> tuple[Norm, float]:
        """LayerNorm and the scale of its int16 output; the int8 operand has 256 times that."""
        name = f"{tensor}.norm"
        scale = self._point(name) / 127 / 256
        gamma, beta = (self.arrays[f"{parameters}.{name}"] for name in ("gamma", "beta"))
        epsilon = self.spec.embedding_epsilon if tensor == "embedding" else self.spec.epsilon
        norm = quantizers.layer_norm(parameters, gamma, beta, epsilon, input_scale, scale)
        norm = named(parameters, replace, norm, rms=self.spec.rms_norm or None)
        self._tensor(name, scale, 16)
        wide = self._wide(tensor)
        self._describe_operand(f"{tensor}.x8", 256 * scale, wide)
        if wide:
            norm = replace(norm, wide=True)
        elif "shift" in self.remedies and not self._averaged(tensor):
            shifts = quantizers.operand_shifts(*self.observers[name].channel_extremes, scale)
            norm = replace(norm, operand_shifts=shifts)
            self.factors[name] = np.exp2(shifts.astype(np.float64) - golden.OPERAND_SHIFTS[1])
            self._multiply(f"{tensor}.x8", self.factors[name])
        return norm, scale

    def _averaged(self, tensor: str) -> bool:
        """The mean over tokens has narrower channels than what it is made of, and its own codes."""
        return self.spec.pooling == "mean" and tensor == self.last_norm

    def _wide(self, tensor: str) -> bool:
        """Whether the operand made of this norm has 16 bits: its readers take two passes."""
        projected = tensor == "embedding" and self.spec.embedding_size > 0
        return self.options.precise and not projected and not self._averaged(tensor)

    def _describe_operand(self, name: str, scale: float, wide: bool, **more: Any) -> None:
        """An operand whose high half, or all of it, has this scale."""
        low = LOW_BITS if wide else 0
        self._tensor(name, scale / 2**low, 8 + low, **more)

    def _linear(
        self,
        name: str,
        operand: Operand,
        output_scale: float | None,
        own: Own = None,
        tables: Tables | None = None,
    ) -> Linear:
        """The layer of this name, or one of its ``own`` weight and bias; logits have no scale."""
        weight, bias = own or self._parameters(name)
        if operand.factors is not None:
            weight = weight * operand.factors
        compared = self.spec.task not in (MULTI_LABEL, REGRESSION)  # with each other: in one scale
        per_channel = not (output_scale is None and compared)
        to_codes = rounding.to_codes(self.moments.get(operand.name))
        more = (operand.scale, output_scale, tables, operand.means, per_channel, to_codes)
        result, scales, bound = quantizers.linear(name, weight, bias, *more)
        self.weights[name] = {"input_scale": operand.scale, "scales": scales.tolist()}
        self._prove(name, bound, 2**31)
        return result

    def _activated(
        self, name: str, operand: Operand, activation: str, wide: bool
    ) -> tuple[Linear, Operand]:
        """A linear layer with its activation table, and the operand that the table gives."""
        before, after = f"{name}.linear", name
        if name.endswith(".up"):
            before, after = name, f"{name.removesuffix('up')}hidden"
        point = activation_clipping_point(self.observers[before], activation)
        tables, scale = quantizers.activation_table(activation, point, wide)
        layer = self._linear(name, operand, point / 127, tables=tables)
        self._tensor(before, point / 127, 8)
        self._describe_operand(after, scale, wide, activation=activation)
        return layer, self._operand(after, scale)

    def _layer(self, number: int, stream: float) -> tuple[golden.Layer, float]:
        """One layer. ``stream`` is the scale of the int16 residual stream before and after it."""
        spec, name, pre = self.spec, f"layer.{number}", self.spec.norm == "pre"
        norm1: Norm | None = None
        inputs, scale = f"layer.{number - 1}.ffn.norm" if number else "embedding.norm", stream
        if pre and (number or spec.first_norm):
            norm1, scale = self._norm(f"{name}.attention", f"{name}.norm1", stream)
            inputs = f"{name}.attention.norm"
        attention, stream = self._attention(name, self._operand(inputs, 256 * scale), stream)
        inputs = f"{name}.ffn.norm" if pre else f"{name}.attention.norm"
        if pre:
            norm2, scale = self._norm(f"{name}.ffn", f"{name}.norm2", stream)
        else:
            norm1, scale = self._norm(f"{name}.attention", f"{name}.norm1", stream)
            stream = scale
        ffn, stream = self._feed_forward(f"{name}.ffn", self._operand(inputs, 256 * scale), stream)
        self.moments.pop(f"{name}.ffn.hidden", None)
        if not pre:
            norm2, stream = self._norm(f"{name}.ffn", f"{name}.norm2", stream)
        layer = golden.Layer(attention, ffn, norm1, norm2, spec.window(number), spec.table(number))
        return layer, stream

    def _feed_forward(
        self, name: str, operand: Operand, stream: float
    ) -> tuple[golden.FeedForward, float]:
        gate = shift = own = None
        if self.spec.gated:
            gate, shift, up, hidden = self._gated(name, operand)
        elif name in self.splits:
            up, hidden, own = self._copied(name, operand)
        else:
            activation, wide = self.spec.activation, self.options.precise
            up, hidden = self._activated(f"{name}.up", operand, activation, wide)
        down, moved, stream = self._residual(f"{name}.down", hidden, f"{name}.sum", stream, own)
        return named(name, golden.FeedForward, up, down, moved, gate, shift), stream

    def _gated(self, name: str, operand: Operand) -> tuple[Linear, int, Linear, Operand]:
        """The gate and its shift, and up with a scale with which neither it nor the product ends.

        The product has its own scale where shifts from 1 on allow it; where up is small wherever
        the gate is large, the scale that shift 1 gives.
        """
        activation, wide = self.spec.activation, self.options.precise
        gate, activated = self._activated(f"{name}.gate", operand, activation, wide)
        least = HEADROOM * (self.observers[f"{name}.up"].amplitude or 1.0) / 32767
        scale = self._point(f"{name}.hidden") / 127
        shift = floor(log2(scale / (activated.scale * least)))
        shift = max(1, min(shift, golden.GATE_SHIFT_MAX))
        up_scale = max(least, scale / (activated.scale * 2.0**shift))
        scale = activated.scale * up_scale * 2.0**shift
        up = self._linear(f"{name}.up", operand, up_scale)
        self._tensor(f"{name}.up", up_scale, 16)
        self._describe_operand(f"{name}.hidden", scale, wide)
        return gate, shift, up, self._operand(f"{name}.hidden", scale)

    def _copied(self, name: str, operand: Operand) -> tuple[Linear, Operand, Any]:
        """Up and its operand with the codes of `splitting`, and the weight and bias of down: copies
        and padding are neurons as any other."""
        codes, wide = self.splits[name], self.options.precise
        own = codes.up(*self._parameters(f"{name}.up"), self.ffn)
        up = self._linear(f"{name}.up", operand, codes.input_scale, own, codes.tables)
        self._tensor(f"{name}.up", codes.input_scale, 8, centre=codes.input_centre)
        more: dict[str, Any] = {"activation": self.spec.activation, "centre": codes.output_zero}
        more["copies"] = codes.copies.tolist()
        self._describe_operand(f"{name}.hidden", codes.output_scale, wide, **more)
        weight, bias = self._parameters(f"{name}.down")
        own = codes.down(weight, bias + weight @ codes.errors, self.ffn)
        means = padded(codes.means, self.ffn)
        return up, Operand(f"{name}.hidden", codes.output_scale, means), own

    def _attention(
        self, name: str, operand: Operand, stream: float
    ) -> tuple[golden.Attention, float]:
        spec, scales, projections = self.spec, {}, []
        turned = spec.table(int(name.split(".")[1])) is not None
        for key in "qkv":
            point, step = self._point(f"{name}.{key}"), 1.0
            if turned and key != "v":
                step = 2.0**-rotary.FRACTION
                before = self.observers[f"{name}.{key}.linear"].amplitude
                point = max(point, before * 127 / 32767 / step)
            scales[key] = point / 127
            projections.append(self._attended(f"{name}.{key}", operand, scales[key] * step))
            self._tensor(f"{name}.{key}", scales[key], 8)
        observer = self.observers[f"{name}.scores"]
        quantizers.require_softmax(f"{name}.scores", observer.softmax_error)
        factor = scales["q"] * scales["k"] / sqrt(spec.head_size) * quantizers.SCORE_UNIT
        score = (int(x) for x in normalise(f"{name}.scores", factor))
        self._prove(f"{name}.scores", spec.head_size * 2**14, 2**31)
        ended = observer.amplitude > quantizers.SCORE_LIMIT or spec.position_bias
        depth = {"depth": quantizers.SCORE_DEPTH / quantizers.SCORE_UNIT} if ended else {}
        self._tensor(f"{name}.scores", 1 / quantizers.SCORE_UNIT, 16, **depth)
        context = self._point(f"{name}.context") / 127
        multipliers = (*score, *self._row_multiplier(f"{name}.context", scales["v"] / context))
        self._prove(f"{name}.context", 128 * 255 * spec.max_tokens, 2**31)
        self._tensor(f"{name}.context", context, 8)
        read, total = self._operand(f"{name}.context", context), f"{name}.attention.sum"
        o, shift, stream = self._residual(f"{name}.o", read, total, stream)
        return named(name, golden.Attention, *projections, o, *multipliers, shift), stream

    def _attended(self, name: str, operand: Operand, scale: float) -> Linear:
        """Q, K or V; those of layer 0 take in the projection of a factorised embedding."""
        if self.narrow is None or not name.startswith("layer.0."):
            return self._linear(name, operand, scale)
        weight, bias = self._parameters(name)
        inner, moved = self._parameters("embedding.projection")
        return self._linear(name, self.narrow, scale, (weight @ inner, weight @ moved + bias))

    def _residual(
        self, name: str, operand: Operand, total: str, stream: float, own: Own = None
    ) -> tuple[Linear, int, float]:
        """A layer that adds to the stream: the least shift k whose range holds the sum."""
        needed = HEADROOM * self.observers[total].amplitude / 32767
        shift = next(k for k in count() if not stream * 2**k < needed)
        scale = stream * 2**shift
        self._tensor(total, scale, 16, shift=shift)
        return self._linear(name, operand, scale, own), shift, scale

    def _row_multiplier(self, name: str, factor: float) -> tuple[int, int]:
        """(m, s) for a product with the reciprocal of a sum of p: 1 <= s_row <= 47 always."""
        m, s = (int(x) for x in normalise(name, factor))
        largest = (255 * self.spec.max_tokens).bit_length() - 1
        self._prove(f"{name} shift", s + 16 + largest - 15, quantizers.SHIFT_MAX + 1)
        return m, s

    def _head(self, operand: Operand) -> tuple[tuple[Linear, ...], Norm | None]:
        """The layers, and the norm before the last where there is one: of 128 times its codes."""
        head, norm = [], None
        for j, activation in enumerate(self.spec.head_activations):
            layer, operand = self._activated(f"head.{j}", operand, activation, wide=False)
            head.append(layer)
        if self.spec.head_norm:
            stream = operand.scale / 128
            self._tensor("head.sum", stream, 16)
            norm, stream = self._norm("head", "head.norm", stream)
            operand = self._operand("head.norm", 256 * stream)
        last = f"head.{self.spec.head_layers - 1}"
        head.append(self._linear(last, operand, None))
        scales = operand.scale * np.array(self.weights[last]["scales"])
        self._tensor("logits", scales.max(), 32)
        if scales.min() < scales.max():
            self._multiply("logits", scales / scales.max())
        return tuple(head), norm


class _Ranges(dict[str, Observer]):
    """Made-up ranges, another one for each layer: every layer then has its own activation table."""

    def __init__(self, layers: int) -> None:
        self._layers = layers

    def __missing__(self, name: str) -> Observer:
        found = re.match(r"(layer|head)\.(\d+)", name)
        place = int(found[2]) + (found[1] == "head") * self._layers if found else 0
        observer = Observer()
        observer.observe(np.array([[-1.0], [1.0]]) * (1 + 3 * place / (self._layers + 2)))
        return observer


def stand_in(checkpoint: Checkpoint) -> Model:
    """The integer model of zeros that a calibration without remedies makes, with two tokens.

    Its cycles and sizes are those of the calibrated model: they depend on no integer, apart from
    equal activation tables, which are sent once.
    """
    spec = replace(checkpoint.spec, vocabulary=2)
    arrays = {n: np.broadcast_to(np.float32(0), x.shape) for n, x in checkpoint.arrays.items()}
    arrays[TABLE] = arrays[TABLE][:2]
    return quantize(spec, arrays, _Ranges(spec.layers), Options(remedies=())).model
