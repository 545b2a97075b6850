// Self-checking bench of {{module}}: its pins cycle by cycle, every answer held to golden in the
// cycle that the data sheet states. {{passed}}

module {{top}};
  parameter DIR = "vectors";  // where the files of $readmemh lie

  reg clk = 1'b0;
  reg rst = 1'b1;
  reg [31:0] cycle = 32'd0;
  reg finish = 1'b0;
  wire done;
  localparam [15:0] inference = 16'd0;

  initial begin
    #10;
    forever begin
      clk = 1'b1;
      #5;
      clk = 1'b0;
      #5;
    end
  end
  always @(posedge clk) cycle <= cycle + 1;

{{wires}}
{{unit}}
  bench_play #(
      .FILE({DIR, "/pins.mem"}),
      .WIDTH({{pins_width}}),
      .WORDS({{pins_words}})
  ) play (
      .clk(clk),
      .rst(rst),
      .pins(pins),
      .done(done)
  );

{{checks}}
  wire [31:0] compared = {{compared}};

  initial begin
    repeat (4) @(negedge clk);
    rst = 1'b0;
    while (!done) @(negedge clk);
    finish = 1'b1;
    @(negedge clk);
    finish = 1'b0;
    @(negedge clk);
    if (compared == 0) $fatal(1, "nothing was compared");
    $display("PASS: %0d values compared in %0d cycles", compared, cycle);
    $finish;
  end
endmodule
