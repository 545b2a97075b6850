"""Gate level: the netlist after synthesis, simulated with the benches of the Verilog before it."""
