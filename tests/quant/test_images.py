"""Front ends and encoders of images against transformers' own models and image processors."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.options import Parser

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file

from quant import calibrate
from quant.foreign import vision
from quant.foreign.checkpoint import load
from quant.foreign.proof import proved
from quant.images import front
from quant.model.spec import CheckpointError, EncoderSpec, InputError
from quant.which import of_quantized
from rtl.compile.fit import FitError
from rtl.compile.options import add_fit, fit
from rtl.interface.options import add_config_options
from sim.cycles import __main__ as cycles
from sim.estimate import __main__ as estimate
from tests.quant import zoo

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

MODELS = {name: row.name for name, row in vision.FAMILIES.items()}
WHOLE = {"siglip": "siglip_vision_model", "clip": "clip_vision_model"}


def saved(folder: Path, family: str, kind: str, *, seed: int = 0, **options: Any) -> Any:
    """A tiny random checkpoint, and the model itself."""
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2}
    sizes |= {"image_size": 12, "patch_size": 4}
    sizes |= {"mlp_ratio": 2} if family.startswith("dinov2") else {"intermediate_size": 36}
    sizes |= {name: value for name, value in options.items() if name != "num_labels"}
    labels = {name: value for name, value in options.items() if name == "num_labels"}
    if family in WHOLE:
        text = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 1}
        text |= {"intermediate_size": 36, "vocab_size": 40, "bos_token_id": 1, "eos_token_id": 2}
        sizes = {"vision_config": sizes, "text_config": text}
    config = transformers.AutoConfig.for_model(family, **sizes, **labels)
    model = getattr(transformers, f"{MODELS[WHOLE.get(family, family)]}{kind}")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model.float().eval()


def processed(folder: Path, name: str = "ViTImageProcessor", **options: Any) -> None:
    """The preprocessor_config.json of a folder."""
    options = {"image_processor_type": name} | options
    (folder / "preprocessor_config.json").write_text(json.dumps(options))


def drawn(seed: int, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """A smooth random image with noise, so that filters matter."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (3, 4, channels), np.uint8)
    picture = Image.fromarray(coarse[:, :, 0] if channels == 1 else coarse)
    smooth = np.asarray(picture.resize((width, height), 3)).astype(int)
    noisy = smooth + rng.integers(-20, 21, smooth.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def proven(folder: Path, task: str | None = None) -> float:
    found = proved(load(folder, task)).difference
    assert found is not None
    return found


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "left-over": {"image_size": 13, "num_hidden_layers": 1},
    "grey": {"image_size": 10, "patch_size": 2, "num_channels": 1},
    "other": {"image_size": 15, "patch_size": 5, "layer_norm_eps": 1e-3, "hidden_act": "relu"},
}
NO_BIAS = {"qkv_bias": False, "num_hidden_layers": 3}
PAIRS = {"image_size": [12, 20], "patch_size": [4, 5]}
KINDS = {
    **dict.fromkeys(("vit", "deit", "siglip"), "ForImageClassification"),
    **dict.fromkeys(("dinov2", "dinov2_with_registers"), "Model"),
    "clip_vision_model": "VisionModel",
}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((family, kind, options) for family, kind in KINDS.items() for options in SHAPES.values()),
    ("vit", "ForImageClassification", PAIRS),
    *((family, "Model", NO_BIAS) for family in ("vit", "deit", "dinov2")),
    ("dinov2_with_registers", "Model", {"num_register_tokens": 2}),
    *(("siglip_vision_model", "VisionModel", {"vision_use_head": use}) for use in (True, False)),
    ("clip_vision_model", "VisionModelWithProjection", {"projection_dim": 10}),
    *((family, "Model", {}) for family in WHOLE),
]


@pytest.mark.parametrize(("family", "kind", "options"), CASES)
def test_the_outputs_are_those_of_transformers(family, kind, options, tmp_path, monkeypatch):
    """Also where a task leaves the head out; a weight that is another one shows."""
    saved(tmp_path, family, kind, **options)
    size, middle = options.get("image_size", 12), [0.4] * options.get("num_channels", 3)
    height, width = size if isinstance(size, list) else (size, size)
    processed(
        tmp_path, size={"height": height, "width": width}, image_mean=middle, image_std=middle
    )
    task = "embedding" if options.get("vision_use_head") else None
    assert proven(tmp_path, task) < 1e-6
    assert proven(tmp_path, "embedding") < 1e-6
    checkpoint = load(tmp_path, task)
    assert checkpoint.front is not None
    assert len(checkpoint.front.tokens) == checkpoint.spec.vocabulary == checkpoint.spec.max_tokens
    name = "layer.0.ffn.up.weight"
    wrong = checkpoint.arrays | {name: checkpoint.arrays[name] * np.float32(1.01)}
    with pytest.raises(CheckpointError, match="the outputs differ from those of transformers' own"):
        proved(replace(checkpoint, arrays=wrong))
    monkeypatch.setattr("quant.foreign.proof.find_spec", lambda name: None)  # no torch is needed
    assert proved(checkpoint).difference is None
    assert checkpoint.twin is not None
    checkpoint.twin.given["of_mine"] = 3  # but for an option that nobody knows
    with pytest.raises(CheckpointError, match="of_mine is 3: no loader reads that: install torch"):
        proved(checkpoint)


@pytest.mark.parametrize("family", ["dinov2", "dinov2_with_registers"])
@pytest.mark.parametrize("crop", [(20, 20), (8, 8), (16, 16), (9, 22), (8, 32)])
def test_positions_of_dinov2_are_resampled_as_in_transformers(family, crop, tmp_path):
    saved(tmp_path, family, "Model", image_size=16)
    size = {"height": crop[0], "width": crop[1]}
    processed(tmp_path, "BitImageProcessor", size={"shortest_edge": 24}, crop_size=size)
    assert load(tmp_path).front.grid == (crop[0] // 4, crop[1] // 4)
    assert proven(tmp_path) < 1e-6


@pytest.mark.parametrize("family", ["vit", "deit", "dinov2"])
def test_tensors_as_they_are_called_in_memory_are_read(family: str, tmp_path: Path) -> None:
    model = saved(tmp_path, family, "Model")
    processed(tmp_path, size=12)
    first = load(tmp_path)
    tensors = {name: x.detach().contiguous() for name, x in model.state_dict().items()}
    assert any("q_proj" in name for name in tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    second = load(tmp_path)
    assert all(np.array_equal(x, second.arrays[name]) for name, x in first.arrays.items())


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((f"{name}ImageProcessor", {}) for name in ("ViT", "DeiT", "CLIP", "Siglip", "Bit")),
    ("ViTImageProcessorFast", {"size": [7, 31], "resample": 1}),
    ("CLIPImageProcessor", {"size": 9, "crop_size": {"height": 14, "width": 33}}),
    ("BitImageProcessor", {"size": {"max_height": 12, "max_width": 40}, "crop_size": 13}),
    ("DeiTImageProcessor", {"do_resize": False, "crop_size": 25, "an_option_of_mine": 3}),
    ("ViTImageProcessor", {"do_rescale": False, "size": 8, "image_mean": [1.0, 2.0, 3.0]}),
    ("BeitImageProcessor", {"size": 8, "do_center_crop": False}),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 16}, "crop_pct": 0.5}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_pixels_are_those_of_transformers_by_what_is_stored(name, options, made, tmp_path):
    """Whatever the processor follows; also in processor_config.json, and from quantized.json."""
    processed(tmp_path, name, **options)
    its = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    content = zoo.tiny.json_of(tmp_path / "preprocessor_config.json")
    (tmp_path / "nested").mkdir()
    (tmp_path / "nested" / "processor_config.json").write_text(
        json.dumps({"processor_class": "CLIPProcessor", "image_processor": content})
    )
    read, (height, width) = front.read(tmp_path / "nested", 3, (16, 16))
    sized = {"height": height, "width": width, "projection": np.zeros((6, 3, height, width))}
    one = replace(made, options=read, offsets=np.zeros((1, 6)), **sized)
    facts = json.loads(json.dumps(one.facts))
    again = front.Front.of(one.content, {name: facts[name] for name in facts if name != "sha256"})
    for seed, shape in enumerate([(20, 31), (31, 20), (24, 24), (9, 40)]):
        image = drawn(seed, *shape, 3)
        wanted = its(Image.fromarray(image), return_tensors="np")["pixel_values"][0]
        assert np.array_equal(again.pixels(image), wanted.astype(np.float32))


_TORCH = "Sam2ImageProcessor"
REFUSED: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], str]] = {
    # family, kind, what changes in config.json and in the processor's file; words of the message
    "paints": ("vit", "ForMaskedImageModeling", {}, {}, "MaskedImage.* its head"),
    "teacher": ("deit", "ForImageClassificationWithTeacher", {}, {}, "Teacher.* its head"),
    "class and mean": ("dinov2", "ForImageClassification", {}, {}, "ForImage.* its head"),
    "before the norm": ("clip", "ForImageClassification", {}, {}, "ForImage.* its head"),
    "attention pooling": ("siglip_vision_model", "VisionModel", {}, {}, "pools the patches"),
    "classes": ("vit", "Model", {"architectures": ["ViTX"]}, {}, r"\['ViTX'\], .* its head"),
    "swiglu": ("dinov2", "Model", {"use_swiglu_ffn": True}, {}, "the outputs differ"),
    "positions": ("vit", "Model", {"image_size": 16}, {"size": 16}, "4 x 4 patches .* 9 positions"),
    "patch": ("vit", "Model", {"patch_size": 3}, {}, r"must be \(24, 3, 3, 3\)"),
    "image_size": ("vit", "Model", {"image_size": "12"}, {}, "image_size is '12': it must be one"),
    "pairs": ("vit", "Model", {"image_size": [12]}, {}, r"image_size is \[12\]: it must be one"),
    "hidden": ("vit", "Model", {"hidden_size": 12}, {}, "must be rows of 12"),
    "no bias": ("vit", "Model", {"qkv_bias": False}, {}, "qkv_bias is False"),
    "layers": ("vit", "Model", {"num_hidden_layers": 3}, {}, "encoder.layer.2.* is missing"),
    "another size": ("vit", "Model", {}, {"size": 16}, "images of .*16, 16"),
    "no file": ("vit", "Model", {}, {"image_processor_type": None}, "no image processor"),
    "class": ("vit", "Model", {}, {"image_processor_type": "MyProcessor"}, "runs by Pillow"),
    "torchvision": ("vit", "Model", {}, {"image_processor_type": _TORCH}, "runs by Pillow"),
    "size": ("vit", "Model", {}, {"size": {"longest_edge": 8}}, "'height' and 'width' keys"),
    "filter": ("vit", "Model", {}, {"resample": 60}, r"Unknown resampling filter \(60\)"),
    "mean": ("vit", "Model", {}, {"image_mean": [0.5]}, "mean must have 3 elements"),
    "deviation": ("vit", "Model", {}, {"image_std": [1, 1, 0]}, "it must be finite"),
    "channels": ("vit", "Model", {}, {"do_convert_rgb": True}, r"makes \[3, 12, 12\] of an image"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_map_is_refused(name: str, tmp_path: Path) -> None:
    family, kind, change, options, message = REFUSED[name]
    sizes: dict[str, Any] = {"num_channels": 1} if name == "channels" else {}
    if kind == "ForMaskedImageModeling":
        sizes = {"image_size": 16, "encoder_stride": 4}
    saved(tmp_path, family, kind, **sizes)
    means = {} if name == "channels" else {"image_mean": 0.5, "image_std": 0.5}
    processed(tmp_path, **{"size": sizes.get("image_size", 12), **means, **options})
    if name == "no file":
        (tmp_path / "preprocessor_config.json").unlink()
    zoo.change(tmp_path, **change)
    with pytest.raises(CheckpointError, match=message):
        proven(tmp_path)
    if "its head" in message:
        checkpoint = load(tmp_path, "embedding")
        assert checkpoint.spec.task == "embedding"


def test_more_tokens_than_an_accelerator_takes_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, "vit", "Model", image_size=91, patch_size=1, num_hidden_layers=1)
    processed(tmp_path, size=91)
    with pytest.raises(CheckpointError, match=r"8,281 positions: .* 1 to 8,191"):
        load(tmp_path)


def test_the_one_length_of_an_image_is_counted(tmp_path: Path, capsys: Any) -> None:
    """16 x 16 patches and the class token, of 128 tokens that texts are counted by."""
    model, out = tmp_path / "model", tmp_path / "out"
    saved(model, "vit", "ForImageClassification", image_size=64, num_labels=3)
    processed(model, size=64)
    for command in (cycles.main, estimate.main):
        assert command(["--model", str(model), "--json", str(tmp_path / "found.json")]) == 0
        found = json.loads((tmp_path / "found.json").read_text())
        assert found.get("performance", found)["tokens"] == 257
        assert command(["--model", str(model), "--tokens", "512"]) == 2
        assert "257" in capsys.readouterr().err.splitlines()[-1]
    assert calibrate.main(["--model", str(model), "--remedies", "none", "--out", str(out)]) == 0
    parser = Parser("fit", "", "")
    add_fit(parser)
    add_config_options(parser)
    assert fit(parser.parse_args(["--fit", str(out)])).tokens == 257
    with pytest.raises(FitError, match="--tokens 200 too small for the model: give `--tokens 257`"):
        fit(parser.parse_args(["--fit", str(out), "--tokens", "200"]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> front.Front:
    """3 x 2 patches of 2 x 4 pixels behind one row, 6 hidden."""
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(1)
    processed(folder, size=[6, 8], image_mean=0.5, image_std=0.5)

    def floats(*shape: int) -> NDArray[np.float32]:
        return rng.normal(size=shape).astype(np.float32)

    options, size = front.read(folder, 3, (6, 8))
    assert size == (6, 8)
    return front.Front(
        options=options, height=6, width=8, projection=floats(6, 3, 2, 4), offsets=floats(6, 6),
        before=floats(1, 6), names=("[CLS]",),
    )  # fmt: skip


DAMAGES: list[tuple[Callable[[Path, dict[str, Any]], Any], str]] = [
    (lambda file, facts: facts.update(sha256="0" * 64), "its SHA-256 is another"),
    (lambda file, facts: facts.pop("height"), "'height'"),
    (lambda file, facts: facts.update(height=4), "2 x 2 patches"),
    (lambda file, facts: file.write_bytes(file.read_bytes()[:200]), "its SHA-256 is another"),
    (lambda file, facts: file.unlink(), "No such file"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_another_front_end_is_refused(made, damage, message, tmp_path):
    facts, file = json.loads(json.dumps(made.facts)), tmp_path / made.FILE
    file.write_bytes(made.content)
    damage(file, facts)
    sizes = ("layers", "hidden", "heads", "head_size", "ffn", "vocabulary", "positions")
    spec = EncoderSpec(**dict.fromkeys(sizes, 1), labels=("a", "b"))
    with pytest.raises(CheckpointError, match=f"{message}.*calibrate again"):
        of_quantized(tmp_path, {"front": facts}, spec)


def test_an_image_of_another_kind_is_refused(made: front.Front) -> None:
    for shape in ((6, 8, 4), (3, 6, 8), (0, 8), (8,), (1, 60000, 3)):
        with pytest.raises(InputError, match=r"the image is uint8 .*: it must be uint8"):
            made.pixels(np.zeros(shape, np.uint8))
    wrong: Any = np.zeros((6, 8), np.float32)
    with pytest.raises(InputError, match="the image is float32"):
        made.pixels(wrong)
    with pytest.raises(InputError, match=r"\[9, 11, 3\], and .* makes \[3, 9, 11\] .* \[3, 6, 8\]"):
        made.pixels(drawn(0, 9, 11, 3), do_resize=False)


def test_grey_and_colours_are_made_of_each_other(made: front.Front) -> None:
    grey, colour = drawn(0, 6, 8, 1), drawn(0, 6, 8, 3)
    assert np.array_equal(made.pixels(grey), made.pixels(np.repeat(grey[:, :, None], 3, 2)))
    one = replace(made, projection=made.projection[:, :1])
    weights = np.array([0.299, 0.587, 0.114])
    assert np.abs(one.seen(colour) - made.seen(colour) @ weights).max() <= 0.51
    assert np.array_equal(one.seen(grey), made.seen(grey)[:, :, 0])
