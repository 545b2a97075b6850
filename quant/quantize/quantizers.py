"""From real numbers to the integers of docs/numerics.md: multipliers, weights, tables, norms.

Rounding is to nearest, ties towards plus infinity, as in the contract. And back again, by the
entry of a tensor in the description:

    real = scale * codes + centre                                     centre 0 where none is named
    real[:, copies[i]] += real[:, F + i]                              neurons with copies
    real = factors * real + centres                                   rewritten channels

``factors`` include the power of two of an operand x8 whose channels have their own shift.
"""

from collections.abc import Callable, Mapping
from math import log2
from typing import Any, TypeAlias

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray

from golden.linear import LOW_BITS, WIDE_MAX, halves
from golden.model import OPERAND_SHIFTS, Linear, Norm
from quant.model.activation import ACTIVATIONS
from quant.model.distance import BIAS
from quant.model.spec import Floats

Doubles = NDArray[np.float64]
Values = NDArray[np.floating[Any]]
ToCodes: TypeAlias = Callable[[Doubles], Doubles]
Tables: TypeAlias = tuple[NDArray[np.int8], NDArray[np.int8] | None]  # high, low halves

CODES = np.arange(-128, 128)
WEIGHT_MAX = 127
MULTIPLIER_BITS = 16
SHIFT_MIN, SHIFT_MAX = 1, 47
BLOCK = 4096  # rows of a table
NORM_FRACTION = 12  # fraction bits of the normalised value n
SCORE_UNIT = 2**8 * log2(np.e)  # codes of a score a nat: base 2, 8 fraction bits
SCORE_LIMIT = 32767 / SCORE_UNIT  # the largest score in nats: 88.7
SCORE_DEPTH = 9 << 8  # codes below the largest score of a row from which on p is 0
SOFTMAX_ERROR = 0.02  # mean total variation that saturated scores may cause in a head's softmax


class CalibrationError(UserError):
    """A bound of the contract that the model does not satisfy; the message names the tensor."""


def named(name: str, kind: Any, *values: Any, **fields: Any) -> Any:
    """Build one of golden's dataclasses; its refusal gets the tensor's name in front."""
    try:
        return kind(*values, **fields)
    except ValueError as error:
        raise CalibrationError(f"{name}: {error}") from None


def rounded(x: Any) -> Doubles:
    return np.floor(np.asarray(x, np.float64) + 0.5)


def nearest_codes(weight: Doubles) -> Doubles:
    """The codes -127..127 of weights in units of their scales, each the nearest."""
    return rounded(weight).clip(-WEIGHT_MAX, WEIGHT_MAX)


def normalise(name: str, x: Doubles | float) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(m, s) with x = m 2^-s and 2^15 <= m < 2^16; relative error at most 2^-16.

    Raises CalibrationError when a factor needs s outside 1..47.
    """
    fraction, exponent = np.frexp(np.asarray(x, np.float64))  # x = fraction 2^exponent
    m = rounded(np.ldexp(fraction, MULTIPLIER_BITS)).astype(np.int64)
    s = MULTIPLIER_BITS - exponent
    full = m == 1 << MULTIPLIER_BITS
    m, s = np.where(full, m >> 1, m), np.where(full, s - 1, s)
    if np.any(m == 0) or s.min() < SHIFT_MIN or s.max() > SHIFT_MAX:
        worst = np.asarray(x).flat[int(np.argmax(np.abs(s - (SHIFT_MIN + SHIFT_MAX) / 2)))]
        what = f"the scale factor {worst:.3g} is out of reach of the requantizer"
        reach = f"between 2^{15 - SHIFT_MAX} and 2^{16 - SHIFT_MIN}"
        raise CalibrationError(f"{name}: {what}: it must lie {reach}")
    return m.astype(np.int32), s.astype(np.int32)


def linear(
    name: str,
    weight: Floats,
    bias: Floats,
    input_scale: float,
    output_scale: float | None,
    tables: Tables | None = None,
    input_means: NDArray[np.floating[Any]] | float = 0.0,
    per_channel: bool = True,
    to_codes: ToCodes = nearest_codes,
) -> tuple[Linear, Doubles, int]:
    """Weights to int8 with one scale a channel, or one in all; output_scale None for the logits.

    Beside it the scale of each channel, and the bound of the sums: they do not overflow.
    A weight scale is at least |bias| / (input_scale (2^30 - K 128 127)), so that the bias leaves
    room for the sum, and large enough for the requantizer's shift. The mean error (W - W') E[x] of
    rounding the weights is added back, E[x] = ``input_means`` (Nagel et al., "Data-free
    quantization through weight equalization and bias correction", 2019).
    ``to_codes`` rounds the weights [out, in], in units of their scales, to codes -127..127.
    Raises CalibrationError when a bound fails.
    """
    w, b = weight.astype(np.float64), bias.astype(np.float64)
    inputs = w.shape[1]
    room = (1 << 30) - inputs * 128 * WEIGHT_MAX
    if room <= 0:
        raise CalibrationError(f"{name}: a sum of {inputs} products does not fit int32")
    largest = np.abs(w).max(axis=1)
    scales = np.maximum(largest / WEIGHT_MAX, (np.abs(b) + largest) / (input_scale * room))
    if output_scale is not None:
        # 2^-31 instead of 2^-32: the multiplier may round down.
        scales = np.maximum(scales, 2.0**-31 * output_scale / input_scale)
    if not per_channel:
        scales = np.full_like(scales, scales.max())
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    codes = to_codes(w / scales[:, None])
    b = b + (w - codes * scales[:, None]) @ np.broadcast_to(input_means, inputs)
    biases = rounded(b / (input_scale * scales))
    bounds = 128 * np.abs(codes).sum(axis=1) + np.abs(biases)
    worst = int(bounds.argmax())
    if bounds[worst] >= 2**31:
        reach = f"channel {worst} may reach {bounds[worst]:.0f}"
        raise CalibrationError(f"{name}: {reach}, beyond the int32 accumulator")
    factor = None if output_scale is None else input_scale * scales / output_scale
    multipliers = (None, None) if factor is None else normalise(name, factor)
    more = (*multipliers, *(tables or (None, None)))
    result = Linear(codes.astype(np.int8), biases.astype(np.int32), *more)
    return result, scales, int(bounds[worst])


def activation_table(
    activation: str, clipping_point: float, precise: bool = False
) -> tuple[Tables, float]:
    """The 256-entry table for an input scale of clipping_point / 127, and its output scale.

    Entry x & 255 is round(f(x s_in) / s_out), s_out = f(127 s_in) / 127: within 0.5 LSB of f;
    where it is precise the halves of round(2^8 f(x s_in) / s_out).
    """
    f = ACTIVATIONS[activation]
    input_scale = clipping_point / 127
    output_scale = float(f(np.float64(clipping_point))) / 127
    return tables_of(f(CODES * input_scale) / output_scale, precise), output_scale


def tables_of(values: Floats, precise: bool) -> Tables:
    """The table whose entry x & 255 is values[x + 128], rounded and saturated.

    Where it is precise those of the high and the low halves of 2^8 times that.
    """
    if precise:
        wide = np.zeros(256, np.int16)
        wide[CODES & 255] = rounded(values * 2**LOW_BITS).clip(-(2**15), WIDE_MAX)
        return halves(wide)
    table = np.zeros(256, np.int8)
    table[CODES & 255] = rounded(values).clip(-128, 127)
    return table, None


def layer_norm(
    name: str, gamma: Floats, beta: Floats, epsilon: float, input_scale: float, output_scale: float
) -> Norm:
    """gamma / (2^12 s_out) and beta / s_out at the largest 2^shift that fits int16 and int32.

    Raises CalibrationError when no shift from 1 to 31 fits or epsilon exceeds 50 bits.
    """
    g = gamma.astype(np.float64) / (output_scale * 2**NORM_FRACTION)
    b = beta.astype(np.float64) / output_scale
    for shift in range(31, 0, -1):
        scaled_gamma, scaled_beta = rounded(g * 2.0**shift), rounded(b * 2.0**shift)
        if np.abs(scaled_gamma).max() < 2**15 and np.abs(scaled_beta).max() < 2**31:
            break
    else:
        raise CalibrationError(f"{name}: gamma or beta is too large for 16 and 32 bits")
    e = epsilon * gamma.size**2 / input_scale**2
    if not e < 2**50 - 0.5:  # rounded
        variance = f"{e:.3g} LSB of the variance"
        raise CalibrationError(f"{name}: epsilon {epsilon} is {variance}: above 2^50")
    codes = (scaled_gamma.astype(np.int16), scaled_beta.astype(np.int32))
    return Norm(*codes, shift, max(1, round(e)))


def operand_shifts(low: Floats, high: Floats, scale: float) -> NDArray[np.uint8]:
    """The least shift, 1..8, by which no value of a channel's range low..high is off by more than
    half a step.

    scale is that of x16, whose int8 operand is saturate(round_shift(x16, shift), 8).
    """
    reach = np.maximum(high / 127.5, low / -128.5) / scale
    least, most = OPERAND_SHIFTS
    shifts = np.ceil(np.log2(np.maximum(reach, 1.0))).clip(least, most)
    return shifts.astype(np.uint8)


def embedding_factors(
    token_point: float, position_point: float, wide: bool = False
) -> tuple[int, int, float]:
    """(a_t, a_p, scale) of a_t token + a_p position; the tables have a_t and a_p times that scale.

    Of all 1 <= a_t, a_p <= 255 with a_t + a_p <= 258, the pair that represents both clipping points
    with the least rounding error (a_t^2 + a_p^2) scale^2. Wide, of tables of 16 bits that have that
    scale: of all a_t + a_p = 256 the pair with the least at which 127 (a + 1) reaches each point.
    """
    a_t, a_p = np.meshgrid(np.arange(1, 256), np.arange(1, 256), indexing="ij")
    scale = np.maximum(token_point / (a_t + wide), position_point / (a_p + wide)) / WEIGHT_MAX
    error = np.where(a_t + a_p <= 258, (a_t**2 + a_p**2) * scale**2, np.inf)
    error = np.where(a_t + a_p == 256, scale, np.inf) if wide else error
    best = np.unravel_index(int(error.argmin()), error.shape)
    return int(a_t[best]), int(a_p[best]), float(scale[best])


def table_codes(
    table: Floats, scale: float, factor: int = 0
) -> tuple[NDArray[np.int8], NDArray[np.int8] | None]:
    """An embedding table as int8 codes -127..127, round(table / scale), and None.

    With a factor (high, low), factor * high + low = round(table / scale). A table of 250,000 tokens
    is never held in float64.
    """
    most = WEIGHT_MAX * (factor + 1)
    high, low = np.empty(table.shape, np.int8), np.empty(table.shape if factor else 0, np.int8)
    for first in range(0, len(table), BLOCK):
        rows = slice(first, first + BLOCK)
        codes = rounded(table[rows] / np.float64(scale)).clip(-most, most)
        high[rows] = of_high = nearest_codes(codes / (factor or 1))
        if factor:
            low[rows] = codes - factor * of_high
    return high, low if factor else None


def position_bias(bias: Floats) -> NDArray[np.int16]:
    """round(256 log2(e) bias), saturated below: such a key has p = 0 but where all keys are so.

    Raises CalibrationError where one saturates above.
    """
    if bias.max() > SCORE_LIMIT:
        most = f"the 16-bit score holds at most {SCORE_LIMIT:.1f}"
        would = "so this model's softmax would saturate"
        raise CalibrationError(f"{BIAS} reaches {bias.max():.1f}: {most}, {would}")
    return rounded(bias * SCORE_UNIT).clip(-(2**15), 2**15 - 1).astype(np.int16)


def softmax_change(
    scores: NDArray[Any], saturated: NDArray[Any], seen: NDArray[np.bool_]
) -> Doubles:
    """The total variation of softmax(scores) and softmax(saturated), row by row: [heads, L].

    sum |p - p'| / 2, p = 2^(score/256) / sum over the keys that are ``seen`` [L, L]. Both arguments
    [heads, L, L] are in 1/256 octaves, of any width.
    """
    p = []
    for x in (scores, saturated):
        x = np.where(seen, x, -np.inf)
        weights = np.exp2((x - x.max(axis=-1, keepdims=True)) / 256)
        p.append(weights / weights.sum(axis=-1, keepdims=True))
    return np.abs(p[0] - p[1]).sum(axis=-1) / 2


def require_softmax(name: str, errors: Doubles) -> None:
    """Raises CalibrationError where saturated scores change the softmax of a head too much.

    ``errors`` [heads] is the mean total variation of each head.
    """
    if (worst := errors.max()) > SOFTMAX_ERROR:
        raise CalibrationError(
            f"{name}: 16 bits hold scores up to {SCORE_LIMIT:.1f}, and those that saturate change "
            f"the softmax of head {errors.argmax()} by {worst:.1%} on average, where "
            f"{SOFTMAX_ERROR:.0%} is allowed: try --remedies centre, or --data like the model's own"
        )


def folded(values: Values, neurons: int, copies: NDArray[np.int64]) -> Values:
    """The values [n, F] of which copies [n, F + copies] make their parts; more rows are padding."""
    result = values[:, :neurons].copy()
    for i, source in enumerate(copies):
        result[:, source] += values[:, neurons + i]
    return result


def real(codes: NDArray[np.integer[Any]], format: Mapping[str, Any], channels: int) -> Values:
    """The values [..., channels] of a tensor of the trace; channels as the float model has them."""
    values: Values = codes * np.float64(format["scale"]) + float(format.get("centre", 0.0))
    if values.shape[-1] > channels:
        values = folded(values, channels, np.array(format["copies"], np.int64))
    if "factors" in format:
        values = values * np.array(format["factors"]) + np.array(format["centres"])
    return values


def twins(
    codes: NDArray[np.integer[Any]], format: Mapping[str, Any], exact: Floats
) -> tuple[Values, Floats]:
    """The values of the codes, and the float model's tensor to compare them with.

    Scores with a position bias, or beyond 16 bits, end ``depth`` below the largest of their row:
    what is further down has p = 0 in both. Scores that differ from the float model's by a constant
    a row are both given without it.
    """
    values = real(codes, format, exact.shape[-1])
    if depth := format.get("depth"):
        values, exact = (np.maximum(x, x.max(-1, keepdims=True) - depth) for x in (values, exact))
    if format.get("row_constant"):
        values = values - values.mean(axis=-1, keepdims=True)
        exact = exact - exact.mean(axis=-1, keepdims=True)
    return values, exact


def scale(format: Mapping[str, Any]) -> Values:
    """The step of a tensor's codes, or of each channel where they have steps of their own."""
    return np.float64(format["scale"]) * np.array(format.get("factors", 1.0))


def lsb(format: Mapping[str, Any]) -> float:
    """The step of a tensor's codes; of channels with steps of their own the root mean square."""
    factors = np.array(format.get("factors", 1.0))
    return float(format["scale"]) * float(np.sqrt(np.mean(np.square(factors))))
