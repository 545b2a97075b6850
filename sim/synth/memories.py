"""Memories of a netlist, taken out of it: what a chip has as macros, which no cell library holds.

A memory that is read by a clock becomes an instance of a module of its size, whose cells nobody
knows: a compiled RAM or ROM takes its place. One that is read in the cycle of its address is small:
it becomes a module that is synthesised beside the others, of flip-flops.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import gcd
from typing import Any

_UNITS = (
    '  time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1uA"; leakage_power_unit : "1nW";',
    '  pulling_resistance_unit : "1kohm"; capacitive_load_unit (1, pf);',
    *(
        f"  {kind}_{edge} : {value};"
        for kind, value in (
            ("slew_lower_threshold_pct", 20),
            ("slew_upper_threshold_pct", 80),
            ("input_threshold_pct", 50),
            ("output_threshold_pct", 50),
        )
        for edge in ("rise", "fall")
    ),
    "  nom_process : 1; nom_voltage : 1.8; nom_temperature : 25;",
)
_SETUP = " ".join(f'{edge}_constraint(scalar) {{ values("0.2"); }}' for edge in ("rise", "fall"))
_INPUT = f'timing() {{ related_pin : "clk"; timing_type : setup_rising; {_SETUP} }}'
_WORD = " ".join(
    f'{table}(scalar) {{ values("0"); }}'
    for table in ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
)
_OUTPUT = f'timing() {{ related_pin : "clk"; timing_type : rising_edge; {_WORD} }}'

KINDS = ("RAM", "ROM", "register file")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A kind of memory in a netlist.

    Attributes
    ----------
    module
        Its name as a module.
    kind
        Of KINDS.
    words, bits
        Its size; bits a word.
    reads, writes
        Ports.
    lanes
        Parts of a word that are written apart.
    contents
        The words of a ROM; empty for the others.
    """

    module: str
    kind: str
    words: int
    bits: int
    reads: int
    writes: int
    lanes: int
    contents: tuple[int, ...]

    @property
    def ports(self) -> dict[str, tuple[str, int]]:
        """Direction and width by name."""
        address = max((self.words - 1).bit_length(), 1)
        found = {"clk": ("input", 1)}
        for port in range(self.reads):
            found |= {
                f"r{port}_en": ("input", 1),
                f"r{port}_address": ("input", address),
                f"r{port}_data": ("output", self.bits),
            }
        for port in range(self.writes):
            found |= {
                f"w{port}_en": ("input", self.lanes),
                f"w{port}_address": ("input", address),
                f"w{port}_data": ("input", self.bits),
            }
        return found

    def _head(self) -> str:
        ports = [f"{way} [{width - 1}:0] {name}" for name, (way, width) in self.ports.items()]
        return f"module {self.module}({', '.join(ports)});\n"

    def box(self) -> str:
        """Verilog of the module without what is in it."""
        return f"(* blackbox *)\n{self._head()}endmodule\n"

    def model(self, seed: int = 0) -> str:
        """Verilog of its behaviour.

        A RAM holds what the seed decides until it is written. A word that is read while it is
        written comes complemented, since no unit may use it.
        """
        lines = [f"  reg [{self.bits - 1}:0] words [0:{self.words - 1}];"]
        if self.kind == "ROM":
            lines += ["  initial begin"]
            lines += [f"    words[{i}] = {self.bits}'h{w:x};" for i, w in enumerate(self.contents)]
            lines += ["  end"]
        elif self.kind == "RAM":
            state = int(hashlib.sha256(f"{self.module} {seed}".encode()).hexdigest()[:8], 16)
            lines += [
                f"  integer i; reg [31:0] state = 32'd{state};",
                f"  initial for (i = 0; i < {self.words}; i = i + 1) begin",
                "    state = state * 32'd1664525 + 32'd1013904223;",
                f"    words[i] = {{{-(-self.bits // 32)}{{state}}}};",
                "  end",
            ]
        for port in range(self.reads):
            word = f"words[r{port}_address]"
            if self.kind == "register file":
                lines.append(f"  assign r{port}_data = {word};")
                continue
            same = [f"(|w{w}_en && w{w}_address == r{port}_address)" for w in range(self.writes)]
            clash = f"{' || '.join(same)} ? ~{word} : " if same else ""
            lines += [
                f"  reg [{self.bits - 1}:0] data{port};",
                f"  always @(posedge clk) if (r{port}_en) data{port} <= {clash}{word};",
                f"  assign r{port}_data = data{port};",
            ]
        width = self.bits // self.lanes
        for port in range(self.writes):
            lines.append("  always @(posedge clk) begin")
            for lane in range(self.lanes):
                part = f"[{lane * width} +: {width}]"
                lines.append(
                    f"    if (w{port}_en[{lane}]) words[w{port}_address]{part} <= "
                    f"w{port}_data{part};"
                )
            lines.append("  end")
        return "\n".join([self._head().rstrip(), *lines, "endmodule\n"])


def liberty(memories: Iterable[Memory]) -> str:
    """A library of memories for timing: inputs are set up like a flip-flop's, words come at once.

    Behind each word is a register (`rtl.primitives.memory`), so that how long a memory takes for
    it matters to no other path.
    """
    listed = sorted(memories, key=lambda memory: memory.module)
    widths = sorted({width for memory in listed for _, width in memory.ports.values()})
    lines = ["library(memories) {", "  delay_model : table_lookup;", *_UNITS]
    lines += [
        f"  type (word{width}) {{ base_type : array; data_type : bit; bit_width : {width}; "
        f"bit_from : {width - 1}; bit_to : 0; }}"
        for width in widths
    ]
    for memory in listed:
        lines.append(f"  cell ({memory.module}) {{ area : 0;")
        for name, (way, width) in memory.ports.items():
            if name == "clk":
                lines.append("    pin(clk) { direction : input; clock : true; capacitance : 0; }")
                continue
            group = f"bus({name}) {{ bus_type : word{width};"
            timing = _OUTPUT if way == "output" else _INPUT
            lines.append(f"    {group} direction : {way}; capacitance : 0.01; {timing} }}")
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def take_out(design: Mapping[str, Any]) -> dict[str, Memory]:
    """Replace each memory in Yosys' JSON of a design by an instance, in place.

    Returns
    -------
    dict
        By the path of the module and the cell, "module.cell".
    """
    found = {}
    for name, module in design["modules"].items():
        for cell_name, cell in module["cells"].items():
            if cell["type"] == "$mem_v2":
                found[f"{name}.{cell_name}"] = memory = _memory(cell)
                module["cells"][cell_name] = _instance(cell, memory)
    return found


def _number(cell: Mapping[str, Any], parameter: str) -> int:
    return int(cell["parameters"][parameter].replace("x", "0"), 2)


def _memory(cell: Mapping[str, Any]) -> Memory:
    words, bits = _number(cell, "SIZE"), _number(cell, "WIDTH")
    reads, writes = _number(cell, "RD_PORTS"), _number(cell, "WR_PORTS")
    clocked = _number(cell, "RD_CLK_ENABLE")
    assert clocked in (0, (1 << reads) - 1), "a memory is read by a clock, or without one"
    assert _number(cell, "OFFSET") == 0
    contents: tuple[int, ...] = ()
    if writes == 0:
        init = _number(cell, "INIT")
        contents = tuple(init >> bits * word & (1 << bits) - 1 for word in range(words))
    kind = "ROM" if writes == 0 else "RAM" if clocked else "register file"
    enables = [cell["connections"]["WR_EN"][bits * w : bits * (w + 1)] for w in range(writes)]
    runs = [len(list(run)) for each in enables for _, run in groupby(each)]
    lanes = bits // gcd(bits, *runs)
    name = f"bert2rtl_{kind.lower().replace(' ', '_')}_{words}x{bits}_{reads}r{writes}w"
    if lanes > 1:
        name += f"_{lanes}"
    if contents:
        name += "_" + hashlib.sha256(str(contents).encode()).hexdigest()[:8]
    return Memory(
        module=name,
        kind=kind,
        words=words,
        bits=bits,
        reads=reads,
        writes=writes,
        lanes=lanes,
        contents=contents,
    )


def _instance(cell: Mapping[str, Any], memory: Memory) -> dict[str, Any]:
    """The cell of a memory in the place of Yosys' own."""
    old, bits = cell["connections"], memory.bits
    clocks = {bit for pin in ("RD_CLK", "WR_CLK") for bit in old[pin] if not isinstance(bit, str)}
    (clock,) = clocks
    address = _number(cell, "ABITS")
    wanted = memory.ports
    connections: dict[str, list[Any]] = {"clk": [clock]}

    def part(pin: str, port: int, width: int) -> list[Any]:
        return list(old[pin][port * width : (port + 1) * width])

    for port in range(memory.reads):
        connections[f"r{port}_en"] = part("RD_EN", port, 1)
        width = wanted[f"r{port}_address"][1]
        connections[f"r{port}_address"] = [*part("RD_ADDR", port, address), "0"][:width]
        connections[f"r{port}_data"] = part("RD_DATA", port, bits)
    for port in range(memory.writes):
        enables = part("WR_EN", port, bits)
        step = bits // memory.lanes
        connections[f"w{port}_en"] = [enables[lane * step] for lane in range(memory.lanes)]
        width = wanted[f"w{port}_address"][1]
        connections[f"w{port}_address"] = [*part("WR_ADDR", port, address), "0"][:width]
        connections[f"w{port}_data"] = part("WR_DATA", port, bits)
    return {
        "hide_name": cell["hide_name"],
        "type": memory.module,
        "parameters": {},
        "attributes": cell["attributes"],
        "port_directions": {name: way for name, (way, _) in wanted.items()},
        "connections": connections,
    }
