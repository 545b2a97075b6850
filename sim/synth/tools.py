"""Yosys and nextpnr as commands, and how a design is mapped to ECP5 cells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli.errors import ToolError

# No unit uses what a memory returns for an address that is written in the same cycle (the tests
# show it), so block RAMs need no logic around them that would return the old word.
SYNTH = "synth_ecp5 -no-rw-check"


class SynthesisError(ToolError):
    """Yosys or nextpnr refused the design, or it does not fit the part."""


class Unended(SynthesisError):
    """A tool took longer than it was given, and was stopped."""


def run_tool(
    name: str, *arguments: str, folder: Path, log_name: str = "", seconds: float | None = None
) -> None:
    """Run a yowasp tool in `folder`; what it says is in `log_name` there, `name`.log if empty.

    Unended where it took longer than so many seconds. SynthesisError where it is not installed, it
    failed, or it has let a signal be driven twice: Yosys then takes one of the two and only warns,
    so the netlist is another design.
    """
    program = Path(sys.executable).with_name(f"yowasp-{name}")
    if not program.exists():
        raise SynthesisError(f"{program.name} is not installed: run `make setup-synth` first")
    log = folder / (log_name or f"{name}.log")
    with log.open("w") as file:
        command = [str(program), *arguments]
        try:
            done = subprocess.run(
                command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise Unended(f"{name} was stopped after {seconds:g} s; see {log}") from None
    said = log.read_text(errors="replace").splitlines()
    if done.returncode != 0:
        raise SynthesisError("\n".join([f"{name} failed; the end of {log}:", *said[-15:]]))
    conflicts = [line for line in said if "Driver-driver conflict" in line]
    if conflicts:
        what = f"drives {len(conflicts)} bits twice, so its netlist is wrong"
        raise SynthesisError(f"{name} {what}; the first in {log}:\n{conflicts[0]}")


def flat(top: str) -> str:
    """The commands that make one optimised module of `top`.

    opt_clean comes between, since opt_dff leaves the initial value of a register's second name
    where it makes the register a constant, and the next pass finds two (YosysHQ/yosys#5735).
    """
    return f"hierarchy -top {top}; proc; flatten; opt_clean; opt -full"


def run_yosys(read: str, top: str, write: str, folder: Path) -> None:
    """Map `top` of what the commands `read` read to ECP5 cells, in `folder`; then `write`.

    Yosys stops behind ABC on some netlists (softmax, 16 lanes), not on the same flat: these are
    flattened first.
    """
    try:
        _yosys(f"{read}; {SYNTH} -top {top}; {write}", folder)
    except SynthesisError:
        _yosys(f"{read}; {flat(top)}; {SYNTH} -top {top}; {write}", folder)


def _yosys(script: str, folder: Path) -> None:
    """Run a script; the last lines of Yosys' own log are in the error.

    Yosys writes it itself, since what it prints is lost from the first run of ABC on.
    """
    steps = folder / "yosys-steps.log"
    steps.unlink(missing_ok=True)
    try:
        run_tool("yosys", "-q", "-l", steps.name, "-p", script, folder=folder)
    except SynthesisError as error:
        if not steps.exists():
            raise
        last = "\n".join(steps.read_text(errors="replace").splitlines()[-3:])
        raise SynthesisError(f"{error}\nthe end of {steps}:\n{last}") from None
