// A small bench of {{module}} in plain Verilog (IEEE 1364-2001), to be read and copied: reset, one
// inference of {{what}}, its logits. README.md in the folder above says how to run it. The bench there
// checks far more: pauses, batches, what is inside.

module example;
  reg clk = 1'b0;
  reg rst = 1'b1;
  always #5 clk = ~clk;

{{wires}}
  // Registers: AXI4-Lite. Inputs change at the falling edge and are taken at the rising one.
  reg address_taken, data_taken;
  reg [31:0] value;

  task write_register(input [{{address_bits}}-1:0] register, input [31:0] data);
    begin
      s_axi_awaddr = register;
      s_axi_awvalid = 1'b1;
      s_axi_wdata = data;
      s_axi_wvalid = 1'b1;
      while (s_axi_awvalid || s_axi_wvalid) begin
        @(posedge clk);
        address_taken = s_axi_awready;
        data_taken = s_axi_wready;
        @(negedge clk);
        if (address_taken) s_axi_awvalid = 1'b0;
        if (data_taken) s_axi_wvalid = 1'b0;
      end
      while (!s_axi_bvalid) @(negedge clk);
      if (s_axi_bresp != 2'd0) fail("a write was answered with an error");  // SLVERR: no effect
      @(negedge clk);
    end
  endtask

  task read_register(input [{{address_bits}}-1:0] register);
    begin
      s_axi_araddr = register;
      s_axi_arvalid = 1'b1;
      while (s_axi_arvalid) begin
        @(posedge clk);
        address_taken = s_axi_arready;
        @(negedge clk);
        if (address_taken) s_axi_arvalid = 1'b0;
      end
      while (!s_axi_rvalid) @(negedge clk);
      value = s_axi_rdata;
      @(negedge clk);
    end
  endtask

  task fail(input [8*40-1:0] text);
    begin
      $display("FAILED: %0s", text);
      $finish;
    end
  endtask

{{surroundings}}
  integer k, logit;
  reg [31:0] golden[0:{{logits}}-1];

  initial begin
    $readmemh("logits.mem", golden);
    s_axi_awvalid = 1'b0;
    s_axi_awprot = 3'd0;
    s_axi_wvalid = 1'b0;
    s_axi_wstrb = 4'hf;
    s_axi_bready = 1'b1;  // answers are taken as they come
    s_axi_arvalid = 1'b0;
    s_axi_arprot = 3'd0;
    s_axi_rready = 1'b1;
    repeat (2) @(negedge clk);
    rst = 1'b0;

    read_register({{id}});
    if (value != 32'h{{id_value}}) fail("this is no accelerator of bert2rtl");
{{before}}    write_register({{control}}, 32'd1);  // start
    while (!interrupt{{line}}) @(negedge clk);
    read_register({{status}});
    if (value[11:8] != 4'd0) fail("the inference ended with an error");
{{after}}    write_register({{pending}}, 32'd1);  // acknowledge the interrupt
    read_register({{cycles}});
    if (logit != {{logits}}) fail("logits are missing");
    $display("PASS: %0d logits in %0d cycles", logit, value);
    $finish;
  end

  // One logit, as it came.
  task compare(input [31:0] data);
    begin
      $display("logit %0d: %0d", logit, $signed(data));
      if (data !== golden[logit]) fail("a logit is not golden's");
      logit = logit + 1;
    end
  endtask
  initial logit = 0;

  initial begin
    #{{patience}} fail("no interrupt came");
  end

{{unit}}endmodule
