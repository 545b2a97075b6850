"""A case: what an accelerator is sent, and everything that must come back.

A case is one file, written with `write_case` and played by tb/bench_accelerator.py, which finds it
through the environment variable BERT2RTL_CASE.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from cli.files import replacing

import numpy as np

from golden.encoder import check_input, run_batch
from golden.model import Model
from rtl.compile.program import Program, embedding_table
from rtl.interface.operation import Error
from tb.expected import Writes, expected_writes
from tb.packing import Integers, lengths_of, token_words


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
        Every write of a named intermediate, in order; None: not compared.
    result
        The logits (port "result"); None: there must be none.
    operations
        What the descriptors compute, by their number in the stream.
    error
        How it must end.
    interruption
        Written as `abort`, or done by `reset`, that many cycles after the start; when the inference
        ends before, it must have ended as the other fields say.
    """

    name: str
    stream: bytes
    tokens: np.ndarray
    rows: np.ndarray
    writes: tuple[Writes, ...] | None = None
    result: Writes | None = None
    operations: tuple[str, ...] = ()
    error: Error = Error.NONE
    interruption: tuple[Literal["abort", "reset"], int] | None = None

    @property
    def ends(self) -> np.ndarray:
        """Whether each logit ends a packet, bool [logits].

        Each sequence has one, with as many logits for each as the others, or, where every token has
        its own, with as many for each token.
        """
        assert self.result is not None
        count, shares = len(self.result.address), lengths_of(self.tokens)
        labels = int(self.result.index.max()) + 1
        if count != labels * sum(shares):
            shares = [1] * len(shares)
        found = np.zeros(count, bool)
        found[np.cumsum(shares) * count // sum(shares) - 1] = True
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Inferences one after the other on one accelerator, and how its surroundings behave.

    idle
        Probability that a source pauses before a word.
    stall
        Probability that a sink is not ready in a cycle.
    interval
        The model stream offers a word so many cycles after the one before it was taken, or later
        (1: a word a cycle).
    row_latency
        Cycles from the cycle in which a row was asked for to the first cycle in which its first
        word is offered; requests are pipelined, rows come in order, a word a cycle.
    seed
        Of all random choices.
    """

    inferences: tuple[Inference, ...]
    idle: float = 0.0
    stall: float = 0.0
    interval: int = 1
    row_latency: int = 20
    seed: int = 1


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
        operations=tuple(step.name for step in program.steps),
    )


PARTS = {kind.__name__: kind for kind in (Case, Inference, Writes)}


def write_case(path: Path, case: Case) -> None:
    """Write a case; the file appears under its name when it is complete."""
    arrays: dict[int, np.ndarray] = {}

    def plain(value: Any) -> Any:
        match value:
            case np.ndarray():
                arrays[id(value)] = value
                return {"array": list(arrays).index(id(value))}
            case bytes():
                return {"bytes": plain(np.frombuffer(value, np.uint8))}
            case Error():
                return {"error": value.name}
            case tuple():
                return [plain(one) for one in value]
            case Case() | Inference() | Writes():
                parts = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
                return {type(value).__name__: parts}
        return value

    text = np.frombuffer(json.dumps(plain(case)).encode(), np.uint8)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, text, *arrays.values(), allow_pickle=False)


def read_case(content: bytes) -> Case:
    """The case in the bytes of a file that `write_case` has written."""
    with np.load(BytesIO(content), allow_pickle=False) as found:
        text, *arrays = (found[name] for name in found.files)

    def made(value: Any) -> Any:
        match value:
            case list():
                return tuple(map(made, value))
            case {"array": place}:
                return arrays[place]
            case {"bytes": array}:
                return made(array).tobytes()
            case {"error": name}:
                return Error[name]
            case dict():
                ((kind, parts),) = value.items()
                return PARTS[kind](**{name: made(part) for name, part in parts.items()})
        return value

    case: Case = made(json.loads(text.tobytes()))
    return case
