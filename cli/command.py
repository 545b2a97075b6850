"""How a command ends: one line on stderr and one exit code for each kind of mistake.

A command imports this module before anything that has to be installed: from then on a package that
is missing, or Ctrl-C while the packages load, is also one line.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, cast

from cli import journey
from cli.errors import Different, ToolError, UserError
from cli.extras import how
from cli.files import streams
from cli.machine import check_machine, clean, elsewhere, find_places, open_streams


class Exit(IntEnum):
    """Exit codes; argparse's own errors end with REFUSED too.

    OK           done, and every check held.
    DIFFERENT    a comparison found a difference, or a stated bound does not hold.
    REFUSED      an input (option, file, text, model, configuration) cannot be used.
    FAILED       a tool or package is missing, or failed on its own.
    INTERRUPTED  Ctrl-C; 128 + SIGINT, as shells report it.
    """

    OK = 0
    DIFFERENT = 1
    REFUSED = 2
    FAILED = 3
    INTERRUPTED = 130


def run_command(main: Callable[[], int | None]) -> int:
    """The exit code of a command whose body is `main`; errors become one line on stderr.

    `main` parses the options as well, so that what argparse prints is under the same rule. When a
    reader of the output goes away (`| head`) the printing ends, not the work: the exit code is that
    of a whole run.
    """
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper):  # a terminal without the characters of a review
        output.reconfigure(errors="backslashreplace")
    sys.stdout = cast(TextIO, _Output(output))
    try:
        try:
            with streams():
                code = main()
        finally:
            sys.stdout.flush()
        return Exit.OK if code is None else code
    except (Exception, KeyboardInterrupt) as error:
        answer = _answer(error)
        if answer is None:
            raise
        return _say(*answer)
    finally:
        sys.stdout = output


def _answer(error: BaseException) -> tuple[str, Exit] | None:
    """The line and the code of an error; None for a mistake of the program itself."""
    match error:
        case KeyboardInterrupt():
            return str(error) or "interrupted: nothing was written", Exit.INTERRUPTED
        case Different():
            return f"error: {error}", Exit.DIFFERENT
        case ToolError():
            return f"error: {error}", Exit.FAILED
        case ModuleNotFoundError() if do := how((error.name or "").replace("-", "_")):
            return f"error: the package {error.name} is not installed: {do}", Exit.FAILED
        case UserError():
            return f"error: {_one_line(str(error))}", Exit.REFUSED
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            return f"error: {place}{error.strerror or error}{_elsewhere(error)}", Exit.REFUSED
        case MemoryError():
            return f"error: not enough memory: {_one_line(str(error))}".rstrip(": "), Exit.FAILED
    return None


def _elsewhere(error: OSError) -> str:
    """What to do where a generated file cannot be written; "" for other errors."""
    unwritable = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC)
    name = error.filename
    return elsewhere(name) if isinstance(name, str | Path) and error.errno in unwritable else ""


def _one_line(message: str) -> str:
    return " ".join(line.strip() for line in message.splitlines() if line.strip())


def _say(message: str, code: Exit) -> Exit:
    print(journey.spoken(message), file=sys.stderr)
    return code


class _Output:
    """Standard output that goes nowhere once its reader has left."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except BrokenPipeError:
            self._close()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._close()

    def _close(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def _is_ours() -> bool:
    """Whether the running program is a command of this project (`python -m quant.report`)."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    origin = getattr(spec, "origin", None) or ""
    return origin.startswith(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """What `run_command` is too late for: errors while the modules of a command are imported."""
    answer = _answer(error) if isinstance(error, KeyboardInterrupt | ModuleNotFoundError) else None
    if answer is None:
        sys.__excepthook__(kind, error, traceback)
        return
    raise SystemExit(_say(*answer))


open_streams()
find_places()
if _is_ours():
    sys.excepthook = _uncaught
    clean(os.environ)
    try:
        check_machine()
    except UserError as error:
        raise SystemExit(_say(f"error: {error}", Exit.REFUSED)) from None
