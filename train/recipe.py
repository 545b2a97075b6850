"""The defaults of fine-tuning that depend on the data and the model."""

import argparse
import math

from train.stages import Timetable, parse_stages

_WINDOWS = (128, 512)  # tokens of the two stages
_EPOCHS = (6, 1)
_STEPS = (400, 100)
_TEACHER = (0.9, 0.6)
_AVERAGED = 5  # the average of the weights reaches over 1 / 5 of the steps
_PATIENCE = 8

DEFAULTS = (
    f"By default, stages of {_WINDOWS[0]} and {_WINDOWS[1]} tokens (or the model's positions, "
    f"where they are fewer) with {_EPOCHS[0]} epochs and {_EPOCHS[1]}, and more where the texts "
    f"are so few that these have less than {_STEPS[0]:,} and {_STEPS[1]:,} steps; the teacher "
    f"weighs {_TEACHER[0]} and {_TEACHER[1]}; the weights are averaged over the last "
    f"1 / {_AVERAGED} of the steps. The weights of the best of at most 24 evaluations are kept, "
    "by the validation accuracy and, where that is equal, the lower loss; after "
    f"{_PATIENCE} evaluations without a better one training stops."
)


def settle(options: argparse.Namespace, *, texts: int, positions: int) -> None:
    """Give --stages, --length, --average and --patience a value where they have none.

    ``texts`` to train on, in batches of --batch; ``positions`` of the model.
    """
    batches = texts // options.batch
    if options.stages is None:
        stages = []
        for window, epochs, steps, weight in zip(_WINDOWS, _EPOCHS, _STEPS, _TEACHER):
            epochs = max(epochs, math.ceil(steps / batches))
            stages.append(f"{min(window, positions)}:{epochs}:{weight}")
        options.stages = ",".join(stages)
    if options.length is None:
        options.length = min(_WINDOWS[-1], positions)
    if options.patience is None:
        options.patience = _PATIENCE
    if options.average is None:
        steps = Timetable(parse_stages(options.stages), texts, options.batch).steps
        options.average = averaging(steps)


def averaging(steps: int) -> float:
    """The decay per step of an average that reaches over a fifth of the steps."""
    return round(max(0.0, 1 - _AVERAGED / steps), 4)
