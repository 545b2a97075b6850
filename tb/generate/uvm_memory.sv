    typedef bit [31:0] packet_t[$];

    protected packet_t packet;  // of tokens, as far as it is written
    protected packet_t waiting[$];  // packets that no start has taken
    protected int unsigned owed;  // starts whose packet has not been written
    protected bit [63:0] model_address;
    protected bit [HEADER_BYTES-1:0] seen;  // bytes of the header that were read
    protected bit [63:0] bursts[$];  // addresses of the beats to come

    protected function void begins_anew();
      seen = '0;
    endfunction

    protected function void resets();
      begins_anew();
      forgets();
      model_address = 64'd0;
      bursts.delete();
    endfunction

    // An abort empties the FIFO of tokens.
    protected function void forgets();
      packet.delete();
      waiting.delete();
      owed = 0;
    endfunction

    // Each start takes one packet of tokens, in their order.
    protected function void accessed({{module}}_access access);
      if (access.aborts()) forgets();
      if (access.starts()) begin
        if (waiting.size() > 0) found_tokens(waiting.pop_front());
        else owed++;
      end
      if (access.writes(MODEL_ADDRESS)) model_address[31:0] = access.data;
      if (access.writes(MODEL_ADDRESS_HIGH)) model_address[63:32] = access.data;
      if (access.writes(TOKEN) || access.writes(TOKEN_LAST)) packet.push_back(access.data);
      if (access.writes(TOKEN_LAST)) begin
        // Where a start without tokens has failed, its packet comes later and is dropped.
        if (owed == 0) waiting.push_back(packet);
        else begin
          owed--;
          if (owed == 0) found_tokens(packet);
        end
        packet.delete();
      end
      if (!access.write && access.address[7:0] == LOGIT) found_logit(access.data, 1'b0);
    endfunction

    // The header of the command stream, as it is read from memory.
    protected function void words();
      bit [{{data_bits}}-1:0] beat;
      bit [63:0] address, offset;
      if (view.observed.m_axi_rvalid === 1'b1 && view.observed.m_axi_rready === 1'b1
          && view.observed.m_axi_rid == core && bursts.size() > 0) begin
        beat = view.observed.m_axi_rdata;
        address = bursts.pop_front();
        if (seen != '1) begin
          for (int unsigned k = 0; k < {{data_bits}} / 8; k++) begin
            offset = address + 64'(k) - model_address;
            if (offset < HEADER_BYTES) begin
              header[offset[4:0]] = beat[8*k+:8];
              seen[offset[4:0]] = 1'b1;
            end
          end
          if (seen == '1) found_header();
        end
      end
      if (view.observed.m_axi_arvalid === 1'b1 && view.observed.m_axi_arready === 1'b1
          && view.observed.m_axi_arid == core) begin
        address = 64'(view.observed.m_axi_araddr);
        for (int unsigned k = 0; k <= view.observed.m_axi_arlen; k++)
          bursts.push_back(address + 64'(k * ({{data_bits}} / 8)));
      end
    endfunction
