"""docs/numerics.md once more, in Python integers and loops, sharing no code with golden/.

Slow and plain: the second side of the bit-exact comparisons. Activations are lists of lists.
"""

from fractions import Fraction

from golden.model import Linear, Model, Norm, Rotary, Window


def ref_saturate(x: int, bits: int) -> int:
    return min(max(x, -(2 ** (bits - 1))), 2 ** (bits - 1) - 1)


def ref_round_shift(x: int, s: int) -> int:
    return x if s == 0 else (x + 2 ** (s - 1)) // 2**s


def ref_requantize(acc: int, m: int, s: int, bits: int = 8) -> int:
    return ref_saturate(ref_round_shift(acc * m, s), bits)


def nearest(x: Fraction) -> int:
    """round(x), ties up."""
    return (2 * x.numerator + x.denominator) // (2 * x.denominator)


def nearest_root(x: Fraction, degree_log2: int) -> int:
    """round(x ** (1 / 2**degree_log2)) by comparing powers, for x >= 0."""
    low, high = 0, 1
    degree = 2**degree_log2
    while Fraction(2 * high - 1, 2) ** degree <= x:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        # the root rounds to middle or more when it is middle - 1/2 or more
        if Fraction(2 * middle - 1, 2) ** degree <= x:
            low = middle
        else:
            high = middle
    return low


EXP2 = [nearest_root(Fraction(65280) ** 256 / 2**f, 8) for f in range(256)]
RECIPROCAL = [nearest(Fraction(2**20, 257 + 2 * j)) for j in range(128)]
RSQRT = [nearest_root(2**24 / Fraction(257 + 2 * j, 256), 1) for j in range(128)] + [
    nearest_root(2**24 / Fraction(257 + 2 * j, 128), 1) for j in range(128)
]


def ref_reciprocal(s: int) -> tuple[int, int]:
    e = s.bit_length() - 1
    u = s * 2**19 // 2**e
    y0 = RECIPROCAL[u // 2**12 % 128]
    e25 = (2**31 - u * y0) // 2**6
    return min((y0 * 2**25 + y0 * e25 + 2**20) // 2**21, 65535), e


def ref_rsqrt(v: int) -> tuple[int, int]:
    e = (v.bit_length() - 1) // 2
    u = v * 2**16 // 4**e
    j = u // 2**9 % 128 if u < 2**17 else 128 + u // 2**10 % 128
    y0 = RSQRT[j]
    e24 = (2**40 - u * y0**2) // 2**16
    return min((y0 * 2**25 + y0 * e24 + 2**20) // 2**21, 65535), e


def ref_softmax(scores: list[int], attend: list[bool]) -> tuple[list[int], int, int]:
    row_max = max([t for t, valid in zip(scores, attend) if valid], default=-(2**15))
    p = []
    for t, valid in zip(scores, attend):
        i, f = divmod(row_max - t, 256)
        p.append((EXP2[f] + 2 ** (i + 7)) // 2 ** (i + 8) if valid else 0)
    return p, row_max, sum(p)


def ref_row_scale(row_sum: int, m: int, s: int) -> tuple[int, int]:
    r, e = ref_reciprocal(row_sum) if row_sum else (65535, 20)
    product = r * m
    adj = 16 if product >= 2**31 else 15
    m_row = ref_round_shift(product, adj)
    if m_row == 2**16:
        m_row, adj = 2**15, adj + 1
    return m_row, s + 16 + e - adj


def ref_layernorm(z: list[int], norm: Norm) -> list[int]:
    hidden = len(z)
    s1, s2 = 0 if norm.rms else sum(z), sum(x * x for x in z)
    r, e = ref_rsqrt(hidden * s2 - s1 * s1 + int(norm.epsilon))
    y = []
    for x, gamma, beta in zip(z, norm.gamma.tolist(), norm.beta.tolist()):
        n = ref_round_shift((hidden * x - s1) * r, e + 4)
        y.append(ref_saturate(ref_round_shift(n * gamma + beta, norm.shift), 16))
    return y


class Wide(list):
    """The 16-bit operands of one token."""


def ref_halves(x: int) -> tuple[int, int]:
    """(high, low), -128 <= low < 128."""
    low = (x + 128) % 256 - 128
    return (x - low) // 256, low


def ref_accumulate(x: list[int], layer: Linear) -> list[int]:
    passes = [x]
    if isinstance(x, Wide):
        high, low = zip(*map(ref_halves, x))
        assert set(high) <= set(range(-128, 128))
        passes = [low, high]
    found = []
    for row, bias in zip(layer.weight.tolist(), layer.bias.tolist()):
        acc = 0
        for one in passes:
            acc = acc // 256 + sum(a * b for a, b in zip(one, row))
        found.append(acc + bias)
    return found


def ref_linear(x: list[int], layer: Linear, bits: int = 8) -> list[int]:
    scaled = zip(ref_accumulate(x, layer), layer.m.tolist(), layer.s.tolist())
    y = [ref_requantize(acc, m, s, bits) for acc, m, s in scaled]
    if layer.table is None:
        return y
    out = [int(layer.table[code % 256]) for code in y]
    if layer.table_low is None:
        return out
    return Wide(256 * a + int(layer.table_low[code % 256]) for a, code in zip(out, y))


def ref_rotate(rows: list[list[int]], rotary: Rotary, size: int) -> list[list[int]]:
    """A pair as a complex number, times cos + i sin."""
    out = []
    for t, row in enumerate(rows):
        out.append([])
        for c in range(0, len(row), 2):
            cos, sin = (int(x[t][c % size // 2]) for x in (rotary.cos, rotary.sin))
            for part in (
                row[c] * cos - row[c + 1] * sin,
                row[c] * sin + row[c + 1] * cos,
            ):
                out[-1].append(ref_saturate(ref_round_shift(part, 21), 8))
    return out


def ref_gated(gate: list[int], up: list[int], shift: int) -> list[int]:
    products = [ref_round_shift(g * u, shift) for g, u in zip(gate, up)]
    if not isinstance(gate, Wide):
        return [ref_saturate(x, 8) for x in products]
    return Wide(min(ref_saturate(x, 16), 127 * 256 + 127) for x in products)


def ref_residual(x16: list[int], x8: list[int], layer: Linear, k: int) -> list[int]:
    branch = ref_linear(x8, layer, bits=16)
    return [ref_saturate(ref_round_shift(x, k) + y, 16) for x, y in zip(x16, branch)]


def ref_operand(x16: list[int], norm: Norm) -> list[int]:
    if norm.wide:
        return Wide(min(x, 127 * 256 + 127) for x in x16)
    shifts = [8] * len(x16) if norm.operand_shifts is None else norm.operand_shifts.tolist()
    return [ref_saturate(ref_round_shift(x, s), 8) for x, s in zip(x16, shifts)]


def ref_seen(query: int, key: int, window: Window | None) -> bool:
    if window is None:
        return True
    if key < query:
        return window.before is None or query - key <= window.before
    return window.after is None or key - query <= window.after


def ref_attention(
    x8: list[list[int]],
    attention: object,
    heads: int,
    attend: list[bool],
    bias: list[list[int]] | None = None,
    window: Window | None = None,
    rotary: Rotary | None = None,
    kv_heads: int | None = None,
) -> dict[str, list]:
    bits = 8 if rotary is None else 16
    q, k = ([ref_linear(x, layer, bits) for x in x8] for layer in (attention.q, attention.k))
    v = [ref_linear(x, attention.v) for x in x8]
    length, d = len(x8), len(q[0]) // heads
    if rotary is not None:
        q, k = (ref_rotate(x, rotary, d) for x in (q, k))
    names = ("scores", "max", "p", "sum", "row_m", "row_s")
    out: dict[str, list] = {"q": q, "k": k, "v": v} | {name: [] for name in names}
    context = [[0] * (heads * d) for _ in x8]
    for h in range(heads):
        g = h % (kv_heads or heads)
        head: dict[str, list] = {name: [] for name in names}
        for t in range(length):
            scores = [
                ref_requantize(
                    sum(q[t][h * d + c] * k[key][g * d + c] for c in range(d)),
                    attention.score_m,
                    attention.score_s,
                    16,
                )
                for key in range(length)
            ]
            if bias is not None:  # of the distances 1 - T .. T - 1
                first = t - len(bias[h]) // 2
                scores = [
                    ref_saturate(score + bias[h][key - first], 16)
                    for key, score in enumerate(scores)
                ]
            seen = [valid and ref_seen(t, key, window) for key, valid in enumerate(attend)]
            p, row_max, row_sum = ref_softmax(scores, seen)
            m, s = ref_row_scale(row_sum, attention.context_m, attention.context_s)
            for c in range(d):
                acc = sum(p[key] * v[key][g * d + c] for key in range(length))
                context[t][h * d + c] = ref_requantize(acc, m, s)
            for name, value in zip(names, (scores, row_max, p, row_sum, m, s)):
                head[name].append(value)
        for name in names:
            out[name].append(head[name])
    return out | {"context": context}


def ref_embed(ids: list[int], types: list[int], model: Model) -> list[list[int]]:
    tables = model.embedding

    def low(token: int, kind: int, t: int, c: int) -> int:
        if tables.token_low is None:
            return 0
        place = tables.position_low[kind, t + model.shape.position_offset, c]
        return int(tables.token_low[token, c]) + int(place)

    return [
        [
            tables.token_factor * int(tables.token[token, c])
            + tables.position_factor
            * int(tables.position[kind, t + model.shape.position_offset, c])
            + low(token, kind, t, c)
            for c in range(model.shape.hidden)
        ]
        for t, (token, kind) in enumerate(zip(ids, types))
    ]


def ref_run(model: Model, ids: list[int], types: list[int], attend: list[bool]) -> dict[str, list]:
    """Every name of the trace."""
    shape = model.shape
    trace: dict[str, list] = {}
    bias = None if model.position_bias is None else model.position_bias.tolist()

    def normalize(x: list[list[int]], norm: Norm, name: str) -> None:
        trace[f"{name}.norm"] = [ref_layernorm(row, norm) for row in x]
        trace[f"{name}.x8"] = [ref_operand(row, norm) for row in trace[f"{name}.norm"]]

    x = trace["embedding.sum"] = ref_embed(ids, types, model)
    last = "embedding"
    if model.embedding.norm is not None:
        normalize(x, model.embedding.norm, last)
        x = trace["embedding.norm"]
    narrow = trace.get("embedding.x8", [])
    if model.projection is not None:
        narrow = [row[: len(model.projection.weight[0])] for row in narrow]
        pairs = zip(x, narrow)
        x = trace["projection.sum"] = [ref_residual(a, b, model.projection, 15) for a, b in pairs]
    for i, layer in enumerate(model.layers):
        for half, norm in (("attention", layer.norm1), ("ffn", layer.norm2)):
            name = f"layer.{i}.{half}"
            if shape.norm == "pre" and norm is not None:
                normalize(x, norm, name)
                last = name
            x8 = narrow if last == "embedding" else trace[f"{last}.x8"]
            if half == "attention":
                parts = ref_attention(
                    x8,
                    layer.attention,
                    shape.heads,
                    attend,
                    bias,
                    layer.window,
                    None if layer.rotary is None else model.rotary[layer.rotary],
                    shape.kv_heads,
                )
                trace |= {f"layer.{i}.{key}": value for key, value in parts.items()}
                branch, down, k = parts["context"], layer.attention.o, layer.attention
            else:
                gate, up = layer.ffn.gate, layer.ffn.up
                branch = [ref_linear(row, gate or up) for row in x8]
                if gate is not None:
                    trace[f"{name}.gate"] = branch
                    ups = [ref_linear(row, up, 16) for row in x8]
                    branch = [ref_gated(*x, layer.ffn.gate_shift) for x in zip(branch, ups)]
                trace[f"{name}.hidden"] = branch
                down, k = layer.ffn.down, layer.ffn
            x = trace[f"{name}.sum"] = [
                ref_residual(a, b, down, k.residual_shift) for a, b in zip(x, branch)
            ]
            if shape.norm == "post":
                normalize(x, norm, name)
                last, x = name, trace[f"{name}.norm"]
    if model.final_norm is not None:
        last = "final"
        normalize(x, model.final_norm, last)
    x8 = trace[f"{last}.x8"]

    def normed(rows: list, stream: list) -> list:
        if model.head_norm is None:
            return rows
        trace["head.sum"] = [
            [max(-32768, min(32767, 128 * y + (a + (1 << 14) >> 15))) for y, a in zip(row, of)]
            for row, of in zip(rows, stream)
        ]
        normalize(trace["head.sum"], model.head_norm, "head")
        return trace["head.x8"]

    if shape.pooling == "none":
        trace["pooled"] = rows = x8
        for j, hidden in enumerate(model.head[:-1]):
            rows = trace[f"head.{j}"] = [ref_linear(row, hidden) for row in rows]
        rows = normed(rows, x)
        trace["logits"] = [ref_accumulate(row, model.head[-1]) for row in rows]
        return trace
    if shape.pooling == "first":
        y = x8[0]
    else:
        p = [255 if valid else 0 for valid in attend]
        m, s = ref_row_scale(sum(p), model.mean_m, model.mean_s)
        x8 = [[ref_halves(c)[0] for c in row] if isinstance(row, Wide) else row for row in x8]
        y = [
            ref_requantize(sum(a * row[c] for a, row in zip(p, x8)), m, s)
            for c in range(shape.hidden)
        ]
    trace["pooled"] = y
    for j, hidden in enumerate(model.head[:-1]):
        y = trace[f"head.{j}"] = ref_linear(y, hidden)
    (y,) = normed([y], x[:1])
    for name in ("head.sum", "head.norm", "head.x8"):
        if name in trace:
            (trace[name],) = trace[name]
    trace["logits"] = ref_accumulate(y, model.head[-1])
    return trace
