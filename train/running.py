"""A run of transformers.Trainer: its settings, one progress bar, and what it writes."""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cli import files
from cli.errors import Interrupted, UserError
from cli.journey import then
from cli.progress import Bar

import torch
from torch.nn import functional
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_pt_utils import LengthGroupedSampler

from train.command import OPTIONS, decisive
from train.encoders import FUSED, Fused, save_fused
from train.examples import figures

_EVALUATIONS = 24  # at most, in a run
_TEMPERATURE = 2.0  # of the distillation
_TEACHER = 0.9  # a
_PANELS = {60: {"train_loss": "#1f77b4", "loss": "#d62728"}, 520: {"accuracy": "#1f77b4"}}
"""Of the curves: where each begins, and the colours of its lines."""


class Training(Trainer):
    """With texts of alike lengths in a batch, a teacher, and images that are moved.

    Where a batch has the teacher's logits,

        loss = (1 - a) * loss of the labels + a * T^2 * KL(teacher / T || student / T)

    (Hinton et al., 2015).
    """

    lengths: list[int] | None = None
    moved: Callable[[torch.Tensor], torch.Tensor] | None = None

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        if self.lengths is None:
            return super()._get_train_sampler(train_dataset)
        return LengthGroupedSampler(self.args.train_batch_size, lengths=self.lengths)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        taught = inputs.pop("teacher", None)
        if self.moved is not None and model.training:
            inputs["pixel_values"] = self.moved(inputs["pixel_values"])
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if taught is not None:
            said, wanted = (
                functional.log_softmax(logits / _TEMPERATURE, 1)
                for logits in (outputs["logits"], taught)
            )
            distance = functional.kl_div(said, wanted, reduction="batchmean", log_target=True)
            loss = torch.lerp(loss, _TEMPERATURE**2 * distance, _TEACHER)
        return (loss, outputs) if return_outputs else loss


class Progress(TrainerCallback):
    """One bar over all steps, and a line for each evaluation."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.bar.update(1)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **_: Any) -> None:
        loss, accuracy = metrics["eval_loss"], metrics.get("eval_accuracy")
        at = f"step {state.global_step:,} of {state.max_steps:,}"
        if not math.isfinite(loss):
            raise UserError(f"the loss is {loss} at {at}: lower --learning-rate")
        self.bar.say(f"{at}: loss {loss:.4g}{f', accuracy {accuracy:.4g}' if accuracy else ''}")


def train(
    options: argparse.Namespace,
    model: Any,
    examples: Any,
    validation: Any,
    task: str | None = None,
    collate: Callable[..., Any] | None = None,
    **settings: Any,
) -> Training:
    """Train ``model``; it ends with the weights of the best evaluation.

    The best on ``validation`` has the highest accuracy of its ``task``, or without one the least
    loss. Checkpoints go to --out, where --resume finds them. ``settings``: attributes of Training.
    """
    steps = math.ceil(len(examples) / options.batch)
    every = steps * math.ceil(options.epochs / _EVALUATIONS)
    options.out.mkdir(parents=True, exist_ok=True)
    files.write_json(options.out / OPTIONS, decisive(options))
    arguments = TrainingArguments(
        output_dir=str(options.out),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=options.batch,
        learning_rate=options.learning_rate,
        warmup_steps=0.1,
        weight_decay=options.weight_decay,
        **dict.fromkeys(("eval_strategy", "save_strategy", "logging_strategy"), "steps"),
        **dict.fromkeys(("eval_steps", "save_steps", "logging_steps"), every),
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy" if task else "loss",
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to="none",
        seed=options.seed,
    )
    trainer = Training(
        model=model,
        args=arguments,
        train_dataset=examples,
        eval_dataset=validation,
        data_collator=collate,
        compute_metrics=task and (lambda found: figures(task, found.predictions, found.label_ids)),
    )
    for name, value in settings.items():
        setattr(trainer, name, value)
    trainer.remove_callback(PrinterCallback)
    last = _last(options.out) if options.resume else None
    try:
        with Bar(f"training, {steps * options.epochs:,} steps", steps * options.epochs) as bar:
            trainer.add_callback(Progress(bar))
            trainer.train(resume_from_checkpoint=last)
    except KeyboardInterrupt:
        kept = _last(options.out) is not None
        way = "the same command with --resume goes on from the last evaluation"
        raise Interrupted(f"interrupted: {way if kept else 'nothing is kept'}") from None
    trainer.remove_callback(Progress)
    return trainer


def _last(out: Path) -> str | None:
    """The last checkpoint that is whole: the Trainer writes its own state at the end."""
    found = [path.parent for path in out.glob("checkpoint-*/trainer_state.json")]
    found.sort(key=lambda path: int(path.name.partition("-")[2]))
    return str(found[-1]) if found else None


def write(
    options: argparse.Namespace, trainer: Training, splits: Mapping[str, Any], processor: Any
) -> None:
    """Measure the splits, write the checkpoint in place of the run's folder, print the figures."""
    model, log, best = trainer.model, trainer.state.log_history, trainer.state.best_global_step
    losses = {row["step"]: row["loss"] for row in log if "loss" in row}
    history = [
        {"step": row["step"], "train_loss": losses[row["step"]]}
        | {name: row[f"eval_{name}"] for name in ("loss", "accuracy") if f"eval_{name}" in row}
        for row in log
        if "eval_loss" in row
    ]
    metrics = {}
    for split, found in splits.items():
        told = trainer.evaluate(found)
        kept = [x for x in ("loss", "accuracy", "f1", "confusion") if f"eval_{x}" in told]
        metrics[split] = {"examples": len(found)} | {x: told[f"eval_{x}"] for x in kept}
    report = {"options": decisive(options), "best_step": best, "history": history}
    report["metrics"] = metrics
    with files.replacing(options.out) as temporary:
        temporary.mkdir()
        if isinstance(model, Fused) or options.family == FUSED:
            save_fused(model, temporary)
        else:
            model.save_pretrained(temporary)
        processor.save_pretrained(temporary)
        files.write_json(temporary / "training.json", report)
        files.write(temporary / "curves.svg", _curves(history))
    if options.json:
        files.write_json(options.json, report)
    for split, measured in metrics.items():
        said = [f"{x} {measured[x]:.4g}" for x in ("accuracy", "f1", "loss") if x in measured]
        print(f"{split}, {measured['examples']:,} examples: {', '.join(said)}")
    print(f"{options.out}: the weights of step {best:,}")
    then("quant.calibrate" if metrics else "train.finetune", "--model", options.out)


def _curves(history: Sequence[Mapping[str, Any]]) -> str:
    """A panel of the losses, and one of the accuracy where there is one, over the steps, as SVG."""
    parts, last = ['<svg xmlns="http://www.w3.org/2000/svg" width="960" height="280">'], history[-1]
    for left, colours in _PANELS.items():
        values = [row[key] for key in colours for row in history if key in row]
        if values:
            low, high = min(values), max(values)
            parts.append(f'<g transform="translate({left} 30)" fill="none" stroke="#999">')
            parts.append('<rect width="400" height="220"/><g fill="#000" stroke="none">')
            parts.append(f'<text y="240">{low:.4g} to {high:.4g}, step {last["step"]}</text></g>')
            across, down = 400 / last["step"], 220 / ((high - low) or 1)
            for i, (key, colour) in enumerate(colours.items()):
                places = ((across * row["step"], down * (high - row[key])) for row in history)
                line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                parts.append(f'<polyline points="{line}" stroke="{colour}"/>')
                parts.append(f'<text x="{100 * i}" y="-8" stroke="{colour}">{key}</text>')
            parts.append("</g>")
    return "".join([*parts, "</svg>\n"])
