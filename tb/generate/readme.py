"""The README of a bench."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from rtl.generate.sheet import chosen
from tb.generate.machines import MEMORY_LATENCY

TEXT = """\
# {top}

A self-checking bench of `{module}` (bert2rtl, unit {unit}) in plain SystemVerilog (IEEE 1800-2012):
no Python, no vendor's library. The files of `bench.f` and `vectors/` are all that it needs, and may
be moved together.

    ./run_icarus.sh            # Icarus Verilog 11 or newer
    ./run_verilator.sh         # Verilator 5.036 or newer, --binary

Each ends with 0 when the bench says `PASS: N values compared`, and with another code after any
difference, when the unit hangs, or when nothing was compared. `WORK=DIR` names another folder for
what is built, `VERILATOR=NAME` and the like another program: the head of each script says more.

Elsewhere: compile the files of `bench.f` as SystemVerilog and run `{top}` in this folder. By their
manuals, and not run so far:

    vlog -sv -timescale 1ns/1ps -f bench.f && vsim -c -onfinish exit -do "run -all" {top}
    vcs -full64 -sverilog -timescale=1ns/1ps -top {top} -f bench.f && ./simv
    xrun -64bit -sv -timescale 1ns/1ps -top {top} -f bench.f
    xvlog --sv -f bench.f && xelab --timescale 1ns/1ps -s {top} {top} && xsim {top} --runall

Some end with 0 after `$fatal`: look for `PASS:`.

| what | where |
| --- | --- |
| the unit | {verilog} |
| the bench{parts} |
| stimuli and golden words for `$readmemh` | `vectors/*.mem` |
{example}
Configuration: {configuration}.

Played, in this order, and held to the integer golden model, bit for bit:

{played}

{surroundings}

## A difference

The first value that differs ends the run:

{difference}
Cycle c begins at 10 c units of time, which are nanoseconds in these scripts. Unknown bits (X) are
differences.
"""

PARTS = ", and the parts that it consists of | `bench/{top}.sv`, `bench/parts.sv`"

EXAMPLE = """\
| a small bench in plain Verilog, to be read and copied: one inference | `example/` |

    cd example && iverilog -g2001 -o example.vvp -y ../{verilog} example.v && vvp example.vvp
"""

STREAMS = """\
{pauses} at random with `--stalls SEED` (for the simulator `+stalls=SEED`);
0 is never, and {stalls} holds where it is not given. Compared are {compared}, word by word,
and the register `cycles` with the clock cycles that the bench counts.
{memory}
Verilator simulates in seconds after a minute of compiling. Icarus starts at once, but simulates
only hundreds of cycles a second at 8 lanes, and a whole model takes hundreds of thousands for a
long text: `--tokens` and a short `--review` of `python -m tb.generate` make the bench shorter."""

MEMORY = """
Command streams and embedding rows lie in `vectors/memory.mem`; the bench makes an AXI4 memory of
it, with several reads under way and beats {latency} cycles after their address. Failures are a
burst that breaks a rule of AXI4, a read of anything else, and a beat that comes after the end of
its inference. Addresses, sizes and tokens (`vectors/jobs.mem`, `vectors/tokens.mem`) are written
by AXI4-Lite.
"""
PINS = """\
The unit has no streams: `vectors/pins.mem` holds cycle by cycle what the project's cocotb bench has
given its inputs, and what it has read of its outputs while it held them to golden."""

PINS_DIFFERENCE = """\
    o[lane 2] in cycle 51 is -1205, not -1204

with the port, the lane of its word, the clock cycle, the value and the one that was recorded."""

STREAMS_DIFFERENCE = """\
    layer.0.p[lane 2, write 87, head 0, query 10, key 7] in cycle 5121 is 219, golden says 220

with the tensor's name in the golden trace, the lane of the word, the number of the write to that
tensor, the index in the tensor, the clock cycle and both values. A word too many, too few or at the
wrong address is a difference as well."""


def text(top: str, module: str, facts: Mapping[str, Any], rtl: Sequence[str]) -> str:
    """README.md of a bench whose unit is the files `rtl`."""
    bus, memory, example = facts["bus"], "", ""
    if facts["streams"]:
        if bus is not None:
            memory = MEMORY.format(latency=MEMORY_LATENCY)
        surroundings = STREAMS.format(
            pauses="Every stream pauses and refuses" if bus is None else "The memory pauses",
            stalls=facts["stalls"] or 0,
            compared="every trace port and the logits" if facts["traced"] else "the logits",
            memory=memory,
        )
    else:
        surroundings = PINS
    if facts["streams"] and bus is None:
        example = EXAMPLE.format(verilog=posixpath.dirname(rtl[0]))
    settings = chosen(facts["config"], bus)
    return TEXT.format(
        top=top,
        module=module,
        unit=facts["unit"],
        parts=PARTS.format(top=top) if facts["streams"] else f" | `bench/{top}.sv`",
        verilog=f"`{rtl[0]}`" + (", its parts beside it" if len(rtl) > 1 else ""),
        configuration=", ".join(f"{key} {value}" for key, value in settings.items()),
        played="\n".join(f"- {name}" for name in facts["inferences"]),
        surroundings=surroundings,
        difference=STREAMS_DIFFERENCE if facts["streams"] else PINS_DIFFERENCE,
        example=example,
    )
