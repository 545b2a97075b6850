"""What an accelerator did in each cycle: the array's operation and stall, and traced writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from cli.errors import UserError
from cli.files import replacing

import numpy as np

from tb.monitor import Monitor


@dataclass(frozen=True)
class Record:
    """One inference, cycle by cycle.

    case
        SHA-256 of the case that was played.
    cycles
        Of the inference, as its register counts them; cycle 0 is the first in which it is busy.
    changes
        Of the trace ports `active`, `operation` and `stall`: int64 [2, changes], the cycle of each
        change and the value from then on. The first is in cycle 0 or before. A signal has the value
        that it has when its cycle ends.
    writes
        By trace port (`tb.trace.TRACE_PORTS`): the cycles in which it was written, increasing.
    """

    case: str
    cycles: int
    changes: Mapping[str, np.ndarray]
    writes: Mapping[str, np.ndarray]

    def each(self, signal: str) -> np.ndarray:
        """The signal's value in each cycle, int16 [cycles]."""
        when, value = self.changes[signal]
        edges = np.clip(np.append(when, self.cycles), 0, self.cycles)
        return np.repeat(value.astype(np.int16), np.diff(edges))

    def written(self, port: str) -> np.ndarray:
        """Whether a trace port was written, bool [cycles]."""
        return np.isin(np.arange(self.cycles), self.writes.get(port, ()))


def write(path: str | Path, record: Record) -> None:
    """Write a record as one file, whole or not at all."""
    arrays: dict[str, Any] = {f"changes/{name}": values for name, values in record.changes.items()}
    arrays |= {f"writes/{name}": values for name, values in record.writes.items()}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, case=record.case, cycles=record.cycles, **arrays)


def read(content: bytes) -> Record:
    """The record in a file.

    Raises ValueError: It is not whole, or none.
    """
    parts: dict[str, Any] = {"changes": {}, "writes": {}}
    try:
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            for name in set(arrays.files) - {"case", "cycles"}:
                kind, _, signal = name.partition("/")
                parts[kind][signal] = arrays[name]
            return Record(str(arrays["case"]), int(arrays["cycles"]), **parts)
    except (OSError, KeyError, EOFError, ValueError, BadZipFile) as error:
        raise UserError(f"this is no record of an inference: {error}") from None


def recorded(monitor: Monitor, case: str, cycles: int, end: int) -> Record:
    """The inference that has ended.

    case, cycles
        As in `Record`.
    end
        Cycle of the simulation in which its last logit was taken.
    """
    origin = end + 1 - cycles
    changes = {}
    for name, seen in monitor.changes.items():
        when, value = np.array(seen, np.int64).T
        last = np.append(when[1:] != when[:-1], True)  # of several in a cycle
        changes[name] = np.stack([when[last] - origin, value[last]])
    ports = monitor.recorded.items()
    writes = {name: np.array(port.cycle, np.int64) - origin for name, port in ports}
    return Record(case, cycles, changes, writes)
