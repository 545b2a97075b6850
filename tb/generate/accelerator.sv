// Self-checking bench of {{module}}: {{inferences}} inferences, every stream with pauses of its own,
// every trace port and the logits held to golden. {{passed}}

module {{top}};
  parameter DIR = "vectors";  // where the files of $readmemh lie
  parameter integer SILENCE = {{silence}};  // cycles without a word or a write: the unit hangs
  localparam integer INFERENCES = {{inferences}};
  localparam integer ROW_LATENCY = {{row_latency}};  // from a request to its row

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
  wire model_moved, tokens_moved, rows_moved;
  wire model_idle, tokens_idle, rows_idle;

  bench_source #(
      .FILE({DIR, "/model.mem"}),
      .NAME("s_axis_model"),
      .WIDTH({{model_width}}),
      .WORDS({{model_words}}),
      .STREAM(32'd1)
  ) model (
      .clk(clk),
      .rst(rst),
      .stalls(stalls),
      .go(go),
      .valid(s_axis_model_tvalid),
      .ready(s_axis_model_tready),
      .data(s_axis_model_tdata),
      .last(s_axis_model_tlast),
      .moved(model_moved),
      .idle(model_idle)
  );

  bench_source #(
      .FILE({DIR, "/tokens.mem"}),
      .NAME("s_axis_tokens"),
      .WIDTH(32),
      .WORDS({{tokens_words}}),
      .STREAM(32'd2)
  ) tokens (
      .clk(clk),
      .rst(rst),
      .stalls(stalls),
      .go(go),
      .valid(s_axis_tokens_tvalid),
      .ready(s_axis_tokens_tready),
      .data(s_axis_tokens_tdata),
      .last(s_axis_tokens_tlast),
      .moved(tokens_moved),
      .idle(tokens_idle)
  );

  // The embedding memory: the numbers of the rows are compared, so the rows come in their order.
  reg [ROW_LATENCY-2:0] asked = {(ROW_LATENCY - 1) {1'b0}};
  wire request_passes = m_axis_request_tvalid && m_axis_request_tready;
  always @(posedge clk) asked <= {asked[ROW_LATENCY-3:0], request_passes && !rst};

  bench_sink #(
      .NAME("m_axis_request"),
      .WIDTH(32),
      .STREAM(32'd3)
  ) request (
      .clk(clk),
      .rst(rst),
      .stalls(stalls),
      .cycle(cycle),
      .valid(m_axis_request_tvalid),
      .ready(m_axis_request_tready),
      .data(m_axis_request_tdata)
  );

  bench_source #(
      .FILE({DIR, "/rows.mem"}),
      .NAME("s_axis_rows"),
      .WIDTH({{model_width}}),
      .WORDS({{rows_words}}),
      .STREAM(32'd4)
  ) rows (
      .clk(clk),
      .rst(rst),
      .stalls(stalls),
      .go(asked[ROW_LATENCY-2]),
      .valid(s_axis_rows_tvalid),
      .ready(s_axis_rows_tready),
      .data(s_axis_rows_tdata),
      .last(s_axis_rows_tlast),
      .moved(rows_moved),
      .idle(rows_idle)
  );

  bench_sink #(
      .NAME("m_axis_logits"),
      .WIDTH(33),
      .STREAM(32'd5)
  ) logits (
      .clk(clk),
      .rst(rst),
      .stalls(stalls),
      .cycle(cycle),
      .valid(m_axis_logits_tvalid),
      .ready(m_axis_logits_tready),
      .data({m_axis_logits_tlast, m_axis_logits_tdata})
  );
  wire logits_passes = m_axis_logits_tvalid && m_axis_logits_tready;

{{checks}}
  // Whatever moves is counted; every stream and every port ends, so a run cannot go on for ever.
  wire moves = model_moved || tokens_moved || rows_moved || request_passes || logits_passes{{enables}};
  integer silent = 0;
  always @(posedge clk) begin
    silent <= rst || moves === 1'b1 ? 0 : silent + 1;
    if (silent == SILENCE)
      $fatal(1, "the unit hangs: nothing happened for %0d cycles, now %0d, inference %0d",
             SILENCE, cycle, inference);
  end

  // Registers, by AXI4-Lite.
  reg [31:0] value;

  task write_register(input [6:0] address, input [31:0] data);
    reg address_taken, data_taken;
    begin
      s_axi_awaddr = address;
      s_axi_wdata = data;
      s_axi_wstrb = 4'hf;
      s_axi_awvalid = 1'b1;
      s_axi_wvalid = 1'b1;
      s_axi_bready = 1'b1;
      while (s_axi_awvalid || s_axi_wvalid) begin
        @(posedge clk);
        address_taken = s_axi_awready === 1'b1;
        data_taken = s_axi_wready === 1'b1;
        @(negedge clk);
        if (address_taken) s_axi_awvalid = 1'b0;
        if (data_taken) s_axi_wvalid = 1'b0;
      end
      while (s_axi_bvalid !== 1'b1) @(negedge clk);
      if (s_axi_bresp !== 2'd0)
        $fatal(1, "writing %0h to the register %0h in cycle %0d was answered with %0d", data, address,
               cycle, s_axi_bresp);
      @(negedge clk);
      s_axi_bready = 1'b0;
    end
  endtask

  task read_register(input [6:0] address);
    reg taken;
    begin
      s_axi_araddr = address;
      s_axi_arvalid = 1'b1;
      while (s_axi_arvalid) begin
        @(posedge clk);
        taken = s_axi_arready === 1'b1;
        @(negedge clk);
        if (taken) s_axi_arvalid = 1'b0;
      end
      s_axi_rready = 1'b1;
      while (s_axi_rvalid !== 1'b1) @(negedge clk);
      value = s_axi_rdata;
      if (s_axi_rresp !== 2'd0)
        $fatal(1, "reading the register %0h in cycle %0d was answered with %0d", address, cycle,
               s_axi_rresp);
      @(negedge clk);
      s_axi_rready = 1'b0;
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
    s_axi_awaddr = 7'd0;
    s_axi_awprot = 3'd0;
    s_axi_awvalid = 1'b0;
    s_axi_wdata = 32'd0;
    s_axi_wstrb = 4'd0;
    s_axi_wvalid = 1'b0;
    s_axi_bready = 1'b0;
    s_axi_araddr = 7'd0;
    s_axi_arprot = 3'd0;
    s_axi_arvalid = 1'b0;
    s_axi_rready = 1'b0;
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
        write_register(7'h{{control}}, 32'd1);
        repeat ({27'd0, random[4:0]}) @(negedge clk);
        send;
      end else begin
        send;
        if (stalls != 0) repeat ({27'd0, random[4:0]}) @(negedge clk);
        write_register(7'h{{control}}, 32'd1);
      end
      while (interrupt !== 1'b1) @(negedge clk);
      read_register(7'h{{status}});
      if (value !== 32'd2)
        $fatal(1, "inference %0d: status is %0h at the end, in cycle %0d: error %0d", k, value, cycle,
               value[11:8]);
      read_register(7'h{{cycles}});
      write_register(7'h{{pending}}, 32'd1);
      if (interrupt !== 1'b0)
        $fatal(1, "inference %0d: the interrupt was acknowledged and stays, cycle %0d", k, cycle);
      if (!(model_idle && tokens_idle && rows_idle))
        $fatal(1, "inference %0d has ended in cycle %0d and has not taken all words", k, cycle);
      finish = 1'b1;
      @(negedge clk);
      finish = 1'b0;
      @(negedge clk);
      if (compared == earlier) $fatal(1, "inference %0d: nothing was compared", k);
      $display("inference %0d: %0d cycles, %0d values are golden's", k, value, compared - earlier);
    end
    if (compared == 0) $fatal(1, "nothing was compared");
    $display("PASS: %0d values compared in %0d cycles", compared, cycle);
    $finish;
  end
endmodule
