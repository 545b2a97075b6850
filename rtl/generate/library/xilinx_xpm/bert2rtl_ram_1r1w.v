// bert2rtl_ram_1r1w as AMD's xpm_memory_sdpram (UG974): an example of other memory under the design.
// Compile it in place of rtl/bert2rtl_ram_1r1w.v; Vivado knows the XPM library, and
// MEMORY_PRIMITIVE may be "block", "ultra" or "distributed".
//
// XPM enables bytes of 8 bits, or a word as a whole: a lane is one or several of these bytes.
//
// SPDX-License-Identifier: Apache-2.0
module bert2rtl_ram_1r1w #(
  parameter WIDTH = 8,
  parameter DEPTH = 16,
  parameter LANES = 1,
  parameter OUTPUT_REGISTER = 1,
  parameter ADDRESS_BITS = 4
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
  localparam BYTE = LANES == 1 ? WIDTH : 8;
  localparam ENABLES = WIDTH / BYTE;
  localparam IN_LANE = ENABLES / LANES;

  wire [ENABLES-1:0] byte_en;

  genvar lane;
  generate
    for (lane = 0; lane < LANES; lane = lane + 1) begin : lanes
      assign byte_en[lane*IN_LANE +: IN_LANE] = {IN_LANE{write_en[lane]}};
    end
  endgenerate

  xpm_memory_sdpram #(
    .ADDR_WIDTH_A(ADDRESS_BITS),
    .ADDR_WIDTH_B(ADDRESS_BITS),
    .BYTE_WRITE_WIDTH_A(BYTE),
    .CLOCKING_MODE("common_clock"),
    .MEMORY_PRIMITIVE("auto"),
    .MEMORY_SIZE(WIDTH * DEPTH),
    .READ_DATA_WIDTH_B(WIDTH),
    .READ_LATENCY_B(1 + OUTPUT_REGISTER),
    .WRITE_DATA_WIDTH_A(WIDTH),
    .WRITE_MODE_B("read_first")
  ) memory (
    .clka(clk),
    .clkb(clk),
    .ena(1'b1),
    .wea(byte_en),
    .addra(write_address),
    .dina(write_data),
    .enb(read_en),
    .regceb(1'b1),
    .rstb(1'b0),
    .addrb(read_address),
    .doutb(read_data),
    .sleep(1'b0),
    .injectsbiterra(1'b0),
    .injectdbiterra(1'b0),
    .sbiterrb(),
    .dbiterrb()
  );
endmodule
