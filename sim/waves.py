"""Views of a recorded waveform: its streams, phases and stalls in named groups.

    accelerator.gtkw             GTKWave's save file: gtkwave accelerator.gtkw
    accelerator.sucl             Surfer's command file: surfer --command-file accelerator.sucl
    accelerator.stalls.txt       the causes of a stall, by number, that GTKWave shows as names
    accelerator.operations.txt   the operations of the program, by number

They lie beside accelerator.fst. Surfer names its sections by dividers: its commands group only what
is selected by hand, and its state files belong to one version of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cli.files import write

from rtl.interface.trace import Stall
from sim.design import Design
from tb.trace import CAUSES

# GTKWave's flags of a trace: how a value is shown, and what is no value at all.
_BINARY, _DECIMAL, _HEXADECIMAL, _TRANSLATED = 0x28, 0x24, 0x22, 0x2000
_GROUP_BEGIN, _GROUP_END = 0x800200, 0x1000200

_COUNTERS = tuple(
    f"registers__value__{name}" for name in ("cycles", *(f"stall_{cause}" for cause in CAUSES))
)


def groups(design: Design) -> dict[str, list[str]]:
    """Names of signals of the top module by group: clock, streams, phases, stalls, the rest."""
    ports = list(design.ports)
    found = {"clock": ["clk", "rst"]}
    for match in filter(None, (re.fullmatch(r"(.+?)(?:__|_t)valid", port) for port in ports)):
        stream = match[1]
        pins = [p for p in ports if re.fullmatch(rf"{re.escape(stream)}(__\w+|_t[a-z]+)", p)]
        found[f"stream {stream}"] = pins
    found["phases"] = ["trace_operation", "trace_active"]
    found["stalls"] = ["trace_stall", *_COUNTERS]
    found["written intermediates"] = [p for p in ports if p.startswith("trace_")]
    found["registers and control"] = ports
    there, shown = set(ports) | _internal(design), set()
    for name, signals in found.items():
        found[name] = [s for s in signals if s in there and s not in shown]
        shown |= set(found[name])
    return {name: signals for name, signals in found.items() if signals}


def _internal(design: Design) -> set[str]:
    """Wires and registers of the top module."""
    start = design.verilog.index(f"module {design.name}(")
    body = design.verilog[start : design.verilog.index("endmodule", start)]
    return set(
        re.findall(r"^  (?:wire|reg) (?:signed )?(?:\[[^]]+\] )?(\w+)\b", body, re.MULTILINE)
    )


def _widths(design: Design) -> dict[str, int]:
    """Bits of every port; a counter has 32."""
    return dict.fromkeys(_COUNTERS, 32) | {name: port.width for name, port in design.ports.items()}


def gtkwave(design: Design, waveform: Path) -> str:
    """The text of GTKWave's save file."""
    lines = [
        "[*] written by bert2rtl: python -m sim.run --waves",
        f'[dumpfile] "{waveform.resolve()}"',
        "[timestart] 0",
        "[size] 1600 900",
        f"[treeopen] {design.name}.",
        "[sst_width] 220",
        "[signals_width] 320",
        "[sst_expanded] 1",
    ]
    widths = _widths(design)
    for name, signals in groups(design).items():
        lines += [f"@{_GROUP_BEGIN:x}", f"-{name}"]
        for signal in signals:
            width = widths[signal]
            table = _tables(waveform).get(signal)
            if table is not None:
                lines += [f"@{_TRANSLATED | _DECIMAL:x}", f"^1 {table.resolve()}"]
            elif signal in _COUNTERS:
                lines.append(f"@{_DECIMAL:x}")
            else:
                lines.append(f"@{_BINARY if width == 1 else _HEXADECIMAL:x}")
            bits = "" if width == 1 else f"[{width - 1}:0]"
            lines.append(f"{design.name}.{signal}{bits}")
        lines += [f"@{_GROUP_END:x}", f"-{name}"]
    return "\n".join(lines) + "\n"


def surfer(design: Design, waveform: Path) -> str:
    """The text of Surfer's command file."""
    lines = [f"load_file {waveform.resolve()}"]
    for name, signals in groups(design).items():
        lines += [f"divider_add {name}", *(f"variable_add {design.name}.{s}" for s in signals)]
    return "\n".join([*lines, "zoom_fit"]) + "\n"


def _tables(waveform: Path) -> dict[str, Path]:
    """Files with the names of the values of a signal."""
    return {
        "trace_stall": waveform.with_suffix(".stalls.txt"),
        "trace_operation": waveform.with_suffix(".operations.txt"),
    }


def write_views(design: Design, waveform: Path, operations: Mapping[int, str]) -> tuple[Path, Path]:
    """Write all files beside the waveform; the paths of GTKWave's and of Surfer's.

    operations
        What the program's descriptors compute, by their index.
    """
    tables = _tables(waveform)
    # The port holds eight bits of the number; of two operations with the same, the first counts.
    names = {number % 256: name for number, name in reversed(list(operations.items()))}
    numbered = sorted(names.items())
    write(tables["trace_operation"], "".join(f"{number} {name}\n" for number, name in numbered))
    write(tables["trace_stall"], "".join(f"{cause.value} {cause.name}\n" for cause in Stall))
    paths = waveform.with_suffix(".gtkw"), waveform.with_suffix(".sucl")
    write(paths[0], gtkwave(design, waveform))
    write(paths[1], surfer(design, waveform))
    return paths
