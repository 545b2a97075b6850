"""The program of the SoC's CPU: the C driver as it stands, and a main that takes its steps."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cli.command import ToolError
from cli.machine import GENERATED, ROOT

import litex
from litex.soc.integration import export

SOURCES = ROOT / "boards" / "litex" / "firmware"
DRIVER = ROOT / "driver"
COMPILED = (
    SOURCES / "crt0.S",
    SOURCES / "main.c",
    DRIVER / "bert2rtl.c",
)
FLAGS = (
    "-target",
    "riscv32-freestanding-none",
    "-mcpu=generic_rv32+m",  # of the CPU's variant
    "-std=gnu99",
    "-Os",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-sanitize=all",  # which zig adds
    "-ffunction-sections",
    "-Wl,--gc-sections",
)


def firmware(soc: Any, folder: Path) -> bytes:
    """The contents of the ROM for a finalized SoC; intermediate files are left in `folder`.

    Raises
    ------
    ToolError
        The compiler is missing, or it refuses the sources.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise ToolError("the C compiler for RISC-V (ziglang) is missing: run `make setup-litex`")
    generated = folder / "generated"
    generated.mkdir(parents=True, exist_ok=True)
    regions, constants = soc.mem_regions, soc.constants
    (generated / "mem.h").write_text(export.get_mem_header(regions))
    (generated / "soc.h").write_text(export.get_soc_header(constants))
    (generated / "csr.h").write_text(
        export.get_csr_header(soc.csr_regions, constants, csr_base=regions["csr"].origin)
    )
    # The linker looks for it in the folder in which it runs.
    (folder / "regions.ld").write_text(export.get_linker_regions(regions))
    library = Path(litex.__file__).parent / "soc"
    included = (
        folder,
        library / "software" / "include",
        library / "cores" / "cpu" / "vexriscv",
        DRIVER,
    )
    elf, binary = folder / "firmware.elf", folder / "firmware.bin"
    _zig(
        folder,
        "cc",
        *FLAGS,
        *(f"-I{path}" for path in included),
        "-T",
        str(SOURCES / "sections.ld"),
        *map(str, COMPILED),
        "-o",
        str(elf),
    )
    _zig(folder, "objcopy", "-O", "binary", str(elf), str(binary))
    return binary.read_bytes()


def _zig(folder: Path, *words: str) -> None:
    environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(GENERATED / "zig")}
    command = [sys.executable, "-m", "ziglang", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise ToolError(f"zig {words[0]} could not make the firmware:\n{done.stderr.strip()}")
