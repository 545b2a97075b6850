"""The fixed splits of the corpora."""

import hashlib

import pytest

from quant.images.data import load
from quant.model.spec import TEXTS
from quant.texts.corpora import CORPORA, SPLITS, TextError

SIZES = {
    "imdb": {"train": 18902, "validation": 1000, "test": 5000},
    "rotten-tomatoes": {"train": 7030, "validation": 500, "test": 1000},
}

PUBLISHED = {
    "imdb": "7b90ce7d2d5d8e677cec8d223ffb5e84e142ff9755e99d96e5a9875cc792dfce",
    "rotten-tomatoes": "2e6312e5a71ac8c61de3a9b59206dc11f933cfadbe336286bcae8a555f5e123e",
}


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_splits_have_their_sizes_are_balanced_and_share_no_text(corpus):
    splits = {split: CORPORA[corpus](split) for split in SPLITS}
    assert {split: len(reviews) for split, reviews in splits.items()} == SIZES[corpus]
    for split, reviews in splits.items():
        difference = abs(2 * sum(review.label for review in reviews) - len(reviews))
        assert difference < (200 if split == "train" else 1)  # duplicates are not balanced
    texts = {" ".join(r.text.lower().split()) for reviews in splits.values() for r in reviews}
    assert len(texts) == sum(SIZES[corpus].values())


@pytest.mark.parametrize("corpus", CORPORA)
def test_a_prefix_of_a_split_is_a_balanced_sample(corpus):
    for split in SPLITS:
        positive = sum(review.label for review in CORPORA[corpus](split)[:256])
        assert 96 <= positive <= 160  # four standard deviations


@pytest.mark.parametrize(("corpus", "digest"), PUBLISHED.items())
def test_the_test_split_is_the_one_that_the_published_figures_are_for(corpus, digest):
    texts = sorted(review.text for review in CORPORA[corpus]("test"))
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == digest


def test_what_is_not_there_is_refused():
    with pytest.raises(TextError, match="no data set or file named 'absent': give imdb, rotten"):
        load(TEXTS, "absent")


@pytest.mark.parametrize("names", [("bad", "so so", "good"), ("stars",)])
def test_labels_of_other_classes_are_left_out(names, capsys):
    found = load(TEXTS, "rotten-tomatoes", names=names)
    assert {review.label for review in found} == {None}
    assert "rotten-tomatoes are of 2 classes" in capsys.readouterr().err
    assert {review.label for review in load(TEXTS, "rotten-tomatoes", names="ab")} == {0, 1}
