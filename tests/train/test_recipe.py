"""The defaults that depend on the data, from their rules in the help."""

from argparse import Namespace

import pytest

from train.recipe import DEFAULTS, averaging, settle
from train.stages import Timetable, parse_stages


def settled(texts, positions=512, **given):
    options = Namespace(
        batch=32, **{"stages": None, "length": None, "patience": None, "average": None, **given}
    )
    settle(options, texts=texts, positions=positions)
    return options


@pytest.mark.parametrize(
    ("texts", "stages", "average"),
    [
        # 590 batches an epoch: seven epochs are 4,130 steps.
        (18902, "128:6:0.9,512:1:0.6", 0.9988),
        # 56: 400 / 56 and 100 / 56, rounded up; ten epochs are 560 steps.
        (1800, "128:8:0.9,512:2:0.6", 0.9911),
        # 14: 29 and 8 epochs, 518 steps.
        (450, "128:29:0.9,512:8:0.6", 0.9903),
    ],
)
def test_few_texts_are_seen_more_often(texts, stages, average):
    options = settled(texts)
    assert options.stages == stages
    assert options.average == average
    assert (options.length, options.patience) == (512, 8)


@pytest.mark.parametrize("texts", [32, 33, 100, 1000, 2143, 2144, 3200, 100000])
def test_no_stage_has_fewer_steps_than_the_help_says(texts):
    parsed = parse_stages(settled(texts).stages)
    batches = texts // 32
    assert [stage.length for stage in parsed] == [128, 512]
    for stage, epochs, steps in zip(parsed, (6, 1), (400, 100)):
        assert stage.epochs >= epochs
        assert stage.epochs * batches >= steps
        assert stage.epochs == epochs or (stage.epochs - 1) * batches < steps
    assert "6 epochs and 1" in DEFAULTS
    assert "less than 400 and 100 steps" in DEFAULTS


def test_what_is_given_is_kept():
    given = {"stages": "64:2", "length": 40, "patience": 0, "average": 0.0}
    options = settled(1000, **given)
    assert {name: getattr(options, name) for name in given} == given


def test_a_short_model_has_short_windows():
    options = settled(100000, positions=96)
    assert options.stages == "96:6:0.9,96:1:0.6"
    assert options.length == 96


def test_an_average_reaches_over_a_fifth_of_the_steps():
    for steps in (100, 1500, 5310, 60000):
        assert 1 / (1 - averaging(steps)) == pytest.approx(steps / 5, rel=0.2)
    assert averaging(4) == 0


def test_at_most_24_evaluations_and_the_last_step_is_one():
    for epochs in (1, 9, 24, 25, 48, 108):
        timetable = Timetable(parse_stages(f"8:{epochs}"), texts=70, size=32)
        evaluations = timetable.evaluations()
        assert set(evaluations) <= set(timetable.epoch_ends())
        assert evaluations[-1] == timetable.steps
        assert len(evaluations) <= 24
        assert len(evaluations) == epochs or epochs > 24
