"""BERT-Base beside published accelerators, held to counts by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from golden.model import Model, Shape
from golden.random import random_model
from rtl.compile.program import Program, compile_model
from rtl.interface.config import Config
from sim import published
from sim.machine.volume import ROW_LATENCY
from sim.published import PUBLISHED, Row

PRODUCTS = 12 * 128 * (4 * 768 * 768 + 2 * 768 * 3072 + 2 * 128 * 768)
"""Four projections, the feed-forward layer, scores and context of 128 tokens."""


def test_what_was_published() -> None:
    """Milliseconds times 214,000 cycles; products over DSPs and cycles."""
    assert [one.cycles for one in PUBLISHED] == [9_392_460, 5_091_060]
    rows = published.beside(PRODUCTS)
    assert [f"{row.per_dsp:.3f}" for row in rows] == ["0.679", "0.668"]
    assert {row.utilisation for row in rows} == {None}


def test_products_and_utilisation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HIDDEN", 16), ("FFN", 32), ("TOKENS", 10)):
        monkeypatch.setattr(published, name, value)
    shape = Shape(
        layers=2, hidden=16, heads=2, head_size=8, ffn=32, labels=2, vocabulary=2, positions=10,
        types=2,
    )  # fmt: skip
    model = random_model(shape, 1)
    whole, cut = (
        published.measured(model, 4, whole_last_layer=w, playing=False) for w in (True, False)
    )
    layer = 10 * (4 * 16 * 16 + 2 * 16 * 32 + 2 * 10 * 16)
    assert whole.products == 2 * layer
    # Of the last layer K and V of all tokens, the rest of the first.
    assert cut.products == layer + 10 * 2 * 16 * 16 + 2 * 16 * 16 + 2 * 16 * 32 + 2 * 10 * 16
    assert whole.utilisation == pytest.approx(whole.products / 16 / whole.cycles)
    assert whole.dsp == 16 + 5 * 4 + 15
    assert cut.cycles < whole.cycles


def test_the_report() -> None:
    one = Row("8 lanes", "whole", 100, 2_000, 120_000, 0.9375)
    line = published.report([one]).splitlines()[2]
    assert line.split() == ["8", "lanes", "whole", "100", "2,000", "60", "93.8%", "0.600"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers, 16 wide, in place of BERT-Base."""
    config = Config(lanes=4, tokens=16, hidden=16, ffn=32, labels=4)
    monkeypatch.setattr(published, "limits", lambda lanes: replace(config, lanes=lanes))
    for name, value in (("LAYERS", 2), ("TOKENS", 16)):
        monkeypatch.setattr(published, name, value)


def with_another_bias(model: Model, config: Config, *, whole_last_layer: bool) -> Program:
    """The program of a model whose logits are one larger."""
    pooler, logits = model.head
    head = pooler, replace(logits, bias=logits.bias + 1)
    return compile_model(replace(model, head=head), config, whole_last_layer=whole_last_layer)


@pytest.mark.usefixtures("small")
def test_a_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each layer writes Q, K, V, context and four rows more of 16 channels, and 32 hidden ones."""
    path = tmp_path / "out.json"
    assert published.main(["--lanes", "4", "--play", "--json", str(path)]) == 0
    whole, cut, *others = json.loads(path.read_text())
    for row in whole, cut:
        assert row["played"]["cycles"] == row["cycles"]
        assert (row["played"]["mismatches"], row["played"]["problem"]) == (0, "")
    assert whole["played"]["values"] > 2 * 16 * (8 * 16 + 32)
    assert cut["played"]["values"] < whole["played"]["values"]
    assert {row["played"] for row in others} == {None}
    printed = capsys.readouterr().out
    assert printed.count("0 differ; as predicted, equal bit for bit") == 2


@pytest.mark.usefixtures("small")
def test_a_play_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Verilog runs other weights than golden, or takes other cycles than the model."""
    path = tmp_path / "out.json"
    with monkeypatch.context() as patch:
        patch.setattr(published, "compile_model", with_another_bias)
        assert published.main(["--lanes", "4", "--play", "--json", str(path)]) == 1
    assert json.loads(path.read_text())[0]["played"]["mismatches"] > 0
    assert "golden says" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(published, "ROW_LATENCY", ROW_LATENCY + 1)
        assert published.main(["--lanes", "4", "--play"]) == 1
    assert "cycles were predicted" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert published.main(["--lanes", "64", "--json", str(path)]) == 0
    whole, cut, *others = json.loads(path.read_text())
    assert [row["products"] for row in (whole, *others)] == [PRODUCTS] * 3
    assert PRODUCTS / 4096 < whole["cycles"] < PRODUCTS / 4096 / 0.97
    assert cut["cycles"] < whole["cycles"]
    printed = capsys.readouterr().out
    assert f"{whole['cycles']:,}" in printed
    assert "DATE 2021" in printed


def test_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        published.main(["--lanes", "5"])
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert "invalid choice: 5 (choose from 4, 8, 16, 32, 64)" in told
    assert told.count("\n") == 1
