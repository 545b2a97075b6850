// Self-checking bench of {{module}}: its inputs cycle by cycle, and every word that its cocotb bench
// has read of it while that held it to golden. It ends with PASS, or by $fatal.

module {{top}};
  parameter DIR = "vectors";  // where the file of $readmemh lies
  localparam integer WIDTH = {{width}};
  localparam integer WORDS = {{words}};

  reg clk = 1'b0;
  reg [31:0] cycle = 32'd0;
  reg [WIDTH+7:0] words[0:WORDS];  // {8'h00, what is looked at, outputs, inputs}, a cycle each
  reg [WIDTH-1:0] pins = {WIDTH{1'b0}};

{{wires}}
{{unit}}
{{checks}}
  wire [31:0] compared = {{compared}};

  initial begin
    $readmemh({DIR, "/pins.mem"}, words);
    if (words[WORDS][WIDTH+7:WIDTH] !== 8'hff)
      $fatal(1, "%0s/pins.mem is missing or has not %0d words", DIR, WORDS + 1);
    while (cycle < WORDS) begin
      pins = words[cycle][WIDTH-1:0];
      #5 clk = 1'b1;
      #5 clk = 1'b0;
      cycle = cycle + 32'd1;
    end
    if (compared == 0) $fatal(1, "nothing was compared");
    $display("PASS: %0d values compared in %0d cycles", compared, cycle);
    $finish;
  end
endmodule
