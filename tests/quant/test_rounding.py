from functools import partial

import numpy as np
import pytest

from golden import encoder
from golden.model import Linear
from quant.calibrate import observe_all
from quant.quantize import rounding
from quant.quantize.encoder import quantize
from quant.quantize.options import Options
from quant.quantize.quantizers import nearest_codes
from quant.quantize.rounding import BLOCK, DAMPING, Moments, joint_codes, to_codes, watch
from tests.quant import tiny
from tests.quant.test_quantize import VARIED, checkpoint, inputs


def correlated(rows: int, channels: int, seed: int) -> np.ndarray:
    """int8 codes whose channels differ in spread and depend on each other [rows, channels]."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(4, 30, channels)
    mixed = rng.normal(0, 1, (rows, channels)) @ rng.normal(0, 1, (channels, channels))
    return np.rint(mixed / np.sqrt(channels) * spread).clip(-128, 127).astype(np.float32)


def moments_of(x: np.ndarray, parts: int = 1) -> Moments:
    moments = Moments()
    memory = np.empty_like(x)
    for part in np.array_split(x, parts):
        memory[: len(part)] = part
        moments.add(memory[: len(part)])  # used again, as the engine does
    return moments


def output_errors(weight: np.ndarray, codes: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The diagonal of D H D^T [out]."""
    d = weight - codes
    return np.einsum("oi,ij,oj->o", d, h, d)


def paper_codes(weight: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Algorithm 1 of Frantar et al., a column at a time, the largest of h's diagonal first."""
    k = len(h)
    order = np.argsort(np.diag(h), kind="stable")[::-1]
    h = h[np.ix_(order, order)] + DAMPING * np.diag(h).mean() * np.eye(k)
    u = np.linalg.cholesky(np.linalg.inv(h)).T  # H^-1 = U^T U
    w, codes = weight[:, order].copy(), np.empty_like(weight)
    for j in range(k):
        codes[:, j] = np.clip(np.floor(w[:, j] + 0.5), -127, 127)
        error = (w[:, j] - codes[:, j]) / u[j, j]
        w[:, j:] -= np.outer(error, u[j, j:])
    return codes[:, np.argsort(order)]


def test_two_columns_by_hand() -> None:
    """(0.4, 0.4) becomes (1, 0): the second column's error asks for 0.4 * 0.99 / 1.01 more."""
    weight, h = np.array([[0.4, 0.4]]), np.array([[1.0, 0.99], [0.99, 1.0]])
    assert joint_codes(weight, h).tolist() == [[1.0, 0.0]]
    assert output_errors(weight, np.zeros((1, 2)), h) == pytest.approx([0.6368])
    assert output_errors(weight, np.array([[1.0, 0.0]]), h) == pytest.approx([0.0448])
    assert joint_codes(weight, h * 1e9).tolist() == [[1.0, 0.0]]  # whatever the factor


@pytest.mark.parametrize(
    ("channels", "columns"), [(1, 64), (3, 64), (24, 64), (90, 1), (90, 7), (90, 64)]
)
def test_the_codes_are_those_of_the_paper(channels, columns, monkeypatch):
    """Whatever columns go together."""
    weight = np.random.default_rng(2).uniform(-127, 127, (40, channels))
    h = moments_of(correlated(500, channels, 3)).matrix()
    monkeypatch.setattr(rounding, "COLUMNS", columns)
    np.testing.assert_array_equal(joint_codes(weight, h), paper_codes(weight, h))


def test_more_rows_than_an_int32_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """131,071 rows of 128 * 128 fit, one more does not."""
    assert (rounding.INT32_ROWS, 131_072 * 128**2) == (131_071, 2**31)
    x = correlated(3 * BLOCK, 4, 11)
    expected = moments_of(x, 7).matrix()
    monkeypatch.setattr(rounding, "INT32_ROWS", BLOCK)
    wide = moments_of(x, 7)
    np.testing.assert_array_equal(wide.matrix(), expected)
    assert [strip.dtype for strip in wide._strips] == [np.int64]


def test_operands_that_say_nothing_leave_weights_to_nearest() -> None:
    weight = np.random.default_rng(14).uniform(-127, 127, (5, 6))
    nearest = nearest_codes(weight)
    np.testing.assert_array_equal(joint_codes(weight, np.zeros((6, 6))), nearest)
    constant = moments_of(np.full((50, 6), 77, np.float32))
    np.testing.assert_array_equal(to_codes(constant)(weight), nearest)
    few = moments_of(correlated(5, 6, 15))
    assert to_codes(few) is nearest_codes
    assert to_codes(moments_of(correlated(6, 6, 15))) is not nearest_codes
    assert to_codes(None) is nearest_codes


@pytest.mark.parametrize("value", [0, -128, 5])
def test_a_constant_channel_is_rounded_by_itself(value: int) -> None:
    weight = np.random.default_rng(16).uniform(-127, 127, (9, 7))
    x = correlated(90, 7, 17)
    x[:, 2] = value
    codes = joint_codes(weight, moments_of(x).matrix())
    np.testing.assert_array_equal(codes[:, 2], nearest_codes(weight[:, 2]))
    rest = [0, 1, 3, 4, 5, 6]
    assert (codes[:, rest] != nearest_codes(weight[:, rest])).any()


@pytest.mark.parametrize("parts", [1, 7])
def test_moments_are_exact(parts: int) -> None:
    rng = np.random.default_rng(18)
    x = rng.integers(-128, 128, (2 * BLOCK + 100, 9)).astype(np.float32)
    x[:, 0], x[:, 1] = -128, 127
    exact = x.astype(np.int64)
    moments = moments_of(x, parts)
    assert moments.rows == len(x)
    products, sums = exact.T @ exact, exact.sum(axis=0)
    expected = len(x) * products - np.outer(sums, sums)
    np.testing.assert_array_equal(moments.matrix(), expected)
    assert not moments.matrix()[:2].any()


@pytest.mark.parametrize("choices", VARIED)
@pytest.mark.parametrize(
    "others",
    [("centre", "balance", "split", "shift", "wide"), pytest.param((), marks=pytest.mark.slow)],
)
def test_every_layer_of_an_encoder_is_rounded_anew(choices: dict, others: tuple) -> None:
    """Its codes change and no scale does; the bounds are those of the new codes."""
    source = checkpoint(**choices)
    texts = inputs(40, 1, source.spec)
    plain = tiny.quantized(source, texts, Options(remedies=others))
    joint = tiny.quantized(source, texts, Options(remedies=(*others, "round")))
    assert joint.info["weights"] == plain.info["weights"]
    assert joint.info["tensors"] == plain.info["tensors"]
    for proof in joint.info["proof"].values():
        assert proof["bound"] < proof["limit"]
    changed = 0
    for (name, before), (_, after) in zip(layers(plain.model), layers(joint.model)):
        changed += int((before.weight != after.weight).any())
        bound = (128 * np.abs(after.weight.astype(int)).sum(axis=1) + np.abs(after.bias)).max()
        assert joint.info["proof"][name]["bound"] == bound
    whole = len(layers(joint.model)) - len(joint.model.head)
    assert whole == 6 * source.spec.layers + bool(source.spec.embedding_size)
    assert changed >= whole  # of a head not, where 40 texts give fewer rows than channels ask for


def layers(model: encoder.Model) -> list[tuple[str, Linear]]:
    found = []
    if model.projection is not None:
        found.append(("embedding.projection", model.projection))
    for i, layer in enumerate(model.layers):
        found += [(f"layer.{i}.{key}", getattr(layer.attention, key)) for key in "qkvo"]
        found += [(f"layer.{i}.ffn.{key}", getattr(layer.ffn, key)) for key in ("up", "down")]
    return found + [(f"head.{j}", layer) for j, layer in enumerate(model.head)]


def test_what_golden_reads_is_what_counts() -> None:
    """The error of a layer's output on its own integer operands, against that of nearest."""
    source = checkpoint()
    texts = inputs(60, 1, source.spec)
    rng = np.random.default_rng(20)
    for name in source.arrays:
        if name.endswith(("o.weight", "up.weight", "down.weight")):
            source.arrays[name] = rng.normal(0, 0.2, source.arrays[name].shape)
    observers = observe_all(source, texts)[0]
    models = []
    for remedies in ((), ("round",)):
        options = Options(remedies=remedies)
        models.append(
            quantize(source.spec, source.arrays, observers, options, partial(watch, texts=texts))
        )
    moments = watch(models[0].model, texts)
    for name, operand in (
        ("layer.0.o", "layer.0.context"),
        ("layer.1.ffn.up", "layer.1.attention.x8"),
        ("layer.1.ffn.down", "layer.1.ffn.hidden"),
    ):
        weight = source.arrays[f"{name}.weight"]
        errors = []
        for quantized in models:
            scales = np.array(quantized.info["weights"][name]["scales"])
            codes = dict(layers(quantized.model))[name].weight
            h = moments[operand].matrix()
            errors.append(output_errors(weight / scales[:, None], codes, h).sum())
        assert errors[1] < 0.8 * errors[0], name
