"""How far the integer trace of a text lies from the float one, tensor by tensor."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.attention import split_heads
from golden.matmul import matmul
from golden.model import Model
from golden.requantize import round_shift
from golden.window import in_window
from quant.model.distance import square, within
from quant.model.spec import EncoderSpec, Floats
from quant.quantize.quantizers import lsb, softmax_change, twins

OUTLIER = 8.0


@dataclass
class TensorError:
    """Sums over all elements compared; ``limits`` counts codes at either end of their range.

    A code at the end is a value that saturated, or one that lies just there. ``peaks`` [C] is the
    largest magnitude of each channel of the float tensor, None where the last axis is a length.
    """

    count: int = 0
    limits: int = 0
    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    lsb: float = 1.0
    peaks: NDArray[np.float64] | None = None

    def add(self, exact: Floats, values: np.ndarray, at_limits: int) -> None:
        """Add the values of a text, and those of the float tensor beside them."""
        difference = values - exact
        self.count += exact.size
        self.limits += at_limits
        self.signal += float(np.square(exact, dtype=np.float64).sum())
        self.noise += float(np.square(difference).sum())
        if exact.ndim <= 2:
            peaks = np.abs(exact).reshape(-1, exact.shape[-1]).max(axis=0).astype(np.float64)
            self.peaks = peaks if self.peaks is None else np.maximum(self.peaks, peaks)
        self.largest = max(self.largest, float(np.abs(difference).max()))

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise ratio, 10 log10(sum x^2 / sum (x' - x)^2), in dB."""
        if not self.noise or not self.signal:
            return 200.0 if not self.noise else -200.0
        return 10 * log10(self.signal / self.noise)

    @property
    def share(self) -> float:
        """Of the codes those at their limits."""
        return self.limits / max(self.count, 1)

    def outliers(self) -> list[tuple[int, float]]:
        """The channels that reach OUTLIER times as far as the median one: (channel, times)."""
        if self.peaks is None or not (median := float(np.median(self.peaks))):
            return []
        times = self.peaks / median
        return [(int(c), float(times[c])) for c in np.argsort(-times) if times[c] >= OUTLIER]

    def to_json(self) -> dict[str, Any]:
        return {
            "sqnr_db": round(self.sqnr, 2),
            "largest_error_lsb": round(self.largest / self.lsb, 2),
            "rms_error_lsb": round((self.noise / max(self.count, 1)) ** 0.5 / self.lsb, 3),
            "at_limits": self.limits,
            "outlier_channels": [[channel, round(times, 1)] for channel, times in self.outliers()],
            "values": self.count,
        }


def compare(
    errors: dict[str, TensorError],
    floats: Mapping[str, Floats],
    integers: Mapping[str, np.ndarray],
    tensors: Mapping[str, Mapping[str, Any]],
) -> None:
    """Add one text: every tensor of the integer trace that has a float twin and a known scale.

    The int8 operand x8 is compared with the norm that it rounds, and p / sum with the softmax.
    """
    for name, format in tensors.items():
        twin = name.removesuffix(".x8") + ".norm" if name.endswith(".x8") else name
        if name in integers and twin in floats:
            limit = 1 << (int(format["bits"]) - 1)
            codes = integers[name]
            at_limits = int(np.count_nonzero((codes == limit - 1) | (codes == -limit)))
            values, exact = twins(codes, format, floats[twin])
            errors.setdefault(name, TensorError(lsb=lsb(format))).add(exact, values, at_limits)
    for name in floats:
        if name.endswith(".probs"):
            layer = name.removesuffix(".probs")
            probs = integers[f"{layer}.p"] / integers[f"{layer}.sum"][..., None]
            errors.setdefault(name, TensorError(lsb=1 / 255)).add(floats[name], probs, 0)


def answering(spec: EncoderSpec, integers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The trace of one text with what its answer depends on, as the float model's has it.

    Scores that a window hides are as `within` has them; where the last token is read, it alone has
    what the head makes.
    """
    found = dict(integers)
    for i in range(spec.layers):
        name = f"layer.{i}.scores"
        found[name] = within(integers[name], spec.window(i))
    if spec.pooling == "last":
        heads = [f"head.{j}" for j in range(spec.head_layers - 1)]
        found |= {name: found[name][-1] for name in ("pooled", *heads, "logits")}
    return found


def softmax_errors(
    model: Model, index: int, codes: Mapping[str, np.ndarray]
) -> NDArray[np.float64]:
    """What saturation does to the softmax of layer ``index`` in a trace of golden, [heads, L].

    For each row the total variation that `softmax_change` gives, against scores that do not end at
    16 bits; 0 where none is at an end. Q K^T, the position bias and their sum each end there. A row
    whose largest score has a bias at the lower end counts as wholly wrong.
    """
    layer, name = model.layers[index], f"layer.{index}"
    scores = codes[f"{name}.scores"]
    heads, length, _ = scores.shape
    low, high = -(1 << 15), (1 << 15) - 1
    bias = np.zeros((1, 1, 1), np.int64)
    if model.position_bias is not None:
        bias = square(model.position_bias, length).astype(np.int64)
    product = scores - bias
    lowest = min(product.min(), scores.min(), bias.min())
    if lowest > low and max(product.max(), scores.max()) < high:
        return np.zeros((heads, length))
    groups, m, s = model.shape.kv_heads or heads, layer.attention.score_m, layer.attention.score_s
    q, k = split_heads(codes[f"{name}.q"], heads), split_heads(codes[f"{name}.k"], groups)
    k = np.tile(k, (heads // groups, 1, 1))
    unbounded = -(1 << 30)
    exact = round_shift(matmul(q, k.swapaxes(1, 2)).astype(np.int64) * m, s)
    exact = exact + np.where(bias == low, unbounded, bias)
    seen = in_window(layer.window, length)
    lost = np.where(seen, exact, 2 * unbounded).max(axis=-1) < unbounded // 2
    return np.where(lost, 1.0, softmax_change(exact, scores, seen))


def worst_first(errors: Mapping[str, TensorError]) -> list[tuple[str, TensorError]]:
    """The tensors of a comparison, the worst signal to noise ratio first."""
    return sorted(errors.items(), key=lambda item: item[1].sqnr)


def table(errors: Mapping[str, TensorError]) -> str:
    """The tensors of a comparison, worst first."""
    head = f"{'tensor':28}{'LSB':>11}{'SQNR dB':>9}{'largest error':>15}"
    lines = [f"{head}{'codes at their limits':>23}"]
    for name, error in worst_first(errors):
        largest = f"{error.largest / error.lsb:.1f} LSB"
        lines.append(
            f"{name:28}{error.lsb:11.3g}{error.sqnr:9.1f}{largest:>15}"
            f"{error.limits:10,} ({error.share:8.4%})"
        )
    return "\n".join(lines)
