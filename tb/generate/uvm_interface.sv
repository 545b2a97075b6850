// The ports of {{module}}, for a UVM view of it. Nothing here drives anything.

interface {{module}}_if (
{{ports}}
);
  // Everything as it is just before the rising edge.
  clocking observed @(posedge clk);
    input {{names}};
  endclocking
endinterface

// Bound to an accelerator it hands the interface to UVM, under its own path.
module {{module}}_probe (
{{ports}}
);
  {{module}}_if view (.*);
  initial uvm_pkg::uvm_config_db#(virtual {{module}}_if)::set(null, "*", $sformatf("%m"), view);
endmodule
