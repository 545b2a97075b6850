"""How a command ends, run in the test's own process."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest


def exit_code(main: Callable[[list[str]], int], arguments: Iterable[object]) -> int:
    """What the shell would see; the parser of options leaves by SystemExit instead."""
    try:
        return main(list(map(str, arguments)))
    except SystemExit as stop:
        return int(stop.code or 0)


def figures(main: Callable[[list[str]], int], arguments: Iterable[object], file: Path) -> Any:
    """What a command that ends well writes with --json."""
    assert main([*map(str, arguments), "--json", str(file)]) == 0
    return json.loads(file.read_text())


def refusal(
    main: Callable[[list[str]], int],
    arguments: Iterable[object],
    capsys: pytest.CaptureFixture[str],
    code: int = 2,
    *,
    quiet: bool = True,
) -> str:
    """The one line that a command writes to stderr which ends with this code.

    quiet
        It has written nothing else before.
    """
    assert exit_code(main, arguments) == code
    shown, error = capsys.readouterr()
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not (quiet and shown)
    return error
