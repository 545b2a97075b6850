"""Where cells of a flat netlist are counted, on a netlist written by hand."""

from __future__ import annotations

from sim.synth.parts import ITSELF, cells_by_part, parts_by_line

VERILOG = """\
module top(clk);
  unit_a a (
  );
  assign x = y;
endmodule
module unit_a(clk);
  unit_a_b b (
  );
endmodule
module unit_a_b(clk);
  unit_a_b_c c (
  );
endmodule
module unit_a_b_c(clk);
  assign z = w;
endmodule
"""


def cell(kind: str, line: int | None = None) -> dict[str, object]:
    return {"type": kind, "attributes": {} if line is None else {"src": f"top.v:{line}.3-{line}.9"}}


def test_a_line_lies_in_a_part_or_in_a_part_of_it():
    parts = parts_by_line(VERILOG)
    expected = {1: ITSELF, 4: ITSELF, 6: "a", 7: "a", 10: "a.b", 13: "a.b", 14: "a.b"}
    assert {line: parts[line - 1] for line in expected} == expected


def test_cells_count_where_their_line_or_their_name_says():
    cells = {
        "total_TRELLIS_FF_Q": cell("TRELLIS_FF", 4),
        "total_LUT4_Z_1": cell("LUT4"),  # beside the register of its name
        "a.sum_LUT4_Z": cell("LUT4"),
        "a.b.c.deep_LUT4_Z": cell("LUT4"),
        "a.b.c.word_DP16KD_DOA": cell("DP16KD", 14),
        "a.of_no_part.x_LUT4_Z": cell("LUT4"),
        "$abc$7$auto_LUT4_Z": cell("LUT4"),
    }
    assert cells_by_part(VERILOG, "top.v", cells) == {
        ITSELF: {"TRELLIS_FF": 1, "LUT4": 2},
        "a": {"LUT4": 2},
        "a.b": {"LUT4": 1, "DP16KD": 1},
    }
