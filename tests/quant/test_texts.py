"""The fixed splits of the corpora, and user files with everything that can be wrong in them."""

import hashlib

import pytest

from quant.texts.corpora import (
    CORPORA,
    SPLITS,
    TextError,
    imdb,
    load_texts,
    read_texts,
    rotten_tomatoes,
)

SIZES = {
    "imdb": {"train": 18902, "validation": 1000, "test": 5000},
    "rotten-tomatoes": {"train": 7030, "validation": 500, "test": 1000},
}


def plain(text):
    return " ".join(text.lower().split())


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_splits_have_their_sizes_and_are_balanced(corpus):
    for split in SPLITS:
        reviews = CORPORA[corpus](split)
        assert len(reviews) == SIZES[corpus][split]
        positive = sum(review.label for review in reviews)
        if split == "train":
            assert abs(positive - len(reviews) / 2) < 100  # duplicates are not balanced
        else:
            assert positive == len(reviews) / 2


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_no_text_occurs_twice_in_or_across_splits(corpus):
    texts = [plain(review.text) for split in SPLITS for review in CORPORA[corpus](split)]
    assert len(texts) == len(set(texts)) == sum(SIZES[corpus].values())


@pytest.mark.parametrize("corpus", CORPORA)
def test_a_prefix_of_a_split_is_a_balanced_sample(corpus):
    for split in SPLITS:
        positive = sum(review.label for review in CORPORA[corpus](split)[:256])
        assert 96 <= positive <= 160  # four standard deviations


def test_the_test_split_is_the_one_that_the_published_figures_are_for():
    digest = hashlib.sha256("\n".join(sorted(r.text for r in imdb("test"))).encode()).hexdigest()
    assert digest == "7b90ce7d2d5d8e677cec8d223ffb5e84e142ff9755e99d96e5a9875cc792dfce"
    digest = hashlib.sha256(
        "\n".join(sorted(r.text for r in rotten_tomatoes("test"))).encode()
    ).hexdigest()
    assert digest == "2e6312e5a71ac8c61de3a9b59206dc11f933cfadbe336286bcae8a555f5e123e"


def test_reviews_have_no_html_line_breaks():
    assert not any("<br" in review.text.lower() for review in imdb("test"))


def test_unknown_split():
    with pytest.raises(TextError, match=r"no split named 'dev': choose one of train, validation"):
        imdb("dev")


def test_a_missing_file(tmp_path):
    with pytest.raises(TextError, match=r"cannot read .*absent\.csv: No such file"):
        read_texts(tmp_path / "absent.csv")
    with pytest.raises(
        TextError, match=r"no data set or file named 'absent': give one of imdb, rot"
    ):
        load_texts("absent", "test")
