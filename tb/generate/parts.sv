// What a self-checking bench of bert2rtl is made of: streams with random pauses, and checks of
// what a unit writes against the words of golden. Plain SystemVerilog (IEEE 1800-2012).
//
// Inputs of the unit change at the falling edge of the clock, everything is looked at at the rising
// edge: no result hangs on the order in which a simulator runs events. Cycle c begins with the rising
// edge at 10 c units of time. No file says what a unit is, and nothing depends on it: the scripts say
// 1 ns.

package bench_random;
  // Xorshift32: the number after `x`; never 0 unless x is.
  function automatic [31:0] after(input [31:0] x);
    reg [31:0] y;
    begin
      y = x ^ (x << 13);
      y = y ^ (y >> 17);
      after = y ^ (y << 5);
    end
  endfunction

  // Where a stream begins: another place for every seed and every stream.
  function automatic [31:0] first(input [31:0] seed, input [31:0] stream);
    reg [31:0] x;
    integer k;
    begin
      x = (seed + stream * 32'h9e3779b9) ^ 32'h5851f42d;
      if (x == 0) x = 32'd1;
      for (k = 0; k < 8; k = k + 1) x = after(x);
      first = x;
    end
  endfunction
endpackage

// A stream into the unit. Each `go` lets one packet pass (up to and with `last`); a word that is
// offered stays until it is taken. With stalls it pauses for 1 to 8 cycles before every fourth word.
// While nothing is offered the data are noise.
module bench_source #(
    parameter FILE = "",  // {8'h00, last, data} a word; {8'hff, ...} behind the last
    parameter NAME = "",
    parameter integer WIDTH = 8,
    parameter integer WORDS = 1,
    parameter [31:0] STREAM = 32'd1
) (
    input wire clk,
    input wire rst,
    input wire [31:0] stalls,  // seed of the pauses; 0: none
    input wire go,
    output reg valid,
    input wire ready,
    output reg [WIDTH-1:0] data,
    output reg last,
    output reg moved,  // a word was taken
    output reg idle  // all packets that were let pass have passed
);
  localparam integer WIDE = (WIDTH + 31) / 32;
  reg [WIDTH+8:0] words[0:WORDS];
  reg [31:0] random;
  wire [32*WIDE-1:0] noise = {WIDE{random}};
  reg granted, held;
  integer packets, place, pause;

  initial begin
    $readmemh(FILE, words);
    if (words[WORDS][WIDTH+8:WIDTH+1] !== 8'hff)
      $fatal(1, "%0s is missing or has not %0d words", FILE, WORDS + 1);
    {valid, last, moved, granted} = 4'b0000;
    {idle, held} = 2'b11;
    data = {WIDTH{1'b0}};
    packets = 0;
    place = 0;
    pause = 0;
    random = 32'd1;
  end

  always @(posedge clk) begin
    moved <= !rst && valid && ready;
    granted <= !rst && go;
    held <= rst;
    idle <= packets == 0;
    if (!rst && valid && ready !== 1'b0 && ready !== 1'b1)
      $fatal(1, "%0s: ready is unknown while a word is offered", NAME);
  end

  always @(negedge clk)
    if (held) begin
      valid = 1'b0;
      random = bench_random::first(stalls, STREAM);
    end else begin
      random = bench_random::after(random);
      if (granted) packets = packets + 1;
      if (moved) begin
        valid = 1'b0;
        if (last) packets = packets - 1;
        if (stalls != 0 && random[1:0] == 2'd0) pause = 1 + {29'd0, random[6:4]};
      end
      if (!valid) begin
        if (pause > 0) pause = pause - 1;
        else if (packets > 0 && place < WORDS) begin
          valid = 1'b1;
          {last, data} = words[place][WIDTH:0];
          place = place + 1;
        end
        if (!valid) begin
          data = noise[WIDTH-1:0];
          last = random[31];
        end
      end
    end
endmodule

// A stream out of the unit. With stalls a word is refused in one cycle of four. A word that is
// offered may neither be withdrawn nor change before it is taken.
module bench_sink #(
    parameter NAME = "",
    parameter integer WIDTH = 8,
    parameter [31:0] STREAM = 32'd1
) (
    input wire clk,
    input wire rst,
    input wire [31:0] stalls,  // seed of the refusals; 0: none
    input wire [31:0] cycle,
    input wire valid,
    output reg ready,
    input wire [WIDTH-1:0] data
);
  reg [31:0] random;
  reg waits, held;
  reg [WIDTH-1:0] waiting;

  initial begin
    {ready, waits, held} = 3'b001;
    random  = 32'd1;
    waiting = {WIDTH{1'b0}};
  end

  always @(posedge clk) begin
    held <= rst;
    if (rst) waits <= 1'b0;
    else begin
      if (valid !== 1'b0 && valid !== 1'b1)
        $fatal(1, "%0s: valid is unknown in cycle %0d", NAME, cycle);
      if (waits && (valid !== 1'b1 || data !== waiting))
        $fatal(1, "%0s: the word %0h was withdrawn or changed in cycle %0d, before it was taken",
               NAME, waiting, cycle);
      waits   <= valid && !ready;
      waiting <= data;
    end
  end

  always @(negedge clk)
    if (held) begin
      ready  = 1'b0;
      random = bench_random::first(stalls, STREAM);
    end else begin
      random = bench_random::after(random);
      ready  = stalls == 0 || random[1:0] != 2'd0;
    end
endmodule

// A memory that is read by AXI4. It holds the beats from BASE on that FILE names, {8'ha5, data} each
// and {8'hff, ...} behind the last; a read of any other ends the simulation, as does a burst that breaks
// a rule. Addresses are taken while earlier bursts are under way. Beats come one a cycle in the order
// of the addresses, LATENCY cycles after the address at the earliest. With stalls an address waits in
// one cycle of four, and beats pause. Where no beat is offered, the data are noise.
module bench_memory #(
    parameter FILE = "",
    parameter integer WIDTH = 64,  // of a beat
    parameter integer ADDRESS = 32,  // bits of an address
    parameter [63:0] BASE = 64'd0,
    parameter integer BEATS = 1,  // from BASE to the last that is held
    parameter integer BURST = 16,  // most beats of a burst
    parameter integer OUTSTANDING = 8,  // most bursts under way
    parameter integer LATENCY = 8,
    parameter [31:0] STREAM = 32'd1
) (
    input wire clk,
    input wire rst,
    input wire [31:0] stalls,  // seed of the pauses; 0: none
    input wire [31:0] cycle,
    input wire arid,
    input wire [ADDRESS-1:0] araddr,
    input wire [7:0] arlen,
    input wire [2:0] arsize,
    input wire [1:0] arburst,
    input wire arlock,
    input wire [3:0] arcache,
    input wire [2:0] arprot,
    input wire [3:0] arqos,
    input wire arvalid,
    output wire arready,
    output reg rid,
    output reg [WIDTH-1:0] rdata,
    output reg [1:0] rresp,
    output reg rlast,
    output reg rvalid,
    input wire rready,
    output reg moved,  // an address or a beat was taken
    output reg idle  // no burst is under way
);
  localparam [31:0] SIZE = WIDTH / 8;
  localparam [63:0] BYTES = {32'd0, SIZE};
  localparam integer WIDE = (WIDTH + 31) / 32;

  bench_sink #(
      .NAME("m_axi_ar"),
      .WIDTH(ADDRESS + 26),
      .STREAM(STREAM)
  ) addresses (
      .clk(clk),
      .rst(rst),
      .stalls(stalls),
      .cycle(cycle),
      .valid(arvalid),
      .ready(arready),
      .data({arid, araddr, arlen, arsize, arburst, arlock, arcache, arprot, arqos})
  );

  reg [WIDTH+7:0] words[0:BEATS];
  reg [WIDTH+7:0] word;
  reg [31:0] random;
  wire [32*WIDE-1:0] noise = {WIDE{random}};
  // Bursts, a ring: beat from BASE on, beats that are left, cycle of the address.
  integer beat[0:OUTSTANDING-1], left[0:OUTSTANDING-1], asked[0:OUTSTANDING-1];
  integer oldest, bursts, slot;
  wire [63:0] address = {{(64 - ADDRESS) {1'b0}}, araddr};
  wire [63:0] beats = {56'd0, arlen} + 64'd1;
  wire [63:0] first = (address - BASE) / BYTES;
  reg passed, granted, held;
  reg [31:0] granted_first, granted_beats, granted_cycle;

  initial begin
    $readmemh(FILE, words);
    if (words[BEATS][WIDTH+7:WIDTH] !== 8'hff)
      $fatal(1, "%0s is missing or has not %0d words", FILE, BEATS + 1);
    oldest = 0;
    bursts = 0;
    rid = 1'b0;
    rdata = {WIDTH{1'b0}};
    rresp = 2'd0;
    {rlast, rvalid, moved, passed, granted, held} = 6'b000001;
    idle = 1'b1;
    random = 32'd1;
  end

  // What is wrong with a burst.
  task wrong;
    $fatal(1, "m_axi_ar: a burst in cycle %0d that is not allowed: address %0h, ID %0d, %0d beats",
           cycle, araddr, arid, beats);
  endtask

  always @(posedge clk) begin
    held <= rst;
    moved <= !rst && (arvalid && arready || rvalid && rready);
    passed <= !rst && rvalid && rready;
    granted <= !rst && arvalid && arready;
    if (!rst && rvalid && rready !== 1'b0 && rready !== 1'b1)
      $fatal(1, "m_axi_rready is unknown in cycle %0d", cycle);
    if (!rst && arvalid === 1'b1 && arready) begin
      if (^{address, beats, arid} === 1'bx || arburst !== 2'd1) wrong;
      if (64'd1 << arsize !== BYTES || address % BYTES != 0 || arid) wrong;
      if (beats[31:0] > BURST || address % 64'd4096 + beats * BYTES > 64'd4096) wrong;
      if (address < BASE || first[63:31] != 33'd0 || first[31:0] + beats[31:0] > BEATS)
        $fatal(1, "memory: nothing is held at %0h, read in cycle %0d", araddr, cycle);
      granted_first <= first[31:0];
      granted_beats <= beats[31:0];
      granted_cycle <= cycle;
    end
  end

  always @(negedge clk)
    if (held) begin
      rvalid = 1'b0;
      random = bench_random::first(stalls, STREAM + 32'd1);
    end else begin
      random = bench_random::after(random);
      if (granted) begin
        if (bursts == OUTSTANDING)
          $fatal(1, "m_axi_ar: more than %0d bursts are under way in cycle %0d", OUTSTANDING, cycle);
        slot = (oldest + bursts) % OUTSTANDING;
        beat[slot] = granted_first;
        left[slot] = granted_beats;
        asked[slot] = granted_cycle;
        bursts = bursts + 1;
      end
      if (passed) begin
        rvalid = 1'b0;
        if (left[oldest] == 0) begin
          oldest = (oldest + 1) % OUTSTANDING;
          bursts = bursts - 1;
        end
      end
      if (!rvalid) begin
        if (bursts > 0 && cycle - asked[oldest] >= LATENCY && (stalls == 0 || random[1:0] != 2'd0)) begin
          word = words[beat[oldest]];
          if (word[WIDTH+7:WIDTH] !== 8'ha5)
            $fatal(1, "memory: nothing is held at %0h, read in cycle %0d",
                   BASE + beat[oldest] * BYTES, asked[oldest]);
          rvalid = 1'b1;
          rid = 1'b0;
          rdata = word[WIDTH-1:0];
          rlast = left[oldest] == 1;
          beat[oldest] = beat[oldest] + 1;
          left[oldest] = left[oldest] - 1;
        end
        if (!rvalid) begin
          rdata = noise[WIDTH-1:0];
          rlast = random[31];
          rid   = random[0];
        end
      end
      idle = bursts == 0;
    end
endmodule

// What a port must show, word by word: the first lane that differs from golden ends the simulation
// with tensor, index, cycle and both values. A word too many ends it as well, and so does one too few
// when an inference has finished. FILE holds a word of lanes a line, from the high bits: inference
// 16, 1 if it must come 8, tensor 16, index of the last lane 3 x 16, index of the first 3 x 16,
// address 32, a bit a lane that is compared, the lanes. Behind the last word comes one whose
// inference is 16'hffff. NAMES holds for each tensor dimensions 8, name 512, names of the axes 3 x 96.
module bench_check #(
    parameter FILE = "",
    parameter NAMES = "",
    parameter PORT = "",
    parameter integer LANES = 1,
    parameter integer WIDTH = 8,
    parameter integer SIGNED = 0,
    parameter integer ADDRESSED = 0,  // whether the address is compared
    parameter integer WORDS = 1,
    parameter integer TENSORS = 1
) (
    input wire clk,
    input wire rst,
    input wire [31:0] cycle,
    input wire [15:0] inference,
    input wire finish,  // the inference is over
    input wire en,
    input wire [31:0] address,
    input wire [LANES*WIDTH-1:0] word,
    output reg [31:0] compared  // values, so far
);
  localparam integer VALID = LANES * WIDTH;
  localparam integer ADDRESS = VALID + LANES;
  localparam integer FIRST = ADDRESS + 32;
  localparam integer LAST = FIRST + 48;
  localparam integer TENSOR = LAST + 48;
  localparam integer REQUIRED = TENSOR + 16;
  localparam integer INFERENCE = REQUIRED + 8;

  reg [INFERENCE+15:0] words[0:WORDS];
  reg [INFERENCE+15:0] expected;
  reg [807:0] names[0:TENSORS];
  reg [807:0] tensor;
  integer place, lane, write, number, latest;

  initial begin
    $readmemh(FILE, words);
    $readmemh(NAMES, names);
    if (words[WORDS][INFERENCE+:16] !== 16'hffff)
      $fatal(1, "%0s is missing or has not %0d words", FILE, WORDS + 1);
    if (names[TENSORS][800+:8] !== 8'hff)
      $fatal(1, "%0s is missing or has not %0d words", NAMES, TENSORS + 1);
    place = 0;
    write = 0;
    latest = -1;
    compared = 0;
  end

  // A lane's value as %0d shows it.
  function automatic signed [63:0] shown(input [WIDTH-1:0] value);
    shown = {{(64 - WIDTH) {SIGNED != 0 && value[WIDTH-1] === 1'b1}}, value};
  endfunction

  // The index of a lane along an axis: it runs from the first lane's and stops at the last lane's.
  function automatic [15:0] along(input integer axis, input integer at);
    reg [31:0] start, stop, here;
    begin
      start = {16'd0, expected[FIRST+16*axis+:16]};
      stop  = {16'd0, expected[LAST+16*axis+:16]};
      here  = start + at;
      along = here < stop ? here[15:0] : stop[15:0];
    end
  endfunction

  task differs;
    string where;
    integer axis;
    reg [95:0] name;
    begin
      where = $sformatf("lane %0d, write %0d", lane, write);
      for (axis = 0; axis < {24'd0, tensor[807:800]}; axis = axis + 1) begin
        name  = tensor[192-96*axis+:96];
        where = $sformatf("%0s, %0s %0d", where, name, along(axis, lane));
      end
      $fatal(1, "%0s[%0s] in cycle %0d is %0d, golden says %0d", tensor[799:288], where, cycle,
             shown(word[lane*WIDTH+:WIDTH]), shown(expected[lane*WIDTH+:WIDTH]));
    end
  endtask

  task missing;
    begin
      number = {16'd0, expected[TENSOR+:16]};
      tensor = names[number];
      $fatal(1, "%0s: a word is missing at the end of inference %0d: write %0d of %0s", PORT,
             inference, write, tensor[799:288]);
    end
  endtask

  always @(posedge clk)
    if (!rst) begin
      if (en === 1'b1) begin
        expected = words[place];
        if (expected[INFERENCE+:16] !== inference)
          $fatal(1, "%0s: a word too many in cycle %0d, after %0d in inference %0d", PORT, cycle,
                 write, inference);
        else begin
          number = {16'd0, expected[TENSOR+:16]};
          tensor = names[number];
          // Writes are counted from the first of each tensor.
          if (number != latest) write = 0;
          latest = number;
          if (ADDRESSED != 0 && address !== expected[ADDRESS+:32])
            $fatal(1, "%0s: address[write %0d] in cycle %0d is %0d, golden says %0d",
                   tensor[799:288], write, cycle, address, expected[ADDRESS+:32]);
          for (lane = 0; lane < LANES; lane = lane + 1)
            if (expected[VALID+lane]) begin
              if (word[lane*WIDTH+:WIDTH] !== expected[lane*WIDTH+:WIDTH]) differs;
              compared = compared + 1;
            end
          write = write + 1;
          place = place + 1;
        end
      end else if (en !== 1'b0)
        $fatal(1, "%0s: its enable is unknown in cycle %0d", PORT, cycle);
      if (finish) begin
        expected = words[place];
        while (expected[INFERENCE+:16] === inference) begin
          if (expected[REQUIRED]) missing;
          place = place + 1;
          expected = words[place];
        end
        latest = -1;
      end
    end
endmodule
