"""The plain Transformer encoder: its loader against PyTorch's own functions, and its refusals."""

import json
import random
import re
import runpy
from math import cos, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import store
from golden.identity import identity_of
from golden.model import Window
from golden.window import in_window
from quant.foreign.checkpoint import load
from quant.foreign.transformer import sinusoids
from quant.model import distance, float_model
from quant.model.distance import within
from quant.model.spec import CheckpointError, EncoderSpec
from quant.quantize.encoder import stand_in
from quant.quantize.observers import Observer, Observing
from quant.quantize.options import REMEDIES, Options, applicable, idle
from tests.quant import tiny, zoo
from tests.tiers import quick

ROOT = Path(__file__).resolve().parents[2]


def test_positions_are_those_of_the_paper() -> None:
    """Section 3.5 of "Attention is all you need", number by number."""
    wanted = [
        [(cos if c % 2 else sin)(p / 10000 ** ((c - c % 2) / 24)) for c in range(24)]
        for p in range(60)
    ]
    np.testing.assert_allclose(sinusoids(60, 24), wanted, atol=1e-6)


def test_slopes_are_those_of_the_paper() -> None:
    """Section 3 has 8 and 16 heads; the authors' code has other numbers of them."""
    assert distance.slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    np.testing.assert_allclose(distance.slopes(16), [2 ** (-i / 2) for i in range(1, 17)])
    twelve = [*(2.0**-i for i in range(1, 9)), *(2**-x for x in (0.5, 1.5, 2.5, 3.5))]
    np.testing.assert_allclose(distance.slopes(12), twelve)
    wanted = [[-1, -0.5, 0, -0.5, -1], [-0.5, -0.25, 0, -0.25, -0.5]]
    np.testing.assert_array_equal(distance.alibi(8, 3)[:2], wanted)


@pytest.mark.parametrize(("count", "furthest"), [(32, 128), (32, 20), (4, 2), (64, 1000), (9, 77)])
def test_buckets_are_those_of_t5(count: int, furthest: int) -> None:
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    difference = distance.differences(4096)
    assert difference.tolist() == list(range(-4095, 4096))
    theirs = t5.T5Attention._relative_position_bucket(
        torch.tensor(difference), num_buckets=count, max_distance=furthest
    )
    ours = distance.buckets(difference, count, furthest)
    np.testing.assert_array_equal(ours, theirs.numpy())


def test_a_column_is_key_minus_query() -> None:
    bias = np.arange(9.0)[None]  # of up to 5 tokens, its middle is 4
    assert distance.square(bias, 3).tolist() == [[[4, 5, 6], [3, 4, 5], [2, 3, 4]]]
    assert distance.cut(bias, 3).tolist() == [[2, 3, 4, 5, 6]]
    assert distance.cut(bias, 5).tolist() == bias.tolist()


def logits(config: dict[str, Any], arrays: dict[str, np.ndarray], ids: np.ndarray) -> Any:
    """Of PyTorch's functions, by the table in docs/models.md."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    tensors = {name: torch.tensor(x) for name, x in arrays.items()}
    length, count = len(ids), config.get("num_key_value_heads", 3)
    place = torch.arange(length)
    pre = config.get("norm_first", True)

    def linear(name: str, x: Any, joint: str = ".") -> Any:
        return functional.linear(x, *(tensors[name + joint + part] for part in ("weight", "bias")))

    def norm(name: str, x: Any) -> Any:
        weight = tensors[f"{name}.weight"]
        if config.get("rms_norm"):
            return functional.rms_norm(x, (12,), weight, 1e-5)
        return functional.layer_norm(x, (12,), weight, tensors[f"{name}.bias"], 1e-5)

    def turned(x: Any, base: float) -> Any:
        angles = place[:, None] / base ** (torch.arange(0, 4, 2) / 4)
        twice = torch.cat((angles, angles), dim=1)
        half = torch.cat((-x[..., 2:], x[..., :2]), dim=-1)
        return x * twice.cos() + half * twice.sin()

    def mask(layer: int) -> Any:
        """What is added to the scores [3, L, L]."""
        away, found = place[None] - place[:, None], torch.zeros(3, length, length)
        if config.get("position_bias") == "alibi":
            found -= torch.tensor([1 / 16, 1 / 256, 1 / 4])[:, None, None] * away.abs()
        if config.get("position_bias") == "buckets":
            # 4 buckets each way: 0, 1, and two of 2 to 6 that are logarithmic
            far = (2 + (away.abs().clamp(min=2) / 2).log() / np.log(3) * 2).long().clamp(max=3)
            rows = torch.where(away.abs() < 2, away.abs(), far) + 4 * (away > 0)
            found += tensors["relative_attention_bias.weight"][rows].permute(2, 0, 1)
        window = config.get("window") or [None, None]
        each = any(isinstance(x, list) for x in window)
        before, after = (window[layer] if each else window) or (None, None)
        if before is not None:
            found[:, away < -before] = -torch.inf
        if after is not None:
            found[:, away > after] = -torch.inf
        return found

    bases = config.get("rope_theta")
    activation = getattr(functional, config.get("hidden_act", "relu"))
    scale = 12**0.5 if config.get("scale_embedding", True) else 1
    x = tensors["embedding.weight"][ids] * scale
    if config.get("sinusoids", True):
        x = x + torch.tensor(sinusoids(length, 12))
    x = norm("embedding_norm", x) if config.get("embedding_norm") else x
    for i, base in enumerate(bases if isinstance(bases, list) else [bases] * 2):
        name = f"encoder.layers.{i}"
        joint = linear(f"{name}.self_attn.in_proj", norm(f"{name}.norm1", x) if pre else x, "_")
        parts = joint.split([12, 4 * count, 4 * count], dim=1)
        q, k, v = (part.reshape(length, -1, 4).transpose(0, 1) for part in parts)
        if base is not None:
            q, k = turned(q, base), turned(k, base)
        k, v = (part.repeat_interleave(3 // count, dim=0) for part in (k, v))
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask(i))
        x = x + linear(f"{name}.self_attn.out_proj", context.transpose(0, 1).reshape(length, 12))
        x = x if pre else norm(f"{name}.norm1", x)
        y = norm(f"{name}.norm2", x) if pre else x
        up = linear(f"{name}.linear1", y)
        gate = config.get("gated")
        hidden = activation(linear(f"{name}.linear_gate", y)) * up if gate else activation(up)
        x = x + linear(f"{name}.linear2", hidden)
        x = x if pre else norm(f"{name}.norm2", x)
    x = norm("encoder.norm", x) if pre else x
    pooled = {"first": x[0], "none": x, "mean": x.mean(dim=0)}[config.get("pooling", "mean")]
    return linear("classifier", pooled).numpy()


@pytest.mark.parametrize("case", zoo.OWN)
def test_an_encoder_of_ones_own_equals_pytorch(case: str, tmp_path: Path) -> None:
    checkpoint = load(zoo.own(tmp_path, case))
    ids = np.random.default_rng(3).integers(2, 12, 16).astype(np.int32)
    found = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
    wanted = logits(zoo.OWN[case], zoo.own_tensors(zoo.OWN[case]), ids)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    spec = checkpoint.spec
    assert EncoderSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.slow
@pytest.mark.parametrize("case", zoo.OWN)
def test_golden_follows_an_encoder_of_ones_own(case: str, tmp_path: Path) -> None:
    checkpoint = load(zoo.own(tmp_path, case))
    texts, others = (zoo.texts_of(checkpoint.spec, count, count) for count in (60, 40))
    for options in (Options(remedies=REMEDIES), Options(remedies=())):
        quantized, sqnr = tiny.followed(checkpoint, texts, others, options, 8)
        assert sqnr > 20
    assert tuple(layer.window for layer in quantized.model.layers) == (
        checkpoint.spec.windows or (None, None)
    )
    names = [
        {name for name, _ in store.parts(one)} for one in (stand_in(checkpoint), quantized.model)
    ]
    assert names[0] == names[1]


@pytest.mark.slow
@pytest.mark.parametrize("case", quick(["all", "turned", "gated", "RMSNorms"], 2))
def test_no_remedy_is_skipped_in_silence(case: str, tmp_path: Path) -> None:
    """Each alone changes the integers, but for those that the report names."""
    checkpoint = load(zoo.own(tmp_path, case))
    texts = zoo.texts_of(checkpoint.spec, 20, 1)
    plain = identity_of(tiny.quantized(checkpoint, texts, Options(remedies=())).model)
    same = {
        name
        for name in REMEDIES
        if identity_of(tiny.quantized(checkpoint, texts, Options(remedies=(name,))).model) == plain
    }
    gated = {"split"} if zoo.OWN[case].get("gated") else set()
    assert same == set(idle(checkpoint.spec)) == gated
    assert applicable(checkpoint.spec) == tuple(name for name in REMEDIES if name not in same)


def test_a_module_of_pytorch_is_exported(tmp_path: Path) -> None:
    """models/export_transformer.py writes the state dict as it is, with what the module says."""
    nn = pytest.importorskip("torch").nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(12, 24)
            layer = nn.TransformerEncoderLayer(24, 3, 40, 0.1, "relu", 1e-3, True, True)
            self.encoder = nn.TransformerEncoder(
                layer, 2, nn.LayerNorm(24, 1e-3), enable_nested_tensor=False
            )
            self.classifier = nn.Linear(24, 3)

    model = Model().eval()
    runpy.run_path(str(ROOT / "models" / "export_transformer.py"))["export"](tmp_path / "m", model)
    (tmp_path / "m" / "vocab.txt").write_text("\n".join(tiny.WORDS))
    names = {"0": "a", "1": "b", "2": "c"}
    spec = load(zoo.change(tmp_path / "m", id2label=names)).spec
    assert (spec.layers, spec.heads, spec.ffn, spec.norm) == (2, 3, 40, "pre")
    assert (spec.epsilon, spec.activation, spec.outputs) == (1e-3, "relu", 3)


def test_scores_that_a_window_hides_do_not_count(tmp_path: Path) -> None:
    """For the ranges that calibration observes."""
    scores = np.random.default_rng(5).integers(-90, 90, (2, 6, 6)).astype(np.int16)
    window = Window(1, 0)
    hidden = ~in_window(window, 6)
    loud = np.where(hidden, 32767, scores).astype(np.int16)
    np.testing.assert_array_equal(within(loud, window)[:, ~hidden], scores[:, ~hidden])
    checkpoint = load(zoo.own(tmp_path, "causal", window=[1, 0]))
    observers: dict[str, Observer] = {}
    trace: dict[str, Any] = {}
    ids = np.arange(2, 12, dtype=np.int32)
    float_model.run(checkpoint.spec, checkpoint.arrays, ids, trace=trace)
    watched = Observing(observers, checkpoint.spec)
    for name, x in trace.items():
        watched[name] = x
    q, k = (trace[f"layer.1.{name}"].reshape(10, 3, 4) for name in "qk")
    exact = np.einsum("qhd,khd->hqk", q, k) / 2
    shown, found = in_window(window, 10), observers["layer.1.scores"]
    ends = (exact[:, shown].min(), exact[:, shown].max())
    assert found.extremes == pytest.approx(ends, rel=1e-5)
    assert not trace["layer.1.probs"][:, ~shown].any()


@pytest.mark.parametrize(
    "options",
    [
        {"embedding_norm": False, "norm_first": False, "final_norm": False},
        {"embedding_norm": True}, {"final_norm": False},
        {"norm_first": 1}, {"sinusoids": 1}, {"gated": 1},
        {"layer_norm_eps": [1e-5]}, {"hidden_act": None}, {"pooling": "max"}, {"id2label": ["a"]},
        {"max_position_embeddings": 0}, {"num_key_value_heads": 2}, {"id2label": {"0": "a"}},
        {"position_bias": "rotary"}, {"rope_theta": [1.0]}, {"rope_theta": 0.5},
        *({"window": one} for one in ([None] * 3, 3, "causal", [[1], [2]], [[1, 2, 3], None])),
    ],
)  # fmt: skip
def test_an_option_is_refused_by_name(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=next(iter(options))):
        load(zoo.own(tmp_path, "plain", **options))


LAYER = "encoder.layers.1"


@pytest.mark.parametrize(
    ("options", "arrays", "words"),
    [
        ({"gated": True}, {}, "linear_gate.weight is missing"),
        ({"layer_norm_eps": -1}, {}, "epsilon is -1.0"),
        ({"vocab_size": 13}, {}, "embedding.token has shape 12 x 12: the config asks for 13 x 12"),
        ({"num_attention_heads": 5}, {}, "a divisor of the hidden size, 12"),
        ({"num_hidden_layers": 3}, {}, "encoder.layers.2.self_attn.in_proj_weight is missing"),
        ({"num_key_value_heads": 1, "position_bias": "alibi"}, {}, "kv_heads is 1"),
        ({"window": [-1, 0]}, {}, "before is -1"),
        ({"rope_theta": 10.0, "num_attention_heads": 4}, {}, "even"),
        ({}, {"classifier.weight": None}, "classifier.weight is missing"),
        ({}, {f"{LAYER}.self_attn.in_proj_weight": np.zeros((35, 12), np.float32)},
         "self_attn.in_proj is ((35, 12), (36,)): it must be a matrix and a bias"),
        ({}, {f"{LAYER}.self_attn.bias_k": np.zeros((1, 1, 12), np.float32)}, "bias_k has no pl"),
        ({}, {"embedding.weight": np.zeros(12, np.float32)}, "a row for each entry"),
        ({}, {f"{LAYER}.linear2.weight": np.full((12, 20), np.nan, np.float32)},
         "layer.1.ffn.down.weight holds a value that is not a finite number"),
    ],
)  # fmt: skip
def test_a_tensor_is_refused(options, arrays, words, tmp_path):
    tensors = zoo.own_tensors({}) | arrays
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=re.escape(words)):
        load(tiny.write(tmp_path, tiny.TRANSFORMER | options, kept))


VALUES = [
    None, True, False, 0, 1, -1, 2, 3, 12, 16, 8192, 8193, 10**12, 10**400, 0.0, 1e-5, -0.5, 1e300,
    float("nan"), float("inf"), "", "relu", "gelu", "mean", "first", "pre", "x" * 50, [], ["a"],
    ["0", "1", "2"], {}, {"0": 1}, {"0": "a", "1": None, "2": []}, [[]],
]  # fmt: skip


def broken(rng: random.Random, tensors: dict[str, np.ndarray]) -> None:
    """One tensor changed in place, in whatever way."""
    name = rng.choice(sorted(tensors))
    match rng.randrange(6):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice(["a", "encoder.", name + ".x", name[1:]])] = tensors.pop(name)
        case 2:
            size = tuple(rng.randrange(4) for _ in range(rng.randrange(4)))
            tensors[name] = np.zeros(size, np.float32)
        case 3:
            tensors[name] = np.ascontiguousarray(tensors[name].T)
        case 4:
            kinds = [np.float16, np.float64, np.int64, np.int8, np.bool_, np.uint16]
            tensors[name] = tensors[name].astype(rng.choice(kinds))
        case 5:
            value = rng.choice([np.nan, np.inf, 0.0, 1e30])
            tensors[name] = np.full_like(tensors[name], value)


@pytest.mark.parametrize("layout", ["own", "bert"])
def test_any_bad_checkpoint_is_refused_in_one_line_or_runs(layout: str, tmp_path: Path) -> None:
    """Fields of any value and tensors of any kind, by seed."""
    plain = tiny.TRANSFORMER if layout == "own" else {}
    names = [name for name in tiny.CONFIG | plain if name != "architectures"]
    if layout == "own":
        names += ["window", "rope_theta", "gated", "rms_norm", "num_key_value_heads"]
    said = []
    for seed in range(100 if layout == "own" else 60):
        rng = random.Random(seed)
        fields = {name: rng.choice(VALUES) for name in rng.sample(names, rng.randrange(3))}
        tensors = zoo.own_tensors({}) if layout == "own" else tiny.tensors()
        if not fields or rng.random() < 0.4:
            broken(rng, tensors)
        folder = tiny.write(tmp_path / str(seed), plain | fields, tensors)
        said.append("")
        try:
            loaded = load(folder)
        except CheckpointError as error:
            said[-1] = str(error)
            continue
        ids = np.array([0, 5, 11], np.int32)[: loaded.spec.max_tokens]
        with np.errstate(over="ignore", invalid="ignore"):
            assert float_model.run(loaded.spec, loaded.arrays, ids).shape == (3,)
    assert 5 < said.count("") < 50
    assert all(re.fullmatch(rf"({tmp_path}/\d+[/: ].+)?", message) for message in said), said
