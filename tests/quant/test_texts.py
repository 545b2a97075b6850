"""The fixed splits of the corpora, and user files with everything that can be wrong in them."""

import hashlib

import pytest

from quant.texts import (
    CORPORA,
    SPLITS,
    Review,
    TextError,
    imdb,
    label_names,
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


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\n"Good, very",1\nBad,0\nWho knows,\n'),
        (
            "a.jsonl",
            '{"text": "Good, very", "label": 1}\n\n{"label": "0", "text": "Bad"}\n'
            '{"text": "Who knows"}\n',
        ),
    ],
)
def test_csv_and_jsonl(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    expected = [Review("Good, very", 1), Review("Bad", 0), Review("Who knows", None)]
    assert read_texts(tmp_path / name) == expected
    assert load_texts(str(tmp_path / name), "test") == expected


def test_plain_text_has_a_text_a_line_and_no_labels(tmp_path):
    (tmp_path / "a.txt").write_text("Good, very\n\n  Bad \n")
    assert read_texts(tmp_path / "a.txt") == [Review("Good, very", None), Review("Bad", None)]


def test_named_labels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,sport\ny,art\nz,1\n")
    assert label_names(path) == ["1", "art", "sport"]
    reviews = read_texts(path, names=["art", "sport"])
    assert [review.label for review in reviews] == [1, 0, 1]


def test_indices_as_labels_name_themselves(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nx,2\ny,0\n")
    assert label_names(tmp_path / "a.csv") == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"review,label\nx,1\n", r"a\.csv has no column 'text': its header is review, la"),
        ("a.csv", b"", r"a\.csv has no column 'text': its header is nothing"),
        ("a.csv", b"text,label\n", r"a\.csv holds no text"),
        ("a.csv", b"text,label\nx,1\n ,0\n", r"a\.csv:3: 'text' is empty"),
        ("a.csv", b"text,label\nx,good\n", r"a\.csv:2: 'label' is 'good', not an index from 0"),
        ("a.csv", b"text,label\nx,-1\n", r"a\.csv:2: 'label' is '-1', not an index from 0"),
        ("a.csv", b'text,label\n"x,1\n', r"a\.csv:\d: not CSV: unexpected end of data"),
        ("a.csv", b"text,label\n\xff\xfe,1\n", r"a\.csv is not UTF-8 text: invalid start byte at"),
        ("a.jsonl", b'{"text": "x"}\n{"text"}\n', r"a\.jsonl:2: not JSON: "),
        ("a.jsonl", b"[1]\n", r"a\.jsonl:1: not a JSON object with a 'text' key"),
        ("a.jsonl", b'{"label": 1}\n', r"a\.jsonl:1: 'text' is missing, not a string"),
        ("a.jsonl", b'{"text": 5}\n', r"a\.jsonl:1: 'text' is 5, not a string"),
        ("a.jsonl", b'{"text": "x", "label": 1.5}\n', r"'label' is 1\.5, not an index from 0"),
        ("a.txt", b"\n \n", r"a\.txt holds no text"),
        ("a.pdf", b"x", r"a\.pdf: unknown kind of file, use \.csv, \.jsonl, \.txt"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_what_is_wrong(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TextError, match=message):
        read_texts(tmp_path / name)


def test_a_label_beyond_the_names(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nx,2\n")
    with pytest.raises(TextError, match=r"is 2: an index must be at least 0 below 2"):
        read_texts(tmp_path / "a.csv", names=["art", "sport"])


def test_a_missing_file(tmp_path):
    with pytest.raises(TextError, match=r"cannot read .*absent\.csv: No such file"):
        read_texts(tmp_path / "absent.csv")
    with pytest.raises(
        TextError, match=r"no data set or file named 'absent': give one of imdb, rot"
    ):
        load_texts("absent", "test")


def test_a_file_without_labels(tmp_path):
    (tmp_path / "a.csv").write_text("text\nx\n")
    with pytest.raises(TextError, match=r"has no labels: a 'label' column or key is needed"):
        label_names(tmp_path / "a.csv")
