"""The netlist of the attention unit without what its engine has for the encoder alone.

`Rules(encoder=False)` refuses EMBED, NORM, sums and logits, so that the loader gives the sequencer
LINEAR and ATTEND alone, without the flags `never`; no NORM is counted or awaited, no first tokens
are gathered. Said at the ports where it comes in, and with the two parts that nothing goes through
taken out, Yosys removes what it finds constant then, and what nobody reads, bit by bit. That the
rest is the unit as it runs shows in its bench, which is played on it.
"""

from __future__ import annotations

import re

from rtl.control.rules import allowed_flags
from rtl.interface.command import Opcode, flags_byte
from rtl.interface.config import Config
from rtl.interface.operation import FLAG_NAMES, OPERATION
from verify.mutate.netlist import YosysError, yosys

SEQUENCER, ISSUER = "attention.engine.sequencer", "attention.engine.issuer"
ABSENT = {SEQUENCER: "embed", "attention.engine.loader": "norm_writer"}
SMALL = "opt -full -nodffe -nosdff\n"


def _told(text: str, part: str, port: str, bits: list[str] | str) -> str:
    """The RTLIL with bits, lowest first, at an input of a part; or each of them the one."""
    name = part.rpartition(".")[2]
    before, cell, after = text.partition(f"  cell \\{part} \\{name}\n")
    given = f"    connect \\{port} \\{port}\n"
    module = re.search(rf"^module \\{re.escape(part)}\n.*?^end\n", text, re.MULTILINE | re.DOTALL)
    wire = module and re.search(rf"^  wire (?:width (\d+) )?input \d+ \\{port}$", module[0], re.M)
    if given not in after or not wire:
        raise YosysError(f"the netlist of attention has no {name} with the port {port}")
    found = [bits] * int(wire[1] or 1) if isinstance(bits, str) else bits
    told = f"    connect \\{port} {{ {' '.join(reversed(found))} }}\n"
    return before + cell + after.replace(given, told, 1)


def never(config: Config) -> set[str]:
    """The flags that neither LINEAR nor ATTEND may have, by the names of the encoder's."""
    allowed = allowed_flags(config, encoder=False)
    known = flags_byte(allowed[Opcode.LINEAR]) | flags_byte(allowed[Opcode.ATTEND])
    return {name for place, name in enumerate(FLAG_NAMES) if not known >> place & 1}


def without_encoder(text: str, config: Config) -> str:
    """The RTLIL of attention, of what hardware of this configuration takes, flat.

    Raises
    ------
    YosysError
        The netlist is not as this module expects it, or Yosys failed.
    """
    bits = [f"\\i__payload [{bit}]" for bit in range(OPERATION.size)]
    bits[3:8] = ["1'0"] * 5
    absent = never(config)
    for place, name in enumerate(FLAG_NAMES):
        if name in absent:
            bits[OPERATION["flags"].offset + place] = "1'0"
    norms = OPERATION["norm_index"]
    bits[norms.offset : norms.offset + norms.width] = ["1'0"] * norms.width
    text = _told(text, SEQUENCER, "i__payload", bits)
    text = _told(text, SEQUENCER, "batch__gathered", "1'0")
    text = _told(text, ISSUER, "normalised", "1'1")
    removed = "".join(
        f"select -assert-count 1 {module}/c:{cell}\ndelete {module}/c:{cell}\n"
        f"setundef -undriven -zero {module}\n"
        for module, cell in ABSENT.items()
    )
    script = (
        f"read_rtlil unit.il\nhierarchy -top attention\n{removed}flatten\n"
        f"{SMALL}wreduce\nsplitcells\n{SMALL}opt_clean -purge\nwrite_rtlil small.il\n"
    )
    return yosys(script, {"unit.il": text}, "small.il")["small.il"]
