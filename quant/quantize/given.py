"""Rows that a host computed in place of a table of tokens: those of images, or of files.

A model with rows of its own input has no table. What an input becomes, a row a token, is put where
the token rows are, and the ids are the numbers of these rows; the table of positions is zero. So
several inputs share a table that has the rows of all of them, and everything behind it (golden, the
stream, the Verilog) reads rows by their numbers, as it does of a text.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import Tokens
from quant.model.spec import Floats

TABLE = "embedding.token"


def gathered(texts: Sequence[Tokens]) -> tuple[Floats | None, list[Tokens]]:
    """The rows of all inputs as one table [rows, H], or None, and the inputs with their numbers."""
    parts = [rows for text in texts if (rows := text.rows) is not None]
    if not parts:
        return None, list(texts)
    found, first = [], 0
    for text in texts:
        ids = first + np.arange(len(text.ids), dtype=np.int32)
        found.append(replace(text, ids=ids, made=None))
        first += len(ids)
    return np.concatenate(parts), found


def with_table(checkpoint: Checkpoint, table: Floats) -> Checkpoint:
    """The float model with these rows."""
    spec = replace(checkpoint.spec, vocabulary=len(table))
    return replace(checkpoint, spec=spec, arrays=checkpoint.arrays | {TABLE: table})


def placed(checkpoint: Checkpoint, texts: Sequence[Tokens]) -> tuple[Checkpoint, list[Tokens]]:
    """The float model with the rows that the inputs bring, if any, and inputs that number them."""
    table, numbered = gathered(texts)
    return checkpoint if table is None else with_table(checkpoint, table), numbered
