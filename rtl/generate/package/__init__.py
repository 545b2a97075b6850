"""The accelerator as a package: Verilog, and everything that an integrator needs beside it."""
