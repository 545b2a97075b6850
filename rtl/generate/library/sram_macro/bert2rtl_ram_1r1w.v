// bert2rtl_ram_1r1w of SRAM macros of one size, side by side and one behind the other: an example
// for an ASIC. Compile it in place of rtl/bert2rtl_ram_1r1w.v, with the views of your macro in place
// of sram_256x32.v, and choose the size, or several of them by WIDTH and DEPTH, here.
//
// The macro has an enable a bit when it writes, active low as most have it, and no output register:
// that is added here.
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
  localparam BITS = 32;
  localparam WORDS = 256;
  localparam COLUMNS = (WIDTH + BITS - 1) / BITS;
  localparam ROWS = (DEPTH + WORDS - 1) / WORDS;
  localparam ROW_BITS = ADDRESS_BITS > 8 ? ADDRESS_BITS - 8 : 1;
  localparam LANE = WIDTH / LANES;

  // Addresses and words of whole macros.
  wire [31:0] write_at = {{32 - ADDRESS_BITS{1'b0}}, write_address};
  wire [31:0] read_at = {{32 - ADDRESS_BITS{1'b0}}, read_address};
  wire [COLUMNS*BITS-1:0] data;
  wire [COLUMNS*BITS-1:0] write_bit;
  wire [COLUMNS*BITS-1:0] rows [0:ROWS-1];
  reg [ROW_BITS-1:0] row;

  genvar bit_;
  generate
    for (bit_ = 0; bit_ < COLUMNS * BITS; bit_ = bit_ + 1) begin : bits
      if (bit_ < WIDTH) begin : used
        assign data[bit_] = write_data[bit_];
        assign write_bit[bit_] = write_en[bit_ / LANE];
      end else begin : unused
        assign data[bit_] = 1'b0;
        assign write_bit[bit_] = 1'b0;
      end
    end
  endgenerate

  genvar r, c;
  generate
    for (r = 0; r < ROWS; r = r + 1) begin : row_of_macros
      for (c = 0; c < COLUMNS; c = c + 1) begin : column
        sram_256x32 macro (
          .CLK(clk),
          .CENA(~(|write_en) | (write_at[31:8] != r)),
          .WENA(~write_bit[c*BITS +: BITS]),
          .AA(write_at[7:0]),
          .DA(data[c*BITS +: BITS]),
          .CENB(~read_en | (read_at[31:8] != r)),
          .AB(read_at[7:0]),
          .QB(rows[r][c*BITS +: BITS])
        );
      end
    end
  endgenerate

  always @(posedge clk)
    if (read_en)
      row <= read_at[8 +: ROW_BITS];

  wire [COLUMNS*BITS-1:0] word = rows[row];

  generate
    if (OUTPUT_REGISTER != 0) begin : registered
      reg [WIDTH-1:0] read_data_1;
      always @(posedge clk)
        read_data_1 <= word[WIDTH-1:0];
      assign read_data = read_data_1;
    end else begin : direct
      assign read_data = word[WIDTH-1:0];
    end
  endgenerate
endmodule
