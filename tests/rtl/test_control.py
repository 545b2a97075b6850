"""Start, end and failure of an inference against a state machine in Python."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rtl.control.control import Control
from rtl.interface.operation import Error
from tb.amaranth_ports import simulate

INPUTS = (
    "start",
    "abort",
    "error",
    "leaving",
    "finished",
    "model_ended",
    "tokens_ended",
    "rows_pending",
)
OUTPUTS = ("reset", "begin", "drain_model", "drain_tokens", "busy", "done", "code")


@dataclass
class RefControl:
    """The same, written as rules."""

    state: str = "idle"
    begin: int = 0
    code: int = 0
    over: dict[str, bool] = field(default_factory=lambda: {"model": False, "tokens": False})

    def outputs(self, given: dict[str, int]) -> dict[str, int]:
        drained = all(self.over.values()) and not given["rows_pending"] and not given["abort"]
        done = {
            "idle": False,
            "run": bool(given["leaving"] and given["finished"]),
            "drain": drained,
            "abort": not given["rows_pending"],
        }[self.state]
        return {
            "reset": int(self.state != "run"),
            "begin": self.begin,
            "drain_model": int(self.state == "drain" and not self.over["model"]),
            "drain_tokens": int(self.state == "drain" and not self.over["tokens"]),
            "busy": int(self.state != "idle"),
            "done": int(done),
            "code": self.code,
        }

    def step(self, given: dict[str, int]) -> None:
        done = self.outputs(given)["done"]
        self.begin = 0
        for name in self.over:
            self.over[name] |= bool(given[f"{name}_ended"])
        if self.state == "idle":
            self.over = dict.fromkeys(self.over, False)
            if given["start"] and not given["abort"]:
                self.state, self.begin, self.code = "run", 1, 0
        elif self.state == "run" and not given["leaving"] and given["abort"]:
            self.state, self.code = "abort", Error.ABORTED.value
        elif self.state == "run" and not given["leaving"] and given["error"]:
            self.state, self.code = "drain", given["error"]
        elif done:
            self.state = "idle"
        elif self.state == "drain" and given["abort"]:
            self.state = "abort"


def drive(inputs: list[dict[str, int]]) -> list[dict[str, int]]:
    """What the unit shows in each cycle."""

    async def exercise(ports: Any) -> list[dict[str, int]]:
        shown = []
        for given in inputs:
            for name, value in given.items():
                ports.set(name, value)
            shown.append(
                {
                    name: int(Error(ports.get(name)).value) if name == "code" else ports.get(name)
                    for name in OUTPUTS
                }
            )
            await ports.tick()
        return shown

    return simulate(Control(), exercise)


@pytest.mark.parametrize("seed", range(6))
def test_random_events(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chances = {"start": 0.3, "abort": 0.04, "error": 0.05, "leaving": 0.3, "finished": 0.2}
    chances |= {"model_ended": 0.15, "tokens_ended": 0.15, "rows_pending": 0.5}
    inputs = [{name: int(rng.random() < chances[name]) for name in INPUTS} for _ in range(1500)]
    for given in inputs:
        given["error"] *= int(rng.integers(1, 12))
    ref, expected = RefControl(), []
    for given in inputs:
        expected.append(ref.outputs(given))
        ref.step(given)
    actual = drive(inputs)
    for cycle, (wanted, shown) in enumerate(zip(expected, actual)):
        assert shown == wanted, f"cycle {cycle} after {inputs[max(cycle - 3, 0) : cycle + 1]}"
    codes = {shown["code"] for shown in actual}
    assert len(codes) > 5


def run_of(**events: int) -> list[dict[str, int]]:
    """Inputs of 30 cycles: each event at its cycle; rows_pending until then, leaving from then."""
    inputs = [dict.fromkeys(INPUTS, 0) for _ in range(30)]
    inputs[1]["start"] = 1
    for name, at in events.items():
        if name == "rows_pending":
            for given in inputs[:at]:
                given[name] = 1
        elif name == "leaving":
            for given in inputs[at : events["finished"] + 1]:
                given[name] = 1
        else:
            inputs[at][name] = Error.CRC.value if name == "error" else 1
    return inputs


@pytest.mark.parametrize(
    ("events", "code", "done"),
    [
        ({"leaving": 6, "finished": 9}, Error.NONE, 9),
        ({"leaving": 6, "abort": 7, "finished": 9}, Error.NONE, 9),
        ({"leaving": 6, "abort": 6, "finished": 9}, Error.NONE, 9),
        ({"leaving": 6, "abort": 5, "finished": 9}, Error.ABORTED, 6),
        ({"model_ended": 4, "tokens_ended": 5, "error": 9}, Error.CRC, 10),
        ({"error": 6, "model_ended": 12, "tokens_ended": 9}, Error.CRC, 13),
        ({"error": 6, "model_ended": 8, "tokens_ended": 9, "rows_pending": 20}, Error.CRC, 20),
        ({"abort": 7}, Error.ABORTED, 8),
        ({"abort": 7, "rows_pending": 15}, Error.ABORTED, 15),
        ({"error": 5, "abort": 9}, Error.CRC, 10),
    ],
)
def test_ends(events: dict[str, int], code: Error, done: int) -> None:
    shown = drive(run_of(**events))
    assert [cycle for cycle, entry in enumerate(shown) if entry["done"]] == [done]
    assert shown[-1]["code"] == code.value
    assert not shown[-1]["busy"]
    assert shown[-1]["reset"]


def test_start_and_abort_together() -> None:
    """Nothing begins: neither while idle, nor in the cycles around an end."""
    for at in range(1, 16):
        inputs = run_of(leaving=6, finished=9)
        if at > 1:
            inputs[at] |= {"start": 1, "abort": 1}
        else:
            inputs[at]["abort"] = 1  # with the start of the run itself
        shown = drive(inputs)
        assert [cycle for cycle, entry in enumerate(shown) if entry["begin"]] == [2] * (at > 1)
        assert not shown[-1]["busy"]
