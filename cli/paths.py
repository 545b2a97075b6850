"""Checks of paths that options name, made before any work is done.

Options say by their metavar what they take: FILE, DIR, DIR|FILE or NAME|FILE.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

from cli.errors import UserError
from cli.machine import elsewhere

WRITTEN = ("out", "work", "json", "html", "svg", "image", "splits", "coverage")
"""The options that name what is written; all others are read."""


def unreadable(path: Path, metavar: str) -> str:
    """Why a path cannot be read as the option asks; "" where the command has to find out."""
    if metavar == "NAME|FILE" and not path.exists() and (len(path.parts) > 1 or path.suffix):
        return f"no data set or file named {str(path)!r}"
    if not path.exists() and (path.is_symlink() or metavar in ("FILE", "DIR|FILE")):
        return f"{path} does not exist"
    if path.is_dir() and metavar == "FILE":
        return f"{path} is a folder: give a file"
    if path.is_file() and metavar == "DIR":
        return f"{path} is a file: give a folder"
    if path.exists() and not path.is_file() and not path.is_dir():
        return f"{path} is a pipe or a device: give a regular file or a folder"
    return ""


def unwritable(path: Path, metavar: str) -> str:
    """Why a path cannot be written as the option asks; "" where nothing speaks against it."""
    if path.is_dir() and metavar == "FILE":
        return f"{path} is a folder: give the name of a file"
    if path.exists() and not path.is_dir() and metavar == "DIR":
        return f"{path} is a file: give the name of a folder"
    above = next(each for each in (path, *path.absolute().parents) if each.exists())
    if above != path and not above.is_dir():
        return f"{path} cannot be made: {above} is no folder"
    if not os.access(above, os.W_OK):
        return f"{path} cannot be written: no permission for {above}{elsewhere(path)}"
    if above.is_dir() and not _takes_files(above):
        return f"{path} cannot be written: {above} takes no files: name another folder"
    return ""


def _takes_files(folder: Path) -> bool:
    try:
        TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def check_written(path: Path, metavar: str) -> None:
    """Refuse a path that cannot be written, where no option has named it."""
    if why := unwritable(path, metavar):
        raise UserError(why)
