"""The trace ports of an accelerator and the causes of stalls, in one list."""

from __future__ import annotations

from rtl.interface.trace import Stall, sum_bits

#: Causes of a cycle without an operand, in the order of their registers.
CAUSES = tuple(cause.name.lower() for cause in Stall if cause is not Stall.NONE)

#: Enable, address port (None: there is none) and names of what is written: `trace_NAME` holds it.
TRACE_PORTS: tuple[tuple[str, str | None, tuple[str, ...]], ...] = (
    ("trace_bank_en", "trace_bank_address", ("bank",)),
    ("trace_score_en", "trace_score_key", ("score",)),
    ("trace_p_en", "trace_p_key", ("p",)),
    ("trace_row_en", None, ("max", "sum")),
    ("trace_norm_en", "trace_norm_address", ("norm", "norm8")),
    ("trace_x_en", "trace_x_address", ("x",)),
    ("trace_logit_en", "trace_logit_index", ("logit",)),
)

#: Ports that show what the array does: `trace_NAME` says it in each cycle.
CHANGING = ("active", "operation", "stall")


def elements(tokens: int) -> dict[str, tuple[int, bool]]:
    """Bits and signedness of an element of a word, by name; tokens: the longest sequence's."""
    found = {"bank": (8, True), "score": (16, True), "p": (8, False), "max": (16, True)}
    found |= {"sum": (sum_bits(tokens), False), "norm": (16, True), "norm8": (8, True)}
    return found | {"x": (16, True), "logit": (32, True)}
