// Words of the file +cases=FILE as what the monitor says, to scoreboard and mirror of the first core
// before the clock begins; `end` prints what the scoreboard has counted since the one before.

package {{module}}_cases_pkg;
  import uvm_pkg::*;
  import {{module}}_uvm_pkg::*;
  import {{module}}_example_pkg::*;
`include "uvm_macros.svh"

  class {{module}}_cases_test extends {{module}}_example_test;
    `uvm_component_utils({{module}}_cases_test)

    function new(string name, uvm_component parent);
      super.new(name, parent);
    endfunction

    function void access(bit write, bit [31:0] address, data, bit [1:0] response, time taken);
      {{module}}_access access = {{module}}_access::type_id::create("access");
      access.write = write;
      access.address = address;
      access.data = data;
      access.strobe = 4'hf;
      access.response = response;
      access.taken = taken;
      env.agents[0].predictor.write(access);
      env.scoreboards[0].write_accesses(access);
    endfunction

    function void happens({{module}}_event_e what);
      {{module}}_event e = {{module}}_event::type_id::create("event");
      e.what = what;
      env.agents[0].write(e);
      env.scoreboards[0].write_events(e);
    endfunction

    function int errors();
      uvm_report_server server = uvm_report_server::get_server();
      return server.get_severity_count(UVM_ERROR);
    endfunction

    virtual task run_phase(uvm_phase phase);
      {{module}}_scoreboard scoreboard = env.scoreboards[0];
      {{module}}_header header;
      {{module}}_tokens tokens;
      {{module}}_logit logit;
      string path, word;
      bit [31:0] address, data, number;
      int file, got, count, value, since;
      phase.raise_objection(this);
      got = $value$plusargs("cases=%s", path);
      file = $fopen(path, "r");
      while ($fscanf(file, "%s", word) == 1)
        case (word)
          "start": access(1'b1, 32'h1c, 32'd1, 2'd0, 0);
          "refused": access(1'b1, 32'h1c, 32'd1, 2'd2, 0);
          "abort": access(1'b1, 32'h1c, 32'd3, 2'd0, 0);
          "write": begin
            got = $fscanf(file, "%h %h %d", address, data, number);
            access(1'b1, address, data, number[1:0], 0);
          end
          "read": begin
            got = $fscanf(file, "%h %h %d", address, data, number);
            access(1'b0, address, data, 2'd0, number);
          end
          "model": begin
            header = {{module}}_header::type_id::create("header");
            got = $fscanf(file, "%h", header.model);
            scoreboard.write_headers(header);
          end
          "tokens": begin
            tokens = {{module}}_tokens::type_id::create("tokens");
            got = $fscanf(file, "%d", count);
            repeat (count) begin
              got = $fscanf(file, "%h", data);
              tokens.words.push_back(data);
            end
            scoreboard.write_tokens(tokens);
          end
          "logit": begin
            logit = {{module}}_logit::type_id::create("logit");
            got = $fscanf(file, "%d %d", value, count);
            logit.value = value;
            logit.last = count != 0;
            scoreboard.write_logits(logit);
          end
          "interrupt": happens(INTERRUPT_RISES);
          "reset": happens(RESET);
          "end": begin
            $display("CASE %0d %0d %0d %0d %0d errors %0d", scoreboard.counts[COMPARED],
                     scoreboard.counts[UNCHECKED], scoreboard.counts[FAILED],
                     scoreboard.counts[UNREAD], scoreboard.counts[UNFINISHED], errors() - since);
            happens(RESET);
            since = errors();
            scoreboard.counts[COMPARED] = 0;
            scoreboard.counts[UNCHECKED] = 0;
            scoreboard.counts[FAILED] = 0;
            scoreboard.counts[UNREAD] = 0;
            scoreboard.counts[UNFINISHED] = 0;
          end
          default: `uvm_fatal("CASES", {word, " is unknown"})
        endcase
      phase.drop_objection(this);
    endtask
  endclass
endpackage

