"""The targets of train.heads: where texts come from, the loss, and the figures."""

import argparse
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from cli.progress import progress

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers import BertForTokenClassification, BertPreTrainedModel

from quant.foreign.tokenizer import TextTokenizer
from quant.measure.entities import scores, tagged
from quant.measure.metrics import determination, label_scores
from quant.model.spec import MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION
from quant.texts.corpora import CORPORA, imdb
from quant.texts.data_file import Review
from train.batches import Ids
from train.checkpoint import load_classifier
from train.tokens import CheckpointTokenizer, encode

Target = npt.NDArray[Any]

WORDS = 100  # counted of a text at most
SENTENCES = 2  # taken of a review at most
SHORTEST, LONGEST = 6, 60  # words of a sentence
IGNORED = -100  # functional.cross_entropy's

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_OPENING = frozenset("\"'“‘«(:;-*/")
_FIRST_PERSON = re.compile(r"I(['’]\w+)?")


class Head(Protocol):
    """A kind of outputs, and how a BERT learns them.

    Attributes:
        task: as quant.model.spec has it.
        names: of the outputs of the corpora.
        least: names that a file needs.
        useless: why a split of a file trains nothing, where `unusable` says so.
        right: what the accuracy counts.
    """

    task: str
    names: tuple[str, ...]
    least: int = 1
    useless: str
    right: str

    @abstractmethod
    def corpus(self, split: str) -> list[Review]:
        """The texts of a split of the corpora, with their targets."""

    @abstractmethod
    def unusable(self, reviews: Sequence[Review]) -> bool:
        """Whether the texts of a file lack targets."""

    @abstractmethod
    def row(self, review: Review, names: Sequence[str]) -> dict[str, Any]:
        """A line of a .jsonl file that `quant.evaluate` reads."""

    @abstractmethod
    def tokens(
        self, reviews: Sequence[Review], tokenizer: CheckpointTokenizer, options: argparse.Namespace
    ) -> tuple[list[Ids], list[Target]]:
        """The tokens of each text, and what is learned of it."""

    @abstractmethod
    def model(self, options: argparse.Namespace, names: Sequence[str]) -> BertPreTrainedModel:
        """The model of --model, with a classifier of so many outputs."""

    @abstractmethod
    def loss(self, logits: torch.Tensor, targets: Sequence[Target]) -> torch.Tensor:
        """Of a batch; [texts, outputs], or [texts, tokens, outputs] with padding."""

    @abstractmethod
    def figures(
        self,
        logits: Sequence[npt.NDArray[np.float64]],
        targets: Sequence[Target],
        names: Sequence[str],
    ) -> dict[str, float]:
        """At least accuracy in percent and loss; the logits are each text's."""

    def settle(self, targets: list[Target]) -> None:
        """Look at the targets of training before anything is learned."""

    def end(self, classifier: torch.nn.Linear) -> None:
        """Give the classifier the form that is written."""


class OfTexts(Head):
    """Outputs of a whole text, out of both corpora in turn."""

    useless = "a text has no target, or is a pair: neither trains"

    def __init__(self) -> None:
        self.mean, self.deviation = np.zeros(()), np.ones(())

    def corpus(self, split: str) -> list[Review]:
        """As many of each corpus as the smaller one has."""
        both = [
            [
                Review(review.text, None, None, self._targets(review, source == "imdb"))
                for review in CORPORA[source](split)
            ]
            for source in CORPORA
        ]
        return [review for pair in zip(*both) for review in pair]

    @abstractmethod
    def _targets(self, review: Review, whole: bool) -> tuple[float, float]:
        """Of a text of the corpora; `whole`: a review, not a sentence."""

    def unusable(self, reviews: Sequence[Review]) -> bool:
        return any(review.targets is None or review.pair is not None for review in reviews)

    def tokens(
        self, reviews: Sequence[Review], tokenizer: CheckpointTokenizer, options: argparse.Namespace
    ) -> tuple[list[Ids], list[Target]]:
        texts = encode([review.text for review in reviews], tokenizer, "tokens")
        return texts, [np.array(review.targets) for review in reviews]

    def model(self, options: argparse.Namespace, names: Sequence[str]) -> BertPreTrainedModel:
        model = load_classifier(
            options.model, names, dropout=0.1, attention_dropout=0.0, seed=options.seed
        )
        assert isinstance(model, BertPreTrainedModel)
        model.config.problem_type = {
            MULTI_LABEL: "multi_label_classification",
            REGRESSION: "regression",
        }[self.task]
        torch.manual_seed(options.seed)
        return model

    def wanted(self, targets: Sequence[Target]) -> Target:
        """What the logits are to be."""
        return (np.stack(targets) - self.mean) / self.deviation


class SeveralLabels(OfTexts):
    """Which of some labels hold."""

    task = MULTI_LABEL
    names = ("positive", "review")
    right = "every label right"

    def _targets(self, review: Review, whole: bool) -> tuple[float, float]:
        return float(review.label or 0), float(whole)

    def row(self, review: Review, names: Sequence[str]) -> dict[str, Any]:
        held = [name for name, there in zip(names, review.targets or ()) if there]
        return {"text": review.text, "label": held}

    def loss(self, logits: torch.Tensor, targets: Sequence[Target]) -> torch.Tensor:
        right = torch.from_numpy(self.wanted(targets)).float().to(logits.device)
        return functional.binary_cross_entropy_with_logits(logits, right)

    def figures(
        self,
        logits: Sequence[npt.NDArray[np.float64]],
        targets: Sequence[Target],
        names: Sequence[str],
    ) -> dict[str, float]:
        rows, right = np.stack(logits), self.wanted(targets)
        error = np.logaddexp(0, rows) - right * rows
        exact = label_scores(right > 0, rows > 0)["exact"]
        return {"accuracy": 100 * exact, "loss": float(error.mean())}


class Numbers(OfTexts):
    """Numbers, each learned in its own standard deviations."""

    task = REGRESSION
    names = ("sentiment", "words")
    right = "R^2"

    def _targets(self, review: Review, whole: bool) -> tuple[float, float]:
        return 2 * float(review.label or 0) - 1, float(min(WORDS, len(review.text.split())))

    def row(self, review: Review, names: Sequence[str]) -> dict[str, Any]:
        return {"text": review.text, "label": list(review.targets or ())}

    def settle(self, targets: list[Target]) -> None:
        found = np.stack(targets)
        self.mean, deviation = found.mean(axis=0), found.std(axis=0)
        self.deviation = np.where(deviation > 0, deviation, 1)

    def loss(self, logits: torch.Tensor, targets: Sequence[Target]) -> torch.Tensor:
        right = torch.from_numpy(self.wanted(targets)).float().to(logits.device)
        return functional.mse_loss(logits, right)

    def figures(
        self,
        logits: Sequence[npt.NDArray[np.float64]],
        targets: Sequence[Target],
        names: Sequence[str],
    ) -> dict[str, float]:
        rows, right = np.stack(logits), self.wanted(targets)
        accuracy = 100 * float(determination(rows, right).mean())
        return {"accuracy": accuracy, "loss": float(np.square(rows - right).mean())}

    @torch.no_grad()
    def end(self, classifier: torch.nn.Linear) -> None:
        """It gives the numbers in their units."""
        scale = torch.from_numpy(self.deviation).float().to(classifier.weight.device)
        mean = torch.from_numpy(self.mean).float().to(classifier.weight.device)
        classifier.weight *= scale[:, None]
        classifier.bias.copy_(classifier.bias * scale + mean)


class Words(Head):
    """A class of every word; of the corpora which words are names.

    There the tag is what an uncased model does not see: a word is one of a name where the reviewer
    wrote it with a capital inside a sentence. What begins a sentence or a quotation, or is written
    in capitals throughout, says nothing.
    """

    task = TOKEN_CLASSIFICATION
    names = ("O", "B-NAME", "I-NAME")
    least = 2
    useless = "no word has a tag: nothing can be learned of it"
    right = "words right"

    def corpus(self, split: str) -> list[Review]:
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

    def unusable(self, reviews: Sequence[Review]) -> bool:
        return not any(tag is not None for review in reviews for tag in review.tags)

    def row(self, review: Review, names: Sequence[str]) -> dict[str, Any]:
        tags = [None if tag is None else names[tag] for tag in review.tags]
        return {"tokens": list(review.words or ()), "ner_tags": tags}

    def tokens(
        self, reviews: Sequence[Review], tokenizer: CheckpointTokenizer, options: argparse.Namespace
    ) -> tuple[list[Ids], list[Target]]:
        """The class of each token: that of the word that begins there, or IGNORED."""
        splitting = TextTokenizer(options.model)
        texts: list[Ids] = []
        classes: list[Target] = []
        for review in progress(reviews, "splitting words"):
            tokens = splitting.encode(review.words or review.text, limit=options.length, words=True)
            found = np.full(len(tokens.ids), IGNORED, np.int64)
            tags = [IGNORED if tag is None else tag for tag in review.tags]
            found[tokens.first] = np.array(tags, np.int64)[tokens.kept]
            texts.append(tokens.ids)
            classes.append(found)
        return texts, classes

    def model(self, options: argparse.Namespace, names: Sequence[str]) -> BertPreTrainedModel:
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
        return model

    def loss(self, logits: torch.Tensor, targets: Sequence[Target]) -> torch.Tensor:
        right = np.full(logits.shape[:2], IGNORED, np.int64)
        for row, classes in enumerate(targets):
            right[row, : len(classes)] = classes
        wanted = torch.from_numpy(right).to(logits.device).flatten()
        return functional.cross_entropy(logits.flatten(0, 1), wanted)

    def figures(
        self,
        logits: Sequence[npt.NDArray[np.float64]],
        targets: Sequence[Target],
        names: Sequence[str],
    ) -> dict[str, float]:
        """With F1 of entities in percent where the names are of such."""
        kept = [rows[right != IGNORED] for rows, right in zip(logits, targets)]
        right = [found[found != IGNORED] for found in targets]
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


def names_of(words: Sequence[str]) -> tuple[int | None, ...]:
    """The tag of each word of a sentence, by its place in Words.names; None where the case says
    none."""
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


HEADS: dict[str, type[Head]] = {head.task: head for head in (SeveralLabels, Numbers, Words)}
