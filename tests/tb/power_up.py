"""Designs whose registers and memories hold anything when the power comes up.

An FPGA loads what the Verilog says that a register begins with; an ASIC loads nothing. So a unit
may rely on its reset alone, and these designs take the other values away: to X, which a four-state
simulator carries on to whatever depends on it, or to values at random, for all the others. What a
table holds that nothing writes stays.
"""

from __future__ import annotations

import dataclasses
import re
from random import Random

from rtl.generate import library
from sim.design import Design

_REGISTER = re.compile(
    r"^(  (?:output )?reg .*?) = (\d+)'[hd][0-9a-f]+([;,]?(?:  //.*)?)$", re.MULTILINE
)
_WORDS = "  reg [WIDTH-1:0] words [0:DEPTH-1];\n"
"""The memory in a module of the library, which has no value when the power comes up."""
_FILLED = re.compile(r"^`ifndef SYNTHESIS\n(?: .*\n)+`endif\n\n", re.MULTILINE)
_MODULE = re.compile(rf"^module {library.RAM} .*?^endmodule\n", re.MULTILINE | re.DOTALL)
_NOT_WRITTEN = r"(?:query|key)_bank\w*"
"""The RAMs of which mean pooling reads words that nobody wrote, to multiply them by 0."""
_AT_RANDOM = """\
  integer number, place, seed;
  initial begin
    seed = {seed} + WIDTH * DEPTH;
    for (number = 0; number < DEPTH; number = number + 1)
      for (place = 0; place < WIDTH; place = place + 1)
        words[number][place] = $random(seed) % 2 != 0;
  end
"""


def unknown(design: Design) -> Design:
    """Everything begins with X, but the words of _NOT_WRITTEN."""
    verilog = design.verilog
    module = _MODULE.search(verilog)
    if module is not None:
        instance = rf"^  {library.RAM} (#\((?:\n    .*)+\n  \) (?!{_NOT_WRITTEN} )\w+ \()"
        verilog = re.sub(instance, r"  ram_of_x \1", verilog, flags=re.MULTILINE)
        verilog += "\n" + _FILLED.sub("", module[0]).replace(
            f"module {library.RAM} ", "module ram_of_x "
        )
    verilog = _REGISTER.sub(lambda found: f"{found[1]} = {found[2]}'bx{found[3]}", verilog)
    return dataclasses.replace(design, verilog=verilog)


def at_random(design: Design, seed: int) -> Design:
    """Everything begins with a value that the seed decides."""
    random = Random(seed)

    def value(found: re.Match[str]) -> str:
        bits = int(found[2])
        return f"{found[1]} = {bits}'h{random.getrandbits(bits):x}{found[3]}"

    verilog = _FILLED.sub("", _REGISTER.sub(value, design.verilog))
    verilog = verilog.replace(_WORDS, _WORDS + _AT_RANDOM.format(seed=seed))
    return dataclasses.replace(design, verilog=verilog)
