// A small bench of {{module}} in plain Verilog (IEEE 1364-2001), to be read and copied: reset, one
// inference of {{tokens}} tokens, its logits. README.md in the folder above says how to run it. The
// bench there checks far more: pauses, batches, what is inside.

module example;
  reg clk = 1'b0, rst = 1'b1;
  always #5 clk = ~clk;

{{wires}}
{{unit}}
  task fail(input [8*40-1:0] text);
    begin
      $display("FAILED: %0s", text);
      $finish;
    end
  endtask

  // Registers: AXI4-Lite. What is offered at a falling edge stays until it is taken at a rising one.
  reg [31:0] value;
  initial {s_axi_wstrb, s_axi_bready, s_axi_rready} = 6'b111111;
  always @(posedge clk) begin
    if (s_axi_awready) s_axi_awvalid <= 1'b0;
    if (s_axi_wready) s_axi_wvalid <= 1'b0;
    if (s_axi_arready) s_axi_arvalid <= 1'b0;
  end

  task write_register(input [{{address_bits}}-1:0] register, input [31:0] data);
    begin
      s_axi_awaddr = register;
      s_axi_wdata = data;
      {s_axi_awvalid, s_axi_wvalid} = 2'b11;
      while (!s_axi_bvalid) @(negedge clk);
      if (s_axi_bresp != 2'd0) fail("a write was answered with an error");  // SLVERR: no effect
      @(negedge clk);
    end
  endtask

  task read_register(input [{{address_bits}}-1:0] register);
    begin
      s_axi_araddr = register;
      s_axi_arvalid = 1'b1;
      while (!s_axi_rvalid) @(negedge clk);
      value = s_axi_rdata;
      @(negedge clk);
    end
  endtask

  // Command stream: model.bin, M = {{columns}} bytes a word, the first byte in the lowest bits. Tokens:
  // id[23:0], type[24], attend[25], ends[26]. Embedding rows: model.rows.bin, {{row_words}} words of
  // N = {{lanes}} bytes each; up to 16 requests wait, and rows are answered in their order.
  reg [8*{{columns}}-1:0] model[0:{{model_words}}-1];
  reg [31:0] tokens[0:{{tokens}}-1], golden[0:{{logits}}-1], asked[0:15];
  reg [8*{{lanes}}-1:0] rows[0:{{rows}}*{{row_words}}-1];
  reg [3:0] put = 4'd0, get = 4'd0;
  integer model_at = 0, token_at = 0, word = 0, logit = 0;
  wire [3:0] next = put + 4'd1;
  assign s_axis_model_tvalid = model_at < {{model_words}};
  assign s_axis_model_tdata = model[model_at];
  assign s_axis_model_tlast = model_at == {{model_words}} - 1;
  assign s_axis_tokens_tvalid = token_at < {{tokens}};
  assign s_axis_tokens_tdata = tokens[token_at];
  assign s_axis_tokens_tlast = token_at == {{tokens}} - 1;
  assign m_axis_request_tready = next != get;
  assign s_axis_rows_tvalid = put != get;
  assign s_axis_rows_tdata = rows[asked[get]*{{row_words}}+word];
  assign s_axis_rows_tlast = word == {{row_words}} - 1;
  assign m_axis_logits_tready = 1'b1;

  always @(posedge clk) if (!rst) begin
    if (s_axis_model_tvalid && s_axis_model_tready) model_at <= model_at + 1;
    if (s_axis_tokens_tvalid && s_axis_tokens_tready) token_at <= token_at + 1;
    if (m_axis_request_tvalid && m_axis_request_tready) begin
      asked[put] <= m_axis_request_tdata;
      put <= next;
    end
    if (s_axis_rows_tvalid && s_axis_rows_tready) begin
      word <= s_axis_rows_tlast ? 0 : word + 1;
      if (s_axis_rows_tlast) get <= get + 4'd1;
    end
    if (m_axis_logits_tvalid) begin  // int32, tlast with the last of each sequence
      $display("logit %0d: %0d", logit, $signed(m_axis_logits_tdata));
      if (m_axis_logits_tdata !== golden[logit]) fail("a logit is not golden's");
      if (m_axis_logits_tlast != (logit == {{logits}} - 1)) fail("tlast is not with the last logit");
      logit = logit + 1;
    end
  end

  initial begin
    $readmemh("model.mem", model);
    $readmemh("tokens.mem", tokens);
    $readmemh("rows.mem", rows);
    $readmemh("logits.mem", golden);
    repeat (2) @(negedge clk);
    rst = 1'b0;
    read_register({{id}});
    if (value != 32'h{{magic}}) fail("this is no accelerator of bert2rtl");
    write_register({{control}}, 32'd1);  // start
    while (!interrupt) @(negedge clk);
    read_register({{status}});
    if (value[11:8] != 4'd0) fail("the inference ended with an error");
    write_register({{interrupt_pending}}, 32'd1);  // acknowledge the interrupt
    read_register({{cycles}});
    if (logit != {{logits}}) fail("logits are missing");
    $display("PASS: %0d logits in %0d cycles", logit, value);
    $finish;
  end

  initial #{{patience}} fail("no interrupt came");
endmodule
