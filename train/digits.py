"""The work of `train.images`: a vision transformer of handwritten digits."""

import argparse
import copy
import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

from cli import files

import numpy as np
import torch
from PIL import Image
from transformers import ViTForImageClassification
from transformers.utils.logging import disable_progress_bar

from quant.foreign.config import CONFIG
from quant.images.corpora import LABELS, digits
from quant.images.front import PREPROCESSOR
from train.card import classifier_card, table
from train.checkpoint import new_bert
from train.command import ended, finish, places, recorded
from train.device import device_of, how_made, plan_of
from train.evaluation import figures
from train.failure import TrainError
from train.loop import train

_SHOWN = (3, 7, 8)
"""Of these digits the first of the test split is written beside the model."""

_TURN, _SLANT, _GROW, _SHIFT = 0.2, 0.2, 0.15, 1.0
"""Most that a training image is turned (radians), slanted, stretched and shifted (pixels)."""


def pixels(images: np.ndarray) -> torch.Tensor:
    """Pixel values [n, 1, h, w] from -1 to 1, as the checkpoint's image processor makes them."""
    return torch.from_numpy(images[:, None].astype(np.float32) / 255 * 2 - 1)


def moved(images: torch.Tensor) -> torch.Tensor:
    """The images, each turned, slanted, stretched and shifted at random; the background is -1."""
    draw = torch.rand(6, len(images)) * 2 - 1
    angle, slant = _TURN * draw[0], _SLANT * draw[1]
    wide, high = 1 + _GROW * draw[2], 1 + _GROW * draw[3]
    across, down = draw[4:] * (2 * _SHIFT / images.shape[-1])
    cosine, sine = angle.cos(), angle.sin()
    first = torch.stack([wide * cosine, wide * (slant * cosine - sine), across], 1)
    second = torch.stack([high * sine, high * (slant * sine + cosine), down], 1)
    theta = torch.stack([first, second], 1)
    grid = torch.nn.functional.affine_grid(theta, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images + 1, grid, align_corners=False) - 1


def train_digits(options: argparse.Namespace) -> None:
    """Train as the options say, and write checkpoint, model card and, if asked, the figures."""
    disable_progress_bar()  # that of saving
    device = device_of(options)
    splits = {name: digits(name) for name in ("train", "validation", "test")}
    size = splits["train"][0].shape[-1]
    if options.patch > size or size % options.patch:
        raise TrainError(f"--patch {options.patch}: it must divide the {size} pixels of an image")
    if options.hidden % options.heads:
        raise TrainError(f"--hidden {options.hidden} is no multiple of --heads {options.heads}")
    images, labels = pixels(splits["train"][0]), torch.from_numpy(splits["train"][1])
    steps = len(images) // options.batch
    if not steps:
        raise TrainError(f"--batch {options.batch}: there are {len(images):,} images to train on")
    work = places(options, "vit-digits")
    model = _model(options, size).to(device)

    def loss(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        epoch, place = divmod(step, steps)
        order = np.random.default_rng((options.seed, epoch)).permutation(len(images))
        chosen = torch.from_numpy(order[place * options.batch : (place + 1) * options.batch])
        wanted = labels[chosen].to(device)
        seen = moved(images[chosen]).to(device)
        part = torch.rand(len(seen), device=device) * options.mix / 2  # of another image
        logits = model(torch.lerp(seen, seen.flip(0), part[:, None, None, None])).logits
        targets = torch.nn.functional.one_hot(wanted, len(LABELS)).float()
        targets = torch.lerp(targets, targets.flip(0), part[:, None])
        found = torch.nn.functional.cross_entropy(
            logits, targets, label_smoothing=options.label_smoothing
        )
        right = (logits.argmax(1) == wanted).float().mean()
        return found, {"accuracy": 100 * float(right)}

    def measure(split: str) -> dict[str, float]:
        with torch.no_grad():
            logits = model.eval()(pixels(splits[split][0]).to(device)).logits
        return figures(logits.double().cpu().numpy(), splits[split][1])

    def evaluate() -> dict[str, float]:
        found = measure("validation")
        return {"accuracy": found["accuracy"], "loss": found["loss"]}

    ends = {round(options.epochs * i / 12) * steps for i in range(1, 13)} - {0}
    plan = plan_of(options, device, steps=options.epochs * steps, evaluate_at=tuple(sorted(ends)))
    arguments = recorded(options)
    outcome = train(
        model,
        plan,
        loss,
        evaluate,
        snapshot=work / "snapshot.safetensors",
        arguments=arguments,
        description="training",
    )
    with torch.no_grad():  # as they are saved
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    metrics: dict[str, dict[str, Any]] = {
        name: {"images": len(splits[name][0]), "size": f"{size} x {size}", **measure(name)}
        for name in ("validation", "test")
    }
    card = classifier_card(
        front={
            "library_name": "transformers",
            "pipeline_tag": "image-classification",
            "tags": "[image-classification, vit, digits, bert2rtl]",
        },
        summary=_summary(model, size),
        data=_DATA.format(*(f"{len(splits[name][0]):,}" for name in splits)),
        metrics=metrics,
        what="images",
        **how_made(options, "train.images", outcome),
    )
    _save(options.out, model, card, size)
    print(table(outcome.history))
    for name, m in metrics.items():
        print(
            f"{name}: accuracy {m['accuracy']:.2f} % of {m['images']:,} images, "
            f"loss {m['loss']:.4f}"
        )
    finish(options, {"metrics": metrics, "arguments": arguments, **dataclasses.asdict(outcome)})
    shutil.rmtree(work, ignore_errors=True)
    ended(options, outcome.seconds, "quant.calibrate")


_DATA = (
    "The digits of the PyPI package `scikit-learn`, which are the test set of the UCI machine "
    'learning repository\'s "Optical recognition of handwritten digits" (E. Alpaydin and C. '
    "Kaynak, 1998, https://archive.ics.uci.edu/dataset/80, CC BY 4.0), in the fixed split of "
    "`quant.images.corpora`: train {}, validation {}, test {}. Digits of one writer may fall into "
    "different splits, so the figures compare with others on this split. Training images were "
    "turned, slanted, stretched, shifted and mixed at random."
)


def _model(options: argparse.Namespace, size: int) -> Any:
    return new_bert(
        LABELS,
        kind=ViTForImageClassification,
        deviation=None,
        dropout=options.dropout,
        attention_dropout=0.0,
        seed=options.seed,
        image_size=size,
        patch_size=options.patch,
        num_channels=1,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=options.ffn,
    )


def _summary(model: Any, size: int) -> str:
    config = model.config
    patches = (size // config.patch_size) ** 2
    return (
        f"A classifier of handwritten digits ({', '.join(LABELS)}) in grey images of {size} x "
        f"{size} pixels: {type(model).__name__} with {config.num_hidden_layers} layers, hidden "
        f"size {config.hidden_size}, {config.num_attention_heads} heads, feed-forward size "
        f"{config.intermediate_size}, {patches} patches of {config.patch_size} x "
        f"{config.patch_size} pixels and a class token, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters."
    )


def _save(out: Path, model: Any, card: str, size: int) -> None:
    """The checkpoint in half precision, with its image processor, card and some images."""
    with files.replacing(out) as temporary:
        copy.deepcopy(model).to("cpu", torch.float16).save_pretrained(temporary)
        config = {**model.config.to_dict(), "architectures": [type(model).__name__]}
        for name in ("_name_or_path", "transformers_version"):
            config.pop(name, None)
        _write(temporary / CONFIG, config | {"dtype": "float32"})
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": size, "width": size},
            "resample": int(Image.Resampling.BILINEAR),
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [0.5],
            "image_std": [0.5],
        }
        _write(temporary / PREPROCESSOR, processor)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        images, labels = digits("test")
        for label in _SHOWN:
            image = images[int((labels == label).argmax())]
            Image.fromarray(image).save(temporary / f"digit-{label}.png")
        for file in temporary.iterdir():
            file.chmod(0o644)


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
