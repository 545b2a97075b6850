"""Verilator and Icarus: the only place that knows their names, flags and files.

    run("softmax", "icarus", Config(lanes=4))

generates the unit, builds it (cached) and runs tb/bench_softmax.py on it. Builds lie under
build/sim/, one folder for each unit, configuration and simulator, and are made again when the
Verilog, the flags or the simulator changed. Several processes may build and run at once: a folder
is locked while it is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import cocotb
from cocotb_tools.runner import Runner, get_runner

from rtl.interface.config import Config
from sim import verilator
from sim.design import Design, generated

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ROOT / "build" / "sim"

#: Names of the simulators, the fastest to build first.
SIMULATORS = ("icarus", "verilator")

TIMESCALE = ("1ns", "1ps")
VERILATOR_FLAGS = (
    "--no-public-flat-rw",  # cocotb makes every signal public, which costs most of the speed
    "--x-assign", "fast",
    "--x-initial", "fast",
)  # fmt: skip


HARNESS_FLAGS = (
    "--cc", "--exe", "--build",
    "-j", "2",
    "--prefix", "Vtop",
    "-O3",
    "--x-assign", "fast",
    "--x-initial", "fast",
    "--noassert",
    "-MAKEFLAGS", "OPT_FAST=-O2",
)  # fmt: skip


class SimulatorError(Exception):
    """The simulator is missing, or it refused the design; the message says what to do."""


class BenchError(Exception):
    """A bench failed, or ran no test; the message holds what failed and the end of the log."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One test of a bench that passed.

    Attributes
    ----------
    name
        Function in the bench, with its parameters: `stalls/idle=0.5`.
    seconds
        Wall clock.
    simulated_ns
        Simulated time; benches clock at 10 ns a cycle.
    """

    name: str
    seconds: float
    simulated_ns: float


def check(simulator: str) -> None:
    """Refuse an unknown or missing simulator.

    Raises
    ------
    ValueError
        No simulator is called `simulator`.
    SimulatorError
        It is not installed.
    """
    if simulator not in SIMULATORS:
        choice = " or ".join(SIMULATORS)
        raise ValueError(f"no simulator is called {simulator!r}: choose {choice}")
    found = verilator.executable() if simulator == "verilator" else shutil.which("iverilog")
    if found is None:
        raise SimulatorError(f"{simulator} is not installed: run `make setup` first")


def version(simulator: str) -> str:
    """First line of what the simulator says of itself."""
    check(simulator)
    if simulator == "verilator":
        command = [str(verilator.executable()), "--version"]
    else:
        command = ["iverilog", "-V"]
    answer = subprocess.run(command, capture_output=True, text=True)
    return answer.stdout.partition("\n")[0].strip()


def _visibility(design: Design, probes: Sequence[str]) -> str:
    """Verilator control file that lets a bench see the ports, and `probes` in the parts."""
    lines = ["`verilator_config"]
    signals = [(design.name, port) for port in design.ports]
    for probe in probes:
        *path, signal = probe.split(".")
        signals.append(("_".join([design.name, *path]), signal))
    lines += [f'public_flat_rw -module "{module}" -var "{name}"' for module, name in signals]
    return "\n".join(lines) + "\n"


@contextmanager
def _locked(folder: Path, operation: int) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, operation)
        yield


@contextmanager
def _clean_environment(*importable: Path) -> Iterator[None]:
    """The environment for cocotb's runner: our tools on PATH, no settings of another run."""
    before, path = dict(os.environ), list(sys.path)
    ours = ("COCOTB", "PYTEST_CURRENT_TEST", "WAVES", "GUI", "VERILATOR_ROOT", "MAKEFLAGS")
    for name in before:
        if name.startswith(ours):
            del os.environ[name]
    laid_out = verilator.executable()
    if laid_out is not None:
        os.environ["PATH"] = os.pathsep.join([str(laid_out.parent), os.environ["PATH"]])
    if shutil.which("ccache") is not None:
        os.environ["OBJCACHE"] = "ccache"
    sys.path[:0] = [str(folder) for folder in (*importable, ROOT)]
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)


def _runner(simulator: str) -> Runner:
    runner = get_runner(simulator)
    runner.log.disabled = True  # what it would say is in the log file and in our exceptions
    return runner


def _tail(log: Path, lines: int = 60) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


def folder_of(design: Design, simulator: str, *, waves: bool = False, variant: str = "") -> Path:
    """Build folder of a design on a simulator."""
    parts = [design.name, design.configuration, variant, simulator, "waves" if waves else ""]
    return BUILDS / "-".join(filter(None, parts))


def build(
    design: Design,
    simulator: str,
    *,
    probes: Sequence[str] = (),
    waves: bool = False,
    variant: str = "",
) -> Path:
    """Build `design` for cocotb, unless it is built already; returns the build folder.

    Parameters
    ----------
    design
        What `sim.design.generated` or `sim.design.described` gives.
    probes
        Signals inside the design that the bench reads, as `part.part.signal`. Ports are always
        visible; on Icarus everything is.
    waves
        Build so that a run can record signals (slower).
    variant
        Keeps this build apart from the ordinary one: the name of a deliberate fault, say.

    Raises
    ------
    SimulatorError
        The simulator is missing or refuses the design.
    """
    check(simulator)
    folder = folder_of(design, simulator, waves=waves, variant=variant)
    source, control = folder / f"{design.name}.v", folder / "visible.vlt"
    visibility = _visibility(design, probes) if simulator == "verilator" else ""
    flags: tuple[str, ...] = ()
    if simulator == "verilator":
        flags = (*VERILATOR_FLAGS, *(("--trace-fst",) if waves else ()))
    facts = (design.verilog, visibility, *flags, version(simulator), cocotb.__version__)
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    stamp = folder / "stamp"
    with _locked(folder, fcntl.LOCK_EX):
        if stamp.exists() and stamp.read_text() == key:
            return folder
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder / "obj", ignore_errors=True)
        source.write_text(design.verilog)
        control.write_text(visibility)
        (folder / "unit.json").write_text(design.sheet)
        log = folder / "build.log"
        sources = [control, source] if simulator == "verilator" else [source]
        try:
            with _clean_environment():
                _runner(simulator).build(
                    sources=sources,
                    hdl_toplevel=design.name,
                    build_dir=folder / "obj",
                    build_args=list(flags),
                    timescale=TIMESCALE,
                    waves=waves,
                    always=True,
                    log_file=log,
                )
        except (RuntimeError, SystemExit) as error:
            raise SimulatorError(
                f"{simulator} could not build {design.name} ({error}); the end of {log}:\n"
                f"{_tail(log)}"
            ) from None
        stamp.write_text(key)
    return folder


def build_harness(design: Design, sources: Sequence[Path], *, variant: str = "") -> Path:
    """Build `design` with a C++ main program of its own, without cocotb; returns the program.

    The design is the class Vtop of "Vtop.h", with one member for each port. Built once, then
    cached like every build.

    Parameters
    ----------
    sources
        C++ files; one of them has main(). Headers beside them may be included.
    variant
        As in `build`.

    Raises
    ------
    SimulatorError
        Verilator is missing, or it or the compiler refuses the sources.
    """
    check("verilator")
    folder = folder_of(design, "harness", variant=variant)
    program, stamp = folder / "obj" / design.name, folder / "stamp"
    headers = sorted(header for path in sources for header in path.parent.glob("*.h"))
    texts = [path.read_text() for path in (*sources, *headers)]
    facts = (design.verilog, *texts, *HARNESS_FLAGS, version("verilator"))
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    with _locked(folder, fcntl.LOCK_EX):
        if stamp.exists() and stamp.read_text() == key:
            return program
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder / "obj", ignore_errors=True)
        source = folder / f"{design.name}.v"
        source.write_text(design.verilog)
        (folder / "unit.json").write_text(design.sheet)
        command = ["verilator", *HARNESS_FLAGS, "--top-module", design.name, "-o", design.name]
        command += ["-Mdir", str(folder / "obj"), str(source)]
        command += [str(path.resolve()) for path in sources]
        with _clean_environment():
            done = subprocess.run(command, capture_output=True, text=True)
        (folder / "build.log").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            raise SimulatorError(
                f"verilator could not build {design.name} with {sources[0].name}; the end of "
                f"{folder / 'build.log'}:\n{_tail(folder / 'build.log')}"
            )
        stamp.write_text(key)
    return program


def _read_results(results: Path, log: Path, title: str) -> list[Result]:
    if not results.exists():
        raise BenchError(f"{title}: the simulation ended without results:\n{_tail(log)}")
    passed, failed = [], []
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        name = case.get("name", "")
        if case.find("skipped") is not None:
            continue
        problems = [problem for tag in ("failure", "error") for problem in case.findall(tag)]
        failed += [f"{name}: {problem.get('message', '')}" for problem in problems]
        if not problems:
            facts = {p.get("name"): p.get("value") for p in case.iter("property")}
            simulated = round(float(facts["sim_time_duration"] or 0), 3)
            seconds = float(case.get("time", 0))
            passed.append(Result(name=name, seconds=seconds, simulated_ns=simulated))
    if failed:
        told = "\n".join(failed)
        raise BenchError(f"{title}: {len(failed)} failed\n{told}\n{_tail(log)}")
    if not passed:
        raise BenchError(f"{title}: no test ran\n{_tail(log)}")
    return passed


def run(
    unit: str | Design,
    simulator: str = "icarus",
    config: Config | None = None,
    *,
    bench: str | Path | None = None,
    testcases: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    probes: Sequence[str] = (),
    waves: bool | Path = False,
    variant: str = "",
    seed: int = 1,
    quiet: bool = True,
) -> list[Result]:
    """Run a cocotb bench on a unit; returns its results, all of them passed.

    Parameters
    ----------
    unit
        Name in rtl.generate.units.UNITS, or a design of its own.
    config
        Configuration to generate; Config() when left out.
    bench
        Module of the bench, or its file; `tb.bench_<unit>` when left out.
    testcases
        Functions of the bench to run, all their parameters included; all when empty.
    env
        Environment variables for the bench. It also gets UNIT_SHEET, the path of the unit's JSON
        (ports, configuration, latency).
    probes, variant
        As in `build`.
    waves
        Record every signal. A path names the FST file; True puts it beside the build.
    seed
        cocotb.RANDOM_SEED of the bench.
    quiet
        Keep the simulator's output in a file; False shows it.

    Raises
    ------
    ValueError
        Unknown unit or simulator, or a refused configuration.
    SimulatorError
        The simulator is missing or refuses the design.
    BenchError
        A test failed or none ran.
    """
    design = generated(unit, config or Config()) if isinstance(unit, str) else unit
    folder = build(design, simulator, probes=probes, waves=bool(waves), variant=variant)
    module = bench.stem if isinstance(bench, Path) else bench or f"tb.bench_{design.name}"
    importable = [bench.resolve().parent] if isinstance(bench, Path) else []
    title = f"{module} on {design.name} ({design.configuration}, {simulator})"
    names = "|".join(map(re.escape, testcases))
    (folder / "runs").mkdir(exist_ok=True)
    here = Path(tempfile.mkdtemp(prefix=f"{time.strftime('%H%M%S')}-", dir=folder / "runs"))
    log = here / "log.txt"
    wave_file = waves.resolve() if isinstance(waves, Path) else folder / f"{design.name}.fst"
    test_args, plusargs = [], []
    if waves:
        wave_file.parent.mkdir(parents=True, exist_ok=True)
        if simulator == "verilator":
            test_args = ["--trace-file", str(wave_file)]
        else:
            plusargs = [f"+dumpfile_path={wave_file}"]
    bench_env = {"UNIT_SHEET": str(folder / "unit.json")} | dict(env or {})
    with _locked(folder, fcntl.LOCK_SH), _clean_environment(*importable):
        runner = _runner(simulator)
        # A failed test and a simulator that died both end here; the results file tells which.
        with suppress(RuntimeError, SystemExit):
            runner.test(
                test_module=module,
                hdl_toplevel=design.name,
                hdl_toplevel_lang="verilog",
                build_dir=folder / "obj",
                test_dir=here,
                results_xml=str(here / "results.xml"),
                test_filter=rf"\.({names})(/|$)" if testcases else None,
                seed=seed,
                extra_env=bench_env,
                test_args=test_args,
                plusargs=plusargs,
                waves=bool(waves),
                timescale=TIMESCALE,
                log_file=log if quiet else None,
            )
    results = _read_results(here / "results.xml", log, title)
    shutil.rmtree(here)
    return results
