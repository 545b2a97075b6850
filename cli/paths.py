"""Checks of paths that options name, made before any work is done.

Options say by their metavar what they take: FILE, DIR, DIR|FILE or NAME|FILE. Those called --out,
--work, --json, --html, --svg, --image, --coverage and --splits are written, all others are read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cli.errors import UserError
from cli.files import STANDARD_OUTPUT
from cli.machine import elsewhere

WRITTEN = ("out", "work", "json", "html", "svg", "image", "splits", "coverage")


def problem(option: str, metavar: str, value: str | Path) -> str:
    """Why the path cannot be what the option asks for; "" where nothing speaks against it.

    That a DIR or NAME|FILE to be read is missing is left to who reads it, and what kind DIR|FILE or
    NAME|FILE is: that is for the command to say.
    """
    if not str(value):
        return ""
    path = Path(value)
    if option == "json" and str(value) == STANDARD_OUTPUT:
        return ""
    if option in WRITTEN:
        return _unwritable(path, metavar)
    if path.is_symlink() and not path.exists():
        return f"{path} is a link to {os.readlink(path)}, which does not exist"
    above = _nearest(path)
    if above != path and above.is_file():
        return f"{path} does not exist: {above} is no folder"
    if metavar in ("FILE", "DIR|FILE") and not path.exists():
        return f"{path} does not exist"
    if metavar == "FILE" and path.is_dir():
        return f"{path} is a folder: give a file"
    if metavar == "DIR" and path.is_file():
        return f"{path} is a file: give a folder"
    return _special(path)


def _nearest(path: Path) -> Path:
    """The path itself, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _unwritable(path: Path, metavar: str) -> str:
    if path.is_dir() and metavar == "FILE":
        return f"{path} is a folder: give the name of a file"
    if path.exists() and not path.is_dir() and metavar == "DIR":
        return f"{path} is a file: give the name of a folder"
    above = _nearest(path)
    if above != path and not above.is_dir():
        return f"{path} cannot be made: {above} is no folder"
    if not os.access(above, os.W_OK):
        return f"{path} cannot be written: no permission for {above}{elsewhere(path)}"
    return ""


def check_written(path: Path, metavar: str) -> None:
    """Refuse a path that cannot be written, where no option has named it.

    Raises
    ------
    ValueError
        The reason is in its text.
    """
    if why := _unwritable(path, metavar):
        raise UserError(why)


def _special(path: Path) -> str:
    """A pipe without a writer would be waited for for ever, a device has no end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    return f"{path} is {kind}: give a regular file or a folder"
