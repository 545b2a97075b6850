"""A case: what an accelerator is sent, and everything that must come back.

A case is one file, written with `write_case` and played by tb/bench_accelerator.py, which finds it
through the environment variable BERT2RTL_CASE.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
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

SETTINGS = ("idle", "stall", "interval", "row_latency", "seed")
ARRAYS = ("address", "values", "valid", "index")


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """One inference.

    Attributes
    ----------
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
    complete
        False: `last` never comes on the model stream, so the unit waits until it is interrupted.
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
    complete: bool = True

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

    def damaged(self, name: str, error: Error, **changes: Any) -> Inference:
        """This inference with other inputs, which must end with `error` and give no result."""
        sound: dict[str, Any] = {"writes": None, "result": None, "error": error, "name": name}
        return dataclasses.replace(self, **(sound | changes))


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Inferences one after the other on one accelerator, and how its surroundings behave.

    Attributes
    ----------
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

    Parameters
    ----------
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
    writes = tuple(expected_writes(program, traces, together, mask))
    label = np.arange(len(logits)) % model.shape.labels
    return Inference(
        name=name or f"{'+'.join(map(str, together))} tokens",
        stream=program.stream(),
        tokens=token_words(ids, types, attend, lengths),
        rows=embedding_table(model, program.config.lanes) if rows is None else rows,
        writes=writes,
        result=Writes(
            port="result",
            tensor="logits",
            address=np.arange(len(logits)),
            values=logits,
            valid=np.ones(logits.shape, bool),
            index=label[:, None, None],
        ),
        operations=tuple(step.name for step in program.steps),
    )


def write_case(path: Path, case: Case) -> None:
    """Write a case; the file appears under its name when it is complete."""
    arrays: dict[str, np.ndarray] = {}
    tables: dict[int, str] = {}

    def keep(name: str, array: np.ndarray) -> str:
        arrays[name] = array
        return name

    def keep_writes(name: str, writes: Writes) -> dict[str, str]:
        for part in ARRAYS:
            array = np.asarray(getattr(writes, part))
            keep(f"{name}.{part}", array if array.dtype == bool else array.astype(np.int32))
        return {"array": name, "port": writes.port, "tensor": writes.tensor}

    entries = []
    for number, inference in enumerate(case.inferences):
        if id(inference.rows) not in tables:
            tables[id(inference.rows)] = keep(f"{number}.rows", inference.rows)
        entry: dict[str, Any] = {
            "name": inference.name,
            "stream": keep(f"{number}.stream", np.frombuffer(inference.stream, np.uint8)),
            "tokens": keep(f"{number}.tokens", inference.tokens),
            "rows": tables[id(inference.rows)],
            "operations": inference.operations,
            "error": inference.error.name,
            "interruption": inference.interruption,
            "complete": inference.complete,
        }
        if inference.writes is not None:
            entry["writes"] = [
                keep_writes(f"{number}.{place}", w) for place, w in enumerate(inference.writes)
            ]
        if inference.result is not None:
            entry["result"] = keep_writes(f"{number}.result", inference.result)
        entries.append(entry)
    index = {name: getattr(case, name) for name in SETTINGS} | {"inferences": entries}
    text = np.frombuffer(json.dumps(index).encode(), np.uint8)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, index=text, **arrays)


def read_case(content: bytes) -> Case:
    """The case in the bytes of a file that `write_case` has written."""
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        index = json.loads(bytes(arrays["index"]))
        loaded: dict[str, np.ndarray] = {}

        def array(name: str) -> np.ndarray:
            if name not in loaded:
                loaded[name] = arrays[name]
            return loaded[name]

        def writes(entry: dict[str, str]) -> Writes:
            parts = {part: array(f"{entry['array']}.{part}") for part in ARRAYS}
            return Writes(port=entry["port"], tensor=entry["tensor"], **parts)

        inferences = []
        for entry in index.pop("inferences"):
            optional: dict[str, Any] = {}
            if "writes" in entry:
                optional["writes"] = tuple(map(writes, entry["writes"]))
            if "result" in entry:
                optional["result"] = writes(entry["result"])
            if entry["interruption"]:
                optional["interruption"] = tuple(entry["interruption"])
            inferences.append(
                Inference(
                    name=entry["name"],
                    stream=array(entry["stream"]).tobytes(),
                    tokens=array(entry["tokens"]),
                    rows=array(entry["rows"]),
                    operations=tuple(entry["operations"]),
                    error=Error[entry["error"]],
                    complete=entry["complete"],
                    **optional,
                )
            )
    return Case(inferences=tuple(inferences), **index)
