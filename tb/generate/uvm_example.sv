// The view beside the bench of this folder, whose sources and memories drive the accelerator.
// +answers=FILE names another table of answers.

package {{module}}_example_pkg;
  import uvm_pkg::*;
  import {{module}}_uvm_pkg::*;
`include "uvm_macros.svh"

  class {{module}}_example_test extends uvm_test;
    {{module}}_env env;

    `uvm_component_utils({{module}}_example_test)

    function new(string name, uvm_component parent);
      super.new(name, parent);
    endfunction

    virtual function void build_phase(uvm_phase phase);
      {{module}}_config cfg = {{module}}_config::type_id::create("cfg");
      string path = "uvm/answers.txt";
      super.build_phase(phase);
      void'($value$plusargs("answers=%s", path));
      cfg.path = "{{example}}.bench.unit";
      cfg.answers.push_back(path);
      cfg.least = {{inferences}};
      uvm_config_db#({{module}}_config)::set(this, "env", "cfg", cfg);
      env = {{module}}_env::type_id::create("env", this);
    endfunction

    virtual task run_phase(uvm_phase phase);
      uvm_event passed = uvm_event_pool::get_global("passed");
      phase.raise_objection(this);
      passed.wait_on();
      phase.drop_objection(this);
    endtask
  endclass
endpackage

module {{example}};
  import uvm_pkg::*;
  import {{module}}_example_pkg::*;

  // Every {{module}} below gets a probe; `bind PATH {{module}}_probe probe (.*);` is one alone. Not all
  // simulators see a bind that stands outside of a module.
  bind {{module}} {{module}}_probe probe (.*);
  {{bench}} #(.FINISH(0)) bench ();

  initial begin
    uvm_event passed;
    passed = uvm_event_pool::get_global("passed");
    wait (bench.passed);
    passed.trigger();
  end

  initial run_test("{{module}}_example_test");
endmodule
