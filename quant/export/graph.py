"""A quantized model as an ONNX graph of integers, from operators of the standard opset alone."""

from __future__ import annotations

from typing import Any

from cli.options import version

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from golden import reciprocal, requantize, rsqrt, softmax
from golden.encoder import PROJECTION_SHIFT
from golden.linear import LOW_BITS, in_stream
from golden.model import FeedForward, Layer, Linear, Model, Norm, Rotary, Window
from golden.rotary import SHIFT

OPSET = 17
IR_VERSION = 8  # of the ONNX release that brought it

Value = str | int | np.ndarray
"""A tensor by name, or a constant: an integer is an int64."""

Codes = str | tuple[str, str]
"""An operand by name, int32; a wide one as its halves, the high one first."""

_ABOVE = 61  # 2^61 added makes any number of 60 bits positive, and 2^s divides it
_SHIFTS = np.arange(_ABOVE + 1)
_FURTHEST = 9 << 8  # d of docs/numerics.md section 6 from which on p is 0
_INVALID = np.array(-(1 << 31), np.int32)  # no logit, which has 31 bits
_PROBES = 94  # of each function; see Graph.wrong

CHECK = "exact_int64_and_valid_input"
"""The node at which it fails, by name: runtimes say it in their message."""
NEEDS = f"exact int64, and exact int32 in MatMul: a runtime with less fails at the node {CHECK}"


def graph(model: Model, given: bool = False) -> onnx.ModelProto:
    """ids, types and attend, int64 [tokens], to logits, int32 [labels] or [tokens, labels].

    The logits are those of golden.encoder.run bit for bit, for input that it takes. Any other is an
    error of the runtime: an id, type or length beyond the tables where they are read; a negative
    one, an attend that is neither 0 nor 1, or a mask without a 1 at the node CHECK, as is a runtime
    with less than the graph NEEDS. One that goes on there gives -2^31 for every logit.

    Of a model whose rows are given the input is `rows`, int16 [tokens, hidden], embedding.sum of
    docs/numerics.md, with as many tokens as the model has.
    """
    return _Encoder(model, given).proto()


class Graph:
    """Nodes and constants; each method adds what computes one formula of docs/numerics.md.

    Codes for a matrix product are int32, all else is int64. `MatMul` of int32 is exact since no
    partial sum leaves it. ONNX divides towards zero, so what may be negative is lifted first.
    Limits are comparisons: Clip, Min and Max of int64 are wrong in onnxruntime 1.31.1 for some
    numbers beyond 32 bits. Its ReduceSum of int64 goes through float64; sums here stay below 2^53.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}

    @property
    def constants(self) -> list[onnx.TensorProto]:
        return list(self._constants.values())

    def node(self, operator: str, *inputs: Value, **attributes: Any) -> str:
        name = f"{operator}_{len(self.nodes)}"
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.nodes.append(helper.make_node(operator, names, [name], name=name, **attributes))
        return name

    def constant(self, value: int | np.ndarray) -> str:
        array = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else np.int64(value)
        key = str(array.dtype), array.shape, array.tobytes()
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = numpy_helper.from_array(np.asarray(array), name)
        return self._constants[key].name

    def cast(self, x: Value, kind: int) -> str:
        return self.node("Cast", x, to=kind)

    def table(self, entries: Value, place: Value) -> str:
        return self.node("Gather", entries, place, axis=0)

    def sum(self, x: Value) -> str:
        return self.node("ReduceSum", x, np.array([-1]), keepdims=1)

    def limit(self, x: Value, bits: int) -> str:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return self.node("Where", self.node("Less", x, low), low, self.smaller(x, high))

    def smaller(self, x: Value, y: int) -> str:
        return self.node("Where", self.node("Less", x, y), x, y)

    def floor_shift(self, x: Value, s: int) -> str:
        lifted = self.node("Add", x, 1 << _ABOVE)
        return self.node("Sub", self.node("Div", lifted, 1 << s), 1 << (_ABOVE - s))

    def round_shift(self, x: Value, s: Value) -> str:
        """s: constants, or a tensor whose values are only known when the graph runs."""
        one = np.int64(1)
        tables = (one << _SHIFTS >> 1) + (one << _ABOVE), one << _SHIFTS, one << (_ABOVE - _SHIFTS)
        if isinstance(s, str):
            half, divisor, lift = (self.table(table, s) for table in tables)
        else:
            half, divisor, lift = (self.constant(np.asarray(table[s])) for table in tables)
        return self.node("Sub", self.node("Div", self.node("Add", x, half), divisor), lift)

    def requantize(self, acc: Value, m: Value, s: Value, bits: int) -> str:
        product = self.node("Mul", self.cast(acc, TensorProto.INT64), m)
        return self.limit(self.round_shift(product, s), bits)

    def leading_one(self, x: Value, bits: int) -> str:
        """The index of the highest set bit of x [..., 1], 1 <= x < 2^bits."""
        reached = self.node("GreaterOrEqual", x, np.int64(1) << np.arange(1, bits))
        return self.sum(self.cast(reached, TensorProto.INT64))

    def newton(self, y0: str, residual: str) -> str:
        first = self.node("Mul", y0, 1 << 25)
        total = self.node("Add", first, self.node("Mul", y0, residual))
        return self.smaller(self.floor_shift(self.node("Add", total, 1 << 20), 21), 65535)

    def bits(self, x: str, low: int, count: int) -> str:
        """(x >> low) & (2^count - 1) of x >= 0"""
        return self.node("Mod", self.node("Div", x, 1 << low), 1 << count)

    def reciprocal(self, s: Value) -> tuple[str, str]:
        e = self.leading_one(s, 21)
        u = self.node("Div", self.node("Mul", s, 1 << 19), self.table(1 << np.arange(21), e))
        y0 = self.table(reciprocal.TABLE, self.bits(u, 12, 7))
        residual = self.node("Sub", 1 << 31, self.node("Mul", u, y0))
        return self.newton(y0, self.floor_shift(residual, 6)), e

    def rsqrt(self, v: Value) -> tuple[str, str]:
        e = self.node("Div", self.leading_one(v, 52), 2)
        exponents = 16 - 2 * np.arange(26)
        up, down = (1 << np.maximum(sign * exponents, 0) for sign in (1, -1))
        u = self.node("Div", self.node("Mul", v, self.table(up, e)), self.table(down, e))
        first = self.bits(u, 9, 7)
        second = self.node("Add", self.bits(u, 10, 7), 128)
        j = self.node("Where", self.node("Less", u, 1 << 17), first, second)
        y0 = self.table(rsqrt.TABLE, j)
        residual = self.node("Sub", 1 << 40, self.node("Mul", u, self.node("Mul", y0, y0)))
        return self.newton(y0, self.floor_shift(residual, 16)), e

    def row_scale(self, row_sum: Value, m: int, s: int) -> tuple[str, str]:
        r, e = self.reciprocal(row_sum)
        product = self.node("Mul", r, m)
        adjust = self.node("Where", self.node("GreaterOrEqual", product, 1 << 31), 16, 15)
        rounded = self.round_shift(product, adjust)
        carried = self.node("Equal", rounded, 1 << 16)
        row_s = self.node("Sub", self.node("Add", e, s + 16), adjust)
        row_s = self.node("Sub", row_s, self.cast(carried, TensorProto.INT64))
        return self.node("Where", carried, 1 << 15, rounded), row_s

    def wrong(self, zero: str) -> str:
        """How many results of a self-test are wrong, int64 [1, 1]; 0 in a runtime that is exact.

        zero is 0 in int64 [1, 1], which only the input says, so that no part of the test is
        computed when a runtime loads the graph, perhaps better than it runs it. What is tested are
        the functions above as the encoder calls them, where int32, float32 or float64 go wrong:
        sums, products and quotients of up to 61 bits, comparisons of close numbers, and products
        of matrices beyond 2^24. Some runtimes narrow int64 without a word.
        """
        rng = np.random.default_rng(0)

        def draw(low: int, high: int, *shape: int) -> np.ndarray:
            return rng.integers(low, high, shape or (_PROBES, 1))

        def asked(values: np.ndarray) -> str:
            return self.node("Add", zero, values)

        m, s = draw(1 << 15, 1 << 16), 1 + np.arange(_PROBES)[:, None] % 47
        acc = draw(-(1 << 31), 1 << 31) >> np.maximum(31 - s, 0)  # a code, not its limits
        v, row, scale = draw(1 << 44, 1 << 52) >> draw(0, 40), draw(1, 1 << 21), 40_000
        x, y = draw(120, 128, 1, 1200), draw(120, 128, 1200, 16).astype(np.int8)
        long = draw(1 << 36, 1 << 42, 1, 32)
        matrices = self.cast(y, TensorProto.INT32), self.cast(asked(_wide(y)), TensorProto.INT32)
        narrow = self.cast(asked(x), TensorProto.INT32)
        coded = [
            (self.requantize(asked(acc), m, shift, bits), requantize.requantize(acc, m, s, bits))
            for bits in (8, 16)
            for shift in (s, asked(s))
        ]
        checks = [
            *coded,
            *zip(self.rsqrt(asked(v)), rsqrt.rsqrt(v)),
            *zip(self.row_scale(asked(row), scale, 17), softmax.row_scale(row, scale, 17)),
            *((self.node("MatMul", narrow, matrix), x @ y) for matrix in matrices),
            (self.sum(asked(long)), long.sum(keepdims=True)),
        ]
        total = self.constant(np.zeros((1, 1), np.int64))
        for found, right in checks:
            away = self.node("Sub", self.cast(found, TensorProto.INT64), _wide(right))
            total = self.node(
                "Add", total, self.count(self.node("Not", self.node("Equal", away, 0)))
            )
        return total

    def count(self, conditions: Value) -> str:
        """How many of them hold, [1, 1]"""
        numbers = self.cast(conditions, TensorProto.INT64)
        return self.sum(self.node("Reshape", numbers, np.array([1, -1])))


class _Encoder(Graph):
    """The whole encoder; x8 and all codes are int32, x is int64."""

    def __init__(self, model: Model, given: bool) -> None:
        super().__init__()
        self.model, self.shape, self.given = model, model.shape, given
        self.mask: Value = np.ones(model.shape.tokens, np.int64) if given else "attend"
        self.attend = self.cast(self.mask, TensorProto.BOOL)
        x = self.rows = self.cast("rows", TensorProto.INT64) if given else self.embed()
        x8: Codes = ""
        if model.embedding.norm is not None:
            x, x8 = self.normalize(x, model.embedding.norm)
        if model.projection is not None:
            ends = np.array([0]), np.array([model.inputs(0)]), np.array([1])
            assert isinstance(x8, str)  # the embedding's is not wide before a projection
            x8 = self.node("Slice", x8, *ends)
            x = self.residual(x, x8, model.projection, PROJECTION_SHIFT)
        windows = any(layer.window is not None for layer in model.layers)
        if windows or model.position_bias is not None:
            self.distance = self.distances()
        self.bias = self.position_bias()
        self.angles = [self.cosines_and_sines(table) for table in model.rotary or ()]
        for layer in model.layers:
            x, x8 = self.layer(x, x8, layer)
        if model.final_norm is not None:
            _, x8 = self.normalize(x, model.final_norm)
        y = self.pool(x8)
        for hidden in model.head[:-1]:
            y = self.linear(y, hidden)
        if model.head_norm is not None:
            z = x if self.shape.pooling == "none" else self.table(x, np.array([0]))
            z = self.residual(z, y, in_stream(self.shape.hidden), PROJECTION_SHIFT)
            _, y = self.normalize(z, model.head_norm)
        logits = self.accumulate(y, model.head[-1])
        self.every = self.shape.pooling == "none"
        self.checked(logits)

    def proto(self) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["tokens"])
            for name in ("ids", "types", "attend")
        ]
        if self.given:
            sizes = [self.shape.tokens, self.shape.hidden]
            inputs = [helper.make_tensor_value_info("rows", TensorProto.INT16, sizes)]
        self.nodes[-1].output[0] = "logits"
        each = ["tokens"] if self.every else []
        output = helper.make_tensor_value_info(
            "logits", TensorProto.INT32, [*each, self.shape.labels]
        )
        made = helper.make_model(
            helper.make_graph(self.nodes, "encoder", inputs, [output], self.constants),
            producer_name="bert2rtl",
            producer_version=version(),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            doc_string=f"Needs {NEEDS}.",
        )
        helper.set_model_props(made, {"bert2rtl.needs": NEEDS})
        onnx.checker.check_model(made, full_check=True)
        return made

    def checked(self, logits: str) -> None:
        """The logits in their shape. Where something is wrong they are none, and fit no shape."""
        if self.given:  # no int16 is, which only the input says
            bad = self.count(self.node("Less", self.rows, -(1 << 15)))
        else:
            negative = (self.count(self.node("Less", given, 0)) for given in ("ids", "types"))
            bad = self.node("Add", *negative)
        wrong = self.node("Add", bad, self.wrong(bad))
        keys, others = (self.count(self.node("Equal", self.mask, bit)) for bit in (1, 0))
        count = self.node("Shape", self.mask)
        bits = self.node("Equal", self.node("Sub", count, self.node("Add", keys, others)), 0)
        good = self.node(
            "And", self.node("And", bits, self.node("Equal", wrong, 0)), self.node("Less", 0, keys)
        )
        logits = self.node("Where", good, logits, _INVALID)
        sizes: Value = np.array([1, self.shape.labels])
        if self.every:
            sizes = self.node("Concat", count, np.array([self.shape.labels]), axis=0)
        off = self.node(
            "Reshape", self.cast(self.node("Not", good), TensorProto.INT64), np.array([1])
        )
        rows = self.node("Reshape", logits, self.node("Add", sizes, off))
        self.nodes[-1].name = CHECK
        if not self.every:
            self.table(rows, 0)

    def embed(self) -> str:
        embedding = self.model.embedding
        count = self.node("Squeeze", self.node("Shape", "ids"))
        offset = self.shape.position_offset
        places = self.node("Range", offset, self.node("Add", count, offset), 1)
        parts = (self.node("Unsqueeze", part, np.array([1])) for part in ("types", places))
        place = self.node("Concat", *parts, axis=1)

        def rows(token: np.ndarray, position: np.ndarray) -> tuple[str, str]:
            found = self.table(token, "ids"), self.node("GatherND", position, place)
            return self.cast(found[0], TensorProto.INT64), self.cast(found[1], TensorProto.INT64)

        token, position = rows(embedding.token, embedding.position)
        token = self.node("Mul", token, embedding.token_factor)
        x = self.node("Add", token, self.node("Mul", position, embedding.position_factor))
        if embedding.token_low is not None and embedding.position_low is not None:
            x = self.node(
                "Add", x, self.node("Add", *rows(embedding.token_low, embedding.position_low))
            )
        return x

    def normalize(self, z: str, norm: Norm) -> tuple[str, Codes]:
        hidden = self.shape.hidden
        s1: Value = 0 if norm.rms else self.sum(z)
        s2 = self.sum(self.node("Mul", z, z))
        v = self.node("Sub", self.node("Mul", s2, hidden), self.node("Mul", s1, s1))
        r, e = self.rsqrt(self.node("Add", v, norm.epsilon))
        centred = self.node("Sub", self.node("Mul", z, hidden), s1)
        n = self.round_shift(self.node("Mul", centred, r), self.node("Add", e, 4))
        y = self.node("Add", self.node("Mul", n, norm.gamma.astype(np.int64)), _wide(norm.beta))
        x = self.limit(self.round_shift(y, np.array(norm.shift)), 16)
        shifts = norm.operand_shifts
        x8 = self.limit(self.round_shift(x, np.array(8) if shifts is None else _wide(shifts)), 8)
        high = self.cast(x8, TensorProto.INT32)
        if not norm.wide:
            return x, high
        return x, (high, self.low_half(x, x8))

    def low_half(self, x: str, high: str) -> str:
        """Of a wide operand min(x, WIDE_MAX), int32; high is its int8, limited."""
        low = self.limit(self.node("Sub", x, self.node("Mul", high, 1 << LOW_BITS)), 8)
        return self.cast(low, TensorProto.INT32)

    def accumulate(self, x8: Codes, layer: Linear) -> str:
        weight = self.cast(np.ascontiguousarray(layer.weight.T), TensorProto.INT32)
        if isinstance(x8, str):
            return self.node("Add", self.node("MatMul", x8, weight), layer.bias)
        high, low = (self.node("MatMul", half, weight) for half in x8)
        low = self.floor_shift(self.cast(low, TensorProto.INT64), LOW_BITS)
        both = self.node("Add", high, self.cast(low, TensorProto.INT32))
        return self.node("Add", both, layer.bias)

    def scaled(self, x8: Codes, layer: Linear, bits: int) -> str:
        if layer.m is None or layer.s is None:
            raise ValueError("a linear layer has no m and s; allowed only for the logits")
        return self.requantize(self.accumulate(x8, layer), _wide(layer.m), _wide(layer.s), bits)

    def linear(self, x8: Codes, layer: Linear) -> str:
        return self.activated(x8, layer)[0]

    def activated(self, x8: Codes, layer: Linear) -> tuple[str, ...]:
        """What the layer gives; of wide results the high halves and the low ones."""
        code = self.scaled(x8, layer, 8)
        if layer.table is None:
            return (self.cast(code, TensorProto.INT32),)
        place = self.node("Add", code, 128)  # entries from -128 to 127
        tables = [table for table in (layer.table, layer.table_low) if table is not None]
        return tuple(self.table(np.roll(t, 128).astype(np.int32), place) for t in tables)

    def residual(self, x: str, x8: Codes, layer: Linear, shift: int) -> str:
        branch = self.scaled(x8, layer, 16)
        return self.limit(self.node("Add", self.round_shift(x, np.array(shift)), branch), 16)

    def layer(self, x: str, x8: Codes, layer: Layer) -> tuple[str, Codes]:
        post = self.shape.norm == "post"
        if not post and layer.norm1 is not None:
            _, x8 = self.normalize(x, layer.norm1)
        context = self.attention(x8, layer)
        x = self.residual(x, context, layer.attention.o, layer.attention.residual_shift)
        before_ffn = layer.norm1 if post else layer.norm2
        assert before_ffn is not None
        normal, x8 = self.normalize(x, before_ffn)
        hidden = self.hidden(x8, layer.ffn)
        x = self.residual(normal if post else x, hidden, layer.ffn.down, layer.ffn.residual_shift)
        return self.normalize(x, layer.norm2) if post else (x, x8)

    def hidden(self, x8: Codes, ffn: FeedForward) -> Codes:
        """The operand of `down`."""
        high, *low = self.activated(x8, ffn.activated)
        if ffn.gate_shift is None:
            return (high, low[0]) if low else high
        gate = self.cast(high, TensorProto.INT64)
        if low:
            gate = self.node("Mul", gate, 1 << LOW_BITS)
            gate = self.node("Add", gate, self.cast(low[0], TensorProto.INT64))
        product = self.node("Mul", gate, self.scaled(x8, ffn.up, 16))
        product = self.round_shift(product, np.array(ffn.gate_shift))
        if not low:
            return self.cast(self.limit(product, 8), TensorProto.INT32)
        x = self.limit(product, 16)
        codes = self.limit(self.round_shift(x, np.array(LOW_BITS)), 8)
        return self.cast(codes, TensorProto.INT32), self.low_half(x, codes)

    def places(self) -> str:
        """0, 1, ... of every token."""
        count = self.node("Squeeze", self.node("Shape", self.mask))
        return self.node("Range", 0, count, 1)

    def distances(self) -> str:
        """k - q of every query and key, int64 [tokens, tokens]."""
        key = self.places()
        return self.node("Sub", key, self.node("Unsqueeze", key, np.array([1])))

    def position_bias(self) -> str | None:
        """Of every head, query and key, int64 [heads, tokens, tokens]."""
        table = self.model.position_bias
        if table is None:
            return None
        column = self.node("Add", self.distance, table.shape[1] // 2)
        return self.cast(self.node("Gather", table, column, axis=1), TensorProto.INT64)

    def cosines_and_sines(self, table: Rotary) -> tuple[str, str]:
        """Of every token and pair, int64 [tokens, 1, d / 2] each."""
        place = self.places()
        cos, sin = (self.table(turns[:, None], place) for turns in (table.cos, table.sin))
        return self.cast(cos, TensorProto.INT64), self.cast(sin, TensorProto.INT64)

    def turned(self, u: str, heads: int, rotary: int) -> str:
        """The heads of Q or K by the numbers of 16 bits of which they are made, int32."""
        cos, sin = self.angles[rotary]
        pairs = self.node("Reshape", u, np.array([-1, heads, self.shape.head_size // 2, 2]))
        x, y = (self.node("Gather", pairs, side, axis=3) for side in (0, 1))
        both = (
            self.node("Sub", self.node("Mul", x, cos), self.node("Mul", y, sin)),
            self.node("Add", self.node("Mul", y, cos), self.node("Mul", x, sin)),
        )
        codes = (self.limit(self.round_shift(side, np.array(SHIFT)), 8) for side in both)
        sides = (self.node("Unsqueeze", side, np.array([3])) for side in codes)
        return self.cast(self.node("Concat", *sides, axis=3), TensorProto.INT32)

    def heads(self, x8: Codes, part: Linear, rotary: int | None) -> str:
        """Q, K or V, int32 [tokens, heads, d]; a head of K or V as often as it is read."""
        heads, size = len(part.weight) // self.shape.head_size, self.shape.head_size
        flat = (
            self.linear(x8, part)
            if rotary is None
            else self.turned(self.scaled(x8, part, 16), heads, rotary)
        )
        split = self.node("Reshape", flat, np.array([-1, heads, size]))
        if heads == self.shape.heads:
            return split
        return self.node("Gather", split, np.arange(self.shape.heads) % heads, axis=1)

    def seen(self, window: Window | None) -> str:
        """The keys that each query sees, bool [tokens] or [tokens, tokens]."""
        seen = self.attend
        if window is not None and window.before is not None:
            near = self.node("GreaterOrEqual", self.distance, -window.before)
            seen = self.node("And", seen, near)
        if window is not None and window.after is not None:
            near = self.node("LessOrEqual", self.distance, window.after)
            seen = self.node("And", seen, near)
        return seen

    def attention(self, x8: Codes, layer: Layer) -> str:
        parameters, seen = layer.attention, self.seen(layer.window)
        q, k, v = (
            self.node("Transpose", self.heads(x8, part, rotary), perm=order)
            for part, rotary, order in (
                (parameters.q, layer.rotary, [1, 0, 2]),
                (parameters.k, layer.rotary, [1, 2, 0]),
                (parameters.v, None, [1, 0, 2]),
            )
        )
        acc = self.node("MatMul", q, k)
        m, s = np.array(parameters.score_m), np.array(parameters.score_s)
        scores = self.requantize(acc, m, s, 16)
        if self.bias is not None:
            scores = self.limit(self.node("Add", scores, self.bias), 16)
        scores = self.node("Where", seen, scores, -32768)
        narrow = self.cast(scores, TensorProto.INT32)
        highest = self.node("ReduceMax", narrow, axes=[-1], keepdims=1)
        d = self.node("Sub", self.cast(highest, TensorProto.INT64), scores)
        p = self.node("Where", seen, self.table(_p(), self.smaller(d, _FURTHEST)), 0)
        # Of a query that sees no valid key the sum is 0, and so is the context, by any scale.
        row_m, row_s = self.row_scale(self.sum(p), parameters.context_m, parameters.context_s)
        acc = self.node("MatMul", self.cast(p, TensorProto.INT32), v)
        context = self.node("Transpose", self.requantize(acc, row_m, row_s, 8), perm=[1, 0, 2])
        joined = self.node("Reshape", context, np.array([-1, self.shape.inner]))
        return self.cast(joined, TensorProto.INT32)

    def pool(self, x8: Codes) -> Codes:
        """int32 [1, H], without pooling [tokens, H]"""
        if self.shape.pooling == "none":
            return x8
        high, *low = (x8,) if isinstance(x8, str) else x8
        if self.model.mean_m is None or self.model.mean_s is None:
            first = self.table(high, np.array([0]))
            return (first, self.table(low[0], np.array([0]))) if low else first
        p = self.node("Unsqueeze", self.node("Where", self.attend, 255, 0), np.array([0]))
        row_m, row_s = self.row_scale(self.sum(p), self.model.mean_m, self.model.mean_s)
        acc = self.node("MatMul", self.cast(p, TensorProto.INT32), high)
        return self.cast(self.requantize(acc, row_m, row_s, 8), TensorProto.INT32)


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64)


def _p() -> np.ndarray:
    """p by d, the distance from the highest score, 0 to _FURTHEST."""
    p, _, _ = softmax.softmax(-np.arange(_FURTHEST + 1, dtype=np.int16), np.array(True))
    return p.astype(np.int64)
