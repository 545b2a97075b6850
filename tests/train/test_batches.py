"""Batches, windows, the timetable and the learning rate."""

import numpy as np
import pytest

from train.batches import by_length, clip, drop_words, epoch_batches, pad, window
from train.failure import TrainError
from train.loop import Plan, learning_rate
from train.stages import Stage, Timetable, parse_stages
from train.tokens import SpecialTokens

SPECIAL = SpecialTokens(pad=0, cls=101, sep=102, mask=103)


def text(length):
    return np.array([101, *range(1000, 1000 + length - 2), 102], np.int32)


def test_an_epoch_shows_every_text_once_but_for_a_remainder():
    lengths = np.random.default_rng(0).integers(3, 200, 1003)
    batches = epoch_batches(lengths, 10, seed=1, epoch=0)
    shown = np.concatenate(batches)
    assert {len(batch) for batch in batches} == {10}
    assert len(shown) == len(set(shown.tolist())) == 1000
    again = epoch_batches(lengths, 10, seed=1, epoch=0)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again))
    other = epoch_batches(lengths, 10, seed=1, epoch=1)
    assert not all(np.array_equal(a, b) for a, b in zip(batches, other))


def test_batches_have_texts_of_alike_lengths():
    lengths = np.random.default_rng(0).integers(3, 512, 2000)
    batches = epoch_batches(lengths, 20, seed=0, epoch=0)
    padded = sum(20 * lengths[batch].max() for batch in batches)
    assert padded < 1.05 * lengths.sum()


def test_evaluation_sees_every_text():
    assert sorted(np.concatenate(list(by_length([5, 3, 9, 3, 7], 2)))) == [0, 1, 2, 3, 4]


def test_clip_keeps_the_beginning_and_the_special_tokens():
    assert clip(text(9), 9, SPECIAL).tolist() == text(9).tolist()
    assert clip(text(9), 5, SPECIAL).tolist() == [101, 1000, 1001, 1002, 102]


def test_windows_are_pieces_of_the_text_and_prefer_its_ends():
    rng = np.random.default_rng(0)
    starts = []
    for _ in range(3000):
        piece = window(text(50), 20, SPECIAL, rng)
        assert len(piece) == 20
        assert (piece[0], piece[-1]) == (101, 102)
        assert (np.diff(piece[1:-1]) == 1).all()
        starts.append(piece[1] - 1000)
    assert set(starts) == set(range(31))
    assert 900 < starts.count(0) < 1150  # 31 of 91 choices
    assert 900 < starts.count(30) < 1150


def test_dropped_words_are_masked_at_the_rate_asked_for():
    rng = np.random.default_rng(0)
    shown = drop_words(text(100002), 0.1, SPECIAL, rng)
    masked = shown == 103
    assert (shown[~masked] == text(100002)[~masked]).all()
    assert not masked[0]
    assert not masked[-1]
    assert abs(masked.sum() - 10000) < 5 * np.sqrt(9000)


def test_padding():
    batch = pad([text(3), text(5)], SPECIAL)
    assert batch.ids.tolist() == [[101, 1000, 102, 0, 0], [101, 1000, 1001, 1002, 102]]
    assert batch.mask.tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]


def test_the_rate_warms_up_and_decays_to_zero():
    plan = Plan(steps=10, warmup=4, rate=1.0)
    rates = [learning_rate(plan, step) for step in range(10)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_a_timetable():
    timetable = Timetable(parse_stages("8:2:0.5,16:1"), texts=70, size=32)
    assert (timetable.steps, timetable.epoch_ends()) == (6, (2, 4, 6))
    places = [timetable.at(step) for step in range(6)]
    assert [(p.epoch, p.index, p.length) for p in places] == [
        (0, 0, 8),
        (0, 1, 8),
        (1, 0, 8),
        (1, 1, 8),
        (2, 0, 16),
        (2, 1, 16),
    ]
    assert [places[0].teacher_weight(0.7), places[5].teacher_weight(0.7)] == [0.5, 0.7]
    assert parse_stages("8:2") == [Stage(8, 2)]


@pytest.mark.parametrize("wrong", ["", "8", "8:x", "2:1", "8:0", "8:1:2", "8:1:0.5:3", "8:1,"])
def test_a_wrong_stage_is_named(wrong):
    with pytest.raises(TrainError, match="is no LENGTH:EPOCHS or LENGTH:EPOCHS:WEIGHT"):
        parse_stages(wrong)
