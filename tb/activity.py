"""The activity of an accelerator's units in each cycle, as changes of a few signals.

A bench records them while it plays (`Recorder`); `sim.activity` tells what they mean. It costs a
Python call a change, and most of the signals change once in hundreds of cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from cli.errors import UserError
from cli.files import replacing

import numpy as np
from cocotb.triggers import ValueChange

from tb.monitor import Monitor
from tb.streams import now

#: Streams as the ports are called, and their short names.
STREAMS = {
    "model": "s_axis_model",
    "tokens": "s_axis_tokens",
    "request": "m_axis_request",
    "rows": "s_axis_rows",
    "logits": "m_axis_logits",
}

#: Signals inside the parts, by the path of their instances; a build has to show them to the bench.
PROBES = (
    "engine.softmax.active",
    "engine.softmax.reading",
    "normalizer.free",
    "normalizer.layernorm.between",
    "normalizer.layernorm.sums_1",
    "normalizer.layernorm.norms_1",
)


@dataclass(frozen=True)
class Record:
    """One inference, cycle by cycle.

    Attributes
    ----------
    case
        SHA-256 of the case that was played.
    cycles
        Of the inference, as its register counts them; cycle 0 is the first in which it is busy.
    changes
        By signal: int64 [2, changes], the cycle of each change and the value from then on. The
        first is in cycle 0 or before. A signal has the value that it has when its cycle ends.
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
        found = np.zeros(self.cycles, bool)
        when = self.writes.get(port, np.zeros(0, np.int64))
        found[when[(when >= 0) & (when < self.cycles)]] = True
        return found


def write(path: str | Path, record: Record) -> None:
    """Write a record as one file, whole or not at all."""
    arrays: dict[str, Any] = {f"changes/{name}": values for name, values in record.changes.items()}
    arrays |= {f"writes/{name}": values for name, values in record.writes.items()}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, case=record.case, cycles=record.cycles, **arrays)


def read(content: bytes) -> Record:
    """The record in a file.

    Raises
    ------
    ValueError
        It is not whole, or none.
    """
    try:
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            parts: dict[str, dict[str, np.ndarray]] = {"changes": {}, "writes": {}}
            for name in arrays.files:
                kind, _, signal = name.partition("/")
                if signal:
                    parts[kind][signal] = arrays[name]
            return Record(str(arrays["case"]), int(arrays["cycles"]), **parts)
    except (OSError, KeyError, EOFError, ValueError, BadZipFile) as error:
        raise UserError(f"this is no record of an inference: {error}") from None


class Driven:
    """A pin that the bench drives: what it is set to is remembered, and need not be watched."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.changes: list[tuple[int, int]] = []
        self.clear()

    def clear(self) -> None:
        """Forget everything but the present value."""
        self.changes[:] = [(now(), int(self.handle.value))]

    @property
    def value(self) -> Any:
        return self.handle.value

    @value.setter
    def value(self, value: int) -> None:
        self.handle.value = value
        if value != self.changes[-1][1]:
            self.changes.append((now(), value))


class Recorder:
    """Records an inference while it is played: streams, activity of the array, `PROBES`.

    Of the probes those that the build shows. The pins that the bench drives are replaced in
    `machine` by ones that remember.
    """

    def __init__(self, machine: Any, monitor: Monitor) -> None:
        self.monitor = monitor
        self.driven: dict[str, Driven] = {}
        self.handles: dict[str, Any] = {"trace_stall": machine.dut.trace_stall}
        for name, pins in (
            ("model", machine.model),
            ("tokens", machine.tokens),
            ("rows", machine.rows),
        ):
            driven = self.driven[f"{STREAMS[name]}_tvalid"] = Driven(pins.valid)
            self.handles[f"{STREAMS[name]}_tready"] = pins.ready
            setattr(machine, name, replace(pins, valid=driven))
        for name, place in (("request", "request"), ("logits", "result")):
            pins = getattr(machine, place)
            driven = self.driven[f"{STREAMS[name]}_tready"] = Driven(pins.ready)
            self.handles[f"{STREAMS[name]}_tvalid"] = pins.valid
            setattr(machine, place, replace(pins, ready=driven))
        for probe in PROBES:
            handle = machine.dut
            for part in probe.split("."):
                handle = getattr(handle, part, None)
            if handle is not None:
                self.handles[probe] = handle
        self.changes: dict[str, list[tuple[int, int]]] = {}
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next inference begins. The monitor forgets by itself."""
        cycle = now()
        for name, handle in self.handles.items():
            self.changes[name] = [(cycle, int(handle.value))]
        for driven in self.driven.values():
            driven.clear()

    def watch(self) -> list[Any]:
        """The coroutines that record."""
        return [self._signal(name, handle) for name, handle in self.handles.items()]

    async def _signal(self, name: str, handle: Any) -> None:
        trigger = ValueChange(handle)
        while True:
            await trigger
            self.changes[name].append((now(), int(handle.value)))

    def record(self, case: str, cycles: int, end: int) -> Record:
        """The inference that has ended.

        case, cycles
            As in `Record`.
        end
            Cycle of the simulation in which its last logit was taken.
        """
        origin = end + 1 - cycles
        found = dict(self.changes)
        found |= {name: driven.changes for name, driven in self.driven.items()}
        found |= {f"trace_{name}": seen for name, seen in self.monitor.changes.items()}
        changes = {}
        for name, seen in found.items():
            when, value = np.array(seen, np.int64).T
            last = np.append(when[1:] != when[:-1], True)  # of several in a cycle
            changes[name] = np.stack([when[last] - origin, value[last]])
        writes = {
            name: np.array(port.cycle, np.int64) - origin
            for name, port in self.monitor.recorded.items()
        }
        return Record(case, cycles, changes, writes)
