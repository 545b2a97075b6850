"""The one list of trace ports and stalls is that of the gateware, and so is the C++ header."""

import re

import pytest
from amaranth.hdl import Shape
from amaranth.lib import data

from rtl.interface.config import Config
from rtl.interface.registers import REGISTERS
from rtl.interface.trace import Stall, Trace
from sim.machine.names import header
from tb.trace import CAUSES, TRACE_PORTS, elements

WRITTEN = [name for _, _, names in TRACE_PORTS for name in names]


def test_every_write_port_of_the_accelerator_is_listed() -> None:
    members = Trace(Config(lanes=4)).members
    enables = {f"trace_{name}" for name in members if name.endswith("_en")}
    assert enables == {enable for enable, _, _ in TRACE_PORTS}
    named = {part for enable, address, _ in TRACE_PORTS for part in (enable, address) if part}
    named |= {f"trace_{name}" for name in WRITTEN}
    others = {"trace_active", "trace_operation", "trace_stall"}
    assert named | others == {f"trace_{name}" for name in members}


@pytest.mark.parametrize("tokens", [128, 4096, 4112, 4113, 8192])
def test_elements_have_the_widths_of_the_ports(tokens: int) -> None:
    members = Trace(Config(lanes=4, tokens=tokens)).members
    assert list(elements(tokens)) == WRITTEN
    for name, (bits, signed) in elements(tokens).items():
        shape = members[name].shape
        element = Shape.cast(shape.elem_shape if isinstance(shape, data.ArrayLayout) else shape)
        assert (element.width, element.signed) == (bits, signed), name


def test_causes_are_the_stall_registers_in_their_order() -> None:
    registers = [r.name for r in REGISTERS if r.name.startswith("stall_")]
    assert [f"stall_{cause}" for cause in CAUSES] == registers
    assert [cause.name.lower() for cause in Stall][1:] == list(CAUSES)


def test_the_header_has_every_register_and_port_once() -> None:
    text = header(dma=False)
    for register in REGISTERS:
        assert re.findall(rf"\b{register.name.upper()} = (\w+)", text) == [f"{register.address:#x}"]
    assert re.findall(r"t\.(trace_\w+)\);", text) == [f"trace_{name}" for name in WRITTEN]
    places = re.findall(r"RECORD\((\d+),", text)
    assert places == [str(index) for index in range(len(WRITTEN))]
    assert '{"none", "idle", "weights", "norm", "softmax", "drain"}' in text
