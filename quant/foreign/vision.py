"""Encoders of images: rows of the table of families, and how their weights make a front end.

ViT (Dosovitskiy et al., 2021), DeiT (Touvron et al., 2021), DINOv2 (Oquab et al., 2023), with
registers (Darcet et al., 2024), CLIP (Radford et al., 2021) and SigLIP (Zhai et al., 2023) are
pre-norm with a final norm; `quant.images.front.Front` makes rows of an image.
"""

from collections.abc import Mapping
from math import isqrt
from typing import Any

import numpy as np

from quant.foreign.config import Options, check
from quant.foreign.layouts import Family, Head, Reading
from quant.foreign.tensors import integer, number
from quant.images import front as front_end
from quant.images.front import Front
from quant.model.spec import CLASSIFICATION, EMBEDDING, Arrays, CheckpointError, Floats

_LARGEST = 1 << 14
_ROWS = {"cls_token": "[CLS]", "class_embedding": "[CLS]", "distillation_token": "[DIST]",
         "register_tokens": "[REG{}]"}  # fmt: skip
"""The rows before the patches, by the tensors that have them; registers have no positions."""
_SCALES = {"o": "layer_scale1.lambda1", "ffn.down": "layer_scale2.lambda1"}
_SIDES = {"CLIPModel": "VisionModelWithProjection", "SiglipModel": "VisionModel"}
_ELSEWHERE = (
    *("pooler_output_size", "pooler_act", "projection_dim", "vision_use_head", "encoder_stride"),
    *("use_mask_token", "drop_path_rate", "layerscale_value", "apply_layernorm", "stage_names"),
    *("out_features", "out_indices", "reshape_hidden_states"),
)
"""Options of training and of classes that are not taken."""


def _images(name: str, prefix: str, heads: Mapping[str, Head], **fixed: Any) -> Family:
    fields = {"vocabulary": 1, "positions": 1, "types": 0, "norm": "pre", "given": True}
    fields |= {"embedding_norm": False, "pooling": "first"} | fixed
    dino = {"ffn": lambda c: int(integer(c, "hidden_size") * number(c, "mlp_ratio"))}
    return Family(
        name, (prefix,), heads, dino if prefix.startswith("dinov2") else {}, fields, learned=False,
        adapt=_front, beside=("text_model.", "text_projection.", "logit_"),
    )  # fmt: skip


def _front(reading: Reading, arrays: Arrays, fields: dict[str, Any]) -> None:
    """The front end, of the tensors before the layers; LayerScale becomes part of the weights."""
    config, tensors, hidden = reading.config, reading.tensors, fields["hidden"]
    inside, dino = f"{reading.prefix}embeddings.", config.family.startswith("dinov2")

    def rows(name: str) -> Floats:
        tensor = tensors.take(name)
        right = tensor.shape[-1:] == (hidden,)
        check(right, f"the shape of {name}", tensor.shape, f"rows of {hidden}, hidden_size")
        return tensor.reshape(-1, hidden)

    names = [name for name in _ROWS if f"{inside}{name}" in tensors]
    parts = [rows(f"{inside}{name}") for name in names]
    count, called = sum(name != "register_tokens" for name in names), "num_register_tokens"
    positions = rows(tensors.place(inside, "position_embeddings|position_embedding.weight"))
    before = np.concatenate([*parts, positions[:0]])
    registers = config[called] if config.family.endswith("registers") else 0
    check(len(before) - count == registers, called, registers, f"{len(before) - count}, as rows")
    before[:count] += positions[:count]
    patches = tensors.place(inside, "patch_embeddings.projection|patch_embedding")
    weight, size = tensors.take(f"{patches}.weight"), _pair(config, "image_size")
    wanted = (hidden, integer(config, "num_channels"), *_pair(config, "patch_size"))
    check(weight.shape == wanted, f"the shape of {patches}.weight", weight.shape, str(wanted))
    options, made = front_end.read(reading.layout.encoder, weight.shape[1], size)
    same = f"that of the images of {front_end.PREPROCESSOR}, {made}"
    check(dino or made == size, "image_size", size, same)
    offsets = positions[count:]
    grid, side = (made[0] // weight.shape[2], made[1] // weight.shape[3]), isqrt(len(offsets))
    if dino and (grid != (side, side) or made[0] != made[1]):
        square = offsets[: side * side].reshape(side, side, -1)
        offsets = resampled(square, grid, config.family != "dinov2").reshape(-1, hidden)
    if f"{patches}.bias" in tensors:
        offsets = offsets + tensors.take(f"{patches}.bias")
    reading.front = Front(
        options=options,
        height=made[0],
        width=made[1],
        projection=weight,
        offsets=offsets,
        before=before,
        names=tuple(_ROWS[n].format(i + 1) for n, x in zip(names, parts) for i in range(len(x))),
    )
    fields["vocabulary"] = fields["positions"] = len(reading.front.tokens)
    arrays["embedding.token"] = np.zeros((fields["positions"], hidden), np.float32)
    for i in range(fields["layers"] if dino else 0):
        for ours, theirs in _SCALES.items():
            factors = tensors.take(f"{reading.layer.format(i)}.{theirs}")
            for part, by in (("weight", factors[:, None]), ("bias", factors)):
                arrays[f"layer.{i}.{ours}.{part}"] = arrays[f"layer.{i}.{ours}.{part}"] * by
    tensors.drop(f"{inside}mask_token")
    config.seen.update(_ELSEWHERE)
    shifts = (f"layer.{i}.{x}.bias" for i in range(fields["layers"]) for x in "qkv")
    bias = any(arrays[name].any() for name in shifts)
    check(config["qkv_bias"] is not False or not bias, "qkv_bias", False, "true, as the weights")
    embeds = reading.family.heads[reading.kind].task == EMBEDDING
    if tensors.drop(f"{reading.prefix}head.") and embeds:
        reading.notes.append("the mean of the patches takes the place of the pooling by attention")
        if reading.kind == "VisionModel" and reading.asked != EMBEDDING:
            what = "pools the patches by attention of a learned query, which nothing here computes"
            advice = f"--task {EMBEDDING} takes their mean instead"
            raise CheckpointError(f"head: SiglipVisionModel {what}: {advice}")
    reading.kind = _SIDES.get(f"{reading.family.name}{reading.kind}", reading.kind)


_BARE, _PROJECTED = Head(EMBEDDING), Head(EMBEDDING, ("visual_projection",))
_MODEL = {"Model": _BARE}
_CLASSES = {"ForImageClassification": Head(CLASSIFICATION, ("classifier",)), **_MODEL}
_CLIP = {"VisionModel": _BARE, "VisionModelWithProjection": _PROJECTED, "Model": _PROJECTED}
FAMILIES = {
    "clip_vision_model": _images("CLIP", "vision_model", _CLIP, embedding_norm=True),
    "deit": _images("DeiT", "deit", _CLASSES),
    "dinov2": _images("Dinov2", "dinov2", _MODEL),
    "dinov2_with_registers": _images("Dinov2WithRegisters", "dinov2_with_registers", _MODEL),
    "siglip_vision_model": _images(
        "Siglip", "vision_model", {"VisionModel": _BARE, **_CLASSES}, pooling="mean"
    ),
    "vit": _images("ViT", "vit", _CLASSES),
}
"""By model_type."""


def _pair(config: Options, name: str) -> tuple[int, int]:
    """Height and width, which one number may be."""
    given = config[name]
    both = (*given,) if isinstance(given, list | tuple) else (given, given)
    right = len(both) == 2 and all(type(side) is int and 0 < side <= _LARGEST for side in both)
    check(right, name, given, f"one or two numbers, 1 to {_LARGEST}")
    return both


def resampled(grid: Floats, size: tuple[int, int], antialias: bool) -> Floats:
    """A grid [h, w, H] in another size, as torch's `interpolate` does it (bicubic).

    Keys, "Cubic convolution interpolation for digital image processing" (1981).
    """
    down, across = (_kernel(old, new, antialias) for old, new in zip(grid.shape[:2], size))
    found = np.einsum("ih,jw,hwc->ijc", down, across, grid.astype(np.float64), optimize=True)
    return found.astype(np.float32)


def _kernel(old: int, new: int, antialias: bool) -> Floats:
    """Weights [new, old] of the old rows in each new one."""
    wide, a = (max(old / new, 1.0), -0.5) if antialias else (1.0, -0.75)
    centre = old / new * (np.arange(new)[:, None] + 0.5)
    x = np.abs(np.arange(-2, old + 2) + 0.5 - centre) / wide
    inner, outer = ((a + 2) * x - (a + 3)) * x * x + 1, ((x - 5) * x + 8) * x * a - 4 * a
    weights = np.where(x <= 1, inner, np.where(x < 2, outer, 0.0))
    if antialias:
        weights = weights[:, 2:-2]
        return weights / weights.sum(1, keepdims=True)
    weights[:, 2] += weights[:, :2].sum(1)
    weights[:, -3] += weights[:, -2:].sum(1)
    return weights[:, 2:-2]
