// Plays a unit with mutants by lines of standard input, a cycle each, {compared, due, given}: its
// inputs, what its outputs must show, and which bits of them count. It ends with the cycle of the
// first difference, or with -1; +show writes the outputs of every cycle.
module player #(
    parameter integer INPUTS  = 1,
    parameter integer OUTPUTS = 1
);
  localparam integer STDIN = 32'h8000_0000;

  reg clk = 1'b0;
  reg [15:0] mutant = 16'd0;
  reg [INPUTS-1:0] given;
  reg [OUTPUTS-1:0] compared, due;
  wire [OUTPUTS-1:0] shown;
  reg [INPUTS+2*OUTPUTS-1:0] pins;
  integer cycle = 0, differs = -1;

  subject subject (.*);

  initial begin
    void'($value$plusargs("mutant=%d", mutant));
    while (differs < 0 && $fscanf(STDIN, "%h", pins) == 1) begin
      {compared, due, given} = pins;
      #1;
      if ($test$plusargs("show") != 0) $display("%h", shown);
      if (((shown ^ due) & compared) !== '0) differs = cycle;
      clk = 1'b1;
      #1 clk = 1'b0;
      cycle = cycle + 1;
    end
    $display("differs %0d", differs);
  end
endmodule
