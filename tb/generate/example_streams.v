  // Command stream: model.bin, M = {{columns}} bytes a word, the first byte in the lowest bits.
  reg [8*{{columns}}-1:0] model[0:{{model_words}}-1];
  integer model_at = 0;
  initial $readmemh("model.mem", model);
  assign s_axis_model_tvalid = model_at < {{model_words}};
  assign s_axis_model_tdata = model[model_at];
  assign s_axis_model_tlast = model_at == {{model_words}} - 1;
  always @(posedge clk) if (!rst && s_axis_model_tvalid && s_axis_model_tready) model_at <= model_at + 1;

  // Tokens: id[23:0], type[24], attend[25], ends[26].
  reg [31:0] tokens[0:{{tokens}}-1];
  integer token_at = 0;
  initial $readmemh("tokens.mem", tokens);
  assign s_axis_tokens_tvalid = token_at < {{tokens}};
  assign s_axis_tokens_tdata = tokens[token_at];
  assign s_axis_tokens_tlast = token_at == {{tokens}} - 1;
  always @(posedge clk) if (!rst && s_axis_tokens_tvalid && s_axis_tokens_tready) token_at <= token_at + 1;

  // Embedding rows: model.rows.bin, {{row_words}} words of N = {{lanes}} bytes each. Up to 16 requests wait; rows
  // are answered in the order of the requests, whole, with tlast at the end of each.
  reg [8*{{lanes}}-1:0] rows[0:{{rows}}*{{row_words}}-1];
  reg [31:0] asked[0:15];
  reg [3:0] put = 4'd0, get = 4'd0;
  integer word = 0;
  wire [3:0] next = put + 4'd1;
  initial $readmemh("rows.mem", rows);
  assign m_axis_request_tready = next != get;
  assign s_axis_rows_tvalid = put != get;
  assign s_axis_rows_tdata = rows[asked[get]*{{row_words}}+word];
  assign s_axis_rows_tlast = word == {{row_words}} - 1;
  always @(posedge clk) if (!rst) begin
    if (m_axis_request_tvalid && m_axis_request_tready) begin
      asked[put] <= m_axis_request_tdata;
      put <= next;
    end
    if (s_axis_rows_tvalid && s_axis_rows_tready) begin
      word <= s_axis_rows_tlast ? 0 : word + 1;
      if (s_axis_rows_tlast) get <= get + 4'd1;
    end
  end

  // Logits: int32, tlast with the last of each sequence.
  assign m_axis_logits_tready = 1'b1;
  always @(posedge clk) if (!rst && m_axis_logits_tvalid) begin
    compare(m_axis_logits_tdata);
    if (m_axis_logits_tlast != (logit == {{logits}})) fail("tlast is not with the last logit");
  end
