"""The virtual environment .venv with the pinned packages of pyproject.toml."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from typing import Any

from cli.files import write_json
from cli.machine import ROOT, clean, writable

from setup.steps import SetupError, digest, say

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
RECORDS = VENV / "installed"

# Of pip's settings in the environment those that say where packages come from; others, as
# PIP_PREFIX, would put them elsewhere or leave some out.
_SOURCES = (
    *("INDEX_URL", "EXTRA_INDEX_URL", "NO_INDEX", "FIND_LINKS", "TRUSTED_HOST", "KEYRING_PROVIDER"),
    *("CERT", "CLIENT_CERT", "PROXY", "TIMEOUT", "DEFAULT_TIMEOUT", "RETRIES"),
    *("CACHE_DIR", "NO_CACHE_DIR", "CONFIG_FILE"),
)


def _base_python() -> str:
    # When the set-up runs inside a virtual environment, build on the Python below it.
    return str(getattr(sys, "_base_executable", sys.executable))


def works() -> bool:
    """Whether .venv has a Python that is new enough, with pip."""
    check = [str(PYTHON), "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(check, capture_output=True).returncode == 0
    except OSError:
        return False


def create() -> None:
    """Make .venv, or make it anew when it is broken (an interrupted run, a removed Python)."""
    if works():
        return
    say(f"virtual environment: creating {VENV.name} with {_base_python()}")
    command = [_base_python(), "-m", "venv", "--clear", str(VENV)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or not works():
        raise SetupError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def check_place() -> None:
    """Refuse a folder where packages cannot be installed, or not be loaded."""
    if not writable(VENV):
        raise SetupError(
            f"{VENV} cannot be written, where the Python packages go: set up a copy of the project "
            "that you may write to"
        )
    if os.statvfs(ROOT).f_flag & os.ST_NOEXEC:
        raise SetupError(
            f"{ROOT} is on a file system mounted noexec, where no program can run: move the "
            "project to another one"
        )


def requirements(extras: tuple[str, ...]) -> list[str]:
    """The pinned requirements of `extras` and of the package itself, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional: dict[str, list[str]] = project["optional-dependencies"]
    pins: list[str] = list(project["dependencies"])
    for extra in extras:
        pins += optional[extra]
    return pins


def installed() -> dict[str, str]:
    """The version of every package in .venv, by its name as PyPI compares names."""
    folders = [str(path) for path in VENV.glob("lib/python3*/site-packages")]
    packages = metadata.distributions(path=folders)
    return {_plain(package.name): package.version for package in packages if package.name}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _missing(pins: list[str], found: dict[str, str]) -> list[str]:
    """The pins that are not there, or in another version; builds of one version count alike."""
    wanted = [(pin, *pin.split("==")) for pin in pins]
    return [
        pin
        for pin, name, version in wanted
        if found.get(_plain(name), "").partition("+")[0] != version
    ]


def _recorded(pins: list[str], key: str, found: dict[str, str]) -> bool:
    """Whether all that an installation of these pins has brought along is there still."""
    records: list[dict[str, Any]] = [json.loads(f.read_text()) for f in RECORDS.glob("*.json")]
    return any(
        record["key"] == key
        and set(pins) <= set(record["pins"])
        and record["found"].items() <= found.items()
        for record in records
    )


def install(extras: tuple[str, ...]) -> None:
    """Install the packages of `extras` and, editable, the project itself.

    Nothing is done when all packages are there that an earlier installation of them has brought
    along, in the same versions. The key holds the build settings, so that a change of the
    package list installs the project again.
    """
    pins = requirements(extras)
    packaging = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    key = digest(str(packaging), str(ROOT))
    if _recorded(pins, key, installed()):
        return
    check_place()
    say(f"Python packages: installing {', '.join(extras) or 'the package'} ({len(pins)} pins)")
    quiet = [] if sys.stdout.isatty() else ["-q"]
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    command = [str(PYTHON), "-m", "pip", "install", "--no-input", *quiet, "-e", target]
    if subprocess.run(command, env=_settings()).returncode != 0:
        raise SetupError(
            "pip could not install the packages (its own message is above). After mending the "
            "cause, run the same make target again: it goes on where it stopped."
        )
    found = installed()
    if missing := _missing(pins, found):
        raise SetupError(
            f"pip ended well, but {missing[0]} is not in {VENV.name}: its settings put packages "
            f"elsewhere, `{PYTHON.relative_to(ROOT)} -m pip config list` shows them"
        )
    record = {"key": key, "pins": pins, "found": found}
    write_json(RECORDS / f"{'-'.join(extras) or 'package'}.json", record)


def _settings() -> dict[str, str]:
    """The environment for pip."""
    environment = dict(os.environ)
    clean(environment)
    for name in list(environment):
        if name.startswith("PIP_") and name.removeprefix("PIP_") not in _SOURCES:
            del environment[name]
    return environment | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
