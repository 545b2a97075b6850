"""Encoders of images: rows of the table of families, and how their weights make a front end.

ViT (Dosovitskiy et al., 2021), DeiT (Touvron et al., 2021), DINOv2 (Oquab et al., 2023), with
registers (Darcet et al., 2024), CLIP (Radford et al., 2021) and SigLIP (Zhai et al., 2023) are
pre-norm with a final norm; `quant.images.front.Front` makes rows of an image.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import numpy as np

from quant.foreign import layouts
from quant.foreign.config import Options
from quant.foreign.layouts import Family, Head
from quant.foreign.sentence import Layout
from quant.foreign.tensors import Tensors, integer, number
from quant.images import front as front_end
from quant.images.front import Front
from quant.model.spec import (
    CLASSIFICATION,
    EMBEDDING,
    Arrays,
    CheckpointError,
    EncoderSpec,
    Floats,
)


@dataclass(frozen=True)
class Images:
    """A family of encoders of images.

    before: the rows before the patches that have positions. antialias: of positions in another
    size; None where there is one size alone.
    """

    family: Family
    before: tuple[str, ...]
    antialias: bool | None


def _images(
    name: str,
    prefix: str,
    heads: Mapping[str, Head],
    before: tuple[str, ...] = ("cls_token",),
    antialias: bool | None = None,
    **fixed: Any,
) -> Images:
    fields = {"vocabulary": 1, "positions": 1, "types": 0, "norm": "pre", "given": True}
    fields |= {"embedding_norm": False, "pooling": "first"} | fixed
    ratio = None if antialias is None else {"ffn": _ffn}
    tables = {"embedding.norm": "pre_layrnorm", "final.norm": "layernorm|post_layernorm"}
    pooler = "head" if prefix == "vision_model" else "pooler"
    family = Family(
        name, (prefix,), heads, tables, "", _PARTS, pooler, ratio or {}, fields,
        beside=("text_model.", "text_projection.", "logit_"), also=("encoder", "layers"),
    )  # fmt: skip
    return Images(family, before, antialias)


def _ffn(config: Options) -> int:
    return int(integer(config, "hidden_size") * number(config, "mlp_ratio"))


_PARTS = {
    "q": "attention.attention.query|attention.q_proj|self_attn.q_proj",
    "k": "attention.attention.key|attention.k_proj|self_attn.k_proj",
    "v": "attention.attention.value|attention.v_proj|self_attn.v_proj",
    "o": "attention.output.dense|attention.o_proj|self_attn.out_proj",
    "ffn.up": "intermediate.dense|mlp.fc1",
    "ffn.down": "output.dense|mlp.fc2",
    "norm1": "layernorm_before|norm1|layer_norm1",
    "norm2": "layernorm_after|norm2|layer_norm2",
}
_LAYERS = ("encoder.layer.{}", "encoder.layers.{}", "layers.{}")
_SCALES = {"o": "layer_scale1.lambda1", "ffn.down": "layer_scale2.lambda1"}
_PATCHES = ("embeddings.patch_embeddings.projection", "embeddings.patch_embedding")
_POSITIONS = ("embeddings.position_embeddings", "embeddings.position_embedding.weight")
_LARGEST = 1 << 14
_ROWS = {"cls_token": "[CLS]", "class_embedding": "[CLS]", "distillation_token": "[DIST]"}
"""Names that tensors have by family and version, and those of the rows."""

_ELSEWHERE = (
    *("pooler_output_size", "pooler_act", "projection_dim", "vision_use_head", "encoder_stride"),
    *("use_mask_token", "drop_path_rate", "layerscale_value", "apply_layernorm", "stage_names"),
    *("out_features", "out_indices", "reshape_hidden_states"),
)
"""Options of training and of classes that are not taken."""

_BARE, _PROJECTED = Head(EMBEDDING), Head(EMBEDDING, ("visual_projection",))
_MODEL = {"Model": _BARE}
_CLASSES = {"ForImageClassification": Head(CLASSIFICATION, ("classifier",)), **_MODEL}
_CLIP = {"VisionModel": _BARE, "VisionModelWithProjection": _PROJECTED, "Model": _PROJECTED}
FAMILIES = {
    "clip_vision_model": _images(
        "CLIP", "vision_model", _CLIP, ("class_embedding",), embedding_norm=True
    ),
    "deit": _images("DeiT", "deit", _CLASSES, ("cls_token", "distillation_token")),
    "dinov2": _images("Dinov2", "dinov2", _MODEL, antialias=False),
    "dinov2_with_registers": _images(
        "Dinov2WithRegisters", "dinov2_with_registers", _MODEL, antialias=True
    ),
    "siglip_vision_model": _images(
        "Siglip", "vision_model", {"VisionModel": _BARE, **_CLASSES}, (), pooling="mean"
    ),
    "vit": _images("ViT", "vit", _CLASSES),
}
"""By model_type."""


def load(
    config: Options, tensors: Tensors, layout: Layout, task: str | None
) -> tuple[EncoderSpec, Arrays, list[str], Front, str]:
    """The encoder, its head, notes, its front end, and its class in `transformers`.

    task: the one that is asked for, None for its own. CheckpointError names what does not map.
    """
    row, hidden = FAMILIES[config["model_type"]], integer(config, "hidden_size")
    prefix, asked = tensors.prefix(row.family.prefixes[0]), task or layout.task

    def place(names: tuple[str, ...]) -> str:
        """The one of several names that tensors have."""
        starts = tuple(prefix + name.split("{")[0] for name in names)
        there = [any(x.startswith(start) for x in tensors.names) for start in starts]
        return names[there.index(True) if any(there) else 0]

    def rows(name: str) -> Floats:
        tensor = tensors.take(f"{prefix}{name}")
        if tensor.shape[-1:] != (hidden,):
            raise CheckpointError(f"{name} has shape {tensor.shape}: rows of {hidden} are needed")
        return tensor.reshape(-1, hidden)

    positions, count = rows(place(_POSITIONS)), len(row.before)
    tokens = [rows(f"embeddings.{name}") for name in row.before]
    if row.antialias:
        tokens.append(rows("embeddings.register_tokens"))
    before = np.concatenate([*tokens, positions[:0]])
    before[:count] += positions[:count]
    names = [_ROWS[name] for name in row.before]
    names += [f"[REG{i + 1}]" for i in range(len(before) - count)]
    patches = prefix + place(_PATCHES)
    weight, size = tensors.take(f"{patches}.weight"), _pair(config, "image_size")
    wanted = (hidden, integer(config, "num_channels"), *_pair(config, "patch_size"))
    if weight.shape != wanted:
        raise CheckpointError(f"{patches}.weight has shape {weight.shape}: {wanted} is needed")
    if row.antialias and len(before) - count != config["num_register_tokens"]:
        raise CheckpointError(f"num_register_tokens is not that of {len(before) - count} rows")
    options, (height, width) = front_end.read(layout.encoder, weight.shape[1], size)
    if row.antialias is None and (height, width) != size:
        raise CheckpointError(
            f"{front_end.PREPROCESSOR} makes images of {height} x {width}, and the model has "
            f"positions for {size}, image_size of config.json: give both one size"
        )
    offsets = positions[count:]
    grid, side = (height // weight.shape[2], width // weight.shape[3]), isqrt(len(offsets))
    if row.antialias is not None and (grid != (side, side) or height != width):
        square = offsets[: side * side].reshape(side, side, -1)
        offsets = resampled(square, grid, row.antialias).reshape(-1, hidden)
    if f"{patches}.bias" in tensors:
        offsets = offsets + tensors.take(f"{patches}.bias")
    front = Front(
        options=options,
        height=height,
        width=width,
        projection=weight,
        offsets=offsets,
        before=before,
        names=tuple(names),
    )
    tensors.drop(f"{prefix}embeddings.mask_token")
    pooled = any(name.startswith(f"{prefix}head.") for name in tensors.names)
    family, bare = replace(row.family, layer=place(_LAYERS)), replace(layout, task=None)
    spec, arrays, notes, name = layouts.load(family, config, tensors, bare, asked)
    config.seen.update(_ELSEWHERE)
    if config["qkv_bias"] is False and any(arrays[f"layer.0.{x}.bias"].any() for x in "qkv"):
        raise CheckpointError("config.json: qkv_bias is False, and the weights have such a bias")
    if pooled and spec.task == EMBEDDING:
        notes.append("the mean of the patches takes the place of the pooling by attention")
        if name == "SiglipVisionModel" and asked != EMBEDDING:
            raise CheckpointError(
                "head: SiglipVisionModel pools the patches by attention of a learned query, which "
                f"nothing here computes: --task {EMBEDDING} takes their mean instead"
            )
    for i in range(0 if row.antialias is None else spec.layers):
        for ours, theirs in _SCALES.items():
            factors = tensors.take(f"{prefix}{family.layer.format(i)}.{theirs}")
            for part, by in (("weight", factors[:, None]), ("bias", factors)):
                arrays[f"layer.{i}.{ours}.{part}"] = arrays[f"layer.{i}.{ours}.{part}"] * by
    zeros = np.zeros((len(front.tokens), hidden), np.float32)
    arrays |= {"embedding.token": zeros, "embedding.position": zeros.copy()}
    if name in ("CLIPModel", "SiglipModel"):  # whose image side alone is taken
        name = name.replace("Model", "VisionModelWithProjection" if spec.width else "VisionModel")
    return replace(spec, vocabulary=len(zeros), positions=len(zeros)), arrays, notes, front, name


def _pair(config: Options, name: str) -> tuple[int, int]:
    """Height and width, which one number may be."""
    given = config[name]
    both = (*given,) if isinstance(given, list | tuple) else (given, given)
    if len(both) != 2 or not all(type(side) is int and 0 < side <= _LARGEST for side in both):
        raise CheckpointError(
            f"config.json: {name} is {given!r}: it must be one or two numbers, 1 to {_LARGEST}"
        )
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
