"""Which registers of a netlist are folded into multipliers and block RAMs, and which stay outside.

That folding changes no bit in any cycle is shown by tests/sim/test_gates.py: what it simulates is
folded.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sim.synth.fold import Folded, fold

PLAIN = {"CEMUX": "1 ", "CLKMUX": "CLK", "LSRMUX": "LSR", "REGSET": "RESET"}
CLOCK, OTHER_CLOCK, ENABLE = 2, 3, 4


def cell(kind: str, parameters: dict[str, str], out: str, **pins: Any) -> dict[str, Any]:
    """A cell whose pins with a name that begins with `out` are outputs."""
    directions = {pin: "output" if pin.startswith(out) else "input" for pin in pins}
    connections = {pin: [bit] for pin, bit in pins.items()}
    facts = {"parameters": dict(parameters), "port_directions": directions}
    return {"type": kind, **facts, "connections": connections}


def flip_flop(d: Any, q: int, **changes: Any) -> dict[str, Any]:
    pins = {"CLK": CLOCK, "DI": d, "LSR": "0", "Q": q}
    return cell("TRELLIS_FF", PLAIN, "Q", **(pins | changes))


def design() -> dict[str, Any]:
    """q = register(register(a) * register(b)) of 2 by 1 bits; r = register of a block RAM's word.

    Nets: a 10 and 11, b 12; their registers 20 to 22; product 30 to 32, its registers 40 to 42;
    word 50 and 51, its registers 60 and 61.
    """
    cells = {f"in{i}": flip_flop(10 + i, 20 + i) for i in range(3)}
    cells |= {f"product{i}": flip_flop(30 + i, 40 + i) for i in range(3)}
    cells |= {f"word{i}": flip_flop(50 + i, 60 + i) for i in range(2)}
    product = {f"P{i}": 30 + i for i in range(3)}
    cells["mult"] = cell("MULT18X18D", {}, "P", A0=20, A1=21, A2="0", B0=22, B1="0", **product)
    width = {"DATA_WIDTH_A": f"{18:032b}"}
    cells["ram"] = cell(
        "DP16KD", width, "DO", CLKA=CLOCK, CLKB=CLOCK, DOB0=50, DOB1=51, OCEB="0", ADB5=70
    )
    ports = {
        "i": {"direction": "input", "bits": [CLOCK, OTHER_CLOCK, ENABLE, 10, 11, 12, 70]},
        "o": {"direction": "output", "bits": [40, 41, 42, 60, 61]},
    }
    return {"cells": cells, "ports": ports}


def pins(module: dict[str, Any], name: str) -> dict[str, Any]:
    return {pin: bit for pin, (bit,) in module["cells"][name]["connections"].items()}


def test_every_register_of_the_design_is_folded() -> None:
    module = design()
    folded = fold(module)
    assert folded == Folded(
        block_ram_outputs=1,
        dsp_outputs=1,
        dsp_inputs=1,
        flip_flops=8,
        copies=0,
        outside={"block RAM output: no register": 1},  # of port A
    )
    assert set(module["cells"]) == {"mult", "ram"}
    mult, ram = pins(module, "mult"), pins(module, "ram")
    assert [mult[pin] for pin in ("A0", "A1", "A2", "B0", "B1")] == [10, 11, "0", 12, "0"]
    assert [mult[pin] for pin in ("P0", "P1", "P2")] == [40, 41, 42]
    assert [mult[pin] for pin in ("CLK0", "CE0", "RST0")] == [CLOCK, "1", "0"]
    assert module["cells"]["mult"]["parameters"] == {
        f"REG_{register}_{control}": f"{control}0"
        for register in ("INPUTA", "INPUTB", "OUTPUT")
        for control in ("CLK", "CE", "RST")
    }
    assert [ram[pin] for pin in ("DOB0", "DOB1", "OCEB")] == [60, 61, "1"]
    assert module["cells"]["ram"]["parameters"]["REGMODE_B"] == "OUTREG"
    assert "REGMODE_A" not in module["cells"]["ram"]["parameters"]


def test_a_register_inside_is_not_filled_twice() -> None:
    module = design()
    for i in range(3):
        module["cells"][f"late{i}"] = flip_flop(40 + i, 90 + i)
        module["cells"][f"early{i}"] = flip_flop(110 + i, 10 + i)
        module["cells"][f"later{i}"] = flip_flop(60 + i, 80 + i)
    module["ports"]["o"]["bits"] = [90, 91, 92, 80, 81]
    fold(module)
    before = copy.deepcopy(module)
    again = fold(module)
    assert module == before
    assert (again.block_ram_outputs, again.dsp_outputs, again.dsp_inputs) == (0, 0, 0)


def test_a_word_of_36_bits_takes_both_ports() -> None:
    module = design()
    ram = module["cells"]["ram"]
    ram["parameters"]["DATA_WIDTH_A"] = f"{36:032b}"
    ram["connections"]["DOA0"] = ram["connections"].pop("DOB1")
    ram["port_directions"]["DOA0"] = "output"
    ram["connections"]["CLKA"] = [OTHER_CLOCK]  # writes
    assert fold(module).block_ram_outputs == 1
    assert ram["parameters"]["REGMODE_A"] == ram["parameters"]["REGMODE_B"] == "OUTREG"
    assert pins(module, "ram")["DOA0"] == 61


def test_a_register_of_two_multipliers_is_copied_into_both() -> None:
    module = design()
    second = copy.deepcopy(module["cells"]["mult"])
    second["connections"] = {p: b for p, b in second["connections"].items() if p[0] != "P"}
    second["connections"]["P0"] = [80]
    module["cells"]["second"] = second
    module["ports"]["o"]["bits"].append(80)
    folded = fold(module)
    assert (folded.dsp_inputs, folded.dsp_outputs) == (2, 1)
    assert pins(module, "mult")["A0"] == pins(module, "second")["A0"] == 10
    assert "REG_OUTPUT_CLK" not in second["parameters"]


READERS = {
    "an output": None,
    "another cell": flip_flop(21, 91),
    "a multiplier that takes none": cell("MULT18X18D", {}, "P", A0=21, B0=70, P0=91),
}


def read_elsewhere(module: dict[str, Any], net: int, reader: dict[str, Any] | None) -> None:
    """By another cell, whose output is 91, or by an output of the module."""
    if reader is not None:
        module["cells"]["other"] = copy.deepcopy(reader)
    module["ports"]["o"]["bits"].append(net if reader is None else 91)


@pytest.mark.parametrize("reader", READERS)
def test_an_operand_that_is_read_elsewhere_is_copied_and_stays(reader: str) -> None:
    module = design()
    read_elsewhere(module, 21, READERS[reader])
    before = copy.deepcopy(module)
    assert fold(module).dsp_inputs == 1
    assert pins(module, "mult")["A1"] == 11
    assert module["cells"]["in1"] == before["cells"]["in1"]
    assert not {"in0", "in2"} & set(module["cells"])
    assert module["cells"].get("other") == READERS[reader]


@pytest.mark.parametrize("readers", [2, 3])
def test_multipliers_that_keep_an_operand_outside_do_not_share_its_register(readers: int) -> None:
    module = design()
    module["cells"]["mult"]["connections"]["B0"] = [12]
    multipliers = ["mult", *(f"other{number}" for number in range(1, readers))]
    for number, name in enumerate(multipliers[1:]):
        module["cells"][name] = cell("MULT18X18D", {}, "P", A0=20, B0=70, P0=80 + number)
        module["ports"]["o"]["bits"].append(80 + number)
    module["cells"]["logic"] = cell("LUT4", {}, "Z", A=20, Z=90)
    module["ports"]["o"]["bits"].append(90)
    folded = fold(module)
    assert (folded.dsp_inputs, folded.copies, folded.flip_flops) == (0, readers - 1, 5)
    operands = [pins(module, name)["A0"] for name in multipliers]
    assert len(set(operands)) == readers
    assert operands[0] == 20 == pins(module, "logic")["A"]
    cells = module["cells"].values()
    by_net = {c["connections"]["Q"][0]: c for c in cells if "Q" in c["connections"]}
    assert [by_net[q] for q in operands] == [flip_flop(10, q) for q in operands]
    assert pins(module, "mult")["A1"] == 21


def test_a_chain_of_registers_keeps_its_length() -> None:
    """register(register(product)): the second one stays."""
    module = design()
    module["cells"]["late"] = flip_flop(40, 90)
    module["ports"]["o"]["bits"][0] = 90
    assert fold(module).dsp_outputs == 1
    assert pins(module, "late") == {"CLK": CLOCK, "DI": 40, "LSR": "0", "Q": 90}
    assert pins(module, "mult")["P0"] == 40


#: How a flip-flop is not plain: its parameters and pins, and the reason.
NOT_PLAIN: list[tuple[dict[str, str], dict[str, int], str]] = [
    ({"CEMUX": "CE"}, {"CE": ENABLE}, "clock enable"),
    ({}, {"LSR": ENABLE}, "reset"),
    ({"REGSET": "SET"}, {}, "one at power-up"),
    ({"CLKMUX": "INV"}, {}, "falling edge"),
    ({}, {"CLK": OTHER_CLOCK}, "several clocks"),
]


@pytest.mark.parametrize(("parameters", "changes", "reason"), NOT_PLAIN)
@pytest.mark.parametrize(
    ("name", "where"),
    [("product1", "DSP output"), ("in1", "DSP inputs"), ("word1", "block RAM output")],
)
def test_one_flip_flop_that_is_not_plain_keeps_the_register_outside(
    parameters: dict[str, str], changes: dict[str, int], reason: str, name: str, where: str
) -> None:
    module = design()
    plain = pins(module, name)
    module["cells"][name] = changed = flip_flop(plain["DI"], plain["Q"], **changes)
    changed["parameters"] |= parameters
    before = copy.deepcopy(module)
    folded = fold(module)
    assert folded.outside[f"{where}: {reason}"] == 1
    kept = name.rstrip("1")
    for cell_name, was in before["cells"].items():
        if cell_name.startswith(kept):
            assert module["cells"][cell_name] == was


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("in", "DSP inputs: another clock than the product's"),
        ("word", "block RAM output: another clock than the port's"),
    ],
)
def test_a_register_on_another_clock_stays(kind: str, reason: str) -> None:
    module = design()
    for name, register in module["cells"].items():
        if name.startswith(kind):
            register["connections"]["CLK"] = [OTHER_CLOCK]
    assert fold(module).outside[reason] == 1


@pytest.mark.parametrize("by_output", [False, True])
@pytest.mark.parametrize(("net", "where"), [(31, "DSP output"), (51, "block RAM output")])
def test_a_net_that_is_read_elsewhere_keeps_the_register_outside(
    net: int, where: str, by_output: bool
) -> None:
    module = design()
    read_elsewhere(module, net, None if by_output else flip_flop(net, 91))
    assert fold(module).outside[f"{where}: no register alone behind it"] == 1


def test_operands_out_of_no_register_stay() -> None:
    module = design()
    module["cells"]["mult"]["connections"]["B0"] = [12]
    folded = fold(module)
    assert folded.outside["DSP inputs: an operand out of no register"] == 1
    assert (folded.dsp_inputs, folded.dsp_outputs) == (0, 1)
    assert pins(module, "mult")["A0"] == 20


@pytest.mark.parametrize(
    ("driver", "folded"),
    [
        (cell("LUT4", {}, "Z", A=100, Z=12), 0),
        (flip_flop(100, 12), 1),
        (cell("MULT18X18D", {"REG_OUTPUT_CLK": "CLK0"}, "P", A0=100, B0=100, P0=12), 1),
        (cell("DP16KD", {"DATA_WIDTH_A": f"{9:032b}", "REGMODE_B": "NOREG"}, "DO", DOB3=12), 0),
        (cell("DP16KD", {"DATA_WIDTH_A": f"{9:032b}", "REGMODE_B": "OUTREG"}, "DO", DOB3=12), 1),
        (cell("DP16KD", {"DATA_WIDTH_A": f"{9:032b}", "REGMODE_B": "OUTREG"}, "DO", DOA3=12), 0),
    ],
)
def test_operands_move_only_from_register_to_register(driver: dict[str, Any], folded: int) -> None:
    module = design()
    module["ports"]["i"]["bits"][5] = 100
    module["cells"]["driver"] = driver
    found = fold(module)
    assert found.dsp_inputs == folded
    assert found.outside.get("DSP inputs: logic before the register", 0) == 1 - folded
