  localparam integer ROW_LATENCY = {{row_latency}};  // from a request to its row
  reg go = 1'b0;
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
      .WIDTH({{rows_width}}),
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

  // Streams need nothing before they begin.
  task prepare;
    begin
    end
  endtask

  // Let a packet pass on every stream into the unit.
  task supply;
    begin
      go = 1'b1;
      @(negedge clk);
      go = 1'b0;
    end
  endtask

  // The logits were compared as they came.
  task collect;
    if (!(model_idle && tokens_idle && rows_idle))
      $fatal(1, "inference %0d has ended in cycle %0d and has not taken all words", k, cycle);
  endtask
