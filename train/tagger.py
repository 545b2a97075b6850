"""Fine-tune a BERT checkpoint that gives every word a class.

Words and tags come from a file, as `quant.evaluate` reads it, or from the IMDB reviews: which words
are names. There the tag is what an uncased model does not see: a word is one of a name where the
reviewer wrote it with a capital inside a sentence. What begins a sentence or a quotation, or is
written in capitals throughout, says nothing.
"""

import argparse
import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli import files
from cli.options import MODEL, Parser, positive
from cli.progress import progress

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers import BertForTokenClassification

from quant.foreign.tokenizer import TextTokenizer, Tokens
from quant.measure.entities import scores, tagged
from quant.model.spec import TOKEN_CLASSIFICATION, same_names
from quant.texts.corpora import imdb
from quant.texts.data_file import Review, add_columns, layout_of, read_texts
from train.batches import by_length, epoch_batches, pad
from train.checkpoint import checkpoint_tokenizer, save_checkpoint
from train.command import add_common, device_of, finish, places, plan_of, recorded, run_training
from train.failure import TrainError
from train.loop import train
from train.tokens import special_tokens

REVIEWS = "reviews"
NAMES = ("O", "B-NAME", "I-NAME")
SENTENCES = 2  # taken of a review at most
SHORTEST, LONGEST = 6, 60  # words of a sentence
EVALUATIONS = 4
IGNORED = -100  # functional.cross_entropy's
SPLITS = ("train", "validation", "test")
BATCH = 50  # evaluated at a time

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_OPENING = frozenset("\"'“‘«(:;-*/")
_FIRST_PERSON = re.compile(r"I(['’]\w+)?")

EXAMPLES = """\
examples:
  python -m train.tagger --splits build/names
  python -m train.tagger --data train.conll --validation valid.conll --names O,B-PER,I-PER
"""


def main(argv: Sequence[str] | None = None) -> int:
    return run_training(tagger, _parser(), argv)


def sentences(split: str) -> list[Review]:
    """The first sentences of each review of a split, word by word."""
    found = []
    for review in imdb(split):
        taken = 0
        for sentence in _SENTENCE.split(review.text):
            words = tuple(_WORD.findall(sentence))
            if taken < SENTENCES and SHORTEST <= len(words) <= LONGEST:
                taken += 1
                found.append(Review(" ".join(words), None, words=words, tags=names_of(words)))
    return found


def names_of(words: Sequence[str]) -> tuple[int | None, ...]:
    """The tag of each word of a sentence, by its place in NAMES; None where the case says none."""
    tags: list[int | None] = []
    for place, word in enumerate(words):
        letters = [letter for letter in word if letter.isalpha()]
        if _FIRST_PERSON.fullmatch(word) or not word[0].isupper():
            tags.append(0)
        elif place == 0 or words[place - 1] in _OPENING or all(map(str.isupper, letters)):
            tags.append(None)
        else:
            tags.append(1 if tags[-1] in (0, None) else 2)
    return tuple(tags)


def read(options: argparse.Namespace) -> tuple[dict[str, list[Review]], tuple[str, ...]]:
    """The texts of each split, all with tags, and the names of the classes."""
    if options.data == REVIEWS:
        if options.names:
            raise TrainError(f"--names belongs to a file: of {REVIEWS} they are given")
        return {split: sentences(split) for split in SPLITS}, NAMES
    names = tuple(name.strip() for name in (options.names or "").split(","))
    if len(names) < 2 or not all(names) or options.validation is None:
        raise TrainError("--data FILE needs --names A,B,... of its tags, and --validation FILE")
    if same := same_names(names):
        raise TrainError(f"--names has {same[0]!r} and {same[1]!r}, which are one name: rename one")
    given = {"train": options.data, "validation": options.validation, "test": options.test}
    splits = {
        split: read_texts(file, names=names, layout=layout_of(options), task=TOKEN_CLASSIFICATION)
        for split, file in given.items()
        if file is not None
    }
    for split, reviews in splits.items():
        if not any(tag is not None for review in reviews for tag in review.tags):
            raise TrainError(f"{given[split]}: no word has a tag: nothing can be learned of it")
    return splits, names


@dataclasses.dataclass(frozen=True)
class Split:
    """Texts as tokens, and the class of each token: that of the word that begins, or IGNORED."""

    texts: list[Tokens]
    classes: list[npt.NDArray[np.int64]]

    @classmethod
    def of(cls, reviews: Sequence[Review], tokenizer: TextTokenizer, length: int) -> "Split":
        texts, classes = [], []
        for review in progress(reviews, "splitting words"):
            tokens = tokenizer.encode(review.content, limit=length, words=True)
            found = np.full(len(tokens.ids), IGNORED, np.int64)
            tags = [IGNORED if tag is None else tag for tag in review.tags]
            found[tokens.first] = np.array(tags, np.int64)[tokens.kept]
            texts.append(tokens)
            classes.append(found)
        return cls(texts, classes)


def tagger(options: argparse.Namespace) -> None:
    """Train as the options say, and write checkpoint and, if asked, texts and figures."""
    device = device_of(options)
    if not options.model.is_dir():
        raise TrainError(f"--model {options.model} is no folder: give one that holds a BERT")
    config = json.loads((options.model / "config.json").read_text(encoding="utf-8"))
    if config.get("model_type") != "bert":
        raise TrainError(f"{options.model} is no BERT: only that family is trained to tag words")
    reviews, names = read(options)
    if len(reviews["train"]) < options.batch:
        raise TrainError(
            f"{len(reviews['train'])} training texts do not fill a batch of {options.batch}: "
            "lower --batch"
        )
    work = places(options, "tagger")
    tokenizer = checkpoint_tokenizer(options.model)
    special = special_tokens(tokenizer)
    words = TextTokenizer(options.model)
    splits = {name: Split.of(found, words, options.length) for name, found in reviews.items()}
    model = _model(options, names).to(device)
    shown = splits["train"]
    lengths = [len(tokens.ids) for tokens in shown.texts]
    each = len(lengths) // options.batch

    def logits_of(split: Split, chosen: npt.NDArray[np.int64]) -> torch.Tensor:
        batch = pad([split.texts[i].ids for i in chosen], special)
        found: torch.Tensor = model(
            input_ids=torch.from_numpy(batch.ids).to(device),
            attention_mask=torch.from_numpy(batch.mask).to(device),
        ).logits
        return found

    def loss(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        epoch, index = divmod(step, each)
        chosen = epoch_batches(lengths, options.batch, seed=options.seed, epoch=epoch)[index]
        logits = logits_of(shown, chosen).float()
        right = np.full(logits.shape[:2], IGNORED, np.int64)
        for row, i in enumerate(chosen):
            right[row, : lengths[i]] = shown.classes[i]
        wanted = torch.from_numpy(right).to(device).flatten()
        return functional.cross_entropy(logits.flatten(0, 1), wanted), {}

    @torch.no_grad()
    def measured(name: str) -> dict[str, float]:
        model.eval()
        split = splits[name]
        found: list[npt.NDArray[np.float64]] = [np.empty(0)] * len(split.texts)
        sizes = [len(tokens.ids) for tokens in split.texts]
        for chosen in by_length(sizes, BATCH):
            logits = logits_of(split, chosen).double().cpu().numpy()
            for i, rows in zip(chosen, logits):
                found[i] = rows[: sizes[i]]
        return figures(found, split.classes, names)

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
        arguments={**recorded(options), "texts": sum(lengths)},
        description="tagger",
    )
    metrics = {name: measured(name) for name in ("validation", "test") if name in splits}
    save_checkpoint(model, tokenizer, options.out)
    if options.splits is not None:
        for name, several in reviews.items():
            write_texts(options.splits / f"{name}.jsonl", several, names)
    for name, values in metrics.items():
        f1 = f", micro F1 of the entities {values['f1']:.2f} %" if "f1" in values else ""
        print(f"{name}: words right {values['accuracy']:.2f} %, loss {values['loss']:.4f}{f1}")
    finish(options, {"metrics": metrics, **dataclasses.asdict(outcome)})
    print(f"{options.out}: written after {outcome.seconds:.0f} s of training")


def _model(options: argparse.Namespace, names: Sequence[str]) -> BertForTokenClassification:
    """The encoder of --model with a classifier that is drawn anew."""
    torch.manual_seed(options.seed)
    model: BertForTokenClassification = BertForTokenClassification.from_pretrained(
        options.model,
        num_labels=len(names),
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
        ignore_mismatched_sizes=True,
        use_safetensors=True,
        dtype=torch.float32,
    )
    model.config.problem_type = None
    torch.nn.init.normal_(model.classifier.weight, std=model.config.initializer_range)
    torch.nn.init.zeros_(model.classifier.bias)
    return model


def figures(
    logits: Sequence[npt.NDArray[np.float64]],
    classes: Sequence[npt.NDArray[np.int64]],
    names: Sequence[str],
) -> dict[str, float]:
    """Words with the right class in percent, their mean loss in nats, F1 of entities in percent."""
    kept = [rows[right != IGNORED] for rows, right in zip(logits, classes)]
    right = [found[found != IGNORED] for found in classes]
    rows, wanted = np.concatenate(kept), np.concatenate(right)
    losses = np.logaddexp.reduce(rows, axis=1) - rows[np.arange(len(rows)), wanted]
    found = {
        "accuracy": 100 * float((rows.argmax(1) == wanted).mean()),
        "loss": float(losses.mean()),
    }
    if tagged(names):
        said = [[names[one] for one in part.argmax(1)] for part in kept]
        f1 = scores([[names[one] for one in part] for part in right], said)["f1"]
        found["f1"] = 100 * (f1 or 0.0)
    return found


def write_texts(path: Path, reviews: Sequence[Review], names: Sequence[str]) -> None:
    """A file that `quant.evaluate` reads."""

    def row(review: Review) -> dict[str, Any]:
        tags = [None if tag is None else names[tag] for tag in review.tags]
        return {"tokens": list(review.words or ()), "ner_tags": tags}

    lines = [json.dumps(row(review), ensure_ascii=False) for review in reviews]
    files.write(path, ("\n".join(lines) + "\n").encode())


def _parser() -> Parser:
    result = Parser("train.tagger", "Fine-tune a BERT that gives every word a class.", EXAMPLES)
    result.add_argument(
        "--model", type=Path, default=MODEL, metavar="DIR", help=f"start from it (default: {MODEL})"
    )
    data = result.add_argument_group("texts")
    data.add_argument(
        "--data", default=REVIEWS, metavar="FILE",
        help=f"to train on (default: {REVIEWS}, the names in sentences of IMDB)",
    )  # fmt: skip
    data.add_argument("--validation", metavar="FILE", help="to select by, needed with --data FILE")
    data.add_argument("--test", metavar="FILE", help="to measure on")
    data.add_argument("--names", metavar="A,B,...", help="of the tags, with --data FILE")
    data.add_argument("--splits", type=Path, metavar="DIR", help="write the splits there as .jsonl")
    add_columns(result)
    recipe = result.add_argument_group("recipe")
    recipe.add_argument("--steps", type=positive, default=1200, help="(%(default)s)")
    recipe.add_argument("--length", type=positive, default=128, help="tokens (%(default)s)")
    add_common(result, recipe, name="tagger", rate=5e-4, batch=32, average=0.99, patience=0)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
