"""A project for the tools of a board: litex-boards' own SoC with the accelerator."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import json
import logging
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cli.errors import Different, ToolError, UserError
from cli.files import write_if_changed

import litex_boards.targets
from litedram.init import get_sdram_phy_py_header
from litex.build.generic_platform import ConstraintError
from litex.soc.integration.builder import Builder
from litex.soc.integration.soc_core import SoCCore, soc_core_argdict, soc_core_args

from boards.litex import add_accelerator, memory_bits
from rtl.accelerator_dma import NAME
from rtl.dma.bus import Bus
from rtl.generate.sheet import generated
from rtl.interface.config import Config
from sim.estimate.area import largest_errors
from sim.estimate.fits import PARTS, shares, verdict

DEFAULTS: dict[str, dict[str, Any]] = {
    "radiona_ulx3s": {"device": "LFE5U-85F", "sys_clk_freq": 62.5e6},
    "digilent_arty": {"variant": "a7-100"},
}
"""Arguments of a board's BaseSoC that are not litex-boards' own defaults."""
CORE = ("--cpu-type=None", "--l2-size=0", "--no-uart", "--no-timer", "--integrated-sram-size=0")
CORE_WITH_CPU = ("--l2-size=0", "--uart-name=crossover")
BAUD = 1_000_000
BRIDGES = ("with_etherbone", "with_uartbone", "with_jtagbone")
"""Ways from a computer to the bus, the fastest first."""
RAM_BASE, RAM_BYTES = 0x4000_0000, 0x8000
"""The memory in block RAM where the SoC has no LiteDRAM."""
OPEN_TOOLCHAIN = "LatticeTrellisToolchain"
OPEN_TOOLS = ("yosys", "nextpnr-ecp5", "ecppack")
PLACEMENT = "--placer static --router router1 --report timing.json "
"""Keeps the accelerator together in a part that is mostly empty, as in sim/synth/place.py."""


def board_names() -> list[str]:
    """The boards of litex-boards."""
    return sorted(module.name for module in pkgutil.iter_modules(litex_boards.targets.__path__))


def base_soc(board: str, arguments: dict[str, Any]) -> SoCCore:
    """litex-boards' SoC of a board with a bridge; without a CPU unless cpu_type is given.

    Parameters
    ----------
    arguments
        Of its BaseSoC or of SoCCore, beside DEFAULTS.

    Raises
    ------
    ValueError
        The board or an argument is not known, or litex-boards cannot make the SoC.
    """
    if board not in board_names():
        raise UserError(f"--board {board}: not a board of litex-boards; --list shows them")
    core = argparse.ArgumentParser()
    soc_core_args(core)
    options = CORE_WITH_CPU if "cpu_type" in arguments else CORE
    chosen = soc_core_argdict(core.parse_args([*options, f"--uart-baudrate={BAUD}"]))
    chosen |= DEFAULTS.get(board, {}) | arguments
    try:
        base = importlib.import_module(f"litex_boards.targets.{board}").BaseSoC
        known = inspect.signature(base).parameters
        for name in arguments:
            if name not in (known.keys() | inspect.signature(SoCCore).parameters.keys()):
                choice = ", ".join(each for each in known if each != "kwargs")
                raise UserError(f"--argument {name}: {board} has {choice}")
        bridges = [bridge for bridge in BRIDGES if bridge in (known.keys() | chosen.keys())]
        soc = _first(base, chosen, bridges)
        if not soc.bus.masters:
            raise UserError(f"--board {board}: litex-boards' SoC has no bridge to a computer")
        if "main_ram" not in soc.bus.regions:
            soc.add_ram("main_ram", soc.mem_map.get("main_ram", RAM_BASE), RAM_BYTES)
    except ValueError:
        raise
    except Exception as error:  # the boards are 160 programs of others
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"--board {board}: litex-boards cannot make its SoC ({reason})") from None
    return soc


def _first(base: Any, chosen: dict[str, Any], bridges: Sequence[str]) -> SoCCore:
    """The SoC with the first bridge for which the board has pins."""
    for bridge in bridges[:-1]:
        with contextlib.suppress(ConstraintError):
            return base(**chosen | {bridge: True})
    return base(**chosen | {bridges[-1]: True})


def check_part(device: str, config: Config) -> None:
    """Refuse a configuration that the part of a board cannot hold, by sim.estimate.

    A part that sim.estimate does not know is not checked.

    Raises
    ------
    ValueError
        It needs more than the part has.
    """
    name = device.upper().replace("-LV", "-")
    for part in PARTS.values():
        if name.startswith(part.name.upper()):
            answer = verdict(part, config, largest_errors())
            if answer.startswith("no"):
                used = ", ".join(f"{name} {x:.0%}" for name, x in shares(part, config).items())
                raise UserError(
                    f"the {part.name} cannot hold this accelerator ({answer}), which needs of its "
                    f"{used} by sim.estimate: choose fewer --lanes, --tokens, --hidden or --ffn"
                )


def add(soc: SoCCore, config: Config, folder: Path) -> None:
    """Generate the accelerator into `folder` and add it to the SoC."""
    made = generated("accelerator", config, trace=False, bus=Bus(data_bits=memory_bits(soc)))
    write_if_changed(folder / f"{NAME}.v", made.verilog)
    soc.platform.add_source(str((folder / f"{NAME}.v").resolve()))
    with quiet():
        add_accelerator(soc, made.facts)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without LiteX's log, and in this folder again at the end."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.chdir("."):
            yield
    finally:
        logging.disable(before)


def write_project(soc: SoCCore, folder: Path, run: bool, **arguments: Any) -> None:
    """Write Verilog, constraints, script, csr.csv and sdram_init.py; then `run` the script."""
    dram, bios = getattr(soc, "sdram", None), soc.cpu_type is not None
    if dram and not bios:
        settings = dram.controller.settings
        text = get_sdram_phy_py_header(settings.phy, settings.timing)
        write_if_changed(folder / "sdram_init.py", text)
    builder = Builder(soc, str(folder), compile_software=bios, csr_csv=str(folder / "csr.csv"))
    builder.build(run=run, **arguments)


def use_open_tools(folder: Path) -> None:
    """Put the yowasp tools where LiteX looks for Yosys and nextpnr: first on PATH.

    Raises
    ------
    ToolError
        One of them is not installed.
    """
    programs = folder.resolve() / "bin"
    programs.mkdir(exist_ok=True)
    for name in OPEN_TOOLS:
        program = Path(sys.executable).with_name(f"yowasp-{name}")
        if not program.exists():
            raise ToolError(f"{program.name} is not installed: run `make setup-synth` first")
        (programs / name).unlink(missing_ok=True)
        (programs / name).symlink_to(program)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"


def check_routed(gateware: Path, megahertz: float) -> None:
    """Print what nextpnr placed, and its clock.

    Raises
    ------
    Different
        The SoC's clock is faster.
    """
    report = json.loads((gateware / "timing.json").read_text())
    for kind, cells in report["utilization"].items():
        if cells["used"]:
            print(f"{kind:16} {cells['used']:>7,} of {cells['available']:>7,}")
    reached = min(clock["achieved"] for clock in report["fmax"].values())
    print(f"{reached:.1f} MHz reached, {megahertz:g} MHz used")
    if reached < megahertz:
        raise Different(
            f"nextpnr reaches {reached:.1f} MHz, the SoC's clock is {megahertz:g} MHz: choose a "
            "lower one with --argument sys_clk_freq=HZ"
        )
