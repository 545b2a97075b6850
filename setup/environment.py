"""The virtual environment .venv with the pinned packages of pyproject.toml."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from setup.steps import ROOT, SetupError, digest, is_stamped, say, write_stamp

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"


def _base_python() -> str:
    # When the set-up runs inside a virtual environment, build on the Python below it.
    return str(getattr(sys, "_base_executable", sys.executable))


def _works(python: Path) -> bool:
    check = [str(python), "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(check, capture_output=True).returncode == 0
    except OSError:
        return False


def create() -> None:
    """Make .venv, or make it anew when it is broken (an interrupted run, a removed Python)."""
    if _works(PYTHON):
        return
    say(f"virtual environment: creating {VENV.name} with {_base_python()}")
    command = [_base_python(), "-m", "venv", "--clear", str(VENV)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or not _works(PYTHON):
        raise SetupError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def requirements(extras: tuple[str, ...]) -> list[str]:
    """The pinned requirements of `extras` and of the package itself, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional: dict[str, list[str]] = project["optional-dependencies"]
    pins: list[str] = list(project["dependencies"])
    for extra in extras:
        pins += optional[extra]
    return pins


def _stamp(requirement: str) -> Path:
    return VENV / "installed" / requirement.replace("/", "-")


def install(extras: tuple[str, ...]) -> None:
    """Install the packages of `extras` and, editable, the project itself.

    A pin is skipped when its stamp is there; a stamp is written after pip has finished, so an
    interrupted run installs again. The key holds the build settings, so that a change of the
    package list installs the project again.
    """
    pins = requirements(extras)
    packaging = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    key = digest(str(packaging), str(ROOT))
    if all(is_stamped(_stamp(pin), key) for pin in pins):
        return
    say(f"Python packages: installing {', '.join(extras) or 'the package'} ({len(pins)} pins)")
    quiet = [] if sys.stdout.isatty() else ["-q"]
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    command = [str(PYTHON), "-m", "pip", "install", "--no-input", *quiet, "-e", target]
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if subprocess.run(command, env=environment).returncode != 0:
        raise SetupError(
            "pip could not install the packages (its own message is above). After mending the "
            "cause, run the same make target again: it goes on where it stopped."
        )
    (VENV / "installed").mkdir(exist_ok=True)
    for pin in pins:
        write_stamp(_stamp(pin), key)
