"""The cycle-by-cycle bench of attention on a library: what it plays passes, and it sees faults."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from golden.attention import attention, split_heads
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.design import described, generated
from sim.machine.unit import NativePorts, finish, library
from tb import layers
from tb.attention import Bench, check
from tb.compare import Mismatch
from tests.damage import mutated
from verify.mutate.bench import configuration, exercises

pytestmark = pytest.mark.slow

CONFIG = configuration("attention", 4)
#: File, what stands there, what the fault says; the test that sees it and how.
FAULTS = {
    "tokens drained for ever": (
        "control", "self.drain_tokens.eq(~tokens_over)", "self.drain_tokens.eq(1)",
        "wrong", "packets were taken",
    ),
    "a token too many": (
        "attention", "(tokens.longest > engine.limit.tokens)",
        "(tokens.longest > engine.limit.tokens + 1)", "wrong", "the code is NONE, not LENGTH",
    ),
    "RESIDUAL taken": (
        "rules", "OF_ENCODER = Flag.RESIDUAL | Flag.LOGITS", "OF_ENCODER = Flag.LOGITS",
        "refused/kind=programs", "opcode 5 with flag 8",
    ),
    "late by a cycle of two": (
        "attention", "(tokens.longest > engine.limit.tokens)",
        "(tokens.longest > engine.limit.tokens) & self.cycles[0]",
        "late", "cycles after the batch",
    ),
    "bounds at the first word": (
        "bounds", "last.eq(area.start + area.words - 1)", "last.eq(area.start + area.words - 2)",
        "edges", "the code is LIMIT, not NONE",
    ),
}  # fmt: skip


def ports_of(fault: str = "", config: Config = CONFIG) -> NativePorts:
    if not fault:
        design = generated("attention", config)
        return NativePorts(library(design), design)
    file, old, new, *_ = FAULTS[fault]
    faulty = mutated(file, (old, new), unit="attention", config=CONFIG)
    design = described(faulty, "attention", CONFIG)
    return NativePorts(library(design, f"-{fault.replace(' ', '-')}"), design)


@pytest.mark.parametrize(
    ("columns", "precise", "choices"),
    [
        (4, False, {}),
        (4, False, {"bias_heads": 3, "windows": True, "gated": True, "rotary_pairs": 10}),
        pytest.param(4, False, {"bias_heads": 3}, marks=pytest.mark.slow),
        pytest.param(4, False, {"windows": True}, marks=pytest.mark.slow),
        pytest.param(4, False, {"gated": True}, marks=pytest.mark.slow),
        pytest.param(4, False, {"rotary_pairs": 10}, marks=pytest.mark.slow),
        pytest.param(4, True, {}, marks=pytest.mark.slow),
        pytest.param(8, False, {}, marks=pytest.mark.slow),
        pytest.param(8, False, {"windows": True}, marks=pytest.mark.slow),
        pytest.param(16, True, {}, marks=pytest.mark.slow),
        pytest.param(
            16,
            True,
            {"bias_heads": 16, "windows": True, "gated": True, "rotary_pairs": 10},
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.parametrize("name", sorted(exercises("attention")))
def test_the_sound_unit(name: str, columns: int, precise: bool, choices: dict[str, Any]) -> None:
    exercise = exercises("attention")[name]
    config = dataclasses.replace(CONFIG, columns=columns, precise=precise, **choices)
    finish(exercise.function(ports_of(config=config), **exercise.arguments))


def test_contexts_hang_on_the_last_bit_of_each_lanes_row_scale() -> None:
    """Written down from the rule of rounding: acc * m and acc * (m ^ 1) round to two values."""
    config, shown = configuration("attention", 4), set()
    for made, found in layers.telling(config):
        traces: dict[str, np.ndarray] = {}
        x8, attend = layers.activations(found, made.width)
        attention(x8, made.one, made.heads, attend, traces, "one")
        values = split_heads(traces["one.v"], made.heads).astype(np.int64)
        acc = traces["one.p"].astype(np.int64) @ values
        m, s = (traces[f"one.row_{part}"].astype(np.int64)[..., None] for part in "ms")
        two = [np.clip((acc * factor + (1 << s - 1)) >> s, -128, 127) for factor in (m, m ^ 1)]
        for head, token in np.argwhere((two[0] != two[1]).any(axis=-1)):
            shown.add((int(token) % 4, int(m[head, token, 0]) & 1))
    assert shown == {(lane, bit) for lane in range(4) for bit in (0, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str) -> None:
    *_, name, message = FAULTS[fault]
    exercise = exercises("attention")[name]
    with pytest.raises(Mismatch, match=message):
        finish(exercise.function(ports_of(fault), **exercise.arguments))


@pytest.mark.parametrize("what", ["writes", "result", "last", "active", "code", "writes of none"])
def test_what_is_expected_is_compared(what: str) -> None:
    """One bit, word or code of what must come is changed, and the bench says so."""
    made = layers.layer(CONFIG, 3, short=True)
    sound = layers.inference(made, [3], 1)
    wanted, steps = sound, made.program.steps
    assert sound.writes is not None
    assert sound.result is not None
    match what:
        case "writes":
            values = sound.writes[-1].values.copy()
            values[-1, 0] ^= 1
            last = dataclasses.replace(sound.writes[-1], values=values)
            wanted = dataclasses.replace(sound, writes=(*sound.writes[:-1], last))
        case "result":
            values = sound.result.values.copy()
            values[-1, 2] ^= 1
            wanted = dataclasses.replace(
                sound, result=dataclasses.replace(sound.result, values=values)
            )
        case "last":
            pass
        case "active":
            steps = steps[:-2]
        case "code":
            wanted = sound.damaged("code", Error.CRC)
        case "writes of none":
            wanted = dataclasses.replace(sound, writes=())

    async def play() -> None:
        ports = ports_of()
        await ports.reset()
        bench = Bench(ports)
        bench.queue(sound)
        seen = await bench.run(sound)
        check(bench, sound, seen, made.program.steps)
        if what == "last":
            seen.words[-1] ^= 1 << bench.width
        check(bench, wanted, seen, steps)

    with pytest.raises(Mismatch):
        finish(play())


def test_what_goes_on_for_ever_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on all cycles: a fault that writes without end is never silent."""
    monkeypatch.setattr("tb.attention.LONGEST", 100)
    made = layers.layer(CONFIG, 3, short=True)
    sound = layers.inference(made, [3], 1)

    async def play() -> None:
        ports = ports_of()
        await ports.reset()
        bench = Bench(ports)
        bench.queue(sound)
        await bench.run(sound)

    with pytest.raises(Mismatch, match="it has not ended in 100 cycles"):
        finish(play())
