import json

import numpy as np
import pytest

from quant.calibrate import main as calibrate
from quant.measure.compare import TensorError
from quant.measure.tasks import judge
from quant.model.spec import MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION
from tests.quant import tiny


def error(sqnr: float, peaks: list[float] | None = None, limits: int = 0) -> TensorError:
    """A tensor of 1,000 values with this signal to noise ratio."""
    found = None if peaks is None else np.array(peaks)
    return TensorError(1000, limits, 10 ** (sqnr / 10), 1.0, peaks=found)


def test_a_good_model_has_no_findings() -> None:
    verdict = judge({"a": error(15.01), "b": error(200, limits=40)}, 0.97, 1200)
    assert verdict["good"]
    for words in ("97.00% of 1,200 texts", "worst tensor, a, has 15.0 dB", "at most 4.00% (b)"):
        assert words in verdict["summary"]


def test_what_is_below_its_bound_is_named_worst_first() -> None:
    errors = {
        "a": error(14.99, [1, 1, 1], limits=25),
        "good": error(15.01, [1, 1, 99]),
        "b": error(3, [1, 61, 1, 1, 9]),
    }
    agreement, b, a, good = judge(errors, 0.9688, 128)["findings"]
    assert agreement == "golden and float agree on 96.88% of 128 texts: below 97%"
    assert b.startswith("b: SQNR 3.0 dB, below 15: channels")
    assert b.endswith(": 1 (61x), 4 (9x)")
    assert a.endswith("no channel stands out, 2.50% of the codes at their limits")
    assert good == "good: channels that reach far beyond the median one: 2 (99x)"


def test_many_poor_tensors_and_channels_are_counted() -> None:
    wide = [1.0] * 20 + [float(k) for k in range(9, 18)]
    verdict = judge({str(k): error(k / 10, wide) for k in range(12)}, 1.0, 10)
    assert verdict["findings"][0].endswith(": 28 (17x), 27 (16x), 26 (15x), 25 (14x) and 5 more")
    assert verdict["findings"][5:] == ["7 more tensors are below 15 dB"]


@pytest.mark.parametrize(
    ("task", "share", "finding"),
    [
        (MULTI_LABEL, 0.97, "agree on 96.00% of 9 texts' labels: below 97%"),
        (TOKEN_CLASSIFICATION, 0.97, "agree on 96.00% of 9 texts' tokens: below 97%"),
        (REGRESSION, 0.99, "0.9800 of the variance of float's on 9 texts: below 0.99"),
    ],
)
def test_it_knows_what_the_outputs_are(task: str, share: float, finding: str) -> None:
    assert judge({}, share, 9, task)["good"]
    (found,) = judge({}, share - 0.01, 9, task)["findings"]
    assert found.endswith(finding)


@pytest.mark.parametrize("outlier", [False, True])
def test_calibrate_says_so_and_writes_it_down(outlier, tmp_path, capsys):
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
        assert any(line.startswith("layer.1.ffn.hidden: channels") for line in verdict["findings"])
