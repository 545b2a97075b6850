"""`bert2rtl COMMAND`, or `python -m bert2rtl COMMAND`: every command of the project."""

import os
import runpy
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
WHEEL = (HERE / "cli").is_dir()  # the project's packages lie here, in its repository beside it


def main() -> int:
    """Run the command that the first argument names, as `python -m` runs its module."""
    sys.path.insert(0, str(HERE if WHEEL else HERE.parent))
    from cli import journey, machine

    if WHEEL:  # golden's compiled code is kept beside it only in a repository
        os.environ.setdefault("NUMBA_CACHE_DIR", str(machine.GENERATED / "numba"))
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print("usage: bert2rtl COMMAND [OPTION ...]\n", journey.overview(), sep="\n")
        return 0
    if name == "--version":
        print("bert2rtl", metadata.version("bert2rtl"))
        return 0
    if name not in journey.COMMANDS:
        print(f"error: no command is called {name!r}: bert2rtl --help shows all", file=sys.stderr)
        return 2
    journey.entered = True
    sys.argv[:] = [f"bert2rtl {name}", *rest]
    runpy.run_module(journey.COMMANDS[name], run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
