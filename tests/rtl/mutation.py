"""Units made from sources of rtl/ in which pieces of text are replaced."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from rtl.interface.config import Config

ROOT = Path(__file__).resolve().parents[2]


def source_of(part: str) -> tuple[Path, str]:
    """File and module name of the part of rtl/ whose file is <part>.py, in whatever room."""
    (path,) = (ROOT / "rtl").rglob(f"{part}.py")
    return path, ".".join(path.relative_to(ROOT).with_suffix("").parts)


def with_pieces(file: str, *pieces: tuple[str, str]) -> str:
    """The source <file>.py of rtl/, each old text, which stands there once, made the new one."""
    path, _ = source_of(file)
    source = path.read_text()
    for old, new in pieces:
        assert source.count(old) == 1, f"{old!r} does not stand once in {path}"
        source = source.replace(old, new)
    return source


@contextmanager
def replaced(file: str, *pieces: tuple[str, str]) -> Iterator[ModuleType]:
    """The module <file>.py of rtl/ with its pieces replaced, as by `with_pieces`.

    Inside, all modules of rtl/ are imported afresh; afterwards the sound ones are back.
    """
    path, name = source_of(file)
    source = with_pieces(file, *pieces)
    sound = {name: module for name, module in sys.modules.items() if name.startswith("rtl.")}
    for other in sound:
        del sys.modules[other]
    try:
        module = sys.modules[name] = ModuleType(name)
        exec(compile(source, path, "exec"), vars(module))
        yield module
    finally:
        for other in [other for other in sys.modules if other.startswith("rtl.")]:
            del sys.modules[other]
        sys.modules.update(sound)


def mutated(file: str, *pieces: tuple[str, str], unit: str, config: Config) -> Any:
    """The unit of that name in rtl/units.py, with pieces of <file>.py replaced."""
    with replaced(file, *pieces):
        return import_module("rtl.generate.units").unit(unit).build(config)
