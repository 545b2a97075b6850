"""What becomes of an image's pixels, as preprocessor_config.json says and transformers means it.

What the file leaves out has the default of the image processor's class. These stand here, because
the library loads torch to say them; tests hold them to its classes. What would change pixels and is
not followed is refused by name.
"""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from PIL import Image

from quant.foreign.config import json_object
from quant.images.front import Steps
from quant.model.spec import CheckpointError

PREPROCESSOR = "preprocessor_config.json"
PROCESSOR = "processor_config.json"
"""With an entry `image_processor` the latter counts, as in transformers."""

FILES = (PREPROCESSOR, PROCESSOR)

_HALF = (0.5, 0.5, 0.5)
_CLIP = {"image_mean": (0.48145466, 0.4578275, 0.40821073)}
_CLIP |= {"image_std": (0.26862954, 0.26130258, 0.27577711)}
_EVERY = {
    "do_resize": True,
    "size": {"height": 224, "width": 224},
    "default_to_square": True,
    "resample": Image.Resampling.BICUBIC,
    "do_center_crop": None,
    "crop_size": None,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": _HALF,
    "image_std": _HALF,
    "do_convert_rgb": None,
}
_CROPPED = {"do_center_crop": True, "crop_size": {"height": 224, "width": 224}}
_SHORTEST = {"size": {"shortest_edge": 224}, "default_to_square": False, "do_convert_rgb": True}
CLASSES: dict[str, dict[str, Any]] = {
    "BitImageProcessor": {**_EVERY, **_CROPPED, **_SHORTEST, **_CLIP},
    "CLIPImageProcessor": {**_EVERY, **_CROPPED, **_SHORTEST, **_CLIP},
    "DeiTImageProcessor": {**_EVERY, **_CROPPED, "size": {"height": 256, "width": 256}},
    "SiglipImageProcessor": {**_EVERY, "default_to_square": False, "do_convert_rgb": True},
    "ViTImageProcessor": {**_EVERY, "resample": Image.Resampling.BILINEAR},
}
"""The image processors that are followed, with their options' defaults; no others are."""

_OF_FAMILY = {
    "clip_vision_model": "CLIPImageProcessor",
    "deit": "DeiTImageProcessor",
    "dinov2": "BitImageProcessor",
    "siglip_vision_model": "SiglipImageProcessor",
    "vit": "ViTImageProcessor",
}
"""Those that transformers takes where the file names none."""

_NAMES = ("image_processor_type", "feature_extractor_type")
_INDIFFERENT = ("processor_class", "device", "disable_grouping", "return_tensors", "use_fast")
_FIRST = ("data_format", "channels_first")
_SIZES = (
    {"height", "width"},
    {"shortest_edge"},
    {"shortest_edge", "longest_edge"},
    {"max_height", "max_width"},
)
_SIZES_TEXT = (
    "a whole number, height and width, shortest_edge (and longest_edge), or max_height and "
    "max_width, each from 1 to 65,536"
)
_MOST = 1 << 16
_FILTERS = {int(one): one.name.lower() for one in Image.Resampling}


def read(folder: Path, family: str, channels: int) -> Steps:
    """The steps of the image processor in ``folder``, for a model with as many ``channels``.

    family: the model_type. CheckpointError names the file, the option, its value and what is
    allowed.
    """
    file, options = _options(folder)
    name = _class(file, options, family)
    for key, value in options.items():
        if key in _EVERY or key in _NAMES or key in _INDIFFERENT or key.startswith("_"):
            continue
        if value is False or value in (None, "", [], {}) or (key, value) == _FIRST:
            continue
        raise CheckpointError(
            f"{file}: {key} is {value!r}, which nothing follows for {name}: if the pixel values do "
            "not depend on it, leave it out"
        )
    values = CLASSES[name] | {key: value for key, value in options.items() if key in _EVERY}

    def wrong(key: str, allowed: str) -> CheckpointError:
        return CheckpointError(f"{file}: {key} is {values[key]!r}: it must be {allowed}")

    def chosen(key: str) -> bool:
        if values[key] not in (True, False, None):
            raise wrong(key, "true or false")
        return bool(values[key])

    if chosen("do_convert_rgb") and channels == 1:
        raise wrong("do_convert_rgb", "false for a model of 1 channel (num_channels)")
    steps: dict[str, Any] = {}
    if chosen("do_resize"):
        steps["size"] = _size(values["size"], chosen("default_to_square"))
        if steps["size"] is None:
            raise wrong("size", _SIZES_TEXT)
        if isinstance(values["resample"], bool) or values["resample"] not in _FILTERS:
            names = ", ".join(f"{number} ({text})" for number, text in sorted(_FILTERS.items()))
            raise wrong("resample", f"one of Pillow's filters: {names}")
        steps["resample"] = int(values["resample"])
    if chosen("do_center_crop"):
        crop = _size(values["crop_size"], True)
        if crop is None or "height" not in crop:
            raise wrong("crop_size", "a whole number, or height and width, from 1 to 65,536")
        steps["crop"] = crop["height"], crop["width"]
    if chosen("do_rescale"):
        if not _number(values["rescale_factor"]):
            raise wrong("rescale_factor", "a finite number")
        steps["scale"] = float(values["rescale_factor"])
    if chosen("do_normalize"):
        for key, ours in (("image_mean", "mean"), ("image_std", "deviation")):
            numbers = values[key]
            numbers = [numbers] * channels if _number(numbers) else numbers
            if (
                not isinstance(numbers, list | tuple)
                or len(numbers) != channels
                or not all(map(_number, numbers))
                or (ours == "deviation" and 0 in numbers)
            ):
                other = " that is not 0" if ours == "deviation" else ""
                raise wrong(key, f"a finite number{other}, or {channels}, one a channel")
            steps[ours] = tuple(map(float, numbers))
    return Steps(**steps)


def _options(folder: Path) -> tuple[Path, dict[str, Any]]:
    file = folder / PROCESSOR
    if file.is_file():
        nested = json_object(file).get("image_processor")
        if isinstance(nested, dict):
            return file, nested
    file = folder / PREPROCESSOR
    if not file.is_file():
        raise CheckpointError(
            f"{folder} has no {PREPROCESSOR}, which says how an image is resized and normalized: "
            "copy it beside config.json (save_pretrained of the image processor writes it)"
        )
    return file, json_object(file)


def _class(file: Path, options: Mapping[str, Any], family: str) -> str:
    """The name of the image processor's class."""
    if options.get("auto_map"):
        raise CheckpointError(
            f"{file}: auto_map is {options['auto_map']!r}: code of its own, which is never run"
        )
    named = options.get(_NAMES[0]) or options.get(_NAMES[1])
    name = str(named or _OF_FAMILY.get(family)).replace("FeatureExtractor", "ImageProcessor")
    name = name.removesuffix("Fast").removesuffix("Pil")
    if name not in CLASSES:
        raise CheckpointError(
            f"{file}: image_processor_type is {named!r}: it must be one of {', '.join(CLASSES)}"
        )
    return name


def _size(value: Any, square: bool) -> dict[str, int] | None:
    """The size as transformers reads it, None for what is none."""
    if isinstance(value, list | tuple) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    elif isinstance(value, int) and not isinstance(value, bool):
        value = {"height": value, "width": value} if square else {"shortest_edge": value}
    if not isinstance(value, dict) or set(value) not in _SIZES:
        return None
    whole = all(type(one) is int and 1 <= one <= _MOST for one in value.values())
    return dict(value) if whole else None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
