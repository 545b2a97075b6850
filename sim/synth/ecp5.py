"""The ECP5 flow: Yosys for the counts, nextpnr for the frequency, between two shift registers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.files import locked, write_if_changed, write_json
from cli.machine import GENERATED
from cli.progress import stage

from sim.design import Design
from sim.estimate import fits
from sim.synth import passes, tools
from sim.synth.fold import FLIP_FLOP, Folded
from sim.synth.place import PART, Timing, place_and_route
from sim.synth.tools import SynthesisError, run_yosys

FOLDER = GENERATED / "synth"

ROWS = ("LUT4", "FF", "DSP", "block RAM")

#: Yosys cells -> (row of the table, how many of it one cell takes).
CELLS = {
    "LUT4": ("LUT4", 1),
    "CCU2C": ("LUT4", 2),  # two bits of a carry chain, each in the place of a LUT
    "TRELLIS_DPR16X4": ("LUT4", 4),  # 16 words of 4 bits of distributed RAM
    "TRELLIS_FF": ("FF", 1),
    "MULT18X18D": ("DSP", 1),
    "DP16KD": ("block RAM", 1),
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Figures of one synthesis.

    ``resources`` count all registers as FF, and as LUT4 all LUTs but the ``absorbed`` ones, which
    went into carry chains. ``unended`` are the seeds whose placement took too long.
    """

    unit: str
    configuration: dict[str, object]
    resources: dict[str, int]
    absorbed: int
    folded: Folded
    timings: list[Timing]
    unended: list[int]
    seconds: float

    @property
    def median(self) -> Timing | None:
        """Of the placement in the middle, the slower one of two: what a placement may give.

        One that did not end counts as the slowest; None where it would be in the middle.
        """
        ordered = sorted(self.timings, key=lambda timing: timing.fmax_mhz)
        middle = (len(ordered) + len(self.unended) - 1) // 2 - len(self.unended)
        return ordered[middle] if ordered and middle >= 0 else None

    @property
    def worst(self) -> Timing | None:
        """None where one did not end, or nothing was placed."""
        if self.unended:
            return None
        return min(self.timings, key=lambda timing: timing.fmax_mhz, default=None)


def wrapper(design: Design) -> str:
    """Verilog of `wrapped`: the unit with all inputs from one shift register, all outputs into one.

    Pins: clk, data_in, capture, data_out. Inputs of the unit, reset among them, are the bits of a
    shift register; on `capture` its outputs are copied into another one, which then shifts out.
    Trace ports are for benches: they stay open, as in a design that uses the unit.
    """
    connections, used = [".clk(clk)"], {"operands": 0, "outputs": 0}
    for name, port in design.ports.items():
        word = "operands" if port.is_input else "outputs"
        if name != "clk" and (port.is_input or not name.startswith("trace_")):
            connections.append(f".{name}({word}[{used[word]} +: {port.width}])")
            used[word] += port.width
    joined, total_in, total_out = ",\n    ".join(connections), *used.values()
    return f"""\
module wrapped(input clk, input data_in, input capture, output data_out);
  reg [{total_in}:0] operands;
  reg [{total_out - 1}:0] results;
  reg captured;
  wire [{total_out - 1}:0] outputs;
  always @(posedge clk) begin
    operands <= {{operands, data_in}};
    captured <= capture;
    results <= captured ? outputs : results >> 1;
  end
  assign data_out = results[0];
  {design.name} unit (
    {joined}
  );
endmodule
"""


def _count(cells: Mapping[str, int]) -> dict[str, int]:
    """Table rows of Yosys's cell counts."""
    counts = dict.fromkeys(ROWS, 0)
    for cell, number in cells.items():
        if cell in CELLS:
            row, each = CELLS[cell]
            counts[row] += number * each
    return counts


def _synthesise(design: Design, folder: Path) -> dict[str, object]:
    """Of `Cost` what is of the unit alone; logic is optimised across the parts."""
    name = design.name
    run_yosys(f"read_verilog {name}.v", name, f"write_json {name}.json", folder)
    module = json.loads((folder / f"{name}.json").read_text())["modules"][name]
    registers = {cell: x for cell, x in module["cells"].items() if x["type"] == FLIP_FLOP}
    luts, folded = passes.improve(module)
    cells = module["cells"] | registers  # also those that have been moved
    return {
        "resources": _count(Counter(cell["type"] for cell in cells.values())),
        "absorbed": luts,
        "folded": dataclasses.asdict(folded),
    }


def _check_room(name: str, used: Mapping[str, int], part: str) -> None:
    """SynthesisError where the part has less than the unit takes: nextpnr would try for hours."""
    known = fits.PARTS[part].resources
    there = known | {"LUT4": known["LUT"]}
    for resource, number in used.items():
        if number > there[resource]:
            hint = ", --dsp-macs for products in LUTs" if resource == "DSP" else ""
            raise SynthesisError(
                f"{name} takes {number:,} {resource}, and {part} has {there[resource]:,}: choose a "
                f"larger --part or a smaller configuration{hint}; --no-route counts resources alone"
            )


def synthesise(
    design: Design,
    *,
    route: bool = True,
    seeds: Sequence[int] = (1,),
    part: str = PART,
    **placing: Any,
) -> Cost:
    """Resources of `design` and, with `route`, its timing.

    The synthesis of a design is done once, and each placement of it; several commands can place one
    design at once, each with seeds of its own. SynthesisError where a tool refused the design, or
    it does not fit the part.

    Fmax moves by some 10 % from one of the placer's `seeds` to the next; the median counts. `part`
    and `placing` are as `place_and_route` takes them; what is counted does not depend on them.
    """
    folder = FOLDER / f"{design.name}-{design.configuration}"
    sources = (Path(__file__), Path(tools.__file__), *passes.SOURCES)
    facts = [design.verilog, *(source.read_text() for source in sources)]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    counted, netlist = folder / f"{key}.json", folder / f"{key}-wrapped.json"
    with locked(folder / "lock"):
        write_if_changed(folder / f"{design.name}.v", design.verilog)
        if not counted.exists():
            stage(f"synthesis of {design.name}")
            start = time.monotonic()
            found = _synthesise(design, folder)
            write_json(counted, found | {"seconds": round(time.monotonic() - start, 1)})
        known = json.loads(counted.read_text())
        if route:
            _check_room(design.name, known["resources"], part)
        if route and not netlist.exists():
            stage(f"synthesis of {design.name} between two shift registers")
            (folder / "wrapped.v").write_text(wrapper(design))
            read = f"read_verilog wrapped.v {design.name}.v"
            run_yosys(read, "wrapped", "write_json wrapped.json", folder)
            passes.improve_file(folder / "wrapped.json", "wrapped", placed=True)
            (folder / "wrapped.json").rename(netlist)
    placed = {
        seed: place_and_route(netlist, seed=seed, part=part, **placing)
        for seed in (seeds if route else ())
    }
    return Cost(
        unit=design.name,
        configuration=json.loads(design.sheet)["configuration"],
        timings=[timing for timing in placed.values() if timing is not None],
        unended=[seed for seed, timing in placed.items() if timing is None],
        **known | {"folded": Folded(**known["folded"])},
    )
