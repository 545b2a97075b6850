import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from golden import encoder, store
from quant import calibrate
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import TextTokenizer
from quant.quantize.options import REMEDIES, Options
from quant.quantize.quantizers import CalibrationError
from tests.quant import tiny
from tests.quant.test_quantize import checkpoint, inputs

TEXTS = ["a good film!", "the bad film", "good good good", "a bads film", "the film"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "tiny")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "texts.csv"
    rows = [f'"{text}",{i % 3}' for i, text in enumerate(TEXTS)]
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    return file


def test_the_command_writes_a_model_that_loads(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figures = tmp_path / "out", tmp_path / "figures.json"
    arguments = ["--model", str(model), "--data", str(data), "--out", str(out)]
    assert calibrate.main([*arguments, "--json", str(figures)]) == 0
    printed = capsys.readouterr().out
    assert f"wrote {out}" in printed
    assert "bounds proven" in printed
    quantized, info = store.load(out)
    assert encoder.run(quantized, [2, 5, 3]).shape == (3,)
    assert info == json.loads(figures.read_text())
    assert info["spec"]["labels"] == ["bad", "good", "mixed"]
    assert info["calibration"]["texts"] == len(TEXTS)
    assert info["calibration"]["data"] == str(data)
    assert len(info["checkpoint"]["sha256"]) == 64
    assert TextTokenizer(out).resolved == TextTokenizer(model).resolved
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    assert calibrate.main(arguments) == 0
    assert before == {file.name: file.read_bytes() for file in out.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nowhere"], "error: no checkpoint directory nowhere: it must exist"),
        (["--data", "nowhere.csv"], "error: no data set or file named 'nowhere.csv': give one of"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str],
    message: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    assert calibrate.main(["--model", str(model), "--out", str(out), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--samples", "0"], "0 is out of range: it must be 1 or more"),
        (["--tokens", "many"], "'many' is not a whole number"),
        (["--method", "best"], "invalid choice: 'best'"),
        (
            ["--remedies", "centre,magic"],
            "'magic' is no remedy: allowed auto, none, all, centre, balance, split",
        ),
        (["--remedies", ""], "'' is no remedy: allowed auto, none, all, centre"),
    ],
)
def test_options_are_checked(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        calibrate.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "taken"),
    [("none", []), ("all", list(REMEDIES)), ("split, centre", ["centre", "split"])],
)
def test_remedies_are_those_asked_for(
    given: str,
    taken: list[str],
    model: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    arguments = ["--model", str(model), "--data", str(data), "--out", str(out)]
    assert calibrate.main([*arguments, "--remedies", given]) == 0
    assert f"remedies: {', '.join(taken) or 'none'}\n" in capsys.readouterr().out
    info = store.load(out)[1]
    assert info["calibration"]["remedies"] == taken
    assert info["trials"] == {}
    assert calibrate.main(arguments) == 0
    assert "; tried, by the mean error of the logits: " in capsys.readouterr().out
    assert store.load(out)[1]["trials"].keys() >= {"none", "+".join(REMEDIES)}


def test_precise(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", str(model), "--data", str(data), "--out", str(tmp_path / "out")]
    for precise in (True, False):
        assert calibrate.main([*arguments, *["--precise"] * precise]) == 0
        made, info = store.load(tmp_path / "out")
        assert made.precise == info["calibration"]["precise"] == precise
        bits = info["tensors"]["layer.0.ffn.hidden"]["bits"]
        assert bits == (16 if precise else 8)
    capsys.readouterr()


def test_tensors_of_a_rewritten_model_are_near_those_of_the_checkpoint() -> None:
    """Whatever was centred, balanced, split: the description leads back to the float model's."""
    source = checkpoint()
    source.arrays["layer.1.ffn.up.weight"][7] *= 12
    texts = inputs(20, 1, source.spec)
    quantized, errors = calibrate.calibrate(source, texts, Options(remedies=REMEDIES), {})
    assert quantized.info["tensors"]["layer.1.ffn.hidden"]["copies"]
    for name in ("q", "k", "v", "scores", "context", "ffn.hidden", "ffn.norm", "ffn.x8"):
        assert errors[f"layer.1.{name}"].sqnr > 25, name
    assert errors["pooled"].sqnr > 25


def test_interruption_writes_nothing(
    model: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate, "check", interrupted)
    out = tmp_path / "out"
    arguments = [
        "--model",
        str(model),
        "--data",
        str(data),
        "--out",
        str(out),
        "--remedies",
        "none",
    ]
    assert calibrate.main(arguments) == 130
    assert capsys.readouterr().err.splitlines() == [
        f"note: {data}: not read: label",
        "observing: 5 texts",
        "running golden: 1 times 32 texts",
        "interrupted: nothing was written",
    ]
    assert not out.exists()


def test_a_model_whose_scores_saturate_later_is_refused(shipped: Checkpoint, texts: list) -> None:
    """Calibrated on one text, checked on others that reach further."""
    observers, _ = calibrate.observe_all(shipped, texts[:1])
    quantized = calibrate.quantize(shipped.spec, shipped.arrays, observers, Options())
    layers = quantized.model.layers
    object.__setattr__(layers[1].attention, "score_s", layers[1].attention.score_s - 6)
    with pytest.raises(CalibrationError, match=r"layer.1.scores: \d+ of \d+ scores saturate"):
        calibrate.check(shipped, quantized, texts[:2])


def test_golden_stays_close_on_texts_it_was_not_calibrated_on(
    classifier: object, texts: list
) -> None:
    checkpoint = classifier.require_checkpoint()
    errors = calibrate.check(
        checkpoint, calibrate.Quantized(classifier.model, classifier.info), texts[:4]
    )
    assert errors["logits"].sqnr > 35
    for name, error in errors.items():
        assert error.sqnr > 22, name
        if name.endswith(".sum"):
            assert error.limits == 0, name


def test_ensure_calibrates_once_and_again_for_another_checkpoint(
    tmp_path: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(calibrate, "DEFAULT_DATA", str(data))
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    assert calibrate.ensure(model, out) == out
    assert "there is none yet" in capsys.readouterr().err
    stamp = (out / store.DESCRIPTION).stat().st_mtime_ns
    assert calibrate.ensure(model, out) == out
    assert capsys.readouterr().err == ""
    assert (out / store.DESCRIPTION).stat().st_mtime_ns == stamp
    tiny.write(model, arrays=tiny.tensors(seed=2))
    calibrate.ensure(model, out)
    assert "of another checkpoint" in capsys.readouterr().err
    np.testing.assert_equal(store.load(out)[1]["checkpoint"]["directory"], str(model))


def test_of_two_that_need_it_at_once_one_calibrates(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "DEFAULT_DATA", str(data))
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    sound, begun = calibrate.calibrate, []

    def slow(*arguments: object) -> object:
        begun.append(arguments)
        time.sleep(0.5)
        return sound(*arguments)

    monkeypatch.setattr(calibrate, "calibrate", slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: calibrate.ensure(model, out), range(2)))
    assert found == [out, out]
    assert len(begun) == 1


def test_the_processor_and_its_threads_do_not_matter(tmp_path: Path) -> None:
    """The same integers with the BLAS kernels of another processor and another thread count."""
    models = []
    for kernels, threads in (("Prescott", "1"), ("Haswell", "2")):
        out = tmp_path / kernels
        environment = os.environ | {"OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": threads}
        arguments = ["--samples", "16", "--tokens", "96", "--out", str(out)]
        command = [sys.executable, "-m", "quant.calibrate", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        with np.load(out / "quantized.npz") as arrays:
            models.append(dict(arrays))
    assert models[0].keys() == models[1].keys()
    for name, array in models[0].items():
        np.testing.assert_array_equal(array, models[1][name], err_msg=name)
