"""Proofs by induction that queues, register file and CRC do what their rules say, for ever."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Shape
from amaranth.lib import data

from rtl.control.axi import Registers
from rtl.control.crc import Crc
from rtl.control.tile_queue import TileQueue
from rtl.interface.config import Config
from rtl.interface.tile import Tile
from rtl.primitives.queues import OneDeepQueue
from tests.damage import replaced
from tests.rtl.formal import FLAT, READ, STATE_AS_PORTS, induced, proved, yosys

CONFIG = Config(lanes=4)
# From the first cycle on `started`, the unit has been reset and so has the model.
STARTED = "reg started = 0; always @(posedge clk) started <= 1;"
ONE_DEEP = f"""
module formula (input clk, input [7:0] d, input iv, ordy);
  {STARTED}
  wire irdy, ov; wire [7:0] o;
  unit u (.clk(clk), .rst(!started), .i__payload(d), .i__valid(iv), .i__ready(irdy),
          .o__payload(o), .o__valid(ov), .o__ready(ordy));
  reg full = 0; reg [7:0] held;
  always @(posedge clk) if (started) begin
    if (iv & irdy) begin full <= 1; held <= d; end else if (ov & ordy) full <= 0;
  end
  always @* if (started) begin
    assert(ov == full); assert(irdy == !full); if (full) assert(o == held);
  end
endmodule
"""
# Two places in order; whether a tile's row tile is normalised, by the progress of the cycle before.
TILES = """
module formula (input clk, input [{top}:0] d, input iv, ordy, input [2:0] norms,
                input [{rows_top}:0] rows);
  {started}
  wire irdy, ov, normalised; wire [{top}:0] o;
  unit u (.clk(clk), .rst(!started), .i__payload(d), .i__valid(iv), .i__ready(irdy),
          .o__payload(o), .o__valid(ov), .o__ready(ordy), .progress_norms(norms),
          .progress_rows(rows), .normalised(normalised));
  reg [1:0] count = 0; reg [{top}:0] first, second;
  reg [2:0] norms_before; reg [{rows_top}:0] rows_before;
  wire put = started & iv & irdy, get = started & ov & ordy;
  always @(posedge clk) begin
    count <= count + put - get;
    if (put & (count == get)) first <= d; else if (get) first <= second;
    if (put) second <= d;
    norms_before <= norms; rows_before <= rows;
  end
  wire [2:0] behind = o{norm_index} - norms_before;
  {places}
  (* hierconn *) wire \\u.head , \\u.tail , \\u.full ;
  always @* if (started) begin
    assert(count <= 2); assert(irdy == (count < 2)); assert(ov == (count > 0));
    if (ov) assert(o == first);
    if (ov) assert(normalised == (behind == 0 || (behind == 1 && rows_before > o{row})));
    // What induction needs of the places.
    assert(\\u.full == (count == 2)); assert((\\u.head == \\u.tail ) == (count != 1));
    if (count == 2) assert((\\u.head ? place_0 : place_1) == second);
  end
endmodule
"""
REGISTERS = """
module formula (input clk, awvalid, wvalid, bready, arvalid, rready, busy, done,
                input [6:0] awaddr, araddr, input [31:0] wdata, input [3:0] wstrb,
                input [31:0] {values});
  {started}
  wire awready, wready, bvalid, arready, rvalid, start, abort, interrupt;
  wire [1:0] bresp, rresp; wire [31:0] rdata;
  unit u (.clk(clk), .rst(!started), .s_axi_awaddr(awaddr), .s_axi_awprot(3'd0),
    .s_axi_awvalid(awvalid), .s_axi_awready(awready), .s_axi_wdata(wdata), .s_axi_wstrb(wstrb),
    .s_axi_wvalid(wvalid), .s_axi_wready(wready), .s_axi_bresp(bresp), .s_axi_bvalid(bvalid),
    .s_axi_bready(bready), .s_axi_araddr(araddr), .s_axi_arprot(3'd0), .s_axi_arvalid(arvalid),
    .s_axi_arready(arready), .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid),
    .s_axi_rready(rready), .busy(busy), .done(done), .start(start), .abort(abort),
    .interrupt(interrupt), {ports});
  // What a client knows: what was taken of a write, and what of answers was not.
  reg asked = 0, given = 0, answered = 0, shown = 0, enable = 1, pending = 0;
  reg [6:0] address; reg [31:0] value, word; reg [3:0] strobe; reg [1:0] response;
  wire acts = asked & given & !answered & strobe[0];
  wire control = acts && address[6:2] == 7, starts = control && value[1:0] == 1 && !busy;
  wire known = address[6:2] == 7 || address[6:2] == 16 || address[6:2] == 17;
  always @(posedge clk) if (started) begin
    if (awvalid & awready) begin asked <= 1; address <= awaddr; end
    if (wvalid & wready) begin given <= 1; value <= wdata; strobe <= wstrb; end
    if (asked & given & !answered) begin
      asked <= 0; given <= 0; answered <= 1;
      response <= !known || !strobe[0] || (address[6:2] == 7 && value[1:0] == 1 && busy) ? 2 : 0;
    end else if (bready) answered <= 0;
    if (acts && address[6:2] == 16) enable <= value[0];
    if (done) pending <= 1;
    else if (starts || (acts && address[6:2] == 17 && value[0])) pending <= 0;
    if (arvalid & arready) begin
      shown <= 1;
      case (araddr[6:2])
        {cases}
        16: word <= enable;
        17: word <= pending;
        default: word <= 0;
      endcase
    end else if (rready) shown <= 0;
  end
  (* hierconn *) wire \\u.pending , \\u.enable , \\u.strobe ;
  (* hierconn *) wire \\u.to_control , \\u.to_interrupt_enable , \\u.to_interrupt_pending ;
  (* hierconn *) wire [1:0] \\u.value ;
  always @* if (started) begin
    assert(awready == !asked); assert(wready == !given); assert(bvalid == answered);
    if (answered) assert(bresp == response);
    assert(arready == !shown); assert(rvalid == shown); assert(rresp == 0);
    if (shown) assert(rdata == word);
    assert(start == starts); assert(abort == (control && value[1]));
    assert(interrupt == (pending && enable));
    // What induction needs of the registers.
    assert(\\u.pending == pending); assert(\\u.enable == enable);
    if (asked) assert(\\u.to_control == (address[6:2] == 7));
    if (asked) assert(\\u.to_interrupt_enable == (address[6:2] == 16));
    if (asked) assert(\\u.to_interrupt_pending == (address[6:2] == 17));
    if (given) assert(\\u.value == value[1:0] && \\u.strobe == strobe[0]);
  end
endmodule
"""
#: The registers that can only be read, by their word.
SHOWN = {
    0: "id",
    1: "version",
    2: "lanes",
    3: "tokens",
    4: "hidden",
    5: "ffn",
    6: "labels",
    8: "status",
    9: "cycles",
    10: "active",
    11: "stall_idle",
    12: "stall_weights",
    13: "stall_norm",
    14: "stall_softmax",
    15: "stall_drain",
}
# The state after a word as a function of state and word: of zero, and of each of their bits alone.
CRC = """
module formula;
  generate genvar k;
    for (k = 0; k <= 32 + {width}; k = k + 1) begin
      wire [{width}+31:0] operand = k == 32 + {width} ? 0 : 1'b1 << k;
      wire [31:0] d;
      wire [31:0] found = {{ {found} }};
      reg [31:0] next; integer i;
      unit u (.rst(1'b0), .en(1'b1), .data(operand[{width}+31:32]),
              .\\state.q (operand[31:0]), .\\state.d (d));
      always @* begin  // a word of zeros takes what is kept to the CRC's state
        next = {{ {kept} }};
        for (i = 32; i < {width} + 32; i = i + 1)
          next = (next >> 1) ^ (next[0] ^ operand[i] ? 32'hedb88320 : 0);
        assert(found == next);
      end
    end
  endgenerate
endmodule
"""


def crc(width: int) -> str:
    """CRC with the state after `width` zero bits of what is kept and of what comes of it."""
    images = [1 << bit for bit in range(32)]
    for _ in range(width):
        images = [state >> 1 ^ (0xEDB88320 if state & 1 else 0) for state in images]
    masks = [sum((image >> bit & 1) << i for i, image in enumerate(images)) for bit in range(32)]
    found, kept = (
        ", ".join(f"^({signal} & 32'd{mask})" for mask in reversed(masks))
        for signal in ("d", "operand[31:0]")
    )
    return CRC.format(width=width, found=found, kept=kept)


def field(name: str) -> str:
    place = Tile(CONFIG)[name]
    return f"[{place.offset}+:{Shape.cast(place.shape).width}]"


def fields(layout: data.Layout, name: str) -> Iterator[tuple[str, int]]:
    """Name and width of the registers of a structure, low bits first."""
    for key, part in layout:
        if isinstance(part.shape, data.StructLayout):
            yield from fields(part.shape, f"{name}__{key}")
        elif width := Shape.cast(part.shape).width:
            yield f"{name}__{key}", width


def place(name: str) -> str:
    """A wire of the registers of a place in the queue."""
    registers = list(fields(Tile(CONFIG), name))
    wires = [f"(* hierconn *) wire [{w - 1}:0] \\u.{register} ;" for register, w in registers]
    whole = ", ".join(f"\\u.{register} " for register, _ in reversed(registers))
    return "\n".join(
        [*wires, f"wire [{Shape.cast(Tile(CONFIG)).width - 1}:0] {name} = {{ {whole}}};"]
    )


def tiles() -> str:
    return TILES.format(
        places="\n".join(place(f"place_{k}") for k in range(2)),
        started=STARTED,
        top=Shape.cast(Tile(CONFIG)).width - 1,
        rows_top=CONFIG.row_tiles.bit_length() - 1,
        norm_index=field("norm_index"),
        row=field("row"),
    )


def registers() -> str:
    return REGISTERS.format(
        started=STARTED,
        values=", ".join(SHOWN.values()),
        ports=", ".join(f".value_{name}({name})" for name in SHOWN.values()),
        cases=" ".join(f"{word}: word <= {name};" for word, name in SHOWN.items()),
    )


def test_one_deep_queue(tmp_path: Path) -> None:
    assert induced(OneDeepQueue(8), ONE_DEEP, tmp_path)


def test_tile_queue(tmp_path: Path) -> None:
    assert induced(TileQueue(CONFIG), tiles(), tmp_path)


def test_registers(tmp_path: Path) -> None:
    """Any client whatever: no response is lost, doubled, changed or withdrawn."""
    assert induced(Registers(), registers(), tmp_path)


def linear(unit: Any, width: int, folder: Path) -> bool:
    """Whether nothing but exclusive ors is between state, word and next state."""
    ports = f"input [31:0] q, input [{width - 1}:0] data, output [31:0] d"
    unit_of_it = "unit u (.rst(1'b0), .en(1'b1), .data(data), .\\state.q (q), .\\state.d (d));"
    nonlinear = "t:* t:$xor %d t:$reduce_xor %d t:$scopeinfo %d"
    yosys(
        unit,
        f"module formula ({ports}); {unit_of_it} endmodule",
        folder,
        f"{READ}{STATE_AS_PORTS}{FLAT}opt -full; select -assert-any t:$reduce_xor; "
        f"tee -o nonlinear select -list {nonlinear}",
    )
    return not (folder / "nonlinear").read_text().strip()


@pytest.mark.slow
@pytest.mark.parametrize("width", [32, pytest.param(64, marks=pytest.mark.slow)])
def test_crc(width: int, tmp_path: Path) -> None:
    """Two linear functions are one where they agree on zero and on each bit alone."""
    assert linear(Crc(width), width, tmp_path)
    assert proved(Crc(width), crc(width), tmp_path, before=STATE_AS_PORTS)


def test_a_fault_is_refuted(tmp_path: Path) -> None:
    with replaced("queues", ("valid.eq(0)", "valid.eq(self.i.valid)")) as module:
        unit = module.OneDeepQueue(8)
    assert not induced(unit, ONE_DEEP, tmp_path)


@pytest.mark.slow
def test_a_term_that_is_not_linear_is_seen(tmp_path: Path) -> None:
    and_ = ("Cat(*terms).xor()", "Cat(*terms[1:]).xor() ^ (terms[0] & terms[1])")
    with replaced("crc", and_) as module:
        assert not linear(module.Crc(32), 32, tmp_path)
