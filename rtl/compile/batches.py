"""Batches: which sequences go side by side through one inference."""

from __future__ import annotations

from collections.abc import Sequence

from cli.errors import UserError

from rtl.compile.first_fit import first_fit
from rtl.compile.program import Program
from rtl.interface.config import ceil_div


def check_lengths(program: Program, lengths: Sequence[int]) -> None:
    """Nothing, if a batch of sequences of these lengths can be run.

    Raises
    ------
    ValueError
        The batch is empty, a sequence is too long, or all together take too many row tiles.
    """
    if not lengths:
        raise UserError("the batch is empty: give it a sequence")
    for tokens in lengths:
        if not 1 <= tokens <= program.tokens:
            raise UserError(f"tokens is {tokens}: the compiled model takes 1..{program.tokens}")
    row_tiles = sum(ceil_div(tokens, program.config.lanes) for tokens in lengths)
    if len(lengths) > 1 and row_tiles > program.row_tiles:
        raise UserError(
            f"{len(lengths)} sequences take {row_tiles} row tiles: the compiled model takes "
            f"1..{program.row_tiles} together"
        )


def pack(program: Program, lengths: Sequence[int]) -> list[list[int]]:
    """The sequences' places in `lengths`, by batch, as `first_fit` has them.

    Raises
    ------
    ValueError
        A sequence is too long, or empty.
    """
    for tokens in lengths:
        check_lengths(program, [tokens])
    return first_fit(lengths, program.config.lanes, program.row_tiles)
