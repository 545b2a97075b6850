"""The netlist of the attention unit without what its engine has for the encoder alone.

`Rules(encoder=False)` refuses EMBED, NORM, sums and logits, so that the loader gives the sequencer
LINEAR and ATTEND alone, without these flags. Said where the sequencer takes its operations, and
with the two parts that nothing goes through taken out, Yosys removes what it finds constant then,
and what nobody reads, bit by bit. That the rest is the unit as it runs shows in its bench, which is
played on it.
"""

from __future__ import annotations

from rtl.interface.operation import FLAG_NAMES, OPERATION
from sim.mutate.netlist import YosysError, yosys

NEVER = ("residual", "chained", "logits", "shifts")
CELL = "  cell \\attention.engine.sequencer \\sequencer\n"
GIVEN, TOLD = "    connect \\i__payload \\i__payload\n", "    connect \\i__payload {payload}\n"
ABSENT = {"attention.engine.sequencer": "embed", "attention.engine.loader": "norm_writer"}
SMALL = "opt -full -nodffe -nosdff\n"


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
    counted = OPERATION["norm_index"]  # NORMs
    bits[counted.offset : counted.offset + counted.width] = ["1'0"] * counted.width
    told = TOLD.format(payload=f"{{ {' '.join(reversed(bits))} }}")
    tied = before + cell + after.replace(GIVEN, told, 1)
    absent = "".join(
        f"select -assert-count 1 {module}/c:{cell}\ndelete {module}/c:{cell}\n"
        f"setundef -undriven -zero {module}\n"
        for module, cell in ABSENT.items()
    )
    script = (
        f"read_rtlil unit.il\nhierarchy -top attention\n{absent}flatten\n"
        f"{SMALL}wreduce\nsplitcells\n{SMALL}opt_clean -purge\nwrite_rtlil small.il\n"
    )
    return yosys(script, {"unit.il": tied}, "small.il")["small.il"]
