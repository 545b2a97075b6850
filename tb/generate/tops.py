"""The bench around a unit, as text: templates of SystemVerilog, filled from its data sheet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cli.errors import UserError

from rtl.generate.verilog import TRACE
from tb.generate.memories import Expected, Format

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


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""


def pins(ports: Mapping[str, Any]) -> dict[str, Any]:
    """The ports that a bench connects: those with bits, clock and reset aside."""
    return {name: p for name, p in ports.items() if name not in ("clk", "rst") and p["width"]}


def plain(ports: Mapping[str, Any]) -> dict[str, Any]:
    """The ports that every system joins: without those that only benches need."""
    return {name: facts for name, facts in ports.items() if not name.startswith(TRACE)}


def wires(ports: Mapping[str, Any], driven: Iterable[str] = ()) -> str:
    """A wire for each port; `driven` are variables, which the bench assigns."""
    variables = set(driven)
    return "".join(
        f"  {'reg' if name in variables else 'wire'} {_range(facts['width'])}{name};\n"
        for name, facts in pins(ports).items()
    )


def instance(module: str, ports: Mapping[str, Any]) -> str:
    """The unit, each port on the wire of its name."""
    lines = [f"      .{name}({name})" for name in ("clk", "rst", *pins(ports))]
    return f"  {module} unit (\n" + ",\n".join(lines) + "\n  );\n"


def check(expected: Expected, ports: Mapping[str, Any], tensors: int) -> str:
    """The `bench_check` of a port; its word is the wire of its name."""
    address = expected.address if expected.address in pins(ports) else ""
    width = ports[address]["width"] if address else 0
    where = f"{{{32 - width}'d0, {address}}}" if 0 < width < 32 else address or "32'd0"
    return f"""\
  wire [31:0] compared_{expected.port};
  bench_check #(
      .FILE({{DIR, "/{expected.port}.mem"}}),
      .NAMES({{DIR, "/tensors.mem"}}),
      .PORT("{expected.port}"),
      .LANES({expected.format.length}),
      .WIDTH({expected.format.width}),
      .SIGNED({int(expected.format.signed)}),
      .ADDRESSED({int(bool(expected.address))}),
      .WORDS({expected.words}),
      .TENSORS({tensors})
  ) of_{expected.port} (
      .clk(clk),
      .rst(rst),
      .cycle(cycle),
      .inference(inference),
      .finish(finish),
      .en({expected.enable}),
      .address({where}),
      .word({expected.port}),
      .compared(compared_{expected.port})
  );
"""


def looked_at(name: str, form: Format, expected: str, enable: str) -> str:
    """The `bench_pins` of a port; its word is the wire of its name."""
    return f"""\
  wire [31:0] compared_{name};
  bench_pins #(
      .PORT("{name}"),
      .LANES({form.length}),
      .WIDTH({form.width}),
      .SIGNED({int(form.signed)})
  ) of_{name} (
      .clk(clk),
      .cycle(cycle),
      .en({enable}),
      .expected({expected}),
      .word({name}),
      .compared(compared_{name})
  );
"""


def sum_of(checks: Iterable[Expected]) -> str:
    """All values compared so far."""
    return " + ".join(f"compared_{expected.port}" for expected in checks)
