"""Front ends and encoders of images against transformers' own models and image processors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from quant.foreign import processor
from quant.foreign.checkpoint import Checkpoint, fingerprint, load
from quant.images import files, front
from quant.model import float_model
from quant.model.spec import CheckpointError, InputError

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
    """Both outputs for an image, of which transformers gets its own image processor's pixels."""
    import torch

    checkpoint = load(folder, task)
    assert checkpoint.front is not None and checkpoint.spec.given and checkpoint.resolved is None
    assert len(checkpoint.front.tokens) == checkpoint.spec.vocabulary == checkpoint.spec.max_tokens
    values = theirs(folder)(
        checkpoint.front.image(image) if image.ndim == 2 else image,
        input_data_format=None,
        return_tensors="np",
    )["pixel_values"]
    assert np.array_equal(checkpoint.front.pixels(image), values[0])
    with torch.no_grad():
        found = model(torch.tensor(values))
    return checkpoint, ours(checkpoint, image), found


SHAPES: list[dict[str, Any]] = [
    {},
    {"image_size": 13, "patch_size": 4, "num_hidden_layers": 1},
    {"image_size": 10, "patch_size": 2, "num_channels": 1},
    {"image_size": 7, "patch_size": 7, "num_attention_heads": 2},
    {"image_size": 15, "patch_size": 5, "layer_norm_eps": 1e-3, "hidden_act": "relu"},
]
