"""How a command ends: one line on stderr and one exit code for each kind of mistake."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; argparse's own errors end with REFUSED too.

    OK           done, and every check held.
    DIFFERENT    a comparison found a difference, or a stated bound does not hold.
    REFUSED      an input (option, file, text, model, configuration) cannot be used.
    FAILED       a tool is missing, or failed on its own.
    INTERRUPTED  Ctrl-C; 128 + SIGINT, as shells report it.
    """

    OK = 0
    DIFFERENT = 1
    REFUSED = 2
    FAILED = 3
    INTERRUPTED = 130


class Different(Exception):
    """What was computed twice is not the same; the message names the first difference."""


class ToolError(Exception):
    """A tool is missing or failed; the message says which and what to do."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C with something to say: what was kept, and how to go on."""


def run(main: Callable[[], int | None]) -> int:
    """The exit code of a command whose body is `main`; errors become one line on stderr."""
    try:
        code = main()
        sys.stdout.flush()
        return Exit.OK if code is None else code
    except BrokenPipeError:
        # The reader (head, say) has what it wanted: nothing to report, and nothing left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Different as error:
        return _refuse(error, Exit.DIFFERENT)
    except ToolError as error:
        return _refuse(error, Exit.FAILED)
    except ValueError as error:
        return _refuse(error, Exit.REFUSED)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{place}{error.strerror or error}", Exit.REFUSED)
    except KeyboardInterrupt as stop:
        print(str(stop) or "interrupted: nothing was written", file=sys.stderr)
        return Exit.INTERRUPTED


def _refuse(error: object, code: Exit) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
