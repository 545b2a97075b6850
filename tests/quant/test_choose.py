from quant.choose import choose

NAMES = ("a", "b", "c")


def test_what_does_not_halve_the_error_is_not_taken() -> None:
    errors = {(): 1.0, NAMES: 0.51}
    assert choose(NAMES, errors.__getitem__) == ((), errors)


def test_what_adds_nothing_is_left_out() -> None:
    def error(names: tuple[str, ...]) -> float:
        return 1.0 - 0.6 * ("a" in names) + 0.1 * ("b" in names) - 0.1 * ("c" in names)

    chosen, trials = choose(NAMES, error)
    assert chosen == ("a", "c")
    assert trials[()] == 1.0
    assert ("a",) in trials  # c was tried without b, and is missed
    assert len(trials) == 5


def test_each_combination_is_tried_once() -> None:
    seen = []

    def error(names: tuple[str, ...]) -> float:
        seen.append(names)
        return float(not names)

    assert choose(NAMES, error)[0] == ("c",)  # any one is enough: the last that is left
    assert len(seen) == len(set(seen))
