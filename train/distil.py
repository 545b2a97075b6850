"""The loss of fine-tuning: labels, and what teachers say of the very window that is shown."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from cli.progress import stage

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from train.batches import drop_words, epoch_batches, pad, window
from train.checkpoint import Classifier, checkpoint_tokenizer, load_classifier
from train.data import Split
from train.failure import TrainError
from train.model import logits_of
from train.stages import Timetable
from train.teacher import CheckpointTeacher, NbSvm, train_nb_svm
from train.tokens import CheckpointTokenizer, SpecialTokens, special_tokens

Teacher = NbSvm | CheckpointTeacher

NONE = "none"
NB_SVM = "nb-svm"


class DistillationLoss:
    """The loss of a step: its batch, the student's logits, and labels and teachers to compare with.

    loss = (1 - a) * cross entropy(label, smoothed) + a * T^2 * KL(p || student / T)
    with a = --teacher-weight, T = --temperature and p the mean of the teachers' probabilities at
    logits / T (Hinton et al., 2015); they see the same window of the text, without dropped words.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        model: Classifier,
        data: Split,
        timetable: Timetable,
        teachers: Sequence[Teacher],
        special: SpecialTokens,
        device: str,
    ) -> None:
        self.options = options
        self.model = model
        self.data = data
        self.timetable = timetable
        self.teachers = teachers
        self.special = special
        self.device = device
        self.epoch = -1
        self.batches: list[npt.NDArray[np.int64]] = []

    def __call__(self, step: int) -> tuple[torch.Tensor, dict[str, float]]:
        options, at = self.options, self.timetable.at(step)
        if at.epoch != self.epoch:
            lengths = [min(len(ids), at.length) for ids in self.data.texts]
            self.batches = epoch_batches(lengths, options.batch, seed=options.seed, epoch=at.epoch)
            self.epoch = at.epoch
        indices = self.batches[at.index]
        rng = np.random.default_rng((options.seed, at.epoch, at.index))
        shown = [window(self.data.texts[i], at.length, self.special, rng) for i in indices]
        dropped = [drop_words(ids, options.word_dropout, self.special, rng) for ids in shown]
        logits = logits_of(self.model, pad(dropped, self.special), self.device).float()
        labels = torch.from_numpy(self.data.labels[indices]).to(self.device)
        loss = functional.cross_entropy(logits, labels, label_smoothing=options.label_smoothing)
        hits = {"accuracy": 100 * (logits.argmax(1) == labels).float().mean().item()}
        if not self.teachers:
            return loss, hits
        temperature, weight = options.temperature, at.teacher_weight(options.teacher_weight)
        distance = functional.kl_div(
            functional.log_softmax(logits / temperature, 1),
            self._taught(shown),
            reduction="batchmean",
            log_target=True,
        )
        return (1 - weight) * loss + weight * temperature**2 * distance, hits

    def _taught(self, shown: Sequence[npt.NDArray[np.int32]]) -> torch.Tensor:
        """Logarithms of the teachers' mean probabilities [texts, labels]."""
        said = [
            functional.log_softmax(
                torch.from_numpy(teacher(shown)).to(self.device) / self.options.temperature, 1
            )
            for teacher in self.teachers
        ]
        if len(said) == 1:
            return said[0]
        return torch.logsumexp(torch.stack(said), 0) - math.log(len(said))


def make_teacher(
    name: str,
    seed: int,
    data: Split,
    labels: list[str],
    tokenizer: CheckpointTokenizer,
    work: Path,
    device: str,
) -> Teacher:
    """The teacher that one --teacher names; an NB-SVM is trained here, and kept in ``work``."""
    vocabulary = len(tokenizer)
    if name != NB_SVM:
        teacher = load_classifier(Path(name), labels, dropout=0.0, attention_dropout=0.0, seed=seed)
        if checkpoint_tokenizer(Path(name)).get_vocab() != tokenizer.get_vocab():
            raise TrainError(
                f"{name} reads {teacher.config.vocab_size:,} tokens, the student {vocabulary:,}, "
                "and not the same: a teacher needs the same vocabulary"
            )
        return CheckpointTeacher(teacher, special_tokens(tokenizer), device)
    path = work / "nb-svm.safetensors"
    if path.exists():
        return NbSvm.load(path, vocabulary)
    stage(f"the linear teacher: n-grams of {len(data.texts):,} texts")
    machine = train_nb_svm(data.texts, data.labels, classes=len(labels), vocabulary=vocabulary)
    machine.save(path)
    return machine
