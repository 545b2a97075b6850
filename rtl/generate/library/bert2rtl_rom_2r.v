// bert2rtl_rom_2r: every table with two read ports is an instance of this module; the two share one
// true dual-port block RAM.
//
//   read   data0 is the entry at address0 of two cycles before, data1 that at address1.
// TABLE is as in bert2rtl_rom.
//
// SPDX-License-Identifier: Apache-2.0
/* verilator lint_off TIMESCALEMOD */ // nothing here has a delay, so no timescale matters
`ifndef BERT2RTL_ROM_2R
`define BERT2RTL_ROM_2R
module bert2rtl_rom_2r #(
  parameter WIDTH = 8,
  parameter DEPTH = 16,
  parameter [WIDTH*DEPTH-1:0] TABLE = 0,
  parameter ADDRESS_BITS = 4 // of DEPTH words: the least that count them
) (
  input  wire clk,
  // first read port
  input  wire [ADDRESS_BITS-1:0] address0,
  output reg  [WIDTH-1:0] data0,
  // second read port
  input  wire [ADDRESS_BITS-1:0] address1,
  output reg  [WIDTH-1:0] data1
);
  reg [WIDTH-1:0] entries [0:DEPTH-1];
  reg [WIDTH-1:0] entry0;
  reg [WIDTH-1:0] entry1;

  integer i;
  initial
    for (i = 0; i < DEPTH; i = i + 1)
      entries[i] = TABLE[(DEPTH-1-i)*WIDTH +: WIDTH];

  always @(posedge clk) begin
    entry0 <= entries[address0];
    entry1 <= entries[address1];
    data0 <= entry0;
    data1 <= entry1;
  end
endmodule
`endif
