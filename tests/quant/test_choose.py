from math import inf

import pytest

from quant.quantize.options import choose

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("every", [0.81, 1.0, 2.0, inf])
def test_what_takes_less_than_a_fifth_of_the_error_is_not_taken(every: float) -> None:
    errors = {(): 1.0, NAMES: every}
    assert choose(NAMES, errors.__getitem__) == ((), errors)


def test_what_takes_a_fifth_of_the_error_is_taken() -> None:
    """All together with a fifth less than none; without b a fifth less again."""
    errors = {(): 1.0, NAMES: 0.8, ("a", "c"): 0.64}
    assert choose(NAMES, lambda names: errors.get(names, 0.7))[0] == ("a", "c")


def test_what_is_left_of_no_error_is_not_better() -> None:
    assert choose(NAMES, lambda names: 0.0) == ((), {(): 0.0, NAMES: 0.0})


def test_some_are_taken_where_neither_none_nor_all_can_be() -> None:
    errors = {("a", "c"): 0.5, ("c",): 0.45}
    assert choose(NAMES, lambda names: errors.get(names, inf))[0] == ("a", "c")


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
