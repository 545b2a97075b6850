"""Encoders with rotary positions, gated feed-forwards, RMSNorm and heads that share K and V."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from golden import encoder, fast, store
from golden.identity import identity_of
from quant import calibrate
from quant.calibrate import Calibrator, check
from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import InputError, TextTokenizer, encode
from quant.foreign.transformer import sinusoids
from quant.model import float_model
from quant.model.spec import CheckpointError, EncoderSpec
from quant.quantize.encoder import shape_of
from quant.quantize.options import REMEDIES, Options, applicable, idle
from quant.quantize.stand_in import stand_in
from tests.quant import tiny
from tests.quant.test_families import of_theirs
from tests.quant.test_windows import texts_of
from tests.tiers import quick

NAMES = {
    "esm": "Esm",
    "eurobert": "EuroBert",
    "gte": "Gte",
    "jina_embeddings_v3": "JinaEmbeddingsV3",
    "modernbert": "ModernBert",
    "nomic_bert": "NomicBert",
}
LINEAR = {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}
LENGTH = {"original_max_position_embeddings": 6}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 90.0, "factor": 4.0, **LENGTH}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 90.0, "factor": 4.0, **LENGTH}
ROPES: dict[str, dict[str, Any]] = {
    "default-partial": {"rope_type": "default", "rope_theta": 9.0, "partial_rotary_factor": 0.5},
    "llama3": LLAMA3,
    "llama3-near": LLAMA3 | {"low_freq_factor": 0.5, "high_freq_factor": 1.0},
    "yarn": YARN,
    "yarn-turns": YARN | {"beta_fast": 3.0, "beta_slow": 0.2, "attention_factor": 0.7},
    "yarn-untruncated": YARN | {"beta_fast": 2.0, "truncate": False},
    "yarn-scales": YARN | {"mscale": 0.7, "mscale_all_dim": 0.4},
    "proportional": {"rope_type": "proportional", "rope_theta": 9.0, "partial_rotary_factor": 0.5},
    "proportional-scaled": {"rope_type": "proportional", "rope_theta": 9.0, "factor": 3.0},
}
ROTARY = {"position_embedding_type": "rotary", "token_dropout": True}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "euro": ("eurobert", "Model", {"num_key_value_heads": 2}),
    "euro-one": ("eurobert", "Model", {"num_key_value_heads": 1, "attention_bias": True}),
    "euro-bias": ("eurobert", "Model", {"mlp_bias": True, "hidden_act": "gelu"}),
    "euro-mean": (
        "eurobert",
        "ForSequenceClassification",
        {"num_key_value_heads": 2, "classifier_pooling": "mean"},
    ),
    "euro-bos": ("eurobert", "ForSequenceClassification", {"classifier_pooling": "bos"}),
    "euro-words": ("eurobert", "ForTokenClassification", {"rope_parameters": LINEAR}),
    "euro-plain": (
        "eurobert",
        "Model",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    ),
    "nomic": ("nomic_bert", "Model", {}),
    "nomic-class": ("nomic_bert", "ForSequenceClassification", {"layer_norm_eps": 1e-4}),
    "nomic-words": ("nomic_bert", "ForTokenClassification", {"rope_parameters": LINEAR}),
    "esm": ("esm", "Model", ROTARY | {"rope_theta": 300.0}),
    "esm-class": ("esm", "ForSequenceClassification", ROTARY | {"emb_layer_norm_before": True}),
    "esm-words": ("esm", "ForTokenClassification", ROTARY | {"token_dropout": False}),
    "esm-1b": ("esm", "Model", {"emb_layer_norm_before": True, "token_dropout": True}),
    "gte": ("gte", "Model", {"type_vocab_size": 0}),
    "gte-class": ("gte", "ForSequenceClassification", {"type_vocab_size": 2}),
    "gte-words": ("gte", "ForTokenClassification", {"rope_parameters": LINEAR}),
    "jina": ("jina_embeddings_v3", "Model", {}),
    "jina-class": ("jina_embeddings_v3", "ForSequenceClassification", {"type_vocab_size": 2}),
    "jina-words": ("jina_embeddings_v3", "ForTokenClassification", {"rope_parameters": LINEAR}),
    "modern": ("modernbert", "Model", {"local_attention": 6}),
    "modern-bias": (
        "modernbert",
        "Model",
        {
            "norm_bias": True,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_eps": 1e-3,
            "num_hidden_layers": 5,
            "local_attention": 4,
        },
    ),
    "modern-class": ("modernbert", "ForSequenceClassification", {"classifier_bias": True}),
    "modern-mean": (
        "modernbert",
        "ForSequenceClassification",
        {"classifier_pooling": "mean", "norm_bias": True, "classifier_activation": "silu"},
    ),
    "modern-words": ("modernbert", "ForTokenClassification", {}),
    "modern-choice": ("modernbert", "ForMultipleChoice", {}),
    "modern-answer": ("modernbert", "ForQuestionAnswering", {"num_labels": 2}),
    "modern-local": (
        "modernbert",
        "Model",
        {
            "layer_types": ["sliding_attention"] * 2,
            "local_attention": 9,
            "rope_parameters": {"sliding_attention": YARN, "full_attention": LINEAR},
            "hidden_activation": "silu",
        },
    ),
    "jina-answer": ("jina_embeddings_v3", "ForQuestionAnswering", {"num_labels": 2}),
    **{name: ("eurobert", "Model", {"rope_parameters": one}) for name, one in ROPES.items()},
}


def saved(folder: Path, case: str) -> Any:
    """A tiny random checkpoint, and the model itself."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    family, head, options = CASES[case]
    torch.manual_seed(len(case))
    sizes: dict[str, Any] = {"vocab_size": 40, "max_position_embeddings": 24, "num_labels": 3}
    sizes |= {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2}
    sizes |= {"intermediate_size": 36, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sizes |= {"mask_token_id": 2} if family == "esm" else {}
    sizes |= {"cls_token_id": 1, "sep_token_id": 2} if family == "modernbert" else {}
    config = transformers.AutoConfig.for_model(family, **(sizes | options))
    model = getattr(transformers, f"{NAMES[family]}{head}")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    write = tiny.write_tokenizer_file if family == "modernbert" else tiny.write_tokenizer
    write(folder, 40)
    return model.float().eval()


@pytest.mark.parametrize("case", CASES)
def test_a_family_equals_transformers(case: str, tmp_path: Path) -> None:
    model = saved(tmp_path, case)
    checkpoint = load(tmp_path)
    spec = checkpoint.spec
    assert EncoderSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    draw = np.random.default_rng(1)
    texts = [draw.integers(3, 40, length).astype(np.int32) for length in (1, 7, 22)]
    types = [draw.integers(0, max(spec.types, 1), len(ids)).astype(np.int32) for ids in texts]
    found = []
    for ids, segments in zip(texts, types, strict=True):
        one = float_model.run(spec, checkpoint.arrays, ids, segments)
        theirs = of_theirs(model, ids, segments if spec.types > 1 else None)
        np.testing.assert_allclose(one, theirs, rtol=1e-5, atol=1e-5)
        found.append(np.atleast_2d(one))
    together = float_model.run(
        spec,
        checkpoint.arrays,
        np.concatenate(texts),
        np.concatenate(types),
        lengths=[len(ids) for ids in texts],
    )
    np.testing.assert_allclose(together, np.concatenate(found), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "nomic",
        *(
            pytest.param(case, marks=pytest.mark.slow)
            for case in (
                "euro",
                "euro-mean",
                "nomic-words",
                "esm",
                "esm-class",
                "gte",
                "jina",
                "modern",
                "modern-local",
            )
        ),
    ],
)
def test_integers_follow_float(case: str, tmp_path: Path) -> None:
    """With all remedies and with none; nothing saturates before its end."""
    saved(tmp_path, case)
    checkpoint = load(tmp_path)
    spec = checkpoint.spec
    texts, others = texts_of(spec, 60, 1), texts_of(spec, 40, 2)
    assert replace(shape_of(spec), vocabulary=2) == stand_in(checkpoint).shape
    for options in (
        Options(remedies=REMEDIES),
        Options(remedies=()),
        Options(remedies=(), precise=True),
    ):
        calibrator = Calibrator(checkpoint, texts, precise=options.precise)
        quantized = calibrator.quantize(options)
        errors = check(checkpoint, quantized, others)
        assert min(error.sqnr for error in errors.values()) > 20
        model = quantized.model
        for text in others[:4]:
            golden = encoder.run(model, text.ids, text.types)
            np.testing.assert_array_equal(fast.run(model, text.ids, text.types), golden)


@pytest.mark.parametrize(
    ("case", "change", "message"),
    [
        ("euro-bos", {"classifier_pooling": "late"}, "head.0: classifier_pooling is 'late'"),
        ("euro", {"num_key_value_heads": 3}, "num_key_value_heads is 3: it must be a divisor"),
        ("euro", {"head_dim": 8}, "head_dim is 8: it must be 6"),
        ("nomic", {"rope_parameters": LINEAR | {"rope_type": "dynamic"}}, "the type 'dynamic'"),
        ("nomic", {"rope_parameters": LINEAR | {"beta_fast": 3}}, "rope_parameters has beta_fast"),
        (
            "nomic",
            {"rope_parameters": LINEAR | {"factor": 0}},
            "rope_parameters has factor 0.0: it must be above 0",
        ),
        ("nomic", {"rope_parameters": 3}, "rope_parameters is 3: it must name rope_type"),
        ("nomic", {"rope_parameters": LINEAR | {"rope_type": "ntk"}}, "the type 'ntk'"),
        (
            "nomic",
            {"rope_parameters": LINEAR | {"partial_rotary_factor": 0.5}},
            "rope_parameters has partial_rotary_factor (0.5), which linear",
        ),
        (
            "nomic",
            {"rope_parameters": ROPES["proportional"] | {"partial_rotary_factor": 1.5}},
            "partial_rotary_factor is 1.5: it must be above 0 and at most 1",
        ),
        (
            "nomic",
            {"rope_parameters": LLAMA3 | {"low_freq_factor": 4.0}},
            "low_freq_factor 4.0 and high_freq_factor 4.0: the first must be the smaller one",
        ),
        (
            "modern",
            {"layer_types": ["full_attention"]},
            "layer_types is ['full_attention']: it must",
        ),
        (
            "modern",
            {"architectures": ["ModernBertForMaskedLM"]},
            "the head of ModernBertForMaskedLM predicts words for pre-training",
        ),
        (
            "nomic",
            {"auto_map": {"AutoModel": "x--y.Z"}, "num_experts": 8, "moe_every_n_layers": 2},
            "layer.0.ffn: experts, of which a router chooses some for each token",
        ),
        (
            "nomic",
            {"auto_map": {"AutoConfig": "x--y.NomicBertConfig"}},
            "code of its own, which is",
        ),
        ("nomic", {"activation_function": "geglu"}, "activation_function is 'geglu', which is not"),
        ("nomic", {"rotary_scaling_factor": 2}, "layer.0.q: the frequencies follow the length of"),
        ("nomic", {"prenorm": True}, "prenorm is True, which is not supported: it must be False"),
        ("nomic", {"n_embd": 24}, "n_embd and hidden_size are one option: leave one of them out"),
        ("gte", {"logn_attention_scale": True}, "logn_attention_scale is True, which is not supp"),
        ("euro", {"clf_pooling": "mean"}, "head.0: what remote code calls classifier_pooling: ren"),
        ("gte", {"use_qk_norm": True}, "layer.0.q: a norm of Q and K behind their projections"),
        ("modern", {"dilation": 2}, "layer.0.attention: a window with gaps (dilation)"),
        ("jina", {"add_cross_attention": True}, "layer.0.attention: attention to another sequence"),
        ("jina", {"lora_adaptations": ["retrieval.query"]}, "layer.0: LoRA adapters that remote"),
        (
            "modern-class",
            {"classifier_pooling": "max"},
            "classifier_pooling is 'max': it must be cls or mean",
        ),
        ("esm", {"position_embedding_type": "relative_key"}, "it must be rotary or absolute"),
        ("esm", {"mask_token_id": 40}, "mask_token_id is 40: it must be a row of the embedding"),
        ("esm", {"hidden_act": "relu"}, "hidden_act is 'relu', which is not supported"),
        ("esm", {"is_folding_model": True}, "is_folding_model is True, which is not supported"),
        ("esm", {"is_decoder": True}, "is_decoder is True, which is not supported"),
        (
            "esm",
            {"architectures": ["EsmForMaskedLM"]},
            "the head of EsmForMaskedLM predicts words for pre-training",
        ),
        (
            "gte",
            {"architectures": ["GteForMaskedLM"]},
            "the head of GteForMaskedLM predicts words for pre-training",
        ),
        (
            "jina",
            {"architectures": ["JinaEmbeddingsV3ForMaskedLM"]},
            "the head of JinaEmbeddingsV3ForMaskedLM predicts words for pre-training",
        ),
    ],
)
def test_what_is_refused(case: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    saved(tmp_path, case)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(CheckpointError, match=re.escape(message)):
        load(tmp_path)


OWN: dict[str, dict[str, Any]] = {
    "turned": {"rope_theta": 100.0, "sinusoids": False},
    "one layer turned": {"rope_theta": [None, 50]},
    "two bases, one head of K": {"rope_theta": [1000.0, 50.0], "num_key_value_heads": 1},
    "all heads of K": {"num_key_value_heads": 3, "rope_theta": [None, None]},
    "gated": {"gated": True, "hidden_act": "gelu"},
    "RMSNorms": {"rms_norm": True},
    "all": {
        "rope_theta": [100.0, 20.0],
        "num_key_value_heads": 1,
        "gated": True,
        "rms_norm": True,
        "hidden_act": "gelu",
        "window": [3, 2],
    },
}


def own_tensors(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Those of a plain encoder of two layers and three heads of four channels."""
    arrays, draw = tiny.transformer_tensors(tiny.tensors()), np.random.default_rng(5)
    rows = 12 + 8 * config.get("num_key_value_heads", 3)
    for name in [name for name in arrays if "in_proj" in name]:
        arrays[name] = np.ascontiguousarray(arrays[name][:rows])
    if config.get("rms_norm"):
        arrays = {name: x for name, x in arrays.items() if not re.search(r"norm\d?\.bias", name)}
    for i in range(2 if config.get("gated") else 0):
        for part, size in (("weight", (20, 12)), ("bias", (20,))):
            drawn = draw.normal(0, 0.3, size).astype(np.float32)
            arrays[f"encoder.layers.{i}.linear_gate.{part}"] = drawn
    return arrays


def own_logits(config: dict[str, Any], arrays: dict[str, np.ndarray], ids: np.ndarray) -> Any:
    """Of PyTorch's functions, by the table in docs/models.md."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    tensors = {name: torch.tensor(x) for name, x in arrays.items()}
    length, count = len(ids), config.get("num_key_value_heads", 3)
    place = torch.arange(length)

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

    before, after = config.get("window", (length, length))
    seen = (place[None] >= place[:, None] - before) & (place[None] <= place[:, None] + after)
    bases = config.get("rope_theta")
    bases = bases if isinstance(bases, list) else [bases] * 2
    activation = getattr(functional, config.get("hidden_act", "relu"))
    x = tensors["embedding.weight"][ids] * 12**0.5
    if config.get("sinusoids", True):
        x = x + torch.tensor(sinusoids(length, 12))
    for i, base in enumerate(bases):
        name = f"encoder.layers.{i}"
        joint = linear(f"{name}.self_attn.in_proj", norm(f"{name}.norm1", x), "_")
        parts = joint.split([12, 4 * count, 4 * count], dim=1)
        q, k, v = (part.reshape(length, -1, 4).transpose(0, 1) for part in parts)
        if base is not None:
            q, k = turned(q, base), turned(k, base)
        k, v = (part.repeat_interleave(3 // count, dim=0) for part in (k, v))
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + linear(f"{name}.self_attn.out_proj", context.transpose(0, 1).reshape(length, 12))
        y = norm(f"{name}.norm2", x)
        up = linear(f"{name}.linear1", y)
        gate = config.get("gated")
        hidden = activation(linear(f"{name}.linear_gate", y)) * up if gate else activation(up)
        x = x + linear(f"{name}.linear2", hidden)
    return linear("classifier", norm("encoder.norm", x).mean(dim=0)).numpy()


@pytest.mark.parametrize("case", OWN)
def test_an_encoder_of_ones_own_equals_pytorch(case: str, tmp_path: Path) -> None:
    config, arrays = OWN[case], own_tensors(OWN[case])
    checkpoint = load(tiny.write(tmp_path, tiny.TRANSFORMER | config, arrays))
    ids = np.random.default_rng(3).integers(2, 12, 16).astype(np.int32)
    found = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
    np.testing.assert_allclose(found, own_logits(config, arrays, ids), rtol=1e-5, atol=1e-5)
    spec = checkpoint.spec
    assert EncoderSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert replace(shape_of(spec), vocabulary=2) == stand_in(checkpoint).shape


@pytest.mark.slow
def test_integers_follow_an_encoder_of_ones_own(tmp_path: Path) -> None:
    checkpoint = load(tiny.write(tmp_path, tiny.TRANSFORMER | OWN["all"], own_tensors(OWN["all"])))
    texts, others = texts_of(checkpoint.spec, 60, 1), texts_of(checkpoint.spec, 40, 2)
    quantized = Calibrator(checkpoint, texts).quantize(Options(remedies=REMEDIES))
    errors = check(checkpoint, quantized, others)
    assert min(error.sqnr for error in errors.values()) > 20
    model = quantized.model
    assert (model.shape.kv_heads, [layer.rotary for layer in model.layers]) == (1, [0, 1])
    assert all(norm.rms for _, norm in model.norms())
    assert all(layer.ffn.gate is not None for layer in model.layers)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", quick(["all", "turned", "two bases, one head of K", "gated", "RMSNorms"], 2)
)
def test_no_remedy_is_skipped_in_silence(case: str, tmp_path: Path) -> None:
    """Each alone changes the integers, but for those that the report names."""
    folder = tiny.write(tmp_path, tiny.TRANSFORMER | OWN[case], own_tensors(OWN[case]))
    checkpoint = load(folder)
    calibrator = Calibrator(checkpoint, texts_of(checkpoint.spec, 20, 1))
    plain = identity_of(calibrator.quantize(Options(remedies=())).model)
    same = {
        name
        for name in REMEDIES
        if identity_of(calibrator.quantize(Options(remedies=(name,))).model) == plain
    }
    assert same == set(idle(checkpoint.spec)) == ({"split"} if OWN[case].get("gated") else set())
    assert applicable(checkpoint.spec) == tuple(name for name in REMEDIES if name not in same)


@pytest.mark.slow
@pytest.mark.parametrize("given", quick(["auto", "all", "split"]))
def test_the_report_names_the_remedy_that_a_gate_has_no_use_for(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny.write(tmp_path / "m", tiny.TRANSFORMER | OWN["all"], own_tensors(OWN["all"]))
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film !\nthe bad films\n" * 20)
    out = ["--out", str(tmp_path / "out"), "--data", str(texts), "--remedies", given]
    assert calibrate.main(["--model", str(folder), *out]) == 0
    assert "\nsplit has no effect: a gate multiplies" in capsys.readouterr().out
    info = store.load(tmp_path / "out")[1]
    assert "split" not in info["calibration"]["remedies"]
    assert not any("split" in names for names in info["trials"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_theta": "100"}, "rope_theta is '100': it must be a finite number"),
        ({"rope_theta": True}, "rope_theta is True: it must be a finite number"),
        ({"rope_theta": 0.5}, "rope_theta has 0.5: a base must be from 1 to 1,000,000,000"),
        ({"rope_theta": [10.0]}, "a list must have a number or null for each of the 2 layers"),
        ({"rope_theta": [[10.0], None]}, "rope_theta is [10.0]: it must be a finite number"),
        ({"rope_theta": 9.0, "num_attention_heads": 4}, "layer.0.q: rope_theta is 9.0 and a head"),
        ({"gated": 1}, "gated is 1: it must be true or false"),
        ({"gated": True}, "the tensor encoder.layers.0.linear_gate.weight is missing"),
        ({"rms_norm": "yes"}, "rms_norm is 'yes': it must be true or false"),
        ({"rms_norm": True, "hidden_size": 1024}, "rms_norm is true with a hidden_size of 1024"),
        ({"rms_norm": True}, "encoder.layers.0.norm1.bias has no place in this encoder"),
        ({"num_key_value_heads": 2}, "num_key_value_heads is 2: it must be a divisor of num_atte"),
        ({"num_key_value_heads": 6}, "num_key_value_heads is 6: it must be a divisor of num_atte"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0: it must be a divisor of num_atte"),
        ({"num_key_value_heads": 1}, "layer.0.v.weight has shape 20 x 12: the config asks for 4 x"),
        (
            {"num_key_value_heads": 1, "position_bias": "alibi"},
            "num_key_value_heads is 1 and position_bias 'alibi': heads that share K and V have no",
        ),
    ],
)
def test_own_keys_that_are_wrong(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=re.escape(message)):
        load(tiny.write(tmp_path, tiny.TRANSFORMER | change, own_tensors({})))


def test_three_bases_of_ones_own_are_refused(tmp_path: Path) -> None:
    config = tiny.TRANSFORMER | {"num_hidden_layers": 3, "rope_theta": [5.0, 6.0, 7.0]}
    with pytest.raises(CheckpointError, match=r"rope_theta has 3 different numbers: .* at most 2"):
        load(tiny.write(tmp_path, config, own_tensors({})))


def rewritten(folder: Path, changed: dict[str, Any], names: dict[str, str]) -> None:
    """The checkpoint with options of older files, None for one that they lack, and their names."""
    file = folder / "config.json"
    config = json.loads(file.read_text()) | changed
    file.write_text(json.dumps({name: x for name, x in config.items() if x is not None}))
    arrays = load_file(folder / "model.safetensors")
    for old, new in names.items():
        arrays = {re.sub(old, new, name): array for name, array in arrays.items()}
    save_file(arrays, folder / "model.safetensors")


def remote(code: str, names: str, **options: Any) -> dict[str, Any]:
    """Options of files for remote code; names: of those that these files lack."""
    auto_map = {"AutoConfig": code, "AutoModel": "x--y.Z"}
    return {"auto_map": auto_map, **options, **dict.fromkeys(names.split())}


REMOTE_NOMIC = remote(
    "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig",
    "hidden_act hidden_size num_attention_heads num_hidden_layers intermediate_size head_dim "
    "max_position_embeddings layer_norm_eps rope_parameters rotary_scaling_factor",
    activation_function="swiglu",
    n_embd=24,
    n_head=4,
    n_layer=2,
    n_inner=36,
    n_positions=24,
    layer_norm_epsilon=1e-12,
    rotary_emb_base=1000,
    rotary_emb_fraction=1.0,
    max_trained_positions=2048,
    pad_vocab_size_multiple=64,
    **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_first_dropout"), 0.1),
    **dict.fromkeys(("causal", "prenorm", "parallel_block", "parallel_block_tied_norm"), False),
    **dict.fromkeys(("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias", "use_rms_norm"), False),
    **dict.fromkeys(("reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx"), False),
    rotary_emb_interleaved=False,
    **dict.fromkeys(("dense_seq_output", "fused_bias_fc", "fused_dropout_add_ln"), True),
    **dict.fromkeys(("scale_attn_weights", "summary_proj_to_labels", "summary_use_proj"), True),
    **dict.fromkeys(("use_flash_attn", "use_xentropy"), True),
)
REMOTE_EURO = remote(
    "configuration_eurobert.EuroBertConfig",
    "rope_parameters rope_scaling head_dim num_key_value_heads",
    bos_token="<|begin_of_text|>",
    eos_token="<|end_of_text|>",
    pad_token="<|end_of_text|>",
    mask_token="<|mask|>",
    clf_pooling="late",
    hidden_dropout=0.0,
    is_decoder=False,
    rope_theta=500.0,
)
REMOTE_GTE = remote(
    "configuration_hf_alibaba_nlp_gte.GteConfig",
    "",
    layer_norm_type="layer_norm",
    pack_qkv=True,
    position_embedding_type="rope",
    **dict.fromkeys(("logn_attention_scale", "logn_attention_clip1"), False),
    **dict.fromkeys(("unpad_inputs", "use_memory_efficient_attention"), True),
)


@pytest.mark.parametrize(
    ("case", "changed", "names"),
    [
        ("nomic", REMOTE_NOMIC, {}),
        ("euro-plain", REMOTE_EURO, {}),
        ("gte", REMOTE_GTE, {}),
        ("modern", {"position_embedding_type": "sans_pos"}, {}),
        ("nomic", {"rope_parameters": None, "rope_theta": 1000.0}, {}),
        (
            "gte-words",
            {
                "rope_parameters": None,
                "rope_theta": LINEAR["rope_theta"],
                "rope_scaling": {"type": "linear", "factor": LINEAR["factor"]},
            },
            {r"^gte\.": "new."},
        ),
        (
            "modern",
            {
                "rope_parameters": None,
                "layer_types": None,
                "global_rope_theta": 160000.0,
                "local_rope_theta": 10000.0,
                "global_attn_every_n_layers": 3,
            },
            {},
        ),
        ("esm", {}, {r"layer\.\*\.": "layer.0."}),
        ("esm", {}, {r"encoder\.layer\.\*\.attention\.self\.": ""}),
    ],
)
def test_older_files_say_the_same(
    case: str, changed: dict[str, Any], names: dict[str, str], tmp_path: Path
) -> None:
    saved(tmp_path, case)
    before = load(tmp_path)
    rewritten(tmp_path, changed, names)
    after = load(tmp_path)
    said = ("the code that auto_map names is not run: transformers' own class counts",)
    assert after.notes == before.notes + (said if "auto_map" in changed else ())
    assert after.spec == before.spec
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(after.arrays[name], array)


def test_the_frequencies_of_an_esm_are_its_file_s(tmp_path: Path) -> None:
    """In half precision in old files, where transformers keeps them, too."""
    saved(tmp_path, "esm")
    name = "encoder.layer.*.attention.self.rotary_embeddings.inv_freq"
    arrays = load_file(tmp_path / "model.safetensors")
    found = load(tmp_path)
    assert found.notes[-1] == "its contact_head is left out: nothing here computes it"
    arrays[name] = arrays[name] / 2
    save_file(arrays, tmp_path / "model.safetensors")
    half = load(tmp_path).arrays["rotary.0.cos"]
    np.testing.assert_array_equal(half[2::2], found.arrays["rotary.0.cos"][1 : len(half) // 2])
    arrays[name] = arrays[name][1:]
    save_file(arrays, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"inv_freq has shape \(2,\): a head of 6 channels"):
        load(tmp_path)


def test_proteins_are_read_as_transformers_reads_them(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    saved(tmp_path, "esm")
    amino = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <mask>"
    (tmp_path / "vocab.txt").write_text("\n".join(amino.split()))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "EsmTokenizer"}')
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"mask_token_id": 31}))
    spec, theirs = load(tmp_path).spec, transformers.AutoTokenizer.from_pretrained(tmp_path)
    tokenizer = TextTokenizer(tmp_path)
    for text in ("MKVLLA", " MKV  LLA\tC .-", "MKVxyzLA", "mkv", "A<unk>B<pad", "OZUMKV" * 9):
        ours = encode(spec, tokenizer, text, None, 20).ids.tolist()
        assert ours == theirs(text, truncation=True, max_length=20)["input_ids"]
    assert tokenizer.encode("MK", "LA", limit=20).ids.tolist() == theirs("MK", "LA")["input_ids"]
    with pytest.raises(InputError, match="'<mask>' has the id 31, which changes every embedding"):
        encode(spec, tokenizer, "MK<mask>LA", None, 20)
