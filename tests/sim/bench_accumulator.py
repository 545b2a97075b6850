"""Bench of the small design in accumulator.py, written to pass and to fail on request."""

import json
import os
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge


async def _sums(dut, values):
    """Feed `values`, one a cycle, and return what `o` shows after each edge."""
    Clock(dut.clk, 10, "ns", impl="gpi").start()
    dut.rst.value, dut.i.value = 1, 0
    for _ in range(2):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    seen = []
    for value in values:
        dut.i.value = value
        await FallingEdge(dut.clk)
        seen.append(dut.o.value.to_signed())
    return seen


@cocotb.test()
@cocotb.parametrize(sign=[1, -1])
async def sums(dut, sign):
    assert await _sums(dut, [sign * 5, sign * 127, 0]) == [sign * 5, sign * 132, sign * 132]


@cocotb.test()
async def sheet_is_given(dut):
    sheet = json.loads(Path(os.environ["BERT2RTL_UNIT_SHEET"]).read_text())
    assert sheet["ports"]["i"] == {"direction": "input", "width": 8, "signed": True}
    assert sheet["latency"] == 1


@cocotb.test()
async def wrong_on_purpose(dut):
    expected = int(os.environ.get("BERT2RTL_EXPECTED", "5"))
    assert (await _sums(dut, [5]))[0] == expected, f"expected {expected}"


@cocotb.test()
async def probe(dut):
    await _sums(dut, [3])
    assert dut.part.o.value.to_signed() == 3
