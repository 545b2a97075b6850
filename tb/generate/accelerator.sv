// Self-checking bench of {{module}}: {{inferences}} inferences, {{pauses}},
// {{compared_ports}} held to golden. It ends with PASS, or by $fatal.

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
  // Registers, by AXI4-Lite.
  reg [31:0] value;
  reg [31:0] taken;  // the cycle in which the latest write was
  integer k;

  task write_register(input [31:0] register, input [31:0] data);
    reg address_taken, data_taken;
    begin
      s_axi_awaddr = register[{{address_bits}}-1:0];
      s_axi_wdata = data;
      s_axi_wstrb = 4'hf;
      s_axi_awvalid = 1'b1;
      s_axi_wvalid = 1'b1;
      s_axi_bready = 1'b1;
      while (s_axi_awvalid || s_axi_wvalid) begin
        @(posedge clk);
        address_taken = s_axi_awready === 1'b1;
        data_taken = s_axi_wready === 1'b1;
        taken = cycle;
        @(negedge clk);
        if (address_taken) s_axi_awvalid = 1'b0;
        if (data_taken) s_axi_wvalid = 1'b0;
      end
      while (s_axi_bvalid !== 1'b1) @(negedge clk);
      if (s_axi_bresp !== 2'd0)
        $fatal(1, "writing %0h to the register %0h in cycle %0d was answered with %0d", data, register,
               cycle, s_axi_bresp);
      @(negedge clk);
      s_axi_bready = 1'b0;
    end
  endtask

  task read_register(input [31:0] register);
    reg address_taken;
    begin
      s_axi_araddr = register[{{address_bits}}-1:0];
      s_axi_arvalid = 1'b1;
      while (s_axi_arvalid) begin
        @(posedge clk);
        address_taken = s_axi_arready === 1'b1;
        @(negedge clk);
        if (address_taken) s_axi_arvalid = 1'b0;
      end
      s_axi_rready = 1'b1;
      while (s_axi_rvalid !== 1'b1) @(negedge clk);
      value = s_axi_rdata;
      if (s_axi_rresp !== 2'd0)
        $fatal(1, "reading the register %0h in cycle %0d was answered with %0d", register, cycle,
               s_axi_rresp);
      @(negedge clk);
      s_axi_rready = 1'b0;
    end
  endtask

{{around}}
{{checks}}
  // Whatever moves is counted; every stream and every port ends, so a run cannot go on for ever.
  wire moves = {{moves}}{{enables}};
  integer silent = 0;
  always @(posedge clk) begin
    silent <= rst || moves === 1'b1 ? 0 : silent + 1;
    if (silent == SILENCE)
      $fatal(1, "the unit hangs: nothing happened for %0d cycles, now %0d, inference %0d",
             SILENCE, cycle, inference);
  end

  // The cycle in which the interrupt came.
  reg pending = 1'b0;
  reg [31:0] ended;
  always @(posedge clk) begin
    pending <= interrupt;
    if (interrupt === 1'b1 && pending !== 1'b1) ended = cycle;
  end

  reg [31:0] random, earlier, counted, started;
  reg late;
  wire [31:0] compared = {{compared}};

  initial begin
    if ($value$plusargs("stalls=%d", stalls) && ^stalls === 1'bx)
      $fatal(1, "+stalls=SEED: the seed is no number");
    random = bench_random::first(stalls, 32'd6);
    repeat (4) @(negedge clk);
    rst = 1'b0;
    @(negedge clk);
    for (k = 0; k < INFERENCES; k = k + 1) begin
      inference = k[15:0];
      earlier = compared;
      prepare;
      // With stalls the streams come up to 31 cycles before the start, or after it.
      random = bench_random::after(random);
      late = stalls != 0 && random[5];
      if (!late) supply;
      if (stalls != 0 && !late) repeat ({27'd0, random[4:0]}) @(negedge clk);
      write_register(32'h{{control}}, 32'd1);
      started = taken;
      if (late) repeat ({27'd0, random[4:0]}) @(negedge clk);
      if (late) supply;
      while (interrupt !== 1'b1) @(negedge clk);
      read_register(32'h{{status}});
      if (value !== 32'd2)
        $fatal(1, "inference %0d: status is %0h at the end, in cycle %0d: error %0d", k, value,
               cycle, value[11:8]);
      // Busy from two cycles after the start was taken to the one before the interrupt.
      read_register(32'h{{cycles}});
      if (value !== ended - started - 2)
        $fatal(1, "inference %0d: the register says %0d cycles, started in %0d, interrupt in %0d",
               k, value, started, ended);
      counted = value;
      collect;
      write_register(32'h{{interrupt_pending}}, 32'd1);
      if (interrupt !== 1'b0)
        $fatal(1, "inference %0d: the interrupt was acknowledged and stays, cycle %0d", k, cycle);
      finish = 1'b1;
      @(negedge clk);
      finish = 1'b0;
      @(negedge clk);
      if (compared == earlier) $fatal(1, "inference %0d: nothing was compared", k);
      $display("inference %0d: %0d cycles, %0d values are golden's", k, counted, compared - earlier);
    end
    if (compared == 0) $fatal(1, "nothing was compared");
    $display("PASS: %0d values compared in %0d cycles", compared, cycle);
    $finish;
  end
endmodule
