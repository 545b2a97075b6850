"""The work of `train.finetune` and `train.pretrain`."""

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

from cli.errors import UserError

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from transformers import DataCollatorForLanguageModeling, ViTImageProcessorPil, set_seed

from quant.images.data import load
from quant.model.spec import CLASSIFICATION, REGRESSION, TEXTS
from train.command import check_place
from train.data import IMAGES, Data, read
from train.encoders import only_masked
from train.examples import NbSvm, Texts, Windows, padded
from train.families import (
    MASKED,
    attend_to_neighbours,
    load_model,
    load_tokenizer,
    new_model,
    new_tokenizer,
    pca_embeddings,
)
from train.finetune import DEFAULTS
from train.running import train, write

_STEPS = 500  # of a new model at least, where --epochs is not given
_TURN, _SLANT, _GROW, _SHIFT = 0.2, 0.2, 0.15, 1.0
"""Most that a training image is turned (radians), slanted, stretched and shifted (pixels)."""


def finetune(options: argparse.Namespace) -> None:
    """The work of `train.finetune`: examples, a model, a run of the Trainer, and its figures."""
    if options.model is None and options.freeze:
        raise UserError("--freeze without --model would train a classifier on random features")
    data = read(options)
    _settle(options, data)
    check_place(options, Path(options.data).stem)
    set_seed(options.seed)
    (_images if data.task == IMAGES else _texts)(options, data)


def _settle(options: argparse.Namespace, data: Data) -> None:
    """Give the options without a value their defaults, which depend on data and model."""
    kind = "digits" if data.task == IMAGES else "new" if options.model is None else "model"
    defaults = dict(DEFAULTS[kind])
    options.family = "vit" if kind == "digits" else options.family
    if kind == "new":
        steps = math.ceil(len(data.splits["train"]) / (options.batch or defaults["batch"]))
        defaults["epochs"] = max(defaults["epochs"], math.ceil(_STEPS / steps))
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def _texts(options: argparse.Namespace, data: Data) -> None:
    if options.model is None:
        tokenizer = new_tokenizer(options, [text for text, _ in data.splits["train"]])
        model = new_model(options, data.task, data.names, len(tokenizer))
        if options.embeddings == "minilm" and options.family != "roberta":
            pca_embeddings(model.get_input_embeddings().weight)
    else:
        tokenizer = load_tokenizer(options.model)
        model = load_model(options.model, data.task, data.names)
    if options.freeze:
        _freeze(model)
    # A RoBERTa's positions begin behind the row of the padding.
    unused = model.config.pad_token_id + 1 if "roberta" in model.config.model_type else 0
    positions = getattr(model.config, "max_position_embeddings", 8192) - unused
    tokenizer.model_max_length = positions
    lengths = [min(length, positions) for length in options.length]
    splits = {
        split: Texts(found, data.task, tokenizer, lengths[-1])
        for split, found in data.splits.items()
    }
    texts, teacher = splits.pop("train"), None
    if options.teacher == "nb-svm" and data.task == CLASSIFICATION:
        teacher = NbSvm(texts.ids, texts.labels, len(data.names))
    if data.task == REGRESSION:  # learned in units of the deviation
        mean, deviation = np.mean(texts.labels, axis=0), np.std(texts.labels, axis=0)
        deviation = np.where(deviation > 0, deviation, 1)
        for found in (texts, *splits.values()):
            found.labels = ((found.labels - mean) / deviation).astype(np.float32)
    windows = Windows(texts, lengths, options.epochs, options.seed, options.word_dropout, teacher)
    trainer = train(
        options,
        model,
        windows,
        splits["validation"],
        data.task,
        partial(padded, padding=tokenizer.pad_token_id or 0),
        lengths=[min(len(ids), max(lengths)) for ids in texts.ids],
    )
    if data.task == REGRESSION:
        for found in splits.values():
            found.labels = (found.labels * deviation + mean).astype(np.float32)
        _unscale(model, mean, deviation)
    write(options, trainer, splits, tokenizer)


def _freeze(model: Any) -> None:
    """Leave the pooler and the head alone to be trained."""
    encoder = f"{model.base_model_prefix}."
    for name, parameter in model.named_parameters():
        inside = name.startswith(encoder) if len(encoder) > 1 else "classifier." not in name
        parameter.requires_grad = not inside or ".pooler." in name


@torch.no_grad()
def _unscale(model: Any, mean: Any, deviation: Any) -> None:
    """Let the last layer give the numbers in their units."""
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    (*_, last) = [layer for layer in layers if layer.out_features == len(deviation)]
    scale, shift = (torch.from_numpy(x).to(last.weight) for x in (deviation, mean))
    last.weight *= scale[:, None]
    last.bias.copy_(last.bias * scale + shift)


def _images(options: argparse.Namespace, data: Data) -> None:
    if options.model is not None:
        raise UserError(f"--data {options.data} trains a new model: leave out --model")
    model = new_model(options, data.task, data.names, 0)
    splits = {
        split: [
            {"pixel_values": image[None].astype(np.float32) / 255 * 2 - 1, "labels": label}
            for image, label in found
        ]
        for split, found in data.splits.items()
    }
    examples = splits.pop("train")
    trainer = train(options, model, examples, splits["validation"], data.task, moved=moved)
    size = {"height": 8, "width": 8}
    processor = ViTImageProcessorPil(size=size, image_mean=[0.5], image_std=[0.5], resample=2)
    write(options, trainer, splits, processor)


def moved(images: torch.Tensor) -> torch.Tensor:
    """The images, each turned, slanted, stretched and shifted at random; the background is -1."""
    draw = torch.rand(6, len(images), device=images.device) * 2 - 1
    angle, slant = _TURN * draw[0], _SLANT * draw[1]
    wide, high = 1 + _GROW * draw[2], 1 + _GROW * draw[3]
    across, down = draw[4:] * (2 * _SHIFT / images.shape[-1])
    cosine, sine = angle.cos(), angle.sin()
    first = torch.stack([wide * cosine, wide * (slant * cosine - sine), across], 1)
    second = torch.stack([high * sine, high * (slant * sine + cosine), down], 1)
    grid = functional.affine_grid(torch.stack([first, second], 1), list(images.shape), False)
    return functional.grid_sample(images + 1, grid, align_corners=False) - 1


def pretrain(options: argparse.Namespace) -> None:
    """The work of `train.pretrain`: blocks of tokens, of which some are masked, and a run."""
    if options.length > options.positions:
        raise UserError(
            f"--length {options.length}: the model has {options.positions} positions at most"
        )
    check_place(options, options.family)
    texts = [x.text for source in options.data for x in load(TEXTS, source, "train")]
    tokenizer = new_tokenizer(options, texts)
    tokenizer.model_max_length = options.positions
    encoded = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    ends = tokenizer.cls_token_id, tokenizer.sep_token_id
    ids = np.array([i for text in encoded for i in (*text, ends[1])])
    rows = [{"input_ids": row} for row in blocks(ids, options.length, ends)]
    held_out, others = rows[: options.held_out], rows[options.held_out :]
    if not others:
        raise UserError(
            f"the texts give {len(rows)} blocks of {options.length} tokens: too few for training "
            f"beside --held-out {options.held_out}"
        )
    set_seed(options.seed)
    model = new_model(options, MASKED, (), len(tokenizer))
    attend_to_neighbours(model)
    only_masked(model)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    trainer = train(options, model, others, held_out, collate=collate)
    write(options, trainer, {}, tokenizer)


def blocks(ids: NDArray[np.int64], length: int, ends: tuple[int, int]) -> NDArray[np.int64]:
    """The ids of all texts in rows of [CLS], ``length`` - 2 of them, [SEP]."""
    rows = ids[: len(ids) // (length - 2) * (length - 2)].reshape(-1, length - 2)
    return np.pad(rows, ((0, 0), (1, 1)), constant_values=((0, 0), ends))
