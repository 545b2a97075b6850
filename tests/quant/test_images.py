"""Front ends and encoders of images against transformers' own models and image processors."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.options import Parser

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file

from quant import calibrate, inspect
from quant.foreign import processor, vision
from quant.foreign.checkpoint import Checkpoint, fingerprint, load
from quant.images import front
from quant.model import float_model
from quant.model.spec import CheckpointError, InputError
from rtl.compile.fit import FitError
from rtl.compile.options import add_fit, fit
from rtl.interface.options import add_config_options
from sim.cycles import __main__ as cycles
from sim.estimate import __main__ as estimate

MODELS = {"vit": "ViT", "deit": "DeiT", "dinov2": "Dinov2"}
MODELS |= {"dinov2_with_registers": "Dinov2WithRegisters"}
MODELS |= {"siglip_vision_model": "Siglip", "clip_vision_model": "CLIP"}


def saved(folder: Path, family: str, kind: str, *, seed: int = 0, **options: Any) -> Any:
    """A tiny random checkpoint, and the model itself."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    whole = {"siglip": "siglip_vision_model", "clip": "clip_vision_model"}
    sizes: dict[str, Any] = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2}
    sizes |= {"image_size": 12, "patch_size": 4}
    sizes |= {"mlp_ratio": 2} if family.startswith("dinov2") else {"intermediate_size": 36}
    sizes |= {name: value for name, value in options.items() if name != "num_labels"}
    labels = {name: value for name, value in options.items() if name == "num_labels"}
    if family in whole:
        text = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 1}
        text |= {"intermediate_size": 36, "vocab_size": 40, "bos_token_id": 1, "eos_token_id": 2}
        parts = {"vision_config": sizes, "text_config": text, **labels}
        config = transformers.AutoConfig.for_model(family, **parts)
    else:
        config = transformers.AutoConfig.for_model(family, **sizes, **labels)
    name = MODELS[whole.get(family, family)]
    model = getattr(transformers, f"{name}{kind}")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model.float().eval()


def processed(folder: Path, name: str = "ViTImageProcessor", **options: Any) -> None:
    """The preprocessor_config.json of a folder."""
    options = {"image_processor_type": name} | options
    (folder / "preprocessor_config.json").write_text(json.dumps(options))


def theirs(folder: Path) -> Any:
    """transformers' own image processor, in its form for Pillow."""
    from importlib import import_module

    options = json.loads((folder / "preprocessor_config.json").read_text())
    name = options["image_processor_type"]
    model = name.removesuffix("ImageProcessor").lower()
    module = import_module(f"transformers.models.{model}.image_processing_pil_{model}")
    return getattr(module, f"{name}Pil").from_pretrained(folder)


def drawn(seed: int, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """A smooth random image with noise, so that filters matter."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (3, 4, channels), np.uint8)
    picture = Image.fromarray(coarse[:, :, 0] if channels == 1 else coarse)
    smooth = np.asarray(picture.resize((width, height), 3)).astype(int)
    noisy = smooth + rng.integers(-20, 21, smooth.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def ours(checkpoint: Checkpoint, image: NDArray[np.uint8]) -> NDArray[np.floating[Any]]:
    """The outputs of the float model on an image."""
    assert checkpoint.front is not None
    rows = checkpoint.front.rows(image)
    arrays = checkpoint.arrays | {"embedding.token": rows}
    return float_model.run(checkpoint.spec, arrays, np.arange(len(rows), dtype=np.int32))


def compared(folder: Path, model: Any, image: NDArray[np.uint8], task: str | None = None) -> Any:
    """The checkpoint, our outputs for an image, and what transformers makes of the same."""
    import torch

    checkpoint = load(folder, task)
    assert checkpoint.front is not None
    assert checkpoint.resolved is None
    spec = checkpoint.spec
    assert spec.given
    assert len(checkpoint.front.tokens) == spec.vocabulary == spec.max_tokens
    values = theirs(folder)(Image.fromarray(image), return_tensors="np")["pixel_values"]
    assert np.array_equal(checkpoint.front.pixels(image), values[0])
    with torch.no_grad():
        found = model(torch.tensor(values))
    return checkpoint, ours(checkpoint, image), found


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "left-over": {"image_size": 13, "num_hidden_layers": 1},
    "grey": {"image_size": 10, "patch_size": 2, "num_channels": 1},
    "one-patch": {"image_size": 7, "patch_size": 7, "num_attention_heads": 2},
    "other": {"image_size": 15, "patch_size": 5, "layer_norm_eps": 1e-3, "hidden_act": "relu"},
}
NO_BIAS = {"qkv_bias": False, "num_hidden_layers": 3}
PAIRS = {"image_size": [12, 20], "patch_size": [4, 5]}
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    *((f, "ForImageClassification", s, o) for f in ("vit", "deit") for s, o in SHAPES.items()),
    *((f, "ForImageClassification", "pairs", PAIRS) for f in ("vit", "deit")),
    *((f, "Model", "no-bias", NO_BIAS) for f in ("vit", "deit", "dinov2")),
    *(("dinov2", "Model", s, o) for s, o in SHAPES.items()),
    *(("dinov2_with_registers", "Model", s, o) for s, o in SHAPES.items()),
    ("dinov2_with_registers", "Model", "two", {"num_register_tokens": 2, **NO_BIAS}),
    *(("siglip", "ForImageClassification", s, o) for s, o in SHAPES.items()),
    ("siglip_vision_model", "VisionModel", "plain", {}),
    ("siglip_vision_model", "VisionModel", "no-head", {"vision_use_head": False}),
    *(("clip_vision_model", "VisionModel", s, o) for s, o in SHAPES.items()),
    ("clip_vision_model", "VisionModelWithProjection", "plain", {"projection_dim": 10}),
]


@pytest.mark.parametrize(("family", "kind", "shape", "options"), CASES)
def test_the_outputs_are_those_of_transformers(
    family: str, kind: str, shape: str, options: dict[str, Any], tmp_path: Path
) -> None:
    labels = {"num_labels": 5} if kind == "ForImageClassification" else {}
    model = saved(tmp_path, family, kind, seed=len(shape), **options, **labels)
    size, channels = options.get("image_size", 12), options.get("num_channels", 3)
    height, width = size if isinstance(size, list) else (size, size)
    middle = [0.4] * channels
    processed(
        tmp_path, size={"height": height, "width": width}, image_mean=middle, image_std=middle
    )
    task = "embedding" if kind == "VisionModel" and family.startswith("siglip") else None
    for seed in range(2):
        image = drawn(seed, 17 + seed, 23, channels)
        checkpoint, found, wanted = compared(tmp_path, model, image, task)
        if kind == "ForImageClassification":
            expected = wanted.logits[0]
            assert checkpoint.spec.labels == tuple(f"LABEL_{i}" for i in range(5))
        elif family.startswith("siglip"):
            expected = wanted.last_hidden_state[0].mean(0)
        elif family in ("vit", "deit"):
            expected = wanted.last_hidden_state[0, 0]
        else:
            projected = kind.endswith("WithProjection")
            expected = wanted.image_embeds[0] if projected else wanted.pooler_output[0]
        assert np.abs(found - expected.numpy()).max() < 1e-5
        assert np.abs(found).max() > 1e-2


@pytest.mark.parametrize("family", ["dinov2", "dinov2_with_registers"])
@pytest.mark.parametrize("crop", [(20, 20), (8, 8), (16, 16), (9, 22), (17, 17), (8, 32)])
def test_positions_of_dinov2_are_resampled_as_in_transformers(
    family: str, crop: tuple[int, int], tmp_path: Path
) -> None:
    model = saved(tmp_path, family, "Model", image_size=16)
    processed(
        tmp_path,
        "BitImageProcessor",
        size={"shortest_edge": 24},
        crop_size={"height": crop[0], "width": crop[1]},
    )
    checkpoint, found, wanted = compared(tmp_path, model, drawn(4, 30, 37, 3))
    assert checkpoint.front.grid == (crop[0] // 4, crop[1] // 4)
    assert np.abs(found - wanted.pooler_output[0].numpy()).max() < 1e-5


@pytest.mark.parametrize("smooth", [False, True])
def test_a_grid_is_resampled_as_torch_does_it(smooth: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    for _ in range(20):
        old, new = rng.integers(1, 12, 2), rng.integers(1, 12, 2)
        grid = rng.normal(size=(*old, 3)).astype(np.float32)
        wanted = (
            torch.nn.functional.interpolate(
                torch.tensor(grid).permute(2, 0, 1)[None],
                size=tuple(map(int, new)),
                mode="bicubic",
                align_corners=False,
                antialias=smooth,
            )[0]
            .permute(1, 2, 0)
            .numpy()
        )
        found = vision.resampled(grid, (int(new[0]), int(new[1])), smooth)
        assert np.abs(found - wanted).max() < 2e-6, (old, new)


@pytest.mark.parametrize("family", ["vit", "deit", "dinov2"])
def test_tensors_as_they_are_called_in_memory_are_read(family: str, tmp_path: Path) -> None:
    model = saved(tmp_path, family, "Model")
    processed(tmp_path, size=12)
    first = load(tmp_path)
    tensors = {name: x.detach().contiguous() for name, x in model.state_dict().items()}
    assert any("q_proj" in name for name in tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    second = load(tmp_path)
    assert first.arrays.keys() == second.arrays.keys()
    assert all(np.array_equal(x, second.arrays[name]) for name, x in first.arrays.items())


def test_of_a_whole_model_the_image_side_is_taken(tmp_path: Path) -> None:
    import torch

    image = drawn(2, 12, 12, 3)
    for family in ("clip", "siglip"):
        folder = tmp_path / family
        model = saved(folder, family, "Model")
        processed(folder, size=12, image_mean=0.5, image_std=0.25)
        checkpoint = load(folder)
        assert "the image side alone is taken" in " ".join(checkpoint.notes)
        assert checkpoint.front is not None
        with torch.no_grad():
            wanted = model.vision_model(torch.tensor(checkpoint.front.pixels(image)[None]))
            if family == "clip":
                expected = model.visual_projection(wanted.pooler_output)[0]
                assert checkpoint.spec.outputs == len(expected) != checkpoint.spec.hidden
        if family == "clip":
            bare = load(folder, "embedding")
            difference = ours(bare, image) - wanted.pooler_output[0].numpy()
            assert np.abs(difference).max() < 1e-5
        else:
            expected = wanted.last_hidden_state[0].mean(0)
        assert np.abs(ours(checkpoint, image) - expected.numpy()).max() < 1e-5


def test_an_older_config_of_clip_is_read(tmp_path: Path) -> None:
    saved(tmp_path, "clip", "Model")
    processed(tmp_path, size=12)
    wanted = load(tmp_path).spec
    config = json.loads((tmp_path / "config.json").read_text())
    side = config["vision_config"]
    other = {"hidden_act": "relu", "num_beams": 1, "top_p": 1.0, "tie_encoder_decoder": False}
    older = {"vision_config": side | other, "vision_config_dict": side, "text_config_dict": None}
    (tmp_path / "config.json").write_text(json.dumps(config | older))
    assert load(tmp_path).spec == wanted
    for wrong, message in (
        ({"auto_map": {"AutoModel": "x.Y"}}, "code of its own, which is never run"),
        ({"scale_of_mine": 2}, "scale_of_mine is 2, an option that clip does not have"),
        ({"vision_config": side | {"scale_of_mine": 2}}, "that clip_vision_model does not have"),
        ({"vision_config": side | {"model_type": "vit"}}, "model_type in vision_config is 'vit'"),
        ({"vision_config": [side]}, "vision_config must hold the options of the image side"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | wrong))
        with pytest.raises(CheckpointError, match=message):
            load(tmp_path)


STEPS: list[tuple[str, str, dict[str, Any]]] = [
    *(("ViTImageProcessor", f"filter-{i}", {"size": 9, "resample": i}) for i in range(6)),
    *(
        (f"{name}ImageProcessor", "defaults", {})
        for name in ("ViT", "DeiT", "CLIP", "Siglip", "Bit")
    ),
    ("ViTImageProcessor", "list", {"size": [7, 31]}),
    ("CLIPImageProcessor", "int", {"size": 10, "crop_size": 8}),
    ("CLIPImageProcessor", "odd", {"size": 11, "crop_size": {"height": 8, "width": 6}}),
    ("CLIPImageProcessor", "larger", {"size": 9, "crop_size": {"height": 14, "width": 33}}),
    ("CLIPImageProcessor", "square", {"size": 9, "default_to_square": True, "crop_size": 9}),
    (
        "BitImageProcessor",
        "both",
        {"size": {"shortest_edge": 20, "longest_edge": 23}, "do_center_crop": False},
    ),
    (
        "BitImageProcessor",
        "loose",
        {"size": {"shortest_edge": 9, "longest_edge": 99}, "crop_size": 9},
    ),
    ("BitImageProcessor", "fit", {"size": {"max_height": 12, "max_width": 40}, "crop_size": 13}),
    ("DeiTImageProcessor", "crop-alone", {"do_resize": False, "crop_size": 25}),
    (
        "ViTImageProcessor",
        "nothing",
        {"do_resize": False, "do_rescale": False, "do_normalize": False},
    ),
    ("ViTImageProcessor", "raw", {"do_rescale": False, "size": 8, "image_mean": [1.0, 2.0, 3.0]}),
    ("ViTImageProcessor", "scaled", {"rescale_factor": 0.3, "do_normalize": False, "size": 8}),
    (
        "SiglipImageProcessor",
        "null",
        {"size": 8, "crop_size": None, "do_pad": False, "default_to_square": True},
    ),
    ("ViTImageProcessor", "unset", {"size": 8, "do_rescale": None, "default_to_square": None}),
]


@pytest.mark.parametrize(("name", "what", "options"), STEPS)
def test_pixels_are_those_of_transformers(
    name: str, what: str, options: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    processed(tmp_path, name, **options)
    steps = processor.read(tmp_path, "vit", 3)
    for seed, (height, width) in enumerate([(20, 31), (31, 20), (24, 24), (9, 40), (20, 23)]):
        image = drawn(seed, height, width, 3)
        wanted = theirs(tmp_path)(Image.fromarray(image), return_tensors="np")["pixel_values"][0]
        found = steps.values(steps.shown(image)).transpose(2, 0, 1)
        assert found.shape == wanted.shape
        assert np.array_equal(found, wanted.astype(np.float32))


def test_defaults_are_those_of_the_classes() -> None:
    from importlib import import_module

    for name, options in processor.CLASSES.items():
        model = name.removesuffix("ImageProcessor").lower()
        module = import_module(f"transformers.models.{model}.image_processing_pil_{model}")
        made = getattr(module, f"{name}Pil")
        for option, value in options.items():
            found = getattr(made, option, None)
            assert value == (tuple(found) if isinstance(found, list) else found), (name, option)


@pytest.mark.parametrize("older", ["ViTFeatureExtractor", "ViTImageProcessorFast", None])
def test_older_names_of_image_processors_are_read(older: str | None, tmp_path: Path) -> None:
    options = {"feature_extractor_type": older, "size": 12}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(options))
    assert processor.read(tmp_path, "vit", 3).size == {"height": 12, "width": 12}
    nested = {"processor_class": "CLIPProcessor", "image_processor": options | {"size": 8}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    assert processor.read(tmp_path, "vit", 3).size == {"height": 8, "width": 8}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"size": {"longest_edge": 8}},
            r"size is \{'longest_edge': 8\}: it must be a whole number",
        ),
        ({"size": 0}, "size is 0: it must be a whole number"),
        ({"size": 70000}, "size is 70000: it must be a whole number"),
        ({"size": True}, "size is True"),
        ({"size": [1, 2, 3]}, r"size is \[1, 2, 3\]"),
        ({"size": {"height": 8, "width": 8.0}}, "size is .*8.0"),
        ({"resample": 60}, "resample is 60: it must be one of Pillow's filters: 0 .nearest."),
        ({"resample": "bicubic"}, "resample is 'bicubic'"),
        ({"do_resize": "yes"}, "do_resize is 'yes': it must be true or false"),
        ({"do_center_crop": True}, "crop_size is None: it must be a whole number, or height"),
        ({"do_center_crop": True, "crop_size": {"shortest_edge": 8}}, "crop_size is"),
        ({"rescale_factor": "1/255"}, "rescale_factor is '1/255': it must be a finite number"),
        ({"image_mean": [0.5]}, r"image_mean is \[0.5\]: it must be a finite number, or 3"),
        ({"image_std": [1, 1, 0]}, r"image_std is \[1, 1, 0\]: .* that is not 0, or 3"),
        ({"image_std": [1, 1, float("inf")]}, "image_std is"),
        ({"image_mean": None}, "image_mean is None: it must be a finite number, or 3"),
        ({"size": None}, "size is None: it must be a whole number"),
        ({"do_pad": True, "pad_size": 9}, "do_pad is True, which nothing follows"),
        ({"crop_pct": 0.9}, "crop_pct is 0.9, which nothing follows for ViTImageProcessor"),
        ({"do_flip_channel_order": True}, "do_flip_channel_order is True"),
        ({"data_format": "channels_last"}, "data_format is 'channels_last'"),
        ({"auto_map": {"AutoImageProcessor": "x.Y"}}, "auto_map is .*code of its own"),
        ({"image_processor_type": "BeitImageProcessor"}, "image_processor_type is 'Beit"),
        ({"image_processor_type": 3}, "image_processor_type is 3: it must be one of Bit"),
    ],
)
def test_what_would_change_pixels_is_refused_by_name(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    processed(tmp_path, **options)
    with pytest.raises(CheckpointError, match=message):
        processor.read(tmp_path, "vit", 3)


def test_a_grey_model_takes_one_channel_alone(tmp_path: Path) -> None:
    processed(tmp_path, do_convert_rgb=True, image_mean=0.5, image_std=0.5)
    with pytest.raises(CheckpointError, match="do_convert_rgb is True: it must be false for a"):
        processor.read(tmp_path, "vit", 1)


@pytest.mark.parametrize(
    ("family", "kind", "change", "message"),
    [
        ("vit", "ForMaskedImageModeling", {}, "ViTForMaskedImageModeling paints patches"),
        ("deit", "ForImageClassificationWithTeacher", {}, "WithTeacher is two classifiers"),
        ("dinov2", "ForImageClassification", {}, "the class token beside the mean"),
        ("clip", "ForImageClassification", {}, "mean of the patches before the final norm"),
        ("siglip_vision_model", "VisionModel", {}, "--task embedding takes their mean instead"),
        ("dinov2", "Model", {"use_swiglu_ffn": True}, r"SwiGLU.*use_swiglu_ffn is True"),
        ("vit", "Model", {"image_size": 16}, "4 x 4 patches, but the weights have 9 positions"),
        ("vit", "Model", {"image_size": "12"}, "image_size is '12': it must be a whole number or"),
        ("vit", "Model", {"patch_size": [4, 4, 4]}, r"patch_size is \[4, 4, 4\]"),
        ("clip_vision_model", "VisionModel", {"image_size": [12, 12]}, r"image_size is \[12, 12\]"),
        ("vit", "Model", {"num_channels": 1}, r"projection.weight has shape \(24, 3, 4, 4\)"),
        ("vit", "Model", {"qkv_bias": False}, "bias has no place"),
        ("vit", "Model", {"head_dim": 4}, "head_dim is 4, an option that vit does not have"),
        ("vit", "Model", {"hidden_size": 12}, "has shape"),
        (
            "vit",
            "Model",
            {"model_type": "beit"},
            "'beit' cannot run: layer.0.scores: a bias by rows and columns",
        ),
        ("vit", "Model", {"model_type": "siglip2"}, "another number of patches"),
        ("vit", "Model", {"architectures": ["ViTX"]}, r"architectures is \['ViTX'\]"),
    ],
)
def test_what_does_not_map_is_refused_by_name(
    family: str, kind: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    saved(
        tmp_path,
        family,
        kind,
        **(
            {"patch_size": 4, "image_size": 16, "encoder_stride": 4}
            if kind == "ForMaskedImageModeling"
            else {}
        ),
    )
    processed(tmp_path, size=12, image_mean=0.5, image_std=0.5)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("vit", "ForMaskedImageModeling"),
        ("deit", "ForImageClassificationWithTeacher"),
        ("dinov2", "ForImageClassification"),
        ("clip_vision_model", "VisionModelWithProjection"),
        ("clip", "ForImageClassification"),
    ],
)
def test_a_head_is_left_out_for_an_embedding(family: str, kind: str, tmp_path: Path) -> None:
    options = {"encoder_stride": 4} if kind == "ForMaskedImageModeling" else {}
    saved(tmp_path, family, kind, **options)
    processed(tmp_path, size=12)
    checkpoint = load(tmp_path, "embedding")
    assert "is left out" in " ".join(checkpoint.notes)
    assert checkpoint.spec.task == "embedding"


def test_an_image_processor_of_another_size_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, "vit", "Model")
    with pytest.raises(CheckpointError, match=r"has no preprocessor_config.json, which says how"):
        load(tmp_path)
    processed(tmp_path, size=16)
    with pytest.raises(CheckpointError, match=r"images become 16 x 16 pixels .* 12 x 12"):
        load(tmp_path)
    saved(tmp_path / "dino", "dinov2", "Model")
    processed(tmp_path / "dino", "BitImageProcessor", do_center_crop=False)
    with pytest.raises(CheckpointError, match="without a crop, so that each image has another"):
        load(tmp_path / "dino")


def test_more_tokens_than_an_accelerator_takes_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, "vit", "Model", image_size=91, patch_size=1, num_hidden_layers=1)
    processed(tmp_path, size=91)
    with pytest.raises(CheckpointError, match=r"an image has 8,282 tokens: .* 8,192 at most"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (inspect.main, lambda found: found["needs"][0]["tokens"]),
        (cycles.main, lambda found: found["tokens"]),
        (estimate.main, lambda found: found["performance"]["tokens"]),
    ],
)
def test_the_one_length_of_an_image_is_counted(
    command: Any, key: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """16 x 16 patches and the class token, of 128 tokens that texts are counted by."""
    saved(tmp_path, "vit", "ForImageClassification", image_size=64, num_labels=3)
    processed(tmp_path, size={"height": 64, "width": 64})
    model = [str(tmp_path)] if command is inspect.main else ["--model", str(tmp_path)]
    model += ["--texts", "1"] * (command is inspect.main)
    assert command([*model, "--json", str(tmp_path / "found.json")]) == 0
    assert key(json.loads((tmp_path / "found.json").read_text())) == 257
    assert command([*model, "--tokens", "257"]) == 0
    for tokens in ("64", "512"):
        assert command([*model, "--tokens", tokens]) == 2
        assert "257" in capsys.readouterr().err.splitlines()[-1]


def test_hardware_for_images_takes_one(tmp_path: Path) -> None:
    """The accelerator that is sized for a quantized model, beside one of texts or alone."""
    saved(tmp_path / "model", "vit", "ForImageClassification", image_size=64, num_labels=3)
    processed(tmp_path / "model", size={"height": 64, "width": 64})
    data = tmp_path / "images.npz"
    np.savez(data, images=np.random.default_rng(0).integers(0, 256, (2, 64, 64), np.uint8))
    common = ["--model", str(tmp_path / "model"), "--remedies", "none"]
    out = tmp_path / "out"
    assert calibrate.main([*common, "--data", str(data), "--out", str(out)]) == 0
    parser = Parser("fit", "", "")
    add_fit(parser)
    add_config_options(parser)
    assert fit(parser.parse_args(["--fit", str(out)])).tokens == 257
    with pytest.raises(FitError, match="--tokens 200 too small for the model: give `--tokens 257`"):
        fit(parser.parse_args(["--fit", str(out), "--tokens", "200"]))
    batches = ["--batch", "600", "--data", str(data), "--quantized", str(out)]
    assert cycles.main(batches) == 0


def test_the_hash_is_of_the_image_processor_too(tmp_path: Path) -> None:
    saved(tmp_path, "vit", "Model")
    processed(tmp_path, size=12)
    first = fingerprint(tmp_path)
    assert load(tmp_path).sha256 == first
    processed(tmp_path, size=12, resample=3)
    assert fingerprint(tmp_path) != first


@pytest.fixture
def made(tmp_path: Path) -> front.Front:
    rng = np.random.default_rng(1)
    return front.Front(
        steps=front.Steps(crop=(6, 8), scale=1 / 255, mean=(0.5,) * 3, deviation=(0.5,) * 3),
        height=6,
        width=8,
        projection=rng.normal(size=(5, 3, 2, 4)).astype(np.float32),
        offsets=rng.normal(size=(6, 5)).astype(np.float32),
        before=rng.normal(size=(1, 5)).astype(np.float32),
        names=("[CLS]",),
    )


def test_a_front_end_is_stored_whole(made: front.Front, tmp_path: Path) -> None:
    facts = json.loads(json.dumps(made.facts))
    made.save(tmp_path)
    again = front.stored(tmp_path, facts)
    image = drawn(0, 9, 11, 3)
    assert np.array_equal(again.rows(image), made.rows(image))
    assert again.facts == facts
    assert again.tokens[:4] == ("[CLS]", "0,0", "0,1", "1,0")
    assert made.rows(image).dtype == np.float32
    patch = made.pixels(image)[:, 2:4, 4:8]
    wanted = np.einsum("chw,kchw->k", patch, made.projection) + made.offsets[3]
    assert np.allclose(made.rows(image)[4], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f, facts: facts["steps"].update(scale=1 / 254), None),
        (lambda f, facts: facts.update(sha256="0" * 64), "its arrays are not those in"),
        (lambda f, facts: facts.pop("height"), "does not say how an image is read"),
        (lambda f, facts: facts["steps"].update(turned=1), "does not say how an image is read"),
        (lambda f, facts: facts.update(height=4), "is damaged: calibrate again"),
        (lambda f, facts: f.write_bytes(f.read_bytes()[:200]), "calibrate again"),
        (lambda f, facts: f.write_bytes(b"x"), "calibrate again"),
        (lambda f, facts: f.unlink(), "cannot read .*front.npz: No such file"),
    ],
)
def test_another_front_end_is_refused(
    made: front.Front, damage: Any, message: str | None, tmp_path: Path
) -> None:
    facts = json.loads(json.dumps(made.facts))
    made.save(tmp_path)
    damage(tmp_path / front.FILE, facts)
    if message is None:
        assert front.stored(tmp_path, facts).steps.scale == 1 / 254
        return
    with pytest.raises(CheckpointError, match=message):
        front.stored(tmp_path, facts)


def test_an_image_of_another_kind_is_refused(made: front.Front) -> None:
    for image in (
        np.zeros((6, 8), np.float32),
        np.zeros((6, 8, 4), np.uint8),
        np.zeros((3, 6, 8), np.uint8),
        np.zeros((0, 8), np.uint8),
        np.zeros(8, np.uint8),
    ):
        with pytest.raises(InputError, match=r"the image is an array of .* it must be uint8"):
            made.rows(image)
    plain = replace(made, steps=front.Steps())
    with pytest.raises(InputError, match="9 x 11 pixels: the model takes 6 x 8"):
        plain.rows(drawn(0, 9, 11, 3))
    shortest = replace(made, steps=front.Steps(size={"shortest_edge": 6}))
    with pytest.raises(InputError, match="12 x 12 pixels, 6 x 6 as preprocessed: the model takes"):
        shortest.rows(drawn(0, 12, 12, 3))
    thin = np.zeros((1, 60000, 3), np.uint8)
    large = replace(made, steps=front.Steps(size={"shortest_edge": 6000}))
    with pytest.raises(
        InputError, match="60000 x 1 pixels and would be resized to 360000000 x 6000"
    ):
        large.rows(thin)


def test_grey_and_colours_are_made_of_each_other(made: front.Front) -> None:
    grey, colour = drawn(0, 9, 11, 1), drawn(0, 9, 11, 3)
    assert np.array_equal(made.rows(grey), made.rows(np.repeat(grey[:, :, None], 3, 2)))
    assert np.array_equal(made.rows(grey), made.rows(grey[:, :, None]))
    one = replace(
        made,
        projection=made.projection[:, :1],
        steps=replace(made.steps, mean=(0.5,), deviation=(0.5,)),
    )
    weights = np.array([0.299, 0.587, 0.114])
    assert np.abs(one.image(colour) - made.image(colour) @ weights).max() <= 0.51
    assert np.array_equal(one.image(grey), made.image(grey)[:, :, 0])
