"""Texts a second: each in an inference of its own, and side by side in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import starmap
from typing import Any

from golden.model import Model
from rtl.compile.batches import pack
from rtl.compile.fit import fitting_model
from rtl.compile.program import Program, compile_model
from sim.cycles.model import predict
from sim.phases import CLOCK_MHZ, utilisation
from sim.report import table


def _row(of: Mapping[str, Any]) -> dict[str, object]:
    """A line of the table, by heading."""
    second = CLOCK_MHZ * 1e6 * of["texts"]
    tokens, row_tiles = of["utilisation"]
    return {
        "lanes": of["lanes"],
        "columns": of["columns"],
        "bytes/cycle": of["stream_bytes"],
        "batch": of["memory"],
        "texts": of["texts"],
        "mean tokens": f"{of['tokens'] / of['texts']:.1f}",
        **{way: f"{second / of[way]:,.0f}" for way in ("whole", "alone", "batched")},
        **{f"of {way}": f"{of[way] / of['batched']:.2f}" for way in ("whole", "alone")},
        "inferences": of["batches"],
        "tokens": f"{tokens:.1%}",
        "row tiles": f"{row_tiles:.1%}",
    }


def measure(
    model: Model,
    lengths: Sequence[int],
    lanes: int,
    memory: int,
    *,
    columns: int | None = None,
    whole_last_layer: bool = False,
    stream_bytes: int | None = None,
    **streams: Any,
) -> dict[str, Any]:
    """Predict the cycles of texts of these lengths, alone and in a token memory of `memory` tokens.

    Cycles: ``whole`` of each text alone with the whole last layer, ``alone`` of each alone,
    ``batched`` in batches; the last two with `whole_last_layer` as the first. ``utilisation`` is
    products / (N x M) / batched: of the tokens, and with whole row tiles. Others are as `predict`
    takes them.
    """

    def compiled(tokens: int, whole_last_layer: bool) -> Program:
        config = fitting_model(model, lanes, tokens, columns=columns)
        return compile_model(model, config, whole_last_layer=whole_last_layer)

    def counted(program: Program) -> Callable[..., int]:
        @cache
        def cycles(*batch: int) -> int:
            return predict(program, batch, stream_bytes=stream_bytes, **streams).cycles

        return cycles

    whole = compiled(max(lengths), True)
    alone = whole if whole_last_layer else compiled(max(lengths), False)
    together = compiled(max(memory, *lengths), whole_last_layer)
    batches = [[lengths[place] for place in batch] for batch in pack(together, lengths)]
    batched = sum(starmap(counted(together), batches))
    return {
        "lanes": lanes,
        "columns": whole.config.tile_columns,
        "stream_bytes": stream_bytes or whole.config.stream_width,
        "memory": memory,
        "texts": len(lengths),
        "tokens": sum(lengths),
        "whole": sum(map(counted(whole), lengths)),
        "alone": sum(map(counted(alone), lengths)),
        "batched": batched,
        "batches": len(batches),
        "utilisation": utilisation(together, lengths, batched),
    }


def report(found: Sequence[Mapping[str, Any]]) -> str:
    """A line per measurement."""
    rows = [_row(each) for each in found]
    return (
        f"{table([*rows[0]], [[*row.values()] for row in rows])}\n\nTexts a second at {CLOCK_MHZ} "
        "MHz. whole, alone: each in an inference of its own, with the whole last layer and as "
        "compiled; batched: as many an inference as a token memory of `batch` tokens holds; of "
        "whole, of alone: how many times as many. tokens, row tiles: utilisation of the batches by "
        "the texts' own tokens, and with the last row tile of each counted whole."
    )
