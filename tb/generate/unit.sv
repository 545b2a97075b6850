// Self-checking bench of {{module}}: its inputs cycle by cycle, and every word that its cocotb bench
// has read of it while that held it to golden. It ends with PASS, or by $fatal.

module {{top}};
  parameter DIR = "vectors";  // where the file of $readmemh lies
  localparam integer WIDTH = {{width}};
  localparam integer WORDS = {{words}};

  reg clk = 1'b0;
  reg [31:0] cycle = 32'd0;
  reg [31:0] compared = 32'd0;  // values, so far
  reg [WIDTH+7:0] words[0:WORDS];  // {8'h00, what is looked at, outputs, inputs}, a cycle each
  reg [WIDTH-1:0] pins = {WIDTH{1'b0}};

{{wires}}
{{unit}}
  // The first lane of an output that is not as it must be ends the simulation.
  task compare(input string port, input integer lanes, input integer width, input is_signed,
               input [WIDTH-1:0] says, input [WIDTH-1:0] is);
    reg [63:0] mask, value, due;
    integer lane;
    for (lane = 0; lane < lanes; lane = lane + 1) begin
      mask = ~64'd0 >> (64 - width);
      value = 64'(is >> lane * width) & mask;
      due = 64'(says >> lane * width) & mask;
      if (value !== due) begin
        if (is_signed && value[width-1] === 1'b1) value = value | ~mask;
        if (is_signed && due[width-1]) due = due | ~mask;
        $fatal(1, "%0s[lane %0d] in cycle %0d is %0d, not %0d", port, lane, cycle, $signed(value),
               $signed(due));
      end
      compared = compared + 1;
    end
  endtask

  initial begin
    $readmemh({DIR, "/pins.mem"}, words);
    if (words[WORDS][WIDTH+7:WIDTH] !== 8'hff)
      $fatal(1, "%0s/pins.mem is missing or has not %0d words", DIR, WORDS + 1);
    while (cycle < WORDS) begin
      pins = words[cycle][WIDTH-1:0];
      #5;
{{checks}}      clk = 1'b1;
      #5 clk = 1'b0;
      cycle = cycle + 32'd1;
    end
    if (compared == 0) $fatal(1, "nothing was compared");
    $display("PASS: %0d values compared in %0d cycles", compared, cycle);
    $finish;
  end
endmodule
