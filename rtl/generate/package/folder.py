"""The package as a folder: every file's text by its path, and the folder that holds them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.errors import UserError

from rtl.dma.bus import Bus
from rtl.generate import diagram, library
from rtl.generate.package import waves
from rtl.generate.package.constraints import constraints
from rtl.generate.package.core import core
from rtl.generate.package.data_sheet import data_sheet
from rtl.generate.package.expected import Expected
from rtl.generate.package.instances import verilog, vhdl
from rtl.generate.package.ipxact import component
from rtl.generate.package.vendors import quartus, vivado
from rtl.generate.sheet import Generated, file_list, generated, module_files, sheet_text
from rtl.interface.config import Config
from rtl.registers.export import c_header

LICENCE = Path(__file__).resolve().parents[3] / "LICENSE"
RTL = "rtl"
"""The folder of the Verilog."""
MEMORIES = "memories"
"""The folder of examples of other memory."""
BLOCKS = "images/blocks.svg"
"""The block diagram."""
BENCH_LIST = "bench.f"
"""In every folder of a bench."""
MHZ = 100.0
"""Default of the clock."""


@dataclass(frozen=True, kw_only=True)
class Around:
    """The bench of a package.

    Attributes
    ----------
    files
        Text by path in the folder of the bench.
    sources
        Those that are compiled, in order; the Verilog of the accelerator follows them.
    """

    files: Mapping[str, str]
    sources: Sequence[str]


def bench_folder(module: str) -> str:
    """Where the bench lies in the package."""
    return f"{module}_bench"


def verilog_paths(verilog: str) -> list[str]:
    """Where the Verilog lies in the package, a file a module, that of the top first."""
    return [f"{RTL}/{name}" for name in module_files(verilog)]


def package_files(
    made: Generated,
    config: Config,
    bench: Around,
    *,
    mhz: float = MHZ,
    bus: Bus | None = None,
    expected: Expected | None = None,
) -> dict[str, str]:
    """Every file of the package by its path.

    Parameters
    ----------
    made
        The accelerator of `config`.
    bench
        What plays and checks it.
    mhz
        The clock of the constraints.
    bus
        Of an accelerator with DMA.
    expected
        What the data sheet says of area, bandwidth and latency; None leaves it out.

    Raises
    ------
    ValueError
        The clock is none.
    """
    module, ports = made.module, made.facts["ports"]
    clocks = {f"constraints/{name}": text for name, text in constraints(module, mhz).items()}
    around = {f"{bench_folder(module)}/{path}": text for path, text in bench.files.items()}
    shown = waves.shown_in(bus)
    images = {BLOCKS: diagram.drawn()}
    images |= {f"images/{name}.svg": waves.DIAGRAMS[name]() for name in shown}
    captions = {BLOCKS: diagram.CAPTION}
    captions |= {f"images/{name}.svg": waves.CAPTIONS[name] for name in shown}
    files = {
        **{f"{RTL}/{name}": text for name, text in made.files.items()},
        f"{RTL}/{module}.json": sheet_text(made),
        f"templates/{module}_instance.v": verilog(module, ports),
        f"templates/{module}_component.vhd": vhdl(module, ports),
        f"software/{module}_registers.h": c_header(config, bus),
    }
    for example, texts in library.examples().items():
        files |= {f"{MEMORIES}/{example}/{name}": text for name, text in texts.items()}
    files |= clocks | images | around
    rtl = verilog_paths(made.verilog)
    files[f"{module}.f"] = file_list(rtl)
    sources = [f"../{path}" for path in rtl]
    sets = {
        "rtl": sources,
        "constraints": [f"../{path}" for path in sorted(clocks)],
        "software": [f"../software/{module}_registers.h"],
    }
    files |= {
        f"ip/{module}.xml": component(module, ports, config, sets, bus),
        f"ip/{module}_vivado.tcl": vivado(module, ports, sources),
        f"ip/{module}_hw.tcl": quartus(module, ports, sources, bus),
    }
    files[f"{module}.core"] = core(
        module,
        rtl=rtl,
        constraints=sorted(clocks),
        bench=[f"{bench_folder(module)}/{path}" for path in bench.sources],
        vectors=sorted(path for path in around if "/vectors/" in path),
    )
    files[f"{module}.md"] = data_sheet(
        made,
        config,
        images=captions,
        bench=f"{bench_folder(module)}/",
        bus=bus,
        mhz=mhz,
        expected=expected,
    )
    if LICENCE.is_file():
        files["LICENSE"] = LICENCE.read_text(encoding="utf-8")
    return files


def accelerator(
    config: Config, *, prefix: str = "", trace: bool = False, bus: Bus | None = None
) -> Generated:
    """What a package is made of; errors are those of `rtl.generate.sheet.generate`."""
    return generated("accelerator", config, prefix=prefix, trace=trace, bus=bus)


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
