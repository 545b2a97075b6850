"""The netlist after synthesis is bit for bit the Verilog before it, and faults in it are found."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rtl.generate.units import UNITS
from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import generated
from sim.gates import __main__ as command
from sim.gates import netlist as gates
from sim.simulators import SimulatorError
from sim.synth.tools import SynthesisError

CONFIG = Config(lanes=4)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["reciprocal", "activation", "requantize", "rsqrt"])
def test_small_units_on_icarus(unit: str) -> None:
    assert command.main([unit, "--lanes", "4", "--simulator", "icarus"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_on_verilator(unit: str) -> None:
    assert command.main([unit, "--lanes", "4"]) == 0


def complement(table: re.Match[str]) -> str:
    """With the complement of its hexadecimal digits."""
    digits = table[2]
    return f"{table[1]}{(1 << 4 * len(digits)) - 1 - int(digits, 16):0{len(digits)}x})"


def switched_off(register: re.Match[str]) -> str:
    return register[0].replace("OUTREG", "NOREG").replace("CLK0", "NONE")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "cell", "count", "broken"),
    [
        ("reciprocal", r"(\.INIT\(16'h)([0-9a-f]{4})\)", 1, complement),  # of one LUT
        ("reciprocal", r"(\.INITVAL_05\(320'h)([0-9a-f]{80})\)", 1, complement),  # of a table's row
        ("reciprocal", r'REGMODE_[AB]\("OUTREG"\)', 2, switched_off),  # in one block RAM
        ("requantize", r'REG_OUTPUT_CLK\("CLK0"\)', 1, switched_off),  # in one multiplier
        ("requantize", r'REG_INPUT[AB]_CLK\("CLK0"\)', 2, switched_off),
    ],
)
def test_a_broken_netlist_fails(
    unit: str, cell: str, count: int, broken: Callable[[re.Match[str]], str]
) -> None:
    """The complement of a table, or a register that is folded and not switched on."""
    sound = gates.netlist(generated(unit, CONFIG))
    text, changed = re.subn(cell, broken, sound.verilog, count=count)
    assert changed == count
    with pytest.raises(BenchError, match="values differ"):
        run_bench(dataclasses.replace(sound, verilog=text), "icarus", variant="broken-gates")


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ('.REGMODE_B("OUTREG")', '.REGMODE_B("NOREG")', "no_model_of_half_a_word_registered"),
        ('.REG_OUTPUT_CLK("CLK0")', '.REG_OUTPUT_CLK("CLK1")', "no_model_of_other_clocks"),
        (".DATA_WIDTH_B(32'd36)", ".DATA_WIDTH_B(32'd18)", "no_model_of_two_data_widths"),
        ('.CLKBMUX("CLKB")', '.CLKBMUX("INV")', "no_model_of_inverted_clocks"),
    ],
)
def test_what_the_models_leave_out_is_refused(old: str, new: str, refused: str) -> None:
    sound = gates.netlist(generated("reciprocal", CONFIG))
    assert old in sound.verilog
    changed = dataclasses.replace(sound, verilog=sound.verilog.replace(old, new))
    with pytest.raises(SimulatorError, match=refused):
        run_bench(changed, "icarus", variant="broken-gates")


def test_the_accelerator_is_small_unless_a_limit_is_given() -> None:
    def config(unit: str, *arguments: str) -> Config:
        return command.config_for(unit, command._parser().parse_args([unit, *arguments]))

    assert config("softmax") == Config(lanes=8)
    assert config("accelerator").tokens == 24
    assert config("accelerator", "--lanes", "4").lanes == 4
    assert config("accelerator", "--gated", "--rotary-pairs", "8").tokens == 24
    assert config("accelerator", "--hidden", "64") == Config(lanes=8, hidden=64)


@pytest.mark.slow
def test_the_netlist_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gates, "FOLDER", tmp_path)
    design = generated("reciprocal", CONFIG)
    first = gates.netlist(design)
    assert "LUT4" in first.verilog
    assert "always" not in first.verilog.partition("module LUT4")[0]
    monkeypatch.setattr(gates, "run_tool", None)
    assert gates.netlist(design) == first


def test_without_yosys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "find_spec", lambda name: None)
    with pytest.raises(SynthesisError, match="run `make setup-synth` first"):
        gates.cell_models()
