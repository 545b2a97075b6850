"""Whole SoCs in LiteX's simulation: the C driver on a CPU, and the host program of a board."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("litex_boards")

import litex
from litex.soc.integration import export
from litex.soc.integration.soc_core import SoCCore

from boards import simulated, simulation
from boards.project import add, quiet
from golden.encoder import run as golden
from golden.model import Shape
from golden.random import random_model
from rtl.compile.image import image_bytes
from rtl.compile.program import compile_model, image_of
from rtl.interface.config import Config
from tb.packing import token_words
from tests.boards.test_host import write_sample
from tests.boards.test_litex import SmallSoC

ROOT = Path(__file__).resolve().parents[2]
FIRMWARE = Path(__file__).with_name("firmware")
CONFIG = Config(lanes=4, tokens=32, hidden=8, ffn=16, labels=4)
SHAPE: dict[str, Any] = {"layers": 1, "hidden": 8, "heads": 2, "head_size": 4, "ffn": 12}
SHAPE |= {"labels": 3, "vocabulary": 20, "positions": 32, "types": 2}
SIZES = {"integrated_rom_size": 0x4000, "integrated_sram_size": 0x1000}
SIZES |= {"integrated_main_ram_size": 0x10000}
CONSOLE = {"with_uart": True, "uart_name": "sim", "with_timer": False}
ZIG = ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m", "-std=gnu99", "-Os")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
SECTIONS = ("-fno-sanitize=all", "-ffunction-sections", "-Wl,--gc-sections")


def memory_of(lengths: tuple[int, ...]) -> bytes:
    """The job of firmware/main.c: sequences with golden's logits, and the image."""
    rng = np.random.default_rng(0)
    model = random_model(Shape(**SHAPE), 0)
    words: list[int] = []
    for length in lengths:
        ids, types = rng.integers(0, 20, length), rng.integers(0, 2, length)
        attend = np.r_[1, rng.integers(0, 2, length - 1)]
        logits = np.ravel(golden(model, ids, types, attend))
        tokens = [int(word) for word in token_words(ids, types, attend)]
        words += [length, *tokens, len(logits), *(int(logit) & 0xFFFF_FFFF for logit in logits)]
    image = image_bytes(image_of(model, compile_model(model, CONFIG)))
    offset = -(-4 * (3 + len(words)) // 64) * 64
    head = struct.pack(f"<{3 + len(words)}I", offset, len(image), len(lengths), *words)
    return head.ljust(offset, b"\0") + image


def zig(folder: Path, *words: str) -> None:
    environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build" / "zig")}
    command = [sys.executable, "-m", "ziglang", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def firmware_of(soc: SoCCore, folder: Path) -> bytes:
    """The C driver and firmware/main.c for a finalized SoC."""
    generated = folder / "generated"
    generated.mkdir()
    regions, constants = soc.mem_regions, soc.constants
    (generated / "mem.h").write_text(export.get_mem_header(regions))
    (generated / "soc.h").write_text(export.get_soc_header(constants))
    header = export.get_csr_header(soc.csr_regions, constants, csr_base=regions["csr"].origin)
    (generated / "csr.h").write_text(header)
    (folder / "regions.ld").write_text(export.get_linker_regions(regions))
    library = Path(litex.__file__).parent / "soc"
    places = (library / "software" / "include", library / "cores" / "cpu" / "vexriscv")
    included = [f"-I{path}" for path in (folder, *places, ROOT / "driver")]
    sources = [FIRMWARE / "crt0.S", FIRMWARE / "main.c", ROOT / "driver" / "bert2rtl.c"]
    options = [*ZIG, *WARNINGS, *SECTIONS, *included, "-T", str(FIRMWARE / "sections.ld")]
    zig(folder, "cc", *options, *map(str, sources), "-o", "firmware.elf")
    zig(folder, "objcopy", "-O", "binary", "firmware.elf", "firmware.bin")
    return (folder / "firmware.bin").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("standard", ["axi", "wishbone"])
def test_the_c_driver_on_a_cpu(standard: str, tmp_path: Path) -> None:
    """Polling, interrupts, a damaged stream, a damaged row and a wrong address."""
    pytest.importorskip("ziglang", reason="make setup-synth")
    with quiet():
        soc = SmallSoC(standard, "vexriscv", **SIZES, **CONSOLE)
    add(soc, CONFIG, tmp_path)
    soc.comb += soc.platform.trace.eq(0)
    with quiet():
        soc.finalize()
    soc.init_ram("rom", simulated.words(firmware_of(soc, tmp_path)))
    soc.init_ram("main_ram", simulated.words(memory_of((5, 12))))
    simulated.build(soc, tmp_path, "serial2console")
    with subprocess.Popen(
        [str(Path("obj_dir", "Vsim"))],
        cwd=tmp_path / "gateware",
        stdin=subprocess.PIPE,  # its terminal
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        lines = iter(process.stdout or ())
        verdict = next((line for line in lines if line.startswith(("PASS", "FAIL"))), "silence")
        process.kill()
    assert verdict == "PASS\n"


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_review_on_the_simulated_board(tmp_path, capsys):
    write_sample(tmp_path)
    words = ["--quantized", str(tmp_path / "model"), "--lanes", "4", "--review", "the film was bad"]
    assert simulation.main(words) == 0
    assert capsys.readouterr().out.endswith("logits as golden's\n")
