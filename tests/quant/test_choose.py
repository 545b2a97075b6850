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
def test_what_takes_a_fifth_of_the_error_is_taken(errors, others, taken):
    assert choose(NAMES, lambda names: errors.get(names, others))[0] == taken


@pytest.mark.parametrize(
    ("shares", "taken", "tried"),
    [
        ({"a": 0.7, "b": -0.1, "c": 0.1}, ("a", "c"), 5),  # what does harm is left out
        ({"a": 0.6, "b": -0.07, "c": 0.01}, NAMES, 5),  # what makes little difference stays
    ],
)
def test_each_is_left_out_by_what_it_does(shares: dict, taken: tuple, tried: int) -> None:
    chosen, trials = choose(NAMES, lambda names: 1 - sum(shares[name] for name in names))
    assert chosen == taken
    assert (trials[()], ("a",) in trials, len(trials)) == (1, taken != NAMES, tried)


def test_each_combination_is_tried_once() -> None:
    seen = []

    def error(names: tuple[str, ...]) -> float:
        seen.append(names)
        return 0.5 ** len(names) if len(names) < 3 else 0.4

    assert choose(NAMES, error)[0] == ("b", "c")
    assert len(seen) == len(set(seen))
