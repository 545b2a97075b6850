"""LUTs that go into carry chains: sums and carries stay, for every input.

The model of the cells is written apart from the pass. That whole units stay the same is shown by
tests/sim/test_gates.py: what it simulates has been through the pass.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.datapath.matmul import A_BITS, B_BITS, lut_product
from rtl.interface.config import Config
from sim.design import described
from sim.estimate.area import MULTIPLIER_LUTS
from sim.synth import carry
from sim.synth.carry import absorb, open_ends
from sim.synth.tools import run_yosys

pytestmark = pytest.mark.slow

ADD = "1001011010101010"  # of a carry cell as Yosys writes it: A xor B xor C if D is 1
INPUTS = 8

Module_ = dict[str, Any]


def lut(init: int, z: int, *pins: Any) -> dict[str, Any]:
    """Z = INIT[D C B A]; pins that are not named are 0, as Yosys writes them."""
    names = dict(zip("ABCD", [*pins, "0", "0", "0", "0"], strict=False))
    return {
        "type": "LUT4",
        "parameters": {"INIT": f"{init:016b}"},
        "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
        "connections": {pin: [bit] for pin, bit in (names | {"Z": z}).items()},
    }


def carries(cin: Any, cout: Any, *halves: tuple[Any, ...]) -> dict[str, Any]:
    """A carry cell: (A, B, C, S) of both halves, D is 1."""
    pins = {"CIN": cin, "COUT": cout}
    for number, (a, b, c, s) in enumerate(halves):
        pins |= {f"A{number}": a, f"B{number}": b, f"C{number}": c, f"D{number}": "1"}
        pins |= {f"S{number}": s}
    outputs = ("S0", "S1", "COUT")
    return {
        "type": "CCU2C",
        "parameters": {
            **{f"INIT{half}": ADD for half in "01"},
            **{f"INJECT1_{half}": "NO" for half in "01"},
        },
        "port_directions": {pin: "output" if pin in outputs else "input" for pin in pins},
        "connections": {pin: [bit] for pin, bit in pins.items()},
    }


def module(cells: dict[str, Any], inputs: list[int], outputs: list[int]) -> Module_:
    ports = {"i": {"direction": "input", "bits": inputs}}
    ports["o"] = {"direction": "output", "bits": outputs}
    return {"cells": cells, "ports": ports}


def values(module: Module_) -> dict[int, Any]:
    """Every net for all values of the inputs, as arrays; flip-flops are wires."""
    inputs = [
        bit
        for port in module["ports"].values()
        if port["direction"] == "input"
        for bit in port["bits"]
    ]
    every = np.arange(1 << len(inputs))
    known: dict[Any, Any] = {"0": every < 0, "1": every >= 0, "x": every >= 0}
    known |= {bit: (every >> place & 1).astype(bool) for place, bit in enumerate(inputs)}

    def entry(init: str, pins: list[Any]) -> Any:
        table = np.array([bit == "1" for bit in reversed(init)])
        return table[sum(pin.astype(int) << place for place, pin in enumerate(pins))]

    waiting = list(module["cells"].values())
    while waiting:
        later = []
        for cell in waiting:
            pins = {pin: bits[0] for pin, bits in cell["connections"].items() if bits}
            inputs_of = [pin for pin, way in cell["port_directions"].items() if way == "input"]
            if any(pins.get(pin, "1") not in known for pin in inputs_of):
                later.append(cell)
                continue
            of = {pin: known[pins.get(pin, "1")] for pin in inputs_of}
            if cell["type"] == "TRELLIS_FF":
                known[pins["Q"]] = of["DI"]
            elif cell["type"] == "LUT4":
                known[pins["Z"]] = entry(cell["parameters"]["INIT"], [of[pin] for pin in "ABCD"])
            else:
                assert cell["type"] == "CCU2C"
                chain = of["CIN"]
                for half in "01":
                    assert cell["parameters"][f"INJECT1_{half}"] == "NO"
                    init = cell["parameters"][f"INIT{half}"]
                    propagate = entry(init, [of[pin + half] for pin in "ABCD"])
                    generate = entry(init[-4:], [of["A" + half], of["B" + half]])
                    known[pins.get("S" + half)] = propagate ^ chain
                    chain = np.where(propagate, chain, generate)
                known[pins.get("COUT")] = chain
        assert len(later) < len(waiting), "a loop"
        waiting = later
    return known


def outputs(module: Module_) -> list[Any]:
    known = values(module)
    return [known[bit] for bit in module["ports"]["o"]["bits"]]


def absorbed(before: Module_) -> tuple[Module_, int]:
    """The module after the pass, and how many LUTs are gone; its outputs are the same."""
    after = copy.deepcopy(before)
    gone = absorb(after)
    kinds = [Counter(cell["type"] for cell in one["cells"].values()) for one in (before, after)]
    assert kinds[0] - kinds[1] == Counter({"LUT4": gone} if gone else {})
    for was, now in zip(outputs(before), outputs(after), strict=True):
        assert (was == now).all(), "an output differs"
    return after, gone


AND, AND_NOT, XOR, XNOR, OR, NAND = 0x8888, 0x2222, 0x6666, 0x9999, 0xEEEE, 0x7777
NETS = list(range(2, 10))


def one_half(left: Any, right: Any, cin: Any = 6, c: str = "0") -> Module_:
    """left + right of a bit: LUTs of nets 2 and 3 and of 4 and 5, or nets 2 and 4 themselves."""
    cells, operands = {}, []
    for name, init, nets in (("left", left, (2, 3)), ("right", right, (4, 5))):
        if init is None:
            operands.append(nets[0])
        else:
            cells[name] = lut(init, nets[0] + 20, *nets)
            operands.append(nets[0] + 20)
    cells["chain"] = carries(cin, 32, (*operands, c, 30), ("0", "0", "0", 31))
    return module(cells, [2, 3, 4, 5, 6], [30, 31, 32])


@pytest.mark.parametrize(
    ("left", "right", "c", "gone"),
    [
        (None, AND, "0", 1),  # a masked partial product
        (None, AND_NOT, "0", 1),  # an accumulator that begins anew
        (AND, None, "0", 1),
        (AND, AND, "0", 2),
        (AND, NAND, "0", 2),
        (AND, AND, "1", 2),  # subtracted: C complements B
        (XOR, OR, "0", 2),
        (OR, OR, "1", 2),
        (XNOR, XNOR, "0", 1),  # neither is 0 where both its inputs are
        (None, XNOR, "1", 1),
    ],
)
def test_operands_of_a_half_go_inside(left: Any, right: Any, c: str, gone: int) -> None:
    assert absorbed(one_half(left, right, c=c))[1] == gone


def test_a_lut_that_cannot_go_inside_stays() -> None:
    """It is read elsewhere, has too many nets, or its half injects."""
    for reason in ("an output", "another LUT", "the carry", "too many nets"):
        before = one_half(None, AND)
        if reason == "an output":
            before["ports"]["o"]["bits"].append(24)
        elif reason == "another LUT":
            before["cells"]["other"] = lut(OR, 40, 24, 2)
            before["ports"]["o"]["bits"].append(40)
        elif reason == "the carry":
            before["cells"]["chain"]["connections"]["CIN"] = [24]
        else:
            before["cells"]["right"] = lut(0x8000, 24, 3, 4, 5, 6)
        assert absorbed(before)[1] == 0, reason
    before = one_half(None, AND)
    before["cells"]["chain"]["parameters"]["INJECT1_0"] = "YES"
    after = copy.deepcopy(before)
    assert absorb(after) == 0
    assert after == before


def test_a_lut_goes_into_all_halves_that_it_feeds_or_none() -> None:
    before = one_half(None, AND)
    before["cells"]["chain"]["connections"]["B1"] = [24]  # as where a sign is extended
    assert absorbed(before)[1] == 1
    before["cells"]["chain"]["connections"]["A1"] = [44]
    before["cells"]["wide"] = lut(0x6996, 44, 2, 3, 6, 7)
    before["ports"]["i"]["bits"].append(7)
    after, gone = absorbed(before)
    assert gone == 1
    assert "wide" in after["cells"]  # six nets would be too many


def random_module(seed: int) -> Module_:
    """Chains of up to three carry cells over LUTs of any function, some of them read twice."""
    rng = np.random.default_rng(seed)
    cells: dict[str, Any] = {}
    nets: list[Any] = [*NETS, "0", "1"]
    logic: list[int] = []
    for number in range(int(rng.integers(2, 14))):
        sources = [*nets, *logic] if number > 8 else nets
        pins = [sources[int(place)] for place in rng.integers(0, len(sources), 4)]
        width = int(rng.integers(1, 5))
        init = int(rng.integers(0, 1 << 16))
        if rng.random() < 0.6:  # what masks and multiplexers are made of
            init = int(rng.choice([AND, AND_NOT, XOR, OR, NAND, 0xCACA]))
        cells[f"lut{number}"] = lut(init, 100 + number, *pins[:width])
        logic.append(100 + number)
    shown = []
    for chain in range(2):
        link: Any = rng.choice([0, 1, 2])
        link = ["0", "1", NETS[0]][int(link)]
        for place in range(int(rng.integers(1, 4))):
            base = 200 + 40 * chain + 10 * place
            halves = []
            for half in range(2):
                operands = [
                    (logic if rng.random() < 0.7 else nets)[int(rng.integers(0, 100)) % size]
                    for size in (min(len(logic), len(nets)),) * 2
                ]
                halves.append((*operands, str(rng.integers(0, 2)), base + half))
            cells[f"chain{chain}_{place}"] = carries(link, base + 2, *halves)
            link = base + 2
            shown += [base, base + 1]
        shown.append(link)
    if rng.random() < 0.3:
        shown.append(logic[0])
    return module(cells, NETS, shown)


def absorbed_at_random() -> int:
    return sum(absorbed(random_module(seed))[1] for seed in range(300))


def test_any_netlist_computes_the_same() -> None:
    assert absorbed_at_random() > 300


def test_a_wrong_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second table's conditions sums alone are right, and the carries are not."""
    right = carry._init

    def careless(half: Any, places: Any) -> Any:
        return right(carry.Half(half.nets, half.sums, dict(half.sums)), places)

    monkeypatch.setattr(carry, "_init", careless)
    with pytest.raises(AssertionError, match="an output differs"):
        absorbed_at_random()


class Product(wiring.Component):
    """o = a * b, as the array writes it where a MAC has no multiplier."""

    def __init__(self) -> None:
        super().__init__(
            {"a": In(signed(A_BITS)), "b": In(signed(B_BITS)), "o": Out(signed(A_BITS + B_BITS))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(lut_product(self.a, self.b))
        return m


def test_a_product_out_of_luts_for_every_pair(tmp_path: Any) -> None:
    """All 2^17 operands of the netlist that Yosys makes and the pass changes."""
    design = described(Product(), "product", Config(lanes=4))
    (tmp_path / "product.v").write_text(design.verilog)
    run_yosys("read_verilog product.v", "product", "write_json product.json", tmp_path)
    found = json.loads((tmp_path / "product.json").read_text())["modules"]["product"]
    found["cells"] = {
        name: cell for name, cell in found["cells"].items() if cell["type"] != "$scopeinfo"
    }
    before = Counter(cell["type"] for cell in found["cells"].values())
    gone = absorb(found)
    ports = {name: found["ports"][name]["bits"] for name in "abo"}
    found["ports"] = {"i": {"direction": "input", "bits": [*ports["a"], *ports["b"]]}}
    known = values(found)
    operands = np.arange(1 << A_BITS + B_BITS)
    a, b = operands & (1 << A_BITS) - 1, operands >> A_BITS
    a, b = (np.where(x >> w - 1, x - (1 << w), x) for x, w in ((a, A_BITS), (b, B_BITS)))
    product = sum(known[bit].astype(np.int64) << place for place, bit in enumerate(ports["o"]))
    assert (product == (a * b) % (1 << A_BITS + B_BITS)).all()
    assert before["LUT4"] - gone + 2 * before["CCU2C"] == MULTIPLIER_LUTS


def test_a_carry_that_nothing_reads_loses_its_net() -> None:
    before = one_half(None, None)
    before["cells"]["next"] = carries(32, 50, (4, 5, "0", 51), ("0", "0", "0", 52))
    before["ports"]["o"]["bits"] = [30, 51]
    open_ends(before)
    assert before["cells"]["chain"]["connections"]["COUT"] == [32]
    assert before["cells"]["next"]["connections"]["COUT"] == ["x"]
