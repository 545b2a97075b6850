"""Debian packages: what is missing is installed as root or through sudo, or named exactly."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from setup.environment import SetupError, say

# Package -> is it there? Looked at on every run (milliseconds), so there is nothing to go stale.
Probe = Callable[[], bool]


def _command(name: str) -> Probe:
    return lambda: shutil.which(name) is not None


def _header(name: str) -> Probe:
    return lambda: any((Path(d) / name).exists() for d in ("/usr/include", "/usr/local/include"))


def _perl_modules() -> bool:
    # A minimal Debian has Perl without its library; Verilator's front end needs Pod::Usage.
    perl = shutil.which("perl")
    if perl is None:
        return False
    return subprocess.run([perl, "-MPod::Usage", "-e", "1"], capture_output=True).returncode == 0


def _ensurepip() -> bool:
    # Asked of a new process: a package installed a moment ago is not seen by this one.
    check = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(check, capture_output=True).returncode == 0


def libpython() -> Path | None:
    """The shared library of this Python, which cocotb loads into the simulator; None if absent."""
    names = {sysconfig.get_config_var("INSTSONAME"), sysconfig.get_config_var("LDLIBRARY")}
    folders = {
        sysconfig.get_config_var("LIBDIR") or "",
        f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}",
        "/usr/lib",
    }
    for folder in sorted(folders):
        for name in sorted(filter(None, names)):
            path = Path(folder) / name
            if ".so" in name and path.exists():
                return path
    return None


def _is_debian_python() -> bool:
    return Path(sys.executable).resolve().parent == Path("/usr/bin")


def _libpython_or_not_debian() -> bool:
    return libpython() is not None or not _is_debian_python()


PYTHON_PACKAGE = _ensurepip
# What an extra of pyproject.toml needs of the system.
PACKAGES: dict[str, dict[str, Probe]] = {
    "sim": {
        "make": _command("make"),
        "g++": _command("g++"),
        "perl": _perl_modules,
        "iverilog": _command("iverilog"),
        "ccache": _command("ccache"),
        "liblz4-dev": _header("lz4.h"),
        "zlib1g-dev": _header("zlib.h"),
        f"libpython3.{sys.version_info.minor}": _libpython_or_not_debian,
    },
    "litex": {  # what its simulation of a SoC is compiled with
        "libevent-dev": _header("event2/event.h"),
        "libjson-c-dev": _header("json-c/json.h"),
    },
}


def _missing(packages: dict[str, Probe]) -> list[str]:
    return [name for name, present in packages.items() if not present()]


def _privilege() -> list[str] | None:
    """The words that run a command as root, [] when already root, None when there is no way."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    if sys.stdin.isatty():
        return [sudo]  # may ask for the password
    asks = subprocess.run([sudo, "-n", "true"], capture_output=True).returncode != 0
    return None if asks else [sudo, "-n"]


def install(packages: dict[str, Probe]) -> None:
    """Install what `packages` misses.

    Raises
    ------
    SetupError
        There is no apt-get, no way to become root, or the installation failed; the message
        gives the command to run.
    """
    missing = _missing(packages)
    if not missing:
        return
    command = f"apt-get update && apt-get install -y {' '.join(missing)}"
    if shutil.which("apt-get") is None:
        raise SetupError(
            f"missing: {', '.join(missing)} (Debian's names), and this machine has no apt-get. "
            "Install them with the system's own package manager."
        )
    privilege = _privilege()
    if privilege is None:
        raise SetupError(
            f"missing Debian packages: {', '.join(missing)}. Run this as root, then try again:\n"
            f"    {command}"
        )
    say(f"Debian packages: installing {' '.join(missing)}")
    apt = [*privilege, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    # A stale list is no reason to stop: the installation itself decides.
    subprocess.run([*apt, "update", "-qq"], check=False)
    options = ["install", "-y", "-qq", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0"]
    done = subprocess.run([*apt, *options, *missing], stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SetupError(
            "apt-get could not install the packages above. Run this as root and look at what it "
            f"says:\n    {command}"
        )
    if still := _missing(packages):
        raise SetupError(f"installed, but still not found: {', '.join(still)}")


def check_libpython() -> None:
    """Refuse a Python without its shared library (cocotb embeds it)."""
    if libpython() is None:
        raise SetupError(
            f"{sys.executable} has no shared library, which cocotb loads into the simulator. Use "
            "Debian's own Python (`make PYTHON=/usr/bin/python3 ...`) or one that was built with "
            "--enable-shared."
        )
