"""Encoders whose layers have windows: CLIP's text side, decoders among the BERTs, one's own."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import pre_tokenizers

from golden import encoder, fast
from golden.model import Window
from golden.window import in_window
from quant.calibrate import Calibrator, check
from quant.embed import main as embed
from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import InputError, TextTokenizer, Tokens, encode
from quant.inspect import description
from quant.measure.vectors import cosines
from quant.model import float_model
from quant.model.spec import TEXT_SIDE, CheckpointError, EncoderSpec
from quant.model.window import CAUSAL, within
from quant.quantize.encoder import shape_of
from quant.quantize.observers import Observer, observe
from quant.quantize.options import REMEDIES, Options
from quant.quantize.stand_in import stand_in
from tests.quant import tiny
from tests.quant.test_families import CASES, HEADS, same, saved
from tests.quant.test_position_bias import write_own
from tests.tiers import quick

BEGIN, END = "<|startoftext|>", "<|endoftext|>"
MERGES = [("f", "i"), ("fi", "l"), ("fil", "m</w>"), ("g", "o"), ("o", "d</w>"), ("go", "od</w>")]
CLIP = {"CLIPTextModel": None, "CLIPTextModelWithProjection": None, "CLIPModel": TEXT_SIDE}
TEXTS = (
    "Good FILM!",
    "a",
    "it's a\u0301  film about 12 \u4e2d\u56fd zebras",
    "\u00c9t\u00e9 \U0001f600 <a@b.c>",
)
LONG = "a film of 1000 words and more " * 3


def byte_pairs(folder: Path, tokens: int = 40) -> dict[str, int]:
    """CLIP's tokenizer with few merges, and its vocabulary."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"{x}</w>" for x in letters), *(a + b for a, b in MERGES), BEGIN, END]
    vocabulary = {word: i for i, word in enumerate(words)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    merges = "\n".join(f"{a} {b}" for a, b in MERGES)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": tokens}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return vocabulary


def clip(folder: Path, name: str, *, legacy: bool = False, seed: int = 0, **options: Any) -> Any:
    """A tiny random checkpoint, and the model itself."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    folder.mkdir(exist_ok=True)
    vocabulary = byte_pairs(folder)
    ids = {"bos_token_id": vocabulary[BEGIN], "pad_token_id": vocabulary[END]}
    sizes = {"vocab_size": len(vocabulary), "hidden_size": 24, "intermediate_size": 36}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 40}
    sizes |= ids | {"eos_token_id": 2 if legacy else vocabulary[END], "projection_dim": 10}
    sizes |= options
    if name == "CLIPModel":
        image = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1}
        image |= {"num_attention_heads": 2, "image_size": 12, "patch_size": 4}
        config = transformers.CLIPConfig(
            text_config=sizes, vision_config=image, projection_dim=sizes["projection_dim"]
        )
    else:
        config = transformers.CLIPTextConfig(**sizes)
    model = getattr(transformers, name)(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model.float().eval()


def vectors(model: Any, folder: Path, texts: list[str]) -> np.ndarray:
    """Those of transformers, of its own tokens, padded to the longest text as CLIP's are."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, truncation=True, padding="max_length", return_tensors="pt")
    with torch.no_grad():
        if hasattr(model, "get_text_features"):
            return model.get_text_features(**batch).pooler_output.numpy()
        found = model(**batch)
    return (found.text_embeds if "text_embeds" in found else found.pooler_output).numpy()


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "legacy": {"legacy": True},
    "one-layer": {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_act": "gelu"},
    "other": {"layer_norm_eps": 1e-3, "hidden_size": 20, "num_attention_heads": 4, "legacy": True},
    "wide": {"num_hidden_layers": 3, "projection_dim": 48, "intermediate_size": 50},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CLIP)
def test_texts_of_clip_equal_transformers(name: str, shape: str, tmp_path: Path) -> None:
    """Its tokens too; theirs are padded, ours are not."""
    transformers = pytest.importorskip("transformers")
    model = clip(tmp_path, name, seed=len(shape), **SHAPES[shape])
    checkpoint = load(tmp_path, CLIP[name])
    spec = checkpoint.spec
    assert spec.windows == (CAUSAL,) * spec.layers
    assert (spec.pooling, spec.end is None) == ("last", "legacy" in SHAPES[shape])
    ours, theirs = TextTokenizer(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [*TEXTS, LONG]
    tokens = [encode(spec, ours, text, None, 512) for text in texts]
    assert [one.ids.tolist() for one in tokens] == theirs(texts, truncation=True)["input_ids"]
    assert len(tokens[-1].ids) == 40
    wanted = vectors(model, tmp_path, texts)
    assert wanted.shape[1] == spec.outputs
    found = [float_model.run(spec, checkpoint.arrays, one.ids) for one in tokens]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    together = np.concatenate([one.ids for one in tokens])
    lengths = [len(one.ids) for one in tokens]
    several = float_model.run(spec, checkpoint.arrays, together, lengths=lengths)
    np.testing.assert_allclose(several, wanted, rtol=1e-5, atol=1e-5)


def test_without_its_head_a_text_is_the_hidden_vector(tmp_path: Path) -> None:
    model = clip(tmp_path, "CLIPTextModelWithProjection")
    checkpoint = load(tmp_path, "embedding")
    assert checkpoint.spec.outputs == 24
    assert "text_projection" in checkpoint.notes[0]
    tokens = encode(checkpoint.spec, TextTokenizer(tmp_path), "good film", None, 512)
    found = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids)
    wanted = vectors(model.text_model, tmp_path, ["good film"])[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_each_side_of_a_whole_clip_is_reached(tmp_path: Path) -> None:
    clip(tmp_path, "CLIPModel")
    options = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 12}}
    options |= {"crop_size": {"height": 12, "width": 12}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(options))
    image, text = load(tmp_path), load(tmp_path, TEXT_SIDE)
    assert (image.spec.inputs, text.spec.inputs) == ("images", "texts")
    assert (image.spec.outputs, text.spec.outputs) == (10, 10)
    assert "the text side alone is taken" in text.notes
    assert "keys up to the query's own" in description(text)
    config = json.loads((tmp_path / "config.json").read_text())
    older = config["text_config"] | {"num_beams": 1, "top_p": 1.0, "tie_encoder_decoder": False}
    wrong = older | {"hidden_act": "relu", "layer_norm_eps": 1.0}
    for text_config, known in ((older, None), (wrong, config["text_config"])):
        parts = {"text_config": text_config, "text_config_dict": known}
        (tmp_path / "config.json").write_text(json.dumps(config | parts))
        assert load(tmp_path, TEXT_SIDE).spec == text.spec


@pytest.mark.parametrize(
    ("name", "task", "change", "message"),
    [
        ("CLIPTextModel", None, {"is_causal": False}, "whether the mask is causal then depends"),
        ("CLIPTextModel", None, {"is_decoder": True}, "is_decoder is True, which is not supported"),
        (
            "CLIPTextModel",
            None,
            {"eos_token_id": [3]},
            "eos_token_id is [3]: it must be an integer",
        ),
        (
            "CLIPTextModel",
            None,
            {"eos_token_id": 7},
            "ends a text with 519: one of the two is of an",
        ),
        (
            "CLIPTextModel",
            None,
            {"architectures": ["CLIPX"]},
            "CLIPTextModelWithProjection or CLIPM",
        ),
        ("CLIPTextModel", TEXT_SIDE, {}, "is no whole model of images and texts"),
        ("CLIPModel", TEXT_SIDE, {"model_type": "siglip"}, "every text is padded to one length"),
        (
            "CLIPModel",
            TEXT_SIDE,
            {"text_config": 3},
            "text_config must hold the options of the text",
        ),
    ],
)
def test_what_of_clip_is_refused(
    name: str, task: str | None, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    clip(tmp_path, name)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(CheckpointError, match=re.escape(message)):
        load(tmp_path, task)


@pytest.mark.parametrize("legacy", [False, True])
def test_the_end_stands_at_the_end_alone(legacy: bool, tmp_path: Path) -> None:
    clip(tmp_path, "CLIPTextModel", legacy=legacy)
    spec, tokenizer = load(tmp_path).spec, TextTokenizer(tmp_path)
    with pytest.raises(
        InputError, match=f"{re.escape(repr(END))} ends the text for .* the 2 tokens"
    ):
        encode(spec, tokenizer, f"a {END} b", None, 512)
    with pytest.raises(InputError, match="reads one text: give no pair"):
        encode(spec, tokenizer, "a", "b", 512)


DECODERS = ("bert", "camembert", "electra", "roberta", "xlm-roberta")


@pytest.mark.parametrize(
    ("family", "head"),
    quick([one for one in CASES if one[0] in DECODERS and one[1] != "ForMultipleChoice"][::-1], 4)
    + quick([(one, "ForMultipleChoice") for one in DECODERS if one != "electra"], 0),
)
def test_decoders_among_the_families_equal_transformers(
    family: str, head: str, tmp_path: Path
) -> None:
    """All layers are causal; is_causal, where it is false, takes that back."""
    import torch

    for causal in (None, True, False):
        given = {} if causal is None else {"is_causal": causal}
        folder = tmp_path / str(causal)
        model = saved(folder, family, head, is_decoder=True, **given)
        checkpoint = load(folder)
        assert checkpoint.spec.windows == (() if causal is False else (CAUSAL, CAUSAL))
        same(checkpoint, model)
    if (family, head) == ("bert", "Model"):  # as above, with padding behind
        padded = torch.tensor([[5, 6, 7, 0, 0]]), torch.tensor([[1, 1, 1, 0, 0]])
        model = saved(tmp_path / "p", family, head, is_decoder=True)
        checkpoint = load(tmp_path / "p")
        with torch.no_grad():
            wanted = model(padded[0], attention_mask=padded[1]).last_hidden_state[0, :3].mean(0)
        ids = padded[0][0, :3].numpy().astype(np.int32)
        found = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["albert", "distilbert", "mpnet"])
def test_a_family_that_does_not_read_is_decoder_refuses_it(family: str, tmp_path: Path) -> None:
    saved(tmp_path, family, HEADS[0])
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"is_decoder": True}))
    with pytest.raises(CheckpointError, match="is_decoder is True, which is not supported"):
        load(tmp_path)


OWN: dict[str, Any] = {
    "causal": [None, 0],
    "window": [2, 1],
    "mix": [None, [3, 0]],
    "ahead": [[0, None], [0, 0]],
}


def own_mask(window: Any, layer: int, length: int) -> np.ndarray:
    """Which keys are hidden, by the sentence in docs/models.md."""
    before, after = (window if not any(isinstance(x, list) for x in window) else window[layer]) or (
        None,
        None,
    )
    return np.array(
        [
            [
                (before is not None and k < q - before) or (after is not None and k > q + after)
                for k in range(length)
            ]
            for q in range(length)
        ]
    )


@pytest.mark.parametrize("window", OWN.values(), ids=OWN)
@pytest.mark.parametrize("bias", ["none", "alibi"])
def test_a_plain_encoder_equals_pytorch(window: Any, bias: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    checkpoint = load(write_own(tmp_path, {"window": window, "position_bias": bias}))
    ids = np.random.default_rng(3).integers(2, 12, 16).astype(np.int32)
    arrays = tiny.transformer_tensors(tiny.tensors())
    x = arrays["embedding.weight"][ids] * np.sqrt(np.float32(12))
    y = torch.tensor(x + checkpoint.arrays["embedding.position"])[None]
    for i in range(2):
        layer = torch.nn.TransformerEncoderLayer(
            12, 3, 20, 0.0, "relu", 1e-5, batch_first=True, norm_first=True
        ).eval()
        name = f"encoder.layers.{i}."
        layer.load_state_dict(
            {k.removeprefix(name): torch.tensor(v) for k, v in arrays.items() if name in k}
        )
        mask = np.zeros((3, 16, 16), np.float32)
        if bias == "alibi":
            for h, slope in enumerate((1 / 16, 1 / 256, 1 / 4)):
                mask[h] = [[-slope * abs(k - q) for k in range(16)] for q in range(16)]
        mask[:, own_mask(window, i, 16)] = -np.inf
        with torch.no_grad():
            y = layer(y, src_mask=torch.tensor(mask))
    norm = torch.nn.LayerNorm(12, 1e-5)
    norm.weight.data = torch.tensor(arrays["encoder.norm.weight"])
    norm.bias.data = torch.tensor(arrays["encoder.norm.bias"])
    with torch.no_grad():
        y = norm(y)[0].mean(dim=0).numpy()
    wanted = arrays["classifier.weight"] @ y + arrays["classifier.bias"]
    found = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert EncoderSpec.from_json(json.loads(json.dumps(checkpoint.spec.to_json()))) == (
        checkpoint.spec
    )


@pytest.mark.parametrize("window", [None, [None, None], [None, None, None]])
def test_no_window_is_none(window: Any, tmp_path: Path) -> None:
    if window is not None and len(window) == 3:
        with pytest.raises(CheckpointError, match="must have one for each of the 2 layers"):
            load(write_own(tmp_path, {"window": window}))
    else:
        assert load(write_own(tmp_path, {"window": window})).spec.windows == ()


@pytest.mark.parametrize(
    "window", [[-1, 0], [1, 8192], [1.0, 2], [True, 0], 3, "causal", [[1], [2]], [[1, 2, 3], None]]
)
def test_own_windows_that_are_wrong(window: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"window is .*: it must be \[before, after\], the k"):
        load(write_own(tmp_path, {"window": window}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"windows": (CAUSAL,)}, "windows are .*one for each of the 2 layers"),
        ({"windows": (None, None)}, "or \\(\\) where no layer has one"),
        ({"pooling": "last"}, "only an embedding is read from the last token"),
        ({"end": 3}, "end is 3 and pooling 'first'"),
        ({"width": 3}, "width is 3 and task 'classification'"),
    ],
)
def test_a_spec_that_is_wrong(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    spec = load(tiny.write(tmp_path)).spec
    with pytest.raises(ValueError, match=message):
        replace(spec, **change)


def test_scores_that_a_window_hides_do_not_count(tmp_path: Path) -> None:
    """For the ranges that calibration observes."""
    rng = np.random.default_rng(5)
    scores = rng.integers(-90, 90, (2, 6, 6)).astype(np.int16)
    window = Window(1, 0)
    hidden = ~in_window(window, 6)
    loud = np.where(hidden, 32767, scores).astype(np.int16)
    np.testing.assert_array_equal(within(loud, window)[:, ~hidden], scores[:, ~hidden])
    checkpoint = load(write_own(tmp_path, {"window": [1, 0]}))
    ids = np.arange(2, 12, dtype=np.int32)
    observers: dict[str, Observer] = {}
    trace: dict[str, Any] = {}
    float_model.run(checkpoint.spec, checkpoint.arrays, ids, trace=trace)
    observe(trace, observers)
    q, k = (trace[f"layer.1.{name}"].reshape(10, 3, 4) for name in "qk")
    exact = np.einsum("qhd,khd->hqk", q, k) / 2
    shown = in_window(Window(1, 0), 10)
    found = observers["layer.1.scores"]
    assert found.maximum == pytest.approx(exact[:, shown].max(), rel=1e-5)
    assert found.minimum == pytest.approx(exact[:, shown].min(), rel=1e-5)
    assert exact[:, ~shown].max() > found.maximum
    assert not trace["layer.1.probs"][:, ~shown].any()


def texts_of(spec: EncoderSpec, count: int, seed: int) -> list[Tokens]:
    """Random texts, with the end where it is read."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        ids = rng.integers(2, spec.vocabulary - 2, rng.integers(2, spec.max_tokens)).astype(
            np.int32
        )
        if spec.end is not None:
            ids[-1] = spec.end
        found.append(Tokens(ids, np.zeros_like(ids), tuple(map(str, ids))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("window", OWN.values(), ids=OWN)
def test_integers_follow_a_window(window: Any, tmp_path: Path) -> None:
    """Golden keeps to float, as close as without it; so do the remedies, and the stand-in."""
    checkpoint = load(write_own(tmp_path, {"window": window}))
    spec = checkpoint.spec
    texts, others = texts_of(spec, 60, 1), texts_of(spec, 40, 2)
    for options in (Options(remedies=REMEDIES), Options(remedies=(), precise=True)):
        found = Calibrator(checkpoint, texts, precise=options.precise).quantize(options)
        assert check(checkpoint, found, others)["logits"].sqnr > 20
    quantized = Calibrator(checkpoint, texts).quantize(Options(remedies=("centre", "split")))
    assert tuple(layer.window for layer in quantized.model.layers) == spec.windows
    assert tuple(layer.window for layer in stand_in(checkpoint).layers) == spec.windows
    errors = check(checkpoint, quantized, others)
    assert errors["layer.1.probs"].sqnr > 25
    assert errors["logits"].sqnr > 20
    for text in others[:8]:
        golden = encoder.run(quantized.model, text.ids)
        np.testing.assert_array_equal(fast.run(quantized.model, text.ids), golden)


def test_integers_of_clip_are_those_of_the_last_token(tmp_path: Path) -> None:
    clip(tmp_path, "CLIPTextModelWithProjection", hidden_size=48, num_attention_heads=4)
    checkpoint = load(tmp_path)
    spec = checkpoint.spec
    texts, others = texts_of(spec, 80, 1), texts_of(spec, 30, 2)
    quantized = Calibrator(checkpoint, texts).quantize(Options(remedies=()))
    assert quantized.model.shape.pooling == shape_of(spec).pooling == "none"
    exact = [float_model.run(spec, checkpoint.arrays, text.ids) for text in others]
    found = fast.run_batch(quantized.model, [text.ids for text in others])
    assert len(found) == sum(len(text.ids) for text in others)
    kept = spec.kept(found, [len(text.ids) for text in others])
    alone = [encoder.run(quantized.model, text.ids)[-1] for text in others]
    np.testing.assert_array_equal(kept, alone)
    assert cosines(kept, np.array(exact)).min() > 0.98
    errors = check(checkpoint, quantized, others)
    assert errors["logits"].count == 30 * 10
    assert min(errors["logits"].sqnr, errors["pooled"].sqnr) > 20


def test_texts_of_clip_are_embedded(tmp_path: Path, capsys: Any) -> None:
    from quant.calibrate import main as calibrate

    folder, out = tmp_path / "clip", tmp_path / "quantized"
    clip(folder, "CLIPModel", hidden_size=48, num_attention_heads=4)
    sentences = tmp_path / "sentences.csv"
    sentences.write_text("text\n" + "\n".join(f"a film of {i} words" for i in range(24)) + "\n")
    arguments = ["--model", str(folder), "--data", str(sentences), "--out", str(out)]
    assert calibrate([*arguments, "--task", TEXT_SIDE, "--remedies", "none"]) == 0
    vectors_file, figures = tmp_path / "vectors.npy", tmp_path / "figures.json"
    arguments = [str(sentences), "--quantized", str(out), "-o", str(vectors_file)]
    assert embed([*arguments, "--json", str(figures)]) == 0
    found = np.load(vectors_file)
    assert found.shape == (24, 10)
    np.testing.assert_allclose(np.square(found).sum(axis=1), 1, rtol=1e-5)
    assert json.loads(figures.read_text())["worst_cosine"] > 0.98
