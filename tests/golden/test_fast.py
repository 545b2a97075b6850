"""golden.fast against the specification, bit for bit."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from gc import collect
from unittest.mock import Mock
from weakref import ref

import numpy as np
import pytest

from golden import fast
from golden.encoder import run
from golden.fast import Engine, engine, kernels, products
from golden.fast.products import FLOAT32_EXACT, FloatProducts, IntegerProducts, sum_type
from golden.layernorm import layernorm
from golden.linear import high_half, operand
from golden.matmul import matmul
from golden.model import RMS_HIDDEN_MAX, Model, Norm, Shape
from golden.random import random_model
from golden.requantize import requantize
from golden.softmax import row_scale, softmax
from tests import zoo
from tests.tiers import quick

#: One of them has sums as large as those of real models.
NAMES = (*zoo.SHAPES, zoo.REAL)


def texts(shape: Shape, seed: int, count: int, longest: int) -> Iterator[tuple]:
    """Random texts of random lengths; half have a mask with holes, segments where there are any."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        length = int(rng.integers(1, longest + 1)) if i else longest
        attend = rng.random(length) < 0.7
        attend[rng.integers(length)] = True
        types = rng.integers(0, max(shape.types, 1), length)
        ids = rng.integers(0, shape.vocabulary, length)
        yield ids, types if i % 3 else None, attend if i % 2 else None


@pytest.fixture(params=["BLAS", "integers"])
def by(request: pytest.FixtureRequest) -> FloatProducts:
    if request.param == "BLAS":
        return FloatProducts()
    found = products.load()
    assert found, "onnxruntime is of the tests' requirements, and exact on every CPU that it knows"
    return found


@pytest.mark.parametrize("kind", quick(zoo.GOLDEN_KINDS))
@pytest.mark.parametrize("name", NAMES)
def test_batches_of_every_shape(name: str, by: FloatProducts, kind: str) -> None:
    """Logits, and every name, type, shape and value of the traces."""
    for seed in range(2):
        model = zoo.model(name, seed, **zoo.GOLDEN_KINDS[kind])
        batch = list(texts(model.shape, seed, 12, min(40, model.shape.tokens)))
        its, traces, logits = Engine(model, by), [dict[str, np.ndarray]() for _ in batch], []
        for text, trace in zip(batch, traces):
            logits.append(run(model, *text, trace=trace))
        for places in (range(12), range(1, 2)):
            some = list(zip(*(batch[place] for place in places)))
            found = its.run_batch(*some)
            assert found.dtype == np.int32
            assert found.tolist() == np.vstack([logits[place] for place in places]).tolist()
            for trace, place in zip(its.trace_batch(*some), places, strict=True):
                assert trace.keys() == traces[place].keys()
                for key, x in traces[place].items():
                    assert (trace[key].dtype, trace[key].shape) == (x.dtype, x.shape), key
                    np.testing.assert_array_equal(trace[key], x, err_msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_what_linear_layers_read_is_shown(name: str, by: FloatProducts) -> None:
    """By its name in the trace, a row a token without padding, high halves of what is wide."""
    for kind in ("plain", "all"):
        model = zoo.model(name, 3, **zoo.GOLDEN_KINDS[kind])
        batch = list(texts(model.shape, 5, 5, min(40, model.shape.tokens)))
        ids, types, _ = zip(*batch)
        seen, expected = defaultdict[str, list](list), defaultdict[str, list](list)
        watch = Engine(model, by).watch_batch
        watch(lambda key, x, seen=seen: seen[key].append((x.dtype, x.tolist())), ids, types)
        for text, segments in zip(ids, types):
            trace: dict[str, np.ndarray] = {}
            run(model, text, segments, trace=trace)
            for key, x in trace.items():
                expected[key] += np.atleast_2d(high_half(x)).tolist()
        read = re.compile(r"(.*\.)?(x8|context|hidden|pooled|head\.\d+)")
        assert seen.keys() == {key for key in expected if read.fullmatch(key)}
        for key, [(kind_of, found), *more] in seen.items():
            assert (kind_of, more) == (np.float32, [])
            assert sorted(found) == sorted(expected[key]), key


def test_inputs_of_any_kind() -> None:
    """Lists, tuples, one array of all texts, and none are the same integers."""
    model = zoo.model("bert-tiny", 3)
    rng = np.random.default_rng(6)
    ids, types = rng.integers(0, 30, (3, 5)), rng.integers(0, 2, (3, 5))
    attend = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]])
    kinds = (np.array, np.ndarray.tolist, list, lambda x: tuple(map(tuple, x)), lambda x: x * 1)
    expected = [run(model, *text) for text in zip(ids, types, attend)]
    for make in kinds:
        given = [make(x) for x in (ids, types, attend)]
        np.testing.assert_array_equal(fast.run_batch(model, *given), expected)
        traces = fast.trace_batch(model, *given)
        np.testing.assert_array_equal([trace["logits"] for trace in traces], expected)
    masked = [run(model, text, attend=mask) for text, mask in zip(ids, attend != 0)]
    for none in (None, [None] * 3, [None, np.zeros(5, int), [0] * 5]):
        np.testing.assert_array_equal(fast.run_batch(model, ids, none, attend != 0), masked)
    for text in (ids[1], ids[1].tolist(), ids[1].astype(np.uint8)):
        assert fast.run(model, text).tolist() == run(model, ids[1]).tolist()


@pytest.mark.slow
def test_lengths_beyond_what_float32_sums_exactly() -> None:
    """255 * 128 * 600 > 2^24: the context's sums go through float64."""
    shape = Shape(2, 32, 2, 16, 40, 2, 50, 1100, 0, pooling="mean")
    assert sum_type(514 * 255 * 128) is np.float32
    assert sum_type(515 * 255 * 128) is np.float64
    with pytest.raises(ValueError, match=r"allowed 0\.\.2\^53"):
        sum_type((1 << 53) + 1)
    model = random_model(shape, 0)
    batch = [np.random.default_rng(0).integers(0, 50, n) for n in (1100, 3, 514, 515)]
    assert fast.run_batch(model, batch).tolist() == [run(model, x).tolist() for x in batch]


def test_equal_tokens_fill_the_context_sums() -> None:
    """Every p is 255 and V is the same everywhere: the largest sums that the context can have."""
    model = zoo.model(zoo.REAL, positions=514)
    low = {"token_low": None, "position_low": None}
    tables = replace(model.embedding, position=np.zeros((2, 514, 128), np.int8), **low)
    its = model.layers[0].attention.v
    bias, s = np.full(128, -(1 << 30), np.int32), np.full(128, 20, np.int32)
    v = replace(its, weight=np.zeros_like(its.weight), bias=bias, s=s)
    layers = [replace(x, attention=replace(x.attention, v=v)) for x in model.layers]
    model = replace(model, embedding=tables, layers=tuple(layers))
    ids, trace = [7] * 514, dict[str, np.ndarray]()
    expected = run(model, ids, trace=trace)
    assert (trace["layer.0.v"] == -128).all()
    assert trace["layer.0.sum"].max() == 255 * 514
    assert fast.run(model, ids).tolist() == expected.tolist()


def test_more_texts_than_go_together() -> None:
    model = zoo.model("three-heads", 0, layers=2, positions=40)
    batch = list(texts(model.shape, 5, 150, 40))
    logits = fast.run_batch(model, *zip(*batch))
    assert logits.tolist() == [run(model, *text).tolist() for text in batch]


def test_a_model_is_prepared_as_long_as_it_lives() -> None:
    """And two of them do not mix."""
    first, second = (zoo.model("post-norm-mean", seed) for seed in (0, 1))
    prepared = set()
    for model in (first, second, first):
        assert fast.run(model, [4, 5]).tolist() == run(model, [4, 5]).tolist()
        assert fast.run_batch(model, []).shape == (0, model.shape.labels)
        prepared.add(engine._engines[model])
    assert len(prepared) == 2
    gone = ref(second)
    del second, model
    prepared.clear()
    collect()
    assert gone() is None


def test_bad_input_is_refused_as_golden_refuses_it() -> None:
    model = zoo.model("post-norm-mean", 0, labels=3, vocabulary=300, types=1)
    with pytest.raises(ValueError, match=r"ids\[1\] is 300; allowed 0\.\.299"):
        fast.run_batch(model, [[1], [2, 300]])
    with pytest.raises(ValueError, match="attend is 0 for every token"):
        fast.run(model, [1], attend=[0])
    with pytest.raises(ValueError, match="types holds 1 texts; allowed 2, as ids"):
        fast.run_batch(model, [[1], [2]], types=[[0]])


@pytest.mark.parametrize("k", [1, 128, 1032, 1033, 3072, 9000])
def test_every_part_of_a_weight_is_exact(k: int) -> None:
    """The worst weights and operands: all products of one sign and the largest size."""
    weight = np.full((3, k), 127, np.int8)
    weight[1] = -127
    weight[2, ::2] = 5
    parts = FloatProducts().prepare(weight)
    assert [last for _, last, _ in parts] == [first for first, _, _ in parts[1:]] + [k]
    for first, last, part in parts:
        assert part.dtype == np.float32
        assert 128 * np.abs(part).sum(axis=0, dtype=np.float64).max() <= FLOAT32_EXACT
        assert (part == weight[:, first:last].T).all()
    assert len(parts) == -(-k // 1032)
    x8 = np.full((2, k), -128, np.int8)
    x8[1] = np.random.default_rng(k).integers(-128, 128, k)
    acc = FloatProducts().multiply(x8.astype(np.float32), parts, np.empty((2, 3), np.float32))
    assert acc.astype(np.int64).tolist() == matmul(x8, weight.T).tolist()


@pytest.mark.parametrize("k", [1, 2, 64, 1032, 4096])
@pytest.mark.parametrize("rows", [1, 2, 13])
@pytest.mark.parametrize("signed", [True, False])
def test_integer_products(k: int, rows: int, signed: bool) -> None:
    """The largest sums of either sign beside random ones, in odd shapes."""
    by = products.load() if signed else IntegerProducts(signed=False)
    assert by
    rng = np.random.default_rng(k)
    weight = rng.integers(-127, 128, (37, k), dtype=np.int8)
    weight[:2] = [[127], [-127]]
    x8 = rng.integers(-128, 128, (rows, k), dtype=np.int8)
    x8[0] = -128
    bytes_ = (x8.astype(int) + by.zero).astype(by.operand)
    acc = np.empty((rows, 37), by.sums)
    by.multiply(bytes_, by.prepare(weight), acc)
    assert acc.tolist() == matmul(x8, weight.T).tolist()


@pytest.mark.parametrize("there", [True, False])
def test_integer_products_take_over(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """After so many products, once; in the same integers; BLAS goes on where there are none."""
    model = zoo.model("three-heads", 3, hidden=96, head_size=32, ffn=200, positions=40)
    shape = model.shape
    batch = list(texts(shape, 3, 4, 40))
    expected = [run(model, *text).tolist() for text in batch]
    tokens = sum(len(ids) for ids, _, _ in batch)
    weights = shape.layers * (4 * 96 * 96 + 2 * 96 * 200)
    monkeypatch.setattr(engine, "WORTH_LOADING", 2 * tokens * weights)
    load = Mock(return_value=products.load() if there else None)
    monkeypatch.setattr(engine, "load", load)
    made = Engine(model)
    kinds = []
    for _ in range(4):
        assert made.run_batch(*zip(*batch)).tolist() == expected
        kinds.append(type(made.products))
    then = IntegerProducts if there else FloatProducts
    assert kinds == [FloatProducts, FloatProducts, then, then]
    load.assert_called_once_with()


@pytest.mark.parametrize("saturating", [[], [True], [False, True]])
def test_products_that_are_not_exact_are_left(
    monkeypatch: pytest.MonkeyPatch, saturating: list[bool]
) -> None:
    """A CPU that saturates pairs of products where weights are signed, or in any case."""

    class Products(IntegerProducts):
        def __init__(self, signed: bool) -> None:
            super().__init__(signed)
            self.signed, self.zeros = signed, 0 if signed else 128

        def multiply(self, x: np.ndarray, weight: np.ndarray, acc: np.ndarray) -> np.ndarray:
            codes = weight.astype(int) - self.zeros
            pairs = sum(x[:, i::2].astype(int)[..., None] * codes[i::2] for i in (0, 1))
            if self.signed in saturating:
                pairs = np.clip(pairs, -32768, 32767)
            acc[:] = pairs.sum(axis=1) - 128 * codes.sum(axis=0)
            return acc

    monkeypatch.setattr(products, "IntegerProducts", Products)
    found = products.load()
    kind = None if found is None else found.prepare(np.zeros((1, 1), np.int8)).dtype
    assert kind == {0: np.int8, 1: np.uint8, 2: None}[len(saturating)]


def test_without_onnxruntime_there_are_no_integer_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert products.load() is None


def test_wide_layers_split_along_k() -> None:
    """FFN of 2,500 random weights needs two parts; golden and fast agree all the same."""
    model = random_model(Shape(1, 16, 2, 8, 2500, 2, 50, 16, 0), 0)
    assert len(FloatProducts().prepare(model.layers[0].ffn.down.weight)) == 2
    assert fast.run(model, [1, 2, 3]).tolist() == run(model, [1, 2, 3]).tolist()


def accumulators(size: int, s: np.ndarray, m: np.ndarray, bits: int, seed: int) -> np.ndarray:
    """int32 values of every magnitude, half of them around ties and saturation."""
    rng = np.random.default_rng(seed)
    acc = rng.integers(-(1 << 31), 1 << 31, size) >> rng.integers(0, 31, size)
    target = rng.integers(-(1 << bits), 1 << bits, size) * 2 + 1  # odd halves
    tie = (target << (s - 1)) // m
    return np.where(rng.random(size) < 0.5, np.clip(tie, -(1 << 31), (1 << 31) - 1), acc)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_requantize_over_the_whole_range(kind: type) -> None:
    """Extremes of acc + bias, m and s, in every kernel that requantizes, against golden."""
    rng = np.random.default_rng(0)
    size = 40_000
    m = rng.integers(1 << 15, 1 << 16, size)
    s = rng.integers(1, 48, size)
    total = accumulators(size, s, m, 8, 1)
    limit = FLOAT32_EXACT if kind is np.float32 else 1 << 31
    acc = np.clip(total, -limit, limit - 1)
    bias = np.clip(total - acc, -(1 << 31), (1 << 31) - 1)
    factor = np.ldexp(m, -s)
    arguments = acc.astype(kind)[None], bias.astype(np.float64), factor
    out = np.empty((1, size), np.float32)

    codes = requantize(acc + bias, m, s)
    for zero in (0, 128):
        kernels.requantize_to_codes(*arguments, zero, out)
        assert (out[0] == codes.astype(int) + zero).all()

    table = rng.integers(-128, 128, 256)
    kernels.requantize_by_table(*arguments, np.roll(table, 128).astype(np.float32), out)
    assert (out[0] == table[codes.view(np.uint8)]).all()

    for shift in (0, 1, 7):
        x = rng.integers(-32768, 32768, (1, size)).astype(np.int16)
        half = (1 << shift) >> 1
        branch = requantize(acc + bias, m, s, 16)
        expected = np.clip(((x.astype(int) + half) >> shift) + branch, -32768, 32767)
        kernels.add_residual(*arguments, x, shift)
        assert (x == expected).all()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("window", [(8192, 8192), (8192, 0), (0, 2), (1, 8192), (5, 3)])
@pytest.mark.parametrize("keys", [1, 5, 64])
def test_softmax_and_row_scale(keys: int, window: tuple[int, int], biased: bool) -> None:
    rng = np.random.default_rng(keys)
    bias = np.empty((0, 0), np.int16)
    if biased:  # of a model of 70 tokens; the kernel has 7 of the queries
        bias = rng.integers(-(1 << 15), 1 << 15, (3, 139), dtype=np.int16)
    for m, s in ((1 << 15, 1), (40_000, 20), (65_535, 24)):
        acc = rng.integers(-(1 << 20), 1 << 20, (2, 3, 7, keys)) >> rng.integers(0, 20)
        attend = rng.random((2, keys)) < 0.6
        attend[:, 0] = max(window) == 8192
        seen = [[-window[0] <= k - q <= window[1] for k in range(keys)] for q in range(7)]
        valid = attend[:, None, None] & np.array(seen)
        p, factor = np.empty(acc.shape, np.float32), np.empty(acc.shape[:3])
        sums = acc.astype(np.float32)
        kernels.softmax(sums, attend, m * 2.0**-s, bias, *window, 50_000, 17, p, factor)
        scores = requantize(acc, m, s, 16)
        if biased:
            of = [[bias[:, k - q + 69] for k in range(keys)] for q in range(7)]
            total = scores.astype(int) + np.array(of).transpose(2, 0, 1)
            scores = np.clip(total, -(1 << 15), (1 << 15) - 1).astype(np.int16)
        expected, _, row_sum = softmax(scores, valid)
        assert (p == expected).all()
        row_m, row_s = row_scale(row_sum, 50_000, 17)
        assert (factor == np.ldexp(row_m, -row_s)).all()


def test_row_scale_of_every_sum() -> None:
    sums = np.arange(255, 1 << 21, 3)
    for m in (1 << 15, 46_341, 65_535):
        row_m, row_s = row_scale(sums, m, 20)
        factors = [kernels.row_scale(x, m, 20) for x in sums.tolist()]
        assert (np.array(factors) == np.ldexp(row_m, -row_s)).all()


@pytest.mark.parametrize("hidden", [1, 12, 128, 1023, 1024])
def test_layernorm_over_the_whole_range(hidden: int) -> None:
    rng = np.random.default_rng(hidden)
    rows = [
        rng.integers(-32768, 32768, (30, hidden)) >> rng.integers(0, 16, (30, 1)),
        np.full((1, hidden), -32768),
        np.full((1, hidden), 32767),
        np.where(np.arange(hidden) < hidden // 2, -32768, 32767)[None],
        np.where(np.arange(hidden) == 0, 32767, -32768)[None],
    ]
    z = np.concatenate(rows).astype(np.int16)
    every = ((1, 1, None), (13, 777, None), (31, (1 << 50) - 1, None), (13, 1, True))
    for shift, epsilon, rms in every[: 3 + (hidden <= RMS_HIDDEN_MAX)]:
        norm = Norm(
            rng.integers(-32768, 32768, hidden).astype(np.int16),
            rng.integers(-(1 << 31), 1 << 31, hidden).astype(np.int32),
            shift,
            epsilon,
            rng.integers(1, 9, hidden).astype(np.uint8),
            rms=rms,
        )
        x16, expected = np.empty_like(z), layernorm(z, norm)
        codes = operand(expected, norm.operand_shifts).astype(int)
        gamma, beta = norm.gamma.astype(np.float64), norm.beta.astype(np.float64)
        scale = 2.0 ** -norm.operand_shifts.astype(int)
        for zero, kind in ((0, np.float32), (128, np.uint8)):
            x8 = np.empty(z.shape, kind)
            kernels.layernorm(z, gamma, beta, shift, epsilon, bool(rms), scale, x16, zero, x8)
            assert (x16 == expected).all()
            assert (x8 == codes + zero).all()


def test_exp2_is_the_table_of_every_distance() -> None:
    scores = -np.arange(kernels.DISTANCES + 1, dtype=np.int16)
    assert (softmax(scores, np.array([True]))[0] == kernels.EXP2).all()


@pytest.mark.slow
def test_real_reviews(calibrated: tuple[Model, list[np.ndarray]]) -> None:
    """The shipped checkpoint on real reviews of up to 512 tokens, in one batch and one by one."""
    model, ids = calibrated
    found = products.load()
    assert found
    expected = [run(model, text).tolist() for text in ids]
    assert len({len(text) for text in ids}) > 8
    assert max(len(text) for text in ids) == 512
    assert fast.run_batch(model, ids).tolist() == expected
    assert Engine(model, found).run_batch(ids).tolist() == expected
    assert [fast.run(model, text).tolist() for text in ids[:4]] == expected[:4]
