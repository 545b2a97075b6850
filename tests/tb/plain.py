"""Benches of tb.generate in tests: written, edited, and run by their own scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rtl.interface.config import Config
from sim import verilator
from sim.design import generated
from sim.record import recorded
from tb.generate.folder import MARK, Bench, bench_of
from tb.record import layout
from tb.scenarios import SMALL_LIMITS
from tests.sim.test_lint import slang_says, verilator_says

Benches = Callable[[str], tuple[Bench, Path]]
CONFIG = Config(lanes=4, **SMALL_LIMITS)
STALLS = 7
# How fast it runs does not matter.
FLAGS = "-CFLAGS -O0 -MAKEFLAGS OPT_FAST=-O0 -MAKEFLAGS OPT_SLOW=-O0 -MAKEFLAGS OPT_GLOBAL=-O0"


#: A register of each unit; with +fault the bits of it and of its like in other lanes are inverted.
FAULTS = {
    "requantize": "acc2",
    "activation": "read_data_1",
    "reciprocal": "product",
    "rsqrt": "product",
    "softmax": "sum2",
    "position_bias": "o_2",
    "layernorm": "affine",
    "matmul": "product_3_2",
    "accelerator": "affine",
}


def faulty(unit: str, verilog: str) -> str:
    """The Verilog of a unit with its fault behind the plusarg."""
    found, count = re.subn(
        rf"(\b{FAULTS[unit]} <= )(.*);", r'\1$test$plusargs("fault") != 0 ? ~(\2) : (\2);', verilog
    )
    assert count, f"{unit} has no register {FAULTS[unit]} any more: name another one"
    return found


def bench(unit: str, **settings: Any) -> Bench:
    """The bench of a small unit whose Verilog has a fault behind +fault."""
    design = generated(unit, CONFIG)
    known = json.loads(design.sheet), faulty(unit, design.verilog)
    settings = {"stalls": STALLS, "design": known} | settings
    if unit != "accelerator":
        settings["record"] = recorded(design, CONFIG)
    return bench_of(unit, CONFIG, **settings)


def play(
    folder: Path, simulator: str, *arguments: str, timeout: int = 800
) -> subprocess.CompletedProcess[str]:
    """Run a bench by its own script."""
    laid_out = verilator.executable()
    assert laid_out is not None
    path = os.pathsep.join([str(laid_out.parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "OBJCACHE": "ccache", "VERILATOR_FLAGS": FLAGS}
    command = [folder / f"run_{simulator}.sh", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)


def replay(
    folder: Path, simulator: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run what `play` has built once more, without the script."""
    (top,) = [path.stem for path in (folder / "bench").glob("*_bench.sv")]
    program = {
        "icarus": ["vvp", "-n", f"build_icarus/{top}.vvp"],
        "verilator": [f"build_verilator/{top}"],
    }
    command = [*program[simulator], *arguments]
    return subprocess.run(command, cwd=cwd or folder, capture_output=True, text=True, timeout=800)


def passed(done: subprocess.CompletedProcess[str]) -> int:
    """The number of values that were compared."""
    assert done.returncode == 0, done.stdout + done.stderr
    (count,) = re.findall(r"^PASS: (\d+) values compared in \d+ cycles$", done.stdout, re.M)
    return int(count)


def failed(done: subprocess.CompletedProcess[str]) -> str:
    """What it ended with."""
    assert done.returncode != 0, done.stdout
    assert "PASS" not in done.stdout
    return done.stdout + done.stderr


def counted(made: Bench, sheet: dict[str, Any]) -> dict[str, int]:
    """Values that must be compared at each port, counted in the files of golden words."""
    found: dict[str, int] = {}
    if "vectors/pins.mem" in made.files:
        inputs, outputs = layout(sheet["ports"])
        width = sum(sheet["ports"][name]["width"] for name in (*inputs, *outputs))
        read = [int(line, 16) >> width for line in made.files["vectors/pins.mem"].split()[:-1]]
        for place, name in enumerate(outputs):
            lanes = sheet["ports"][name].get("length", 1)
            found[name] = lanes * sum(bits >> place & 1 for bits in read)
        return found
    for path, text in made.files.items():
        port = Path(path).stem
        if not path.startswith("vectors/") or port not in sheet["ports"]:
            continue
        facts = sheet["ports"][port]
        length = facts.get("length", 1)
        shift = length * facts.get("element", facts)["width"]
        words = [int(line, 16) for line in text.split()[:-1]]
        found[port] = sum((word >> shift & (1 << length) - 1).bit_count() for word in words)
    return found


def edited(source: Path, folder: Path, *edits: tuple[str, str, str]) -> Path:
    """A copy of a bench; in the file of each edit the old text is made the new wherever it is."""
    shutil.copytree(source, folder)
    for name, old, new in edits:
        path = folder / name
        text = path.read_text()
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new))
    return folder


def without_a_word(folder: Path, top: str, sound: Mapping[str, str]) -> None:
    """Neither slang nor Verilator says anything of a bench that has the sound unit."""
    for name, text in sound.items():
        (folder / "rtl" / name).write_text(text)
    files = [folder / name for name in (folder / MARK).read_text().split()]
    assert slang_says(files, top) == ""
    assert verilator_says(files, top, "--timing") == ""
