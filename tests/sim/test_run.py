"""`make sim`: real reviews through the generated hardware, and what it says when a bit differs."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from sim import run
from tb.case import Inference


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--review", ""], "empty"),
        (["--review", "   \n"], "empty"),
        (["--unit", "softmacks"], "no unit is called 'softmacks'"),
        (["--max-tokens", "0"], "--max-tokens is 0: it must be 3 or more"),
        (["--stream-bytes", "-1"], "--stream-bytes is -1"),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_nonsense_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_attention_on_icarus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    arguments = ["--unit", "attention", "--lanes", "4", "--simulator", "icarus"]
    arguments += ["--max-tokens", "4", "--review", "A film that I will not forget, ever."]
    assert run.main([*arguments, "--json", str(report)]) == 0
    layers = json.loads(report.read_text())["layers"]
    assert [layer["unit"] for layer in layers] == ["attention, layer 0", "attention, layer 1"]
    assert all(
        layer["mismatches"] == 0 and layer["values compared"] > 4 * 4 * 128 for layer in layers
    )
    assert "MAC utilisation" in capsys.readouterr().out


def test_unit_on_its_vectors(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = ["--unit", "softmax", "--lanes", "4", "--simulator", "icarus"]
    arguments += ["--max-tokens", "16", "--review", "Not at all what I was told to expect."]
    assert run.main([*arguments, "--json", str(report)]) == 0
    assert json.loads(report.read_text())["values compared"] > 0


@pytest.mark.verilator
def test_whole_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    arguments = ["--lanes", "8", "--max-tokens", "20", "--review", "That movie was terrible!"]
    assert run.main([*arguments, "--json", str(report)]) == 0
    figures = json.loads(report.read_text())
    assert not any(figures["mismatches"].values())
    assert figures["verdicts"][1]["class"] == figures["verdicts"][2]["class"]
    written = {"embedding.norm", "layer.1.p", "layer.1.ffn.hidden", "head.0", "logits"}
    assert written <= set(figures["compared"])
    assert "mismatches" in capsys.readouterr().out


@pytest.mark.verilator
def test_one_wrong_bit_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bit of one expected word: the run fails and names where."""
    sound = run.accelerator_inference

    def flipped(*arguments: Any, **options: Any) -> Inference:
        inference = sound(*arguments, **options)
        assert inference.writes is not None
        writes = list(inference.writes)
        place = next(i for i, w in enumerate(writes) if w.tensor == "layer.1.v")
        values = writes[place].values.copy()
        values[5, 3] ^= 1
        writes[place] = dataclasses.replace(writes[place], values=values)
        return dataclasses.replace(inference, writes=tuple(writes))

    monkeypatch.setattr(run, "accelerator_inference", flipped)
    assert run.main(["--lanes", "8", "--max-tokens", "9", "--review", "Terrible!"]) == 1
    message = capsys.readouterr().err
    assert "MISMATCH" in message
    assert "layer.1.v" in message
    assert "lane 3" in message
