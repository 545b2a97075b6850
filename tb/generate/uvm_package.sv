// A passive UVM view of {{module}}: a monitor of its ports, a mirror of its registers, and a
// scoreboard that holds the logits to those of golden. Nothing here drives anything.

package {{module}}_uvm_pkg;
  import uvm_pkg::*;
  import {{module}}_registers_pkg::*;
`include "uvm_macros.svh"

  localparam int unsigned CORES = {{cores}};
  localparam int unsigned LANES = {{lanes}};
  localparam bit STREAMS = {{streams}};  // logits come by a stream, not by reads of a register
  localparam int unsigned HEADER_BYTES = {{header_bytes}};  // of the command stream's first descriptor
  localparam int unsigned MODEL_AT = {{model_at}};  // where the model's hash begins in it
  localparam bit [7:0]{{addresses}};
  localparam bit [1:0] OKAY = 2'd0;

  // An access by AXI4-Lite, when its response is offered.
  class {{module}}_access extends uvm_sequence_item;
    bit write;
    bit [31:0] address;  // of the port, rounded down to a word
    bit [31:0] data;
    bit [3:0] strobe;
    bit [1:0] response;
    time taken;  // when the address of a read was

    `uvm_object_utils({{module}}_access)

    function new(string name = "{{module}}_access");
      super.new(name);
    endfunction

    // A write of this register that has an effect.
    function bit writes(bit [7:0] which);
      return write && response == OKAY && strobe[0] && address[7:0] == which;
    endfunction

    // Start and abort written together are an abort.
    function bit starts();
      return writes(CONTROL) && data[1:0] == 2'b01;
    endfunction

    function bit aborts();
      return writes(CONTROL) && data[1];
    endfunction

    virtual function string convert2string();
      return $sformatf("%s %0h: %0h, response %0d", write ? "write" : "read", address, data, response);
    endfunction
  endclass

  // Which model the inference under way has: the hash in the header of its command stream.
  class {{module}}_header extends uvm_sequence_item;
    bit [63:0] model;  // the first byte highest

    `uvm_object_utils({{module}}_header)

    function new(string name = "{{module}}_header");
      super.new(name);
    endfunction

    virtual function string convert2string();
      return $sformatf("model %016h", model);
    endfunction
  endclass

  // The packet of tokens of the inference under way: one sequence or a batch.
  class {{module}}_tokens extends uvm_sequence_item;
    bit [31:0] words[$];

    `uvm_object_utils({{module}}_tokens)

    function new(string name = "{{module}}_tokens");
      super.new(name);
    endfunction

    virtual function string convert2string();
      return $sformatf("%0d tokens", words.size());
    endfunction
  endclass

  // A logit as it is taken.
  class {{module}}_logit extends uvm_sequence_item;
    logic signed [31:0] value;
    bit last;  // it ends the packet of a sequence; 0 where STREAMS is

    `uvm_object_utils({{module}}_logit)

    function new(string name = "{{module}}_logit");
      super.new(name);
    endfunction

    virtual function string convert2string();
      return $sformatf("logit %0d%s", value, last ? ", the last" : "");
    endfunction
  endclass

  typedef enum {RESET, INTERRUPT_RISES, INTERRUPT_FALLS} {{module}}_event_e;

  class {{module}}_event extends uvm_sequence_item;
    {{module}}_event_e what;

    `uvm_object_utils({{module}}_event)

    function new(string name = "{{module}}_event");
      super.new(name);
    endfunction

    virtual function string convert2string();
      return what.name();
    endfunction
  endclass

  typedef enum {
    COMPARED,  // with golden's answer; what differed is a UVM_ERROR
    UNCHECKED,  // logits came, and no table has these tokens of this model
    FAILED,  // `status` named an error, or it was aborted
    UNREAD,  // logits were not read, or not all: with DMA alone
    UNFINISHED  // without logits, and nobody read `status`; or the reset or the end of the test came
  } {{module}}_outcome_e;

  // What golden answers to a packet of tokens.
  class {{module}}_answer extends uvm_object;
    int logits[$];
    bit ends[$];  // whether a logit ends the packet of a sequence
    string source;  // the table, and the place in it

    `uvm_object_utils({{module}}_answer)

    function new(string name = "{{module}}_answer");
      super.new(name);
    endfunction
  endclass

  // An inference from its start to the next one.
  class {{module}}_inference extends uvm_sequence_item;
    time started;
    bit has_model, has_tokens;
    bit [63:0] model;
    bit [31:0] tokens[$];
    logic signed [31:0] logits[$];
    bit aborted;  // `abort` was written
    bit ended;  // interrupt or `status` said so
    bit done;  // `status` said so, with this error
    bit [3:0] error;
    {{module}}_answer expected;  // null: in no table
    {{module}}_outcome_e outcome;

    `uvm_object_utils({{module}}_inference)

    function new(string name = "{{module}}_inference");
      super.new(name);
    endfunction

    function int unsigned sequences();
      sequences = 0;
      foreach (tokens[k]) if (tokens[k][26] || k == tokens.size() - 1) sequences++;
    endfunction

    virtual function string convert2string();
      return $sformatf("inference of %0t: model %016h, %0d sequences, %0d tokens, %0d logits, %s",
                       started, model, sequences(), tokens.size(), logits.size(), outcome.name());
    endfunction
  endclass

  // Tables of answers, as tb.generate writes them: "answers ENTRIES", the entries, "end". An entry is
  // the model's hash, the number of tokens, their words, the number of packets of logits, and of each
  // packet its number of logits and the logits. Hash and words are hexadecimal, all else is decimal.
  class {{module}}_answers extends uvm_object;
    protected {{module}}_answer by_key[string];

    `uvm_object_utils({{module}}_answers)

    function new(string name = "{{module}}_answers");
      super.new(name);
    endfunction

    // Bits that the accelerator ignores are 0, and the last token ends its sequence.
    static function string key(bit [63:0] model, bit [31:0] words[$]);
      bit [31:0] word;
      key = $sformatf("%016h", model);
      foreach (words[k]) begin
        word = words[k];
        word[31:27] = 5'd0;
        if (k == words.size() - 1) word[26] = 1'b1;
        key = {key, $sformatf(" %08h", word)};
      end
    endfunction

    // null: it is in no table.
    function {{module}}_answer find(bit [63:0] model, bit [31:0] words[$]);
      string wanted = key(model, words);
      return by_key.exists(wanted) ? by_key[wanted] : null;
    endfunction

    function void read(string path);
      {{module}}_answer answer;
      bit [63:0] model;
      bit [31:0] word, words[$];
      int entries, tokens, packets, logits, value;
      string wanted, mark;
      bit good;
      int file = $fopen(path, "r");
      good = file != 0 && $fscanf(file, "answers %d", entries) == 1;
      for (int entry = 0; good && entry < entries; entry++) begin
        answer = {{module}}_answer::type_id::create("answer");
        answer.source = $sformatf("%s, entry %0d", path, entry);
        words.delete();
        good = $fscanf(file, "%h %d", model, tokens) == 2;
        for (int k = 0; good && k < tokens; k++) begin
          good = $fscanf(file, "%h", word) == 1;
          words.push_back(word);
        end
        good = good && $fscanf(file, "%d", packets) == 1;
        for (int packet = 0; good && packet < packets; packet++) begin
          good = $fscanf(file, "%d", logits) == 1;
          for (int k = 0; good && k < logits; k++) begin
            good = $fscanf(file, "%d", value) == 1;
            answer.logits.push_back(value);
            answer.ends.push_back(k == logits - 1);
          end
        end
        wanted = key(model, words);
        if (good && by_key.exists(wanted) && by_key[wanted].logits != answer.logits)
          `uvm_fatal("ANSWERS", $sformatf("%s and %s differ: one of them is of another version",
                                          by_key[wanted].source, answer.source))
        by_key[wanted] = answer;
      end
      if (!good || $fscanf(file, "%s", mark) != 1 || mark != "end")
        `uvm_fatal("ANSWERS", {path, " is missing, cut or no table of answers"})
      $fclose(file);
    endfunction
  endclass

  class {{module}}_config extends uvm_object;
    string path;  // of the accelerator to which a probe is bound, e.g. "top.soc.accelerator"
    virtual {{module}}_if view;  // null: that of the probe at `path`
    string answers[$];  // paths of tables
    int unsigned least = 1;  // fewer compared inferences are a UVM_ERROR, per core

    `uvm_object_utils({{module}}_config)

    function new(string name = "{{module}}_config");
      super.new(name);
    endfunction
  endclass

  // What one core takes and gives, in the order in which it does. A start is reported before the
  // first word of its inference, since the accelerator answers it no later than it takes a word.
  class {{module}}_monitor extends uvm_monitor;
    {{module}}_config cfg;
    int unsigned core;
    uvm_analysis_port #({{module}}_access) accesses;
    uvm_analysis_port #({{module}}_header) headers;
    uvm_analysis_port #({{module}}_tokens) tokens;
    uvm_analysis_port #({{module}}_logit) logits;
    uvm_analysis_port #({{module}}_event) events;

    protected virtual {{module}}_if view;
    protected bit held, interrupted;
    // Writes and reads whose response has not been offered.
    protected bit [31:0] write_addresses[$], read_addresses[$];
    protected bit [35:0] written[$];
    protected time taken[$];
    protected bit write_waits, read_waits;  // a response was offered and not taken
    protected bit [7:0] header[HEADER_BYTES];

    `uvm_component_utils({{module}}_monitor)

    function new(string name, uvm_component parent);
      super.new(name, parent);
      accesses = new("accesses", this);
      headers = new("headers", this);
      tokens = new("tokens", this);
      logits = new("logits", this);
      events = new("events", this);
    endfunction

    virtual task run_phase(uvm_phase phase);
      view = cfg.view;
      if (view == null
          && !uvm_config_db#(virtual {{module}}_if)::get(null, "", {cfg.path, ".probe"}, view))
        `uvm_fatal("BIND", {"no {{module}}_probe is bound to '", cfg.path, "'"})
      forever begin
        @(view.observed);
        if (view.observed.rst !== 1'b0) begin
          if (!held) happens(RESET);
          held = 1'b1;
          interrupted = 1'b0;
          write_addresses.delete();
          read_addresses.delete();
          written.delete();
          taken.delete();
          write_waits = 1'b0;
          read_waits = 1'b0;
          resets();
        end else begin
          held = 1'b0;
          // A read that is answered in the cycle of a write's answer was before it.
          reads();
          writes();
          words();
          line();
        end
      end
    endtask

    protected function void happens({{module}}_event_e what);
      {{module}}_event e = {{module}}_event::type_id::create("event");
      e.what = what;
      events.write(e);
    endfunction

    protected function void line();
      bit now = view.observed.interrupt[core] === 1'b1;
      if (now != interrupted) happens(now ? INTERRUPT_RISES : INTERRUPT_FALLS);
      interrupted = now;
    endfunction

    protected function void reads();
      {{module}}_access access;
      if (view.observed.s_axi_rvalid === 1'b1 && !read_waits && read_addresses.size() > 0) begin
        access = {{module}}_access::type_id::create("access");
        access.address = read_addresses.pop_front() & ~32'd3;
        access.taken = taken.pop_front();
        access.data = view.observed.s_axi_rdata;
        access.response = view.observed.s_axi_rresp;
        answered(access);
      end
      read_waits = view.observed.s_axi_rvalid === 1'b1 && view.observed.s_axi_rready !== 1'b1;
      if (view.observed.s_axi_arvalid === 1'b1 && view.observed.s_axi_arready === 1'b1) begin
        read_addresses.push_back(32'(view.observed.s_axi_araddr));
        taken.push_back($time);
      end
    endfunction

    protected function void writes();
      {{module}}_access access;
      if (view.observed.s_axi_bvalid === 1'b1 && !write_waits && write_addresses.size() > 0
          && written.size() > 0) begin
        access = {{module}}_access::type_id::create("access");
        access.write = 1'b1;
        access.address = write_addresses.pop_front() & ~32'd3;
        {access.strobe, access.data} = written.pop_front();
        access.response = view.observed.s_axi_bresp;
        answered(access);
      end
      write_waits = view.observed.s_axi_bvalid === 1'b1 && view.observed.s_axi_bready !== 1'b1;
      if (view.observed.s_axi_awvalid === 1'b1 && view.observed.s_axi_awready === 1'b1)
        write_addresses.push_back(32'(view.observed.s_axi_awaddr));
      if (view.observed.s_axi_wvalid === 1'b1 && view.observed.s_axi_wready === 1'b1)
        written.push_back({view.observed.s_axi_wstrb, view.observed.s_axi_wdata});
    endfunction

    protected function void answered({{module}}_access access);
      if (access.address >> 8 != core) return;
      accesses.write(access);
      if (access.starts()) begins_anew();
      accessed(access);
    endfunction

    protected function void found_header();
      {{module}}_header found = {{module}}_header::type_id::create("header");
      for (int unsigned k = 0; k < 8; k++)
        found.model = {found.model[55:0], header[MODEL_AT+k]};
      headers.write(found);
    endfunction

    protected function void found_tokens(bit [31:0] words[$]);
      {{module}}_tokens found = {{module}}_tokens::type_id::create("tokens");
      found.words = words;
      tokens.write(found);
    endfunction

    protected function void found_logit(logic [31:0] value, bit last);
      {{module}}_logit found = {{module}}_logit::type_id::create("logit");
      found.value = value;
      found.last = last;
      logits.write(found);
    endfunction

{{surroundings}}  endclass

  class {{module}}_adapter extends uvm_reg_adapter;
    `uvm_object_utils({{module}}_adapter)

    function new(string name = "{{module}}_adapter");
      super.new(name);
      supports_byte_enable = 1'b1;
    endfunction

    virtual function uvm_sequence_item reg2bus(const ref uvm_reg_bus_op rw);
      {{module}}_access access = {{module}}_access::type_id::create("access");
      access.write = rw.kind == UVM_WRITE;
      access.address = rw.addr[31:0];
      access.data = rw.data[31:0];
      access.strobe = rw.byte_en[3:0];
      return access;
    endfunction

    virtual function void bus2reg(uvm_sequence_item bus_item, ref uvm_reg_bus_op rw);
      {{module}}_access access;
      if (!$cast(access, bus_item)) `uvm_fatal("ADAPTER", "the item is no {{module}}_access")
      rw.kind = access.write ? UVM_WRITE : UVM_READ;
      rw.addr = uvm_reg_addr_t'(access.address);
      rw.data = uvm_reg_data_t'(access.data);
      rw.byte_en = access.write ? uvm_reg_byte_en_t'(access.strobe) : uvm_reg_byte_en_t'(4'hf);
      rw.status = access.response == OKAY ? UVM_IS_OK : UVM_NOT_OK;
    endfunction
  endclass

  // An access that was refused has no effect, and a read of what hardware never changes gives what
  // the mirror holds.
  class {{module}}_predictor extends uvm_reg_predictor #({{module}}_access);
    `uvm_component_utils({{module}}_predictor)

    function new(string name, uvm_component parent);
      super.new(name, parent);
    endfunction

    virtual function void write({{module}}_access tr);
      uvm_reg register;
      uvm_reg_field fields[$];
      uvm_reg_data_t value;
      if (tr.response != OKAY) return;
      if (!tr.write) register = map.get_reg_by_offset(uvm_reg_addr_t'(tr.address), 1'b1);
      if (register != null) register.get_fields(fields);
      foreach (fields[k]) begin
        value = (uvm_reg_data_t'(tr.data) >> fields[k].get_lsb_pos())
            & ((uvm_reg_data_t'(1) << fields[k].get_n_bits()) - 1);
        if (!fields[k].is_volatile() && fields[k].get_access() != "WO"
            && value != fields[k].get_mirrored_value())
          `uvm_error("MIRROR", $sformatf("%s is read as %0h, the mirror holds %0h",
                                         fields[k].get_full_name(), value,
                                         fields[k].get_mirrored_value()))
      end
      super.write(tr);
    endfunction
  endclass

  // Monitor and mirror of a core.
  class {{module}}_agent extends uvm_agent;
    {{module}}_config cfg;
    int unsigned core;
    {{module}}_monitor monitor;
    {{module}}_predictor predictor;
    {{module}}_adapter adapter;
    {{top}} registers;
    uvm_analysis_imp #({{module}}_event, {{module}}_agent) events;

    `uvm_component_utils({{module}}_agent)

    function new(string name, uvm_component parent);
      super.new(name, parent);
      is_active = UVM_PASSIVE;
      events = new("events", this);
    endfunction

    virtual function void build_phase(uvm_phase phase);
      super.build_phase(phase);
      monitor = {{module}}_monitor::type_id::create("monitor", this);
      monitor.cfg = cfg;
      monitor.core = core;
      predictor = {{module}}_predictor::type_id::create("predictor", this);
      adapter = {{module}}_adapter::type_id::create("adapter");
      registers = new({get_full_name(), ".registers"});  // root models need names of their own
      registers.build();
      registers.lock_model();
      registers.default_map.set_base_addr(256 * core);
      registers.default_map.set_auto_predict(1'b0);
      registers.reset();
    endfunction

    virtual function void connect_phase(uvm_phase phase);
      predictor.map = registers.default_map;
      predictor.adapter = adapter;
      monitor.accesses.connect(predictor.bus_in);
      monitor.events.connect(events);
    endfunction

    virtual function void write({{module}}_event t);
      if (t.what == RESET) registers.reset();
    endfunction
  endclass

  `uvm_analysis_imp_decl(_accesses)
  `uvm_analysis_imp_decl(_headers)
  `uvm_analysis_imp_decl(_tokens)
  `uvm_analysis_imp_decl(_logits)
  `uvm_analysis_imp_decl(_events)

  // Holds the logits of each inference to golden's, where a table has its tokens and its model.
  class {{module}}_scoreboard extends uvm_scoreboard;
    {{module}}_answers answers;
    int unsigned least;
    uvm_analysis_imp_accesses #({{module}}_access, {{module}}_scoreboard) accesses;
    uvm_analysis_imp_headers #({{module}}_header, {{module}}_scoreboard) headers;
    uvm_analysis_imp_tokens #({{module}}_tokens, {{module}}_scoreboard) tokens;
    uvm_analysis_imp_logits #({{module}}_logit, {{module}}_scoreboard) logits;
    uvm_analysis_imp_events #({{module}}_event, {{module}}_scoreboard) events;
    uvm_analysis_port #({{module}}_inference) inferences;  // each when it is over
    int unsigned counts[{{module}}_outcome_e];
    int unsigned packets, values;  // of logits, compared

    protected {{module}}_inference current;

    `uvm_component_utils({{module}}_scoreboard)

    function new(string name, uvm_component parent);
      super.new(name, parent);
      accesses = new("accesses", this);
      headers = new("headers", this);
      tokens = new("tokens", this);
      logits = new("logits", this);
      events = new("events", this);
      inferences = new("inferences", this);
      counts[COMPARED] = 0;
      counts[UNCHECKED] = 0;
      counts[FAILED] = 0;
      counts[UNREAD] = 0;
      counts[UNFINISHED] = 0;
    endfunction

    virtual function void write_accesses({{module}}_access t);
      if (t.starts()) begin
        conclude(1'b0);
        current = {{module}}_inference::type_id::create("inference");
        current.started = $time;
      end
      if (current == null) return;
      if (t.aborts()) current.aborted = 1'b1;
      // An earlier read may still show the end of the inference before.
      if (!t.write && t.address[7:0] == STATUS && t.taken > current.started && t.data[1:0] == 2'b10)
      begin
        current.ended = 1'b1;
        current.done = 1'b1;
        current.error = t.data[11:8];
      end
    endfunction

    virtual function void write_headers({{module}}_header t);
      if (current == null) return;
      current.has_model = 1'b1;
      current.model = t.model;
    endfunction

    virtual function void write_tokens({{module}}_tokens t);
      if (current == null) return;
      current.has_tokens = 1'b1;
      current.tokens = t.words;
    endfunction

    virtual function void write_events({{module}}_event t);
      case (t.what)
        RESET: conclude(1'b1);
        INTERRUPT_RISES: if (current != null) current.ended = 1'b1;
        default: ;
      endcase
    endfunction

    virtual function void write_logits({{module}}_logit t);
      int place;
      if (current == null) return;
      place = current.logits.size();
      // A register of logits reads as 0 while none waits.
      if (!STREAMS && !current.ended) return;
      if (place == 0 && current.has_model && current.has_tokens)
        current.expected = answers.find(current.model, current.tokens);
      if (current.expected == null) current.logits.push_back(t.value);
      else if (place >= current.expected.logits.size()) begin
        if (STREAMS || t.value !== 0)
          `uvm_error("LOGITS", $sformatf("logit %0d of %s: golden has %0d alone", place,
                                         current.expected.source, current.expected.logits.size()))
      end else begin
        current.logits.push_back(t.value);
        values++;
        if (current.expected.ends[place]) packets++;
        if (t.value !== current.expected.logits[place])
          `uvm_error("LOGITS", $sformatf("logit %0d of %s is %0d, golden says %0d", place,
                                         current.expected.source, t.value,
                                         current.expected.logits[place]))
        if (STREAMS && t.last != current.expected.ends[place])
          `uvm_error("LOGITS", $sformatf("logit %0d of %s: tlast is %0d, golden says %0d", place,
                                         current.expected.source, t.last,
                                         current.expected.ends[place]))
      end
    endfunction

    // The inference under way is over. `cut`: by a reset, or by the end of the test.
    protected function void conclude(bit cut);
      int got;
      bit succeeded;
      if (current == null) return;
      got = current.logits.size();
      succeeded = current.done && current.error == 4'd0;
      if (current.expected != null && got == current.expected.logits.size())
        current.outcome = COMPARED;
      else if (got > 0 && current.expected == null) current.outcome = UNCHECKED;
      else if (got == 0 && (current.aborted || current.done && !succeeded)) current.outcome = FAILED;
      else if (!STREAMS && current.ended) current.outcome = UNREAD;
      else begin
        current.outcome = UNFINISHED;
        if (STREAMS && (succeeded || got > 0 && !cut))
          `uvm_error("LOGITS", $sformatf("%s: it ended, and logits are missing",
                                         current.convert2string()))
      end
      if (STREAMS && got > 0 && current.done && !succeeded)
        `uvm_error("LOGITS", $sformatf("%s: it failed, and logits came",
                                       current.convert2string()))
      if (current.outcome == UNCHECKED)
        `uvm_info("UNCHECKED", current.convert2string(), UVM_LOW)
      counts[current.outcome]++;
      inferences.write(current);
      current = null;
    endfunction

    virtual function void check_phase(uvm_phase phase);
      conclude(1'b1);
      if (counts[COMPARED] < least)
        `uvm_error("COMPARED", $sformatf("%0d inferences were compared, fewer than %0d",
                                         counts[COMPARED], least))
    endfunction

    virtual function void report_phase(uvm_phase phase);
      `uvm_info("SCOREBOARD", $sformatf(
          "%0d inferences compared (%0d packets, %0d logits), %0d unchecked, %0d failed, %0d not read, %0d unfinished",
          counts[COMPARED], packets, values, counts[UNCHECKED], counts[FAILED], counts[UNREAD],
          counts[UNFINISHED]), UVM_NONE)
    endfunction
  endclass

  // What kinds of inferences were seen.
  class {{module}}_coverage extends uvm_subscriber #({{module}}_inference);
    covergroup inferences with function sample({{module}}_inference t);
      sequences: coverpoint t.sequences() {bins one = {1}; bins several = {[2 : $]};}
      lanes: coverpoint t.tokens.size() % LANES iff (t.sequences() == 1) {bins remainder[] = {[0 : LANES - 1]};}
      outcome: coverpoint t.outcome {bins each[] = {COMPARED, UNCHECKED, FAILED, UNREAD, UNFINISHED};}
      error: coverpoint t.error iff (t.done) {bins code[] = {[0 : {{last_error}}]};}
    endgroup

    `uvm_component_utils({{module}}_coverage)

    function new(string name, uvm_component parent);
      super.new(name, parent);
      inferences = new();
    endfunction

    virtual function void write({{module}}_inference t);
      inferences.sample(t);
    endfunction
  endclass

  // An agent, a scoreboard and coverage for each core. `cfg` comes by uvm_config_db.
  class {{module}}_env extends uvm_env;
    {{module}}_config cfg;
    {{module}}_answers answers;
    {{module}}_agent agents[CORES];
    {{module}}_scoreboard scoreboards[CORES];
    {{module}}_coverage coverage[CORES];

    `uvm_component_utils({{module}}_env)

    function new(string name, uvm_component parent);
      super.new(name, parent);
    endfunction

    virtual function void build_phase(uvm_phase phase);
      super.build_phase(phase);
      if (!uvm_config_db#({{module}}_config)::get(this, "", "cfg", cfg))
        `uvm_fatal("CONFIG", "uvm_config_db has no {{module}}_config named cfg for this env")
      answers = {{module}}_answers::type_id::create("answers");
      foreach (cfg.answers[k]) answers.read(cfg.answers[k]);
      for (int unsigned k = 0; k < CORES; k++) begin
        agents[k] = {{module}}_agent::type_id::create($sformatf("agent_%0d", k), this);
        agents[k].cfg = cfg;
        agents[k].core = k;
        scoreboards[k] = {{module}}_scoreboard::type_id::create($sformatf("scoreboard_%0d", k), this);
        scoreboards[k].answers = answers;
        scoreboards[k].least = cfg.least;
        coverage[k] = {{module}}_coverage::type_id::create($sformatf("coverage_%0d", k), this);
      end
    endfunction

    virtual function void connect_phase(uvm_phase phase);
      for (int unsigned k = 0; k < CORES; k++) begin
        agents[k].monitor.accesses.connect(scoreboards[k].accesses);
        agents[k].monitor.headers.connect(scoreboards[k].headers);
        agents[k].monitor.tokens.connect(scoreboards[k].tokens);
        agents[k].monitor.logits.connect(scoreboards[k].logits);
        agents[k].monitor.events.connect(scoreboards[k].events);
        scoreboards[k].inferences.connect(coverage[k].analysis_export);
      end
    endfunction
  endclass
endpackage
