"""From a component to Verilog and a data sheet."""
