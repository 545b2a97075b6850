"""The work of `train.finetune`: a text classifier, its checkpoint and model card."""

import argparse
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.progress import stage

import torch
from transformers import PreTrainedModel

from train.card import classifier_card, table
from train.checkpoint import (
    HEADS,
    Classifier,
    checkpoint_tokenizer,
    load_classifier,
    positions_of,
    read_config,
    save_checkpoint,
)
from train.command import ended, finish, places, recorded
from train.data import Split, describe, digest, encoded, known_of, read
from train.device import device_of, how_made, plan_of
from train.distil import NB_SVM, NONE, DistillationLoss, make_teacher
from train.evaluation import figures, predict
from train.failure import TrainError
from train.families import FAMILIES, MINILM, new_classifier, settle_family
from train.family_options import DISTILBERT
from train.loop import train
from train.recipe import settle
from train.stages import Stage, Timetable, parse_stages
from train.teacher import NbSvm
from train.tokens import CheckpointTokenizer, SpecialTokens, special_tokens


def name_teachers(options: argparse.Namespace) -> list[str]:
    """The teachers asked for, or the linear one; the options hold them as one text from here on."""
    named: list[str] = options.teacher or [NB_SVM]
    options.teacher = ",".join(named)
    return named


def finetune(options: argparse.Namespace) -> None:
    """Train as the options say, and write checkpoint, model card and, if asked, the figures."""
    device = device_of(options)
    named = name_teachers(options)
    _check_folders(options, named)
    settle_family(options)
    reviews, labels = read(options)
    positions = _positions(options)
    settle(options, texts=len(reviews["train"]), positions=positions)
    stages = parse_stages(options.stages)
    _check(options, stages, positions)
    work = places(options, Path(options.data).stem)
    tokenizer = _tokenizer(options, [review.text for review in reviews["train"]])
    special = special_tokens(tokenizer)
    splits = {name: encoded(texts, tokenizer, name) for name, texts in reviews.items()}

    model = _model(options, labels, len(tokenizer), device)
    teachers = []
    for name in named:
        if name == NONE:
            continue
        parts = splits["train"], labels, tokenizer, work, device
        teachers.append(teacher := make_teacher(name, options.seed, *parts))
        if isinstance(teacher, NbSvm):
            checked = figures(teacher(splits["validation"].texts), splits["validation"].labels)
            stage(
                f"the linear teacher: accuracy {checked['accuracy']:.2f} % of the validation texts"
            )
    timetable = Timetable(stages, len(splits["train"].texts), options.batch)
    loss = DistillationLoss(options, model, splits["train"], timetable, teachers, special, device)

    def evaluate() -> dict[str, float]:
        logits = predict(
            model,
            splits["validation"].texts,
            length=options.length,
            special=special,
            device=device,
            description="validation",
        )
        measured = figures(logits, splits["validation"].labels)
        return {"accuracy": measured["accuracy"], "loss": measured["loss"]}

    plan = plan_of(
        options,
        device,
        steps=timetable.steps,
        evaluate_at=timetable.evaluations(),
        stop_after=options.stop_after * timetable.batches,
    )
    arguments = recorded(options)
    outcome = train(
        model,
        plan,
        loss,
        evaluate,
        snapshot=work / "snapshot.safetensors",
        arguments={**arguments, "texts": digest(splits)},
        description="fine-tuning",
    )
    metrics: dict[str, dict[str, Any]] = {}
    for name in ("validation", "test"):
        if name in splits:
            metrics[name] = _measure(model, splits[name], options.length, special, device, name)
    for row in outcome.history:
        row.update(timetable.describe(row["step"]))
    card = classifier_card(
        front=_front(options, model),
        summary=_summary(model, labels, tokenizer),
        data=describe(options, splits),
        metrics=metrics,
        **how_made(options, "train.finetune", outcome),
    )
    save_checkpoint(model, tokenizer, options.out, card)
    print(table(outcome.history))
    for name, m in metrics.items():
        print(
            f"{name}: accuracy {m['accuracy']:.2f} % of {m['texts']:,} texts, loss {m['loss']:.4f}"
        )
    report = {"metrics": metrics, "arguments": arguments, **dataclasses.asdict(outcome)}
    finish(options, report)
    shutil.rmtree(work, ignore_errors=True)
    ended(options, outcome.seconds, "quant.calibrate")


def _positions(options: argparse.Namespace) -> int:
    """The number of positions of the model."""
    if options.model is None:
        return int(options.positions)
    return positions_of(read_config(options.model))


def _tokenizer(options: argparse.Namespace, texts: Sequence[str]) -> CheckpointTokenizer:
    """That of the checkpoint, or of a new model of the family for these training texts."""
    if options.model is None:
        return FAMILIES[options.family].tokenizer(options, texts)
    return checkpoint_tokenizer(options.model)


def _check_folders(options: argparse.Namespace, teachers: Sequence[str]) -> None:
    """Ask for the checkpoints before the texts are read, which takes a minute."""
    given = [("model", options.model, ()), ("embeddings", options.embeddings, (MINILM,))]
    given += [("teacher", teacher, (NB_SVM,)) for teacher in teachers]
    for option, value, names in given:
        if value not in (None, NONE, *names) and not Path(value).is_dir():
            allowed = ", ".join(("a folder that holds a checkpoint", *names))
            raise TrainError(f"--{option} {value} is no folder: give {allowed}")
    if NONE in teachers and len(teachers) > 1:
        raise TrainError(f"--teacher {NONE} beside another one: leave it away, or the others")


def _check(options: argparse.Namespace, stages: Sequence[Stage], positions: int) -> None:
    longest = max(options.length, *(stage.length for stage in stages))
    if longest > positions:
        raise TrainError(
            f"{longest} tokens are asked for in --length or --stages: "
            f"the model has {positions} positions"
        )
    if options.model is None and options.hidden % options.heads:
        raise TrainError(f"--hidden {options.hidden} is no multiple of --heads {options.heads}")
    if options.model is None and options.freeze:
        raise TrainError("--freeze without --model would train a classifier on random features")
    if options.model is not None and options.neighbours:
        raise TrainError("--neighbours starts a new model, not one of --model")


def _model(
    options: argparse.Namespace, labels: list[str], vocabulary: int, device: str
) -> Classifier:
    if options.model is None:
        return new_classifier(options, labels, vocabulary).to(device)
    rates = {"dropout": options.dropout, "attention_dropout": options.attention_dropout}
    model = load_classifier(options.model, labels, seed=options.seed, **rates)
    if options.freeze:
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name.startswith(HEADS)
    return model.to(device)


def _measure(
    model: Classifier, data: Split, length: int, special: SpecialTokens, device: str, name: str
) -> dict[str, Any]:
    """Figures of the weights as they are saved, rounded to half precision."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    logits = predict(
        model, data.texts, length=length, special=special, device=device, description=name
    )
    return {"texts": len(data.texts), "length": length, **figures(logits, data.labels)}


def _front(options: argparse.Namespace, model: Classifier) -> dict[str, str]:
    front = {"pipeline_tag": "text-classification", **known_of(options)}
    if isinstance(model, PreTrainedModel):
        front["library_name"] = "transformers"
    return front


def _summary(model: Classifier, labels: Sequence[str], tokenizer: CheckpointTokenizer) -> str:
    config = model.config
    kind = type(tokenizer.backend_tokenizer.model).__name__
    fields = config.to_dict()
    ffn = fields["hidden_dim" if config.model_type == DISTILBERT else "intermediate_size"]
    return (
        f"A text classifier ({', '.join(labels)}): {type(model).__name__} with "
        f"{config.num_hidden_layers} layers, hidden size {config.hidden_size}, "
        f"{config.num_attention_heads} heads, feed-forward size {ffn}, "
        f"{positions_of(fields)} positions, {config.vocab_size:,} {kind} tokens, "
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters."
    )
