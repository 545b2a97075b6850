"""The bench around a unit, as text: templates of SystemVerilog, filled from its data sheet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.errors import UserError

from rtl.generate.verilog import TRACE
from tb.generate.memories import Expected

HERE = Path(__file__).parent
PARTS = "parts.sv"


def filled(template: str, **parts: object) -> str:
    """The template of that name with every {{part}} replaced; all must be used and none left."""
    text = (HERE / template).read_text(encoding="utf-8")
    names = set(re.findall(r"\{\{(\w+)\}\}", text))
    if names != set(parts):
        raise UserError(f"{template} has {sorted(names)}, given are {sorted(parts)}")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: str(parts[match[1]]), text)


def parts_text() -> str:
    """The modules that every bench consists of."""
    return (HERE / PARTS).read_text(encoding="utf-8")


def pins(ports: Mapping[str, Any]) -> dict[str, Any]:
    """The ports that a bench connects: those with bits, clock and reset aside."""
    return {name: p for name, p in ports.items() if name not in ("clk", "rst") and p["width"]}


def plain(ports: Mapping[str, Any]) -> dict[str, Any]:
    """The ports that every system joins: without those that only benches need."""
    return {name: facts for name, facts in ports.items() if not name.startswith(TRACE)}


def wires(ports: Mapping[str, Any], prefix: str = "") -> str:
    """A wire for each port; inputs that begin with `prefix` are variables, 0 until they are given.

    Without a prefix there are none.
    """
    lines = []
    for name, facts in pins(ports).items():
        width = facts["width"]
        given = prefix and name.startswith(prefix) and facts["direction"] == "input"
        kind, value = ("reg", f" = {width}'d0") if given else ("wire", "")
        bits = f"[{width - 1}:0] " if width > 1 else ""
        lines.append(f"  {kind} {bits}{name}{value};\n")
    return "".join(lines)


def part(module: str, name: str, settings: Mapping[str, object], ports: Mapping[str, str]) -> str:
    """An instance of a module with these parameters, and what its ports are connected to."""
    given, joined = (
        ",\n".join(f"      .{key}({value})" for key, value in pairs.items())
        for pairs in (settings, ports)
    )
    start = f"{module} #(\n{given}\n  ) {name}" if settings else f"{module} {name}"
    return f"  {start} (\n{joined}\n  );\n"


def instance(module: str, ports: Mapping[str, Any]) -> str:
    """The unit, each port on the wire of its name."""
    return part(module, "unit", {}, {name: name for name in ("clk", "rst", *pins(ports))})


def named(*names: str, **others: str) -> dict[str, str]:
    """Ports on the wires of their names, and others."""
    return dict(zip(names, names)) | others


def check(expected: Expected, ports: Mapping[str, Any], tensors: int) -> str:
    """The `bench_check` of a port; its word is the wire of its name."""
    port, form = expected.port, expected.format
    address = expected.address if expected.address in pins(ports) else ""
    width = ports[address]["width"] if address else 0
    settings = {
        "FILE": f'{{DIR, "/{port}.mem"}}',
        "NAMES": '{DIR, "/tensors.mem"}',
        "PORT": f'"{port}"',
        "LANES": form.length,
        "WIDTH": form.width,
        "SIGNED": int(form.signed),
        "ADDRESSED": int(bool(expected.address)),
        "WORDS": expected.words,
        "TENSORS": tensors,
    }
    joined = named("clk", "rst", "cycle", "inference", "finish", en=expected.enable)
    joined["address"] = f"{{{32 - width}'d0, {address}}}" if 0 < width < 32 else address or "32'd0"
    joined |= {"word": port, "compared": f"compared_{port}"}
    wire = f"  wire [31:0] compared_{port};\n"
    return wire + part("bench_check", f"of_{port}", settings, joined)
