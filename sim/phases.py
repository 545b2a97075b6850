"""The phases of an inference: what each operation computes, and how many cycles that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rtl.compile.program import Program, Step
from rtl.interface.command import window_sides
from rtl.interface.config import ceil_div
from rtl.interface.isa import Flag, Opcode

CLOCK_MHZ = 100
"""At which commands tell cycles as time, where no other clock is given."""


@dataclass(frozen=True)
class Phase:
    """One operation on the array, or a LayerNorm beside it, called as the tensor that it writes.

    ``tensors`` are all tensors of the golden trace that it writes; ``first``, ``last`` and
    ``active`` its first and last cycle with an operand, and the number of those, None for a
    LayerNorm; ``ideal`` MACs / (N x M) of the tokens, None where it does no useful MAC.
    """

    name: str
    tensors: tuple[str, ...]
    first: int | None = None
    last: int | None = None
    active: int | None = None
    ideal: float | None = None

    @property
    def cycles(self) -> int | None:
        """From its first operand to its last."""
        return None if self.first is None or self.last is None else self.last - self.first + 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"cycles": self.cycles}


def macs(step: Step, tokens: int) -> int:
    """Multiply-accumulates of a step on a sequence, padding of row and column tiles left out.

    Of scores and context those of keys in the query's window.
    """
    values = step.values
    if step.opcode is Opcode.LINEAR:
        single = Flag.FIRST_TILE in step.flags
        passes = 2 if Flag.WIDE in step.flags else 1
        return passes * (1 if single else tokens) * values["columns"] * values["length"]
    if step.opcode is Opcode.ATTEND:
        queries = 1 if Flag.FIRST_TILE in step.flags else tokens
        pairs = queries * tokens
        if Flag.WINDOW in step.flags:
            before, after = window_sides(values["window"])
            pairs = sum(min(q + after + 1, tokens) - max(q - before, 0) for q in range(queries))
        return 2 * values["heads"] * pairs * values["head_size"]
    return 0


def work(program: Program, tokens: int) -> int:
    """Multiply-accumulates of a whole program."""
    return sum(macs(step, tokens) for step in program.steps)


def utilisation(program: Program, lengths: Sequence[int], cycles: int) -> tuple[float, float]:
    """MACs / (N x M) of the cycles: of the tokens, and with whole row tiles."""
    n = program.config.lanes
    padded = [ceil_div(tokens, n) * n for tokens in lengths]
    tokens, tiles = (sum(work(program, length) for length in part) for part in (lengths, padded))
    each = program.config.macs * cycles
    return tokens / each, tiles / each


def tensors(step: Step) -> tuple[str, ...]:
    """The tensors of the golden trace that a step writes."""
    match step.opcode:
        case Opcode.ATTEND if step.name == "mean":
            return ("pooled",)
        case Opcode.ATTEND:
            parts = ("scores", "max", "p", "sum", "context")
            return tuple(f"{step.name}.{part}" for part in parts)
        case Opcode.NORM:
            return (step.name, step.name.removesuffix("norm") + "x8")
    return (step.name,)


def phases(program: Program, tokens: int, operations: Sequence[dict[str, Any]]) -> list[Phase]:
    """The phases of a run, from the cycles that the bench saw for each operation number."""
    seen = {operation["number"]: operation for operation in operations}
    result = []
    for number, step in enumerate(program.steps):
        if step.opcode in (Opcode.HEADER, Opcode.TABLE, Opcode.BIAS, Opcode.ROTARY, Opcode.END):
            continue
        name = f"{step.name}.attend" if step.opcode is Opcode.ATTEND else step.name
        operation = seen.get(number % 256, {})
        first, last, active = (operation.get(key) for key in ("first", "last", "active"))
        ideal = macs(step, tokens) / program.config.macs or None
        result.append(Phase(name, tensors(step), first, last, active, ideal))
    return result
