"""Numba's compiler with a cache that cannot be out of date, where it can be written.

Numba keeps the code of a function by the content of its own file, and takes tables of other
modules and functions of other files into it. Here a change of any source of the package counts.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import config, njit

ROOT = Path(__file__).resolve().parents[2]
# As everything that is generated, but for a folder that is Numba's own setting.
CACHE = ROOT / (os.environ.get("BERT2RTL_BUILD") or "build") / "numba"
CACHE /= os.environ.get("NUMBA_CACHE_DIR") or ""


def compiler(package: Path, **options: Any) -> Callable[..., Any]:
    """``njit(**options)``, its results kept for the next process.

    package
        The folder whose sources a compiled function may use.

    Where nothing can be written, functions are compiled in each process.
    """
    place = CACHE / digest_of(package)
    decorate = njit(cache=_can_be_written(place), **options)

    def compiled(function: Callable[..., Any]) -> Any:
        before, config.CACHE_DIR = config.CACHE_DIR, str(place)
        try:
            return decorate(function)
        finally:
            config.CACHE_DIR = before

    return compiled


def digest_of(package: Path) -> str:
    """The digest of a package's sources by content, as they are imported."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{package.name}-{digest.hexdigest()[:16]}"


def _can_be_written(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError:
        return False
    return True
