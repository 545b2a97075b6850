"""Which epoch, batch and text length a training step has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from train.failure import TrainError

_EVALUATIONS = 24


@dataclass(frozen=True)
class Stage:
    """``epochs`` passes over the texts in windows of at most ``length`` tokens.

    ``weight`` replaces the teacher's weight in this stage, where given.
    """

    length: int
    epochs: int
    weight: float | None = None


@dataclass(frozen=True)
class Place:
    """A step of the timetable: batch ``index`` of ``epoch``, both from 0."""

    epoch: int
    index: int
    stage: Stage

    @property
    def length(self) -> int:
        return self.stage.length

    def teacher_weight(self, default: float) -> float:
        return default if self.stage.weight is None else self.stage.weight


class Timetable:
    """The steps of several stages over ``texts`` in batches of ``size``."""

    def __init__(self, stages: Sequence[Stage], texts: int, size: int) -> None:
        self.epochs = [stage for stage in stages for _ in range(stage.epochs)]
        self.batches = texts // size
        self.steps = self.batches * len(self.epochs)

    def at(self, step: int) -> Place:
        epoch, index = divmod(step, self.batches)
        return Place(epoch, index, self.epochs[epoch])

    def epoch_ends(self) -> tuple[int, ...]:
        """The number of steps after each epoch."""
        return tuple(self.batches * (epoch + 1) for epoch in range(len(self.epochs)))

    def evaluations(self) -> tuple[int, ...]:
        """The number of steps after each evaluation: ends of epochs, 24 in all at most."""
        ends = self.epoch_ends()
        every = math.ceil(len(ends) / _EVALUATIONS)
        return ends[::-1][::every][::-1]

    def describe(self, step: int) -> dict[str, Any]:
        """What a log shows of the epoch that ends with ``step`` steps done."""
        place = self.at(step - 1)
        return {"epoch": place.epoch + 1, "length": place.length}


def parse_stages(text: str) -> list[Stage]:
    """``"128:2,512:3"`` as stages; a third number is the teacher's weight: ``"128:2:0.9"``.

    Raises TrainError naming the part that is wrong.
    """
    stages = []
    for part in text.split(","):
        fields = part.split(":")
        try:
            stage = Stage(int(fields[0]), int(fields[1]), *map(float, fields[2:]))
        except (ValueError, IndexError, TypeError):
            stage = Stage(0, 0)
        if stage.length < 3 or stage.epochs < 1 or not 0 <= (stage.weight or 0) <= 1:
            raise TrainError(
                f"--stages {text!r}: {part!r} is no LENGTH:EPOCHS or LENGTH:EPOCHS:WEIGHT with "
                "LENGTH of 3 or more, EPOCHS of 1 or more and WEIGHT from 0 to 1"
            )
        stages.append(stage)
    return stages
