"""Inferences on the machine: right, exactly timed, never hanging, and what the verdict says."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtl.control.axi import ADDRESS_BITS
from rtl.interface.operation import Error
from rtl.registers import registers
from sim.machine.inference import Inference, Loaded, Packets
from sim.machine.machine import Machine, accelerator
from sim.machine.result import Result
from sim.verdict import failure, verdict
from tests.configs import CONFIGS
from tests.damage import any_damage
from tests.sim.played import played, right
from tests.zoo import Compiled

ROOT = Path(__file__).resolve().parents[2]
CONFIG = CONFIGS["4"]
PLAIN = Compiled("bert-tiny", CONFIG)
ODD = Compiled("pre-norm-embedding-norm", CONFIG, labels=3)
WIDTH = CONFIG.stream_width


def of_stream(stream: bytes, **others: Any) -> Inference:
    """A short inference with another command stream."""
    return PLAIN.inference(6, **others).but(model=Packets.whole(stream, WIDTH))


def test_rests_depend_on_the_seed_alone() -> None:
    seeds = [None, 5, 5, 6]
    none, once, again, other = played(CONFIG, [PLAIN.inference(9, seed=seed) for seed in seeds])
    assert once.cycles == again.cycles
    assert len({none.cycles, once.cycles, other.cycles}) == 3


@pytest.mark.slow
def test_counters_of_more_than_sixteen_bits() -> None:
    """An embedding memory so slow that cycles and a stall exceed 2^16."""
    latency = (1 << 16) + 5000
    (one,) = played(CONFIG, [PLAIN.inference(5, row_latency=latency, patience=2 * latency)])
    right(one, PLAIN.program, PLAIN.model)
    assert min(one.cycles, one.stalls["weights"]) > 1 << 16


def changed(result: Result, port: str) -> Result:
    """The same with one bit of a write changed."""
    recorded = result.writes[port]
    other = replace(recorded, word=[*recorded.word[:-1], recorded.word[-1] ^ 1])
    return replace(result, writes=result.writes | {port: other})


WRONG: list[tuple[Callable[[Result], Result], str]] = [
    (lambda one: replace(one, logits=one.logits ^ 1), "golden says ["),
    (lambda one: replace(one, logits=one.logits[:1]), "1 logits came, golden has 2"),
    (lambda one: replace(one, status=2 | Error.CRC << 8), "but gave 2 logits"),
    (lambda one: changed(one, "x"), "is "),
    (lambda one: replace(one, writes=one.writes | {"p": replace(one.writes["p"], word=[])}),
     ".p: 0 of "),
    (lambda one: replace(one, counters=(one.cycles + 1, *one.counters[1:])), "not as predicted: c"),
    (lambda one: replace(one, numbers=one.numbers[:-1]), "is [], not as predicted"),
    (lambda one: replace(one, wrong=("m_axis_logits is withdrawn",)), "m_axis_logits is withdrawn"),
    (lambda one: replace(one, lasts=()), "ended well with words left"),
    (lambda one: replace(one, rows_pending=1), "ended with 1 rows still to come"),
    (lambda one: replace(one, end="not started"), "not started after "),
]  # fmt: skip


@pytest.fixture(scope="module")
def sound() -> Result:
    (result,) = played(CONFIG, [PLAIN.inference(8, trace=True)])
    right(result, PLAIN.program, PLAIN.model)
    return result


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_what_the_verdict_sees(
    change: Callable[[Result], Result], message: str, sound: Result
) -> None:
    found = verdict(change(sound), PLAIN.program, PLAIN.model)
    assert found
    assert any(message in text for text in found.problems), found.problems


def test_a_wrong_weight_is_found_and_named() -> None:
    steps = list(PLAIN.program.steps)
    place = next(i for i, step in enumerate(steps) if step.name == "layer.1.k")
    payload = bytearray(steps[place].payload)
    payload[0] ^= 0x40
    steps[place] = replace(steps[place], payload=bytes(payload))
    wrong = replace(PLAIN.program, steps=tuple(steps))
    (result,) = played(CONFIG, [of_stream(wrong.stream(), trace=True)])
    found = verdict(result, PLAIN.program, PLAIN.model)
    assert any("first layer.1.k[" in text and "golden says" in text for text in found.problems)
    assert found.mismatches["layer.0.ffn.sum"] == found.mismatches["layer.1.q"] == 0


def test_a_hang_says_where_and_the_next_inference_is_right() -> None:
    hangs = PLAIN.inference(5, row_latency=5000, patience=50)
    result, after = played(CONFIG, [hangs, PLAIN.inference(5)])
    (said,) = verdict(result, PLAIN.program, PLAIN.model).problems
    assert said.startswith("no progress for 50 cycles since cycle ")
    assert "the array says weights; command stream word " in said
    assert "token 5 of 5, " in said
    right(after, PLAIN.program, PLAIN.model)


def test_an_inference_may_be_bounded() -> None:
    (result,) = played(CONFIG, [PLAIN.inference(5)])
    bounded, short = played(
        CONFIG, [PLAIN.inference(5, longest=most) for most in (result.cycles, 1000)]
    )
    assert bounded.cycles == result.cycles
    assert failure(short) == "still at it after 1000 cycles"


def test_a_row_beyond_the_table_is_an_error() -> None:
    (result,) = played(CONFIG, [PLAIN.inference(5).but(table=PLAIN.table[:1])])
    assert failure(result).endswith("was asked for, the table has 1")


def test_damaged_rows_are_no_table() -> None:
    """Any byte of the table changed, cut or added."""
    rows, width = PLAIN.table.tobytes(), PLAIN.table.shape[1]
    tables = [*any_damage(rows, 6, 60), ODD.table.tobytes()]
    for table in (np.frombuffer(one, np.int8) for one in tables if one and len(one) % width == 0):
        with pytest.raises(ValueError, match="the table is damaged or another model's than"):
            Loaded(PLAIN.program, table.reshape(-1, width))


def test_what_is_no_table_and_no_stream() -> None:
    with pytest.raises(ValueError, match="must be what embedding_table"):
        Loaded(PLAIN.program, PLAIN.table[:, :3])
    with pytest.raises(ValueError, match="3 bytes is no whole words of 4"):
        of_stream(b"123")


ENDLESS = """
import signal
from tests.sim.test_machine import PLAIN, played, CONFIG
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background ignores
print("ready", flush=True)
played(CONFIG, [PLAIN.inference(16, row_latency=1 << 31, patience=1 << 40, name="text 17")])
"""


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        (signal.SIGSEGV, -signal.SIGSEGV, "text 17: the simulation died\n"),
        (signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt"),
    ],
)
def test_a_process_that_dies_names_its_inference(
    sent: signal.Signals, code: int, message: str
) -> None:
    accelerator(CONFIG)
    command = [sys.executable, "-c", ENDLESS]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(2)
        process.send_signal(sent)
        _, said = process.communicate(timeout=20)
    assert process.returncode == code
    assert message in said


def test_registers_of_a_machine() -> None:
    """Each field has the reset value and the access of the map, and nothing stands beside them."""
    with Machine(accelerator(CONFIG), CONFIG) as machine:
        for register in registers(CONFIG):
            reset = {one.low: one.reset for one in register.fields if one.access != "wo"}
            wanted = sum(value << low for low, value in reset.items())
            assert [machine.read(register.address + byte) for byte in range(4)] == [wanted] * 4
            for strobe in range(16):
                acts = any(
                    one.access != "ro" and strobe >> one.low // 8 & 1 for one in register.fields
                )
                ones = sum(1 << one.low for one in register.fields if one.access == "wo")
                assert machine.write(register.name, 0xFFFFFFFF ^ ones, strobe) == acts
            kept = [one for one in register.fields if one.access == "rw"]
            held = sum((2 << one.high) - (1 << one.low) for one in kept)
            assert machine.read(register.name) == (held if kept else wanted)
        for address in range(4 * len(registers(CONFIG)), 1 << ADDRESS_BITS, 4):
            assert (machine.read(address), machine.write(address, 1)) == (0, False)
        before = machine.now
        machine.step(7)
        assert machine.now == before + 7
        assert not machine.until_interrupt(10)
