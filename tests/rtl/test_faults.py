"""Deliberate faults: each replaces one piece of a unit's source, and the unit's bench must see it.

The benches run on the Verilog of the faulty unit, with Icarus at four lanes.
"""

import re
from dataclasses import dataclass

import pytest

from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import described
from tests.damage import mutated, with_pieces

CONFIG = Config(lanes=4, tokens=64, hidden=64)


@dataclass(frozen=True)
class Fault:
    """`old`, which stands once in rtl/<file>.py, becomes `new`; file is the unit's own if empty."""

    unit: str
    kind: str
    old: str
    new: str
    file: str = ""


FAULTS = (
    Fault("requantize", "no rounding", "(halves + 1) >> 1", "halves >> 1"),
    Fault("requantize", "shift off by one", "amount.eq(self.s - 1)", "amount.eq(self.s)"),
    Fault("requantize", "no saturation", "above.all() | ~above.any()", "Value.cast(1)", "saturate"),
    Fault("requantize", "unsigned product", "acc[16:].as_signed()", "acc[16:]"),
    Fault("requantize", "lanes reversed", "self.o[lane]", "self.o[self.lanes - 1 - lane]"),
    Fault("requantize", "m of lane 0", "self.m[lane]", "self.m[0]"),
    Fault("requantize", "wrong latency", "latency = 3 +", "latency = 4 +"),
    Fault("activation", "unsigned order", "self.i[lane].as_unsigned()", "self.i[lane] + 128"),
    Fault("activation", "lanes rotated", "self.o[lane]", "self.o[(lane + 1) % self.lanes]"),
    Fault("activation", "last entry kept", "connect(m, flipped(self.write), table.write)",
          """m.d.comb += [table.write.en.eq(self.write.en & (self.write.address != 255)),
          table.write.address.eq(self.write.address), table.write.data.eq(self.write.data)]"""),
    Fault("reciprocal", "table entry", "- (128 + j) * y0", "- (128 + j) * y0 + (j == 77)"),
    Fault("reciprocal", "no rounding", "len(low)), Const(1, 1)", "len(low)), Const(0, 1)"),
    Fault("reciprocal", "exponent", "exponent.eq(e - 12)", "exponent.eq(e - 11)"),
    Fault("rsqrt", "table entry", "y0 = int(TABLE[j])", "y0 = int(TABLE[j]) - (j == 200)"),
    Fault("rsqrt", "low bits", "Mux(large, u[:10], u[:9])", "u[:9]"),
    Fault("rsqrt", "normalisation", "(4, 2)", "(2, 4)"),
    Fault("rsqrt", "no limit", "Mux(total[16], 0xFFFF, total[:16])", "total[:16]", "reciprocal"),
    Fault("softmax", "largest distance", "distance[8:] <= 8", "distance[8:] <= 7"),
    Fault("softmax", "mask of p", "near = delay(m, attend & (", "near = delay(m, ("),
    Fault("softmax", "mask of max", "Mux(valid, self.i[n], LEAST)", "self.i[n]",
          "running_max"),
    Fault("softmax", "max kept", "(decided_first | Mux", "(Mux", "running_max"),
    Fault("softmax", "two in a row", "Mux(taken, above_last, above_best)", "above_best",
          "running_max"),
    Fault("softmax", "max buffers", "complete & (complete_buffer == b)", "complete", "running_max"),
    Fault("softmax", "table", "[int(t) >> 7 for", "[(int(t) + 1) >> 7 for"),
    Fault("softmax", "rows reversed", "sums[(n + 1) % lanes]", "sums[(n - 1) % lanes]"),
    Fault("softmax", "row buffers", "row_en & (run.job.buffer == b)", "row_en"),
    Fault("softmax", "p buffers", "self._address(p_key, run.job.buffer)",
          "self._address(p_key, 0)"),
    Fault("softmax", "a cycle lost", "(~active | finishing) &", "~active &"),
    Fault("softmax", "reciprocal", "<< 12) - product", "<< 12) + product", "reciprocal"),
    Fault("layernorm", "shift", "NORM_SHIFT = 4", "NORM_SHIFT = 5", "row_constants"),
    Fault("layernorm", "lanes reversed", "lane.z.eq(self.x.data[n])",
          "lane.z.eq(self.x.data[self.lanes - 1 - n])"),
    Fault("layernorm", "mean late", "norms.first[READ_LATENCY + NormLane.offset_latency - 1]",
          "norms.first[READ_LATENCY + NormLane.offset_latency]"),
    Fault("layernorm", "gamma late", "m.If(norms.en[NormLane.gamma_latency - 1])",
          "m.If(norms.en[NormLane.gamma_latency])"),
    Fault("layernorm", "constants unprotected", "m.If(norms.first[0])", "m.If(starts_norm)"),
    Fault("layernorm", "one tile at a time", "between != 2", "between != 1"),
    Fault("layernorm", "y8 not saturated", "saturate(rounded, 8)",
          "rounded[:8].as_signed()", "operand"),
    Fault("layernorm", "y8 saturated once", "Mux(short, saturate(rounded, 8), end(negative, 8))",
          "saturate(rounded, 8)", "operand"),
    Fault("layernorm", "shift of the channel before", "NormLane.shift_latency - NormLane.gamma",
          "NormLane.shift_latency + 1 - NormLane.gamma"),
    Fault("layernorm", "reads while busy", "reading & ~self.x.busy", "reading"),
)  # fmt: skip


def first_of_each() -> list[object]:
    """The first fault of each small unit is quick, the others are slow."""
    first, large = {fault.unit: fault for fault in reversed(FAULTS)}, ("layernorm", "softmax")
    return [
        pytest.param(
            fault,
            marks=[pytest.mark.slow] * (fault is not first[fault.unit] or fault.unit in large),
            id=f"{fault.unit}: {fault.kind}",
        )
        for fault in FAULTS
    ]


def test_every_fault_has_its_place() -> None:
    """Those that `make test` does not play, too."""
    for fault in FAULTS:
        with_pieces(fault.file or fault.unit, (fault.old, fault.new))


@pytest.mark.slow
@pytest.mark.parametrize("fault", first_of_each())
def test_bench_sees(fault: Fault) -> None:
    variant = "fault-" + re.sub(r"\W+", "-", fault.kind)
    file = fault.file or fault.unit
    component = mutated(file, (fault.old, fault.new), unit=fault.unit, config=CONFIG)
    design = described(component, fault.unit, CONFIG, lowering=PLAIN)
    with pytest.raises(BenchError, match=r"values differ; first|gave the shape|hangs"):
        run_bench(design, "icarus", variant=variant)


@pytest.mark.slow
def test_unit_made_the_same_way_without_a_fault() -> None:
    """It is the fault that the benches see."""
    same = "class Softmax("
    component = mutated("softmax", (same, same), unit="softmax", config=CONFIG)
    design = described(component, "softmax", CONFIG, lowering=PLAIN)
    run_bench(design, "icarus", variant="fault-none")
