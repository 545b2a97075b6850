"""The virtual environment .venv with the packages that uv.lock names, by uv."""

import json
import os
import re
import subprocess
import sys

from cli.machine import ROOT, clean, writable

from setup.steps import TOOLS, SetupError, say

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
UV_VERSION = "0.13.9"  # reads uv.lock, and writes it in this form

# Settings of pip, from its files and PIP_*, that say where packages come from: as uv calls them.
# Others, as `prefix`, would put packages elsewhere or leave some out.
SOURCES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
    "no-cache-dir": "UV_NO_CACHE",
}
# Settings of uv that are left in its environment: the same, and where its cache is.
KEPT = {*SOURCES.values(), "UV_CACHE_DIR", "UV_LINK_MODE", "UV_OFFLINE", "UV_INDEX_STRATEGY"}
# pip's own of the same kind, for the installation of uv.
_PIP = {*SOURCES, "cache-dir", "config-file", "keyring-provider"}
# A build of torch for the CPU alone is on no index: a machine that has one names its folder. PyPI's
# brings gigabytes of CUDA along.
_TORCH = r'^name = "((?:torch|triton|nvidia-.*|cuda-.*))"$'


def _base_python() -> str:
    # When the set-up runs inside a virtual environment, build on the Python below it.
    return str(getattr(sys, "_base_executable", sys.executable))


def works() -> bool:
    """Whether .venv has a Python that is new enough, and this uv."""
    check = [str(PYTHON), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    version = [str(UV), "--version"]
    try:
        answer = subprocess.run(version, capture_output=True, text=True).stdout.split()
        return answer[1:2] == [UV_VERSION] and subprocess.run(check).returncode == 0
    except OSError:
        return False


def create() -> None:
    """Make .venv, or make it anew when it is broken (an interrupted run, a removed Python)."""
    if works():
        return
    say(f"virtual environment: creating {VENV.name} with {_base_python()}")
    venv = [_base_python(), "-m", "venv", "--clear", str(VENV)]
    pip = [str(PYTHON), "-m", "pip", "install", "-q", "--no-input", f"uv=={UV_VERSION}"]
    for command in (venv, pip):
        done = subprocess.run(command, env=_settings(), capture_output=True, text=True)
        if done.returncode != 0:
            raise SetupError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    if not works():
        raise SetupError(f"pip ended well, but uv {UV_VERSION} does not run in {VENV.name}")


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


def install(extras: tuple[str, ...]) -> None:
    """Install what uv.lock has for `extras` and, editable, the project itself.

    uv looks at what is installed each time: what is missing, or there in another version, is
    installed again, and nothing is done or asked of the network where all is there.
    """
    torch = re.findall(_TORCH, (ROOT / "uv.lock").read_text(), re.MULTILINE)
    words = ["export", "--frozen", "--no-emit-project", "--no-header", "--no-annotate"]
    words += [f"--extra={extra}" for extra in extras]
    words += [f"--no-emit-package={name}" for name in torch]
    listed = _uv(words, capture=True)
    if listed.returncode != 0:
        raise SetupError(f"uv cannot read uv.lock:\n{listed.stderr}")
    locked = TOOLS / "locked.txt"
    locked.write_text(listed.stdout)
    parts = [["--no-deps", "--require-hashes", "-r", str(locked)]]
    if "train" in extras:
        parts.append([f"torch=={_locked('torch')}"])
    missing = [part for part in parts if not _there(part)]
    if not _project_there():
        missing.append(["--no-deps", "-e", str(ROOT)])
    if not missing:
        return
    check_place()
    say(f"Python packages: installing {', '.join(extras) or 'the package'}")
    settings = _settings()
    quiet = [] if sys.stdout.isatty() else ["-q"]
    for part in missing:
        if _uv(["pip", "install", *quiet, *part], settings).returncode != 0:
            raise SetupError(
                "uv could not install the packages (its own message is above). After mending the "
                "cause, run the same make target again: it goes on where it stopped."
            )


def _locked(name: str) -> str:
    """The version of a package in uv.lock."""
    found = re.search(rf'^name = "{name}"\nversion = "(.*)"$', (ROOT / "uv.lock").read_text(), re.M)
    assert found is not None, name
    return found[1]


def _there(part: list[str]) -> bool:
    """Whether all is installed that uv would install; it asks nothing of the network."""
    done = _uv(["pip", "install", "--dry-run", "--offline", *part], capture=True)
    return done.returncode == 0 and "Would make no changes" in done.stderr


def _project_there() -> bool:
    """Whether the project is installed from this folder, by pyproject.toml as it stands."""
    for record in VENV.glob("lib/python3*/site-packages/bert2rtl-*.dist-info/direct_url.json"):
        newer = record.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime
        return newer and json.loads(record.read_text())["url"] == ROOT.as_uri()
    return False


def _uv(
    words: list[str], settings: dict[str, str] | None = None, *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """uv for .venv; what it says goes to the terminal unless it is captured."""
    given = _clean() if settings is None else settings
    place = {"VIRTUAL_ENV": str(VENV), "UV_PYTHON_DOWNLOADS": "never"}
    command = [str(UV), *words]
    return subprocess.run(command, env=given | place, cwd=ROOT, capture_output=capture, text=True)


def _clean() -> dict[str, str]:
    """The environment without what would change where pip and uv put packages, or which."""
    environment = dict(os.environ)
    clean(environment)
    pip = {f"PIP_{name.replace('-', '_').upper()}" for name in _PIP}
    for name in list(environment):
        if name.startswith(("PIP_", "UV_")) and name not in pip | KEPT:
            del environment[name]
    return environment | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def _settings() -> dict[str, str]:
    """The environment for an installation: sources that pip was told are those of uv as well."""
    environment = _clean()
    python = PYTHON if PYTHON.exists() else _base_python()
    command = [str(python), "-m", "pip", "config", "list"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True).stdout
    for section, name, value in re.findall(r"^(.*)\.([a-z-]+)='(.*)'$", listed, re.MULTILINE):
        if name in SOURCES and section in (":env:", "global", "install"):
            separator = "," if name == "find-links" else " "
            environment.setdefault(SOURCES[name], separator.join(value.split()))
    if "UV_INDEX" in environment:  # pip takes the best of all indexes, uv by default of the first
        environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return environment
