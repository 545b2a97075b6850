"""Protection from machine and environment: where files go, and the variables of tools.

Standard library only: the set-up asks before anything is installed.
"""

from __future__ import annotations

import ctypes
import os
import string
import sys
import tempfile
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from cli.errors import UserError

ROOT = Path(__file__).resolve().parent.parent

IS_CLONE = (ROOT / "pyproject.toml").is_file()
"""Whether this is the project's repository; a wheel has its modules elsewhere."""

MMAP_THRESHOLD, LARGE = -3, 1 << 23
"""M_MMAP_THRESHOLD of glibc's mallopt; bytes."""

VARIABLE = "BERT2RTL_BUILD"
_named = os.environ.get(VARIABLE)


def _caches() -> Path:
    """Where an installed package keeps what it builds."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME") or "/", ".cache"))
    return (home if writable(home) else Path(tempfile.gettempdir())) / "bert2rtl"


def writable(path: Path) -> bool:
    """Whether the path, or the nearest folder above it that exists, can be written."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK)


BUILD = (ROOT if IS_CLONE else Path.cwd()) / _named if _named else Path("build")
"""Where a command writes what --out does not name; golden/fast/compiled.py reads VARIABLE, too."""
GENERATED = ROOT / BUILD if IS_CLONE or _named else _caches()
"""Builds, tools and caches, whatever the current folder is."""

FOREIGN = (
    # Settings of this project for its own programs, and of cocotb.
    *("BERT2RTL_", "COCOTB", "GPI_", "PYGPI_", "LIBPYTHON_LOC", "TOPLEVEL_LANG", "WAVES", "GUI"),
    # Python: other modules, another interpreter, checks left out.
    *("PYTHON", "PYTEST_"),
    # Simulators and synthesis.
    *("VERILATOR", "SYSTEMC", "IVERILOG", "VVP_", "VPI_", "YOWASP_MOUNT", "LXT_"),
    # make, and variables that its rules for C++ read.
    *("MAKE", "GNUMAKE", "MFLAGS", "OBJCACHE", "VM_", "VK_", "USER_", "CFG_", "OPT"),
    *("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS", "LOADLIBES", "TARGET_ARCH"),
)
"""How variables begin that would change what a tool of ours does. Where things are (PATH, HOME,
LD_LIBRARY_PATH, CPATH, proxies) is the machine's to say."""

# Of the others a makefile, a shell, a list of folders or a linker's option makes something else;
# Verilator escapes in its makefiles what is not ASCII, and make then finds no file.
_IN_A_PATH = frozenset(string.ascii_letters + string.digits + "./+@~_-")


def clean(environment: MutableMapping[str, str]) -> None:
    """Remove what is FOREIGN; VARIABLE stays."""
    for name in list(environment):
        if name.startswith(FOREIGN) and name != VARIABLE:
            del environment[name]


def open_streams() -> None:
    """Put /dev/null where standard input, output or errors are closed.

    The next file that is opened would take such a place, and what is printed would go into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, os.fdopen(number, mode))


def find_places() -> None:
    """Give the programs that are started a home, a cache and a folder for temporary files.

    Where those that the environment names cannot be written, they are below GENERATED: ccache,
    YoWASP and the Hugging Face hub keep files there.
    """
    home = Path(os.environ.get("HOME") or "/")
    if not os.access(home, os.W_OK | os.X_OK):
        os.environ["HOME"] = str(home := GENERATED / "home")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    if not writable(cache):
        os.environ["XDG_CACHE_HOME"] = str(GENERATED / "home" / ".cache")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        os.environ["TMPDIR"] = str(GENERATED)


def elsewhere(path: str | Path) -> str:
    """What to do where a file of GENERATED cannot be written; "" for other files."""
    if not Path.cwd().joinpath(path).is_relative_to(GENERATED):
        return ""
    return f": {VARIABLE}=/another/folder names another place for what is generated"


def check_machine() -> None:
    """Refuse what would end a command in the middle, or leave out its checks.

    Raises
    ------
    ValueError
        Python runs with -O, or `check_path` refuses the project's folder or that of the variable.
    """
    if not __debug__:
        raise UserError("Python leaves out checks with -O: unset PYTHONOPTIMIZE")
    check_path(ROOT, "this project's folder")
    check_path(GENERATED, VARIABLE)


def check_path(path: Path, what: str) -> None:
    """Refuse a path that make, Verilator or a list of folders would take for something else.

    Raises
    ------
    ValueError
        It holds another character than ASCII letters, digits and ./+@~_-
    """
    wrong = [sign for sign in dict.fromkeys(str(path)) if sign not in _IN_A_PATH]
    if wrong:
        said = ", ".join("a space" if sign == " " else repr(sign) for sign in wrong)
        raise UserError(
            f"the path of {what}, {str(path)!r}, holds {said}, which make and Verilator do not "
            "take in a file's name: move it to a path of ASCII letters, digits and ./+@~_-"
        )


def give_back_memory() -> None:
    """Have large arrays go back to the system when they are freed, where the C library is glibc.

    Left alone it keeps such blocks, up to 32 MiB each, for later ones that may not fit into them.
    """
    with suppress(AttributeError, TypeError, OSError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)
