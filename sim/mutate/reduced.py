"""The netlist of the attention unit without what its engine has for the encoder alone.

`Rules(encoder=False)` refuses EMBED, NORM, sums and logits, so that the loader gives the sequencer
LINEAR and ATTEND alone, without these flags. Said at the sequencer's port, Yosys removes what it
finds constant then, and what nobody reads. That the rest is the unit as it runs shows in its bench,
which is played on it; what the loader makes of a refused descriptor stays, and has mutants.
"""

from __future__ import annotations

from rtl.interface.command import Opcode
from rtl.interface.operation import FLAG_NAMES, OPERATION
from sim.mutate.netlist import YosysError, yosys

NEVER = ("residual", "chained", "logits", "shifts")
CELL = "  cell \\attention.engine.sequencer \\sequencer\n"
GIVEN, TOLD = "    connect \\i__payload \\i__payload\n", "    connect \\i__payload {payload}\n"
NOT = """\
  wire \\is_attend
  cell $not \\of_linear
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\i__payload [0]
    connect \\Y \\is_attend
  end
"""


def without_encoder(text: str) -> str:
    """The RTLIL of attention, flat, with registers whose enables and resets are multiplexers.

    Raises
    ------
    YosysError
        The sequencer is not where this module looks for it, or Yosys failed.
    """
    before, cell, after = text.partition(CELL)
    if GIVEN not in after:
        raise YosysError("the netlist of attention has no sequencer with the port i__payload")
    # LINEAR is 101, ATTEND 110.
    assert {Opcode.LINEAR, Opcode.ATTEND} == {5, 6}
    width, first = OPERATION.size, OPERATION["flags"].offset
    bits = [f"\\i__payload [{bit}]" for bit in range(width)]
    bits[:8] = [bits[0], "\\is_attend", "1'1", *["1'0"] * 5]
    for place, name in enumerate(FLAG_NAMES):
        if name in NEVER:
            bits[first + place] = "1'0"
    told = TOLD.format(payload=f"{{ {' '.join(reversed(bits))} }}")
    tied = before + NOT + cell + after.replace(GIVEN, told, 1)
    script = (
        "read_rtlil unit.il\nhierarchy -top attention\ndffunmap\nflatten\n"
        "opt -full -nodffe -nosdff\nopt_clean -purge\nwrite_rtlil small.il\n"
    )
    return yosys(script, {"unit.il": tied}, "small.il")["small.il"]
