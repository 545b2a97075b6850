"""The package as a folder: every file's text by its path, and the folder that holds them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.errors import UserError

from rtl.dma.bus import Bus
from rtl.generate import library
from rtl.generate.package.constraints import constraints
from rtl.generate.package.core import core
from rtl.generate.package.data_sheet import data_sheet
from rtl.generate.sheet import Generated, file_list, module_files, sheet_text
from rtl.interface.config import Config
from rtl.registers import c_header

LICENCE = Path(__file__).resolve().parents[3] / "LICENSE"
RTL = "rtl"
"""The folder of the Verilog."""
BENCH_LIST = "bench.f"
"""In every folder of a bench."""
MHZ = 100.0
"""Default of the clock."""


def bench_folder(module: str) -> str:
    """The bench's folder in the package."""
    return f"{module}_bench"


def verilog_paths(verilog: str) -> list[str]:
    """Paths of the Verilog in the package, a file a module, that of the top first."""
    return [f"{RTL}/{name}" for name in module_files(verilog)]


def package_files(
    made: Generated,
    config: Config,
    bench: Mapping[str, str],
    bench_sources: Sequence[str],
    *,
    mhz: float = MHZ,
    bus: Bus | None = None,
) -> dict[str, str]:
    """Every file of the package by its path.

    Parameters
    ----------
    made
        The accelerator of `config`.
    bench
        What plays and checks it: text by path in the folder of the bench.
    bench_sources
        Those paths of `bench` that are compiled, in order; the Verilog follows them.
    mhz
        The clock of the constraints.
    bus
        Of an accelerator with DMA.

    Raises
    ------
    ValueError
        `mhz` is out of range.
    """
    module, place = made.module, bench_folder(made.module)
    rtl = verilog_paths(made.verilog)
    clocks = {f"constraints/{name}": text for name, text in constraints(module, mhz).items()}
    around = {f"{place}/{path}": text for path, text in bench.items()}
    examples = {
        f"memories/{example}/{name}": text
        for example, texts in library.examples().items()
        for name, text in texts.items()
    }
    files = {
        **{f"{RTL}/{name}": text for name, text in made.files.items()},
        f"{RTL}/{module}.json": sheet_text(made),
        f"software/{module}_registers.h": c_header(config, bus),
        f"{module}.f": file_list(rtl),
        f"{module}.core": core(
            module,
            rtl=rtl,
            bench=[f"{place}/{path}" for path in bench_sources],
            vectors=sorted(path for path in around if "/vectors/" in path),
        ),
        f"{module}.md": data_sheet(made, config, bench=f"{place}/", bus=bus),
    }
    if LICENCE.is_file():
        files["LICENSE"] = LICENCE.read_text(encoding="utf-8")
    return files | examples | clocks | around


def write_package(files: Mapping[str, str], folder: Path, module: str) -> list[Path]:
    """Write the files into `folder`, beside what else is there; returns them in order.

    All are written under a temporary name first, then renamed; a bench of an earlier package of
    the same module goes.

    Raises
    ------
    OSError
        Something cannot be written, or a file or folder of the same name is in the way; nothing
        of the package was put in its place then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{module}.", dir=folder))
    try:
        for name, text in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755 if path.suffix == ".sh" else 0o644)
        for name in files:
            _refuse_what_is_in_the_way(folder, name)
        bench = folder / bench_folder(module)
        if (bench / BENCH_LIST).is_file():
            shutil.rmtree(bench)
        elif bench.is_dir() and any(bench.iterdir()):
            raise UserError(
                f"{bench}: it holds something else than a bench: choose another folder with --out"
            )
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).replace(folder / name)
    finally:
        shutil.rmtree(temporary)
    return [folder / name for name in sorted(files)]


def _refuse_what_is_in_the_way(folder: Path, name: str) -> None:
    path = folder / name
    if path.is_dir():
        raise IsADirectoryError(
            None, "a folder stands where a file of the package belongs", str(path)
        )
    for above in path.relative_to(folder).parents:
        place = folder / above
        if place.exists() and not place.is_dir():
            raise NotADirectoryError(
                None, "a file stands where a folder of the package belongs", str(place)
            )
        if place.is_dir() and not os.access(place, os.W_OK):
            raise PermissionError(None, "no permission to write there", str(place))
