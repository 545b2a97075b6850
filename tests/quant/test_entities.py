"""Entities in tags, by hand as conlleval of CoNLL-2000 and seqeval read them."""

import pytest

from quant.measure.entities import entities, scores, tagged


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O", []),
        ("B-A I-A O", [("A", 0, 1)]),
        ("B-A B-A", [("A", 0, 0), ("A", 1, 1)]),
        ("B-A I-B", [("A", 0, 0), ("B", 1, 1)]),
        ("O I-A I-A", [("A", 1, 2)]),
        ("I-A O I-A", [("A", 0, 0), ("A", 2, 2)]),
        ("B-A I-A E-A S-B B-B E-B", [("A", 0, 2), ("B", 3, 3), ("B", 4, 5)]),
        ("B-A E-A I-A", [("A", 0, 1), ("A", 2, 2)]),
        ("U-A U-A B-C L-C", [("A", 0, 0), ("A", 1, 1), ("C", 2, 3)]),
        ("I-A S-A I-A", [("A", 0, 0), ("A", 1, 1), ("A", 2, 2)]),
        ("B-two-parts I-two-parts", [("two-parts", 0, 1)]),
        ("", []),
    ],
)
def test_entities(tags: str, found: list) -> None:
    assert entities(tags.split()) == found


def test_scores_by_hand() -> None:
    """Of 4 entities 2 are found; one is too long, one of another type, and one is made up."""
    right = ["B-A I-A O B-B", "B-A O B-B O"]
    said = ["B-A I-A O B-B", "B-A I-A B-A B-A"]
    found = scores([row.split() for row in right], [row.split() for row in said])
    assert found == {
        "entities": 4,
        "precision": 2 / 5,
        "recall": 2 / 4,
        "f1": 4 / 9,
        "f1_by_type": {"A": 2 / 6, "B": 2 / 3},
    }


def test_the_same_words_of_another_text_are_not_found() -> None:
    found = scores([["B-A"], ["O"]], [["O"], ["B-A"]])
    assert (found["precision"], found["recall"], found["f1"]) == (0, 0, 0)


def test_without_entities_nothing_is_defined() -> None:
    found = scores([["O"]], [["O"]])
    assert found == {"entities": 0, "precision": None, "recall": None, "f1": None, "f1_by_type": {}}


@pytest.mark.parametrize(
    ("names", "are"),
    [
        (["O", "B-A", "I-A"], True),
        (["B-A", "I-A"], True),
        (["O", "S-A", "E-A", "U-B", "L-B"], True),
        (["O"], False),
        (["NN", "VB"], False),
        (["O", "A"], False),
        (["O", "B-"], False),
    ],
)
def test_which_names_are_tags(names: list[str], are: bool) -> None:
    assert tagged(names) is are
