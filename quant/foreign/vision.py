"""Encoders of images: rows of the table of families, and how their weights make a front end.

ViT (Dosovitskiy et al., 2021), DeiT (Touvron et al., 2021), DINOv2 (Oquab et al., 2023), with
registers (Darcet et al., 2024), CLIP (Radford et al., 2021) and SigLIP (Zhai et al., 2023) are
pre-norm with a final norm; `quant.images.front.Front` makes rows of an image.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
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
_ROWS = {"cls_token": "[CLS]", "class_embedding": "[CLS]", "distillation_token": "[DIST]"}
"""Names that tensors have by family and version, and those of the rows."""

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

    task: the one that is asked for, None for its own. Raises CheckpointError naming what does not
    map.
    """
    row, hidden, task = (
        FAMILIES[config["model_type"]],
        integer(config, "hidden_size"),
        task or layout.task,
    )
    prefix = tensors.prefix(row.family.prefixes[0])

    def place(names: tuple[str, ...]) -> str:
        there = (
            x for x in names if any(n.startswith(prefix + x.split("{")[0]) for n in tensors.names)
        )
        return next(there, names[0])

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
    front = _front(
        config,
        tensors,
        layout.encoder,
        prefix + place(_PATCHES),
        row,
        positions[count:],
        before,
        names,
    )
    tensors.drop(f"{prefix}embeddings.mask_token")
    pooled = any(name.startswith(f"{prefix}head.") for name in tensors.names)
    family = replace(row.family, layer=place(_LAYERS))
    bare = replace(layout, task=None)
    spec, arrays, notes, name = layouts.load(family, config, tensors, bare, task)
    if pooled and spec.task == EMBEDDING:
        notes.append("the mean of the patches takes the place of the pooling by attention")
        if name == "SiglipVisionModel" and task != EMBEDDING:
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


def _front(
    config: Options,
    tensors: Tensors,
    folder: Path,
    patches: str,
    row: Images,
    positions: Floats,
    before: Floats,
    names: list[str],
) -> Front:
    """The front end, for images in the size to which the image processor brings them."""
    weight, asked = tensors.take(f"{patches}.weight"), config["image_size"]
    size = (asked, asked) if isinstance(asked, int) else tuple(asked)
    options, (height, width) = front_end.read(folder, weight.shape[1], size)
    grid, side = (height // weight.shape[2], width // weight.shape[3]), isqrt(len(positions))
    if row.antialias is None and (height, width) != size:
        raise CheckpointError(
            f"{folder}: {front_end.PREPROCESSOR} makes images of {height} x {width}, and the model "
            f"has positions for {size}, image_size of config.json: give both one size"
        )
    if row.antialias is not None and (grid != (side, side) or height != width):
        square = positions[: side * side].reshape(side, side, -1)
        positions = resampled(square, grid, row.antialias).reshape(-1, before.shape[1])
    if f"{patches}.bias" in tensors:
        positions = positions + tensors.take(f"{patches}.bias")
    return Front(
        options=options,
        height=height,
        width=width,
        projection=weight,
        offsets=positions.astype(np.float32),
        before=before,
        names=tuple(names),
    )


def resampled(grid: Floats, size: tuple[int, int], antialias: bool) -> Floats:
    """A grid [h, w, H] in another size by bicubic interpolation, as torch's `interpolate` does it.

    Corners are not aligned. Keys, "Cubic convolution interpolation for digital image processing"
    (1981).
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
