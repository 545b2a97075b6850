"""How a command ends, run in the test's own process."""

from collections.abc import Callable


def exit_code(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """What the shell would see; the parser of options leaves by SystemExit instead."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
