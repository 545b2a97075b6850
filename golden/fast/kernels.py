"""The loops between the matrix products, compiled by Numba.

They work on integers that are held in floats, or on int32 sums and codes in bytes. float64 is exact
here: an accumulator has 32 bits and a multiplier m * 2^-s has 16 significant ones, so acc * m *
2^-s has 48, and with the half that rounds it 49 of the 53 that float64 keeps. floor(acc * m * 2^-s
+ 0.5) therefore equals (acc * m + 2^(s-1)) >> s bit for bit. LayerNorm's two products have 43 bits
(D * r) and 34 (n * gamma + beta).
"""

from pathlib import Path

import numpy as np

from golden.fast.compiled import compiler
from golden.linear import LOW_BITS, WIDE_MAX
from golden.reciprocal import TABLE as RECIPROCAL
from golden.requantize import round_shift
from golden.rsqrt import TABLE as RSQRT
from golden.softmax import EXP2_TABLE

# p by the distance to the row's maximum; 0 from 9 octaves on.
DISTANCES = 9 * 256
_distance = np.arange(DISTANCES)
EXP2 = np.append(round_shift(EXP2_TABLE[_distance & 255], (_distance >> 8) + 8), 0).astype(np.int32)

MASKED = -(1 << 20)  # below every score, and more than 9 octaves below

# 2^-s for every shift of the contract, exact.
POWER = 2.0 ** -np.arange(64.0)

# The tables are constants in the compiled code: any source of golden/ is part of its key.
compiled = compiler(Path(__file__).parents[1], nogil=True, error_model="numpy")


@compiled
def rounded(x: float, limit: float) -> float:
    """saturate(floor(x + 0.5)) to -limit..limit - 1."""
    y = np.floor(x + 0.5)
    y = -limit if y < -limit else y
    return limit - 1.0 if y > limit - 1.0 else y


@compiled
def requantize_to_codes(
    acc: np.ndarray, bias: np.ndarray, factor: np.ndarray, zero: float, out: np.ndarray
) -> None:
    """out = saturate(floor((acc + bias) * factor + 0.5), 8) + zero; [rows, channels]."""
    for row in range(acc.shape[0]):
        for c in range(acc.shape[1]):
            y = rounded((acc[row, c] + bias[c]) * factor[c], 128.0)
            out[row, c] = y + zero


@compiled
def requantize_by_table(
    acc: np.ndarray, bias: np.ndarray, factor: np.ndarray, table: np.ndarray, out: np.ndarray
) -> None:
    """out = table[saturate(floor((acc + bias) * factor + 0.5), 8) + 128]."""
    for row in range(acc.shape[0]):
        for c in range(acc.shape[1]):
            y = rounded((acc[row, c] + bias[c]) * factor[c], 128.0)
            out[row, c] = table[np.int32(y) + 128]


@compiled
def gate_in_place(
    acc: np.ndarray,
    bias: np.ndarray,
    factor: np.ndarray,
    scale: float,
    zero: int,
    high: np.ndarray,
    low: np.ndarray,
) -> None:
    """The gate's codes become golden.linear.gated of them and of what `up` gives.

    high [rows, channels] has codes + zero; low too where the gate is wide, else it is empty. acc is
    of up, scale 2^-gate_shift.
    """
    wide = low.size > 0
    for row in range(acc.shape[0]):
        for c in range(acc.shape[1]):
            u = rounded((acc[row, c] + bias[c]) * factor[c], 32768.0)
            g = np.int32(high[row, c]) - zero
            if wide:
                g = (g << LOW_BITS) + np.int32(low[row, c]) - zero
            y = rounded(g * u * scale, 32768.0 if wide else 128.0)
            if wide:
                x = np.int32(WIDE_MAX) if y > WIDE_MAX else np.int32(y)
                half = (x + (1 << (LOW_BITS - 1))) >> LOW_BITS
                high[row, c] = half + zero
                low[row, c] = x - (half << LOW_BITS) + zero
            else:
                high[row, c] = np.int32(y) + zero


@compiled
def rotate_to_codes(
    acc: np.ndarray,
    bias: np.ndarray,
    factor: np.ndarray,
    length: int,
    size: int,
    cos: np.ndarray,
    sin: np.ndarray,
    out: np.ndarray,
) -> None:
    """The columns of out, codes of q and k in heads of `size`, as golden.rotary.rotate has them.

    acc [batch * length, channels or more]; cos, sin float64 [T, size / 2] at 2^-21 of their units.
    """
    for row in range(acc.shape[0]):
        t = row % length
        for c in range(0, out.shape[1], 2):
            x = rounded((acc[row, c] + bias[c]) * factor[c], 32768.0)
            y = rounded((acc[row, c + 1] + bias[c + 1]) * factor[c + 1], 32768.0)
            pair = (c % size) >> 1
            out[row, c] = rounded(x * cos[t, pair] - y * sin[t, pair], 128.0)
            out[row, c + 1] = rounded(y * cos[t, pair] + x * sin[t, pair], 128.0)


@compiled
def add_residual(
    acc: np.ndarray, bias: np.ndarray, factor: np.ndarray, x16: np.ndarray, shift: int
) -> None:
    """x16 = saturate(round_shift(x16, shift) + requantize(acc + bias, 16), 16), in place."""
    half = (1 << shift) >> 1
    for row in range(acc.shape[0]):
        for c in range(acc.shape[1]):
            y = rounded((acc[row, c] + bias[c]) * factor[c], 32768.0)
            z = ((np.int32(x16[row, c]) + half) >> shift) + np.int32(y)
            x16[row, c] = min(max(z, -32768), 32767)


@compiled
def bit_length(x: int) -> int:
    n = 0
    for step in (32, 16, 8, 4, 2, 1):
        if x >> step:
            n += step
            x >>= step
    return n + 1


@compiled
def softmax(
    acc: np.ndarray,
    attend: np.ndarray,
    factor: float,
    position_bias: np.ndarray,
    before: int,
    after: int,
    m: int,
    s: int,
    p: np.ndarray,
    row_factor: np.ndarray,
) -> None:
    """p and the context's factor of every row: softmax and row_scale of golden/softmax.py.

    acc [batch, heads, queries, keys], attend bool [batch, keys]; p is of the shape of acc.
    position_bias int16 [heads, 2 T - 1], empty without one; the sum is exact in float64. A query
    sees the keys -before <= k - q <= after.
    """
    biased, centre = position_bias.size > 0, position_bias.shape[1] // 2
    batch, heads, queries, keys = acc.shape
    scores = np.empty(keys, np.int32)
    for b in range(batch):
        valid = attend[b]
        for h in range(heads):
            for q in range(queries):
                row = acc[b, h, q]
                for k in range(keys):
                    t = rounded(row[k] * factor, 32768.0)
                    if biased:
                        t = rounded(t + position_bias[h, k - q + centre], 32768.0)
                    scores[k] = np.int32(t) if valid[k] else MASKED
                for k in range(min(max(q - before, 0), keys)):
                    scores[k] = MASKED
                for k in range(min(q + after + 1, keys), keys):
                    scores[k] = MASKED
                top = np.int32(-32768)
                for k in range(keys):
                    top = max(top, scores[k])
                total = np.int32(0)
                for k in range(keys):
                    d = min(top - scores[k], DISTANCES)
                    weight = EXP2[d]
                    total += weight
                    p[b, h, q, k] = weight
                row_factor[b, h, q] = row_scale(total, m, s)


@compiled
def row_scale(total: int, m: int, s: int) -> float:
    """m_row * 2^-s_row of golden.softmax.row_scale."""
    e = bit_length(total) - 1 if total else 20
    u = (total << 19) >> e if total else 1 << 19
    y0 = RECIPROCAL[(u >> 12) & 127]
    e25 = ((1 << 31) - u * y0) >> 6
    r = min(((y0 << 25) + y0 * e25 + (1 << 20)) >> 21, 65535)
    product = r * m
    adj = 16 if product >= 1 << 31 else 15
    m_row = (product + (1 << (adj - 1))) >> adj
    # m_row = 2^16 with adj stands for 2^15 with adj + 1: the factor is the same
    return m_row * POWER[s + 16 + e - adj]


@compiled
def scale_context(acc: np.ndarray, row_factor: np.ndarray, zero: float, out: np.ndarray) -> None:
    """[batch, heads, queries, d] to codes + zero [batch, queries, heads, d]."""
    batch, heads, queries, size = acc.shape
    for b in range(batch):
        for q in range(queries):
            for h in range(heads):
                factor = row_factor[b, h, q]
                for c in range(size):
                    y = rounded(acc[b, h, q, c] * factor, 128.0)
                    out[b, q, h, c] = y + zero


@compiled
def layernorm(
    z: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    shift: int,
    epsilon: int,
    rms: bool,
    operand_scale: np.ndarray,
    x16: np.ndarray,
    zero: int,
    x8: np.ndarray,
) -> None:
    """x16 = golden.layernorm.layernorm(z), x8 its operand + zero; [rows, H].

    operand_scale [H] is 2^-shift of each channel: floor(x16 * 2^-shift + 0.5) is the rounding
    shift, and vectors of floats have a floor where those of int64 may have no shift.
    """
    rows, hidden = z.shape
    scale = POWER[shift]
    line = np.empty(hidden)  # z may be x16, and loops on one array are not made vectors
    for row in range(rows):
        s1 = np.int64(0)
        s2 = np.int64(0)
        for c in range(hidden):
            value = np.int32(z[row, c])
            line[c] = value
            s1 += value
            s2 += value * value
        if rms:
            s1 = np.int64(0)
        v = hidden * s2 - s1 * s1 + epsilon
        e = (bit_length(v) - 1) >> 1
        u = v << (16 - 2 * e) if e < 8 else v >> (2 * e - 16)
        j = (u >> 9) & 127 if u < 1 << 17 else 128 + ((u >> 10) & 127)
        y0 = RSQRT[j]
        e24 = ((1 << 40) - u * y0 * y0) >> 16
        r = min(((y0 << 25) + y0 * e24 + (1 << 20)) >> 21, 65535)
        factor = r * POWER[e + 4]
        mean = np.float64(s1)
        for c in range(hidden):
            n = np.floor((hidden * line[c] - mean) * factor + 0.5)
            line[c] = rounded((n * gamma[c] + beta[c]) * scale, 32768.0)
        for c in range(hidden):
            x16[row, c] = np.int32(line[c])
        for c in range(hidden):
            y = rounded(line[c] * operand_scale[c], 128.0)
            x8[row, c] = np.int32(y) + zero


@compiled
def low_halves(x16: np.ndarray, high: np.ndarray, zero: int, low: np.ndarray) -> None:
    """low = min(x16, WIDE_MAX) - 2^8 * (high - zero) + zero: of golden.linear.halves."""
    for row in range(x16.shape[0]):
        for c in range(x16.shape[1]):
            x = np.int32(x16[row, c])
            x = np.int32(WIDE_MAX) if x > WIDE_MAX else x
            low[row, c] = x - ((np.int32(high[row, c]) - zero) << LOW_BITS) + zero


@compiled
def embed(
    ids: np.ndarray,
    types: np.ndarray,
    token: np.ndarray,
    position: np.ndarray,
    token_factor: int,
    position_factor: int,
    token_low: np.ndarray,
    position_low: np.ndarray,
    offset: int,
    out: np.ndarray,
) -> None:
    """out = token_factor * token[ids] + position_factor * position[types, t + offset].

    To this token_low and position_low add their rows, where they are not empty.

    ids and types [batch, L], out int16 [batch, L, H].
    """
    batch, length = ids.shape
    for b in range(batch):
        for t in range(length):
            row = token[ids[b, t]]
            place = position[types[b, t], t + offset]
            for c in range(out.shape[2]):
                out[b, t, c] = token_factor * np.int32(row[c]) + position_factor * np.int32(
                    place[c]
                )
            if token_low.size > 0:
                row_low = token_low[ids[b, t]]
                place_low = position_low[types[b, t], t + offset]
                for c in range(out.shape[2]):
                    out[b, t, c] += np.int32(row_low[c]) + np.int32(place_low[c])
