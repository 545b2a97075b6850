// Plays reads and writes at the register port of the accelerator, and counts what differs.
// An operation: kind, address, strobe, response (8 bits each), data, wanted (32 bits each).
module bench;
  localparam WRITE = 0, READ = 1, FORCE = 2, RELEASE = 3, RESET = 4, END = 5;
  reg clk = 0, rst = 1;
  reg [6:0] address = 0;
  reg awvalid = 0, wvalid = 0, bready = 0, arvalid = 0, rready = 0;
  reg [31:0] data = 0;
  reg [3:0] strobe = 0;
  wire awready, wready, bvalid, arready, rvalid, interrupt;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  reg [95:0] operations [0:LAST];
  reg [8*256-1:0] file;
  reg [7:0] kind;
  reg [31:0] wanted, found;
  reg [1:0] response, answered;
  integer place = 0, differences = 0;
HOLDS

  accelerator dut (
    .clk(clk), .rst(rst), .interrupt(interrupt),
    .s_axi_awaddr(address), .s_axi_awprot(3'd0), .s_axi_awvalid(awvalid), .s_axi_awready(awready),
    .s_axi_wdata(data), .s_axi_wstrb(strobe), .s_axi_wvalid(wvalid), .s_axi_wready(wready),
    .s_axi_bresp(bresp), .s_axi_bvalid(bvalid), .s_axi_bready(bready),
    .s_axi_araddr(address), .s_axi_arprot(3'd0), .s_axi_arvalid(arvalid), .s_axi_arready(arready),
    .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid), .s_axi_rready(rready),
    .s_axis_model_tdata({WORD{1'b0}}), .s_axis_model_tvalid(1'b0), .s_axis_model_tlast(1'b0),
    .s_axis_tokens_tdata(32'd0), .s_axis_tokens_tvalid(1'b0), .s_axis_tokens_tlast(1'b0),
    .m_axis_request_tready(1'b1), .m_axis_logits_tready(1'b1),
    .s_axis_rows_tdata({WORD{1'b0}}), .s_axis_rows_tvalid(1'b0), .s_axis_rows_tlast(1'b0));

  always #5 clk = ~clk;
  initial #10000000 begin $display("nothing moved at operation %0d", place); $finish; end

  initial begin
    if (!$value$plusargs("operations=%s", file)) $finish;
    $readmemh(file, operations);
    repeat (2) @(negedge clk);
    rst = 0;
    forever begin
      kind = operations[place][95:88];
      address = operations[place][86:80];
      strobe = operations[place][75:72];
      response = operations[place][65:64];
      data = operations[place][63:32];
      wanted = operations[place][31:0];
      found = wanted;
      answered = response;
      case (kind)
        WRITE: begin
          awvalid = 1;
          wvalid = 1;
          @(negedge clk);
          awvalid = 0;
          wvalid = 0;
          while (!bvalid) @(negedge clk);
          answered = bresp;
          bready = 1;
          @(negedge clk);
          bready = 0;
          repeat (4) @(negedge clk);  // what it starts or ends is seen by then
        end
        READ: begin
          arvalid = 1;
          @(negedge clk);
          arvalid = 0;
          while (!rvalid) @(negedge clk);
          found = rdata;
          answered = rresp;
          rready = 1;
          @(negedge clk);
          rready = 0;
        end
        FORCE: case (address)
FORCES
          default: begin $display("nothing to force at %0d", place); $finish; end
        endcase
        RELEASE: begin
RELEASES
        end
        RESET: begin rst = 1; @(negedge clk); rst = 0; end
        END: begin
          $display("played %0d operations, %0d differ", place, differences);
          $finish;
        end
        default: begin $display("operation %0d is none", place); $finish; end
      endcase
      if (found !== wanted || answered !== response) begin
        differences = differences + 1;
        if (differences <= 8)
          $display("operation %0d, address %h: %h %0d instead of %h %0d",
                   place, address, found, answered, wanted, response);
      end
      place = place + 1;
    end
  end
endmodule
