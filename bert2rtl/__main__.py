"""`bert2rtl COMMAND`, or `python -m bert2rtl COMMAND`: every command of the project."""

import runpy
import sys
from collections.abc import Sequence

from bert2rtl import find_modules

USAGE = """\
usage: bert2rtl COMMAND [OPTION ...]

From a fine-tuned BERT checkpoint to verified Verilog. `bert2rtl COMMAND --help` has examples.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names, as `python -m` runs its module."""
    find_modules()
    from cli import journey

    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(USAGE, journey.overview(), sep="\n")
        return 0
    if name == "--version":
        from cli.options import version

        print(f"bert2rtl {version()}")
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
