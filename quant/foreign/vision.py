"""Encoders of images: how their checkpoints map to a front end, an EncoderSpec and its arrays.

The encoders are pre-norm with a final norm, which EncoderSpec has; what makes rows of an image is
`quant.images.front.Front`. The token table of the arrays is zero: rows take its place (`given`).

- ViT: Dosovitskiy et al., "An image is worth 16 x 16 words" (2021)
- DeiT: Touvron et al., "Training data-efficient image transformers" (2021)
- DINOv2: Oquab et al. (2023), with registers Darcet et al. (2024)
- CLIP: Radford et al. (2021), SigLIP: Zhai et al. (2023)
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from golden.model import TOKENS_MAX
from quant.foreign import layouts, processor
from quant.foreign.config import Options
from quant.foreign.layouts import Family, Head
from quant.foreign.sentence import Layout
from quant.foreign.tensors import (
    Config,
    Tensors,
    activation,
    head_size,
    integer,
    number,
)
from quant.images.front import Front, Steps
from quant.model.spec import (
    CLASSIFICATION,
    EMBEDDING,
    Arrays,
    CheckpointError,
    EncoderSpec,
    Floats,
)

_TEXTS = ("text_model.", "text_projection.", "logit_scale", "logit_bias")
_INPUTS = ("query", "key", "value")
_LAYERS = {"pooler": "pooler", "also": ("embeddings", "encoder", "layers", "layernorm")}
_PATCHES: dict[str, Any] = {
    "heads": {
        "ForImageClassification": Head(CLASSIFICATION, ("classifier",)),
        "Model": Head(EMBEDDING),
    },
    **_LAYERS,
}
_DINO: dict[str, Any] = {"heads": {"Model": Head(EMBEDDING)}, **_LAYERS}
_SIDE: dict[str, Any] = {
    "pooler": "head", "also": ("embeddings", "encoder", "pre_layrnorm", "post_layernorm"),
}  # fmt: skip
_PROJECTED = Head(EMBEDDING, ("visual_projection",))
FAMILIES = {
    "clip_vision_model": Family("CLIP", ("vision_model",), {
        "VisionModel": Head(EMBEDDING),
        "VisionModelWithProjection": _PROJECTED,
        "Model": _PROJECTED,
    }, beside=_TEXTS, **_SIDE),
    "deit": Family("DeiT", ("deit",), **_PATCHES),
    "dinov2": Family("Dinov2", ("dinov2",), **_DINO),
    "dinov2_with_registers": Family("Dinov2WithRegisters", ("dinov2_with_registers",), **_DINO),
    "siglip_vision_model": Family("Siglip", ("vision_model",), {
        "VisionModel": Head(EMBEDDING),
        "Model": Head(EMBEDDING),
        "ForImageClassification": Head(CLASSIFICATION, ("classifier",)),
    }, beside=_TEXTS, **_SIDE),
    "vit": Family("ViT", ("vit",), **_PATCHES),
}  # fmt: skip
"""The families of `transformers` by their model_type."""


@dataclass(frozen=True)
class Embedding:
    """What of a front end the weights hold, as their family names it.

    projection [H, C, h, w] and bias [H] of the patches. positions: of the patches [P, H]. before:
    the rows before the patches [S, H], positions included, and their names. resampled: what makes
    positions of P others for a grid of another size; None where the family takes one size alone.
    """

    projection: Floats
    bias: Floats
    positions: Floats
    before: Floats
    names: tuple[str, ...] = ()
    resampled: Callable[[Floats, tuple[int, int]], Floats] | None = None


def load(
    config: Options, tensors: Tensors, layout: Layout, task: str | None
) -> tuple[EncoderSpec, Arrays, list[str], Front]:
    """The encoder, its head and its front end; task as in `layouts.choose`."""
    family = config["model_type"]
    base = FAMILIES[family]
    prefix = tensors.prefix(base.prefixes[0])
    kind, notes = layouts.choose(base, prefix, config, tensors, layout, task)
    steps = processor.read(layout.encoder, family, integer(config, "num_channels"))
    fields = _fields(config, family)
    if family in ("clip_vision_model", "siglip_vision_model"):
        embedding, arrays = _contrastive(config, tensors, prefix)
        pooled = bool(tensors.drop(f"{prefix}head.")) or config.get("vision_use_head") is True
        if pooled and kind == "VisionModel":
            if task != EMBEDDING:
                raise CheckpointError(
                    "head: SiglipVisionModel pools the patches by attention of a learned query, "
                    f"which nothing here computes: --task {EMBEDDING} takes their mean instead"
                )
            notes = [*notes, "the mean of the patches takes the place of the pooling by attention"]
    else:
        embedding, arrays = _vit(config, tensors, prefix, dino=family.startswith("dinov2"))
        tensors.drop(f"{prefix}embeddings.mask_token")
    front = _front(config, steps, embedding, layout.encoder, fields["hidden"])
    behind, choices = layouts.take(
        base, prefix, base.heads[kind], config, tensors, layout, fields["hidden"]
    )
    count = len(front.tokens)
    if count > TOKENS_MAX:
        raise CheckpointError(
            f"embedding.position: an image has {count:,} tokens: an accelerator takes "
            f"{TOKENS_MAX:,} at most"
        )
    zeros = np.zeros((count, fields["hidden"]), np.float32)
    arrays |= {"embedding.token": zeros, "embedding.position": zeros.copy()} | behind
    fields |= {"vocabulary": count, "positions": count, "norm": "pre", "given": True}
    return EncoderSpec(**{**choices, **fields}), arrays, notes, front


def _fields(config: Config, family: str) -> dict[str, Any]:
    hidden, count = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    if family.startswith("dinov2"):
        ffn = int(hidden * number(config, "mlp_ratio"))
    else:
        ffn = integer(config, "intermediate_size")
    return {
        "layers": integer(config, "num_hidden_layers"),
        "hidden": hidden,
        "heads": count,
        "head_size": head_size(hidden, count),
        "ffn": ffn,
        "activation": activation(config, "hidden_act"),
        "epsilon": number(config, "layer_norm_eps"),
        "embedding_norm": family == "clip_vision_model",
        "pooling": "mean" if family == "siglip_vision_model" else "first",
    }


def _vit(config: Config, tensors: Tensors, prefix: str, dino: bool) -> tuple[Embedding, Arrays]:
    """ViT and DeiT, and DINOv2, whose branches each end in a factor of every channel."""
    registers = config["model_type"] == "dinov2_with_registers"
    source = f"{prefix}embeddings"
    before = [_rows(tensors, f"{source}.cls_token")]
    if f"{source}.distillation_token" in tensors:
        before.append(_rows(tensors, f"{source}.distillation_token"))
    names = ("[CLS]", "[DIST]")[: len(before)]
    positions = _rows(tensors, f"{source}.position_embeddings")
    if {row.shape for row in before} != {positions[:1].shape}:
        raise CheckpointError(
            f"{source}.cls_token has shape {before[0].shape}, and position_embeddings "
            f"{positions.shape}: one row of as many channels is needed"
        )
    rows = np.concatenate(before) + positions[: len(before)]
    if registers:
        tokens = _rows(tensors, f"{source}.register_tokens")
        if len(tokens) != integer(config, "num_register_tokens"):
            raise CheckpointError(
                f"config.json: num_register_tokens is {config['num_register_tokens']}, but "
                f"{source}.register_tokens has {len(tokens)} rows"
            )
        rows = np.concatenate([rows, tokens])
        names += tuple(f"[REG{i + 1}]" for i in range(len(tokens)))
    projection = f"{source}.patch_embeddings.projection"
    embedding = Embedding(
        projection=tensors.take(f"{projection}.weight"),
        bias=tensors.take(f"{projection}.bias"),
        positions=positions[len(before) :],
        before=rows,
        names=names,
        resampled=(lambda grid, size: resampled(grid, size, registers)) if dino else None,
    )
    norms = ("norm1", "norm2") if dino else ("layernorm_before", "layernorm_after")
    # As transformers calls them since its version 5, which still saves the older names.
    recent = any(".attention.q_proj." in name for name in tensors.names)
    layers = f"{prefix}layers" if recent and not dino else f"{prefix}encoder.layer"
    inputs = [f"{name[0]}_proj" if recent else f"attention.{name}" for name in _INPUTS]
    output = "o_proj" if recent else "output.dense"
    up, down = ("mlp.fc1", "mlp.fc2") if dino or recent else ("intermediate.dense", "output.dense")
    arrays: Arrays = {}
    for i in range(integer(config, "num_hidden_layers")):
        layer, target = f"{layers}.{i}", f"layer.{i}"
        for name in inputs:
            part = name.removeprefix("attention.")[0]
            arrays |= tensors.linear(f"{layer}.attention.{name}", f"{target}.{part}")
        arrays |= tensors.linear(f"{layer}.attention.{output}", f"{target}.o")
        arrays |= tensors.linear(f"{layer}.{up}", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{layer}.{down}", f"{target}.ffn.down")
        for name, norm in zip(norms, ("norm1", "norm2")):
            arrays |= tensors.norm(f"{layer}.{name}", f"{target}.{norm}")
        if dino:
            _scale(arrays, f"{target}.o", tensors.take(f"{layer}.layer_scale1.lambda1"))
            _scale(arrays, f"{target}.ffn.down", tensors.take(f"{layer}.layer_scale2.lambda1"))
    return embedding, arrays | tensors.norm(f"{prefix}layernorm", "final.norm")


def _scale(arrays: Arrays, name: str, factors: Floats) -> None:
    """LayerScale: the outputs of a linear layer times a factor each."""
    weight, bias = arrays[f"{name}.weight"], arrays[f"{name}.bias"]
    if factors.shape != bias.shape:
        raise CheckpointError(
            f"{name}: layer_scale has shape {factors.shape}: one for each of the {len(bias)} "
            "outputs is needed"
        )
    arrays |= {f"{name}.weight": weight * factors[:, None], f"{name}.bias": bias * factors}


def _contrastive(config: Config, tensors: Tensors, prefix: str) -> tuple[Embedding, Arrays]:
    """The image side of CLIP, with a class token and a norm before the layers, and of SigLIP."""
    clip = config["model_type"] == "clip_vision_model"
    source = f"{prefix}embeddings"
    positions = tensors.table(f"{source}.position_embedding.weight")
    projection = tensors.take(f"{source}.patch_embedding.weight")
    hidden = positions.shape[1]
    if clip:
        token = tensors.take(f"{source}.class_embedding")
        if token.shape != (hidden,):
            raise CheckpointError(f"{source}.class_embedding has shape {token.shape}: not {hidden}")
        before, bias = token[None] + positions[:1], np.zeros(len(projection), np.float32)
    else:
        before = np.zeros((0, hidden), np.float32)
        bias = tensors.take(f"{source}.patch_embedding.bias")
    names = ("[CLS]",) if clip else ()
    embedding = Embedding(projection, bias, positions[len(before) :], before, names)
    arrays = tensors.norm(f"{prefix}pre_layrnorm", "embedding.norm") if clip else {}
    layers = integer(config, "num_hidden_layers")
    arrays |= clip_layers(tensors, f"{prefix}encoder.layers", layers)
    return embedding, arrays | tensors.norm(f"{prefix}post_layernorm", "final.norm")


def _front(config: Config, steps: Steps, embedding: Embedding, folder: Path, hidden: int) -> Front:
    """The front end, with the image in the size to which the image processor brings it."""
    pairs = config["model_type"] in ("vit", "deit", "dinov2", "dinov2_with_registers")
    size, patch = (_pair(config, name, pairs) for name in ("image_size", "patch_size"))
    wanted = (hidden, integer(config, "num_channels"), *patch)
    for name, found, shape in (
        ("projection.weight", embedding.projection.shape, wanted),
        ("projection.bias", embedding.bias.shape, (hidden,)),
        ("position_embeddings", embedding.positions.shape[1:], (hidden,)),
        ("tokens before the patches", embedding.before.shape[1:], (hidden,)),
    ):
        if found != shape:
            raise CheckpointError(
                f"embedding.{name} has shape {found}: the config asks for {shape}"
            )
    positions = embedding.positions
    grid = size[0] // patch[0], size[1] // patch[1]
    if len(positions) != grid[0] * grid[1] or not len(positions):
        raise CheckpointError(
            f"config.json: image_size is {config['image_size']} and patch_size "
            f"{config['patch_size']}, which are {grid[0]} x {grid[1]} patches, but the weights "
            f"have {len(positions)} positions"
        )
    if not all(np.isfinite(x).all() for x in (embedding.projection, embedding.bias, positions)):
        raise CheckpointError("embedding: a value of the projection or positions is not finite")
    fixed = steps.fixed() or (size if steps == _unsized(steps) else None)
    if embedding.resampled is None:
        if fixed is not None and fixed != size:
            raise CheckpointError(
                f"{folder}: images become {fixed[0]} x {fixed[1]} pixels (size and crop_size of "
                f"{processor.PREPROCESSOR}), and the model has positions for {size[0]} x {size[1]} "
                "(image_size of config.json): transformers refuses that, too: give both one size"
            )
    elif fixed is None:
        raise CheckpointError(
            f"{folder / processor.PREPROCESSOR}: size is {steps.size} without a crop, so that each "
            "image has another number of tokens: set do_center_crop and crop_size"
        )
    else:
        size = fixed
        positions = _positions(
            positions, (size[0] // patch[0], size[1] // patch[1]), size, embedding
        )
    return Front(
        steps=steps,
        height=size[0],
        width=size[1],
        projection=embedding.projection,
        offsets=(positions + embedding.bias).astype(np.float32),
        before=embedding.before,
        names=embedding.names,
    )


def _unsized(steps: Steps) -> Steps:
    """The same steps without a change of size."""
    return Steps(
        resample=steps.resample, scale=steps.scale, mean=steps.mean, deviation=steps.deviation
    )


def _positions(
    positions: Floats, grid: tuple[int, int], size: tuple[int, int], embedding: Embedding
) -> Floats:
    """DINOv2's positions for an image of another size, as transformers takes them from a square."""
    if len(positions) == grid[0] * grid[1] and size[0] == size[1]:
        return positions
    side = isqrt(len(positions))
    if side * side != len(positions) or 0 in grid:
        raise CheckpointError(
            f"embedding.position: {len(positions)} positions, which are no square, for an image of "
            f"{size[0]} x {size[1]} pixels: give image_size and crop_size one size"
        )
    assert embedding.resampled is not None
    found = embedding.resampled(positions.reshape(side, side, -1), grid)
    return found.reshape(grid[0] * grid[1], -1)


def resampled(grid: Floats, size: tuple[int, int], smooth: bool) -> Floats:
    """A grid [h, w, H] in another size by bicubic interpolation, as torch's `interpolate` does it.

    Corners are not aligned. smooth: with a wider kernel where it gets smaller (antialias). Keys,
    "Cubic convolution interpolation for digital image processing" (1981).
    """
    down, across = (_kernel(old, new, smooth) for old, new in zip(grid.shape[:2], size))
    found = np.einsum("ih,jw,hwc->ijc", down, across, grid.astype(np.float64), optimize=True)
    return found.astype(np.float32)


def _kernel(old: int, new: int, smooth: bool) -> Floats:
    """Weights [new, old] of the old rows in each new one."""
    scale = old / new
    weights = np.zeros((new, old))
    for i in range(new):
        centre = scale * (i + 0.5)
        if smooth:
            wide = max(scale, 1.0)
            first = max(0, int(centre - 2 * wide + 0.5))
            last = min(old, int(centre + 2 * wide + 0.5))
            places = np.arange(first, last)
            found = _cubic((places - centre + 0.5) / wide, -0.5)
            weights[i, places] = found / found.sum()
        else:
            place = int(np.floor(centre - 0.5))
            for j in range(place - 1, place + 3):
                weights[i, min(max(j, 0), old - 1)] += _cubic(np.array(centre - 0.5 - j), -0.75)
    return weights


def _cubic(x: Floats, a: float) -> Floats:
    """Keys' kernel: 1 at 0, 0 at all other whole numbers and beyond 2."""
    x = np.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0.0))


def _pair(config: Config, name: str, pairs: bool) -> tuple[int, int]:
    """Height and width; of families that take a pair, one number is both."""
    value: Any = config.get(name)
    both = list(value) if pairs and isinstance(value, list | tuple) else [value, value]
    if len(both) != 2 or not all(type(one) is int and 1 <= one <= 1 << 16 for one in both):
        allowed = "a whole number or a pair" if pairs else "a whole number"
        raise CheckpointError(
            f"config.json: {name} is {value!r}: it must be {allowed}, from 1 to 65,536"
        )
    return both[0], both[1]


def _rows(tensors: Tensors, name: str) -> Floats:
    """The rows of a tensor [1, rows, channels]."""
    tensor = tensors.take(name)
    if tensor.ndim != 3 or len(tensor) != 1:
        raise CheckpointError(
            f"{name} has shape {tensor.shape}: it must be 1 x rows x the hidden size"
        )
    return tensor[0]


def clip_layers(tensors: Tensors, source: str, layers: int) -> Arrays:
    """The layers of the image side of CLIP and of SigLIP, whose names begin with `source`."""
    arrays: Arrays = {}
    for i in range(layers):
        layer, target = f"{source}.{i}", f"layer.{i}"
        for name in "qkv":
            arrays |= tensors.linear(f"{layer}.self_attn.{name}_proj", f"{target}.{name}")
        arrays |= tensors.linear(f"{layer}.self_attn.out_proj", f"{target}.o")
        arrays |= tensors.norm(f"{layer}.layer_norm1", f"{target}.norm1")
        arrays |= tensors.linear(f"{layer}.mlp.fc1", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{layer}.mlp.fc2", f"{target}.ffn.down")
        arrays |= tensors.norm(f"{layer}.layer_norm2", f"{target}.norm2")
    return arrays
