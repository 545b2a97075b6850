from math import inf

import pytest

from quant.quantize.options import choose

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("every", [0.81, 1.0, 2.0, inf])
def test_what_takes_less_than_a_fifth_of_the_error_is_not_taken(every: float) -> None:
    errors = {(): 1.0, NAMES: every}
    assert choose(NAMES, errors.__getitem__) == ((), errors)


@pytest.mark.parametrize(
    ("errors", "others", "taken"),
    [
        ({(): 1.0, NAMES: 0.8, ("a", "c"): 0.64}, 0.7, ("a", "c")),  # a fifth less each time
        ({("a", "c"): 0.5, ("c",): 0.45}, inf, ("a", "c")),  # neither none nor all can be
        ({}, 0.0, ()),  # what is left of no error is not better
    ],
)
def test_what_takes_a_fifth_of_the_error_is_taken(
    errors: dict, others: float, taken: tuple
) -> None:
    assert choose(NAMES, lambda names: errors.get(names, others))[0] == taken


def test_what_does_harm_is_left_out() -> None:
    def error(names: tuple[str, ...]) -> float:
        return 1.0 - 0.7 * ("a" in names) + 0.1 * ("b" in names) - 0.1 * ("c" in names)

    chosen, trials = choose(NAMES, error)
    assert chosen == ("a", "c")
    assert trials[()] == 1.0
    assert ("a",) in trials  # c was tried without b, and is missed
    assert len(trials) == 5


def test_what_makes_little_difference_stays() -> None:
    def error(names: tuple[str, ...]) -> float:
        return 1.0 - 0.6 * ("a" in names) + 0.07 * ("b" in names) - 0.01 * ("c" in names)

    assert choose(NAMES, error)[0] == NAMES


def test_each_combination_is_tried_once() -> None:
    seen = []

    def error(names: tuple[str, ...]) -> float:
        seen.append(names)
        return 0.5 ** len(names) if len(names) < 3 else 0.4

    assert choose(NAMES, error)[0] == ("b", "c")
    assert len(seen) == len(set(seen))
