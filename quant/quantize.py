"""From a checkpoint and what calibration observed to the integer model of golden/.

Every choice that docs/numerics.md leaves to calibration is made here: scales, multipliers, tables,
shifts of the residual additions; and every bound that it asks calibration to prove is checked, so a
model that cannot keep one is refused with the tensor's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.model import (
    Attention,
    Embedding,
    FeedForward,
    Layer,
    Linear,
    Model,
    Norm,
    Shape,
)
from quant import quantizers
from quant.observers import METHODS, Observer, activation_clipping_point, clipping_point
from quant.quantizers import CalibrationError, normalise
from quant.spec import Arrays, EncoderSpec

LOG2_E = log2(np.e)
SCORE_FRACTION = 8  # fraction bits of the base-2 score
SCORE_LIMIT = 32767 / 2**SCORE_FRACTION / LOG2_E  # the largest score in nats: 88.7
HEADROOM = 1.25  # residual sums may exceed what calibration saw by this much before they saturate


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a calibration. All but ``method`` exist for the ablation table."""

    method: str = "min-max"
    bias_correction: bool = True
    per_channel: bool = True
    multiplier_bits: int = 16

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}: it must be one of {', '.join(METHODS)}")


@dataclass(frozen=True)
class Quantized:
    """The integer model and the part of its description that quantization knows."""

    model: Model
    info: dict[str, Any]


def quantize(
    spec: EncoderSpec, arrays: Arrays, observers: Mapping[str, Observer], options: Options
) -> Quantized:
    """The integer twin of a float encoder. Raises CalibrationError naming the tensor that fails."""
    return _Quantizer(spec, arrays, observers, options).run()


def correct_logits(
    quantized: Quantized, logits: NDArray[np.integer[Any]], exact: NDArray[np.floating[Any]]
) -> Quantized:
    """The same model without its mean logit error, which moves into the classifier's bias.

    logits: its integer logits [n, C] on some texts; exact: the float model's on the same.
    """
    model, scale = quantized.model, quantized.info["tensors"]["logits"]["scale"]
    error = quantizers.rounded((logits - exact / scale).mean(axis=0)).astype(np.int32)
    last = model.head[-1]
    name = f"head.{len(model.head) - 1}"
    corrected = _named(name, Linear, weight=last.weight, bias=last.bias - error)
    weight = np.abs(last.weight.astype(np.int64)).sum(axis=1)
    bound = int((128 * weight + np.abs(corrected.bias)).max())
    info = quantized.info | {
        "proof": quantized.info["proof"] | {name: {"bound": bound, "limit": 2**31}},
        "logit_correction": (-error).tolist(),
    }
    return Quantized(replace(model, head=(*model.head[:-1], corrected)), info)


class _Quantizer:
    """Walks the encoder in order, the scale of the running residual stream at hand."""

    def __init__(
        self,
        spec: EncoderSpec,
        arrays: Arrays,
        observers: Mapping[str, Observer],
        options: Options,
    ) -> None:
        self.spec, self.arrays, self.observers, self.options = spec, arrays, observers, options
        self.tensors: dict[str, dict[str, Any]] = {}
        self.weights: dict[str, dict[str, Any]] = {}
        self.proof: dict[str, dict[str, Any]] = {}

    def run(self) -> Quantized:
        spec = self.spec
        shape = _named("shape", Shape, **self._shape())
        self._prove("sum of p", 255 * spec.max_tokens, 2**20)
        embedding, stream = self._embedding()
        layers = []
        for i in range(spec.layers):
            layer, stream = self._layer(f"layer.{i}", stream)
            layers.append(layer)
        final = None
        if spec.norm == "pre":
            final, stream = self._norm("final", "final.norm", stream)
        mean_m = mean_s = None
        pooled = 256 * stream
        if spec.pooling == "mean":
            scale = self._point("pooled") / 127
            mean_m, mean_s = self._row_multiplier("pooled", pooled / scale)
            pooled = scale
            self._prove("pooled", 128 * 255 * spec.max_tokens, 2**31)
        self._tensor("pooled", pooled, 8)
        head = self._head(pooled)
        model = _named(
            "model",
            Model,
            shape=shape,
            embedding=embedding,
            layers=tuple(layers),
            final_norm=final,
            mean_m=mean_m,
            mean_s=mean_s,
            head=head,
        )
        return Quantized(
            model, {"tensors": self.tensors, "weights": self.weights, "proof": self.proof}
        )

    def _shape(self) -> dict[str, Any]:
        spec = self.spec
        names = ("layers", "hidden", "heads", "head_size", "ffn", "vocabulary", "positions")
        values = {name: getattr(spec, name) for name in names}
        return values | {
            "labels": len(spec.labels),
            "types": spec.types,
            "position_offset": spec.position_offset,
            "norm": spec.norm,
            "embedding_norm": spec.embedding_norm,
            "pooling": spec.pooling,
        }

    def _observer(self, name: str) -> Observer:
        if name not in self.observers:
            raise CalibrationError(f"{name} was not observed: calibrate with this checkpoint")
        return self.observers[name]

    def _point(self, name: str) -> float:
        return clipping_point(self._observer(name), self.options.method)

    def _prove(self, name: str, bound: int, limit: int) -> None:
        if bound >= limit:
            raise CalibrationError(f"{name} may reach {bound}: the contract allows below {limit}")
        self.proof[name] = {"bound": bound, "limit": limit}

    def _tensor(self, name: str, scale: float, bits: int) -> None:
        """Record the format of a tensor of the trace."""
        values: dict[str, Any] = {"scale": float(scale), "bits": bits}
        if name in self.observers:
            observer = self.observers[name]
            values |= {"minimum": observer.minimum, "maximum": observer.maximum}
        self.tensors[name] = values

    def _embedding(self) -> tuple[Embedding, float]:
        """The embedding and the scale of the stream after it (its norm included)."""
        spec = self.spec
        token = self.arrays["embedding.token"]
        position = self.arrays["embedding.position"][None]  # [types or 1, P, H]
        if spec.types:
            position = position + self.arrays["embedding.type"][:, None]
        points = [float(np.abs(table).max()) or 1.0 for table in (token, position)]
        a_t, a_p, scale = quantizers.embedding_factors(*points)
        norm, stream = None, scale
        self._tensor("embedding.sum", scale, 16)
        self.tensors["embedding.token"] = {"scale": a_t * scale, "bits": 8}
        self.tensors["embedding.position"] = {"scale": a_p * scale, "bits": 8}
        self._prove("embedding.sum", 127 * (a_t + a_p), 2**15)
        if spec.embedding_norm:
            norm, stream = self._norm("embedding", "embedding.norm", scale)
        embedding = _named(
            "embedding",
            Embedding,
            token=quantizers.table_codes(token, a_t * scale),
            position=quantizers.table_codes(position, a_p * scale),
            token_factor=a_t,
            position_factor=a_p,
            norm=norm,
        )
        return embedding, stream

    def _norm(self, tensor: str, parameters: str, input_scale: float) -> tuple[Norm, float]:
        """LayerNorm and the scale of its int16 output; the int8 operand has 256 times that."""
        scale = self._point(f"{tensor}.norm") / 127 / 256
        gamma, beta = (self.arrays[f"{parameters}.{name}"] for name in ("gamma", "beta"))
        norm = quantizers.layer_norm(parameters, gamma, beta, self.spec.epsilon, input_scale, scale)
        self._tensor(f"{tensor}.norm", scale, 16)
        self._tensor(f"{tensor}.x8", 256 * scale, 8)
        return norm, scale

    def _linear(
        self, name: str, inputs: str, input_scale: float, output_scale: float | None, **kwargs: Any
    ) -> Linear:
        means = self._observer(inputs).channel_means if self.options.bias_correction else None
        result = quantizers.linear(
            name,
            self.arrays[f"{name}.weight"],
            self.arrays[f"{name}.bias"],
            input_scale,
            output_scale,
            input_means=means,
            per_channel=self.options.per_channel,
            multiplier_bits=self.options.multiplier_bits,
            **kwargs,
        )
        self.weights[name] = {"input_scale": input_scale, "scales": result.weight_scales.tolist()}
        self._prove(name, result.bound, 2**31)
        return result.linear

    def _activated(
        self, name: str, before: str, after: str, inputs: str, input_scale: float, activation: str
    ) -> tuple[Linear, float]:
        """A linear layer with its activation table, and the scale of the table's output."""
        point = activation_clipping_point(self._observer(before), self.options.method, activation)
        table, scale = quantizers.activation_table(activation, point)
        layer = self._linear(name, inputs, input_scale, point / 127, table=table)
        self._tensor(before, point / 127, 8)
        self._tensor(after, scale, 8)
        self.tensors[after]["activation"] = activation
        return layer, scale

    def _layer(self, name: str, stream: float) -> tuple[Layer, float]:
        """One layer. ``stream`` is the scale of the int16 residual stream before and after it."""
        pre = self.spec.norm == "pre"
        if pre:
            norm1, operand = self._norm(f"{name}.attention", f"{name}.norm1", stream)
            inputs = f"{name}.attention.norm"
        else:
            operand = stream
            inputs = self._previous(name)
        attention, stream = self._attention(name, inputs, operand, stream)
        if pre:
            norm2, operand = self._norm(f"{name}.ffn", f"{name}.norm2", stream)
        else:
            norm1, stream = self._norm(f"{name}.attention", f"{name}.norm1", stream)
            operand = stream
        inputs = f"{name}.ffn.norm" if pre else f"{name}.attention.norm"
        up, scale = self._activated(
            f"{name}.ffn.up",
            f"{name}.ffn.up",
            f"{name}.ffn.hidden",
            inputs,
            256 * operand,
            self.spec.activation,
        )
        down, shift, stream = self._residual(
            f"{name}.ffn.down", f"{name}.ffn.hidden", scale, f"{name}.ffn.sum", stream
        )
        if not pre:
            norm2, stream = self._norm(f"{name}.ffn", f"{name}.norm2", stream)
        ffn = _named(f"{name}.ffn", FeedForward, up=up, down=down, residual_shift=shift)
        return Layer(attention, ffn, norm1, norm2), stream

    def _previous(self, layer: str) -> str:
        """The tensor that a post-norm layer reads: the output of the norm before it."""
        i = int(layer.split(".")[1])
        return f"layer.{i - 1}.ffn.norm" if i else "embedding.norm"

    def _attention(
        self, name: str, inputs: str, operand: float, stream: float
    ) -> tuple[Attention, float]:
        spec = self.spec
        scales = {}
        projections = {}
        for key in "qkv":
            scales[key] = self._point(f"{name}.{key}") / 127
            projections[key] = self._linear(f"{name}.{key}", inputs, 256 * operand, scales[key])
            self._tensor(f"{name}.{key}", scales[key], 8)
        largest = self._observer(f"{name}.scores").amplitude
        if largest > SCORE_LIMIT:
            raise CalibrationError(
                f"{name}.scores reach {largest:.1f}: the 16-bit score holds at most "
                f"{SCORE_LIMIT:.1f} in magnitude, so this model's softmax would saturate"
            )
        unit = 2**SCORE_FRACTION * LOG2_E
        factor = scales["q"] * scales["k"] / sqrt(spec.head_size) * unit
        score_m, score_s = (int(x) for x in self._multiplier(f"{name}.scores", factor))
        self._prove(f"{name}.scores", spec.head_size * 2**14, 2**31)
        self._tensor(f"{name}.scores", 1 / unit, 16)
        context = self._point(f"{name}.context") / 127
        context_m, context_s = self._row_multiplier(f"{name}.context", scales["v"] / context)
        self._prove(f"{name}.context", 128 * 255 * spec.max_tokens, 2**31)
        self._tensor(f"{name}.context", context, 8)
        o, shift, stream = self._residual(
            f"{name}.o", f"{name}.context", context, f"{name}.attention.sum", stream
        )
        attention = _named(
            name,
            Attention,
            **projections,
            o=o,
            score_m=score_m,
            score_s=score_s,
            context_m=context_m,
            context_s=context_s,
            residual_shift=shift,
        )
        return attention, stream

    def _residual(
        self, name: str, inputs: str, input_scale: float, total: str, stream: float
    ) -> tuple[Linear, int, float]:
        """A layer that adds to the stream: the least shift k whose range holds the sum."""
        needed = HEADROOM * self._observer(total).amplitude / 32767
        shift = 0
        while stream * 2**shift < needed:
            shift += 1
        scale = stream * 2**shift
        self._tensor(total, scale, 16)
        self.tensors[total]["shift"] = shift
        return self._linear(name, inputs, input_scale, scale), shift, scale

    def _multiplier(self, name: str, factor: float) -> tuple[Any, Any]:
        return normalise(name, factor, self.options.multiplier_bits)

    def _row_multiplier(self, name: str, factor: float) -> tuple[int, int]:
        """(m, s) for a product with the reciprocal of a sum of p: 1 <= s_row <= 47 always."""
        m, s = (int(x) for x in self._multiplier(name, factor))
        largest = (255 * self.spec.max_tokens).bit_length() - 1
        low, high = s + 16 + 7 - 17, s + 16 + largest - 15
        if low < quantizers.SHIFT_MIN or high > quantizers.SHIFT_MAX:
            raise CalibrationError(
                f"{name}: the shift of a row would lie in {low}..{high}: the contract allows 1..47"
            )
        self.proof[f"{name} shift"] = {"bound": high, "limit": quantizers.SHIFT_MAX + 1}
        return m, s

    def _head(self, scale: float) -> tuple[Linear, ...]:
        inputs, head = "pooled", []
        for j, activation in enumerate(self.spec.head_activations):
            layer, scale = self._activated(
                f"head.{j}", f"head.{j}.linear", f"head.{j}", inputs, scale, activation
            )
            head.append(layer)
            inputs = f"head.{j}"
        last = f"head.{self.spec.head_layers - 1}"
        head.append(self._linear(last, inputs, scale, None))
        self._tensor("logits", scale * self.weights[last]["scales"][0], 32)
        return tuple(head)


def _named(name: str, kind: Any, **fields: Any) -> Any:
    """Build one of golden's dataclasses; its refusal gets the tensor's name in front."""
    try:
        return kind(**fields)
    except ValueError as error:
        raise CalibrationError(f"{name}: {error}") from None
