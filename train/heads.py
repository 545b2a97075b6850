"""Fine-tune a BERT checkpoint for several labels at once, or for numbers.

Texts and targets come from a file, as `quant.evaluate` reads it, or from the two corpora: which of
"positive" and "review" (a whole one, not a sentence) hold, or the sentiment, -1 or 1, and the
number of words up to 100. Each number is learned in its own standard deviations; the classifier
that is written gives it in its units.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli import files
from cli.options import MODEL, Parser, positive

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers import BertForSequenceClassification

from quant.measure.answers import held
from quant.measure.metrics import LabelScores, determination
from quant.model.spec import MULTI_LABEL, REGRESSION, same_names
from quant.texts.corpora import CORPORA
from quant.texts.data_file import Review, add_columns, layout_of, read_texts
from train.batches import epoch_batches, pad, window
from train.checkpoint import checkpoint_tokenizer, load_classifier, save_checkpoint
from train.command import add_common, device_of, finish, places, plan_of, recorded, run_training
from train.evaluation import predict
from train.failure import TrainError
from train.loop import train
from train.model import logits_of
from train.tokens import encode, special_tokens

REVIEWS = "reviews"
NAMES = {MULTI_LABEL: ("positive", "review"), REGRESSION: ("sentiment", "words")}
PROBLEMS = {MULTI_LABEL: "multi_label_classification", REGRESSION: "regression"}
WORDS = 100  # counted of a text at most
EVALUATIONS = 4
SPLITS = ("train", "validation", "test")

EXAMPLES = """\
examples:
  python -m train.heads multi-label --splits build/multi-label-texts
  python -m train.heads regression --steps 1000
  python -m train.heads multi-label --data train.csv --validation more.csv --names joy,fear
"""

Targets = npt.NDArray[np.float64]


def main(argv: Sequence[str] | None = None) -> int:
    return run_training(heads, _parser(), argv)


def corpora(task: str, split: str) -> list[Review]:
    """The texts of both corpora in turn, as many of each as the smaller one has."""
    both = [
        [
            Review(review.text, None, None, _targets(task, review, source == "imdb"))
            for review in CORPORA[source](split)
        ]
        for source in CORPORA
    ]
    return [review for pair in zip(*both) for review in pair]


def _targets(task: str, review: Review, whole: bool) -> tuple[float, float]:
    good = float(review.label or 0)
    if task == MULTI_LABEL:
        return good, float(whole)
    return 2 * good - 1, float(min(WORDS, len(review.text.split())))


def read(options: argparse.Namespace) -> tuple[dict[str, list[Review]], tuple[str, ...]]:
    """The texts of each split, all with targets, and the names of the outputs."""
    task = options.task
    if options.data == REVIEWS:
        if options.names:
            raise TrainError(f"--names belongs to a file: of {REVIEWS} they are given")
        return {split: corpora(task, split) for split in SPLITS}, NAMES[task]
    names = tuple(name.strip() for name in (options.names or "").split(","))
    if not all(names) or options.validation is None:
        raise TrainError("--data FILE needs --names A,B,... of its outputs, and --validation FILE")
    if same := same_names(names):
        raise TrainError(f"--names has {same[0]!r} and {same[1]!r}, which are one name: rename one")
    given = {"train": options.data, "validation": options.validation, "test": options.test}
    splits = {
        split: read_texts(file, names=names, layout=layout_of(options), task=task)
        for split, file in given.items()
        if file is not None
    }
    for split, reviews in splits.items():
        if any(review.targets is None or review.pair is not None for review in reviews):
            raise TrainError(f"{given[split]}: a text has no target, or is a pair: neither trains")
    return splits, names


def heads(options: argparse.Namespace) -> None:
    """Train as the options say, and write checkpoint and, if asked, texts and figures."""
    device = device_of(options)
    if not options.model.is_dir():
        raise TrainError(f"--model {options.model} is no folder: give one that holds a BERT")
    reviews, names = read(options)
    if len(reviews["train"]) < options.batch:
        raise TrainError(
            f"{len(reviews['train'])} training texts do not fill a batch of {options.batch}: "
            "lower --batch"
        )
    work = places(options, options.task)
    tokenizer = checkpoint_tokenizer(options.model)
    special = special_tokens(tokenizer)
    texts = {
        split: encode([r.text for r in found], tokenizer, f"tokens of {split}")
        for split, found in reviews.items()
    }
    targets = {split: np.array([r.targets for r in found]) for split, found in reviews.items()}
    model = load_classifier(
        options.model, names, dropout=0.1, attention_dropout=0.0, seed=options.seed
    )
    if not isinstance(model, BertForSequenceClassification):
        raise TrainError(f"{options.model} is no BERT: only that family is trained with such heads")
    model.config.problem_type = PROBLEMS[options.task]
    torch.manual_seed(options.seed)
    torch.nn.init.normal_(model.classifier.weight, std=model.config.initializer_range)
    torch.nn.init.zeros_(model.classifier.bias)  # as many outputs, perhaps, but of other meaning
    model.to(device)
    several = options.task == MULTI_LABEL
    mean, deviation = np.zeros(len(names)), np.ones(len(names))
    if not several:
        mean, deviation = targets["train"].mean(axis=0), targets["train"].std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1)
    wanted = {split: (found - mean) / deviation for split, found in targets.items()}
    lengths = [min(len(ids), options.length) for ids in texts["train"]]
    each = len(lengths) // options.batch

    def loss(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        epoch, index = divmod(step, each)
        batches = epoch_batches(lengths, options.batch, seed=options.seed, epoch=epoch)
        chosen = batches[index]
        rng = np.random.default_rng((options.seed, step))
        shown = [window(texts["train"][i], options.length, special, rng) for i in chosen]
        logits = logits_of(model, pad(shown, special), device).float()
        right = torch.from_numpy(wanted["train"][chosen]).float().to(device)
        compare = functional.binary_cross_entropy_with_logits if several else functional.mse_loss
        return compare(logits, right), {}

    def measured(split: str) -> dict[str, float]:
        logits = predict(
            model, texts[split], length=options.length, special=special, device=device,
            description=split,
        )  # fmt: skip
        right = wanted[split]
        error = np.logaddexp(0, logits) - right * logits if several else np.square(logits - right)
        if several:
            exact = LabelScores(right > 0, held(logits)).to_json()["exact"]
        else:
            exact = float(determination(logits, right).mean())
        return {"accuracy": 100 * exact, "loss": float(error.mean())}

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
        arguments={**recorded(options), "texts": sum(map(len, texts["train"]))},
        description=options.task,
    )
    figures = {split: measured(split) for split in ("validation", "test") if split in texts}
    with torch.no_grad():
        scale = torch.from_numpy(deviation).float().to(device)
        model.classifier.weight *= scale[:, None]
        model.classifier.bias.copy_(model.classifier.bias * scale + torch.from_numpy(mean).float())
    save_checkpoint(model, tokenizer, options.out)
    if options.splits is not None:
        for split, found in reviews.items():
            write_texts(options.splits / f"{split}.jsonl", found, names, several)
    what = "every label right" if several else "R^2"
    for split, found_figures in figures.items():
        accuracy = found_figures["accuracy"]
        print(f"{split}: {what} {accuracy:.2f} %, loss {found_figures['loss']:.4f}")
    finish(options, {"metrics": figures, **dataclasses.asdict(outcome)})
    print(f"{options.out}: written after {outcome.seconds:.0f} s of training")


def write_texts(path: Path, reviews: Sequence[Review], names: Sequence[str], several: bool) -> None:
    """A file that `quant.evaluate` reads."""

    def label(review: Review) -> list[Any]:
        values = review.targets or ()
        return [name for name, x in zip(names, values) if x] if several else list(values)

    lines = [json.dumps({"text": r.text, "label": label(r)}, ensure_ascii=False) for r in reviews]
    files.write(path, ("\n".join(lines) + "\n").encode())


def _parser() -> Parser:
    result = Parser(
        "train.heads", "Fine-tune a BERT for several labels at once, or for numbers.", EXAMPLES
    )
    result.add_argument("task", choices=(MULTI_LABEL, REGRESSION), help="what the outputs are")
    result.add_argument(
        "--model", type=Path, default=MODEL, metavar="DIR", help=f"start from it (default: {MODEL})"
    )
    data = result.add_argument_group("texts")
    data.add_argument(
        "--data", default=REVIEWS, metavar="FILE",
        help=f"to train on (default: {REVIEWS}, both corpora)",
    )  # fmt: skip
    data.add_argument("--validation", metavar="FILE", help="to select by, needed with --data FILE")
    data.add_argument("--test", metavar="FILE", help="to measure on")
    data.add_argument("--names", metavar="A,B,...", help="of the outputs, with --data FILE")
    data.add_argument("--splits", type=Path, metavar="DIR", help="write the splits there as .jsonl")
    add_columns(result)
    recipe = result.add_argument_group("recipe")
    recipe.add_argument("--steps", type=positive, default=1200, help="(%(default)s)")
    recipe.add_argument("--length", type=positive, default=128, help="tokens (%(default)s)")
    add_common(result, recipe, name="the task", rate=2e-4, batch=32, average=0.99, patience=0)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
