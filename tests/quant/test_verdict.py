import json
from pathlib import Path

import numpy as np
import pytest

from quant.calibrate import main as calibrate
from quant.measure.compare import TensorError
from quant.measure.verdict import judge
from tests.quant import tiny


def error(sqnr: float, peaks: list[float] | None = None, limits: int = 0) -> TensorError:
    """A tensor of 1,000 values with this signal to noise ratio."""
    found = None if peaks is None else np.array(peaks)
    return TensorError(1000, limits, 10 ** (sqnr / 10), 1.0, peaks=found)


def test_a_good_model_has_no_findings() -> None:
    verdict = judge({"a": error(15.01), "b": error(200)}, 0.97, 100)
    assert verdict.good
    assert str(verdict) == ""


def test_what_is_below_its_bound_is_named_worst_first() -> None:
    errors = {
        "a": error(14.99, [1, 1, 1], limits=25),
        "good": error(15.01, [1, 1, 99]),
        "b": error(3, [1, 61, 1, 1, 9]),
    }
    lines = str(judge(errors, 0.9688, 128)).splitlines()
    assert lines[:3] == [
        "warning: golden and float agree on 96.88% of 128 texts: below 97%",
        "warning: b: SQNR 3.0 dB, below 15: channels that reach far beyond the median one: "
        "1 (61x), 4 (9x)",
        "warning: a: SQNR 15.0 dB, below 15: no channel stands out, 2.50% of the codes at their "
        "limits",
    ]
    assert lines[3] == ("warning: good: channels that reach far beyond the median one: 2 (99x)")
    assert lines[4].startswith("try: ")
    assert len(lines) == 5


def test_many_poor_tensors_and_channels_are_counted() -> None:
    wide = [1.0] * 20 + [float(k) for k in range(9, 18)]
    verdict = judge({str(k): error(k / 10, wide) for k in range(12)}, 1.0, 10)
    assert verdict.findings[0].endswith(": 28 (17x), 27 (16x), 26 (15x), 25 (14x) and 5 more")
    assert verdict.findings[5:] == ("7 more tensors are below 15 dB",)


@pytest.mark.parametrize("outlier", [False, True])
def test_calibrate_says_so_and_writes_it_down(
    outlier: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row of a weight matrix 3,000 times as large: its channel leaves the others no codes."""
    arrays = tiny.tensors()
    if outlier:
        for part in ("weight", "bias"):
            arrays[f"bert.encoder.layer.1.intermediate.dense.{part}"][7] *= 3000
    model = tiny.write(tmp_path / "tiny", arrays=arrays)
    data, figures = tmp_path / "texts.txt", tmp_path / "figures.json"
    data.write_text("good film\na bad film\nthe film\nbad films !\n")
    options = ["--model", str(model), "--data", str(data), "--json", str(figures)]
    options += ["--remedies", "none"]
    assert calibrate([*options, "--out", str(tmp_path / "out")]) == 0
    said, verdict = capsys.readouterr().err, json.loads(figures.read_text())["verdict"]
    assert verdict["good"] != outlier
    assert ("try: " in said) == outlier
    if outlier:
        assert "warning: layer.1.ffn.norm: SQNR" in said
        assert (
            "warning: layer.1.ffn.hidden: channels that reach far beyond the median one: 7" in said
        )
        assert [f"warning: {line}" for line in verdict["findings"]] == [
            line
            for line in said.splitlines()
            if line.startswith("warning") and "texts are few" not in line
        ]


def test_a_good_model_is_said_to_be_good_and_why() -> None:
    errors = {
        "layer.0.q": TensorError(count=300, limits=40, signal=1000.0, noise=1.0),
        "pooled": TensorError(count=50, limits=0, signal=100.0, noise=1.0),
    }
    verdict = judge(errors, 1.0, 1200)
    assert verdict.good
    assert verdict.to_json()["summary"] == verdict.summary
    assert verdict.summary == (
        "golden and float agree on 100.00% of 1,200 texts; the worst tensor, pooled, has 20.0 dB, "
        "where 15 are enough; codes at their limits are at most 13.33% (layer.0.q), and their "
        "error is in these figures"
    )
