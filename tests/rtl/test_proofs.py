"""Proofs for every input that units of the datapath equal their formulas."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.datapath.epilogue import Epilogue
from rtl.datapath.matmul import lut_product
from rtl.datapath.norm_lane import NormLane
from rtl.datapath.operand import Operand
from rtl.datapath.position_bias import PositionBias
from rtl.datapath.requantize import Requantize, RoundShift
from rtl.datapath.rotary import Rotary
from rtl.datapath.row_scale import RowScale
from rtl.datapath.schedule import CODE, GATE_READ
from rtl.datapath.softmax import Softmax
from rtl.datapath.window import Window
from rtl.interface.config import Config
from rtl.interface.word import activation_word
from tests.damage import replaced
from tests.rtl.formal import PARTS_AS_PORTS, STATE_AS_PORTS, cut, proved
from tests.tiers import quick

ROUND_SHIFT = """
module formula (input signed [{width}-1:0] i, input [{s_bits}-1:0] s);
  wire signed [{bits}-1:0] o;
  unit u (.clk(1'b0), .rst(1'b0), .i(i), .s(s), .o(o));
  localparam signed [63:0] most = (64'sd1 <<< ({bits} - 1)) - 1;
  wire signed [63:0] x = i;
  wire signed [63:0] y = (x + (64'sd1 <<< (s - 1))) >>> s;
  wire fits = y <= most && y >= -most - 1;
  wire signed [63:0] expected = fits ? y : y > 0 ? most : -most - 1;
  always @* if (s >= 1 && s <= {maximum} && (fits || !{must_fit})) assert(o == expected);
endmodule
"""
OPERAND = """
module formula (input signed [23:0] i, input [2:0] s);
  wire signed [7:0] o;
  unit u (.clk(1'b0), .rst(1'b0), .i(i), .s(s), .o(o));
  wire signed [31:0] x = i > 32767 ? 32767 : i < -32768 ? -32768 : i;
  wire [3:0] shift = s == 0 ? 8 : s;
  wire signed [31:0] y = (x + (32'sd1 <<< (shift - 1))) >>> shift;
  wire signed [31:0] expected = y > 127 ? 127 : y < -128 ? -128 : y;
  always @* assert(o == expected);
endmodule
"""
# acc * m is split by the value of acc's halves; the shift is proved apart.
REQUANTIZE = """
module formula (input signed [31:0] acc, input [15:0] m, input [5:0] s, input signed [15:0] y);
  wire signed [47:0] product; wire [5:0] shift; wire signed [15:0] o;
  unit u (.clk(1'b0), .rst(1'b0), .acc(acc), .m(m), .s(s), .o(o),
          .\\shift0.i (product), .\\shift0.s (shift), .\\shift0.o (y));
  wire signed [31:0] high = $signed(acc[31:16]) * $signed({1'b0, m});
  wire [31:0] low = acc[15:0] * m;
  wire signed [47:0] expected = (high <<< 16) + $signed({1'b0, low});
  always @* begin assert(product == expected); assert(shift == s); assert(o == y); end
endmodule
"""
# (r, e), the reciprocal of the sum, may be anything: of it every operand is played elsewhere.
ROW_SCALE = """
module formula (input [{bits}-1:0] sum, input [15:0] m, r, input [4:0] e, input [5:0] s);
  wire [15:0] row_m; wire [5:0] row_s; wire [19:0] i;
  unit u (.clk(1'b0), .rst(1'b0), .sum(sum), .m(m), .s(s), .row_m(row_m), .row_s(row_s),
          .\\reciprocal.i (i), .\\reciprocal.r (r), .\\reciprocal.e (e));
  wire [31:0] product = r * m;
  wire [4:0] adj = product >= 32'h80000000 ? 16 : 15;
  wire [32:0] rounded = ({1'b0, product} + (33'd1 << (adj - 1))) >> adj;
  wire carry = rounded == 65536;
  wire over = sum >= 1048576;
  wire [7:0] shift = s + 16 + e + over - adj - carry;
  always @* begin
    assert(i == sum >> over); assert(row_s == shift[5:0]);
    assert(row_m == (carry ? 32768 : rounded));
  end
endmodule
"""
# z * scale is split by scale's value; the rounding shifts and the operand are proved apart.
NORM_LANE = """
module formula (input signed [15:0] z, gamma, shown, input [25:0] scale, input [4:0] shift,
                input signed [42:0] offset, input signed [31:0] beta, input [4:0] output_shift,
                input [2:0] operand_shift, input signed [17:0] n, input signed [23:0] wide,
                input signed [7:0] operand);
  wire signed [43:0] to_n; wire signed [34:0] to_y; wire signed [23:0] to_operand;
  wire [4:0] s_n, s_y; wire [2:0] s_operand; wire signed [15:0] y; wire signed [7:0] y8;
  unit u (.clk(1'b0), .rst(1'b0), .squares(1'b0), .sum_en(1'b0), .sum_first(1'b0), .z(z),
          .scale(scale), .offset(offset), .shift(shift), .gamma(gamma), .beta(beta),
          .output_shift(output_shift), .operand_shift(operand_shift), .y(y), .y8(y8),
          .\\normalise.i (to_n), .\\normalise.s (s_n), .\\normalise.o (n),
          .\\output_.i (to_y), .\\output_.s (s_y), .\\output_.o (shown), .\\output_.wide (wide),
          .\\operand.i (to_operand), .\\operand.s (s_operand), .\\operand.o (operand));
  wire signed [32:0] low = z * $signed({1'b0, scale[12:0]});
  wire signed [32:0] high = z * $signed({1'b0, scale[25:13]});
  wire signed [47:0] difference = low + (high <<< 13) - offset;
  wire signed [40:0] affine = n * gamma + beta;
  always @* begin
    if (difference >= -(48'sd1 << 43) && difference < (48'sd1 << 43)) assert(to_n == difference);
    assert(to_y == affine); assert(to_operand == wide); assert(y == shown); assert(y8 == operand);
    assert(s_n == shift); assert(s_y == output_shift); assert(s_operand == operand_shift);
  end
endmodule
"""
WEIGHT = """
module formula (input signed [15:0] score, maximum, input attend);
  wire [7:0] p;
  unit u (.clk(1'b0), .rst(1'b0), .score(score), .maximum(maximum), .attend(attend), .p(p));
  wire [16:0] d = maximum - score;
  wire [8:0] i = d >> 8;
  reg [15:0] t;
  always @* case (d[7:0]) {table} endcase
  wire [31:0] expected = i > 20 ? 0 : (t + (32'd1 << (i + 7))) >> (i + 8);
  always @* if (maximum >= score) assert(p == (attend ? expected : 0));
endmodule
"""
# What lane j had goes to lane j + 1; the first word, and the next value, are played elsewhere.
POSITION_BIAS = """
module formula (input signed [15:0] s0, s1, v0, v1, input [1:0] starts, input biased);
  wire signed [15:0] o0, o1, next1;
  unit u (.clk(1'b0), .rst(1'b0), .biased(biased), .score_data({s1, s0}), .\\value_0.q (v0),
          .\\value_1.q (v1), .\\o_0.d (o0), .\\o_1.d (o1), .\\value_1.d (next1),
          .\\starts_2.q (starts[0]));
  wire signed [31:0] t0 = biased ? s0 + v0 : s0, t1 = biased ? s1 + v1 : s1;
  always @* begin
    assert(o0 == (t0 > 32767 ? 32767 : t0 < -32768 ? -32768 : t0));
    assert(o1 == (t1 > 32767 ? 32767 : t1 < -32768 ? -32768 : t1));
    if (!starts[0]) assert(next1 == v0);
  end
endmodule
"""
# The factor, a word of eight bits or the halves of a wide one, and what becomes of the product.
GATE = """
module formula (input signed [7:0] word, input signed [15:0] up, input [4:0] shift,
                input signed [7:0] factor, input signed [23:0] product);
  wire signed [7:0] to_factor, o; wire signed [23:0] to_product;
  unit u (.clk(1'b0), .rst(1'b0), .word(word), .up(up), .shift(shift), .wide(1'b0), .o(o),
          .\\factor_0 (to_factor), .\\factor_0.i (factor),
          .\\product_0 (to_product), .\\product_0.i (product));
  wire signed [39:0] y = (product + (40'sd1 <<< (shift - 1))) >>> shift;
  always @* begin
    assert(to_factor == word); assert(to_product == factor * up);
    if (shift >= 1) assert(o == (y > 127 ? 127 : y < -128 ? -128 : y));
  end
endmodule
"""
WIDE_GATE = """
module formula (input signed [7:0] high, low, input signed [15:0] up, input [4:0] shift,
                input wide, input signed [15:0] factor, input signed [31:0] product);
  wire signed [7:0] o_high, o_low; wire signed [15:0] to_factor; wire signed [31:0] to_product;
  unit u (.clk(1'b0), .rst(1'b0), .word({high, low}), .up(up), .shift(shift), .wide(wide),
          .o({o_high, o_low}), .\\factor_0 (to_factor), .\\factor_0.i (factor),
          .\\product_0 (to_product), .\\product_0.i (product));
  wire signed [17:0] word = high * 256 + low, o = o_high * 256 + o_low;
  wire signed [47:0] y = (product + (48'sd1 <<< (shift - 1))) >>> shift;
  always @* begin
    if (!wide) assert(to_factor == high);
    else if (word >= -32768) assert(to_factor == word);
    assert(to_product == factor * up);
    if (shift >= 1 && wide) assert(o == (y > 32639 ? 32639 : y < -32768 ? -32768 : y));
    if (shift >= 1 && !wide) assert(o == 256 * (y > 127 ? 127 : y < -128 ? -128 : y));
  end
endmodule
"""
# Products of u, -2^15..2^15 - 1, and of cos or sin, -2^14..2^14; which meet is played.
ROTARY = """
module formula (input signed [15:0] value, cos, sin, input signed [31:0] by_cos, by_sin,
                input first);
  wire signed [31:0] to_cos, to_sin; wire signed [15:0] o;
  unit u (.clk(1'b0), .rst(1'b0), .u({16'd0, value}), .o(o), .\\turns_3.i (first),
          .\\cos_0.i (cos), .\\sin_0.i (sin), .\\by_cos_0 (to_cos), .\\by_cos_0.i (by_cos),
          .\\by_sin_0 (to_sin), .\\by_sin_0.i (by_sin));
  localparam signed [31:0] most = 32'sd1 <<< 29;
  wire signed [39:0] total = first ? by_cos - by_sin : by_cos + by_sin;
  wire signed [39:0] y = (total + (40'sd1 <<< 20)) >>> 21;
  always @* begin
    assert(to_cos == value * cos); assert(to_sin == value * sin);
    if (by_cos >= -most && by_cos <= most && by_sin >= -most && by_sin <= most)
      assert($signed(o[7:0]) == (y > 127 ? 127 : y < -128 ? -128 : y));
  end
endmodule
"""
WINDOW = """
module formula (input [3:0] before, input [3:0] after, input [2:0] apart, input [1:0] column);
  wire [3:0] o;
  unit u (.clk(1'b0), .rst(1'b0), .sides_before(before), .sides_after(after),
          .apart(apart), .column(column), .o(o));
  wire signed [7:0] least = -$signed({4'b0, before}), most = after;
  wire signed [7:0] k = 4 * $signed({{5{apart[2]}}, apart}) + $signed({6'b0, column});
  genvar j;
  for (j = 0; j < 4; j = j + 1) always @* assert(o[j] == (k - j >= least && k - j <= most));
endmodule
"""
PRODUCTS = """
module formula (input signed [8:0] a);
  generate genvar b;
    for (b = -128; b < 128; b = b + 1) begin
      wire signed [7:0] each = b;
      wire signed [16:0] o;
      unit u (.a(a), .b(each), .o(o));
      always @* assert(o == a * each);
    end
  endgenerate
endmodule
"""


def exp2_table() -> str:
    """T[f] = round(65280 * 2^(-f/256)) as cases; docs/numerics.md section 6."""
    with localcontext() as context:
        context.prec = 40
        values = [Decimal(65280) * Decimal(2) ** (Decimal(-f) / 256) for f in range(256)]
        entries = [int(value.to_integral_value(ROUND_HALF_UP)) for value in values]
    return " ".join(f"8'd{f}: t = {t};" for f, t in enumerate(entries))


class Weight(wiring.Component):
    """p of one lane of the softmax."""

    def __init__(self) -> None:
        score = {"score": In(signed(16)), "maximum": In(signed(16)), "attend": In(1)}
        super().__init__(score | {"p": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = data.StructLayout({"scores": data.ArrayLayout(signed(16), 1), "attend": 1})
        word, lane = Signal(layout), SimpleNamespace(lanes=1)
        m.d.comb += [word.scores[0].eq(self.score), word.attend.eq(self.attend)]
        m.d.comb += self.p.eq(Softmax._weights(lane, m, word, [self.maximum])[0])
        return m


class Product(wiring.Component):
    """The product of the array that is made of adders."""

    def __init__(self) -> None:
        super().__init__({"a": In(signed(9)), "b": In(signed(8)), "o": Out(signed(17))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(lut_product(self.a, self.b))
        return m


class Gate(wiring.Component):
    """The product of one lane of the epilogue."""

    def __init__(self, precise: bool) -> None:
        self.precise = precise
        bits = 16 if precise else 8
        given = {"word": In(bits), "up": In(signed(16)), "shift": In(5), "wide": In(1)}
        super().__init__(given | {"o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        column = SimpleNamespace(write=1, gated=1, address=0, way=0, shift=self.shift)
        word = Signal(activation_word(1, self.precise))
        m.d.comb += word.as_value().eq(self.word)
        lane = SimpleNamespace(
            config=SimpleNamespace(lanes=1, precise=self.precise),
            gate=SimpleNamespace(en=Signal(), address=Signal(), way=Signal(), data=word),
            requantize=SimpleNamespace(o=[self.up]),
        )
        at = dict.fromkeys((GATE_READ - 1, GATE_READ, CODE), column)
        (product,) = Epilogue._products(lane, m, at, self.wide)
        m.d.comb += self.o.eq(product)
        return m


def round_shift(unit: RoundShift) -> str:
    return ROUND_SHIFT.format(
        width=unit.width,
        bits=unit.bits,
        maximum=unit.maximum,
        s_bits=unit.maximum.bit_length(),
        must_fit=int(unit.fits),
    )


@pytest.mark.parametrize(
    ("width", "bits", "maximum", "fits"),
    quick([(35, 16, 31, False), (48, 16, 47, False), (44, 18, 29, True)]),
    ids=["layernorm output", "requantize", "layernorm n"],
)
def test_round_shift(width: int, bits: int, maximum: int, fits: bool, tmp_path: Path) -> None:
    unit = RoundShift(width, bits, maximum, fits=fits)
    assert proved(unit, round_shift(unit), tmp_path)


def test_operand(tmp_path: Path) -> None:
    """Of any value, saturated to 16 bits first: the unit does both at once."""
    assert proved(Operand(), OPERAND, tmp_path)


def test_requantize(tmp_path: Path) -> None:
    assert proved(Requantize(1), REQUANTIZE, tmp_path, before=PARTS_AS_PORTS)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [20, 21])
def test_row_scale(bits: int, tmp_path: Path) -> None:
    formula = ROW_SCALE.replace("{bits}", str(bits))
    assert proved(RowScale(bits), formula, tmp_path, before=PARTS_AS_PORTS)


@pytest.mark.slow
def test_norm_lane(tmp_path: Path) -> None:
    assert proved(NormLane(), NORM_LANE, tmp_path, before=PARTS_AS_PORTS)


@pytest.mark.slow
def test_weight(tmp_path: Path) -> None:
    assert proved(Weight(), WEIGHT.format(table=exp2_table()), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("precise", "formula"), [(False, GATE), (True, WIDE_GATE)])
def test_gate(precise: bool, formula: str, tmp_path: Path) -> None:
    assert proved(Gate(precise), formula, tmp_path, before=cut("factor_0", "product_0"))


TURNED = cut("turns_3", "cos_?", "sin_?", "by_cos_0", "by_sin_0")


def test_rotary(tmp_path: Path) -> None:
    assert proved(Rotary(2, 1, 1), ROTARY, tmp_path, before=PARTS_AS_PORTS + TURNED)


def test_position_bias(tmp_path: Path) -> None:
    unit = PositionBias(2, 1, 1)
    assert proved(unit, POSITION_BIAS, tmp_path, before=STATE_AS_PORTS)


def test_window(tmp_path: Path) -> None:
    """Every window at every distance: who sees a key."""
    assert proved(Window(Config(lanes=4, tokens=11)), WINDOW, tmp_path)


@pytest.mark.slow
def test_product_of_adders(tmp_path: Path) -> None:
    assert proved(Product(), PRODUCTS, tmp_path)


#: One of each way to prove: the file, the unit of the module in it, and the fault.
FAULTS: dict[str, tuple[str, Callable[[Any], Any], str | Callable[[Any], str], str, str]] = {
    "": (
        "requantize",
        lambda module: module.RoundShift(48, 16, 47),
        round_shift,
        "(halves + 1) >> 1",
        "halves >> 1",
    ),
    PARTS_AS_PORTS: (
        "requantize",
        lambda module: module.Requantize(1),
        REQUANTIZE,
        "high + low[16:]",
        "high + low[17:]",
    ),
    STATE_AS_PORTS: (
        "position_bias",
        lambda module: module.PositionBias(2, 1, 1),
        POSITION_BIAS,
        "saturate(total, 16)",
        "total[:16]",
    ),
    PARTS_AS_PORTS + TURNED: (
        "rotary",
        lambda module: module.Rotary(2, 1, 1),
        ROTARY,
        "saturate(rounded, 8)",
        "rounded[:8]",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("before", FAULTS)
def test_a_fault_is_refuted(before: str, tmp_path: Path) -> None:
    file, made, formula, *piece = FAULTS[before]
    with replaced(file, (piece[0], piece[1])) as module:
        faulty = made(module)
    said = formula if isinstance(formula, str) else formula(faulty)
    assert not proved(faulty, said, tmp_path, before=before)
