// The cells of the ECP5 that the top of the ULX3S names, as far as a simulation needs them.
//
// The PLL gives its input on: the crystal of the simulation runs at the PLL's output. CLKOS is
// CLKOP, too; its phase is when the model of the SDRAM looks at its pins.

module EHXPLLL #(
  parameter CLKFB_DIV = 1, CLKI_DIV = 1, CLKOP_CPHASE = 0, CLKOP_DIV = 1, CLKOP_FPHASE = 0,
  parameter CLKOS_CPHASE = 0, CLKOS_DIV = 1, CLKOS_FPHASE = 0,
  parameter CLKOP_ENABLE = "", CLKOS_ENABLE = "", DPHASE_SOURCE = "", FEEDBK_PATH = "",
  parameter INTFB_WAKE = "", OUTDIVIDER_MUXA = "", OUTDIVIDER_MUXB = "", PLLRST_ENA = "",
  parameter STDBY_ENABLE = ""
) (
  input CLKFB, CLKI, ENCLKOP, ENCLKOS, PHASEDIR, PHASELOADREG, PHASESEL0, PHASESEL1, PHASESTEP,
  input PLLWAKESYNC, RST, STDBY,
  output CLKOP, CLKOS, LOCK
);
  reg [4:0] edges = 0;
  assign CLKOP = CLKI;
  assign CLKOS = CLKI;
  assign LOCK = &edges;
  always @(posedge CLKI) if (!LOCK) edges <= edges + 1;
endmodule

module ODDRX1F(input D0, D1, SCLK, RST, output Q);
  assign Q = SCLK ? D0 : D1;
endmodule

module OFS1P3DX(input D, SCLK, SP, CD, output reg Q = 0);
  always @(posedge SCLK) Q <= CD ? 1'b0 : SP ? D : Q;
endmodule

module OFS1P3BX(input D, SCLK, SP, PD, output reg Q = 1);
  always @(posedge SCLK) Q <= PD ? 1'b1 : SP ? D : Q;
endmodule

module IFS1P3DX(input D, SCLK, SP, CD, output reg Q = 0);
  always @(posedge SCLK) Q <= CD ? 1'b0 : SP ? D : Q;
endmodule

module BB(input I, T, output O, inout B);
  assign B = T ? 1'bz : I;
  assign O = B;
endmodule

module USRMCLK(input USRMCLKI, USRMCLKTS);
  import "DPI-C" function void flash_clock(input bit level);
  always @(USRMCLKI) flash_clock(USRMCLKI);
endmodule
