"""Set up what a make target needs: `python3 -m setup PROFILE`."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.command import Interrupted, run_command
from cli.options import Parser

from setup import environment, system, verilator
from setup.steps import only_one
from sim.verilator import on_path

DESCRIPTION = """\
Set up what a make target needs. Profiles: quant (Python packages only), parquet (quant
and Parquet files), onnx (quant and the ONNX export), train (with torch), sim (Verilator and Icarus,
no torch), package (Verilog, register map), docs (the site), cluster (sim, and dask for runs on many
machines), synth (yowasp), asic (sim, synth, standard cells and OpenSTA), litex (boards, their
simulation, and the compiler of its firmware), test (everything that the tests use but the standard
cells and that compiler). Each step says what it does and is skipped when it is done; an interrupted
run is simply started again."""

EXAMPLES = """\
examples:
  python3 -m setup sim
  python3 -m setup train
"""


@dataclass(frozen=True)
class Profile:
    """What a make target needs: extras of pyproject.toml, and what the system has to have where it
    simulates, tests, simulates a CPU with its firmware, or synthesises for standard cells."""

    extras: tuple[str, ...]
    simulates: bool = False
    tests: bool = False
    firmware: bool = False
    silicon: bool = False


HARDWARE = ("quant", "rtl", "sim")
OPTIONAL = (*("parquet", "onnx", "fast", "package", "docs", "cluster", "synth", "litex", "train"),)
PROFILES = {
    "quant": Profile(("quant",)),
    "parquet": Profile(("quant", "parquet")),
    "onnx": Profile(("quant", "onnx")),
    "train": Profile(("quant", "fast", "train")),
    "sim": Profile(HARDWARE, simulates=True),
    "synth": Profile(("rtl", "synth")),
    "asic": Profile((*HARDWARE, "synth"), simulates=True, silicon=True),
    "package": Profile(("rtl", "package")),
    "docs": Profile((*HARDWARE, "package", "docs")),
    "cluster": Profile((*HARDWARE, "cluster"), simulates=True),
    "litex": Profile((*HARDWARE, "synth", "litex", "firmware"), simulates=True, firmware=True),
    "test": Profile((*HARDWARE, *OPTIONAL, "dev"), simulates=True, tests=True),
}


def set_up(profile: Profile) -> None:
    """Bring the machine to what `profile` needs; SetupError says what the user has to do."""
    with only_one():
        if not environment.works():
            environment.check_place()
        system.install(system.PYTHON_PACKAGES)
        extras = profile.extras
        if profile.tests:
            system.install(system.TEST_PACKAGES)
        if profile.simulates:
            system.install(system.SIMULATION_PACKAGES)
            system.check_libpython()
            if on_path() is None:
                extras = (*extras, "verilator")
        if profile.firmware:
            system.install(system.FIRMWARE_PACKAGES)
        if profile.silicon:
            system.install(system.SILICON_PACKAGES)
        environment.create()
        environment.install(extras)
        if "verilator" in extras:
            verilator.lay_out()


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _command(arguments))


def _command(arguments: Sequence[str] | None) -> None:
    parser = Parser("setup", DESCRIPTION, EXAMPLES)
    parser.add_argument("profile", choices=sorted(PROFILES), help="the part to set up")
    profile = PROFILES[parser.parse_args(arguments).profile]
    if Path(sys.prefix) != environment.VENV and environment.works():
        # What is asked of Python (its shared library) is asked of the one that all else runs on.
        os.execv(environment.PYTHON, [str(environment.PYTHON), "-m", "setup", *sys.argv[1:]])
    try:
        set_up(profile)
    except KeyboardInterrupt:
        raise Interrupted("interrupted: run it again to go on") from None


if __name__ == "__main__":
    sys.exit(main())
