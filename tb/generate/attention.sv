// Self-checking bench of {{module}}: {{inferences}} layers, every stream with pauses of its own,
// every trace port and the context held to golden. {{passed}}

module {{top}};
  parameter DIR = "vectors";  // where the files of $readmemh lie
  parameter integer SILENCE = {{silence}};  // cycles without a word or a write: the unit hangs
  localparam integer INFERENCES = {{inferences}};

  reg clk = 1'b0;
  reg rst = 1'b1;
  reg [31:0] cycle = 32'd0;
  reg [31:0] stalls = 32'd{{stalls}};  // seed of the pauses; 0: none; +stalls=SEED
  reg [15:0] inference = 16'd0;
  reg finish = 1'b0;
  reg go = 1'b0;

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
  wire model_moved, tokens_moved, i_moved;
  wire model_idle, tokens_idle, i_idle;

{{sources}}
  bench_sink #(
      .NAME("o"),
      .WIDTH({{o_width}} + 1),
      .STREAM(32'd4)
  ) o (
      .clk(clk),
      .rst(rst),
      .stalls(stalls),
      .cycle(cycle),
      .valid(o__valid),
      .ready(o__ready),
      .data(o__payload)
  );
  wire o_passes = o__valid && o__ready;

{{checks}}
  // Whatever moves is counted; every stream and every port ends, so a run cannot go on for ever.
  wire moves = model_moved || tokens_moved || i_moved || o_passes{{enables}};
  integer silent = 0;
  always @(posedge clk) begin
    silent <= rst || moves === 1'b1 ? 0 : silent + 1;
    if (silent == SILENCE)
      $fatal(1, "the unit hangs: nothing happened for %0d cycles, now %0d, inference %0d",
             SILENCE, cycle, inference);
  end

  task begin_it;
    begin
      start = 1'b1;
      @(negedge clk);
      start = 1'b0;
    end
  endtask

  // Let a packet pass on every stream into the unit.
  task send;
    begin
      go = 1'b1;
      @(negedge clk);
      go = 1'b0;
    end
  endtask

  reg [31:0] random, earlier;
  wire [31:0] compared = {{compared}};
  integer k;

  initial begin
    start = 1'b0;
    abort = 1'b0;
    if ($value$plusargs("stalls=%d", stalls) && ^stalls === 1'bx)
      $fatal(1, "+stalls=SEED: the seed is no number");
    random = bench_random::first(stalls, 32'd6);
    repeat (4) @(negedge clk);
    rst = 1'b0;
    @(negedge clk);
    for (k = 0; k < INFERENCES; k = k + 1) begin
      inference = k[15:0];
      earlier = compared;
      // With stalls the streams come up to 31 cycles before the start, or after it.
      random = bench_random::after(random);
      if (stalls != 0 && random[5]) begin
        begin_it;
        repeat ({27'd0, random[4:0]}) @(negedge clk);
        send;
      end else begin
        send;
        if (stalls != 0) repeat ({27'd0, random[4:0]}) @(negedge clk);
        begin_it;
      end
      while (done !== 1'b1) @(negedge clk);
      @(negedge clk);
      if (error !== 4'd0)
        $fatal(1, "inference %0d: it has ended with error %0d in cycle %0d", k, error, cycle);
      @(negedge clk);
      if (!(model_idle && tokens_idle && i_idle))
        $fatal(1, "inference %0d has ended in cycle %0d and has not taken all words", k, cycle);
      finish = 1'b1;
      @(negedge clk);
      finish = 1'b0;
      @(negedge clk);
      if (compared == earlier) $fatal(1, "inference %0d: nothing was compared", k);
      $display("inference %0d: %0d cycles, %0d values are golden's", k, cycles, compared - earlier);
    end
    if (compared == 0) $fatal(1, "nothing was compared");
    $display("PASS: %0d values compared in %0d cycles", compared, cycle);
    $finish;
  end
endmodule
