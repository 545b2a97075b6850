"""The C driver on the CPU of a LiteX SoC: what it says, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from boards.litex import __main__ as command
from boards.litex.job import Job, Step, difference, steps_of
from golden.encoder import run as golden
from rtl.dma.bus import Bus
from tests.ending import refusal

LANES = 4


@pytest.fixture(scope="module")
def job() -> Job:
    return Job(None, LANES, 2, 0, Bus(data_bits=32))


def said(job: Job) -> list[str]:
    """What a CPU says for which all goes well, by firmware/main.c."""

    def line(step: str, code: int = 0, sequence: int = 0) -> str:
        one = job.sequences[sequence]
        logits = golden(job.model, one.ids, one.types, one.attend) if code == 0 else []
        return " ".join([f"{step}: code {code}, 900 cycles, logits", *map(str, logits)])

    return [
        "accelerator of 4 lanes",
        line("polling"),
        line("polling", sequence=1),
        line("interrupt"),
        line("interrupt", sequence=1),
        "2 interrupts, pending 0",
        line("flipped bit", 2),
        "the command stream was damaged on its way, or in memory",
        line("flipped back"),
        "flipped row: code -15, 0 cycles, logits",
        "the image is damaged or cut: write it again",
        "image again: code 0, 0 cycles, logits",
        line("nothing there", 12),
        line("there again"),
        "end",
    ]


def test_a_cpu_for_which_all_goes_well(job: Job) -> None:
    assert difference(said(job), job) == ""
    told = steps_of(said(job))
    assert told[4] == Step("flipped bit", 2, (), cycles=900)
    assert len(told[0].logits) == job.model.shape.labels


Edit = Callable[[list[str]], list[str]]


def without(text: str) -> Edit:
    return lambda lines: [line for line in lines if text not in line]


def instead(text: str, other: str) -> Edit:
    return lambda lines: [line.replace(text, other) for line in lines]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda lines: [], "the CPU does not come to its end; its last line: ''"),
        (without("end"), "does not come to its end; its last line: 'there again: code 0"),
        (without("flipped back"), "the CPU's inferences are polling, polling, interrupt"),
        (
            instead("flipped bit: code 2", "flipped bit: code 0"),
            r"flipped bit: code 0, logits \[\]; it has to be code 2",
        ),
        (instead("nothing there: code 12", "nothing there: code 10"), "to be code 12, logits"),
        (lambda lines: [*lines[:3], lines[3] + "1", *lines[4:]], "interrupt: code 0, logits"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "polling: code 0, logits"),
        (instead("pending 0", "pending 1"), "says '2 interrupts, pending 1', it has to be '2 in"),
        (instead("2 interrupts", "3 interrupts"), "says '3 interrupts, pending 0'"),
        (without("interrupts"), "says 'nothing of interrupts'"),
        (lambda lines: ["failed: image: damaged", *lines], "the CPU says: failed: image: damaged"),
    ],
)
def test_what_is_not_as_it_has_to_be_is_named(edit: Edit, message: str, job: Job) -> None:
    with pytest.raises(AssertionError, match=message):
        assert difference(edit(said(job)), job) == "", difference(edit(said(job)), job)


def test_what_the_cpu_finds(job: Job) -> None:
    """By firmware/main.c; the image at a multiple of 64."""
    words = np.frombuffer(job.memory[: len(job.memory) // 4 * 4], "<u4")
    at, size, count = words[:3]
    assert (at % 64, at + size, count) == (0, len(job.memory), 2)
    image = job.memory[at:]
    assert image[:8] == b"B2RTIMG\0"
    next_ = 3
    for one in job.sequences:
        assert words[next_] == len(one.ids)
        tokens = words[next_ + 1 : next_ + 1 + len(one.ids)]
        assert np.array_equal(tokens & 0xFFFFFF, one.ids)
        assert np.array_equal(tokens >> 24 & 1, one.types)
        assert np.array_equal(tokens >> 25 & 1, one.attend)
        next_ += 1 + len(one.ids)
    assert next_ * 4 <= at
    assert len({len(one.ids) for one in job.sequences}) == 2
    assert job.memory_bytes >= len(job.memory) > job.memory_bytes // 2


def test_a_folder_without_a_model_is_refused(tmp_path: Path, capsys) -> None:
    assert "quantized.json" in refusal(command.main, ["--quantized", str(tmp_path)], capsys)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("standard", command.STANDARDS)
def test_the_cpu_takes_the_steps_of_the_driver(standard: str, tmp_path: Path, capsys) -> None:
    """Two models of different shapes in the same SoC: it is built once."""
    pytest.importorskip("ziglang", reason="make setup-litex")
    figures = tmp_path / "figures.json"
    assert command.main(["--standard", standard, "--json", str(figures)]) == 0
    out = capsys.readouterr().out
    assert "2 interrupts, pending 0" in out
    assert "8 inferences; logits, error codes and interrupts are as they have to be." in out
    found = json.loads(figures.read_text())
    predicted = [one["predicted_cycles"] for one in found["sequences"]]
    told = [step["cycles"] for step in found["inferences"][:4]]
    assert all(1 < cycles / least < 4 for cycles, least in zip(told, predicted * 2))
    assert command.main(["--standard", standard, "--seed", "3", "--sequences", "3"]) == 0
