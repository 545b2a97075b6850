"""LiteX's own simulation of the SoC: generated, built where it changed, and run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version as release
from pathlib import Path
from threading import Timer

from cli.files import locked
from cli.machine import GENERATED, ROOT
from cli.progress import stage

from litex.build.sim.config import SimConfig

from boards.litex.compiler import firmware
from boards.litex.job import Job
from boards.litex.soc import CLOCK_HZ, ROM_BYTES, SimulatedSoC
from rtl.accelerator_dma import NAME
from rtl.dma.bus import Bus
from rtl.generate.sheet import generated
from rtl.interface.config import Config
from sim.design import SOURCES, Design, kept, short_name
from sim.simulators import SimulatorError, check, clean_environment, tail, version

FOLDER = GENERATED / "litex"
HEADERS = {"event2/event.h": "libevent-dev", "json-c/json.h": "libjson-c-dev"}
"""Of the C programs that LiteX's simulation consists of, by Debian package."""
RELEASES = ("litex", "migen", "pythondata-cpu-vexriscv")
PARTS = ROOT / "boards" / "litex"
FIRST, LAST = "accelerator of ", "end"
SECONDS = 3600
"""After which a CPU that does not come to its end is given up."""


def accelerator(config: Config, bus: Bus) -> Design:
    """What `rtl.generate accelerator --dma` writes; its sheet is the JSON."""

    def make() -> Design:
        made = generated("accelerator", config, trace=False, bus=bus)
        return Design(
            name=made.module,
            configuration=short_name(config),
            verilog=made.verilog,
            ports={},
            sheet=json.dumps(made.facts),
        )

    name = f"{NAME}-{short_name(config)}-{bus.data_bits}"
    return kept(name, f"{SOURCES} {config} {bus}", make)


def check_tools() -> None:
    """Refuse a machine that lacks something, before anything is made.

    Raises
    ------
    SimulatorError
        Verilator or a header is missing.
    """
    check("verilator")
    for header, package in HEADERS.items():
        command = ["gcc", "-E", "-xc", "-"]
        text = f"#include <{header}>\n"
        if subprocess.run(command, input=text, capture_output=True, text=True).returncode != 0:
            raise SimulatorError(
                f"LiteX's simulation needs {header} (Debian: {package}): run `make setup-litex`"
            )


def simulate(job: Job, standard: str, tell: Callable[[str], None]) -> list[str]:
    """Run a job to its end.

    Parameters
    ----------
    standard
        The bus of the SoC: "axi" or "wishbone".
    tell
        Is given each line of the CPU as it comes.

    Returns the CPU's lines.

    Raises
    ------
    ToolError
        Something is missing, or a tool refuses its input.
    """
    check_tools()
    folder = FOLDER / f"{standard}-{short_name(job.config)}-{job.memory_bytes}"
    with locked(folder / "lock"):
        with _quiet():
            _generate(job, standard, folder)
        _build(f"{standard} {job.memory_bytes}", folder)
        return _run(folder, tell)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what LiteX tells of every step, and back in this folder."""
    here, before = Path.cwd(), logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
        os.chdir(here)


def _generate(job: Job, standard: str, folder: Path) -> None:
    """Write what LiteX makes of the SoC; contents of memories are files of their own."""
    made, path = accelerator(job.config, job.bus), folder / f"{NAME}.v"
    path.write_text(made.verilog)
    stage("generating the SoC and its firmware")
    soc = SimulatedSoC(json.loads(made.sheet), job.memory_bytes, standard)
    soc.platform.add_source(str(path))
    soc.finalize()
    soc.init_ram("rom", _words(firmware(soc, folder / "firmware"), ROM_BYTES))
    soc.init_ram("main_ram", _words(job.memory, job.memory_bytes))
    config = SimConfig()
    config.add_clocker("sys_clk", freq_hz=CLOCK_HZ)
    config.add_module("serial2console", "serial")
    soc.build(build_dir=str(folder), sim_config=config, run=False, jobs=2, opt_level="O1")


def _words(data: bytes, most: int) -> list[int]:
    """The words of a memory of `most` bytes."""
    if len(data) > most:
        raise ValueError(f"a memory of {most} bytes cannot hold {len(data)}")
    data = data.ljust(-(-len(data) // 4) * 4, b"\0")
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def _build(facts: str, folder: Path) -> None:
    """Compile, unless it was compiled of the same: of `facts`, this room and its tools.

    LiteX writes the same SoC in another order each time, so its text says nothing.
    """
    texts = [facts, (folder / f"{NAME}.v").read_text()]
    texts += [path.read_text() for path in (Path(__file__), *sorted(PARTS.glob("*.py")))]
    texts += [version("verilator"), *map(release, RELEASES)]
    key = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    stamp, log = folder / "stamp", folder / "build.log"
    if stamp.exists() and stamp.read_text() == key:
        return
    stage(f"building LiteX's simulation in {folder}")
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder / "modules", ignore_errors=True)
    with clean_environment(), log.open("w") as output:
        command = ["bash", "build_sim.sh"]
        done = subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SimulatorError(
            f"LiteX's simulation could not be built; the end of {log}:\n{tail(log)}"
        )
    stamp.write_text(key)


def _run(folder: Path, tell: Callable[[str], None]) -> list[str]:
    """The lines of the CPU; those that the simulation says of itself are left out."""
    stage("simulating")
    lines: list[str] = []
    with subprocess.Popen(
        [str(folder / "obj_dir" / "Vsim")],
        cwd=folder,
        stdin=subprocess.PIPE,  # its terminal; LiteX waits for events of it
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as process:
        patience = Timer(SECONDS, process.kill)
        patience.start()
        try:
            for line in map(str.rstrip, process.stdout or ()):
                if lines or line.startswith((FIRST, "failed")):
                    lines.append(line)
                    tell(line)
                if line == LAST:
                    break
        finally:
            patience.cancel()
            process.kill()
    return lines
