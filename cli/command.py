"""How a command ends: one line on stderr and one exit code for each kind of mistake.

A command imports this module before anything that has to be installed, so that a missing package,
or Ctrl-C while packages load, is one line too.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from types import TracebackType

from cli import files, journey
from cli.errors import Different, ToolError, UserError
from cli.extras import how
from cli.machine import ROOT, check_machine, clean, elsewhere, find_places


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    DIFFERENT = 1  # a comparison found a difference, or a stated bound does not hold
    REFUSED = 2  # an input cannot be used; argparse's own errors end so, too
    FAILED = 3  # a tool or package is missing, or failed on its own
    INTERRUPTED = 130  # Ctrl-C; 128 + SIGINT, as shells report it


def run_command(main: Callable[[], int | None]) -> int:
    """The exit code of a command whose body, the parsing of options included, is `main`."""
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper):  # a terminal that lacks a character of a review
        output.reconfigure(errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
        return Exit.OK if code is None else code
    except (Exception, KeyboardInterrupt) as error:
        if (answer := _answer(error)) is None:
            raise
        return _say(*answer)
    finally:
        sys.stdout = output
        files.figures = None


def _answer(error: BaseException) -> tuple[str, Exit] | None:
    """The line and the code of an error; None for a mistake of the program itself."""
    match error:
        case KeyboardInterrupt():
            return str(error) or "interrupted: nothing was written", Exit.INTERRUPTED
        case Different():
            return f"error: {error}", Exit.DIFFERENT
        case ToolError():
            return f"error: {error}", Exit.FAILED
        case ModuleNotFoundError() if do := how(error.name or ""):
            return f"error: the package {error.name} is not installed: {do}", Exit.FAILED
        case UserError():
            return f"error: {error}", Exit.REFUSED
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to print has no reader
            return "error: what read the output has gone", Exit.FAILED
        case OSError(filename=name):
            unwritable = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC)
            hint = elsewhere(os.fsdecode(name)) if name and unwritable else ""
            place = f"{name}: " if name else ""
            return f"error: {place}{error.strerror or error}{hint}", Exit.REFUSED
        case MemoryError():
            return f"error: not enough memory: {error}".rstrip(": "), Exit.FAILED
    return None


def _say(message: str, code: Exit) -> Exit:
    print(journey.spoken(" ".join(message.split())), file=sys.stderr)
    return code


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """What `run_command` is too late for: errors while the modules of a command are imported."""
    answer = _answer(error) if isinstance(error, KeyboardInterrupt | ModuleNotFoundError) else None
    if answer is None:
        return sys.__excepthook__(kind, error, traceback)
    raise SystemExit(_say(*answer))


def _prepare() -> None:
    """Protect the process of a command; where another program imports us, it stays as it is."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None or spec.origin != f"{ROOT.joinpath(*spec.name.split('.'))}.py":
        return
    sys.excepthook = _uncaught
    find_places()
    clean(os.environ)
    try:
        check_machine()
    except UserError as error:
        raise SystemExit(_say(f"error: {error}", Exit.REFUSED)) from None


_prepare()
