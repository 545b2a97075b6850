from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from golden import encoder
from golden.model import Linear
from quant import calibrate
from quant.calibrate import check, choose, distance, observe, observe_all
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import Tokens
from quant.model import float_model
from quant.model.distance import BIAS, alibi, square
from quant.model.spec import EncoderSpec
from quant.quantize.encoder import correct_logits, quantize
from quant.quantize.observers import Observer
from quant.quantize.options import REMEDIES, Options
from quant.quantize.quantizers import CalibrationError
from tests.quant import tiny

VARIED = [
    {},
    {"norm": "pre", "activation": "relu", "types": 0},
    {"norm": "pre", "embedding_norm": False, "pooling": "mean", "activation": "gelu-tanh"},
    {"pooling": "mean", "head_activations": ("relu", "tanh"), "position_offset": 3},
    {"head_activations": ("tanh",), "types": 1, "labels": ("a", "b", "c", "d", "e")},
    {"embedding_size": 9},
    {"embedding_size": 24, "pooling": "mean", "layers": 1},
    {"position_bias": True, "types": 0, "position_offset": 2},
    {"position_bias": True, "norm": "pre", "pooling": "mean", "heads": 2},
    {"pooling": "none", "task": "token-classification"},
    {"pooling": "none", "task": "token-classification", "norm": "pre", "labels": ("a", "b", "c")},
]


def checkpoint(**choices: object) -> Checkpoint:
    """A random encoder whose activations have about the spread of a trained one."""
    fields = {"layers": 2, "hidden": 24, "heads": 3, "head_size": 5, "ffn": 40, "types": 2}
    fields |= {"labels": ("a", "b"), "vocabulary": 50, "positions": 40}
    spec = EncoderSpec(**fields | choices)
    rng = np.random.default_rng(11)
    arrays = {}
    for name, shape in spec.shapes().items():
        size = tuple(9 if width < 0 else width for width in shape)
        arrays[name] = rng.normal(0, 0.1, size).astype(np.float32)
        if name.endswith("weight"):
            arrays[name] *= 10 / np.sqrt(size[1])
        if name.endswith("gamma"):
            arrays[name] += 1
        if name in ("embedding.token", "embedding.position", "embedding.type"):
            arrays[name] *= 10
        if name == BIAS:
            arrays[name] *= 20
    if size := spec.embedding_size:
        for name in ("embedding.token", "embedding.position", "embedding.type"):
            arrays[name][:, size:] = 0
            arrays[name][:, :size] -= arrays[name][:, :size].mean(axis=1, keepdims=True)
        arrays["embedding.norm.beta"][size:] = 0
    return Checkpoint(spec, arrays, Path("nowhere"), "0" * 64, tiny.RESOLVED)


def inputs(count: int, seed: int, spec: EncoderSpec) -> list[Tokens]:
    rng = np.random.default_rng(seed)
    result = []
    for length in rng.integers(1, 30, count):
        ids = rng.integers(0, spec.vocabulary, length).astype(np.int32)
        types = rng.integers(0, max(spec.types, 1), length).astype(np.int32)
        result.append(Tokens(ids, types, ()))
    return result


def kinds() -> list[object]:
    """Every encoder without remedies, and precise with all; one with each; the others are slow."""
    found: list[object] = [
        pytest.param(remedies, precise, choices, marks=[pytest.mark.slow] if precise != at else [])
        for at, remedies in enumerate(((), REMEDIES))
        for precise in (False, True)
        for choices in VARIED
    ]
    return found + [
        pytest.param((name,), False, choices, marks=[pytest.mark.slow] if at != place else [])
        for place, name in enumerate(REMEDIES)
        for at, choices in enumerate(VARIED)
    ]


@pytest.mark.parametrize(("remedies", "precise", "choices"), kinds())
def test_every_kind_of_encoder_follows_its_float_model(remedies, precise, choices):
    source = checkpoint(**choices)
    spec = source.spec
    options = Options(remedies=remedies, precise=precise)
    quantized = tiny.quantized(source, inputs(40, 1, spec), options)
    assert quantized.model.precise == precise
    scale = quantized.info["tensors"]["logits"]["scale"]
    signal, noise = [], []
    for tokens in inputs(40, 2, spec):
        exact = float_model.run(spec, source.arrays, tokens.ids, tokens.types)
        logits = encoder.run(quantized.model, tokens.ids, tokens.types) * scale
        signal.append(exact - exact.mean())
        noise.append(logits - exact)
    ratio = np.square(np.vstack(signal)).sum() / np.square(np.vstack(noise)).sum()
    assert 10 * np.log10(ratio) > 20


@pytest.mark.parametrize("choices", VARIED)
@pytest.mark.parametrize("remedies", [(), REMEDIES])
@pytest.mark.parametrize("precise", [False, True])
def test_every_step_alone_is_right_to_its_last_bit(choices, remedies, precise):
    """In real units, each integer result follows from the integers that it was made of."""
    source = checkpoint(**choices)
    spec = source.spec
    options = Options(remedies=remedies, precise=precise)
    quantized = tiny.quantized(source, inputs(20, 1, spec), options)
    tensors, weights = quantized.info["tensors"], quantized.info["weights"]
    trace: dict[str, np.ndarray] = {}
    tokens = inputs(1, 5, spec)[0]
    encoder.run(quantized.model, tokens.ids, tokens.types, trace=trace)

    def real(name: str) -> np.ndarray:
        return trace[name] * tensors[name]["scale"]

    def heads(name: str) -> np.ndarray:
        return real(name).reshape(-1, spec.heads, spec.head_size).swapaxes(0, 1)

    def linear(name: str, layer: Linear, x: np.ndarray) -> np.ndarray:
        scales = np.array(weights[name]["scales"])
        weight = layer.weight * scales[:, None]
        read = x[..., : weight.shape[1]]  # all channels, or those of a factorised embedding
        return read @ weight.T + layer.bias * scales * weights[name]["input_scale"]

    def close(name: str, exact: np.ndarray, lsb: float) -> None:
        limit = 2.0 ** (tensors[name]["bits"] - 1)
        codes = (exact / tensors[name]["scale"]).clip(-limit, limit - 1)
        assert np.abs(trace[name] - codes).max() <= lsb, name

    def close_sum(name: str, x16: np.ndarray, branch: np.ndarray) -> None:
        # Two roundings to the nearest, and that of a multiplier m of 2^(bits - 1) or more.
        inexact = 2.0**-16 * np.abs(branch).max() / tensors[name]["scale"]
        close(name, x16 + branch, 1.0 + inexact)

    pre = spec.norm == "pre"
    x, x16 = "embedding.x8", "embedding.norm" if spec.embedding_norm else "embedding.sum"
    if quantized.model.projection is not None:
        branch = linear("embedding.projection", quantized.model.projection, real(x))
        rest = trace["embedding.norm"] / 2**15 * tensors["projection.sum"]["scale"]
        close_sum("projection.sum", rest, branch)
        x16 = "projection.sum"
    for i, layer in enumerate(quantized.model.layers):
        name, attention = f"layer.{i}", layer.attention
        x = f"{name}.attention.x8" if pre else x
        for key in "qkv":
            close(f"{name}.{key}", linear(f"{name}.{key}", getattr(attention, key), real(x)), 0.51)
        scores = heads(f"{name}.q") @ heads(f"{name}.k").swapaxes(1, 2) / np.sqrt(spec.head_size)
        if (bias := quantized.model.position_bias) is not None:
            scores = scores + square(bias, len(tokens.ids)) * tensors[BIAS]["scale"]
        close(f"{name}.scores", scores, 0.6)
        p = trace[f"{name}.p"] / trace[f"{name}.sum"][..., None]
        context = (p @ heads(f"{name}.v")).swapaxes(0, 1).reshape(len(p[0]), -1)
        close(f"{name}.context", context, 0.51)
        branch = linear(f"{name}.o", attention.o, real(f"{name}.context"))
        close_sum(f"{name}.attention.sum", real(x16), branch)
        x16 = f"{name}.attention.sum" if pre else f"{name}.attention.norm"
        branch = linear(f"{name}.ffn.down", layer.ffn.down, real(f"{name}.ffn.hidden"))
        close_sum(f"{name}.ffn.sum", real(x16), branch)
        x16 = f"{name}.ffn.sum" if pre else f"{name}.ffn.norm"
        x = f"{name}.ffn.x8"
    last = len(quantized.model.head) - 1
    operand = "pooled" if last == 0 else f"head.{last - 1}"
    floor = int(trace[operand].dtype == np.int16)  # of the sum of low halves
    close("logits", linear(f"head.{last}", quantized.model.head[-1], real(operand)), floor + 1e-3)
    if spec.pooling == "mean":
        close("pooled", real(x if not pre else "final.x8").mean(axis=0), 0.51)


def test_wide_operands_are_what_their_description_says() -> None:
    """int16, 256 steps of the int8 ones; all norms but where a mean or a projection reads them."""
    for choices in VARIED:
        source = checkpoint(**choices)
        texts = inputs(10, 1, source.spec)
        narrow, wide = (
            tiny.quantized(source, texts, Options(precise=precise)) for precise in (False, True)
        )
        trace: dict[str, np.ndarray] = {}
        encoder.run(wide.model, texts[0].ids, texts[0].types, trace=trace)
        operands = [name for name in trace if name.endswith((".x8", ".hidden", "pooled"))]
        for name in operands:
            here, there = (model.info["tensors"][name] for model in (wide, narrow))
            if trace[name].dtype == np.int16:
                assert here["bits"] == 16
                assert here["scale"] == there["scale"] / 256
            else:
                assert here["bits"] == 8
        narrow_ones = {name for name in operands if trace[name].dtype != np.int16}
        last = [name for name in operands if name.endswith(".x8")][-1]
        mean = {last, "pooled"} if source.spec.pooling == "mean" else set()
        projected = {"embedding.x8"} if source.spec.embedding_size else set()
        assert narrow_ones == mean | projected


def test_residual_shift_follows_the_sum() -> None:
    """A branch that dwarfs the stream takes bits from it, and the sum does not saturate."""
    source = checkpoint()
    source.arrays["layer.0.ffn.down.weight"] *= 40
    texts = inputs(30, 1, source.spec)
    quantized = quantize(source.spec, source.arrays, observe_all(source, texts)[0], Options())
    shift = quantized.model.layers[0].ffn.residual_shift
    assert shift >= 3
    assert quantized.info["tensors"]["layer.0.ffn.sum"]["shift"] == shift
    trace: dict[str, np.ndarray] = {}
    for tokens in texts:
        encoder.run(quantized.model, tokens.ids, tokens.types, trace=trace)
        assert np.abs(trace["layer.0.ffn.sum"].astype(int)).max() < 32767


@pytest.fixture(scope="module")
def observers(shipped: Checkpoint, texts: list[Tokens]) -> dict[str, Observer]:
    return observe_all(shipped, texts[:12])[0]


def test_the_shipped_model_keeps_every_bound(shipped, observers):
    quantized = quantize(shipped.spec, shipped.arrays, observers, Options())
    proof = quantized.info["proof"]
    for name, values in proof.items():
        assert values["bound"] < values["limit"], name
    model = quantized.model
    layer = model.layers[1].ffn.down
    worst = (128 * np.abs(layer.weight.astype(np.int64)).sum(axis=1) + np.abs(layer.bias)).max()
    assert proof["layer.1.ffn.down"] == {"bound": int(worst), "limit": 2**31}
    assert proof["layer.0.scores"]["bound"] == 64 * 2**14
    assert proof["layer.0.context"]["bound"] == 128 * 255 * 512


def test_an_outlier_neuron_gets_copies_and_every_layer_their_width() -> None:
    source = checkpoint()
    source.arrays["layer.1.ffn.up.weight"][7] *= 12
    observed, _ = observe(source, inputs(30, 1, source.spec))
    made = [calibrate.quantize(observed, Options(remedies=names)) for names in ((), ("split",))]
    split = made[1][0]
    copies = split.info["tensors"]["layer.1.ffn.hidden"]["copies"]
    assert copies
    assert set(copies) == {7}
    width = split.model.shape.ffn
    assert width == 40 + max(
        len(split.info["tensors"][f"layer.{i}.ffn.hidden"]["copies"]) for i in range(2)
    )
    for layer in split.model.layers:
        assert layer.ffn.up.weight.shape == (width, 24)
        assert layer.ffn.down.weight.shape == (24, width)
    up = split.model.layers[1].ffn.up
    for row in range(40, 40 + len(copies)):
        np.testing.assert_array_equal(up.weight[row], up.weight[7])
        assert (up.m[row], up.s[row]) == (up.m[7], up.s[7])
        assert up.bias[row] < up.bias[row - 1 if row > 40 else 7]
    assert distance(observed, made[1]) < distance(observed, made[0])


def test_remedies_are_chosen_by_the_error_of_the_logits() -> None:
    source = checkpoint()
    calm, _ = observe(source, inputs(6, 2, source.spec))
    options, trials, made = choose(calm, Options())
    assert options.remedies == ()
    assert trials["none"] == distance(calm, made)
    assert trials == {
        "+".join(names) or "none": distance(calm, calibrate.quantize(calm, Options(remedies=names)))
        for names in ((), REMEDIES)
    }
    for i in range(2):  # a neuron that reaches far, and whose output is hardly read
        source.arrays[f"layer.{i}.ffn.up.weight"][7] *= 60
        source.arrays[f"layer.{i}.ffn.down.weight"][:, 7] /= 60
    options, trials, _ = choose(observe(source, inputs(20, 1, source.spec))[0], Options())
    assert "split" in options.remedies
    assert trials["+".join(options.remedies)] < 0.5 * trials["none"]


def test_logit_correction_moves_the_mean_error_into_the_bias(shipped, observers, texts):
    plain = quantize(shipped.spec, shipped.arrays, observers, Options())
    scale = plain.info["tensors"]["logits"]["scale"]
    logits = np.array([[1000, 2000], [3000, 1000]])
    exact = (logits - [70, -30]) * scale + [[0.2 * scale, 0], [-0.2 * scale, 0]]
    corrected = correct_logits(plain, logits, exact)
    assert corrected.info["logit_correction"] == [-70, 30]
    ids = texts[0].ids[:20]
    change = encoder.run(corrected.model, ids) - encoder.run(plain.model, ids)
    assert change.tolist() == [-70, 30]


def test_a_choice_that_breaks_a_bound_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    source = checkpoint()
    calm, _ = observe(source, inputs(6, 1, source.spec))
    whole, broken = calibrate.quantize, [REMEDIES]
    plain = distance(calm, whole(calm, Options(remedies=())))

    def some_broken(observed: object, options: Options) -> object:
        if options.remedies in broken:
            raise CalibrationError("layer.0.q may reach 2147483648")
        return whole(observed, options)

    monkeypatch.setattr(calibrate, "quantize", some_broken)
    options, trials, _ = choose(calm, Options())
    assert options.remedies == ()
    assert trials == {"none": plain}
    broken += [names for count in range(len(REMEDIES)) for names in combinations(REMEDIES, count)]
    assert choose(calm, Options())[1:] == ({}, None)
    with pytest.raises(CalibrationError, match="may reach"):
        calibrate.calibrate(source, inputs(6, 1, source.spec), Options(), {})


def test_the_position_bias_is_rounded_to_256ths_of_an_octave() -> None:
    source = checkpoint(position_bias=True)
    texts = inputs(6, 1, source.spec)
    model = quantize(source.spec, source.arrays, observe_all(source, texts)[0], Options()).model
    bias = source.arrays[BIAS].astype(np.float64)
    octaves = np.log2(np.exp(bias))
    np.testing.assert_array_equal(model.position_bias, np.floor(256 * octaves + 0.5))
    source.arrays[BIAS][1, 3] = 88.8
    with pytest.raises(CalibrationError, match=r"attention.bias reaches 88.8: the 16-bit score"):
        quantize(source.spec, source.arrays, observe_all(source, texts)[0], Options())


@pytest.mark.parametrize("remedies", [(), REMEDIES])
def test_alibi_reaches_further_down_than_scores_do(remedies: tuple[str, ...]) -> None:
    """Keys so far away have no weight in either model, and nothing is said against them."""
    source = checkpoint(position_bias=True, positions=300)
    source.arrays[BIAS] = alibi(3, 300) * np.float32(3)
    assert source.arrays[BIAS].min() < -200
    draw = np.random.default_rng(4)
    texts = [
        Tokens(draw.integers(0, 50, 280).astype(np.int32), np.zeros(280, np.int32), ())
        for _ in range(3)
    ]
    quantized = tiny.quantized(source, texts, Options(remedies=remedies))
    assert quantized.model.position_bias is not None
    assert quantized.model.position_bias.min() == -(1 << 15)
    errors = check(source, quantized, texts)
    assert min(error.sqnr for error in errors.values()) > 25
    assert errors["layer.0.scores"].limits > 0


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 1030, "heads": 1}, "shape: shape.hidden is 1030; allowed 1..1024"),
        ({"positions": 8200}, "shape: shape.positions is 8200"),
    ],
)
def test_limits_of_the_hardware_are_named(sizes: dict, message: str) -> None:
    source = checkpoint(**sizes)
    with pytest.raises(CalibrationError, match=message):
        quantize(source.spec, source.arrays, {}, Options())
