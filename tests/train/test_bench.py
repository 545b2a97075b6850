import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import zoo

pytest.importorskip("transformers")

from golden import fast, store
from quant.foreign.checkpoint import fingerprint
from train import bench, speed
from train.failure import TrainError

MODEL = Path(__file__).parents[2] / "models" / "bert-tiny-imdb"


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    """A quantized model of the checkpoint's shape, so that nothing is calibrated."""
    info = {"checkpoint": {"sha256": fingerprint(MODEL)}}
    store.save(zoo.model(zoo.REAL, 0, vocabulary=30522), tmp_path, info)
    return tmp_path


def test_prints_and_writes_both_models(
    quantized: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "figures" / "bench.json"
    arguments = ["--quantized", str(quantized), "--batch", "2", "--tokens", "16", "--repeats", "2"]
    assert bench.main([*arguments, "--no-base", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == speed.HEADER
    assert [line.split()[:3] for line in lines[2:]] == [
        ["bert-tiny-imdb", "16", "2"],
        ["bert-tiny-imdb", "16", "1"],
    ]
    rows = json.loads(file.read_text())["rows"]
    for row in rows:
        assert 0 < row["float_ms"] <= row["float_median_ms"]
        assert 0 < row["golden_ms"] <= row["golden_median_ms"]
        assert 0 < row["int8_ms"] <= row["int8_median_ms"]
        assert row["speedup"] == row["float_ms"] / row["golden_ms"]
        assert row["of_int8"] == row["int8_ms"] / row["golden_ms"]


def test_a_fast_engine_that_differs_is_refused(
    quantized: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    real = fast.run_batch
    monkeypatch.setattr(speed.fast, "run_batch", lambda model, ids: real(model, ids) + 1)
    assert bench.main(["--quantized", str(quantized), "--batch", "1", "--tokens", "8"]) == 1
    assert "golden.fast gives" in capsys.readouterr().err


def test_texts_have_the_length() -> None:
    ids = speed.review_ids(MODEL, 3, 40)
    assert ids.shape == (3, 40)
    assert (ids[:, 0] == 101).all()
    assert len(np.unique(ids, axis=0)) == 3


def test_too_many_long_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "imdb", lambda split: bench_reviews())
    with pytest.raises(TrainError, match="only 1 test reviews are that long"):
        speed.review_ids(MODEL, 2, 5)


def bench_reviews() -> list:
    from quant.texts.data_file import Review

    return [Review("good", 1), Review("not so good at all", 0)]


def test_too_long_texts_are_refused(quantized: Path, capsys: pytest.CaptureFixture) -> None:
    assert bench.main(["--quantized", str(quantized), "--tokens", "600"]) == 2
    assert "--tokens 600: allowed 3..512" in capsys.readouterr().err


def test_a_model_of_another_family_is_refused(capsys: pytest.CaptureFixture) -> None:
    assert bench.main(["--model", "models/vit-tiny-digits"]) == 2
    assert "is a vit: give a BERT" in capsys.readouterr().err


def test_speed_is_float_time_over_golden_time() -> None:
    row = speed.Row("m", 128, 4, 30.0, 31.0, 20.0, 21.0, 10.0, 11.0)
    assert (row.speedup, row.of_int8) == (1.5, 0.5)
    assert replace(row, golden_ms=60.0).speedup == 0.5
    assert row.line().split() == [
        "m",
        "128",
        "4",
        "30.00",
        "10.00",
        "20.00",
        "200.0",
        "1.50x",
        "0.50x",
    ]


def test_int8_is_the_same_checkpoint() -> None:
    """Near the float logits, and not the same; any batch and length."""
    reference = speed.BertForSequenceClassification.from_pretrained(MODEL).eval()
    session = speed.dynamic_int8(reference, 1)
    for tokens in (5, 40):
        ids = speed.review_ids(MODEL, 2, tokens)
        with torch.inference_mode():
            exact = reference(input_ids=torch.from_numpy(ids)).logits.numpy()
        (logits,) = session.run(None, {"ids": ids, "mask": np.ones_like(ids)})
        assert 0 < np.abs(logits - exact).max() < 1
        assert (logits.argmax(axis=1) == exact.argmax(axis=1)).all()
