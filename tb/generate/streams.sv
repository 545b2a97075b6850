  localparam integer ROW_LATENCY = {{row_latency}};  // from a request to its row
  reg go = 1'b0;
  wire model_moved, tokens_moved, rows_moved;
  wire model_idle, tokens_idle, rows_idle;
  wire request_passes = m_axis_request_tvalid && m_axis_request_tready;
  wire logits_passes = m_axis_logits_tvalid && m_axis_logits_tready;

  // The embedding memory: the numbers of the rows are compared, so the rows come in their order.
  reg [ROW_LATENCY-2:0] asked = {(ROW_LATENCY - 1) {1'b0}};
  always @(posedge clk) asked <= {asked[ROW_LATENCY-3:0], request_passes && !rst};

{{streams}}
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
