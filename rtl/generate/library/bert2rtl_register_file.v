// bert2rtl_register_file: every small memory that is read in the cycle of its address is an instance
// of this module. It may be distributed RAM or registers.
//
//   write  At a rising edge of clk with write_en, write_data goes into the word at write_address.
//   read   read_data is the word at read_address, in the same cycle.
// A word written in cycle t is read from cycle t + 1 on. The design never uses a word that was not
// written: what this memory holds at power-up does not matter. No reset.
//
// SPDX-License-Identifier: Apache-2.0
/* verilator lint_off TIMESCALEMOD */ // nothing here has a delay, so no timescale matters
`ifndef BERT2RTL_REGISTER_FILE
`define BERT2RTL_REGISTER_FILE
module bert2rtl_register_file #(
  parameter WIDTH = 8,
  parameter DEPTH = 16,
  parameter ADDRESS_BITS = 4 // of DEPTH words: the least that count them
) (
  input  wire clk,
  // write port
  input  wire write_en,
  input  wire [ADDRESS_BITS-1:0] write_address,
  input  wire [WIDTH-1:0] write_data,
  // read port
  input  wire [ADDRESS_BITS-1:0] read_address,
  output wire [WIDTH-1:0] read_data
);
  reg [WIDTH-1:0] words [0:DEPTH-1];

  always @(posedge clk)
    if (write_en)
      words[write_address] <= write_data;

  assign read_data = words[read_address];
endmodule
`endif
