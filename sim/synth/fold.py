"""Registers of a netlist, folded into the DSPs and block RAMs that stand next to them.

An ECP5's multiplier has registers at its inputs and at its output, its block RAM has them at the
outputs of both ports. Yosys 0.70 uses none of them: a product goes out into the fabric, to a
register there. nextpnr places and times both forms. This pass moves a register of the netlist
inside where that changes no bit in any cycle; the RTL knows nothing of it.

A register can go inside when all its flip-flops are plain (no enable, no reset, zero at power-up,
the cell's own clock), and

- at an output: it takes all bits of the product, or of the port's word, that anything reads, and
  nothing else reads them;
- at a multiplier's inputs: both operands come out of flip-flops alone, which take what they get
  straight from other registers. Each multiplier gets a copy, so that logic before them would have
  to reach them all within its cycle. What else reads a flip-flop keeps it.

Where one operand alone comes that way, both stay outside (nextpnr times a multiplier with one
register inside as one with none), and its flip-flops are copied for each multiplier, to lie next
to it.

Enables stay outside since nextpnr writes no REG_OUTPUT_CE into a bitstream; the pipeline register
in the middle of the multiplier is left unused, since nextpnr times it as none. The way from the
input to the output register inside a multiplier, 3.9 ns, is not timed: no clock above 250 MHz may
be believed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sim.synth.netlist import Bit, Netlist

FLIP_FLOP, MULTIPLIER, BLOCK_RAM = "TRELLIS_FF", "MULT18X18D", "DP16KD"
OPERAND_BITS, PRODUCT_BITS, PORT_BITS = 18, 36, 18

#: A multiplier's registers, all on clock, enable and reset number 0.
_INPUTS, _OUTPUT = ("INPUTA", "INPUTB"), ("OUTPUT",)


@dataclass(frozen=True)
class Folded:
    """What a fold has moved.

    Ports of block RAMs and multipliers that have got a register, ``flip_flops`` that have gone
    inside and left nothing outside, ``copies`` that were added, so that no multiplier shares an
    operand's register; ``outside``: how many ports kept theirs, or have none, by the reason.
    """

    block_ram_outputs: int
    dsp_outputs: int
    dsp_inputs: int
    flip_flops: int
    copies: int
    outside: dict[str, int]


class Unfoldable(Exception):
    """Why a register stays outside."""


def _registered(netlist: Netlist, bit: Bit) -> bool:
    """The net does not come out of logic."""
    name, pin = netlist.driver(bit)
    if not name:
        return True
    kind, parameters = netlist.cells[name]["type"], netlist.cells[name]["parameters"]
    return (
        kind == FLIP_FLOP
        or (kind == MULTIPLIER and "REG_OUTPUT_CLK" in parameters)
        or (kind == BLOCK_RAM and parameters.get(f"REGMODE_{pin[2]}") == "OUTREG")
    )


def _clock_of(netlist: Netlist, flip_flops: Iterable[str]) -> Bit:
    """The clock of plain flip-flops; Unfoldable where one is not plain or has another."""
    clocks = set()
    for name in flip_flops:
        parameters = netlist.cells[name]["parameters"]
        if parameters["CEMUX"].strip() != "1":
            raise Unfoldable("clock enable")
        if netlist.pin(name, "LSR", "0") != "0":
            raise Unfoldable("reset")
        if parameters["REGSET"] != "RESET":
            raise Unfoldable("one at power-up")
        if parameters["CLKMUX"] != "CLK":
            raise Unfoldable("falling edge")
        clocks.add(netlist.pin(name, "CLK"))
    if len(clocks) != 1:
        raise Unfoldable("no register" if not clocks else "several clocks")
    return clocks.pop()


def _register_behind(netlist: Netlist, name: str, pins: Iterable[str]) -> dict[str, str]:
    """The flip-flop behind each pin that anything reads, where it is the pin's one reader."""
    found = {}
    for pin in pins:
        readers = netlist.readers(netlist.pin(name, pin))
        if not readers:
            continue
        (reader, at), *others = readers
        if others or at != "DI" or netlist.cells[reader]["type"] != FLIP_FLOP:
            raise Unfoldable("no register alone behind it")
        found[pin] = reader
    return found


def _take_out(netlist: Netlist, name: str, registers: dict[str, str]) -> None:
    """Each pin drives what its flip-flop drove."""
    for pin, flip_flop in registers.items():
        q = netlist.pin(flip_flop, "Q")
        netlist.remove(flip_flop)
        netlist.connect(name, pin, q, "output")


def _clocked(netlist: Netlist, name: str, clock: Bit, registers: Iterable[str]) -> None:
    for pin, bit in (("CLK0", clock), ("CE0", "1"), ("RST0", "0")):
        netlist.connect(name, pin, bit)
    for register in registers:
        for control in ("CLK", "CE", "RST"):
            netlist.cells[name]["parameters"][f"REG_{register}_{control}"] = f"{control}0"


def _block_ram_port(netlist: Netlist, name: str, sides: str) -> None:
    """The output register of a port; a word of 36 bits takes the output pins of both, on CLKB."""
    if any(netlist.cells[name]["parameters"].get(f"REGMODE_{s}") == "OUTREG" for s in sides):
        raise Unfoldable("a register inside already")
    pins = [f"DO{side}{bit}" for side in sides for bit in range(PORT_BITS)]
    registers = _register_behind(netlist, name, pins)
    if _clock_of(netlist, registers.values()) != netlist.pin(name, f"CLK{sides[-1]}"):
        raise Unfoldable("another clock than the port's")
    for side in sides:
        netlist.cells[name]["parameters"][f"REGMODE_{side}"] = "OUTREG"
        netlist.connect(name, f"OCE{side}", "1")
    _take_out(netlist, name, registers)


def _product(netlist: Netlist, name: str) -> None:
    if "REG_OUTPUT_CLK" in netlist.cells[name]["parameters"]:
        raise Unfoldable("a register inside already")
    registers = _register_behind(netlist, name, [f"P{bit}" for bit in range(PRODUCT_BITS)])
    clock = _clock_of(netlist, registers.values())
    _clocked(netlist, name, clock, _OUTPUT)
    _take_out(netlist, name, registers)


def _operand(netlist: Netlist, name: str, side: str) -> dict[str, str]:
    """The flip-flop before each pin of an operand that is not constant 0."""
    found = {}
    for pin in (f"{side}{bit}" for bit in range(OPERAND_BITS)):
        bit = netlist.pin(name, pin)
        if bit in ("0", "x"):
            continue
        driver, _ = netlist.driver(bit)
        if not driver or netlist.cells[driver]["type"] != FLIP_FLOP:
            raise Unfoldable("an operand out of no register")
        if not _registered(netlist, netlist.pin(driver, "DI")):
            raise Unfoldable("logic before the register")
        found[pin] = driver
    return found


def _operands(netlist: Netlist, name: str) -> dict[str, str]:
    """The flip-flops before both operands."""
    if "REG_INPUTA_CLK" in netlist.cells[name]["parameters"]:
        raise Unfoldable("registers inside already")
    found = _operand(netlist, name, "A") | _operand(netlist, name, "B")
    clock, output = _clock_of(netlist, found.values()), netlist.pin(name, "CLK0")
    if output not in ("x", clock):
        raise Unfoldable("another clock than the product's")
    return found


def _share(netlist: Netlist, multipliers: Iterable[str]) -> int:
    """A register of its own for each multiplier that has one operand's with others; how many."""
    shared: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in multipliers:
        for side in "AB":
            try:
                registers = _operand(netlist, name, side)
                _clock_of(netlist, registers.values())
            except Unfoldable:
                continue
            for pin, flip_flop in registers.items():
                shared[flip_flop].append((name, pin))
    copies = 0
    for flip_flop, (_, *others) in shared.items():
        for name, pin in others:
            copies += 1
            twin = netlist.twin(flip_flop, f"{flip_flop}_copy_{copies}", "Q")
            netlist.connect(name, pin, twin)
    return copies


def fold(module: dict[str, Any]) -> Folded:
    """Fold the registers of a flat module, a value of "modules" in Yosys' JSON, in place."""
    netlist = Netlist(module)
    before = len(netlist.of_type(FLIP_FLOP))
    inside, outside = Counter[str](), Counter[str]()

    def tried(what: str, step: Callable[..., Any], *at: str) -> Any:
        try:
            found = step(netlist, *at)
        except Unfoldable as reason:
            outside[f"{what}: {reason}"] += 1
            return None
        inside[what] += 1
        return found

    for name in netlist.of_type(BLOCK_RAM):
        wide = int(netlist.cells[name]["parameters"]["DATA_WIDTH_A"], 2) == 2 * PORT_BITS
        for sides in ("AB",) if wide else ("A", "B"):
            tried("block RAM output", _block_ram_port, name, sides)
    multipliers = netlist.of_type(MULTIPLIER)
    for name in multipliers:
        tried("DSP output", _product, name)
    found = {name: tried("DSP inputs", _operands, name) for name in multipliers}
    operands: dict[str, dict[str, str]] = {name: x for name, x in found.items() if x is not None}
    flip_flops = {flip_flop for registers in operands.values() for flip_flop in registers.values()}
    for name, registers in operands.items():
        _clocked(netlist, name, _clock_of(netlist, registers.values()), _INPUTS)
        for pin, flip_flop in registers.items():
            netlist.connect(name, pin, netlist.pin(flip_flop, "DI"))
    copies = _share(netlist, (name for name in multipliers if name not in operands))
    for name in flip_flops:
        if not netlist.readers(netlist.pin(name, "Q")):
            netlist.remove(name)
    return Folded(
        block_ram_outputs=inside["block RAM output"],
        dsp_outputs=inside["DSP output"],
        dsp_inputs=len(operands),
        flip_flops=before + copies - len(netlist.of_type(FLIP_FLOP)),
        copies=copies,
        outside=dict(sorted(outside.items())),
    )
