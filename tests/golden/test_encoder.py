import re
from dataclasses import replace

import numpy as np
import pytest

from golden.encoder import run, run_batch
from tests import zoo
from tests.golden.reference import ref_run
from tests.tiers import quick
from tests.zoo import FAMILIES, family

BERT = zoo.model("bert-tiny", 0, layers=1, head_size=5, ffn=16, labels=3, positions=12)


TYPES = {
    r"layer\.\d+\.(sum|row_m|row_s)|logits": np.int32,
    r"layer\.\d+\.p": np.uint8,
    r".*\.(sum|norm|scores|max)": np.int16,
    r".*": np.int8,
}


def kind_of(name: str) -> type:
    """The type of that name of the trace, where no operand is wide."""
    return next(kind for pattern, kind in TYPES.items() if re.fullmatch(pattern, name))


@pytest.mark.parametrize("name", zoo.SHAPES)
@pytest.mark.parametrize("tokens", quick([9, 1, 2, 10], 2))
@pytest.mark.parametrize("kind", zoo.GOLDEN_KINDS)
def test_every_intermediate_equals_the_reference(name: str, tokens: int, kind: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        model = zoo.model(name, seed, **zoo.GOLDEN_KINDS[kind])
        shape = model.shape
        ids = rng.integers(0, shape.vocabulary, tokens)
        types = rng.integers(0, max(shape.types, 1), tokens)
        attend = rng.random(tokens) < 0.7
        attend[rng.integers(tokens)] = True
        trace: dict[str, np.ndarray] = {}
        logits = run(model, ids, types, attend, trace)
        expected = ref_run(model, ids.tolist(), types.tolist(), attend.tolist())
        assert list(trace) == list(expected)
        assert [key for key in trace if trace[key].tolist() != expected[key]] == []
        assert logits is trace["logits"]
        wide = {} if "precise" in zoo.GOLDEN_KINDS[kind] else trace
        assert [key for key in wide if trace[key].dtype != kind_of(key)] == []


def test_odd_heads_ffn_and_labels_equal_the_reference() -> None:
    """3 heads of 32, FFN 200, 5 labels: no power of two, at a size with real sums."""
    model = family("three-heads", replace(FAMILIES["three-heads"], layers=1))
    trace: dict[str, np.ndarray] = {}
    run(model, [3, 1, 4, 1, 5, 9], trace=trace)
    expected = ref_run(model, [3, 1, 4, 1, 5, 9], [0] * 6, [True] * 6)
    assert [key for key in trace if trace[key].tolist() != expected[key]] == []


def test_without_pooling_the_head_has_a_row_for_every_token() -> None:
    """Masked tokens, too: they attend to the others, and none to them."""
    model = zoo.model("every-token-pre-norm", 0, labels=3)
    trace: dict[str, np.ndarray] = {}
    logits = run(model, range(7), attend=[1, 1, 1, 1, 1, 0, 0], trace=trace)
    assert (trace["pooled"].shape, trace["head.0"].shape) == ((7, 8), (7, 8))
    assert trace["pooled"].tolist() == trace["final.x8"].tolist()
    assert (logits.shape, logits.dtype) == ((7, 3), np.int32)
    assert logits[:5].tolist() == run(model, range(5)).tolist()
    assert len(np.unique(logits, axis=0)) == 7


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_masked_tokens_change_nothing(pooling: str) -> None:
    """Padding, and holes that hold any tokens."""
    model = zoo.model("bert-tiny", 2, pooling=pooling)
    ids = [7, 3, 9, 9, 1]
    padded = run(model, [*ids, *[0] * 6], attend=[1] * 5 + [0] * 6)
    assert padded.tolist() == run(model, ids).tolist()
    assert run(model, [*ids, *[0] * 6]).tolist() != padded.tolist()
    one, other = (run(model, [7, x, 9, y, 1], attend=[1, 0, 1, 0, 1]) for x, y in ((3, 9), (5, 8)))
    assert one.tolist() == other.tolist()


def test_defaults_are_type_zero_and_no_mask() -> None:
    model = zoo.model("bert-tiny", 4)
    plain = run(model, [5, 6, 7])
    assert plain.tolist() == run(model, [5, 6, 7], [0, 0, 0], [1, 1, 1]).tolist()
    assert plain.tolist() != run(model, [5, 6, 7], [0, 1, 1]).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), r"ids has shape \(0,\); allowed one or more integers"),
        (([[1, 2]],), r"ids has shape \(1, 2\); allowed one or more integers"),
        (([1] * 13,), r"ids has 13 tokens; allowed 1\.\.12 for this model"),
        (([1, 30],), r"ids\[1\] is 30; allowed 0\.\.29"),
        (([-1],), r"ids\[0\] is -1; allowed 0\.\.29"),
        (([1, 1 << 63],), r"ids\[1\] is 9223372036854775808; allowed 0\.\.29"),
        ((np.array([1 << 63], np.uint64),), r"ids\[0\] is 9223372036854775808; allowed 0\.\.29"),
        (([3, -(1 << 64)],), r"ids\[1\] is -18446744073709551616; allowed 0\.\.29"),
        (([1, None],), "ids has dtype object; allowed integers"),
        ((np.array([1.0, 2.0]),), "ids has dtype float64; allowed integers"),
        (([0.5],), "ids has dtype float64; allowed integers"),
        (([1, 2], [0, 2]), r"types\[1\] is 2; allowed 0\.\.1"),
        (([1, 2], [0]), r"types has shape \(1,\); allowed 2, one a token"),
        (([1, 2], None, [1, 1, 1]), r"attend has shape \(3,\); allowed 2, one a token"),
        (([1, 2], None, [1, 3]), r"attend\[1\] is 3; allowed 0\.\.1"),
        (([1, 2], None, [0, 0]), "attend is 0 for every token"),
    ],
)
def test_bad_input_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(BERT, *arguments)


@pytest.mark.parametrize("name", ["bert-tiny", "post-norm-mean", "pre-norm"])
def test_a_batch_is_its_texts_one_by_one(name: str) -> None:
    rng, lengths = np.random.default_rng(1), [3, 1, 12, 5]
    model = zoo.model(name, 2)
    shape = model.shape
    ids = rng.integers(0, shape.vocabulary, sum(lengths))
    types = rng.integers(0, max(shape.types, 1), sum(lengths))
    attend = rng.random(sum(lengths)) < 0.7
    attend[np.cumsum(lengths) - 1] = True
    traces: list[dict[str, np.ndarray]] = []
    logits = run_batch(model, ids, types, attend, lengths, traces)
    assert logits.dtype == np.int32
    parts = [np.split(x, np.cumsum(lengths)[:-1]) for x in (ids, types, attend)]
    for got, trace, *text in zip(logits, traces, *parts, strict=True):
        expected = ref_run(model, *(x.tolist() for x in text))
        assert got.tolist() == expected["logits"]
        assert {key: trace[key].tolist() for key in trace} == expected
    assert run_batch(model, ids, None, None, lengths)[1].tolist() == run(model, ids[3:4]).tolist()


@pytest.mark.parametrize(
    ("lengths", "types"), [([], None), ([2, 2], None), ([3, 0], None), ([4, -1], None), ([3], [0])]
)
def test_lengths_that_are_not_those_of_the_texts(lengths: list[int], types: list | None) -> None:
    with pytest.raises(ValueError, match=r"lengths are \[.*\]; allowed 1 and more each, as many"):
        run_batch(BERT, [1, 2, 3], types, None, lengths)
