"""Units made from sources of rtl/ in which pieces of text are replaced."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from rtl.config import Config

RTL = Path(__file__).resolve().parents[2] / "rtl"


@contextmanager
def replaced(file: str, *pieces: tuple[str, str]) -> Iterator[ModuleType]:
    """The module rtl.<file> with each old text, which stands there once, replaced by the new one.

    Inside, all modules of rtl/ are imported afresh; afterwards the sound ones are back.
    """
    path = RTL / f"{file}.py"
    source = path.read_text()
    for old, new in pieces:
        assert source.count(old) == 1, f"{old!r} does not stand once in {path}"
        source = source.replace(old, new)
    sound = {name: module for name, module in sys.modules.items() if name.startswith("rtl.")}
    for name in sound:
        del sys.modules[name]
    try:
        module = sys.modules[f"rtl.{file}"] = ModuleType(f"rtl.{file}")
        exec(compile(source, path, "exec"), vars(module))
        yield module
    finally:
        for name in [name for name in sys.modules if name.startswith("rtl.")]:
            del sys.modules[name]
        sys.modules.update(sound)


def mutated(file: str, *pieces: tuple[str, str], unit: str, config: Config) -> Any:
    """The unit of that name in rtl/units.py, with pieces of rtl/<file>.py replaced."""
    with replaced(file, *pieces):
        return import_module("rtl.units").unit(unit).build(config)
