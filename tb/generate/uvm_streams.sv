    protected bit [31:0] packet[$];  // of tokens, so far
    protected int unsigned place;  // in the header

    // What was taken before a start belongs to an earlier inference.
    protected function void begins_anew();
      packet.delete();
      place = 0;
    endfunction

    protected function void resets();
      begins_anew();
    endfunction

    // Nothing else of an inference goes through registers.
    protected function void accessed({{module}}_access access);
    endfunction

    protected function void words();
      bit [{{model_width}}-1:0] word;
      if (view.observed.s_axis_model_tvalid === 1'b1 && view.observed.s_axis_model_tready === 1'b1
          && place < HEADER_BYTES) begin
        word = view.observed.s_axis_model_tdata;
        for (int k = 0; k < {{model_width}} / 8 && place < HEADER_BYTES; k++) begin
          header[place] = word[8*k+:8];
          place++;
        end
        if (place == HEADER_BYTES) found_header();
      end
      if (view.observed.s_axis_tokens_tvalid === 1'b1 && view.observed.s_axis_tokens_tready === 1'b1)
      begin
        packet.push_back(view.observed.s_axis_tokens_tdata);
        if (view.observed.s_axis_tokens_tlast === 1'b1) begin
          found_tokens(packet);
          packet.delete();
        end
      end
      if (view.observed.m_axis_logits_tvalid === 1'b1 && view.observed.m_axis_logits_tready === 1'b1)
        found_logit(view.observed.m_axis_logits_tdata, view.observed.m_axis_logits_tlast === 1'b1);
    endfunction
