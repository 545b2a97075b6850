"""An inference of the accelerator, and everything that golden says must come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from golden.encoder import check_input, run_batch
from golden.model import Model
from rtl.compile.program import Program, embedding_table
from tb.expected import Writes, expected_writes
from tb.packing import Integers, last_places, lengths_of, token_words


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """One inference.

    name
        For messages and reports.
    stream
        Command stream as it is sent, `last` with its last word.
    tokens
        uint32 [L], the words of the tokens stream: id[23:0], type[24], attend[25].
    rows
        int8 [rows, bytes]: the embedding memory.
    writes
        Every write of a named intermediate, in order.
    result
        The logits (port "result").
    """

    name: str
    stream: bytes
    tokens: np.ndarray
    rows: np.ndarray
    writes: tuple[Writes, ...]
    result: Writes

    @property
    def ends(self) -> np.ndarray:
        """Whether each logit ends a packet, bool [logits]."""
        count, lengths = len(self.result.address), lengths_of(self.tokens)
        labels = int(self.result.index.max()) + 1
        found = np.zeros(count, bool)
        found[last_places(lengths, count, count == labels * sum(lengths))] = True
        return found


def accelerator_inference(
    program: Program,
    model: Model,
    ids: Integers,
    types: Integers | None = None,
    attend: Integers | None = None,
    *,
    lengths: Sequence[int] | None = None,
    name: str = "",
    rows: np.ndarray | None = None,
) -> Inference:
    """An inference of the accelerator with everything that golden says about it.

    program
        `rtl.compile.program.compile_model` of `model`.
    lengths
        Tokens of each sequence, where ids, types and attend hold a batch.
    rows
        `embedding_table(model, lanes)`, where it is at hand.
    """
    if lengths is None:
        ids, types, attend = check_input(model, ids, types, attend)
    together = [len(ids)] if lengths is None else lengths
    traces: list[dict[str, np.ndarray]] = []
    logits = run_batch(model, ids, types, attend, together, traces).reshape(-1, 1)
    mask = None if attend is None else np.asarray(attend)
    place, valid = np.arange(len(logits)), np.ones(logits.shape, bool)
    label = (place % model.shape.labels)[:, None, None]
    return Inference(
        name=name or f"{'+'.join(map(str, together))} tokens",
        stream=program.stream(),
        tokens=token_words(ids, types, attend, lengths),
        rows=embedding_table(model, program.config.lanes) if rows is None else rows,
        writes=tuple(expected_writes(program, traces, together, mask)),
        result=Writes("result", "logits", place, logits, valid, label),
    )
