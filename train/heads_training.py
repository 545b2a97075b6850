"""The work of `train.heads` and `train.tagger`: labels, numbers, or a class of every word."""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from cli import files

import numpy as np
import torch

from quant.model.spec import same_names
from quant.texts.data_file import Review, layout_of, read_texts
from train.batches import epoch_batches, pad, window
from train.checkpoint import checkpoint_tokenizer, read_config, save_checkpoint
from train.choices import REVIEWS
from train.command import ended, finish, places, recorded
from train.device import device_of, plan_of
from train.evaluation import predicted
from train.failure import TrainError
from train.loop import train
from train.model import logits_of
from train.targets import HEADS, Head
from train.tokens import special_tokens

EVALUATIONS = 4
SPLITS = ("train", "validation", "test")


def read(
    options: argparse.Namespace, head: Head
) -> tuple[dict[str, list[Review]], tuple[str, ...]]:
    """The texts of each split, all with targets, and the names of the outputs."""
    if options.data == REVIEWS:
        if options.names:
            raise TrainError(f"--names belongs to a file: of {REVIEWS} they are given")
        return {split: head.corpus(split) for split in SPLITS}, head.names
    names = tuple(name.strip() for name in (options.names or "").split(","))
    if len(names) < head.least or not all(names) or options.validation is None:
        raise TrainError("--data FILE needs --names A,B,... of its outputs, and --validation FILE")
    if same := same_names(names):
        raise TrainError(f"--names has {same[0]!r} and {same[1]!r}, which are one name: rename one")
    given = {"train": options.data, "validation": options.validation, "test": options.test}
    splits = {
        split: read_texts(file, names=names, layout=layout_of(options), task=head.task)
        for split, file in given.items()
        if file is not None
    }
    for split, reviews in splits.items():
        if head.unusable(reviews):
            raise TrainError(f"{given[split]}: {head.useless}")
    return splits, names


def heads(options: argparse.Namespace, name: str) -> None:
    """Train as the options say, and write checkpoint and, if asked, texts and figures.

    ``name`` is that of --out by default, and of the run where it says how far it is.
    """
    head = HEADS[options.task]()
    device = device_of(options)
    if not options.model.is_dir():
        raise TrainError(f"--model {options.model} is no folder: give one that holds a BERT")
    if read_config(options.model).get("model_type") != "bert":
        raise TrainError(f"{options.model} is no BERT: only that family is trained with such heads")
    reviews, names = read(options, head)
    if len(reviews["train"]) < options.batch:
        raise TrainError(
            f"{len(reviews['train'])} training texts do not fill a batch of {options.batch}: "
            "lower --batch"
        )
    work = places(options, name)
    tokenizer = checkpoint_tokenizer(options.model)
    special = special_tokens(tokenizer)
    splits = {split: head.tokens(found, tokenizer, options) for split, found in reviews.items()}
    texts, targets = splits["train"]
    model = head.model(options, names)
    torch.nn.init.normal_(model.classifier.weight, std=model.config.initializer_range)
    torch.nn.init.zeros_(model.classifier.bias)  # as many outputs, perhaps, but of other meaning
    model.to(device)
    head.settle(targets)
    lengths = [min(len(ids), options.length) for ids in texts]
    each = len(lengths) // options.batch

    def loss(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        epoch, index = divmod(step, each)
        chosen = epoch_batches(lengths, options.batch, seed=options.seed, epoch=epoch)[index]
        rng = np.random.default_rng((options.seed, step))
        shown = [window(texts[i], options.length, special, rng) for i in chosen]
        logits = logits_of(model, pad(shown, special), device).float()
        return head.loss(logits, [targets[i] for i in chosen]), {}

    def measured(split: str) -> dict[str, float]:
        ids, wanted = splits[split]
        logits = predicted(
            model, ids, length=options.length, special=special, device=device, description=split
        )
        return head.figures(logits, wanted, names)

    plan = plan_of(
        options,
        device,
        steps=options.steps,
        evaluate_at=tuple(
            sorted({options.steps * i // EVALUATIONS for i in range(1, EVALUATIONS + 1)} - {0})
        ),
    )
    outcome = train(
        model,
        plan,
        loss,
        lambda: measured("validation"),
        snapshot=work / "snapshot.safetensors",
        arguments={**recorded(options), "texts": sum(map(len, texts))},
        description=name,
    )
    metrics = {split: measured(split) for split in ("validation", "test") if split in splits}
    head.end(model.classifier)
    save_checkpoint(model, tokenizer, options.out)
    if options.splits is not None:
        for split, found in reviews.items():
            write_texts(options.splits / f"{split}.jsonl", found, names, head)
    for split, values in metrics.items():
        f1 = f", micro F1 of the entities {values['f1']:.2f} %" if "f1" in values else ""
        accuracy = f"{head.right} {values['accuracy']:.2f} %"
        print(f"{split}: {accuracy}, loss {values['loss']:.4f}{f1}")
    finish(options, {"metrics": metrics, **dataclasses.asdict(outcome)})
    ended(options, outcome.seconds, "quant.calibrate")


def write_texts(path: Path, reviews: Sequence[Review], names: Sequence[str], head: Head) -> None:
    """A file that `quant.evaluate` reads."""
    lines = [json.dumps(head.row(review, names), ensure_ascii=False) for review in reviews]
    files.write(path, ("\n".join(lines) + "\n").encode())
