// bert2rtl_rom: every table with one read port is an instance of this module.
//
//   read   data is the entry at address of two cycles before: a block RAM, and a register behind it.
// TABLE holds the entries, that of address 0 in the highest bits, so that it comes first where the
// table is written as { entry, entry, ... }.
//
// SPDX-License-Identifier: Apache-2.0
/* verilator lint_off TIMESCALEMOD */ // nothing here has a delay, so no timescale matters
`ifndef BERT2RTL_ROM
`define BERT2RTL_ROM
module bert2rtl_rom #(
  parameter WIDTH = 8,
  parameter DEPTH = 16,
  parameter [WIDTH*DEPTH-1:0] TABLE = 0,
  parameter ADDRESS_BITS = 4 // of DEPTH words: the least that count them
) (
  input  wire clk,
  input  wire [ADDRESS_BITS-1:0] address,
  output reg  [WIDTH-1:0] data
);
  reg [WIDTH-1:0] entries [0:DEPTH-1];
  reg [WIDTH-1:0] entry;

  integer i;
  initial
    for (i = 0; i < DEPTH; i = i + 1)
      entries[i] = TABLE[(DEPTH-1-i)*WIDTH +: WIDTH];

  always @(posedge clk) begin
    entry <= entries[address];
    data <= entry;
  end
endmodule
`endif
