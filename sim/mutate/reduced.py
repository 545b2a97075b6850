"""The netlist of the attention unit without what its engine has for the encoder alone.

`Rules(encoder=False)` refuses EMBED, NORM, sums and logits, so that the loader gives the sequencer
LINEAR and ATTEND alone, without these flags. Said where the sequencer takes its operations and
tells them by their opcodes, Yosys removes what it finds constant then, and what nobody reads. That
the rest is the unit as it runs shows in its bench, which is played on it; what the loader makes of
a refused descriptor stays, and has mutants.
"""

from __future__ import annotations

import re

from rtl.interface.command import Opcode
from rtl.interface.operation import FLAG_NAMES, OPERATION
from sim.mutate.netlist import YosysError, yosys

NEVER = ("residual", "chained", "logits", "shifts")
CELL = "  cell \\attention.engine.sequencer \\sequencer\n"
GIVEN, TOLD = "    connect \\i__payload \\i__payload\n", "    connect \\i__payload {payload}\n"
MODULE = re.compile(r"^module \\attention\.engine\.sequencer\n.*?^end\n", re.MULTILINE | re.DOTALL)
IS_EMBED = re.compile(rf"    connect \\A \S+ \[7:0\]\n(?=    connect \\B 3'{Opcode.EMBED:b}\n)")


def without_encoder(text: str) -> str:
    """The RTLIL of attention, flat.

    Raises
    ------
    YosysError
        The sequencer is not as this module expects it, or Yosys failed.
    """
    before, cell, after = text.partition(CELL)
    if GIVEN not in after:
        raise YosysError("the netlist of attention has no sequencer with the port i__payload")
    bits = [f"\\i__payload [{bit}]" for bit in range(OPERATION.size)]
    bits[3:8] = ["1'0"] * 5
    for place, name in enumerate(FLAG_NAMES):
        if name in NEVER:
            bits[OPERATION["flags"].offset + place] = "1'0"
    told = TOLD.format(payload=f"{{ {' '.join(reversed(bits))} }}")
    tied = before + cell + after.replace(GIVEN, told, 1)
    sequencer = MODULE.search(tied)
    never, found = IS_EMBED.subn("    connect \\\\A 8'0\n", sequencer[0]) if sequencer else ("", 0)
    if sequencer is None or not found:
        raise YosysError("the sequencer of attention nowhere asks for an EMBED")
    tied = tied[: sequencer.start()] + never + tied[sequencer.end() :]
    script = (
        "read_rtlil unit.il\nhierarchy -top attention\nflatten\n"
        "opt -full -nodffe -nosdff\nwreduce\nopt_clean -purge\nwrite_rtlil small.il\n"
    )
    return yosys(script, {"unit.il": tied}, "small.il")["small.il"]
