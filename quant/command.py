"""What the commands of this package share: one-line errors, clean interruption, writing results."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sized
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

T = TypeVar("T")


def run(main: Callable[[], int]) -> int:
    """The exit code of a command: 0, 2 with one line for a refused input, 130 when interrupted."""
    try:
        return main()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"error: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130


def progress(items: Iterable[T], description: str, unit: str = "text") -> Iterable[T]:
    """The items, with a progress bar on a terminal."""
    total = len(items) if isinstance(items, Sized) else None
    return tqdm(items, desc=description, total=total, unit=unit, disable=None, leave=False)


def write(path: str | Path, data: bytes) -> None:
    """Write a file whole or not at all: under a temporary name, then renamed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    write(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
