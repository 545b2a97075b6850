"""Encoders of images: a table of families, and where their tensors stand.

ViT (Dosovitskiy et al., 2021), DeiT (Touvron et al., 2021), DINOv2 (Oquab et al., 2023), with
registers (Darcet et al., 2024), CLIP (Radford et al., 2021) and SigLIP (Zhai et al., 2023) are
pre-norm with a final norm; `quant.images.front.Front` makes rows of an image.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from quant.foreign.sentence import Layout
from quant.foreign.tensors import (
    Config,
    Tensors,
    activation,
    answers_of,
    head_size,
    identity,
    integer,
    number,
)
from quant.images import front as front_end
from quant.images.front import Front
from quant.model import float_model
from quant.model.spec import EMBEDDING, Arrays, CheckpointError, EncoderSpec, Floats


@dataclass(frozen=True)
class Family:
    """A family of `transformers`; ``name`` and ``prefix`` begin the names of classes and tensors.

    before, registers: rows before the patches, with positions and without. heads: the linear layer
    of each class, "" for the encoder alone, which gives ``output``. norms: outside of the layers.
    scales: factors of a layer's outputs. antialias: of positions in another size; None: one size.
    """

    name: str
    prefix: str
    before: tuple[str, ...] = ("cls_token",)
    heads: Mapping[str, str] = field(default_factory=lambda: {"Model": ""})
    norms: tuple[str, ...] = ("final.norm",)
    scales: Mapping[str, str] = field(default_factory=dict)
    registers: tuple[str, ...] = ()
    antialias: bool | None = None
    pooling: str = "first"
    output: str = "last_hidden_state"


_CLASSES = {"ForImageClassification": "classifier", "Model": ""}
_SIDE = {"VisionModel": "", "VisionModelWithProjection": "visual_projection"}
_SCALES = {"o": "layer_scale1.lambda1", "ffn.down": "layer_scale2.lambda1"}
FAMILIES = {
    "vit": Family("ViT", "vit", heads=_CLASSES),
    "deit": Family("DeiT", "deit", ("cls_token", "distillation_token"), _CLASSES),
    "dinov2": Family("Dinov2", "dinov2", scales=_SCALES, antialias=False),
    "dinov2_with_registers": Family(
        "Dinov2WithRegisters", "dinov2_with_registers", scales=_SCALES,
        registers=("register_tokens",), antialias=True,
    ),
    "clip_vision_model": Family(
        "CLIP", "vision_model", ("class_embedding",), _SIDE | {"Model": "visual_projection"},
        ("embedding.norm", "final.norm"), output="pooler_output",
    ),
    "siglip_vision_model": Family(
        "Siglip", "vision_model", (), {"VisionModel": ""} | _CLASSES, pooling="mean"
    ),
}  # fmt: skip
"""By model_type."""

_TENSORS = {
    "projection": "embeddings.patch_embeddings.projection|embeddings.patch_embedding",
    "positions": "embeddings.position_embeddings|embeddings.position_embedding.weight",
    "layer": "encoder.layers|encoder.layer|layers",
    "q": "attention.attention.query|attention.q_proj|self_attn.q_proj",
    "k": "attention.attention.key|attention.k_proj|self_attn.k_proj",
    "v": "attention.attention.value|attention.v_proj|self_attn.v_proj",
    "o": "attention.output.dense|attention.o_proj|self_attn.out_proj",
    "ffn.up": "intermediate.dense|mlp.fc1",
    "ffn.down": "output.dense|mlp.fc2",
    "norm1": "layernorm_before|norm1|layer_norm1",
    "norm2": "layernorm_after|norm2|layer_norm2",
    "embedding.norm": "pre_layrnorm",
    "final.norm": "layernorm|post_layernorm",
}
"""Ours to theirs; a checkpoint has one of several names, by its family and version."""

_ROWS = {"cls_token": "[CLS]", "class_embedding": "[CLS]", "distillation_token": "[DIST]"}
_UNREAD = ("pooler.", "embeddings.mask_token", "head.")
_OTHER_SIDE = ("text_model.", "text_projection.", "logit_")
_INSIDE = ("embeddings.", "encoder.", "layers.", "layernorm.", "pre_", "post_", *_UNREAD)
"""How the names of an encoder's tensors begin where it was saved alone."""


def load(
    config: Config, tensors: Tensors, layout: Layout, task: str | None
) -> tuple[EncoderSpec, Arrays, list[str], Front]:
    """The encoder, its head and its front end; task: the one asked for, None for its own.

    Raises CheckpointError naming what does not map and what does.
    """
    family, hidden = FAMILIES[config["model_type"]], integer(config, "hidden_size")
    prefix = tensors.prefix(family.prefix)
    head, notes = _head(family, prefix, config, tensors, task or layout.task)
    tensors.drop(*(prefix + name for name in _UNREAD))

    def place(name: str, inside: str = prefix) -> str:
        """The one of the names of a tensor or a layer that the checkpoint has."""
        wanted = [inside + theirs for theirs in _TENSORS[name].split("|")]
        return next((x for x in wanted if any(n.startswith(x) for n in tensors.names)), wanted[0])

    def linear(source: str, target: str, biased: bool = True) -> Arrays:
        weight = tensors.take(f"{source}.weight")
        bias = tensors.take(f"{source}.bias") if biased else np.zeros(len(weight), np.float32)
        parts = ("gamma", "beta") if "norm" in target else ("weight", "bias")
        return {f"{target}.{part}": array for part, array in zip(parts, (weight, bias))}

    def rows(name: str) -> Floats:
        tensor = tensors.take(name)
        if tensor.shape[-1:] != (hidden,):
            raise CheckpointError(f"{name} has shape {tensor.shape}: rows of {hidden} are needed")
        return tensor.reshape(-1, hidden)

    positions, count = rows(place("positions")), len(family.before)
    tokens = [rows(f"{prefix}embeddings.{name}") for name in (*family.before, *family.registers)]
    before = np.concatenate([*tokens, positions[:0]])
    before[:count] += positions[:count]
    names = [_ROWS[name] for name in family.before]
    names += [f"[REG{i + 1}]" for i in range(len(before) - count)]
    patches = linear(place("projection"), "patch", family.name != "CLIP")
    front = _front(config, layout.encoder, family, patches, positions[count:], before, names)
    arrays = linear(head, "head.0", head == "classifier") if head else identity(hidden)
    for name in family.norms:
        arrays |= linear(place(name), name)
    layers, biased = place("layer"), config.get("qkv_bias") is not False
    for i in range(integer(config, "num_hidden_layers")):
        for name in (*"qkvo", "ffn.up", "ffn.down", "norm1", "norm2"):
            source = place(name, f"{layers}.{i}.")
            arrays |= linear(source, f"layer.{i}.{name}", biased or name not in "qkv")
        for name, scale in family.scales.items():
            factors = tensors.take(f"{layers}.{i}.{scale}")
            for part, by in (("weight", factors[:, None]), ("bias", factors)):
                arrays[f"layer.{i}.{name}.{part}"] = arrays[f"layer.{i}.{name}.{part}"] * by
    answers: dict[str, Any] = {"labels": (), "task": EMBEDDING}
    if head == "classifier":
        answers = answers_of(config, arrays["head.0.weight"])
    elif head:
        answers["width"] = len(arrays["head.0.weight"])
    zeros = np.zeros((len(front.tokens), hidden), np.float32)
    spec = EncoderSpec(
        layers=integer(config, "num_hidden_layers"),
        hidden=hidden,
        heads=integer(config, "num_attention_heads"),
        head_size=head_size(hidden, integer(config, "num_attention_heads")),
        ffn=int(config.get("intermediate_size") or hidden * number(config, "mlp_ratio")),
        activation=activation(config, "hidden_act"),
        epsilon=number(config, "layer_norm_eps"),
        embedding_norm="embedding.norm" in family.norms,
        pooling=family.pooling,
        vocabulary=len(zeros),
        positions=len(zeros),
        norm="pre",
        given=True,
        **answers,
    )
    arrays |= {"embedding.token": zeros, "embedding.position": zeros.copy()}
    return spec, arrays, notes, front


def proof(directory: Path, spec: EncoderSpec, arrays: Arrays, front: Front) -> float:
    """The largest difference between transformers' own model and ours on random pixels.

    Both compute in float64; it is relative to the largest output. directory: that of config.json.
    """
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(directory)
    family = FAMILIES[getattr(config, "vision_config", config).model_type]
    bare = "VisionModel" if family.prefix == "vision_model" else "Model"
    kind = "ForImageClassification"
    if spec.task == EMBEDDING:
        kind = f"{bare}WithProjection" if spec.width else bare
    model = getattr(transformers, f"{family.name}{kind}").from_pretrained(
        directory, dtype=torch.float64, attn_implementation="eager", use_safetensors=True
    )
    pixels = np.random.default_rng(0).normal(size=(front.channels, front.height, front.width))
    with torch.no_grad():
        outputs = model.eval()(torch.tensor(pixels[None]))
    theirs = outputs[family.output if kind == bare else 0][0].numpy()
    if theirs.ndim == 2:
        theirs = theirs.mean(0) if spec.pooling == "mean" else theirs[0]
    given: Arrays = {name: x.astype(np.float64) for name, x in arrays.items()}
    given["embedding.token"] = front.rows(pixels)
    ours = float_model.run(spec, given, np.arange(len(front.tokens), dtype=np.int32))
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def _head(
    family: Family, prefix: str, config: Config, tensors: Tensors, task: str | None
) -> tuple[str, list[str]]:
    """The linear layer of the checkpoint's head, "" for the encoder alone, and what is to be said.

    task: the one that is asked for.
    """
    behind = sorted(name for name in tensors.names if not name.startswith(prefix or _INSIDE))
    pooled = any(name.startswith(f"{prefix}head.") for name in tensors.names)
    notes = ["the mean of the patches takes the place of the pooling by attention"] * pooled
    if task == EMBEDDING:
        tensors.drop(*behind)
        return "", notes + [f"its head ({name} ...) is left out" for name in behind[:1]]
    by_weights = [kind for kind, layer in family.heads.items() if f"{layer}.weight" in behind]
    named = config.get("architectures") or [f"{family.name}{[*by_weights, *family.heads][0]}"]
    kind = str(named[0]).removeprefix(family.name)
    layer = family.heads.get(kind)
    if layer is None or (task and layer != "classifier") or (pooled and kind == "VisionModel"):
        names = ", ".join(family.name + kind for kind in family.heads)
        raise CheckpointError(
            f"{named[0]}: its head is not computed{f' for the task {task}' if task else ''}: those "
            f"of {names} are, without a pooling by attention; --task {EMBEDDING} takes the encoder "
            "alone"
        )
    if kind == "Model" and family.prefix == "vision_model":
        tensors.drop(*_OTHER_SIDE)
        return layer, ["the image side alone is taken", *notes]
    return layer, [] if layer else notes


def _front(
    config: Config,
    folder: Path,
    family: Family,
    patches: Arrays,
    positions: Floats,
    before: Floats,
    names: list[str],
) -> Front:
    """The front end, for images in the size to which the image processor brings them."""
    weight, asked = patches["patch.weight"], config["image_size"]
    size = (asked, asked) if isinstance(asked, int) else tuple(asked)
    options, (height, width) = front_end.read(folder, weight.shape[1], size)
    grid, side = (height // weight.shape[2], width // weight.shape[3]), isqrt(len(positions))
    if family.antialias is None and (height, width) != size:
        raise CheckpointError(
            f"{folder}: {front_end.PREPROCESSOR} makes images of {height} x {width}, and the model "
            f"has positions for {size}, image_size of config.json: give both one size"
        )
    if family.antialias is not None and (grid != (side, side) or height != width):
        square = positions[: side * side].reshape(side, side, -1)
        positions = resampled(square, grid, family.antialias).reshape(-1, before.shape[1])
    return Front(
        options=options,
        height=height,
        width=width,
        projection=weight,
        offsets=(positions + patches["patch.bias"]).astype(np.float32),
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
