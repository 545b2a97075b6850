// A model of a two-port SRAM macro as a compiler gives it: one port writes, one reads. 256 words of
// 32 bits. CENA and CENB enable the ports, WENA a bit of the write, all active low. A word that is
// read while it is written is X. It begins with words at random.
//
// SPDX-License-Identifier: Apache-2.0
module sram_256x32 (
  input  wire CLK,
  // write port
  input  wire CENA,
  input  wire [31:0] WENA,
  input  wire [7:0] AA,
  input  wire [31:0] DA,
  // read port
  input  wire CENB,
  input  wire [7:0] AB,
  output reg  [31:0] QB
);
  reg [31:0] words [0:255];

  integer i;
  initial
    for (i = 0; i < 256; i = i + 1)
      words[i] = $random;

  always @(posedge CLK) begin
    if (!CENA)
      words[AA] <= (words[AA] & WENA) | (DA & ~WENA);
    if (!CENB)
      QB <= !CENA && AA == AB ? 32'bx : words[AB];
  end
endmodule
