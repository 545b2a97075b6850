"""Watts: registers found in Verilog, changes counted, and what they come to."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from golden.model import Shape
from golden.random import random_model
from quant.foreign.tokenizer import Tokens
from rtl.interface.config import Config
from sim import power
from sim.design import generated
from sim.power import Activity
from verify.coverage.code import Point

CONFIG = Config(lanes=4, tokens=16, hidden=16, ffn=32, labels=4)
SHAPE = Shape(
    layers=1, hidden=16, heads=2, head_size=8, ffn=32, labels=2,
    vocabulary=30, positions=16, types=2,
)  # fmt: skip

VERILOG = """\
module top(clk, o);
  input clk;
  output o;
  wire [3:0] next;
  reg [3:0] count = 4'h0;
  reg signed [7:0] \\sum.low ;
  reg flag;
  reg [1:0] o__payload;
  reg \\$like$4 ;
  reg [7:0] ram [15:0];
  reg [7:0] o;
endmodule

module part(i);
  input i;
  wire flag;
endmodule
"""


def test_registers_are_told_from_wires_and_memories() -> None:
    found = power.registers(VERILOG)
    assert found == {
        ("top", "count"),
        ("top", "sum.low"),
        ("top", "flag"),
        ("top", "o"),
        ("top", "o__payload"),
        ("top", "$like$4"),
    }


def test_changes_of_registers_alone_count() -> None:
    points = Counter(
        {
            Point("toggle", "top", 5, "count[0]:0->1"): 5,
            Point("toggle", "top", 5, "count[0]:1->0"): 4,
            Point("toggle", "top", 5, "count[3]:0->1"): 1,
            Point("toggle", "top", 7, "flag:0->1"): 7,
            Point("toggle", "top", 8, "o___05Fpayload[1]:0->1"): 2,
            Point("toggle", "top", 9, "__024like__0244:1->0"): 3,
            Point("toggle", "top", 4, "next[0]:0->1"): 100,
            Point("toggle", "part", 14, "flag:0->1"): 100,
            Point("branch", "top", 5, "count[0]:0->1"): 100,
        }
    )
    assert power.changes(points, VERILOG) == {
        ("top", "count"): 10,
        ("top", "flag"): 7,
        ("top", "o__payload"): 2,
        ("top", "$like$4"): 3,
    }


def test_a_chain_like_the_measured_one_takes_what_was_measured() -> None:
    found = Activity(
        cycles=1000, simulated=1000, changes=Counter({("top", "chain"): 83_640 * 1000})
    )
    told = power.watts(found, CONFIG, 100)
    assert told.idle == 0.202
    assert told.low == pytest.approx(0.202 + 2.10, abs=0.005)
    assert power.watts(found, CONFIG, 25).low == pytest.approx(0.202 + 2.10 / 4, abs=0.005)


@pytest.mark.slow
@pytest.mark.verilator
def test_changes_of_an_inference() -> None:
    """The counter of the cycles says itself how often its bits change."""
    model = random_model(SHAPE, 1)
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 30, 10).astype(np.int32)
    tokens = Tokens(ids=ids, types=np.zeros(10, np.int32), words=("word",) * 10)
    found = power.activity(model, CONFIG, tokens)
    counter = found.changes["accelerator", "value__cycles"]
    assert counter == sum(found.cycles >> bit for bit in range(32))
    every = power.registers(generated("accelerator", CONFIG).verilog)
    assert len(found.changes.keys()) > 0.9 * len(every)
