// The two ECP5 cells for which Yosys brings no simulation model, as far as its netlists of this
// project use them: Lattice FPGA-TN-02204 (memory) and FPGA-TN-02205 (sysDSP). What they leave out
// is refused when the design is elaborated: an instance of a module that does not exist.

module DP16KD(
  input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
  input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
  input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
  output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
  input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
  input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
  input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
  output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
  parameter DATA_WIDTH_A = 18;
  parameter DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG";
  parameter REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC";
  parameter ASYNC_RESET_RELEASE = "SYNC";
  parameter CSDECODE_A = "0b000";
  parameter CSDECODE_B = "0b000";
  parameter WRITEMODE_A = "NORMAL";
  parameter WRITEMODE_B = "NORMAL";
  parameter CLKAMUX = "CLKA";
  parameter CLKBMUX = "CLKB";
  parameter GSR = "ENABLED";
  // INIT: 64 parameters INITVAL_00 to INITVAL_3F, the last of them highest.
  wire [35:0] data = {
    DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0
  };
  wire [13:0] a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  wire a_on = CEA & ~(CSA2 | CSA1 | CSA0), b_on = CEB & ~(CSB2 | CSB1 | CSB0);

  // 512 words of four bytes of nine bits. A narrow word lies within a byte; the lowest address bits
  // of a wide one enable its bytes. Only a word of 36 bits takes the data pins of both ports.
  reg [35:0] words [0:511];
  integer i;
  initial
    for (i = 0; i < 512; i = i + 1)
      words[i] = {INIT[40 * i + 20 +: 18], INIT[40 * i +: 18]};
  function [5:0] place(input [4:0] address);  // lowest bit in the word of four bytes
    case (DATA_WIDTH_A)
      36: place = 0;
      18: place = 18 * address[4];
      9: place = 9 * address[4:3];
      4: place = 9 * address[4:3] + 4 * address[2];
      2: place = 9 * address[4:3] + 2 * address[2:1];
      default: place = 9 * address[4:3] + address[2:0];
    endcase
  endfunction
  function [35:0] enabled(input [3:0] address);
    case (DATA_WIDTH_A)
      36: enabled = {{9{address[3]}}, {9{address[2]}}, {9{address[1]}}, {9{address[0]}}};
      18: enabled = {18'd0, {9{address[1]}}, {9{address[0]}}};
      default: enabled = (36'd1 << DATA_WIDTH_A) - 36'd1;
    endcase
  endfunction

  wire [35:0] writing = a_on & WEA ? enabled(a[3:0]) << place(a[4:0]) : 36'd0;
  // What port B reads of bits that are being written is not defined: the complement of what it was.
  wire [35:0] collided = a[13:5] == b[13:5] ? writing : 36'd0;
  reg [35:0] qa, qb;
  always @(posedge CLKA) begin
    words[a[13:5]] <= words[a[13:5]] & ~writing | data << place(a[4:0]) & writing;
    if (a_on) qa <= words[a[13:5]] >> place(a[4:0]);
  end
  always @(posedge CLKB)
    if (b_on) qb <= (words[b[13:5]] ^ collided) >> place(b[4:0]);
  always @(posedge CLKB)
    if (b_on & WEB | RSTA | RSTB) begin
      $display("DP16KD: no model of a write through port B, nor of a reset");
      $fatal(1);
    end
  generate
    if (DATA_WIDTH_A != DATA_WIDTH_B) no_model_of_two_data_widths refused();
    if (DATA_WIDTH_A == 36 && REGMODE_A != REGMODE_B) no_model_of_half_a_word_registered refused();
    if (CSDECODE_A != "0b000" || CSDECODE_B != "0b000") no_model_of_chip_selects refused();
    if (CLKAMUX != "CLKA" || CLKBMUX != "CLKB") no_model_of_inverted_clocks refused();
  endgenerate

  // The output registers; a word of 36 bits is read through port B alone.
  reg [35:0] ra = 0, rb = 0;
  always @(posedge CLKA) if (OCEA) ra <= qa;
  always @(posedge CLKB) if (OCEB) rb <= qb;
  wire [35:0] oa = REGMODE_A == "OUTREG" ? ra : qa, ob = REGMODE_B == "OUTREG" ? rb : qb;

  // The upper half of a word of 36 bits comes out of port B.
  assign {
    DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0
  } = DATA_WIDTH_A == 36 ? ob[17:0] : oa[17:0];
  assign {
    DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
  } = DATA_WIDTH_A == 36 ? ob[35:18] : ob[17:0];
endmodule

module MULT18X18D(
  input A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
  input B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
  input C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0,
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, RST0,
  output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
  output P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
  // The registers on clock 0; another parameter than these is refused by this module's list.
  parameter REG_INPUTA_CLK = "NONE";
  parameter REG_INPUTA_CE = "CE0";
  parameter REG_INPUTA_RST = "RST0";
  parameter REG_INPUTB_CLK = "NONE";
  parameter REG_INPUTB_CE = "CE0";
  parameter REG_INPUTB_RST = "RST0";
  parameter REG_OUTPUT_CLK = "NONE";
  parameter REG_OUTPUT_CE = "CE0";
  parameter REG_OUTPUT_RST = "RST0";
  wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  reg [17:0] a_q = 0, b_q = 0;
  reg [35:0] p_q = 0;
  wire [17:0] a_in = REG_INPUTA_CLK == "CLK0" ? a_q : a, b_in = REG_INPUTB_CLK == "CLK0" ? b_q : b;
  wire signed [36:0] product =
    $signed({SIGNEDA & a_in[17], a_in}) * $signed({SIGNEDB & b_in[17], b_in});
  always @(posedge CLK0)
    if (RST0) begin
      $display("MULT18X18D: no model of a reset");
      $fatal(1);
    end else if (CE0) begin
      a_q <= a;
      b_q <= b;
      p_q <= product[35:0];
    end
  generate
    if (REG_INPUTA_CLK != REG_INPUTB_CLK) no_model_of_one_operand_registered refused();
    if (REG_INPUTA_CLK != "NONE" && REG_INPUTA_CLK != "CLK0") no_model_of_other_clocks refused();
    if (REG_OUTPUT_CLK != "NONE" && REG_OUTPUT_CLK != "CLK0") no_model_of_other_clocks refused();
  endgenerate
  assign {
    P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
    P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
  } = REG_OUTPUT_CLK == "CLK0" ? p_q : product[35:0];
endmodule
