"""Inferences on the cocotb bench of the accelerator, as `Result`s that `sim.verdict` judges."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.errors import Different

import numpy as np

from rtl.interface.config import Config
from sim.activity import Record
from sim.bench import run_bench
from sim.design import Design
from sim.machine.inference import ABORT, Action, Inference
from sim.machine.result import Result
from tb import case
from tb.compare import Recorded
from tb.trace import CAUSES, CHANGING, TRACE_PORTS, elements

TOLD = ["end", "status", "took", "model_taken", "tokens_taken", "rows_pending", "stall", "progress"]
LONGEST = 1 << 26
"""Cycles that no inference takes, where it does not say how many."""
NAMES = [name for _, _, names in TRACE_PORTS for name in names]


@dataclass(frozen=True)
class Played:
    """What one inference showed; ``activity`` in each cycle, None where it gave no logits.

    ``interrupted`` is "abort" or "reset" where its event came before its end.
    """

    result: Result
    activity: Record | None
    interrupted: str


def play(
    unit: str | Design,
    simulator: str,
    config: Config,
    inferences: Sequence[Inference],
    folder: Path,
    *,
    idle: float = 0.0,
    stall: float = 0.0,
    seed: int = 1,
    **options: Any,
) -> list[Played]:
    """Play inferences one after the other, up to the first that does not end.

    Followed are their streams, one event each, an abort or a reset, and ``stream_bytes``,
    ``row_latency`` and ``longest``, which all have alike. ``options`` are those of `run_bench`; the
    case and what came of it stay in the folder.

    idle, stall, seed
        As in `tb.case.Surroundings`.

    Raises Different: The bench failed, or gave nothing that answers this case.
    """
    path, seen, first = folder / "case.npz", folder / "seen.npz", inferences[0]
    interval = -(-config.stream_width // (first.stream_bytes or config.stream_width))
    assert len({(x.stream_bytes, x.row_latency, x.longest) for x in inferences}) == 1
    around = case.Surroundings(
        idle=idle,
        stall=stall,
        interval=interval,
        row_latency=first.row_latency,
        longest=first.longest or LONGEST,
        seed=seed,
    )
    case.write_case(path, [_sent(one) for one in inferences], around)
    env = {"CASE": str(path.resolve()), "SEEN": str(seen.resolve())}
    run_bench(unit, simulator, config, testcases=["case"], env=env, **options)
    try:
        facts, arrays = case.read(seen.read_bytes())
        digest, shown = facts["case"], facts["inferences"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Different(f"the bench left nothing of its inferences in {seen}: {error}") from None
    if digest != hashlib.sha256(path.read_bytes()).hexdigest():
        raise Different(f"{seen} answers another case than {path}: nothing is proven")
    ended = all(one["end"] in ("done", "reset") for one in shown)
    if not shown or (ended and len(shown) != len(inferences)):
        raise Different(f"{seen} holds {len(shown)} inferences of {len(inferences)}")
    rests = seed if idle or stall else None
    return [
        _played(
            digest,
            config,
            one.but(seed=rests, patience=told["silence"]),
            told,
            _of(arrays, f"{place}."),
        )
        for place, (one, told) in enumerate(zip(inferences, shown))
    ]


def _sent(one: Inference) -> case.Inference:
    """What the bench sends."""
    interruption: Any = None
    for event in one.events:
        assert event.action is Action.RESET or event.data == ABORT
        kind = "reset" if event.action is Action.RESET else "abort"
        interruption = (kind, event.cycle + 1)
    return case.Inference(
        stream=one.model.data, tokens=one.words, rows=one.table, interruption=interruption
    )


def _of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}


def _played(
    digest: str,
    config: Config,
    one: Inference,
    told: dict[str, Any],
    arrays: dict[str, np.ndarray],
) -> Played:
    """What the bench told of one inference."""
    words, counters = arrays["result"], told["counters"]
    activity = None
    if told["end"] == "done" and counters and len(words):
        activity = _activity(digest, counters[0], told["latest"], arrays)
    wrong = [] if activity is None else [f"trace_{name} is X" for name in activity.unknown]
    result = Result(
        inference=one,
        **{name: told[name] for name in TOLD},
        simulated=told["took"],
        logits=(words & 0xFFFFFFFF).astype(np.uint32).view(np.int32),
        lasts=tuple(np.flatnonzero(words >> 32).tolist()),
        counters=tuple(counters),
        numbers=np.zeros((0, 5 + len(CAUSES)), np.int64) if activity is None else activity.numbers,
        writes={
            name: _recorded(config, name, bits, signed, arrays)
            for name, (bits, signed) in elements(config.tokens).items()
        },
        wrong=tuple(wrong),
    )
    return Played(result, activity, told["interrupted"])


def _recorded(
    config: Config, name: str, bits: int, signed: bool, arrays: Mapping[str, np.ndarray]
) -> Recorded:
    """The writes of a port."""
    cycles, addresses = (arrays[f"{name}.{what}"].tolist() for what in ("cycle", "address"))
    words = [int.from_bytes(word.tobytes(), "little") for word in arrays[f"{name}.word"]]
    lanes = 1 if name == "logit" else config.lanes
    return Recorded(bits, signed, lanes, cycles, addresses, words)


def _activity(digest: str, cycles: int, latest: int, arrays: Mapping[str, np.ndarray]) -> Record:
    """What was done in each cycle, of which the last is that of the last logit."""
    origin, changes = latest + 1 - cycles, {}
    for name in CHANGING:
        when, value = arrays[f"changes.{name}"]
        last = np.append(when[1:] != when[:-1], True)  # of several in a cycle
        changes[name] = np.stack([when[last] - origin, value[last]])
    writes = {name: arrays[f"{name}.cycle"] - origin for name in NAMES}
    return Record(digest, cycles, changes, writes)
