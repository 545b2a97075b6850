"""A SoC in LiteX's own simulation, whose serial line is a socket: built and run."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.progress import stage

import numpy as np
from litedram.modules import MT48LC16M16
from litedram.phy.model import SDRAMPHYModel
from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim import SimPlatform
from litex.build.sim.config import SimConfig
from litex.soc.cores.uart import RS232PHYModel, UARTBone
from litex.soc.integration.soc_core import SoCCore
from migen.genlib.io import CRG

from boards.project import quiet, write_project
from sim.simulators import SimulatorError, check, clean_environment, tail

MEGAHERTZ = 62.5
HEADERS = {"event2/event.h": "libevent-dev", "json-c/json.h": "libjson-c-dev"}
"""What the C parts of LiteX's simulation include, by Debian package."""
STREAM = (("valid", 1), ("ready", 1), ("data", 8))
PADS = (
    ("sys_clk", 0, Pins(1)),
    (
        "serial",
        0,
        *(
            Subsignal(f"{side}_{n}", Pins(bits))
            for side in ("source", "sink")
            for n, bits in STREAM
        ),
    ),
)
SMALL = 1 << 16
"""Bytes of an image that the simulated line takes in seconds."""
PATIENCE = 60
"""Seconds that the simulation may take for an answer, or to start."""


class SimulatedSoC(SoCCore):
    """A SoC without a CPU on LiteX's simulated platform, with UARTBone and an SDRAM of 16 bits.

    Parameters
    ----------
    contents
        Of the SDRAM from the start.
    """

    def __init__(self, contents: bytes = b"") -> None:
        platform = SimPlatform("SIM", list(PADS))
        self.crg = CRG(platform.request("sys_clk"))
        super().__init__(
            platform,
            MEGAHERTZ * 1e6,
            cpu_type=None,
            with_uart=False,
            with_timer=False,
            integrated_sram_size=0,
        )
        self.line = RS232PHYModel(platform.request("serial"))
        self.uartbone = UARTBone(self.line, self.sys_clk_freq)
        self.bus.add_master("uartbone", self.uartbone.wishbone)
        chip = MT48LC16M16(self.sys_clk_freq, "1:1")
        self.sdrphy = SDRAMPHYModel(
            chip, data_width=16, clk_freq=self.sys_clk_freq, init=words(contents)
        )
        self.add_sdram("sdram", phy=self.sdrphy, module=chip, l2_cache_size=0)
        self.comb += platform.trace.eq(0)


def words(data: bytes) -> list[int]:
    """The 32-bit words of a memory."""
    return np.frombuffer(data.ljust(-(-len(data) // 4) * 4, b"\0"), "<u4").tolist()


def build(soc: SoCCore, folder: Path, serial: str, **arguments: Any) -> None:
    """Write LiteX's simulation of a SoC and compile it.

    Parameters
    ----------
    serial
        LiteX's module at the serial pads; arguments are its own.

    Raises
    ------
    SimulatorError
        A tool or a header is missing, or the compiler refuses the sources.
    """
    check("verilator")
    for header, package in HEADERS.items():
        command = ["gcc", "-E", "-xc", "-"]
        text = f"#include <{header}>\n"
        if subprocess.run(command, input=text, capture_output=True, text=True).returncode != 0:
            raise SimulatorError(
                f"LiteX's simulation needs {header} (Debian: {package}): run `make setup-synth`"
            )
    config = SimConfig()
    config.add_clocker("sys_clk", freq_hz=int(soc.sys_clk_freq))
    config.add_module(serial, "serial", args=arguments)
    shutil.rmtree(folder / "gateware" / "modules", ignore_errors=True)
    how: dict[str, Any] = {"run": False, "sim_config": config, "jobs": 2, "opt_level": "O1"}
    with quiet():
        if soc.cpu_type is None:
            write_project(soc, folder, **how)
        else:  # LiteX's builder would compile its BIOS
            soc.build(build_dir=str(folder / "gateware"), **how)
    stage(f"building LiteX's simulation in {folder}")
    log = folder / "build.log"
    with clean_environment(), log.open("w") as output:
        command = ["bash", "build_sim.sh"]
        where = folder / "gateware"
        done = subprocess.run(command, cwd=where, stdout=output, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SimulatorError(
            f"LiteX's simulation could not be built; the end of {log}:\n{tail(log)}"
        )


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def served(folder: Path, line: int) -> Iterator[str]:
    """Run the simulation and litex_server on its line; the server's HOST:PORT."""
    port = free_port()
    server = [sys.executable, "-m", "litex.tools.litex_server", "--uart"]
    server += ["--uart-port", f"socket://127.0.0.1:{line}", "--bind-port", str(port)]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "run.log").open("w"))
        for command, waits in (([str(Path("obj_dir", "Vsim"))], line), (server, port)):
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    cwd=folder / "gateware",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
            stack.callback(process.kill)
            _await(waits, process, folder / "run.log")
        yield f"127.0.0.1:{port}"


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a process listens."""
    listening = f":{port:04X} "
    until = time.monotonic() + PATIENCE
    while listening not in Path("/proc/net/tcp").read_text():
        if process.poll() is not None or time.monotonic() > until:
            raise SimulatorError(f"the simulation did not start; the end of {log}:\n{tail(log)}")
        time.sleep(0.1)
