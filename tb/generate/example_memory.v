  // The image (rtl.compile --image) from address 0 of a memory that takes one burst at a time.
  reg [{{data_bits}}-1:0] memory[0:{{beats}}-1];
  reg [8:0] left = 9'd0;  // beats
  reg [31:0] beat;
  reg [{{id_bits}}-1:0] burst_id;
  initial $readmemh("memory.mem", memory);
  assign m_axi_arready = left == 9'd0;
  assign m_axi_rvalid = left != 9'd0;
  assign m_axi_rid = burst_id;
  assign m_axi_rdata = memory[beat];
  assign m_axi_rresp = 2'd0;
  assign m_axi_rlast = left == 9'd1;
  always @(posedge clk) if (!rst) begin
    if (m_axi_arvalid && m_axi_arready) begin
      left <= m_axi_arlen + 9'd1;
      beat <= m_axi_araddr / {{data_bytes}};
      burst_id <= m_axi_arid;
    end
    if (m_axi_rvalid && m_axi_rready) begin
      left <= left - 9'd1;
      beat <= beat + 1;
    end
  end

  // Tokens: id[23:0], type[24], attend[25], ends[26].
  reg [31:0] tokens[0:{{tokens}}-1];
  initial $readmemh("tokens.mem", tokens);
