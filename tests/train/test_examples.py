"""What a step sees: windows of texts, dropped words, blocks of masked words, and the teacher."""

import numpy as np
import pytest

from train.examples import NbSvm, Texts, Windows, figures, padded, window
from train.families import load_tokenizer
from train.training import blocks


def test_windows_are_pieces_of_the_text_and_prefer_its_ends():
    rng = np.random.default_rng(0)
    assert window(9, 9, rng).tolist() == list(range(9))
    assert window(9, 5).tolist() == [0, 1, 2, 3, 8]
    starts = []
    for _ in range(3000):
        piece = window(50, 20, rng)
        assert (len(piece), piece[0], piece[-1]) == (20, 0, 49)
        assert (np.diff(piece[1:-1]) == 1).all()
        starts.append(piece[1] - 1)
    assert set(starts) == set(range(31))
    assert 900 < starts.count(0) < 1150  # 31 of 91 choices
    assert 900 < starts.count(30) < 1150


@pytest.fixture
def tokenizer():
    return load_tokenizer("models/bert-tiny-imdb")


def test_training_draws_by_seed_and_epoch_and_the_teacher_sees_whole_windows(tokenizer):
    texts = Texts([("very good " * 500, 1)], "classification", tokenizer, 512)
    known = set(texts.ids[0].tolist())

    def teacher(ids):
        return np.array([(ids == 103).sum(), len(ids)])

    windows = Windows(texts, [128, 128, 512], 3, 1, 0.25, teacher)
    lengths, shown = [], []
    for epoch in (0, 1, 2, 0):
        windows.set_epoch(epoch)
        item = windows[0]
        lengths.append(len(item["input_ids"]))
        shown.append(item["input_ids"].tolist())
        assert item["teacher"].tolist() == [0, lengths[-1]]
        masked = item["input_ids"] == tokenizer.mask_token_id
        assert abs(masked.mean() - 0.25) < 0.15
        assert not masked[[0, -1]].any()
        assert {*item["input_ids"][~masked].tolist()} == known
    assert lengths == [128, 128, 512, 128]
    assert shown[0] == shown[3] != shown[1]


def test_words_have_the_tag_on_their_first_token(tokenizer):
    found = [(("unbelievableness", "is", "great"), (2, None, 1)), (("good",), (0,))]
    texts = Texts(found, "token-classification", tokenizer, 32)
    batch = padded([texts[0], texts[1]], 0)
    assert batch["attention_mask"].sum(1).tolist() == [len(texts.ids[0]), 3]
    first, second = batch["labels"].tolist()
    assert [tag for tag in first if tag != -100] == [2, 1]
    assert first[1] == 2
    assert second == [-100, 0] + [-100] * (len(first) - 2)


def test_blocks_hold_all_texts_between_the_special_tokens():
    wanted = [[1, 10, 11, 12, 2], [1, 13, 14, 15, 2], [1, 16, 17, 18, 2]]
    assert blocks(np.arange(10, 21), 5, (1, 2)).tolist() == wanted


def test_the_teacher_tells_classes_apart_by_order_too():
    """Of two classes with the same words in another order, and of three."""
    rng = np.random.default_rng(0)
    for classes, words in ((2, [[5, 6, 7], [7, 6, 5]]), (3, [[5, 6], [7, 8], [9, 10]])):
        labels = rng.integers(0, classes, 90)
        texts = [np.array([1, *words[label] * 3, 2], np.int32) for label in labels]
        teacher = NbSvm(texts, labels, classes)
        assert [int(teacher(text).argmax()) for text in texts] == labels.tolist()
        assert teacher(np.array([1, 3, 2], np.int32)).shape == (classes,)


def test_figures():
    logits, labels = np.array([[2.0, 1], [0, 1], [0, 1], [3, 1]]), np.array([0, 1, 0, 0])
    found = figures("classification", logits, labels)
    assert found["accuracy"] == 75
    assert found["f1"] == pytest.approx(100 * (0.8 + 2 / 3) / 2)
    assert found["confusion"] == [[66.67, 33.33], [0, 100]]
    tagged = figures("token-classification", logits[None], np.array([[0, -100, 1, 1]]))
    assert tagged["accuracy"] == pytest.approx(200 / 3)
    several = figures("multi-label", np.array([[1.0, -1], [1, 1]]), np.array([[1.0, 0], [0, 1]]))
    assert several["accuracy"] == 50
    numbers = np.array([[1.0, 2], [3, 4], [5, 9]])
    assert figures("regression", numbers, numbers)["accuracy"] == 100
    assert figures("regression", np.full((3, 2), [3, 5]), numbers)["accuracy"] == 0
