"""A register of its own for each operand of a multiplier that is made of carry chains.

The array of a configuration with more MACs than the part has DSPs multiplies in carry chains. A
bit of an operand is read by one multiplier in several places, and by as many multipliers as the
array has rows or columns, which lie all over the part: 16 lanes had such nets of 150 readers, and
no router found ways for all. With a copy of the flip-flop for each multiplier the nets that cross
the part have one reader a multiplier, and the others stay within it. It is the same bit in every
cycle.
"""

from __future__ import annotations

from collections import defaultdict

from sim.synth.netlist import Bit, Netlist

FLIP_FLOP, CARRY = "TRELLIS_FF", "CCU2C"
LOGIC = ("LUT4", CARRY, "PFUMX", "L6MUX21")

#: Fewer readers of a bit are those of a sum: in a product a bit meets all of the other operand.
LEAST_READERS = 4


def is_plain(netlist: Netlist, name: str) -> bool:
    """A flip-flop without enable and reset, 0 at power-up, on the rising edge."""
    parameters = netlist.cells[name]["parameters"]
    return (
        parameters["CEMUX"].strip() == "1"
        and netlist.pin(name, "LSR", "0") == "0"
        and parameters["REGSET"] == "RESET"
        and parameters["CLKMUX"] == "CLK"
    )


def _pieces(netlist: Netlist) -> dict[str, str]:
    """For each cell of logic the piece that it belongs to: cells that drive each other."""
    above = {name: name for kind in LOGIC for name in netlist.of_type(kind)}

    def top(name: str) -> str:
        while above[name] != name:
            above[name] = name = above[above[name]]
        return name

    for name in above:
        for _, bit in netlist.inputs(name):
            driver, _ = netlist.driver(bit)
            if driver in above:
                above[top(driver)] = top(name)
    return {name: top(name) for name in above}


def _between_registers(netlist: Netlist, name: str, pieces: dict[str, str]) -> bool:
    """Everything that the cell reads and drives is of its piece, or a plain flip-flop."""

    def register(cell: str) -> bool:
        return netlist.is_a(cell, FLIP_FLOP) and is_plain(netlist, cell)

    drivers = (netlist.driver(bit)[0] for _, bit in netlist.inputs(name))
    readers = (reader for bit in netlist.outputs(name) for reader in netlist.readers(bit))
    return all(driver in pieces or register(driver) for driver in drivers) and all(
        cell in pieces or (pin == "DI" and register(cell)) for cell, pin in readers
    )


def copy_operands(netlist: Netlist) -> int:
    """Copy flip-flops, so that no two multipliers of carry chains read one; how many copies."""
    pieces = _pieces(netlist)
    others = {
        piece
        for name, piece in pieces.items()
        if not netlist.is_a(name, CARRY) or not _between_registers(netlist, name, pieces)
    }
    copies = 0
    for flip_flop in netlist.of_type(FLIP_FLOP):
        if not is_plain(netlist, flip_flop):
            continue
        readers: dict[str, list[tuple[str, str]]] = defaultdict(list)
        rest = 0
        for cell, pin in netlist.readers(netlist.pin(flip_flop, "Q")):
            piece = pieces.get(cell)
            if piece is None or piece in others:
                rest += 1
            else:
                readers[piece].append((cell, pin))
        products = [found for found in readers.values() if len(found) >= LEAST_READERS]
        # The flip-flop itself stays with the first, or with whatever else reads it.
        rest += sum(len(found) for found in readers.values() if len(found) < LEAST_READERS)
        for found in products if rest else products[1:]:
            copies += 1
            twin: Bit = netlist.twin(flip_flop, f"{flip_flop}_operand_{copies}", "Q")
            for cell, pin in found:
                netlist.connect(cell, pin, twin)
    return copies
