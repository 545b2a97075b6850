"""A run of transformers.Trainer: its settings, one progress bar, and what it writes."""

import argparse
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cli import files
from cli.errors import Interrupted, UserError
from cli.journey import then
from cli.progress import Bar

import torch
from torch.nn import functional
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.trainer_utils import get_last_checkpoint

from train.command import OPTIONS
from train.curves import curves
from train.encoders import FUSED, Fused, save_fused
from train.examples import figures, padded, table

_EVALUATIONS = 24  # at most, in a run
_TEMPERATURE = 2.0  # of the distillation


class Training(Trainer):
    """With texts of alike lengths in a batch, a teacher, and images that are moved.

    Where a batch has the teacher's logits,

        loss = (1 - a) * loss of the labels + a * T^2 * KL(teacher / T || student / T)

    (Hinton et al., 2015).
    """

    given: Mapping[str, Any]
    lengths: list[int] | None = None
    teacher_weight = 0.0
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
            distance = functional.kl_div(
                functional.log_softmax(outputs["logits"] / _TEMPERATURE, 1),
                functional.log_softmax(taught / _TEMPERATURE, 1),
                reduction="batchmean",
                log_target=True,
            )
            weight = self.teacher_weight
            loss = (1 - weight) * loss + weight * _TEMPERATURE**2 * distance
        return (loss, outputs) if return_outputs else loss


class _Progress(TrainerCallback):
    """One bar over all steps, and a line for each evaluation."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.bar.advance(1)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **_: Any) -> None:
        loss, accuracy = metrics["eval_loss"], metrics.get("eval_accuracy")
        if not math.isfinite(loss):
            raise UserError(
                f"the loss is {loss} at step {state.global_step}: lower --learning-rate"
            )
        said = "" if accuracy is None else f", accuracy {accuracy:.4g}"
        self.bar.say(f"step {state.global_step:,} of {state.max_steps:,}: loss {loss:.4g}{said}")


def run(
    options: argparse.Namespace,
    given: Mapping[str, Any],
    model: Any,
    train: Any,
    validation: Any,
    *,
    task: str | None = None,
    padding: int = 0,
    **settings: Any,
) -> Training:
    """Train ``model``; it ends with the weights of the best evaluation.

    The best on ``validation`` has the highest accuracy of its ``task``, or without one the least
    loss. Checkpoints go to --out, where --resume finds them, beside the ``given`` options.
    ``settings``: attributes of Training.
    """
    steps = math.ceil(len(train) / options.batch)
    every = steps * math.ceil(options.epochs / _EVALUATIONS)
    options.out.mkdir(parents=True, exist_ok=True)
    files.write_json(options.out / OPTIONS, given)
    trainer = Training(
        model=model,
        args=TrainingArguments(
            output_dir=str(options.out),
            num_train_epochs=options.epochs,
            per_device_train_batch_size=options.batch,
            per_device_eval_batch_size=options.batch,
            learning_rate=options.learning_rate,
            warmup_steps=0.1,
            weight_decay=options.weight_decay,
            eval_strategy="steps",
            eval_steps=every,
            save_steps=every,
            logging_steps=every,
            save_total_limit=1,
            load_best_model_at_end=True,
            metric_for_best_model="accuracy" if task else "loss",
            dataloader_pin_memory=torch.cuda.is_available(),
            remove_unused_columns=False,
            disable_tqdm=True,
            report_to="none",
            seed=options.seed,
        ),
        train_dataset=train,
        eval_dataset=validation,
        data_collator=partial(padded, padding=padding),
        compute_metrics=task and (lambda found: figures(task, found.predictions, found.label_ids)),
    )
    for name, value in settings.items():
        setattr(trainer, name, value)
    trainer.given = given
    trainer.remove_callback(PrinterCallback)
    last = get_last_checkpoint(options.out) if options.resume else None
    try:
        with Bar(f"training, {steps * options.epochs:,} steps", steps * options.epochs) as bar:
            trainer.add_callback(_Progress(bar))
            trainer.train(resume_from_checkpoint=last)
    except KeyboardInterrupt:
        again = "the same command with --resume goes on from the last evaluation"
        raise Interrupted(
            f"interrupted: {again if get_last_checkpoint(options.out) else 'nothing is kept'}"
        ) from None
    return trainer


def measured(trainer: Training, splits: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The loss and the figures of these splits, printed too."""
    found: dict[str, dict[str, Any]] = {}
    for split, examples in splits.items():
        said = trainer.evaluate(examples)
        found[split] = {"examples": len(examples)} | {
            name: said[f"eval_{name}"]
            for name in ("loss", "accuracy", "f1", "confusion")
            if f"eval_{name}" in said
        }
    return found


def write(
    options: argparse.Namespace, trainer: Training, metrics: Mapping[str, Any], processor: Any
) -> None:
    """Write the checkpoint in place of the run's folder, and print the figures."""
    model, log, best = trainer.model, trainer.state.log_history, trainer.state.best_global_step
    losses = {row["step"]: row["loss"] for row in log if "loss" in row}
    history = [
        {"step": row["step"], "train_loss": losses[row["step"]], "loss": row["eval_loss"]}
        | ({"accuracy": row["eval_accuracy"]} if "eval_accuracy" in row else {})
        for row in log[: 2 * len(losses)]
        if "eval_loss" in row
    ]
    report = {"options": trainer.given, "metrics": metrics, "best_step": best}
    report["history"] = history
    with files.replacing(options.out) as temporary:
        temporary.mkdir()
        if isinstance(model, Fused) or options.family == FUSED:
            save_fused(model, temporary)
        else:
            model.save_pretrained(temporary)
        processor.save_pretrained(temporary)
        files.write_json(temporary / "training.json", report)
        files.write(temporary / "curves.svg", curves(history))
    print(table(history))
    for split, found in metrics.items():
        names = [name for name in ("accuracy", "f1", "loss") if name in found]
        said = ", ".join(f"{name} {found[name]:.4g}" for name in names)
        print(f"{split}, {found['examples']:,} examples: {said}")
        if "confusion" in found:
            print("percent of each class (row) by the class that is said (column):")
            labels = model.config.id2label.values()
            rows = zip(labels, found["confusion"])
            print(table([{"": name, **dict(zip(labels, row))} for name, row in rows]))
    if options.json is not None:
        files.write_json(options.json, report)
    print(f"{options.out}: the weights of step {best:,}")
    then("quant.calibrate" if metrics else "train.finetune", "--model", options.out)
