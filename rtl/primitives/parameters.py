"""The check of a component's constructor parameters: one message for all of them."""


def check(component: str, name: str, value: int, minimum: int, maximum: int) -> int:
    """Return value when minimum <= value <= maximum.

    Raises
    ------
    TypeError
        value is not an integer.
    ValueError
        value lies outside; the message names component, parameter, value and range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{component}: {name} is {value!r}: it must be an integer")
    if not minimum <= value <= maximum:
        raise ValueError(f"{component}: {name} is {value}: it must lie in {minimum}..{maximum}")
    return value
