"""NB-SVM against its definition and on real reviews."""

import numpy as np
import pytest

from quant.texts.corpora import imdb
from train.teacher import NbSvm, ngrams, train_nb_svm
from train.tokens import default_vocabulary, encode, load_tokenizer


def test_ngrams_are_tokens_bigrams_and_bigrams_with_a_gap():
    found = ngrams(np.array([101, 3, 1, 2, 3, 1, 102], np.int32), 200)

    def bigram(a, b):
        return (a + 1) * 200 + b

    gap = 200 * 200 + 200
    expected = [1, 2, 3, bigram(3, 1), bigram(1, 2), bigram(2, 3)]
    expected += [gap + bigram(3, 2), gap + bigram(1, 3), gap + bigram(2, 1)]
    assert found.tolist() == sorted(expected)


def test_keys_of_different_ngrams_differ():
    vocabulary = 7
    keys = {
        key
        for a in range(vocabulary)
        for b in range(vocabulary)
        for c in range(vocabulary)
        for key in ngrams(np.array([5, a, b, c, 6], np.int32), vocabulary).tolist()
    }
    assert len(keys) == vocabulary + 2 * vocabulary**2


@pytest.fixture(scope="module")
def reviews():
    tokenizer = load_tokenizer(default_vocabulary())
    chosen = imdb("train")[:1500]
    texts = encode([review.text for review in chosen], tokenizer, "reviews")
    return texts, np.array([review.label for review in chosen])


@pytest.mark.slow
def test_it_tells_good_reviews_from_bad_and_survives_its_file(reviews, tmp_path):
    texts, labels = reviews
    machine = train_nb_svm(texts[:1000], labels[:1000], classes=2, vocabulary=30522)
    logits = machine(texts[1000:])
    assert (logits.argmax(1) == labels[1000:]).mean() > 0.8
    np.testing.assert_allclose(logits[:, 0], -logits[:, 1], rtol=1e-4, atol=1e-4)
    machine.save(tmp_path / "machine.safetensors")
    again = train_nb_svm(texts[:1000], labels[:1000], classes=2, vocabulary=30522)
    np.testing.assert_array_equal(again(texts[1000:]), logits)
    loaded = NbSvm.load(tmp_path / "machine.safetensors", 30522)
    np.testing.assert_array_equal(loaded(texts[1000:]), logits)


def test_more_classes_are_one_against_the_rest(reviews):
    texts, labels = reviews
    lengths = np.array([len(ids) for ids in texts])
    classes = np.where(lengths > np.median(lengths), 2, labels)
    machine = train_nb_svm(texts, classes, classes=3, vocabulary=30522)
    assert (machine(texts).argmax(1) == classes).mean() > 0.9
