"""Where generated files go, and protection from the environment, for the standard library alone."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from cli.errors import UserError

VARIABLE = "BERT2RTL_BUILD"
ROOT = Path(__file__).resolve().parent.parent
IS_CLONE = (ROOT / "pyproject.toml").is_file()  # a wheel has its modules elsewhere


def writable(path: Path) -> bool:
    """Whether the path, or the nearest folder above it that exists, can be written."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK)


_named = os.environ.get(VARIABLE)
BUILD = (ROOT if IS_CLONE else Path.cwd()) / _named if _named else Path("build")
"""Where a command writes what --out does not name; golden/fast/compiled.py reads VARIABLE, too."""
_caches = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME") or "/", ".cache"))
_place = _caches if writable(_caches) else Path(tempfile.gettempdir())
GENERATED = ROOT / BUILD if IS_CLONE or _named else _place / "bert2rtl"
"""Builds, tools and caches, whatever the current folder is."""

_NAMES = """
GPI_EXTRA GPI_LOG_LEVEL GPI_USERS GUI LIBPYTHON_LOC PYGPI_ENTRY_POINT PYGPI_PYTHON_BIN PYGPI_USERS
TOPLEVEL_LANG WAVES PYTEST_ADDOPTS PYTEST_CURRENT_TEST PYTEST_PLUGINS PYTHONCASEOK PYTHONDEVMODE
PYTHONEXECUTABLE PYTHONHASHSEED PYTHONHOME PYTHONINSPECT PYTHONIOENCODING PYTHONOPTIMIZE PYTHONPATH
PYTHONPLATLIBDIR PYTHONSAFEPATH PYTHONSTARTUP PYTHONWARNINGS IVERILOG_DUMPER LXT_OPTIMIZE SYSTEMC
SYSTEMC_CXX_FLAGS SYSTEMC_INCLUDE SYSTEMC_LIBDIR VERILATOR_BIN VERILATOR_ROOT VERILATOR_SOLVER
VVP_EXTRA_ARGS YOWASP_MOUNT CFLAGS CPPFLAGS CXXFLAGS GNUMAKEFLAGS LDFLAGS LDLIBS LOADLIBES
MAKEFILES MAKEFLAGS MAKELEVEL MAKEOVERRIDES MFLAGS OBJCACHE OPT OPT_FAST OPT_GLOBAL OPT_SLOW
TARGET_ARCH USER_CPPFLAGS USER_LDFLAGS USER_LDLIBS VK_CPPFLAGS_ALWAYS VK_CPPFLAGS_WALL VK_OBJS
VM_DEFAULT_RULES VM_HIER_LIBS VM_PARALLEL_BUILDS VM_USER_LDFLAGS
"""
FOREIGN = frozenset(_NAMES.split())
"""Variables that would change what cocotb, Python, a simulator, make or the rules of verilated.mk
do. Where things are (PATH, HOME, LD_LIBRARY_PATH, CPATH, proxies) is the machine's to say."""


def clean(environment: MutableMapping[str, str]) -> None:
    """Remove what is FOREIGN and all settings of cocotb and of our programs but VARIABLE."""
    for name in set(environment) - {VARIABLE}:
        if name in FOREIGN or name.startswith(("BERT2RTL_", "COCOTB_")):
            del environment[name]


def find_places() -> None:
    """Give child processes a home and a cache, below GENERATED where need be."""
    home = Path(os.environ.get("HOME") or "/")
    if not os.access(home, os.W_OK | os.X_OK):
        os.environ["HOME"] = str(home := GENERATED / "home")
    if not writable(Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")):
        os.environ["XDG_CACHE_HOME"] = str(GENERATED / "home" / ".cache")


def elsewhere(path: str | Path) -> str:
    """What to do where a file of GENERATED cannot be written; "" for other files."""
    if not Path.cwd().joinpath(path).is_relative_to(GENERATED):
        return ""
    return f": {VARIABLE}=/another/folder names another place for what is generated"


def check_machine() -> None:
    """Refuse Python's -O, and paths that make or Verilator would take for something else."""
    if not __debug__:
        raise UserError("Python leaves out checks with -O: unset PYTHONOPTIMIZE")
    for path, what in ((ROOT, "this project's folder"), (GENERATED, VARIABLE)):
        if wrong := re.findall(r"[^A-Za-z0-9./+@~_-]", str(path)):
            raise UserError(
                f"the path of {what}, {str(path)!r}, holds {wrong[0]!r}, which make and Verilator "
                "do not take in a file's name: move it to a path of ASCII letters, digits and "
                "./+@~_-"
            )


def give_back_memory() -> None:
    """Let glibc return large arrays to the system when they are freed, whatever their size."""
    with suppress(AttributeError, TypeError, OSError):
        ctypes.CDLL(None).mallopt(-3, 1 << 23)  # M_MMAP_THRESHOLD
