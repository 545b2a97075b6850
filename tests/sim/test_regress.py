"""The regression: it counts, fails when it must, and says why."""

from __future__ import annotations

import numpy as np
import pytest

from golden import fast as golden_fast
from sim import regress
from tests.ending import refusal

LINE = ["--reviews", "4", "--tokens", "12", "--lanes", "4", "--trace-sample", "2", "--jobs", "2"]
FAST_BATCH = golden_fast.run_batch
SOUND = {
    "task": "classification",
    "texts": 4,
    "traced": 2,
    "inferences": 3,
    "lanes": 4,
    "columns": 4,
    "max_tokens": 12,
    "tokens": 48,
    "values": 1000,
    "mismatches": 0,
    "problems": [],
    "cycles": 4000,
    "utilisation": (0.5, 0.75),
    "simulated": 4400,
    "seconds": 2.0,
}


def test_a_sample_is_spread_evenly() -> None:
    assert regress.sample(10, 3) == {0, 3, 6}
    assert regress.sample(3, 20) == {0, 1, 2}
    assert regress.sample(5, 0) == set()


def test_only_compared_and_equal_reviews_pass() -> None:
    assert regress.passed(SOUND)
    problems = ["review 0 (3 tokens): ended with the error CRC"]
    for wrong in ({"texts": 0}, {"values": 0}, {"mismatches": 1}, {"problems": problems}):
        assert not regress.passed(SOUND | wrong)


def test_the_report_tells_the_figures_and_the_first_problems() -> None:
    text = regress.report(SOUND | {"problems": [f"review {i}: wrong" for i in range(12)]})
    assert "simulated cycles a second  2,200" in text
    assert "utilisation, tokens        50.0%" in text
    assert "a second at 100 MHz        100,000" in text
    assert "review 9: wrong\n... and 2 more\nFAILED" in text
    assert regress.report(SOUND).endswith("passed: equal bit for bit")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--lanes", "5"], "invalid choice: 5 (choose from 4, 8, 16, 32, 64)"),
        (["--tokens", "1"], "leaves no room for the text"),
    ],
)
def test_refused_options(line: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refusal(regress.main, ["--texts", "2", *line], capsys)


@pytest.mark.slow
def test_a_single_wrong_logit_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def off_by_one(*arguments: object) -> np.ndarray:
        logits = FAST_BATCH(*arguments)
        logits[1, 0] += 1
        return logits

    monkeypatch.setattr(golden_fast, "run_batch", off_by_one)
    assert regress.main(LINE) == 1
    told = capsys.readouterr().out
    assert "mismatches                 1" in told
    assert "text 1 (12 tokens): logits are" in told
    assert told.endswith("FAILED\n")
