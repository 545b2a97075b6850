"""Proofs for every input of units whose results stand in a table.

What reaches the table, and what is made of a word of it, is proved here; all words and all that
goes with them are played in tests/tb/test_bench_units.py. A result depends on one operand alone, so
both together are a proof. The reciprocal has no more than 2^20 operands: they are all played.
"""

from pathlib import Path
from typing import Any

from amaranth.hdl import Const, Elaboratable, Fragment, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import rtl.datapath.rsqrt
from rtl.datapath.activation import ActivationTable
from tests.rtl.formal import PARTS_AS_PORTS, proved

# What the memories answer may be anything.
ACTIVATION = """
module formula (input [15:0] i, words, input en, input [7:0] address, data);
  wire [15:0] o, read, at, given; wire [1:0] write;
  unit u (.clk(1'b0), .rst(1'b0), .i(i), .o(o),
          .write_en(en), .write_address(address), .write_data(data),
          .\\table0.read_address (read[7:0]), .\\table1.read_address (read[15:8]),
          .\\table0.read_data (words[7:0]), .\\table1.read_data (words[15:8]),
          .\\table0.write_en (write[0]), .\\table1.write_en (write[1]),
          .\\table0.write_address (at[7:0]), .\\table1.write_address (at[15:8]),
          .\\table0.write_data (given[7:0]), .\\table1.write_data (given[15:8]));
  always @* begin
    assert(read == i); assert(o == words); assert(write == {en, en});
    if (en) begin assert(at == {address, address}); assert(given == {data, data}); end
  end
endmodule
"""
# The table answers 2^11 as the upper half of y0^2 and 0 for all else, so that Newton's residual is
# -low * 2^7: `low`, which leaves the unit nowhere, shows whole.
SHOWING_LOW = 1 << 35
RSQRT = """
module formula (input [51:0] i);
  wire [4:0] e; wire [7:0] address; wire signed [31:0] error;
  unit u (.clk(1'b0), .rst(1'b0), .i(i), .e(e), .address(address), .error(error));
  integer n;
  reg [5:0] length;
  always @* begin length = 0; for (n = 0; n < 52; n = n + 1) if (i[n]) length = n + 1; end
  wire [4:0] exponent = (length - 1) >> 1;
  wire [67:0] wide = {i, 16'd0} >> {exponent, 1'b0};
  wire large = wide[17];
  wire signed [31:0] low = large ? wide[9:0] : wide[8:0];
  wire signed [31:0] residual = -(low <<< 7);
  always @* if (i != 0) begin
    assert(e == exponent); assert(error == residual);
    assert(address == {large, large ? wide[16:10] : wide[15:9]});
  end
endmodule
"""


class Operands(wiring.Component):
    """What reaches the table of Rsqrt and Newton's step."""

    def __init__(self) -> None:
        ports = {"e": Out(5), "address": Out(8), "error": Out(signed(32))}
        super().__init__({"i": In(52)} | ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        table = Stub(address0=Signal(8), data0=None)
        newton = Stub(y0=Signal(12), error=Signal(signed(32)), r=Signal(16))

        def rom(shape: Any, entries: Any) -> Stub:
            table.data0 = Const(SHOWING_LOW, shape)
            return table

        def step(shape: Any) -> Stub:
            return newton

        module: Any = rtl.datapath.rsqrt
        sound, unit = (module.Rom, module.NewtonStep), module.Rsqrt()
        module.Rom, module.NewtonStep = rom, step
        try:
            m.submodules.unit = Fragment.get(unit, platform)
        finally:
            module.Rom, module.NewtonStep = sound
        m.d.comb += [unit.i.eq(self.i), self.e.eq(unit.e), self.address.eq(table.address0)]
        m.d.comb += self.error.eq(newton.error)
        return m


class Stub(Elaboratable):
    """A part that is signals alone."""

    def __init__(self, **members: Any) -> None:
        for name, value in members.items():
            setattr(self, name, value)

    def elaborate(self, platform: object) -> Module:
        return Module()


def test_activation(tmp_path: Path) -> None:
    assert proved(ActivationTable(2), ACTIVATION, tmp_path, before=PARTS_AS_PORTS)


def test_operands_of_rsqrt(tmp_path: Path) -> None:
    """Table entry, rest and exponent of every operand; from there on all are played."""
    assert proved(Operands(), RSQRT, tmp_path)
