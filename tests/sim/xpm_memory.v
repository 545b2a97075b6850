// What UG974 says of xpm_memory_sdpram, as far as bert2rtl uses it: one clock, a word or bytes of it
// written at port A, read at port B after READ_LATENCY_B cycles. Begins with zeros, as XPM does.
module xpm_memory_sdpram #(
  parameter ADDR_WIDTH_A = 6,
  parameter ADDR_WIDTH_B = 6,
  parameter BYTE_WRITE_WIDTH_A = 32,
  parameter CLOCKING_MODE = "common_clock",
  parameter MEMORY_PRIMITIVE = "auto",
  parameter MEMORY_SIZE = 2048,
  parameter READ_DATA_WIDTH_B = 32,
  parameter READ_LATENCY_B = 2,
  parameter WRITE_DATA_WIDTH_A = 32,
  parameter WRITE_MODE_B = "no_change"
) (
  input clka, clkb, ena, enb, regceb, rstb, sleep, injectsbiterra, injectdbiterra,
  input [WRITE_DATA_WIDTH_A/BYTE_WRITE_WIDTH_A-1:0] wea,
  input [ADDR_WIDTH_A-1:0] addra,
  input [WRITE_DATA_WIDTH_A-1:0] dina,
  input [ADDR_WIDTH_B-1:0] addrb,
  output [READ_DATA_WIDTH_B-1:0] doutb,
  output sbiterrb, dbiterrb
);
  localparam WORDS = MEMORY_SIZE / WRITE_DATA_WIDTH_A;
  localparam BYTES = WRITE_DATA_WIDTH_A / BYTE_WRITE_WIDTH_A;

  initial
    if (MEMORY_SIZE % WRITE_DATA_WIDTH_A != 0 || WRITE_DATA_WIDTH_A != READ_DATA_WIDTH_B ||
        WRITE_DATA_WIDTH_A % BYTE_WRITE_WIDTH_A != 0 ||
        (BYTE_WRITE_WIDTH_A != 8 && BYTE_WRITE_WIDTH_A != 9 &&
         BYTE_WRITE_WIDTH_A != WRITE_DATA_WIDTH_A) ||
        (1 << ADDR_WIDTH_A) < WORDS || CLOCKING_MODE != "common_clock" ||
        WRITE_MODE_B != "read_first") begin
      $display("xpm_memory_sdpram: parameters that UG974 does not allow");
      $finish;
    end

  reg [WRITE_DATA_WIDTH_A-1:0] words [0:WORDS-1];
  reg [READ_DATA_WIDTH_B-1:0] stages [1:READ_LATENCY_B];
  integer i, b, k;

  initial
    for (i = 0; i < WORDS; i = i + 1)
      words[i] = 0;

  always @(posedge clka) begin
    if (ena)
      for (b = 0; b < BYTES; b = b + 1)
        if (wea[b])
          words[addra][b*BYTE_WRITE_WIDTH_A +: BYTE_WRITE_WIDTH_A] <=
            dina[b*BYTE_WRITE_WIDTH_A +: BYTE_WRITE_WIDTH_A];
    if (enb)
      stages[1] <= words[addrb];
    if (regceb)
      for (k = 2; k <= READ_LATENCY_B; k = k + 1)
        stages[k] <= stages[k-1];
  end

  assign doutb = stages[READ_LATENCY_B];
  assign sbiterrb = 1'b0;
  assign dbiterrb = 1'b0;
endmodule
