"""Proofs by induction of what the read master promises on its bus, for any memory and for ever.

What goes into the reader are bursts that the other proof knows: of 1 to `burst` beats, none over a
multiple of `burst` beats, which divides 4 KiB.
"""

from pathlib import Path

from rtl.dma.bursts import Bursts
from rtl.dma.bus import Bus
from rtl.dma.reader import Reader
from tests.rtl.formal import induced
from tests.rtl.test_proofs_control import STARTED

BUS = Bus(data_bits=32, burst=4, outstanding=2)
LANES = 4
# A burst: address in beats 30, length 3, end 1. A beat: data 32, end 1.
BURSTS = f"""
module formula (input clk, input [43:0] d, input iv, ordy);
  {STARTED}
  wire irdy, ov; wire [33:0] o;
  unit u (.clk(clk), .rst(!started), .i__payload(d), .i__valid(iv), .i__ready(irdy),
          .o__payload(o), .o__valid(ov), .o__ready(ordy));
  wire legal = !(iv & irdy) || d[43:32] != 0;
  reg fine = 1, busy = 0; reg [29:0] at; reg [11:0] left;
  wire [29:0] beat = o[29:0]; wire [2:0] length = o[32:30]; wire last = o[33];
  always @(posedge clk) if (started) begin
    fine <= fine & legal;
    if (iv & irdy) begin busy <= 1; at <= d[31:2]; left <= d[43:32]; end
    else if (ov & ordy) begin
      at <= at + length; left <= left - length; if (last) busy <= 0;
    end
  end
  (* hierconn *) wire [1:0] \\u.state_state ;
  (* hierconn *) wire [12:0] \\u.left ;
  reg sized = 0;
  always @(posedge clk) sized <= started & busy & !(ov & ordy);
  always @* if (started & fine & legal) begin
    assert(irdy == !busy); assert(ov == (sized & busy));
    if (ov) begin
      assert(beat == at);
      assert(length >= 1 && length <= 4);
      assert(beat[1:0] + length <= 4);
      assert(length <= left && last == (length == left));
      assert(last || beat[1:0] + length == 4);
    end
    // What induction needs.
    assert(\\u.state_state != 3);
    if (busy) assert(left != 0 && \\u.left == left && beat == at);
  end
endmodule
"""
READER = f"""
module formula (input clk, input [33:0] rows, model, input rv, mv, arready, rvalid, rlast,
                input [31:0] rdata, input [1:0] rresp);
  {STARTED}
  wire rr, mr, arvalid, rready, pending, error, rb, mb, lock;
  wire [31:0] araddr; wire [7:0] arlen; wire [32:0] rbeat, mbeat;
  wire [2:0] size, prot; wire [1:0] kind; wire [3:0] cache, qos;
  unit u (.clk(clk), .rst(!started), .rows__payload(rows), .rows__valid(rv), .rows__ready(rr),
    .model__payload(model), .model__valid(mv), .model__ready(mr),
    .rows_beats_payload(rbeat), .rows_beats_valid(rb),
    .model_beats_payload(mbeat), .model_beats_valid(mb),
    .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arvalid(arvalid), .m_axi_arready(arready),
    .m_axi_arsize(size), .m_axi_arburst(kind), .m_axi_arlock(lock), .m_axi_arcache(cache),
    .m_axi_arprot(prot), .m_axi_arqos(qos),
    .m_axi_rid(1'b0), .m_axi_rdata(rdata), .m_axi_rresp(rresp), .m_axi_rlast(rlast),
    .m_axi_rvalid(rvalid), .m_axi_rready(rready), .pending(pending), .error(error));
  // Bursts in order: two places; whether the address of the newest was taken.
  reg [1:0] count = 0; reg fine = 1; reg first_model, second_model, first_end, second_end;
  reg waiting = 0, bad = 0; reg [31:0] address; reg [7:0] length;
  wire put = (rv & rr) | (mv & mr), get = rvalid & rlast;
  wire from_model = !(rv & rr);
  wire [33:0] taken = from_model ? model : rows;
  function good(input [33:0] b);
    good = b[32:30] >= 1 && b[32:30] <= 4 && b[1:0] + b[32:30] <= 4;
  endfunction
  // The memory gives a beat only of a burst whose address it has taken.
  wire legal = (!rv || good(rows)) && (!mv || good(model)) && (!rvalid || count > arvalid);
  always @(posedge clk) if (started) begin
    fine <= fine & legal;
    count <= count + put - get;
    if (put & (count == get)) begin first_model <= from_model; first_end <= taken[33]; end
    else if (get) begin first_model <= second_model; first_end <= second_end; end
    if (put) begin second_model <= from_model; second_end <= taken[33]; end
    waiting <= arvalid & !arready; address <= araddr; length <= arlen;
    bad <= rvalid & rresp[1];
  end
  (* hierconn *) wire \\u.asked_0__client , \\u.asked_0__end ;
  (* hierconn *) wire \\u.asked_1__client , \\u.asked_1__end ;
  wire [1:0] asked_0 = {{\\u.asked_0__end , \\u.asked_0__client }};
  wire [1:0] asked_1 = {{\\u.asked_1__end , \\u.asked_1__client }};
  (* hierconn *) wire \\u.into , \\u.out ;
  (* hierconn *) wire [1:0] \\u.count ;
  wire [1:0] head = \\u.out ? asked_1 : asked_0;
  wire [1:0] tail = \\u.out ? asked_0 : asked_1;
  always @* if (started & fine & legal) begin
    if (waiting) assert(arvalid && araddr == address && arlen == length);
    if (arvalid) begin
      assert(arlen <= 3 && araddr[3:2] + arlen <= 3 && araddr[1:0] == 0);
      assert(araddr[31:12] == (araddr + {{arlen, 2'b11}}) >> 12);
    end
    assert(size == 2 && kind == 1 && !lock && cache == 3 && prot == 0 && qos == 0);
    assert(rready); assert(!(rv & rr & mv & mr)); assert(!(mv & mr & rv));
    assert(count <= 2); assert(arvalid <= count); assert(pending == (count != 0));
    assert(error == bad);
    assert((rb | mb) == rvalid);
    if (rvalid) begin
      assert(mb == first_model && rb == !first_model);
      assert((mb ? mbeat : rbeat) == {{first_end & rlast, rdata}});
    end
    // What induction needs of the places.
    assert(\\u.count == count); assert((\\u.into ^ \\u.out ) == count[0]);
    if (count != 0) assert(head == {{first_end, first_model}});
    if (count == 2) assert(tail == {{second_end, second_model}});
  end
endmodule
"""


def test_bursts(tmp_path: Path) -> None:
    """They cover the region in order, and none is too long or crosses its multiple."""
    assert induced(Bursts(BUS, LANES, 12), BURSTS, tmp_path)


def test_reader(tmp_path: Path) -> None:
    """Addresses wait unchanged, cross no 4 KiB, are few enough; beats go to who asked for them."""
    assert induced(Reader(BUS, (LANES, LANES)), READER, tmp_path)
