"""What the bench of the accelerator plays and what it shows of it, as a file each.

A file holds one JSON text and arrays by name. sim/accelerator.py writes the case, and reads what
came of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

from cli.errors import UserError
from cli.files import replacing

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """What the accelerator is sent.

    stream
        Command stream, `last` with its last word.
    tokens
        uint32 [L], the words of the tokens stream: id[23:0], type[24], attend[25], ends[26].
    rows
        int8 [rows, bytes]: the embedding memory.
    interruption
        Written as `abort`, or done by `reset`, that many cycles after the start, where it has not
        ended before.
    """

    stream: bytes
    tokens: np.ndarray
    rows: np.ndarray
    interruption: tuple[Literal["abort", "reset"], int] | None = None


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """How the streams of all inferences of a case behave.

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
    longest
        Cycles after which an inference is given up that still does something.
    seed
        Of all random choices.
    """

    idle: float = 0.0
    stall: float = 0.0
    interval: int = 1
    row_latency: int = 20
    longest: int
    seed: int = 1


def write(path: Path, facts: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file; it appears under its name when it is complete."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, facts=np.array(json.dumps(facts)), **arrays)


def read(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """The facts and the arrays of a file. ValueError: It is not whole, or none."""
    try:
        with np.load(BytesIO(content), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        return json.loads(str(arrays.pop("facts"))), arrays
    except (OSError, KeyError, EOFError, ValueError, BadZipFile) as error:
        raise UserError(f"this is no file of a bench: {error}") from None


def write_case(path: Path, inferences: list[Inference], around: Surroundings) -> None:
    """Write a case: inferences one after the other on one accelerator."""
    facts = {"around": vars(around), "interruptions": [one.interruption for one in inferences]}
    arrays: dict[str, np.ndarray] = {}
    for place, one in enumerate(inferences):
        arrays[f"{place}.stream"] = np.frombuffer(one.stream, np.uint8)
        arrays |= {f"{place}.tokens": one.tokens, f"{place}.rows": one.rows}
    write(path, facts, arrays)


def read_case(content: bytes) -> tuple[list[Inference], Surroundings]:
    """The case in the bytes of a file that `write_case` has written."""
    facts, arrays = read(content)
    inferences = [
        Inference(
            stream=arrays[f"{place}.stream"].tobytes(),
            tokens=arrays[f"{place}.tokens"],
            rows=arrays[f"{place}.rows"],
            interruption=interruption,
        )
        for place, interruption in enumerate(facts["interruptions"])
    ]
    return inferences, Surroundings(**facts["around"])
