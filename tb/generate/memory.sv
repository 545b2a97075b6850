  wire memory_moved;
  wire memory_idle;

{{memory}}
  // Of each inference: address (64 bits) and bytes of the stream, address (64) and bytes of the rows,
  // place of its first token and number of tokens, number of logits; {8'hff, ...} behind the last.
  reg [295:0] jobs[0:INFERENCES];
  reg [295:0] job;
  reg [40:0] tokens[0:{{tokens_words}}];
  integer place;

  initial begin
    $readmemh({DIR, "/jobs.mem"}, jobs);
    $readmemh({DIR, "/tokens.mem"}, tokens);
    if (jobs[INFERENCES][295:288] !== 8'hff)
      $fatal(1, "%0s is missing or has not %0d words", {DIR, "/jobs.mem"}, INFERENCES + 1);
    if (tokens[{{tokens_words}}][40:33] !== 8'hff)
      $fatal(1, "%0s is missing or has not %0d words", {DIR, "/tokens.mem"}, {{tokens_words}} + 1);
  end

  // Addresses and sizes.
  task prepare;
    begin
      job = jobs[k];
      write_register(32'h{{model_address}}, job[255:224]);
      write_register(32'h{{model_address_high}}, job[287:256]);
      write_register(32'h{{model_bytes}}, job[223:192]);
      write_register(32'h{{rows_address}}, job[159:128]);
      write_register(32'h{{rows_address_high}}, job[191:160]);
      write_register(32'h{{row_bytes}}, job[127:96]);
    end
  endtask

  // Write the tokens.
  task supply;
    for (place = 0; place < job[63:32]; place = place + 1)
      if (tokens[job[95:64]+place][32]) write_register(32'h{{token_last}}, tokens[job[95:64]+place][31:0]);
      else write_register(32'h{{token}}, tokens[job[95:64]+place][31:0]);
  endtask

  // Read the logits.
  reg logit_passes = 1'b0;
  wire [31:0] logit = value;
  task collect;
    begin
      if (!memory_idle)
        $fatal(1, "inference %0d has ended in cycle %0d and has not taken all beats", k, cycle);
      read_register(32'h{{token_room}});
      if (value !== 32'd{{fifo_words}})
        $fatal(1, "inference %0d has ended in cycle %0d and has not taken all tokens", k, cycle);
      read_register(32'h{{logits_waiting}});
      if (value !== job[31:0])
        $fatal(1, "inference %0d: %0d logits wait, not %0d", k, value, job[31:0]);
      for (place = 0; place < job[31:0]; place = place + 1) begin
        read_register(32'h{{logit_address}});
        logit_passes = 1'b1;
        @(negedge clk);
        logit_passes = 1'b0;
      end
      read_register(32'h{{logits_waiting}});
      if (value !== 32'd0) $fatal(1, "inference %0d: %0d logits wait, all were read", k, value);
    end
  endtask