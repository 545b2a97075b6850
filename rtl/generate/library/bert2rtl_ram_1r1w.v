// bert2rtl_ram_1r1w: every block RAM of the design is an instance of this module, and of no other.
// To use an SRAM macro or a vendor's primitive, compile another file with a module of this name and
// these ports in place of this one.
//
// One write and one read in each cycle, both at rising edges of clk:
//   write  Where bit l of write_en is set, lane l of write_data goes into lane l of the word at
//          write_address. Lane 0 is the lowest WIDTH / LANES bits.
//   read   With read_en, read_data is the word at read_address from the next cycle on, and stays
//          until the next read. With OUTPUT_REGISTER it comes a cycle later, through a register.
// A word written in cycle t is read by addresses given in cycle t + 1 and later. What the design
// computes depends neither on a word that is read in the very cycle in which it is written nor on
// one that was not written: what this memory gives then, and what it holds at power-up, does not
// matter. No reset.
//
// SPDX-License-Identifier: Apache-2.0
/* verilator lint_off TIMESCALEMOD */ // nothing here has a delay, so no timescale matters
`ifndef BERT2RTL_RAM_1R1W
`define BERT2RTL_RAM_1R1W
module bert2rtl_ram_1r1w #(
  parameter WIDTH = 8,
  parameter DEPTH = 16,
  parameter LANES = 1,           // divides WIDTH
  parameter OUTPUT_REGISTER = 1, // 1: read_data comes two cycles after its address; 0: one cycle
  parameter ADDRESS_BITS = 4 // of DEPTH words: the least that count them
) (
  input  wire clk,
  // write port
  input  wire [LANES-1:0] write_en,
  input  wire [ADDRESS_BITS-1:0] write_address,
  input  wire [WIDTH-1:0] write_data,
  // read port
  input  wire read_en,
  input  wire [ADDRESS_BITS-1:0] read_address,
  output wire [WIDTH-1:0] read_data
);
  localparam LANE = WIDTH / LANES;

  reg [WIDTH-1:0] words [0:DEPTH-1];
  reg [WIDTH-1:0] word;

`ifndef SYNTHESIS
  // Mean pooling multiplies words that nobody wrote by 0, and X times 0 is X: a simulator begins
  // with words of ones, hardware with whatever it holds.
  integer number;
  initial
    for (number = 0; number < DEPTH; number = number + 1)
      words[number] = {WIDTH{1'b1}};
`endif

  genvar lane;
  generate
    if (LANES == 1) begin : whole
      always @(posedge clk)
        if (write_en[0])
          words[write_address] <= write_data;
    end else begin : by_lane
      for (lane = 0; lane < LANES; lane = lane + 1) begin : lanes
        always @(posedge clk)
          if (write_en[lane])
            words[write_address][lane*LANE +: LANE] <= write_data[lane*LANE +: LANE];
      end
    end
  endgenerate

  always @(posedge clk)
    if (read_en)
      word <= words[read_address];

  generate
    if (OUTPUT_REGISTER != 0) begin : registered
      reg [WIDTH-1:0] read_data_1;
      always @(posedge clk)
        read_data_1 <= word;
      assign read_data = read_data_1;
    end else begin : direct
      assign read_data = word;
    end
  endgenerate
endmodule
`endif
