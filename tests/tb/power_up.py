"""Designs whose registers and memories hold anything when the power comes up.

An FPGA loads what the Verilog says that a register begins with; an ASIC loads nothing. So a unit
may rely on its reset alone, and these designs take the other values away: to X, which a four-state
simulator carries on to whatever depends on it, or to values at random, for all the others. What a
table holds that nothing writes stays.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from random import Random

from sim.design import Design

_MODULE = re.compile(r"^module .*?^endmodule", re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(r"^(  reg .*?) = (\d+)'h[0-9a-f]+;$", re.MULTILINE)
_MEMORY = re.compile(r"^  reg (?:\[\S+\] )?(\S+) +\[\d+:0\];$", re.MULTILINE)


def unknown(design: Design) -> Design:
    """Everything begins with X."""
    return dataclasses.replace(design, verilog=_changed(design.verilog, None))


def at_random(design: Design, seed: int) -> Design:
    """Everything begins with a value that the seed decides."""
    return dataclasses.replace(design, verilog=_changed(design.verilog, Random(seed)))


def _changed(verilog: str, random: Random | None) -> str:
    def value(bits: int) -> str:
        return f"{bits}'h{random.getrandbits(bits):x}" if random else f"{bits}'bx"

    return _MODULE.sub(lambda module: _module(module[0], value), verilog)


def _module(text: str, value: Callable[[int], str]) -> str:
    text = _REGISTER.sub(lambda found: f"{found[1]} = {value(int(found[2]))};", text)
    for memory in _MEMORY.finditer(text):
        name = re.escape(memory[1])
        if re.search(rf"^ .*{name}\[.*\](?:\[\S+\])? <= ", text, re.MULTILINE):
            word = re.compile(rf"^(    {name}\[\d+\]) = (\d+)'h[0-9a-f]+;$", re.MULTILINE)
            text = word.sub(lambda found: f"{found[1]} = {value(int(found[2]))};", text)
    return text
