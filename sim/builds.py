"""Simulations built from a design: made once for each content, safe for several commands at once.

Builds lie under build/sim/, one folder for each unit, configuration and simulator, and are made
again when the Verilog, the flags or the simulator changed. A folder is locked while it is built and
shared while it is run. Programs of the C++ machine lie under build/sim/programs by the hash of what
they are made of, and never change.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli.files import locked, replacing
from cli.machine import GENERATED
from cli.progress import stage

import cocotb

from rtl.generate.verilog import instances
from sim.design import Design
from sim.simulators import (
    TIMESCALE,
    SimulatorError,
    check,
    clean_environment,
    runner,
    tail,
    version,
)

BUILDS = GENERATED / "sim"

SPEED = ("--x-assign", "fast", "--x-initial", "fast")
#: cocotb makes every signal public, which costs most of the speed.
VERILATOR_FLAGS = ("--no-public-flat-rw", *SPEED)

#: Of the C++: what is played for seconds is done sooner than with -O2, its build included.
OPTIMISATION = "OPT_FAST=-O1"
#: For what is played for minutes.
FASTER = "OPT_FAST=-O2"
#: Characters of Verilog up to which its C++ is compiled as one file. Apart, two precompiled headers
#: take longer than the files; only of more is there enough to compile on two cores.
ONE_FILE = 1_000_000

#: What Verilator's makefile runs, which may name the Python of the machine that it was built on.
PYTHON = f"PYTHON3={sys.executable}"

#: Of a shared library in place of a program; all but the first and the last are for its speed.
LIBRARY_FLAGS = (
    *("-CFLAGS", "-fPIC", "-CFLAGS", "-fno-plt", "-CFLAGS", "-fno-semantic-interposition"),
    *("-CFLAGS", "-fvisibility-inlines-hidden", "-LDFLAGS", "-Wl,-Bsymbolic"),
    *("-LDFLAGS", "-shared"),
)

HARNESS_FLAGS = (
    *("--cc", "--exe", "--build", "-j", "2", "--prefix", "Vtop", "-O3"),
    *(*SPEED, "--noassert"),
)


def _visibility(design: Design, probes: Sequence[str]) -> str:
    """Verilator control file that lets a bench see the ports, and `probes` in the parts."""
    signals = [(design.name, port) for port in design.ports]
    modules = instances(design.verilog, design.name) if probes else {}
    for probe in probes:
        *path, signal = probe.split(".")
        signals.append((modules[*path,], signal))
    lines = [f'public_flat_rw -module "{module}" -var "{name}"' for module, name in signals]
    return "\n".join(["`verilator_config", *lines]) + "\n"


def folder_of(design: Design, simulator: str, *, waves: bool = False, variant: str = "") -> Path:
    """Build folder of a design on a simulator."""
    parts = [design.name, design.configuration, variant, simulator, "fst" if waves else ""]
    return BUILDS / "-".join(filter(None, parts))


def _make(design: Design, optimisation: str) -> tuple[str, ...]:
    """Variables of Verilator's makefile for a design."""
    return (optimisation, *(("VM_PARALLEL_BUILDS=0",) if len(design.verilog) <= ONE_FILE else ()))


def _key(*facts: str) -> str:
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


@contextmanager
def built(
    design: Design,
    simulator: str,
    *,
    probes: Sequence[str] = (),
    waves: bool = False,
    variant: str = "",
) -> Iterator[Path]:
    """The folder of the build of `design` for cocotb, made if need be, and held for the block.

    SimulatorError where the simulator is missing or refuses the design.

    The bench can read all ports and `probes`, signals inside the design as `part.part.signal`; on
    Icarus everything. With `waves` a run can record every signal, and is slower. `variant` keeps
    this build apart from the ordinary one: the name of a deliberate fault, say.
    """
    check(simulator)
    folder = folder_of(design, simulator, waves=waves, variant=variant)
    visibility, flags = "", list[str]()
    if simulator == "verilator":
        visibility = _visibility(design, probes)
        flags = [*VERILATOR_FLAGS, *(["--trace-fst"] if waves else [])]
    make = " ".join(_make(design, OPTIMISATION))
    facts = design.verilog, design.sheet, visibility, *flags, make
    key = _key(*facts, version(simulator), cocotb.__version__)
    stamp = folder / "stamp"
    while True:
        build(design, simulator, folder, key, visibility, flags, waves)
        # Another command may build another design of that name here before this one is used.
        with locked(folder / "lock", shared=True):
            if stamp.exists() and stamp.read_text() == key:
                yield folder
                return


def build(
    design: Design,
    simulator: str,
    folder: Path,
    key: str,
    visibility: str,
    flags: list[str],
    waves: bool,
) -> None:
    """Build into `folder`, unless the build of that key is there already."""
    source, control = folder / f"{design.name}.v", folder / "visible.vlt"
    stamp, log = folder / "stamp", folder / "build.log"
    with locked(folder / "lock"):
        if stamp.exists() and stamp.read_text() == key:
            return
        stage(f"building {design.name} ({design.configuration}) for {simulator}")
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder / "obj", ignore_errors=True)
        source.write_text(design.verilog)
        control.write_text(visibility)
        (folder / "unit.json").write_text(design.sheet)
        sources = [control, source] if simulator == "verilator" else [source]
        try:
            with clean_environment():
                os.environ["MAKEFLAGS"] = " ".join([*_make(design, OPTIMISATION), PYTHON])
                runner(simulator).build(
                    sources=sources,
                    hdl_toplevel=design.name,
                    build_dir=folder / "obj",
                    build_args=flags,
                    timescale=TIMESCALE,
                    waves=waves,
                    always=True,
                    log_file=log,
                )
        except (RuntimeError, SystemExit) as error:
            what = f"{simulator} could not build {design.name} ({error})"
            raise SimulatorError(f"{what}; the end of {log}:\n{tail(log)}") from None
        stamp.write_text(key)


def _with_included(source: Path) -> list[Path]:
    """A file and all files of ours that it includes, directly or not."""
    found: list[Path] = []
    waiting = [source.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            found.append(path)
            named = re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)
            waiting += [(path.parent / name).resolve() for name in named]
    return sorted(found)


def build_harness(
    design: Design,
    source: Path,
    *,
    headers: Mapping[str, str] = {},
    variant: str = "",
    flags: Sequence[str] = (),
    optimisation: str = OPTIMISATION,
) -> Path:
    """Build `design` with a C++ program or library, without cocotb: its file.

    The design is the class Vtop of "Vtop.h", with one member for each port. Built once, then
    cached like every build; the file that is returned is never replaced by another. SimulatorError
    where Verilator is missing, or it or the compiler refuses the source.

    The `source` may include headers by paths from its own, and `headers` by name, whose texts are
    given. `flags` are further ones of Verilator; `optimisation` is OPTIMISATION or FASTER;
    `variant` as in `built`.
    """
    check("verilator")
    make = [word for value in _make(design, optimisation) for word in ("-MAKEFLAGS", value)]
    flags = [*HARNESS_FLAGS, *make, *flags]
    folder = folder_of(design, "harness", variant=variant)
    texts = [path.read_text() for path in _with_included(source)] + [*headers, *headers.values()]
    key = _key(design.verilog, *texts, *flags, version("verilator"))
    program = BUILDS / "programs" / key[:32] / design.name
    with locked(folder / "lock"):
        if program.exists():
            return program
        stage(f"building {design.name} ({design.configuration}) with {source.name}")
        shutil.rmtree(folder / "obj", ignore_errors=True)
        verilog, log = folder / f"{design.name}.v", folder / "build.log"
        for name, text in {verilog.name: design.verilog, **headers}.items():
            (folder / name).write_text(text)
        command = ["verilator", *flags, "-MAKEFLAGS", PYTHON, "--top-module", design.name]
        command += ["-o", design.name, "-CFLAGS", f"-I{folder}", "-Mdir", str(folder / "obj")]
        with clean_environment():
            command += [str(verilog), str(source.resolve())]
            done = subprocess.run(command, capture_output=True, text=True)
        log.write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            what = f"verilator could not build {design.name} with {source.name}"
            raise SimulatorError(f"{what}; the end of {log}:\n{tail(log)}")
        with replacing(program) as temporary:
            shutil.copy2(folder / "obj" / design.name, temporary)
    return program
