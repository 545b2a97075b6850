"""`make sim`: real reviews through the generated hardware, and what it says when a bit differs."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cli.command import Exit

import numpy as np
import pytest

from sim import accelerator, builds, play, run, verdict
from tb import case
from tb.expected import Writes
from tests.ending import exit_code, refusal

FEW = ["--lanes", "4", "--tokens", "4"]
BOTH = ("An awful mess.", "A wonderful film!")


@pytest.fixture(autouse=True)
def _own_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "OUT", tmp_path)
    monkeypatch.setattr(play, "RUNS", tmp_path / "runs")
    # The one build that no other test shares plays less long than it takes.
    monkeypatch.setattr(builds, "OPTIMISATION", "OPT_FAST=-O0")


def ended(arguments: list[str]) -> int:
    return exit_code(run.main, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--review", ""], "empty"),
        (["--review", "   \n"], "empty"),
        (["--unit", "softmacks"], "no unit is called 'softmacks'"),
        (["--tokens", "2"], "the limit of 2 tokens leaves no room for the text"),
        (["--tokens", "0"], "0 is out of range: it must be 1 or more"),
        (["--stream-bytes", "-1"], "-1 is out of range"),
        (["--row-latency", "0"], "0 is out of range: it must be 1 or more"),
        (["--lanes", "5"], "invalid choice: 5"),
        (["--quantized", "nowhere"], "--quantized nowhere holds no quantized model: calibrate"),
    ],
)
def test_nonsense_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(run.main, arguments, capsys)


def test_unit_on_its_vectors(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = ["--unit", "softmax", "--lanes", "4", "--simulator", "icarus"]
    arguments += ["--tokens", "16", "--review", "Not at all what I was told to expect."]
    assert run.main([*arguments, "--json", str(report)]) == 0
    assert json.loads(report.read_text())["values compared"] > 0


def test_whole_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    arguments = ["--lanes", "4", "--tokens", "20", "--review", "That movie was terrible!"]
    assert run.main([*arguments, "--json", str(report)]) == 0
    figures = json.loads(report.read_text())
    assert not any(figures["mismatches"].values())
    written = {"embedding.norm", "layer.1.p", "layer.1.ffn.hidden", "head.0", "logits"}
    assert written <= set(figures["compared"])
    floats, golden, rtl = figures["verdicts"]
    assert [floats["model"], golden["model"], rtl["model"]] == ["float", "golden", "RTL"]
    for one in figures["verdicts"]:
        assert set(one["probabilities"]) == set(one["logits"]) == {"negative", "positive"}
        assert sum(one["probabilities"].values()) == pytest.approx(1)
        assert max(one["probabilities"], key=one["probabilities"].get) == one["class"]
    assert golden["logits"] == rtl["logits"]
    page = report.with_suffix(".html").read_text()
    assert "That movie was terrible!" in page
    assert "writes a normalised channel of a row tile" in page
    assert "mismatches" in capsys.readouterr().out


@pytest.mark.slow
def test_two_at_once_answer_for_their_own_reviews(tmp_path: Path) -> None:
    """Two commands in one clone, with different reviews, builds and caches shared."""
    reports = [tmp_path / f"{place}.json" for place in range(2)]
    line = [sys.executable, "-m", "sim.run", "--lanes", "4", "--tokens", "6"]
    running = [
        subprocess.Popen(
            [*line, "--review", review, "--json", str(report)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for review, report in zip(BOTH, reports)
    ]
    told = [process.communicate()[0] for process in running]
    for process, text, review, report in zip(running, told, BOTH, reports):
        assert process.returncode == 0, text
        assert "Every bit equal" in text
        figures = json.loads(report.read_text())
        assert figures["text"] == review
        page = report.with_suffix(".html").read_text()
        assert [one for one in BOTH if one in page] == [review]
        logits = {one["model"]: one["logits"] for one in figures["verdicts"]}
        assert logits["RTL"] == logits["golden"]
    assert told[0].count("negative") > told[1].count("negative")


@pytest.fixture(scope="module")
def kept() -> dict[bytes, tuple[Any, bytes]]:
    """What the bench has shown of a case: each is played once."""
    return {}


def differing(
    monkeypatch: pytest.MonkeyPatch,
    kept: dict[bytes, tuple[Any, bytes]],
    change: Callable[[dict[str, Any], dict[str, np.ndarray]], None],
) -> None:
    """What the bench has shown comes back changed."""
    sound = accelerator.run_bench

    def run_bench(*arguments: Any, env: dict[str, str], **options: Any) -> Any:
        played, path = Path(env["CASE"]).read_bytes(), Path(env["SEEN"])
        if played not in kept:
            kept[played] = (sound(*arguments, env=env, **options), path.read_bytes())
        tests, shown = kept[played]
        facts, arrays = case.read(shown)
        change(facts, arrays)
        case.write(path, facts, arrays)
        return tests

    monkeypatch.setattr(accelerator, "run_bench", run_bench)


def flip(arrays: dict[str, np.ndarray], name: str) -> None:
    arrays[name] = arrays[name].copy()
    arrays[name].flat[0] ^= 1


def end_early(arrays: dict[str, np.ndarray]) -> None:
    """`last` comes with the first logit, not with the second."""
    arrays["0.result"] = arrays["0.result"] ^ (1 << 32)


def earlier(facts: dict[str, Any]) -> None:
    """Two cycles change their places."""
    counters = facts["inferences"][0]["counters"]
    counters[1:3] = counters[1] - 1, counters[2] + 1


#: What is changed, and what is said of it.
CHANGES: list[tuple[Any, str]] = [
    (lambda facts, _: facts.update(case="0" * 64), "answers another case"),
    (lambda _, arrays: flip(arrays, "0.result"), "logits are "),
    (lambda _, arrays: end_early(arrays), "`last` comes with the logits [0], not [1]"),
    (lambda _, arrays: flip(arrays, "0.p.word"), "1 of "),
    (lambda _, arrays: flip(arrays, "0.norm.address"), "norm: address"),
    (lambda facts, _: earlier(facts), "not as predicted: active "),
    (lambda facts, _: facts["inferences"].clear(), "holds 0 inferences of 1"),
    (lambda facts, _: facts.pop("inferences"), "left nothing of its inferences"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_what_proves_nothing_is_no_success(
    change: Any,
    message: str,
    kept: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    differing(monkeypatch, kept, change)
    report = tmp_path / "report.json"
    arguments = [*FEW, "--review", "Dull.", "--json", str(report)]
    assert run.main(arguments) == Exit.DIFFERENT
    captured = capsys.readouterr()
    assert message in captured.err
    assert "equal" not in captured.out
    assert not report.exists()
    # What was played can be looked at.
    (folder,) = (tmp_path / "runs").iterdir()
    assert str(folder) in captured.err
    assert (folder / "case.npz").exists()


def test_one_wrong_bit_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bit of one expected word: the run fails and names where."""
    sound = verdict.expected_writes

    def flipped(*arguments: Any) -> Iterator[Writes]:
        for writes in sound(*arguments):
            if writes.tensor == "layer.1.v":
                values = writes.values.copy()
                values[5, 3] ^= 1
                writes = dataclasses.replace(writes, values=values)
            yield writes

    monkeypatch.setattr(verdict, "expected_writes", flipped)
    assert run.main(["--lanes", "4", "--tokens", "9", "--review", "Terrible!"]) == 1
    message = capsys.readouterr().err
    assert "layer.1.v" in message
    assert "lane 3" in message
